#ifndef EMPLACE_SIM_ENGINES_READY_QUEUES_H_
#define EMPLACE_SIM_ENGINES_READY_QUEUES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/units.h"

namespace emplace {

// Puts an entry in its place in a sorted row before end[0], which is overwritten. The kFar places in front of the row
// are not greater.
inline constexpr int kFar = 32;
template <typename Entry>
using Insertion = void (*)(Entry* end, Entry entry);
template <typename Entry>
Insertion<Entry> FarInsertion() {
  return [](Entry* end, Entry entry) {
    for (; entry < end[-1]; --end) *end = end[-1];
    *end = entry;
  };
}
// The insertion for the chosen instruction set (vector_targets.h), for entries below 2^63. It has a branch for each
// kFar entries, because the place is unpredictable.
template <>
Insertion<std::uint64_t> FarInsertion();

// One priority queue per device of the ops that wait to run there; the smallest entry is the front.
//
// Nearly always a new entry belongs near the end of its queue, now and then at its front: so the kSorted smallest
// entries are sorted in an array with room at both ends, and what does not fit waits in a binary heap behind it. The
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
    sorted_.resize(num_devices * kRoom);
    heaps_.resize(num_ops);
    least_ = least;
    none_ = none;
  }

  // Empties all queues. `placement` must outlive the run.
  void Reset(std::span<const DeviceId> placement) {
    placement_ = placement;
    heaps_are_cut_ = false;
    insert_far_ = FarInsertion<Entry>();
    for (std::size_t device = 0; device < lanes_.size(); ++device) {
      Lane& lane = lanes_[device];
      lane.begin = sorted_.data() + device * kRoom;
      lane.heap_size = 0;
      lane.head = lane.end = lane.begin + kSorted / 2;
      lane.stop = lane.head + kSorted;
      std::fill_n(lane.head - kFar, kFar, least_);
      *lane.end = none_;
    }
  }

  const Entry& front(std::size_t device) const { return *lanes_[device].head; }

  [[gnu::always_inline]] void Push(std::size_t device, const Entry& entry) {
    Lane& lane = lanes_[device];
    if (lane.end >= lane.stop) [[unlikely]] {
      PushAtStop(device, entry);
      return;
    }
    if (entry < lane.end[-static_cast<int>(kNear)]) [[unlikely]] {
      InsertAnywhere(lane, entry);
      return;
    }
    Sink<kNear - 1>(lane.end, entry);
    *++lane.end = none_;
  }

  [[gnu::always_inline]] void Pop(std::size_t device) {
    Lane& lane = lanes_[device];
    EMPLACE_DCHECK(lane.head != lane.end);
    *lane.head++ = least_;
    if (lane.heap_size != 0) [[unlikely]] {
      if (lane.head == lane.end) Refill(lane);
    }
  }

 private:
  static constexpr std::uint32_t kSorted = 256;
  static constexpr std::uint32_t kNear = 6;
  static constexpr std::size_t kRoom = 2 * kSorted + 1;  // entries of a sorted part, with room at both ends

  // Its size is a power of two, so that a device's is found by a shift.
  struct alignas(64) Lane {
    Entry* head = nullptr;  // front of the sorted part; head == end only if the heap is empty too
    Entry* end = nullptr;   // position of none_
    // An entry that is pushed when `end` is here or behind goes another way: the sorted part may be full or at the end
    // of its room, or there is a heap, and this is `begin`.
    Entry* stop = nullptr;
    Entry* begin = nullptr;  // start of the storage
    Entry* heap = nullptr;   // entries behind the sorted part: none is smaller than any in it
    std::uint32_t heap_size = 0;
  };

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

  // At the front for nothing, elsewhere by moving the entries behind it. The kFar places in front of the first entry
  // always hold least_.
  [[gnu::noinline]] void InsertAnywhere(Lane& lane, const Entry& entry) const {
    if (lane.head > lane.begin + kFar && entry < *lane.head) {
      if (lane.head == lane.end) *lane.head = none_;
      *--lane.head = entry;
      lane.head[-kFar] = least_;
      if (lane.heap_size == 0) --lane.stop;
      return;
    }
    if (lane.end == lane.begin + 2 * kSorted) MoveToMiddle(lane);
    lane.end[0] = lane.end[1] = none_;
    insert_far_(lane.end, entry);
    ++lane.end;
  }

  void MoveToMiddle(Lane& lane) const {
    Entry* const middle = lane.begin + kSorted / 2;
    lane.end = std::copy(lane.head, lane.end, middle);
    lane.head = middle;
    *lane.end = none_;
    std::fill_n(lane.head - kFar, kFar, least_);
    lane.stop = lane.heap_size != 0 ? lane.begin : middle + kSorted;
  }

  [[gnu::noinline]] void PushAtStop(std::size_t device, const Entry& entry) {
    Lane& lane = lanes_[device];
    if (lane.heap_size == 0 && lane.end - lane.head < static_cast<std::ptrdiff_t>(kSorted)) {
      lane.stop = std::min(lane.head + kSorted, lane.begin + 2 * kSorted);
      InsertAnywhere(lane, entry);
      return;
    }
    if (!heaps_are_cut_) CutHeaps();
    Entry behind = entry;
    if (const Entry& last = lane.end[-1]; entry < last) {
      if (lane.end - lane.head < static_cast<std::ptrdiff_t>(kSorted)) {
        InsertAnywhere(lane, entry);
        return;
      }
      behind = last;
      *--lane.end = none_;
      InsertAnywhere(lane, entry);
    }
    lane.heap[lane.heap_size++] = behind;
    lane.stop = lane.begin;
    std::push_heap(lane.heap, lane.heap + lane.heap_size, std::greater<>());
  }

  // Half full, so that entries can come in front without pushing others back into the heap.
  [[gnu::noinline]] void Refill(Lane& lane) const {
    lane.head = lane.end = lane.begin + kSorted / 2;
    std::fill_n(lane.head - kFar, kFar, least_);
    while (lane.end - lane.head < static_cast<std::ptrdiff_t>(kSorted / 2) && lane.heap_size != 0) {
      std::pop_heap(lane.heap, lane.heap + lane.heap_size, std::greater<>());
      *lane.end++ = lane.heap[--lane.heap_size];
    }
    *lane.end = none_;
    if (lane.heap_size == 0) lane.stop = lane.head + kSorted;
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

  Insertion<Entry> insert_far_ = nullptr;
  std::vector<Lane> lanes_;
  std::vector<Entry> sorted_;  // the lanes' rooms
  std::vector<Entry> heaps_;
  std::span<const DeviceId> placement_;
  Entry least_{};
  Entry none_{};
  bool heaps_are_cut_ = false;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_ENGINES_READY_QUEUES_H_
