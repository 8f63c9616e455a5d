#ifndef EMPLACE_TOOLS_TRIAL_POOL_H_
#define EMPLACE_TOOLS_TRIAL_POOL_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace emplace::tools {

// Exit status of `emplace trial`, beside kDone and kNo (error.txt has the reason).
inline constexpr int kBusy = 75;  // EX_TEMPFAIL: another process runs the trial

// A trial to run.
struct TrialJob {
  std::size_t number = 0;  // chosen by the caller
  std::string folder;      // absolute
};

// How a trial ended.
struct TrialEnd {
  std::size_t number = 0;
  bool failed = false;  // error.txt has the reason
  std::string said;     // its standard error
};

// Runs each trial in a separate process: this program as `emplace trial FOLDER` on one thread. So a crash ends only one
// trial. The processes end with this one, however it ends. While a pool exists, SIGINT, SIGTERM and SIGHUP only stop
// it; after that they are ignored.
class TrialPool {
 public:
  explicit TrialPool(std::size_t processes);
  ~TrialPool();  // stops running trials
  TrialPool(const TrialPool&) = delete;
  TrialPool& operator=(const TrialPool&) = delete;

  // Runs all jobs; waits for those that another sweep is running. Calls `on_end` for each trial that ended, and
  // `on_wait` about ten times a second. Returns false if a signal stopped it.
  bool Run(std::vector<TrialJob> jobs, const std::function<void(const TrialEnd&)>& on_end,
           const std::function<void(std::size_t running)>& on_wait);

 private:
  using Clock = std::chrono::steady_clock;
  struct Child {
    TrialJob job;
    pid_t pid = 0;
    int said_fd = -1;  // its standard error
  };
  struct Waiting {
    TrialJob job;
    Clock::time_point not_before;
  };

  void StartWhatCan();
  void Start(const TrialJob& job);
  // Collects the trials that have ended. Returns false if a signal meant for all trials stopped one.
  bool Reap(const std::function<void(const TrialEnd&)>& on_end);
  TrialEnd EndOf(const Child& child, int status) const;
  void StopAll();

  std::size_t processes_;
  std::deque<Waiting> waiting_;
  std::vector<Child> running_;
};

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_TRIAL_POOL_H_
