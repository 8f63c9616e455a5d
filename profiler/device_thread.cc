#include "profiler/device_thread.h"

#include <pthread.h>
#include <sched.h>

#include <exception>
#include <utility>

#include "sim/base/check.h"

namespace emplace::profiler {

StayOnCore::StayOnCore() {
  cpu_set_t allowed;
  const int core = sched_getcpu();
  if (core < 0 || core >= CPU_SETSIZE || pthread_getaffinity_np(pthread_self(), sizeof(allowed), &allowed) != 0) {
    return;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(core), &one);
  if (pthread_setaffinity_np(pthread_self(), sizeof(one), &one) == 0) before_ = allowed;
}

StayOnCore::~StayOnCore() {
  if (before_) pthread_setaffinity_np(pthread_self(), sizeof(*before_), &*before_);
}

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

void WhileBusy(DeviceThread& thread,
               const std::function<void(const std::atomic<bool>& stop, std::atomic<bool>* is_busy)>& keep_busy,
               const std::function<void()>& work) {
  std::atomic<bool> stop = false;
  std::atomic<bool> is_busy = false;
  thread.Start([&] {
    try {
      keep_busy(stop, &is_busy);
    } catch (...) {
      is_busy = true;  // so a waiting thread continues, and Wait() throws
      throw;
    }
    is_busy = true;  // it may have had nothing to do
  });
  while (!is_busy) std::this_thread::yield();
  try {
    work();
  } catch (...) {
    stop = true;
    try {
      thread.Wait();
    } catch (...) {  // the first error counts
    }
    throw;
  }
  stop = true;
  thread.Wait();
}

}  // namespace emplace::profiler
