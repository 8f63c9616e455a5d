#ifndef EMPLACE_PROFILER_EXECUTE_DEVICE_THREAD_H_
#define EMPLACE_PROFILER_EXECUTE_DEVICE_THREAD_H_

#include <condition_variable>
#include <functional>
#include <mutex>
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

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_EXECUTE_DEVICE_THREAD_H_
