#include "sim/base/worker_pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace emplace {
namespace {

// One call of RunOnThreads.
struct Job {
  const std::function<void(std::size_t, std::size_t)>* work = nullptr;
  std::size_t items = 0;
  std::size_t helpers = 0;  // threads that take part, beside the caller
  std::atomic<std::size_t> next{0};
  std::mutex error_mutex;
  std::size_t failed_item = std::numeric_limits<std::size_t>::max();
  std::exception_ptr error;

  // Items go to the threads in ascending order, so all items before one that failed have been begun, and are finished.
  void Work(std::size_t worker) {
    for (std::size_t item = next++; item < items; item = next++) {
      try {
        (*work)(worker, item);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (item < failed_item) {
          failed_item = item;
          error = std::current_exception();
        }
        next = items;
      }
    }
  }
};

// Blocks all signals in the calling thread but those of its own faults. A process that waits for signals in one thread
// would otherwise be ended by a signal that arrives in another.
void BlockSignals() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGBUS, SIGFPE, SIGILL, SIGSEGV}) sigdelset(&signals, fault);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

class WorkerPool {
 public:
  void Run(std::size_t threads, Job* job) {
    const std::lock_guard one_at_a_time(running_);
    job->helpers = threads - 1;
    {
      const std::lock_guard lock(mutex_);
      try {
        while (started_ < job->helpers) {
          std::thread([this, worker = started_ + 1] { Help(worker); }).detach();
          ++started_;
        }
      } catch (const std::system_error&) {
        job->helpers = started_;  // no more threads can be started: those that there are do the work
      }
      job_ = job;
      ++round_;
    }
    wake_.notify_all();
    job->Work(0);
    std::unique_lock lock(mutex_);
    job_ = nullptr;  // no item is left, so nobody waits for a thread that has not woken up
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void Help(std::size_t worker) {
    BlockSignals();
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return round_ != seen && job_ != nullptr; });
      seen = round_;
      if (worker > job_->helpers) continue;
      Job* const job = job_;
      ++busy_;
      lock.unlock();
      job->Work(worker);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex running_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Job* job_ = nullptr;
  std::uint64_t round_ = 0;
  std::size_t started_ = 0;
  std::size_t busy_ = 0;  // threads at work, beside the caller
};

// The pool is never destroyed, as its threads wait until the process ends. A child of a fork has none of them, so a new
// pool takes the place of the one that it inherits.
WorkerPool& Pool() {
  alignas(WorkerPool) static std::byte storage[sizeof(WorkerPool)];
  static WorkerPool* const pool = [] {
    pthread_atfork(nullptr, nullptr, [] { new (storage) WorkerPool; });
    return new (storage) WorkerPool;
  }();
  return *pool;
}

}  // namespace

void RunOnThreads(std::size_t threads, std::size_t items,
                  const std::function<void(std::size_t worker, std::size_t item)>& work) {
  Job job;
  job.work = &work;
  job.items = items;
  threads = std::min(std::max<std::size_t>(threads, 1), std::max<std::size_t>(items, 1));
  if (threads == 1) {
    job.Work(0);
  } else {
    Pool().Run(threads, &job);
  }
  if (job.error) std::rethrow_exception(job.error);
}

std::size_t NumThreads(std::size_t asked) {
  return asked > 0 ? std::min<std::size_t>(asked, 1024) : std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace emplace
