#include "experiments/run/trial_runner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include "experiments/run/run_folder.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/terminal.h"

namespace emplace::experiments {
namespace {

constexpr std::size_t kMostTrialsOfARunner = 200;
constexpr std::chrono::duration<double> kLongTrial(1);

constexpr std::array<std::pair<std::string_view, RunnerReply>, 7> kReplies = {
    {{"done", RunnerReply::kDone},
     {"failed", RunnerReply::kFailed},
     {"busy", RunnerReply::kBusy},
     {"lost", RunnerReply::kLost},
     {"interrupted", RunnerReply::kInterrupted},
     {"differs", RunnerReply::kDiffers},
     {"unwritable", RunnerReply::kCannotWrite}}};

// The message of a runner before its reply, when it only writes the files of a short trial and waits for the disk.
constexpr std::string_view kPublishing = "publishing\n";

[[noreturn]] void Fail(const std::string& what) {
  throw InputError("", what + " (" + std::generic_category().message(errno) + ")");
}

// Runs in the child between fork and exec, so only async-signal-safe calls are allowed.
[[noreturn]] void BecomeRunner(const char* lease, pid_t parent, int socket, int said_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kBug);  // the parent ended before the call of prctl
  const sigset_t awaited = AwaitedSignals();
  sigprocmask(SIG_UNBLOCK, &awaited, nullptr);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(socket, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  dup2(said_fd, STDERR_FILENO);
  execl("/proc/self/exe", "emplace", "trial", "--serve", lease, static_cast<char*>(nullptr));
  _exit(kBug);
}

std::string_view WordOf(RunnerReply reply) {
  return std::find_if(kReplies.begin(), kReplies.end(), [reply](const auto& r) { return r.second == reply; })->first;
}

RunnerReply ReplyOf(TrialOutcome outcome) {
  switch (outcome) {
    case TrialOutcome::kDone:
      return RunnerReply::kDone;
    case TrialOutcome::kFailed:
      return RunnerReply::kFailed;
    case TrialOutcome::kBusy:
      return RunnerReply::kBusy;
    case TrialOutcome::kLost:
      return RunnerReply::kLost;
    case TrialOutcome::kInterrupted:
      return RunnerReply::kInterrupted;
    case TrialOutcome::kDiffers:
      break;
  }
  return RunnerReply::kDiffers;
}

std::atomic<bool> runner_interrupted{false};

RunnerReply RunAndReport(const std::string& folder, const TrialRunOptions& options) {
  try {
    return ReplyOf(RunTrialFolder(folder, options));
  } catch (const InputError& error) {
    PrintMessage(error.what());
    return RunnerReply::kCannotWrite;
  }
}

// Takes a line from `inbox`, reading more as necessary; nullopt at the end, and when interrupted.
std::optional<std::string> NextLine(int fd, std::string* inbox) {
  for (;;) {
    if (const std::size_t end = inbox->find('\n'); end != std::string::npos) {
      std::string line = inbox->substr(0, end);
      inbox->erase(0, end + 1);
      return line;
    }
    std::array<char, 4096> buffer{};
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count <= 0) return std::nullopt;
    inbox->append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

sigset_t AwaitedSignals() {
  sigset_t set = StopSignals();
  sigaddset(&set, SIGCHLD);
  return set;
}

TrialRunner::TrialRunner(std::chrono::milliseconds lease) : said_fd_(memfd_create("said", MFD_CLOEXEC)) {
  if (said_fd_ < 0) Fail("no memory for what a trial says");
  std::array<int, 2> pair{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) Fail("no socket for a trial");
  fd_ = pair[0];
  fcntl(fd_, F_SETFL, O_NONBLOCK);
  const std::string text = std::to_string(lease.count());
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) Fail("no process for a trial");
  if (pid_ == 0) BecomeRunner(text.c_str(), parent, pair[1], said_fd_);
  close(pair[1]);
}

TrialRunner::~TrialRunner() {
  if (pid_ != 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (fd_ >= 0) close(fd_);
  if (said_fd_ >= 0) close(said_fd_);
}

bool TrialRunner::IsWorn() const { return trials_ >= kMostTrialsOfARunner || longest_ > kLongTrial; }

void TrialRunner::Start(const std::string& folder) {
  EMPLACE_CHECK(folder_.empty());
  folder_ = folder;
  publishing_ = false;
  ++trials_;
  started_ = Clock::now();
  const std::string line = folder + "\n";
  // If the process has just ended, SIGCHLD says so.
  if (send(fd_, line.data(), line.size(), MSG_NOSIGNAL) < 0) return;
}

std::optional<RunnerReply> TrialRunner::TakeReply() {
  std::array<char, 256> buffer{};
  for (ssize_t count = 0; (count = read(fd_, buffer.data(), buffer.size())) > 0;) {
    inbox_.append(buffer.data(), static_cast<std::size_t>(count));
  }
  if (inbox_.starts_with(kPublishing)) {
    publishing_ = true;
    inbox_.erase(0, kPublishing.size());
  }
  const std::size_t end = inbox_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  const std::string word = inbox_.substr(0, end);
  inbox_.clear();
  const auto* const found =
      std::find_if(kReplies.begin(), kReplies.end(), [&word](const auto& reply) { return reply.first == word; });
  EMPLACE_CHECK(found != kReplies.end());
  longest_ = std::max<std::chrono::duration<double>>(longest_, Clock::now() - started_);
  folder_.clear();
  return found->second;
}

std::string TrialRunner::TakeSaid() {
  std::string text;
  std::array<char, 4096> buffer{};
  // The process writes at the same offset.
  lseek(said_fd_, 0, SEEK_SET);
  for (ssize_t count = 0; (count = read(said_fd_, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  if (ftruncate(said_fd_, 0) == 0) lseek(said_fd_, 0, SEEK_SET);
  return text;
}

void TrialRunner::Interrupt() const {
  if (pid_ != 0) kill(pid_, SIGTERM);
}

std::optional<int> TrialRunner::TakeStatus() {
  int status = 0;
  if (pid_ == 0 || waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = 0;
  return status;
}

int ServeTrials(std::chrono::milliseconds lease) {
  struct sigaction action {};
  action.sa_handler = [](int) { runner_interrupted = true; };  // without SA_RESTART: ends the wait for a line
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  TrialRunner::Clock::time_point started;
  // A long trial may need much memory, so that no other is started beside it.
  const auto publishing = [&started] {
    if (TrialRunner::Clock::now() - started > kLongTrial) return;
    send(STDIN_FILENO, kPublishing.data(), kPublishing.size(), MSG_NOSIGNAL);
  };
  const TrialRunOptions options{
      .lease = lease, .interrupt = [] { return runner_interrupted.load(); }, .publishing = publishing};
  std::string inbox;
  while (!runner_interrupted) {
    const std::optional<std::string> folder = NextLine(STDIN_FILENO, &inbox);
    if (!folder) break;
    started = TrialRunner::Clock::now();
    const std::string reply = std::string(WordOf(RunAndReport(*folder, options))) + "\n";
    if (send(STDIN_FILENO, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) break;
  }
  return kSuccess;
}

}  // namespace emplace::experiments
