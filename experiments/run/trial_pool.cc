#include "experiments/run/trial_pool.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
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
#include "experiments/run/run_state.h"
#include "experiments/run/trial_crashes.h"
#include "sim/base/check.h"
#include "sim/base/temporary_file.h"

namespace emplace::experiments {
namespace {

constexpr std::chrono::milliseconds kLookEvery(100);
// Signals are often sent twice: to the process, and to its group.
constexpr std::chrono::milliseconds kSameSignal(200);
// A trial that another process runs is looked at after the first delay, and then less and less often.
constexpr std::chrono::milliseconds kFirstDelay(250);
constexpr std::chrono::milliseconds kLongestDelay(4000);
constexpr std::size_t kMostInARow = 5;

// A process that was stopped before it could save a checkpoint.
bool WasStopped(int status) {
  return WIFSIGNALED(status) &&
         (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGHUP);
}

bool IsStop(const signalfd_siginfo& signal) { return signal.ssi_signo != SIGCHLD; }

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

// Removes what a process that has ended, perhaps in the middle of a write, left in its trial's folder.
void CleanUpAfter(pid_t pid, const std::string& folder) {
  RemoveLeftovers(folder);
  RemoveClaimOf(folder, pid);
}

}  // namespace

std::string DifferenceText(const std::vector<std::string>& folders) {
  return fmt::format(
      "emplace: internal error: two runs of one trial had different results{} (please report this; {} in "
      "{} says what differs)",
      folders.size() == 1 ? "" : fmt::format(", {} times", folders.size()), kDifferencesFile, folders.front());
}

TrialPool::TrialPool(const PoolOptions& options) : options_(options), slots_(2 * options.processes) {
  const sigset_t awaited = AwaitedSignals();
  sigprocmask(SIG_BLOCK, &awaited, nullptr);
  signal_fd_ = signalfd(-1, &awaited, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signal_fd_ < 0) throw InputError("", "no signals (" + std::generic_category().message(errno) + ")");
  // Each trial has one core: more threads would only slow down the others.
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  setenv("OMP_NUM_THREADS", "1", 1);
}

TrialPool::~TrialPool() {
  KillAll();
  close(signal_fd_);
  const sigset_t awaited = AwaitedSignals();
  sigprocmask(SIG_UNBLOCK, &awaited, nullptr);
}

std::size_t TrialPool::num_running() const {
  return static_cast<std::size_t>(std::count_if(
      slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.runner && slot.runner->running(); }));
}

std::size_t TrialPool::num_computing() const {
  return static_cast<std::size_t>(std::count_if(
      slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.runner && slot.runner->computing(); }));
}

bool TrialPool::KeepsFailing() const {
  return crashes_in_a_row_ >= kMostInARow || (options_.stop_if_first_fail && first_failures_ >= kMostInARow);
}

TrialPool::Slot* TrialPool::FreeSlot() {
  if (num_computing() >= options_.processes) return nullptr;
  for (Slot& slot : slots_) {
    if (slot.runner && slot.runner->running()) continue;
    return &slot;
  }
  return nullptr;
}

void TrialPool::Delay(TrialJob job, std::chrono::milliseconds last) {
  const std::chrono::milliseconds delay = std::clamp(2 * last, kFirstDelay, kLongestDelay);
  delayed_.push_back({.job = std::move(job), .not_before = Clock::now() + delay, .delay = delay});
}

bool TrialPool::TakeJob(const PoolEvents& events, Slot* slot) {
  const Clock::time_point started = Clock::now();
  // Most of 100,000 trials may be finished, so the loop stops now and then to let signals be handled.
  while (Clock::now() - started < kLookEvery) {
    const auto due =
        std::find_if(delayed_.begin(), delayed_.end(), [&](const Delayed& d) { return d.not_before <= started; });
    TrialJob job;
    std::chrono::milliseconds delay{};
    if (due != delayed_.end()) {
      job = std::move(due->job);
      delay = due->delay;
      delayed_.erase(due);
    } else if (!ready_.empty()) {
      job = std::move(ready_.front());
      ready_.pop_front();
    } else {
      return false;
    }
    switch (InspectTrial(job.folder).state) {
      case TrialState::kFinished:
        RemoveLeftClaims(job.folder);
        events.on_end({.number = job.number, .elsewhere = true});
        break;
      case TrialState::kFailed:
        events.on_end({.number = job.number, .failed = true, .elsewhere = true});
        break;
      case TrialState::kRunning:
        RenewIfInFuture(job.folder);
        Delay(std::move(job), delay);
        break;
      case TrialState::kWaiting:
        slot->job = std::move(job);
        slot->delay = delay;
        return true;
    }
  }
  return false;
}

void TrialPool::StartWhatCan(const PoolEvents& events) {
  for (Slot* slot = FreeSlot(); slot != nullptr && TakeJob(events, slot); slot = FreeSlot()) {
    events.before_start(slot->job);
    if (!slot->runner) slot->runner = std::make_unique<TrialRunner>(options_.lease);
    slot->runner->Start(slot->job.folder);
  }
}

