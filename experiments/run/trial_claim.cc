#include "experiments/run/trial_claim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"
#include "sim/base/json_value.h"
#include "sim/base/temporary_file.h"

namespace emplace::experiments {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostClaimBytes = 4096;
constexpr double kLongestLeaseSeconds = 86400;  // the limit of --lease

std::string LockOf(const std::string& folder) { return (fs::path(folder) / "lock").string(); }
std::string NextOf(const std::string& lock) { return lock + ".next"; }

double SecondsOf(const timespec& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// A file of /proc that has one line.
std::string LineOf(const std::string& path) {
  std::string line;
  std::ifstream in(path);
  std::getline(in, line);
  return line;
}

// The start of a process in ticks since the boot; "" if there is no such process or it is dead.
std::string StartOf(const std::string& process) {
  const std::string line = LineOf("/proc/" + process + "/stat");
  // The second field is the program's name in parentheses, which may hold blanks and parentheses.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream rest(line.substr(name_end + 1));
  std::string field;
  constexpr int kState = 3;
  constexpr int kStartTime = 22;  // index of the field in proc(5)
  for (int number = kState; number <= kStartTime; ++number) {
    rest >> field;
    if (number == kState && (field == "Z" || field == "X")) return "";
  }
  return field;
}

std::string BootText() {
  const std::string boot = LineOf("/proc/sys/kernel/random/boot_id");
  std::error_code failed;
  const std::string processes = fs::read_symlink("/proc/self/ns/pid", failed).string();
  return boot.empty() || failed ? "" : boot + " " + processes;
}

const std::string& ThisBoot() {
  static const std::string boot = BootText();
  return boot;
}

std::string TextOf(const ClaimHolder& holder) {
  JsonObject json;
  AddMember(&json, "schema", "emplace.lock");
  AddMember(&json, "version", 1);
  AddMember(&json, "host", holder.host);
  AddMember(&json, "boot", holder.boot);
  AddMember(&json, "process", holder.process);
  AddMember(&json, "started", holder.started);
  AddMember(&json, "instance", holder.instance);
  AddMember(&json, "lease_s", holder.lease_seconds);
  AddMember(&json, "since_unix_s", holder.since_unix_s);
  return JsonText({std::move(json)}) + "\n";
}

double NumberOf(const JsonValue& value) {
  if (const auto* real = value.As<double>()) return *real;
  if (const auto* whole = value.As<std::int64_t>()) return static_cast<double>(*whole);
  return 0;
}

// An empty holder with the default lease if the text is not a claim: it is being written, or an earlier version's.
ClaimHolder HolderOf(const std::string& text) {
  ClaimHolder holder;
  holder.lease_seconds = std::chrono::duration<double>(kDefaultLease).count();
  try {
    const JsonValue json = ParseJson(text);
    const auto take = [&json](std::string_view key, std::string* field) {
      const JsonValue* value = FindMember(json, key);
      const auto* found = value == nullptr ? nullptr : value->As<std::string>();
      if (found != nullptr) *field = *found;
    };
    take("host", &holder.host);
    take("boot", &holder.boot);
    take("started", &holder.started);
    take("instance", &holder.instance);
    if (const JsonValue* value = FindMember(json, "process")) {
      if (const auto* process = value->As<std::int64_t>()) holder.process = *process;
    }
    if (const JsonValue* value = FindMember(json, "lease_s")) {
      const double seconds = NumberOf(*value);
      if (seconds > 0 && seconds <= kLongestLeaseSeconds) holder.lease_seconds = seconds;
    }
    if (const JsonValue* value = FindMember(json, "since_unix_s")) holder.since_unix_s = NumberOf(*value);
  } catch (const InputError&) {
    // As said above.
  }
  return holder;
}

std::optional<ClaimSight> ReadClaim(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  ClaimSight sight;
  struct stat info {};
  // A pipe or a device in its place is not a claim of any worker: it counts as expired.
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) sight.renewed_unix_s = SecondsOf(info.st_mtim);
  sight.text.resize(kMostClaimBytes);
  const ssize_t count = ::read(fd, sight.text.data(), sight.text.size());
  ::close(fd);
  if (count < 0) return std::nullopt;
  sight.text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  sight.holder = HolderOf(sight.text);
  return sight;
}

// Writes a new file, which must not exist; false if it does.
bool CreateExclusively(const std::string& path, ClaimHolder* holder, std::string* text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0 && errno == EEXIST) return false;
  if (fd < 0) throw WriteError(path, errno);
  struct stat info {};
  if (::fstat(fd, &info) == 0) holder->since_unix_s = SecondsOf(info.st_mtim);
  *text = TextOf(*holder);
  errno = 0;
  const bool written = ::write(fd, text->data(), text->size()) == static_cast<ssize_t>(text->size());
  const int error = errno;
  if (written && ::close(fd) == 0) return true;
  if (!written) ::close(fd);
  ::unlink(path.c_str());
  throw WriteError(path, error == 0 ? ENOSPC : error);  // a part was written: the disk is full
}

