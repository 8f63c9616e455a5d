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
  // `none` is greater than every entry: the front of an empty queue.
  void Prepare(std::size_t num_ops, std::size_t num_devices, const Entry& none) {
    lanes_.resize(num_devices);
    heaps_.resize(num_ops);
    none_ = none;
  }

  // Empties all queues. `placement` must outlive the run.
  void Reset(std::span<const DeviceId> placement) {
    placement_ = placement;
    heaps_are_cut_ = false;
    for (Lane& lane : lanes_) {
      lane.head = kSorted / 2;
      lane.size = lane.heap_size = 0;
      lane.sorted[lane.head] = none_;
    }
  }

  const Entry& front(std::size_t device) const { return lanes_[device].sorted[lanes_[device].head]; }

  void Push(std::size_t device, const Entry& entry) {
    Lane& lane = lanes_[device];
    if (lane.size == kSorted || lane.heap_size != 0) [[unlikely]] {
      PushBehind(device, entry);
    } else {
      Insert(lane, entry);
    }
  }

  void Pop(std::size_t device) {
    Lane& lane = lanes_[device];
    EMPLACE_DCHECK(lane.size > 0);
    ++lane.head;
    --lane.size;
    if (lane.heap_size != 0) [[unlikely]] {
      if (lane.size == 0) Refill(lane);
    }
  }

 private:
  static constexpr std::uint32_t kSorted = 128;
  static constexpr std::uint32_t kNear = 8;

  struct Lane {
    std::uint32_t head = 0;       // of the sorted part
    std::uint32_t size = 0;       // of the sorted part; 0 only if the heap is empty too
    std::uint32_t heap_size = 0;  // entries behind the sorted part: none is smaller than any in it
    Entry* heap = nullptr;
    std::array<Entry, 2 * kSorted + 1> sorted;  // none_ stands behind the last entry
  };

  void Insert(Lane& lane, const Entry& entry) const {
    Entry* const begin = lane.sorted.data() + lane.head;
    Entry* const end = begin + lane.size;
    if (end == lane.sorted.data() + 2 * kSorted) [[unlikely]] {
      InsertAnywhere(lane, entry);
      return;
    }
    Entry* const near = lane.size > kNear ? end - kNear : begin;
    Entry* at = end;
    for (; at > near && entry < at[-1]; --at) *at = at[-1];
    if (at == near && near != begin) [[unlikely]] {
      std::copy(near + 1, end + 1, near);  // back as it was
      *end = none_;
      InsertAnywhere(lane, entry);
      return;
    }
    *at = entry;
    end[1] = none_;
    ++lane.size;
  }

  // At the front for nothing, elsewhere by moving the entries behind it.
  void InsertAnywhere(Lane& lane, const Entry& entry) const {
    if (lane.head > 0 && (lane.size == 0 || entry < lane.sorted[lane.head])) {
      lane.sorted[--lane.head] = entry;
      ++lane.size;
      return;
    }
    // Back to the middle of the array, which leaves room at both ends; then in its place.
    Entry* begin = lane.sorted.data() + lane.head;
    Entry* const middle = lane.sorted.data() + kSorted / 2;
    if (begin > middle) std::copy(begin, begin + lane.size, middle);
    if (begin < middle) std::copy_backward(begin, begin + lane.size, middle + lane.size);
    begin = middle;
    lane.head = kSorted / 2;
    Entry* const at = std::upper_bound(begin, begin + lane.size, entry);
    std::copy_backward(at, begin + lane.size, begin + lane.size + 1);
    *at = entry;
    ++lane.size;
    begin[lane.size] = none_;
  }

  void PushBehind(std::size_t device, const Entry& entry) {
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
  void Refill(Lane& lane) const {
    lane.head = kSorted / 2;
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
  Entry none_{};
  bool heaps_are_cut_ = false;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_ENGINES_READY_QUEUES_H_