void TrialPool::Handle(RunnerReply reply, Slot* slot, const PoolEvents& events) {
  std::string said = slot->runner->TakeSaid();
  switch (reply) {
    case RunnerReply::kDone:
    case RunnerReply::kDiffers:
      any_done_ = true;
      crashes_in_a_row_ = 0;
      return events.on_end(
          {.number = slot->job.number, .differs = reply == RunnerReply::kDiffers, .said = std::move(said)});
    case RunnerReply::kFailed:
      if (!any_done_) ++first_failures_;
      crashes_in_a_row_ = 0;
      return events.on_end({.number = slot->job.number, .failed = true, .said = std::move(said)});
    case RunnerReply::kLost:
      events.on_note(
          fmt::format("{}: was stopped for longer than its lease; another worker has taken it over", slot->job.folder));
      return Delay(std::move(slot->job), slot->delay);
    case RunnerReply::kBusy:
      return Delay(std::move(slot->job), slot->delay);
    case RunnerReply::kInterrupted:
      interrupted_ = true;
      return;
    case RunnerReply::kCannotWrite:
      break;
  }
  said.resize(std::min(said.find('\n'), said.size()));
  throw InputError("", said);
}

void TrialPool::Crashed(int status, Slot* slot, const PoolEvents& events) {
  const std::string folder = slot->job.folder;
  const std::string how = HowItEnded(status);
  RecordCrash(folder,
              {.host = ThisProcess(options_.lease).host, .lost = false, .how = how, .log = slot->runner->TakeSaid()});
  ++crashes_in_a_row_;
  const std::string verdict = CrashVerdict(ReadCrashes(folder));
  if (!verdict.empty()) {
    WriteTrialError(folder, verdict);
    return events.on_end({.number = slot->job.number, .failed = true});
  }
  events.on_note(fmt::format("{}: {}; it will be retried", folder, how));
  // If all trials of one agent crash, they shall not be the next ones.
  std::rotate(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(ready_.size() / 2), ready_.end());
  ready_.push_back(std::move(slot->job));
}

void TrialPool::TakeReplies(const PoolEvents& events) {
  for (Slot& slot : slots_) {
    if (!slot.runner) continue;
    if (slot.runner->running()) {
      if (const auto reply = slot.runner->TakeReply()) {
        Handle(*reply, &slot, events);
        // At once, so that it holds no memory beside the next trial, which may have another slot.
        if (slot.runner->IsWorn()) slot.runner.reset();
        continue;
      }
    }
    const pid_t pid = slot.runner->pid();
    const std::optional<int> status = slot.runner->TakeStatus();
    if (!status) continue;
    // It may have replied just before it ended.
    if (slot.runner->running()) {
      if (const auto reply = slot.runner->TakeReply()) Handle(*reply, &slot, events);
    }
    if (slot.runner->running()) {
      if (WasStopped(*status)) {
        interrupted_ = true;
        if (stopped_by_ == 0) stopped_by_ = WTERMSIG(*status);
      } else {
        Crashed(*status, &slot, events);
      }
      CleanUpAfter(pid, slot.runner->folder());
    }
    slot.runner.reset();
  }
}

bool TrialPool::Wait(std::chrono::milliseconds most) {
  std::vector<pollfd> files = {{.fd = signal_fd_, .events = POLLIN, .revents = 0}};
  for (const Slot& slot : slots_) {
    if (slot.runner && slot.runner->running())
      files.push_back({.fd = slot.runner->fd(), .events = POLLIN, .revents = 0});
  }
  poll(files.data(), files.size(), static_cast<int>(most.count()));
  bool stop = false;
  signalfd_siginfo signal{};
  while (read(signal_fd_, &signal, sizeof signal) == sizeof signal) {
    if (!IsStop(signal)) continue;
    stop = true;
    if (stopped_by_ == 0) stopped_by_ = static_cast<int>(signal.ssi_signo);
  }
  return stop;
}

void TrialPool::StopAll(const PoolEvents& events) {
  for (const Slot& slot : slots_) {
    if (slot.runner) slot.runner->Interrupt();
  }
  const Clock::time_point start = Clock::now();
  while (num_running() > 0 && Clock::now() - start < options_.grace) {
    if (Wait(kLookEvery) && Clock::now() - start > kSameSignal) break;
    TakeReplies(events);
  }
  // Ctrl-C signals the whole process group, sometimes twice. Ignoring repeats lets the final messages be printed.
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) std::signal(each, SIG_IGN);
  KillAll();
}

void TrialPool::KillAll() {
  for (Slot& slot : slots_) {
    if (!slot.runner) continue;
    const pid_t pid = slot.runner->pid();
    const std::string folder = slot.runner->folder();
    slot.runner.reset();  // kills it; its progress is in its checkpoint
    if (!folder.empty()) CleanUpAfter(pid, folder);
  }
}

PoolResult TrialPool::Run(std::vector<TrialJob> jobs, const PoolEvents& events) {
  for (TrialJob& job : jobs) ready_.push_back(std::move(job));
  while (!ready_.empty() || !delayed_.empty() || num_running() > 0) {
    StartWhatCan(events);
    events.on_wait(num_computing());
    // Without a running trial, unless all are delayed, there are more trials to look at now.
    const bool look_on = FreeSlot() != nullptr && !ready_.empty();
    const bool stop = Wait(look_on ? std::chrono::milliseconds(0) : kLookEvery);
    // Trials that have ended are recorded even if all others are stopped.
    TakeReplies(events);
    if (stop || interrupted_) {
      StopAll(events);
      return PoolResult::kStopped;
    }
    if (KeepsFailing()) {
      StopAll(events);
      return PoolResult::kKeepsFailing;
    }
  }
  return PoolResult::kWhole;
}

}  // namespace emplace::experiments