// Replaces an expired claim. `lock.next` is created exclusively and then renamed, so that one process at a time can.
bool Replace(const std::string& path, const ClaimSight& expired, ClaimHolder* holder, std::string* text) {
  const std::string next = NextOf(path);
  const std::string folder = fs::path(path).parent_path().string();
  if (!CreateExclusively(next, holder, text)) {
    // Left behind by a process that was killed here: removed if that was on this machine, and else once it is old.
    const std::optional<ClaimSight> left = ReadClaim(next);
    const std::optional<double> now = left && !HasEnded(left->holder) ? FileSystemSeconds(folder) : std::nullopt;
    if (left && HasExpired(*left, now)) ::unlink(next.c_str());
    return false;
  }
  const std::optional<ClaimSight> again = SeeClaim(folder);
  const bool unchanged = again && again->text == expired.text && again->renewed_unix_s == expired.renewed_unix_s;
  if (unchanged && ::rename(next.c_str(), path.c_str()) == 0) return true;
  ::unlink(next.c_str());
  return false;
}

}  // namespace

ClaimHolder ThisProcess(std::chrono::milliseconds lease) {
  static std::atomic<unsigned> counter{0};
  ClaimHolder holder;
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  // Slurm gives its nodes names, which are those that its users know.
  const char* const node = std::getenv("SLURMD_NODENAME");
  holder.host = node != nullptr ? node : host.data();
  holder.boot = ThisBoot();
  holder.process = ::getpid();
  holder.started = StartOf("self");
  holder.instance = fmt::format("{} {} {} {} {}", holder.host, holder.boot, holder.process, holder.started, counter++);
  holder.lease_seconds = std::chrono::duration<double>(lease).count();
  return holder;
}

bool HasEnded(const ClaimHolder& holder) {
  if (holder.boot.empty() || holder.started.empty() || holder.process <= 0 || holder.boot != ThisBoot()) return false;
  if (::kill(static_cast<pid_t>(holder.process), 0) != 0 && errno == ESRCH) return true;
  // The ID may be another process's by now. Without a readable /proc nothing is known.
  if (StartOf("self").empty()) return false;
  return StartOf(std::to_string(holder.process)) != holder.started;
}

std::optional<ClaimSight> SeeClaim(const std::string& trial_folder) { return ReadClaim(LockOf(trial_folder)); }

std::optional<double> FileSystemSeconds(const std::string& folder, std::chrono::milliseconds kept) {
  using Clock = std::chrono::steady_clock;
  static std::mutex mutex;
  static std::map<std::string, std::pair<Clock::time_point, double>> known;
  const std::lock_guard lock(mutex);
  const Clock::time_point now = Clock::now();
  const auto found = known.find(folder);
  if (found != known.end() && now - found->second.first < kept) return found->second.second;
  const TemporaryFile file((fs::path(folder) / "clock").string());
  struct stat info {};
  if (file.fd() < 0 || ::futimens(file.fd(), nullptr) != 0 || ::fstat(file.fd(), &info) != 0) return std::nullopt;
  const double seconds = SecondsOf(info.st_mtim);
  if (kept > std::chrono::milliseconds(0)) known[folder] = {now, seconds};
  return seconds;
}

