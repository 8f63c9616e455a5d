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
// Nearly always a queue is short and a new entry belongs near its end, so the kSorted smallest entries stand sorted
// in an array; what does not fit waits in a binary heap behind it. The heap bounds the one bad case: thousands of ops
// that wait for a backlogged channel while others are inserted in front of them.
//
// No memory is allocated after Prepare(): a queue never holds more entries than the ops placed on its device, so all
// heaps share one array of num_ops entries, cut up when the first heap of a run is needed.
template <typename Entry>
class ReadyQueues {
 public:
  void Prepare(std::size_t num_ops, std::size_t num_devices) {
    lanes_.resize(num_devices);
    heaps_.resize(num_ops);
  }

  // Empties all queues. `placement` must outlive the run.
  void Reset(std::span<const DeviceId> placement) {
    placement_ = placement;
    heaps_are_cut_ = false;
    for (Lane& lane : lanes_) lane.head = lane.size = lane.heap_size = 0;
  }

  bool empty(std::size_t device) const { return lanes_[device].size == 0; }
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
    if (lane.size == 0 && lane.heap_size != 0) [[unlikely]]
      Refill(lane);
  }

 private:
  static constexpr std::uint32_t kSorted = 32;

  struct Lane {
    std::uint32_t head = 0;       // of the sorted part
    std::uint32_t size = 0;       // of the sorted part; 0 only if the heap is empty too
    std::uint32_t heap_size = 0;  // entries behind the sorted part: none is smaller than any in it
    Entry* heap = nullptr;
    std::array<Entry, 2 * kSorted> sorted;
  };

  static void Insert(Lane& lane, const Entry& entry) {
    if (lane.head + lane.size == lane.sorted.size()) [[unlikely]] {
      std::copy_n(lane.sorted.begin() + lane.head, lane.size, lane.sorted.begin());
      lane.head = 0;
    }
    std::uint32_t at = lane.head + lane.size;
    for (; at > lane.head && entry < lane.sorted[at - 1]; --at) lane.sorted[at] = lane.sorted[at - 1];
    lane.sorted[at] = entry;
    ++lane.size;
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

  static void Refill(Lane& lane) {
    lane.head = 0;
    while (lane.size < kSorted && lane.heap_size != 0) {
      std::pop_heap(lane.heap, lane.heap + lane.heap_size, std::greater<>());
      lane.sorted[lane.size++] = lane.heap[--lane.heap_size];
    }
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
  bool heaps_are_cut_ = false;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_ENGINES_READY_QUEUES_H_
