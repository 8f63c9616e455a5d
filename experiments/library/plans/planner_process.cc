#include "experiments/library/plans/planner_process.h"

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
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "agents/python/agent_process.h"
#include "sim/base/check.h"

namespace emplace::experiments {
namespace {

namespace fs = std::filesystem;

struct HostText {
  std::string_view name;
  std::string_view text;
};
constexpr HostText kHostTexts[] = {
#include "planner_host.inc"
};

constexpr std::size_t kMostLineBytes = std::size_t{1} << 20;

// The status with which a process ended, as waitpid returns it; none if it had to be killed. Its children end, too.
std::optional<int> EndOf(pid_t process, std::chrono::milliseconds patience) {
  using namespace std::chrono_literals;
  const auto has_ended = [process] {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
  };
  bool ended = has_ended();
  for (auto waited = 0ms; !ended && waited < patience; waited += 1ms) {
    std::this_thread::sleep_for(1ms);
    ended = has_ended();
  }
  kill(-process, SIGKILL);  // its group
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return ended ? std::optional(status) : std::nullopt;
}

}  // namespace

std::vector<std::string> PlannerCommand(const std::string& planner) {
  if (planner.find('/') != std::string::npos) {
    if (!fs::exists(planner)) throw InputError(planner, "is no program (there is no such file)");
    if (fs::is_directory(planner) || access(planner.c_str(), X_OK) != 0) {
      throw InputError(planner, "is no program (a file that may be executed)");
    }
    return {planner};
  }
  if (planner.find(':') == std::string::npos) return {};
  return {agents::AgentPython(), "-c", std::string(kHostTexts[0].text), planner};
}

PlannerProcess::PlannerProcess(std::vector<std::string> command, std::chrono::duration<double> patience)
    : patience_(patience) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw InputError("", fmt::format("no socket for its process ({})", std::strerror(errno)));
  }
  socket_ = ends[0];
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawnp(&process_, command[0].c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    process_ = -1;
    close(socket_);
    throw InputError(command[0], fmt::format("cannot be started ({})", std::strerror(error)));
  }
}

PlannerProcess::~PlannerProcess() {
  close(socket_);  // the process then reads the end of its input
  if (process_ >= 0) EndOf(process_, std::chrono::seconds(1));
}

void PlannerProcess::WaitFor(short events, Clock::time_point end) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd waiting{.fd = socket_, .events = events, .revents = 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30)));
    if (ready > 0) return;
    if (ready < 0 && errno == EINTR) continue;
    if (Clock::now() < end) continue;
    EndOf(std::exchange(process_, -1), std::chrono::milliseconds(0));
    throw InputError("", fmt::format("did not respond for {} s, and was stopped", patience_.count()));
  }
}

void PlannerProcess::CheckEnd() {
  if (process_ < 0) return;
  const std::optional<int> end = EndOf(std::exchange(process_, -1), std::chrono::seconds(2));
  if (!end) throw InputError("", "closed its output but kept running, and was stopped");
  if (WIFSIGNALED(*end)) {
    throw InputError("", fmt::format("was ended by signal {} ({})", WTERMSIG(*end), strsignal(WTERMSIG(*end))));
  }
  if (WEXITSTATUS(*end) != 0) throw InputError("", fmt::format("ended with status {}", WEXITSTATUS(*end)));
}

void PlannerProcess::WriteLine(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience_);
  for (std::size_t sent = 0; sent < text.size();) {
    WaitFor(POLLOUT, end);
    const ssize_t count = send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return;  // it does not read any more, which it may; ReadLine says how it ended
    sent += static_cast<std::size_t>(count);
  }
}

std::optional<std::string> PlannerProcess::ReadLine() {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience_);
  while (true) {
    const std::size_t length = read_.find('\n');
    if (length != std::string::npos) {
      std::string line = read_.substr(0, length);
      read_.erase(0, length + 1);
      return line;
    }
    if (read_.size() > kMostLineBytes) throw InputError("", fmt::format("has a line of over {} bytes", kMostLineBytes));
    char block[65536];
    WaitFor(POLLIN, end);
    const ssize_t count = recv(socket_, block, sizeof(block), MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count > 0) {
      read_.append(block, static_cast<std::size_t>(count));
      continue;
    }
    CheckEnd();
    if (read_.empty()) return std::nullopt;
    return std::exchange(read_, {});  // a last line without an end
  }
}

}  // namespace emplace::experiments
