#include "profiler/execute/device_thread.h"

#include <exception>
#include <utility>

#include "sim/base/check.h"

namespace emplace::profiler {

DeviceThread::DeviceThread() : thread_([this] { Loop(); }) {}

DeviceThread::~DeviceThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DeviceThread::Start(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    EMPLACE_CHECK(!busy_);
    work_ = std::move(work);
    busy_ = true;
  }
  changed_.notify_all();
}

void DeviceThread::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void DeviceThread::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || busy_; });
    if (!busy_) return;
    const std::function<void()> work = std::move(work_);
    lock.unlock();
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace emplace::profiler