void RenewIfInFuture(const std::string& trial_folder) {
  constexpr std::chrono::milliseconds kKept(1000);
  const std::optional<ClaimSight> sight = SeeClaim(trial_folder);
  if (!sight) return;
  const std::optional<double> now = FileSystemSeconds(fs::path(trial_folder).parent_path().string(), kKept);
  const double latest = now.value_or(sight->renewed_unix_s) + 2 * std::chrono::duration<double>(kKept).count();
  if (sight->renewed_unix_s > latest) ::utimensat(AT_FDCWD, LockOf(trial_folder).c_str(), nullptr, 0);
}

bool HasExpired(const ClaimSight& sight, std::optional<double> now_unix_s) {
  if (HasEnded(sight.holder)) return true;
  return now_unix_s && *now_unix_s - sight.renewed_unix_s > sight.holder.lease_seconds;
}

void RemoveClaimOf(const std::string& trial_folder, std::int64_t process) {
  std::optional<ClaimSight> sight = SeeClaim(trial_folder);
  // If a file stays empty, it is taken for that of the killed process, which had not yet written who it is.
  for (int i = 0; i < 20 && sight && sight->text.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    sight = SeeClaim(trial_folder);
  }
  if (!sight) return;
  const bool is_its = sight->holder.process == process && sight->holder.boot == ThisBoot();
  if (is_its || sight->text.empty()) ::unlink(LockOf(trial_folder).c_str());
}

void RemoveLeftClaims(const std::string& finished_trial_folder) {
  const std::string lock = LockOf(finished_trial_folder);
  for (const std::string& path : {lock, NextOf(lock)}) {
    const std::optional<ClaimSight> sight = ReadClaim(path);
    if (sight && HasEnded(sight->holder)) ::unlink(path.c_str());
  }
}

std::unique_ptr<TrialClaim> TrialClaim::Take(const std::string& trial_folder, std::chrono::milliseconds lease) {
  const std::string path = LockOf(trial_folder);
  ClaimHolder holder = ThisProcess(lease);
  std::string text;
  std::optional<ClaimHolder> taken_from;
  if (!CreateExclusively(path, &holder, &text)) {
    const std::optional<ClaimSight> sight = SeeClaim(trial_folder);
    if (!sight) return nullptr;  // just released; the caller asks again
    const std::optional<double> now = HasEnded(sight->holder) ? std::nullopt : FileSystemSeconds(trial_folder);
    if (!HasExpired(*sight, now) || !Replace(path, *sight, &holder, &text)) return nullptr;
    taken_from = sight->holder;
  }
  std::unique_ptr<TrialClaim> claim(new TrialClaim(path, text, lease));
  claim->taken_from_ = std::move(taken_from);
  return claim;
}

TrialClaim::TrialClaim(std::string path, std::string text, std::chrono::milliseconds lease)
    : path_(std::move(path)), text_(std::move(text)), lease_(lease), renewed_(Clock::now()) {
  try {
    thread_ = std::thread([this] { KeepRenewing(); });
  } catch (const std::system_error&) {
    // No thread can be started: Held(), which the trial calls again and again, renews the claim too.
  }
}

TrialClaim::~TrialClaim() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (Held()) ::unlink(path_.c_str());
}

void TrialClaim::KeepRenewing() {
  // The stop signals are for the thread that runs the trial.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(mutex_);
  while (!lost_ && !wake_.wait_for(lock, lease_ / 6, [this] { return stopping_; })) Renew();
}

void TrialClaim::Renew() {
  const Clock::time_point started = Clock::now();
  const std::optional<ClaimSight> sight = SeeClaim(fs::path(path_).parent_path().string());
  if (sight && sight->text == text_) {
    if (::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0) == 0) renewed_ = started;
  } else if (sight || errno == ENOENT) {
    lost_ = true;
  }
  // The file system may answer again: until the lease has expired, the claim is held.
  if (Clock::now() - renewed_ > lease_) lost_ = true;
}

bool TrialClaim::Held() {
  const std::lock_guard lock(mutex_);
  if (!lost_ && Clock::now() - renewed_ > lease_ / 2) Renew();
  return !lost_;
}

}  // namespace emplace::experiments
