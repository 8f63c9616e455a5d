// Peak memory of a `fifo` run (docs/model.md, M1 to M8). An allocation is a half-open interval: at one instant
// everything that ends is freed before anything is allocated, and an empty interval leaves no trace. So a peak is the
// largest sum of all changes up to and including an instant.
//
// Sorting all changes would cost more than the simulation. Instead they are added up in buckets of time: what is in use
// between two buckets is exact, and within one it cannot exceed what it was before plus all that the bucket allocates.
// Only the changes of those buckets are sorted that could, by this bound, hold more than was found between buckets.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "sim/engines/fifo_model.h"

namespace emplace::fifo {
namespace {

// Changes that a bucket of one device holds on average, about: fewer cost memory, more are sorted more often.
constexpr std::size_t kOpsPerBucket = 4;

std::size_t NumBuckets(const Model& model) { return std::bit_ceil(model.num_ops / kOpsPerBucket + 1); }

// Bits that a time is shifted by, so that none is beyond the last bucket.
int BucketShift(const Model& model, std::int64_t step_time) {
  const auto time_bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(step_time)));
  return std::max(0, time_bits - (static_cast<int>(std::bit_width(NumBuckets(model))) - 1));
}

template <typename Key>
void Prepare(const Model& model, MemoryRecord<Key>* memory) {
  const std::size_t tensors = model.read_tensors.size();
  memory->tensors.assign((tensors + 1) * (4 + model.lanes()), 0);
  for (std::size_t i = 0; i < tensors; ++i) {
    std::memcpy(&memory->tensors[i * (4 + model.lanes()) + 2], &model.read_tensors[i].bytes, sizeof(std::int64_t));
  }
  // An op's start and end, the start of each transfer, and the end of each tensor on its device; and where a change is
  // written before it is known whether it counts.
  memory->changes.resize(2 * model.num_ops + model.max_transfers + tensors + 1);
  memory->buckets.resize(NumBuckets(model) * model.num_devices);
  memory->close.resize(memory->changes.size());
  memory->in_use.resize(model.num_devices);
  memory->peaks.resize(model.num_devices);
  memory->last_bucket.resize(model.num_devices);
}

template <typename Key>
void FillBuckets(std::span<const Change<Key>> changes, const KeyFormat<Key>& key, int shift, std::size_t devices,
                 MemoryRecord<Key>& memory) {
  std::fill(memory.buckets.begin(), memory.buckets.end(), typename MemoryRecord<Key>::Bucket{});
  auto* const buckets = memory.buckets.data();
  for (const Change<Key>& change : changes) {
    auto& bucket = buckets[static_cast<std::size_t>(key.Time(change.when) >> shift) * devices + key.Id(change.when)];
    bucket.net += change.bytes;
    bucket.gains += std::max<std::int64_t>(change.bytes, 0);
  }
}

// Replaces the sums by what is in use before each bucket and the most within it; memory.peaks: the most that is in use
// after a bucket.
template <typename Key>
void BoundBuckets(std::size_t devices, MemoryRecord<Key>& memory) {
  std::fill(memory.in_use.begin(), memory.in_use.end(), 0);
  std::fill(memory.peaks.begin(), memory.peaks.end(), 0);
  for (std::size_t first = 0; first < memory.buckets.size(); first += devices) {
    for (std::size_t d = 0; d < devices; ++d) {
      auto& bucket = memory.buckets[first + d];
      const std::int64_t before = memory.in_use[d];
      memory.in_use[d] += bucket.net;
      memory.peaks[d] = std::max(memory.peaks[d], memory.in_use[d]);
      bucket.net = before;
      bucket.gains += before;
    }
  }
}

