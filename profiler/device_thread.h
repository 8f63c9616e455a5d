#ifndef EMPLACE_PROFILER_DEVICE_THREAD_H_
#define EMPLACE_PROFILER_DEVICE_THREAD_H_

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace emplace::profiler {

// A thread that does one thing after another: a device's own.
class DeviceThread {
 public:
  DeviceThread();
  ~DeviceThread();
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  // Gives it `work` and returns at once. Requires: it has nothing to do (Wait).
  void Start(std::function<void()> work);
  // Returns when the work is done; throws what it threw.
  void Wait();
  void Run(std::function<void()> work) {
    Start(std::move(work));
    Wait();
  }

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  std::exception_ptr error_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

// While it lives, the calling thread stays on the core that it is on: what a thread runs is slow at first on another.
class StayOnCore {
 public:
  StayOnCore();
  ~StayOnCore();
  StayOnCore(const StayOnCore&) = delete;
  StayOnCore& operator=(const StayOnCore&) = delete;

 private:
  std::optional<cpu_set_t> before_;  // none: the system does not say
};

// Calls `work` while `thread` does `keep_busy`, which returns soon after `stop` is set, and sets *is_busy once it is.
// Throws what either threw.
void WhileBusy(DeviceThread& thread,
               const std::function<void(const std::atomic<bool>& stop, std::atomic<bool>* is_busy)>& keep_busy,
               const std::function<void()>& work);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_DEVICE_THREAD_H_
