#include "agents/python/agent_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "agents/agent.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::agents {
namespace {

struct HostText {
  std::string_view name;
  std::string_view text;
};
constexpr HostText kHostTexts[] = {
#include "agent_host.inc"
};

constexpr int kHostSocket = 3;  // in the child
constexpr std::chrono::seconds kGrace(5);
constexpr std::size_t kMostAnswerBytes = (std::size_t{1} << 30) + (std::size_t{1} << 20);
constexpr std::size_t kMostErrorBytes = 500;

// The attributes of the child process besides its program: its files, and a separate process group.
class SpawnActions {
 public:
  SpawnActions() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
  posix_spawn_file_actions_t actions_{};
};

// The status with which the process ended, as waitpid returns it, or -1, which is no process's status, if it is
// unknown. A process that runs longer than `patience` is killed and has no status. The processes that it started end,
// too.
std::optional<int> EndOf(pid_t process, std::chrono::milliseconds patience = std::chrono::seconds(2)) {
  using namespace std::chrono_literals;
  const auto has_ended = [process] {
    siginfo_t info{};
    // It stays to be waited for, so that no other process takes its number meanwhile.
    const int failed = waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT);
    return failed != 0 || info.si_pid != 0;
  };
  bool ended = has_ended();
  for (auto waited = 0ms; !ended && waited < patience; waited += 1ms) {
    std::this_thread::sleep_for(1ms);
    ended = has_ended();
  }
  if (!ended) kill(process, SIGKILL);
  kill(-process, SIGKILL);  // its group
  int status = -1;
  if (waitpid(process, &status, 0) != process) status = -1;
  return ended ? std::optional(status) : std::nullopt;
}

// CPU time of a process, of its children that it has waited for, and of its children that are still running; 0 if there
// is no such process. Source: Linux's proc_pid_stat(5) and proc_tid_children(5).
double CpuSecondsOfTree(pid_t root) {
  namespace fs = std::filesystem;
  constexpr std::size_t kMostProcesses = 10'000;
  double ticks = 0;
  std::vector<pid_t> processes = {root};
  for (std::size_t i = 0; i < processes.size() && i < kMostProcesses; ++i) {
    const fs::path folder = fmt::format("/proc/{}", processes[i]);
    std::ifstream stat(folder / "stat");
    const std::string text{std::istreambuf_iterator<char>(stat), {}};
    std::istringstream fields(
        text.substr(std::min(text.rfind(')') + 1, text.size())));  // the fields after the program's name
    std::string skipped;
    constexpr int kBeforeTimes = 11;  // state to cmajflt
    for (int k = 0; k < kBeforeTimes; ++k) fields >> skipped;
    double time = 0;
    for (int k = 0; k < 4 && fields >> time; ++k) ticks += time;  // utime, stime, cutime, cstime
    std::error_code error;
    for (const fs::directory_entry& thread : fs::directory_iterator(folder / "task", error)) {
      std::ifstream children(thread.path() / "children");
      for (pid_t child = 0; children >> child;) processes.push_back(child);
    }
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// At most `most` bytes, cut between characters.
std::string CutTo(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80U) --most;
  text.resize(most);
  return text + "..";
}

}  // namespace

std::string AgentPython() {
  const char* const given = std::getenv("EMPLACE_PYTHON");
  if (given != nullptr && *given != '\0') return given;
  const char* const environment = std::getenv("VIRTUAL_ENV");
  if (environment != nullptr && *environment != '\0') return std::string(environment) + "/bin/python3";
  return "/usr/bin/python3";
}

