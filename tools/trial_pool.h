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

// What `emplace trial` ends with, beside kDone and kNo (error.txt says why).
inline constexpr int kBusy = 75;  // EX_TEMPFAIL: another process runs the trial

// A trial that is to be run.
struct TrialJob {
  std::size_t number = 0;  // the caller's
  std::string folder;      // absolute
};

// How one ended.
struct TrialEnd {
  std::size_t number = 0;
  bool failed = false;  // error.txt says why
  std::string said;     // on standard error
};

// Runs trials in processes of their own, each one this program as `emplace trial FOLDER` on one thread, so that a crash
// takes one trial. The processes end with this one, however it ends. While a pool exists, SIGINT, SIGTERM and SIGHUP
// only stop it; from then on they are ignored.
class TrialPool {
 public:
  explicit TrialPool(std::size_t processes);
  ~TrialPool();  // stops what runs
  TrialPool(const TrialPool&) = delete;
  TrialPool& operator=(const TrialPool&) = delete;

  // Runs all of them; those that another sweep is running are waited for. `on_end` hears of each one that ended,
  // `on_wait` is called some ten times a second. False if a signal stopped it.
  bool Run(std::vector<TrialJob> jobs, const std::function<void(const TrialEnd&)>& on_end,
           const std::function<void(std::size_t running)>& on_wait);

 private:
  using Clock = std::chrono::steady_clock;
  struct Child {
    TrialJob job;
    pid_t pid = 0;
    int said_fd = -1;  // what it writes on standard error
  };
  struct Waiting {
    TrialJob job;
    Clock::time_point not_before;
  };

  void StartWhatCan();
  void Start(const TrialJob& job);
  // Looks who has ended. False if one was stopped by a signal that was meant for all.
  bool Reap(const std::function<void(const TrialEnd&)>& on_end);
  TrialEnd EndOf(const Child& child, int status) const;
  void StopAll();

  std::size_t processes_;
  std::deque<Waiting> waiting_;
  std::vector<Child> running_;
};

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_TRIAL_POOL_H_
