#ifndef EMPLACE_SIM_ENGINES_READY_QUEUES_H_
#define EMPLACE_SIM_ENGINES_READY_QUEUES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/check.h"
#include "sim/units.h"

namespace emplace {

// Puts `entry` in its place in a sorted row: behind end[-kFar], which is not greater, and before end[0], which is not
// smaller and is overwritten. Without a branch: the place is anybody's guess.
inline constexpr int kFar = 32;
void SinkFar(std::uint64_t* end, std::uint64_t entry);
template <typename Entry>
void SinkFar(Entry* end, const Entry& entry) {
  for (; entry < end[-1]; --end) *end = end[-1];
  *end = entry;
}

// One priority queue per device of the ops that wait to run there; the smallest entry is the front.
//
// Nearly always a new entry belongs near the end of its queue, now and then at its front: so the kSorted smallest
// entries stand sorted in an array with room at both ends, and what does not fit waits in a binary heap behind it. The
// heap bounds the one bad case: thousands of ops that wait for a backlogged channel.
//
// No memory is allocated after Prepare(): a queue never holds more entries than the ops placed on its device, so all
// heaps share one array of num_ops entries, cut up when the first heap of a run is needed.
template <typename Entry>
class ReadyQueues {
 public:
  // `none` is greater than every entry: the front of an empty queue. `least` is smaller than every entry.
  void Prepare(std::size_t num_ops, std::size_t num_devices, const Entry& least, const Entry& none) {
    lanes_.resize(num_devices);
    heaps_.resize(num_ops);
    least_ = least;
    none_ = none;
  }

  // Empties all queues. `placement` must outlive the run.
  void Reset(std::span<const DeviceId> placement) {
    placement_ = placement;
    heaps_are_cut_ = false;
    for (Lane& lane : lanes_) {
      lane.head = kSorted / 2;
      lane.size = lane.heap_size = 0;
      std::fill_n(lane.sorted.begin() + lane.head - kFar, kFar, least_);
      lane.sorted[lane.head] = none_;
    }
  }

  const Entry& front(std::size_t device) const { return lanes_[device].sorted[lanes_[device].head]; }

  [[gnu::always_inline]] void Push(std::size_t device, const Entry& entry) {
    Lane& lane = lanes_[device];
    if (lane.size == kSorted || lane.heap_size != 0) [[unlikely]] {
      PushBehind(device, entry);
    } else {
      Insert(lane, entry);
    }
  }

  [[gnu::always_inline]] void Pop(std::size_t device) {
    Lane& lane = lanes_[device];
    EMPLACE_DCHECK(lane.size > 0);
    lane.sorted[lane.head++] = least_;
    --lane.size;
    if (lane.heap_size != 0) [[unlikely]] {
      if (lane.size == 0) Refill(lane);
    }
  }

 private:
  static constexpr std::uint32_t kSorted = 256;
  static constexpr std::uint32_t kNear = 4;

  struct Lane {
    std::uint32_t head = 0;       // of the sorted part
    std::uint32_t size = 0;       // of the sorted part; 0 only if the heap is empty too
    std::uint32_t heap_size = 0;  // entries behind the sorted part: none is smaller than any in it
    Entry* heap = nullptr;
    std::array<Entry, 2 * kSorted + 1> sorted;  // none_ stands behind the last entry
  };

  [[gnu::always_inline]] void Insert(Lane& lane, const Entry& entry) const {
    Entry* const end = lane.sorted.data() + lane.head + lane.size;
    if (end == lane.sorted.data() + 2 * kSorted) [[unlikely]] {
      InsertAnywhere(lane, entry);
      return;
    }
    if (entry < end[-static_cast<int>(kNear)]) [[unlikely]] {
      InsertAnywhere(lane, entry);
      return;
    }
    Sink<kNear>(end, entry);
    end[1] = none_;
    ++lane.size;
  }

  // Puts `entry` among the last kCount before `end`, none of those before it being greater, without a branch: where it
  // belongs is a coin toss.
  template <int kCount>
  [[gnu::always_inline]] static void Sink(Entry* end, const Entry& entry) {
    Entry sinking = entry;
    for (int k = 0; k < kCount; ++k) {
      const Entry above = end[-1 - k];
      const bool sinks = sinking < above;
      end[-k] = sinks ? above : sinking;
      sinking = sinks ? sinking : above;
    }
    end[-kCount] = sinking;
  }

  // At the front for nothing, elsewhere by moving the entries behind it. The kNear places in front of the first entry
  // always hold least_.
  [[gnu::noinline]] void InsertAnywhere(Lane& lane, const Entry& entry) const {
    if (lane.head > kFar && entry < lane.sorted[lane.head]) {
      if (lane.size == 0) lane.sorted[lane.head] = none_;
      lane.sorted[--lane.head] = entry;
      lane.sorted[lane.head - kFar] = least_;
      ++lane.size;
      return;
    }
    if (lane.head + lane.size == 2 * kSorted) MoveToMiddle(lane);
    Entry* at = lane.sorted.data() + lane.head + lane.size;
    at[0] = at[1] = none_;
    while (entry < at[-kFar]) {
      std::array<Entry, kFar> block;
      std::copy_n(at - kFar, kFar, block.data());
      std::copy_n(block.data(), kFar, at - kFar + 1);
      at -= kFar;
    }
    SinkFar(at, entry);
    ++lane.size;
  }

  void MoveToMiddle(Lane& lane) const {
    Entry* const begin = lane.sorted.data() + lane.head;
    lane.head = kSorted / 2;
    std::copy(begin, begin + lane.size, lane.sorted.data() + lane.head);
    std::fill_n(lane.sorted.data() + lane.head - kFar, kFar, least_);
  }

  [[gnu::noinline]] void PushBehind(std::size_t device, const Entry& entry) {
    if (!heaps_are_cut_) CutHeaps();
    Lane& lane = lanes_[device];
    Entry behind = entry;
    if (const Entry& last = lane.sorted[lane.head + lane.size - 1]; entry < last) {
      if (lane.size == kSorted) {
        behind = last;
        --lane.size;
        Insert(lane, entry);
      } else {
        Insert(lane, entry);
        return;
      }
    }
    lane.heap[lane.heap_size++] = behind;
    std::push_heap(lane.heap, lane.heap + lane.heap_size, std::greater<>());
  }

  // Half full, so that entries can come in front without pushing others back into the heap.
  [[gnu::noinline]] void Refill(Lane& lane) const {
    lane.head = kSorted / 2;
    std::fill_n(lane.sorted.begin() + lane.head - kFar, kFar, least_);
    while (lane.size < kSorted / 2 && lane.heap_size != 0) {
      std::pop_heap(lane.heap, lane.heap + lane.heap_size, std::greater<>());
      lane.sorted[lane.head + lane.size++] = lane.heap[--lane.heap_size];
    }
    lane.sorted[lane.head + lane.size] = none_;
  }

  void CutHeaps() {
    for (Lane& lane : lanes_) lane.heap_size = 0;
    for (const DeviceId device : placement_) ++lanes_[Index(device)].heap_size;
    Entry* begin = heaps_.data();
    for (Lane& lane : lanes_) {
      lane.heap = begin;
      begin += lane.heap_size;
      lane.heap_size = 0;
    }
    heaps_are_cut_ = true;
  }

  std::vector<Lane> lanes_;
  std::vector<Entry> heaps_;
  std::span<const DeviceId> placement_;
  Entry least_{};
  Entry none_{};
  bool heaps_are_cut_ = false;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_ENGINES_READY_QUEUES_H_
