#ifndef EMPLACE_PROFILER_EXECUTE_WORK_QUEUE_H_
#define EMPLACE_PROFILER_EXECUTE_WORK_QUEUE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

namespace emplace::profiler {

// First in, first out, from any thread to one.
template <typename Item>
class WorkQueue {
 public:
  // Empty and open again. Requires: no thread waits.
  void Reset() {
    items_.clear();
    closed_ = false;
    size_ = 0;
  }
  void Push(Item item) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(item);
      size_.store(items_.size(), std::memory_order_release);
    }
    changed_.notify_one();
  }
  // No more items are wanted.
  void Close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      size_.store(items_.size() + 1, std::memory_order_release);  // a thread that spins for an item sees it too
    }
    changed_.notify_one();
  }
  // Waits for an item, for the first `patience` without sleeping; none once the queue is closed.
  std::optional<Item> Pop(std::chrono::steady_clock::duration patience) {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (size_.load(std::memory_order_acquire) == 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !items_.empty(); });
    if (closed_) return std::nullopt;
    const Item item = items_.front();
    items_.pop_front();
    size_.store(items_.size(), std::memory_order_release);
    return item;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  std::atomic<std::size_t> size_ = 0;
  bool closed_ = false;
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_EXECUTE_WORK_QUEUE_H_