AgentProcess::AgentProcess(std::string name, std::function<bool()> stop)
    : name_(std::move(name)), stop_(std::move(stop)) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw InputError(name_, fmt::format("no socket for its process ({})", std::strerror(errno)));
  }
  socket_ = ends[0];
  SpawnActions actions;
  posix_spawn_file_actions_addopen(actions.get(), 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(actions.get(), ends[1], kHostSocket);
  const std::string python = AgentPython();
  std::string arguments[] = {python, "-c", std::string(kHostTexts[0].text), std::to_string(kHostSocket), name_};
  char* pointers[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                      arguments[3].data(), arguments[4].data(), nullptr};
  const int error = posix_spawnp(&process_, python.c_str(), actions.get(), actions.attributes(), pointers, environ);
  close(ends[1]);
  if (error != 0) {
    process_ = -1;
    close(socket_);
    throw InputError(name_, fmt::format("{} cannot be started ({}; EMPLACE_PYTHON names another Python)", python,
                                        std::strerror(error)));
  }
}

AgentProcess::~AgentProcess() {
  close(socket_);  // the process then ends by itself
  if (process_ >= 0) EndOf(process_);
}

void AgentProcess::ThrowWhyItEnded() {
  if (process_ < 0) throw InputError(name_, "its process has ended");
  const std::optional<int> end = EndOf(std::exchange(process_, -1));
  if (!end) throw InputError(name_, "its process closed its connection but kept running, and was stopped");
  if (WIFSIGNALED(*end)) {
    throw InputError(name_,
                     fmt::format("its process was ended by signal {} ({})", WTERMSIG(*end), strsignal(WTERMSIG(*end))));
  }
  throw InputError(name_, fmt::format("its process ended with status {} (an agent returns from each call)",
                                      WIFEXITED(*end) ? WEXITSTATUS(*end) : -1));
}

void AgentProcess::WaitFor(short events) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> end;
  while (true) {
    pollfd waiting{.fd = socket_, .events = events, .revents = 0};
    constexpr int kBetweenQuestionsMillis = 50;
    const int ready = poll(&waiting, 1, stop_ ? kBetweenQuestionsMillis : -1);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return;
    if (!stop_ || !stop_()) continue;
    if (!end) end = Clock::now() + kGrace;
    if (Clock::now() < *end) continue;
    CpuSeconds();  // the last that can be known
    EndOf(std::exchange(process_, -1), std::chrono::milliseconds(0));
    throw AgentDoesNotAnswer(
        name_, fmt::format("did not respond for {} s after the end of the search, and was stopped", kGrace.count()));
  }
}

std::string AgentProcess::ReadLine() {
  std::size_t searched = 0;
  while (true) {
    const std::size_t end = read_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    searched = read_.size();
    if (searched > kMostAnswerBytes) {
      throw InputError(name_, fmt::format("its answer is longer than {} bytes", kMostAnswerBytes));
    }
    char block[65536];
    WaitFor(POLLIN);
    const ssize_t count = recv(socket_, block, sizeof(block), MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) ThrowWhyItEnded();
    read_.append(block, static_cast<std::size_t>(count));
  }
}

double AgentProcess::CpuSeconds() const {
  if (process_ < 0) return gone_seconds_ + tree_seconds_;
  // The time of a process that ended without being waited for is not part of later sums.
  const double seconds = CpuSecondsOfTree(process_);
  gone_seconds_ += std::max(tree_seconds_ - seconds, 0.0);
  tree_seconds_ = seconds;
  return gone_seconds_ + tree_seconds_;
}

JsonValue AgentProcess::Ask(JsonObject question) {
  std::string text = JsonText({std::move(question)}) + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    WaitFor(POLLOUT);
    const ssize_t count = send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) ThrowWhyItEnded();
    sent += static_cast<std::size_t>(count);
  }
  std::istringstream line(ReadLine());
  JsonValue answer = WithLocation(name_, [&] {
    return ParseJson(line, {}, {.text_bytes = std::size_t{1} << 30, .values = JsonBuilder::kMaxValues});
  });
  if (const JsonValue* const error = FindMember(answer, "error")) {
    const JsonValue* const place = FindMember(answer, "place");
    const std::string* const where = place != nullptr ? place->As<std::string>() : nullptr;
    const std::string* const what = error->As<std::string>();
    throw InputError(name_, CutTo((where != nullptr ? *where + ": " : "") + (what != nullptr ? *what : "an error"),
                                  kMostErrorBytes));
  }
  return answer;
}

}  // namespace emplace::agents
