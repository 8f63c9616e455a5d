#include "tools/trial_pool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "experiments/run/run_folder.h"
#include "sim/base/check.h"
#include "tools/commands.h"

namespace emplace::tools {
namespace {

constexpr std::chrono::milliseconds kLookEvery(100);
constexpr std::chrono::milliseconds kAskAgainAfter(500);  // retry interval for a trial that another sweep is running

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

[[noreturn]] void Fail(const std::string& what) {
  throw InputError("", what + " (" + std::generic_category().message(errno) + ")");
}

// Runs in the child between fork and exec, so only async-signal-safe calls are allowed.
[[noreturn]] void BecomeTrial(const char* folder, pid_t parent, int said_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kBug);  // the parent ended before the call of prctl
  const sigset_t awaited = AwaitedSignals();
  sigprocmask(SIG_UNBLOCK, &awaited, nullptr);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  dup2(said_fd, STDERR_FILENO);
  execl("/proc/self/exe", "emplace", "trial", folder, static_cast<char*>(nullptr));
  _exit(kBug);
}

// Reads everything that was written to `fd`, and closes it.
std::string TakeText(int fd) {
  std::string text;
  char buffer[4096];
  lseek(fd, 0, SEEK_SET);
  for (ssize_t count = 0; (count = read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  close(fd);
  return text;
}

std::string LastLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

bool WasStopped(int status) {
  return WIFSIGNALED(status) &&
         (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGHUP);
}

}  // namespace

TrialPool::TrialPool(std::size_t processes) : processes_(processes) {
  const sigset_t awaited = AwaitedSignals();
  sigprocmask(SIG_BLOCK, &awaited, nullptr);
  // Each trial has one core: more threads would only slow down the others.
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  setenv("OMP_NUM_THREADS", "1", 1);
}

TrialPool::~TrialPool() {
  StopAll();
  const sigset_t awaited = AwaitedSignals();
  sigprocmask(SIG_UNBLOCK, &awaited, nullptr);
}

void TrialPool::Start(const TrialJob& job) {
  Child child{.job = job, .pid = 0, .said_fd = memfd_create("said", MFD_CLOEXEC)};
  if (child.said_fd < 0) Fail("no memory for what a trial says");
  const pid_t parent = getpid();
  child.pid = fork();
  if (child.pid < 0) Fail("no process for a trial");
  if (child.pid == 0) BecomeTrial(job.folder.c_str(), parent, child.said_fd);
  running_.push_back(child);
}

void TrialPool::StartWhatCan() {
  const Clock::time_point now = Clock::now();
  for (auto next = waiting_.begin(); next != waiting_.end() && running_.size() < processes_;) {
    if (next->not_before > now) {
      ++next;
      continue;
    }
    Start(next->job);
    next = waiting_.erase(next);
  }
}

TrialEnd TrialPool::EndOf(const Child& child, int status) const {
  TrialEnd end{.number = child.job.number, .failed = true, .said = TakeText(child.said_fd)};
  if (WIFEXITED(status) && WEXITSTATUS(status) == kDone) {
    end.failed = false;
  } else if (!WIFEXITED(status) || WEXITSTATUS(status) != kNo ||
             experiments::ReadTrialError(child.job.folder).empty()) {
    const std::string line = LastLine(end.said);
    const std::string how = WIFSIGNALED(status)
                                ? fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
                                : fmt::format("ended with status {}", WEXITSTATUS(status));
    experiments::WriteTrialError(child.job.folder, line.empty() ? how : how + ": " + line);
  }
  return end;
}

bool TrialPool::Reap(const std::function<void(const TrialEnd&)>& on_end) {
  bool stopped = false;
  for (std::size_t i = 0; i < running_.size();) {
    int status = 0;
    if (waitpid(running_[i].pid, &status, WNOHANG) != running_[i].pid) {
      ++i;
      continue;
    }
    const Child child = running_[i];
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    if (WasStopped(status)) {
      stopped = true;
      close(child.said_fd);
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == kBusy) {
      close(child.said_fd);
      waiting_.push_back({.job = child.job, .not_before = Clock::now() + kAskAgainAfter});
    } else {
      on_end(EndOf(child, status));
    }
  }
  return !stopped;
}

void TrialPool::StopAll() {
  for (const Child& child : running_) kill(child.pid, SIGKILL);  // its progress is in its checkpoint
  for (const Child& child : running_) {
    waitpid(child.pid, nullptr, 0);
    close(child.said_fd);
  }
  running_.clear();
  waiting_.clear();
}

bool TrialPool::Run(std::vector<TrialJob> jobs, const std::function<void(const TrialEnd&)>& on_end,
                    const std::function<void(std::size_t running)>& on_wait) {
  for (TrialJob& job : jobs) waiting_.push_back({.job = std::move(job), .not_before = {}});
  const sigset_t awaited = AwaitedSignals();
  const timespec timeout{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kLookEvery).count()};
  while (!waiting_.empty() || !running_.empty()) {
    StartWhatCan();
    on_wait(running_.size());
    const int signal = sigtimedwait(&awaited, nullptr, &timeout);
    const bool stop = signal > 0 && signal != SIGCHLD;
    // Trials that have ended are recorded even if all others are stopped.
    if (!Reap(on_end) || stop) {
      // Ctrl-C signals the whole process group, sometimes twice. Ignoring repeats lets the final messages be printed.
      for (const int each : {SIGINT, SIGTERM, SIGHUP}) std::signal(each, SIG_IGN);
      StopAll();
      return false;
    }
  }
  return true;
}

}  // namespace emplace::tools