template <typename Key>
void SearchCloseBuckets(std::span<const Change<Key>> changes, const KeyFormat<Key>& key, int shift, std::size_t devices,
                        MemoryRecord<Key>& memory) {
  const auto bucket_of = [&](Key when) {
    return static_cast<std::size_t>(key.Time(when) >> shift) * devices + key.Id(when);
  };
  const auto* const buckets = memory.buckets.data();
  const std::int64_t* const peaks = memory.peaks.data();
  std::size_t count = 0;
  for (const Change<Key>& change : changes) {
    memory.close[count] = change;
    count += buckets[bucket_of(change.when)].gains > peaks[key.Id(change.when)] ? 1 : 0;
  }
  const auto close = std::span(memory.close).first(count);
  std::sort(close.begin(), close.end(), [](const auto& a, const auto& b) { return a.when < b.when; });
  std::fill(memory.last_bucket.begin(), memory.last_bucket.end(), memory.buckets.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t d = key.Id(close[i].when);
    const std::size_t bucket = bucket_of(close[i].when);
    if (bucket != memory.last_bucket[d]) memory.in_use[d] = buckets[bucket].net;
    memory.last_bucket[d] = bucket;
    memory.in_use[d] += close[i].bytes;
    // All changes of an instant are in when time advances.
    const bool is_last = i + 1 == count || close[i + 1].when != close[i].when;
    if (is_last) memory.peaks[d] = std::max(memory.peaks[d], memory.in_use[d]);
  }
}

}  // namespace

void PrepareMemory(const Model& model, RunWorkspace* w) {
  if (model.FitsPacked()) {
    Prepare(model, &w->packed.memory);
  } else {
    Prepare(model, &w->wide.memory);
  }
}

template <typename Key>
void ComputePeaks(const Model& model, std::span<const DeviceId> placement, std::int64_t step_time,
                  MemoryRecord<Key>& memory, StepResult* result) {
  const std::size_t d = model.num_devices;
  const KeyFormat<Key> key(model);
  const int shift = BucketShift(model, step_time);
  const auto changes = std::span<const Change<Key>>(memory.changes).first(memory.num_changes);
  FillBuckets(changes, key, shift, d, memory);
  BoundBuckets(d, memory);
  SearchCloseBuckets(changes, key, shift, d, memory);
  result->peak_memory.resize(d);
  for (std::size_t device = 0; device < d; ++device) result->peak_memory[device].count = memory.peaks[device];
  for (const Model::Persistent& persistent : model.persistent) {
    result->peak_memory[Index(placement[persistent.op])].count += persistent.bytes;
  }
  result->fits_memory = true;
  for (std::size_t device = 0; device < d; ++device) {
    if (result->peak_memory[device].count > model.capacity[device]) result->fits_memory = false;
  }
}

template <typename Key>
void AppendMemorySamples(const Model& model, std::span<const DeviceId> placement, const MemoryRecord<Key>& memory,
                         Timeline* timeline) {
  const KeyFormat<Key> key(model);
  std::vector<std::int64_t> in_use(model.num_devices);
  for (const Model::Persistent& persistent : model.persistent) {
    in_use[Index(placement[persistent.op])] += persistent.bytes;
  }
  std::vector<std::vector<Change<Key>>> changes(model.num_devices);
  for (std::size_t device = 0; device < model.num_devices; ++device)
    changes[device].push_back({key.Make(0, device), 0});
  for (std::size_t i = 0; i < memory.num_changes; ++i) {
    changes[key.Id(memory.changes[i].when)].push_back(memory.changes[i]);
  }
  for (std::size_t device = 0; device < model.num_devices; ++device) {
    auto& row = changes[device];
    std::sort(row.begin(), row.end(), [](const auto& a, const auto& b) { return a.when < b.when; });
    for (std::size_t k = 0; k < row.size(); ++k) {
      in_use[device] += row[k].bytes;
      if (k + 1 < row.size() && row[k + 1].when == row[k].when) continue;
      timeline->memory.push_back(
          {MakeId<DeviceId>(device), MicrosFromDuration(Duration(key.Time(row[k].when))), Bytes{in_use[device]}});
    }
  }
}

template void ComputePeaks(const Model&, std::span<const DeviceId>, std::int64_t, MemoryRecord<Packed>&, StepResult*);
template void ComputePeaks(const Model&, std::span<const DeviceId>, std::int64_t, MemoryRecord<Wide>&, StepResult*);
template void AppendMemorySamples(const Model&, std::span<const DeviceId>, const MemoryRecord<Packed>&, Timeline*);
template void AppendMemorySamples(const Model&, std::span<const DeviceId>, const MemoryRecord<Wide>&, Timeline*);

}  // namespace emplace::fifo
