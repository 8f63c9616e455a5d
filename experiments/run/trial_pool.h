#ifndef EMPLACE_EXPERIMENTS_RUN_TRIAL_POOL_H_
#define EMPLACE_EXPERIMENTS_RUN_TRIAL_POOL_H_

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/run/trial_claim.h"
#include "experiments/run/trial_runner.h"

namespace emplace::experiments {

// A trial to run.
struct TrialJob {
  std::size_t number = 0;  // chosen by the caller
  std::string folder;      // absolute
};

// How a trial ended.
struct TrialEnd {
  std::size_t number = 0;
  bool failed = false;     // error.txt has the reason
  bool elsewhere = false;  // another process ran it
  bool differs = false;    // it ran twice, with different bytes
  std::string said = {};   // its standard error
};

struct PoolOptions {
  std::size_t processes = 1;  // processes that compute; the same number may be writing the files of short trials
  std::chrono::milliseconds lease = kDefaultLease;
  std::chrono::milliseconds grace = std::chrono::seconds(5);  // time for saving checkpoints after a stop
  // If the first trials all fail, for whatever reason, this machine is taken to be at fault.
  bool stop_if_first_fail = false;
};

struct PoolEvents {
  std::function<void(const TrialJob&)> before_start;  // makes the folder, unless it is there
  std::function<void(const TrialEnd&)> on_end;        // each trial that ended
  std::function<void(const std::string&)> on_note;    // a trial that will continue: it crashed, or lost its claim
  std::function<void(std::size_t running)> on_wait;   // about ten times a second
};

enum class PoolResult : std::uint8_t {
  kWhole,        // all trials have ended, here or elsewhere
  kStopped,      // stopped by a signal
  kKeepsFailing  // several trials in a row crashed here at once, or the first ones all failed
};

// The message about trials that ran twice with different results. Requires: at least one.
std::string DifferenceText(const std::vector<std::string>& folders);

// One worker: runs trials that no other worker holds, each in a process (trial_runner.h). While a pool exists, SIGINT,
// SIGTERM and SIGHUP only stop it: trials save their checkpoints and claims are released; a second signal, or the end
// of the grace, kills them. After that the signals are ignored.
class TrialPool {
 public:
  explicit TrialPool(const PoolOptions& options);
  ~TrialPool();  // kills running trials
  TrialPool(const TrialPool&) = delete;
  TrialPool& operator=(const TrialPool&) = delete;

  // Runs all jobs; waits for those that others are running, and takes over those that they lose. Throws InputError if
  // a folder cannot be written, for instance because the disk is full; nothing is marked as failed then.
  PoolResult Run(std::vector<TrialJob> jobs, const PoolEvents& events);
  // The first signal that asked to stop. Requires: Run returned kStopped.
  int stopped_by() const { return stopped_by_ != 0 ? stopped_by_ : SIGTERM; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Slot {
    std::unique_ptr<TrialRunner> runner;
    TrialJob job;
    std::chrono::milliseconds delay{};  // delay of the job, if it was delayed before
  };
  // A trial that another process runs, or ran.
  struct Delayed {
    TrialJob job;
    Clock::time_point not_before;
    std::chrono::milliseconds delay;
  };

  void StartWhatCan(const PoolEvents& events);
  // The next trial that is to be run here.
  bool TakeJob(const PoolEvents& events, Slot* slot);
  Slot* FreeSlot();  // null while as many processes compute as may
  void Delay(TrialJob job, std::chrono::milliseconds last);
  void TakeReplies(const PoolEvents& events);
  void Handle(RunnerReply reply, Slot* slot, const PoolEvents& events);
  void Crashed(int status, Slot* slot, const PoolEvents& events);
  // Waits for signals and replies. Returns true if a signal asked to stop, and keeps the first.
  bool Wait(std::chrono::milliseconds most);
  std::size_t num_running() const;
  std::size_t num_computing() const;
  bool KeepsFailing() const;
  // Lets running trials save their checkpoints, and kills those that do not in time.
  void StopAll(const PoolEvents& events);
  void KillAll();

  PoolOptions options_;
  int signal_fd_ = -1;
  std::deque<TrialJob> ready_;
  std::vector<Delayed> delayed_;
  std::vector<Slot> slots_;
  bool interrupted_ = false;  // a runner was asked to stop by another process
  int stopped_by_ = 0;        // 0: no signal yet
  bool any_done_ = false;
  std::size_t crashes_in_a_row_ = 0;
  std::size_t first_failures_ = 0;
};

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_TRIAL_POOL_H_
