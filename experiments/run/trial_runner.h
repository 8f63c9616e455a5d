#ifndef EMPLACE_EXPERIMENTS_RUN_TRIAL_RUNNER_H_
#define EMPLACE_EXPERIMENTS_RUN_TRIAL_RUNNER_H_

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace emplace::experiments {

// SIGINT, SIGTERM and SIGHUP; and those with SIGCHLD.
sigset_t StopSignals();
sigset_t AwaitedSignals();

// How a trial ended in a runner.
enum class RunnerReply : std::uint8_t {
  kDone,
  kFailed,
  kBusy,
  kLost,
  kInterrupted,
  kDiffers,
  kCannotWrite,  // the file system is full or broken; its standard error says how
};

// A process that runs trials one after another: this program as `emplace trial --serve`, on one thread. A crash ends
// only the trial that it runs. It ends with this process, however that ends.
class TrialRunner {
 public:
  using Clock = std::chrono::steady_clock;

  explicit TrialRunner(std::chrono::milliseconds lease);
  ~TrialRunner();  // kills it
  TrialRunner(const TrialRunner&) = delete;
  TrialRunner& operator=(const TrialRunner&) = delete;

  pid_t pid() const { return pid_; }
  int fd() const { return fd_; }  // readable when there is a reply, or when it ended
  bool running() const { return !folder_.empty(); }
  // Whether the trial that it runs needs a core: until its result is known, or after a second until it is written.
  bool computing() const { return running() && !publishing_; }
  const std::string& folder() const { return folder_; }
  // Whether a new process should take its place: it ran a long trial or many, so that a start costs little.
  bool IsWorn() const;

  // Starts a trial. Requires: it is not running one.
  void Start(const std::string& folder);
  // The reply, if there is one; it is then not running any more. Notes what is said before it.
  std::optional<RunnerReply> TakeReply();
  // Its output on standard error since the last call.
  std::string TakeSaid();
  // Asks it to save a checkpoint and to end the trial.
  void Interrupt() const;
  // If the process has ended: its status, as of waitpid.
  std::optional<int> TakeStatus();

 private:
  pid_t pid_ = 0;  // 0: it has ended
  int fd_ = -1;
  int said_fd_ = -1;
  std::string folder_;
  bool publishing_ = false;
  std::string inbox_;
  std::size_t trials_ = 0;
  Clock::time_point started_;
  std::chrono::duration<double> longest_{};
};

// The main loop of that process: reads folders from standard input, and writes a reply for each to it.
int ServeTrials(std::chrono::milliseconds lease);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_TRIAL_RUNNER_H_
