#include "agents/python/agent_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

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

class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// The status with which the process ended, as waitpid gives it; -1, the status of no end, if that is unknown. A process
// that runs on for two seconds is killed, and has none.
std::optional<int> EndOf(pid_t process) {
  using namespace std::chrono_literals;
  int status = -1;
  for (int i = 0; i < 2000; ++i) {
    if (waitpid(process, &status, WNOHANG) != 0) return status;
    std::this_thread::sleep_for(1ms);
  }
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  return std::nullopt;
}

}  // namespace

std::string AgentPython() {
  const char* const given = std::getenv("EMPLACE_PYTHON");
  if (given != nullptr && *given != '\0') return given;
  const char* const environment = std::getenv("VIRTUAL_ENV");
  if (environment != nullptr && *environment != '\0') return std::string(environment) + "/bin/python3";
  return "/usr/bin/python3";
}

AgentProcess::AgentProcess(std::string name) : name_(std::move(name)) {
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
  const int error = posix_spawnp(&process_, python.c_str(), actions.get(), nullptr, pointers, environ);
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

void AgentProcess::SayWhyItEnded() {
  const std::optional<int> end = EndOf(std::exchange(process_, -1));
  if (!end) throw InputError(name_, "its process closed its connection and ran on, and was stopped");
  if (WIFSIGNALED(*end)) {
    throw InputError(name_,
                     fmt::format("its process was ended by signal {} ({})", WTERMSIG(*end), strsignal(WTERMSIG(*end))));
  }
  throw InputError(name_, fmt::format("its process ended with status {} (an agent returns from each call)",
                                      WIFEXITED(*end) ? WEXITSTATUS(*end) : -1));
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
    char block[65536];
    const ssize_t count = recv(socket_, block, sizeof(block), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) SayWhyItEnded();
    read_.append(block, static_cast<std::size_t>(count));
  }
}

JsonValue AgentProcess::Ask(JsonObject question) {
  std::string text = JsonText({std::move(question)}) + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count = send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) SayWhyItEnded();
    sent += static_cast<std::size_t>(count);
  }
  std::istringstream line(ReadLine());
  JsonValue answer = AtPlace(name_, [&] {
    return ParseJson(line, {}, {.text_bytes = std::size_t{1} << 30, .values = JsonBuilder::kMaxValues});
  });
  if (const JsonValue* const error = FindMember(answer, "error")) {
    const JsonValue* const place = FindMember(answer, "place");
    const std::string* const where = place != nullptr ? place->As<std::string>() : nullptr;
    const std::string* const what = error->As<std::string>();
    throw InputError(name_, (where != nullptr ? *where + ": " : "") + (what != nullptr ? *what : "an error"));
  }
  return answer;
}

}  // namespace emplace::agents
