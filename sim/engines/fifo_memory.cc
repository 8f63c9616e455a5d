// Peak memory of a `fifo` run (simulator.md 1.7). An allocation is a half-open interval: at one instant everything that
// ends is freed before anything is allocated, and an empty interval leaves no trace. So a peak is the largest sum of
// all changes up to and including an instant.
//
// Sorting all changes would cost more than the simulation. Each device's changes come in rows that are in time order
// already: its ops, of which one ends before the next starts; transfers that arrive from each other device (a channel
// is first-in first-out); and home copies freed by an arrival. They are merged.

#include <algorithm>
#include <span>

#include "sim/engines/fifo_model.h"

namespace emplace::fifo {
namespace {

// A merge is a chain of dependent loads: several at a time overlap.
constexpr std::size_t kMergedTogether = 4;

void OpenRows(const Model& model, RunWorkspace& w) {
  const std::size_t d = model.num_devices;
  std::uint32_t received = 0;
  for (std::size_t row = 0; row < d * d; ++row) {
    w.received_begin[row] = w.received_end[row] = received;
    received += w.num_received[row] + 1;
  }
  std::uint32_t released = 0;
  for (std::size_t from = 0; from < d; ++from) {
    w.released_begin[from] = w.released_end[from] = released;
    for (std::size_t to = 0; to < d; ++to) released += w.num_received[to * d + from];
    ++released;
  }
}

// Where in `own` the last op of each device ends that has a part in a tensor: its producer and its readers.
void FindLastEnds(const Model& model, RunWorkspace& w) {
  const std::size_t d = model.num_devices;
  std::uint32_t* const last_end = w.last_end.data();
  for (std::size_t device = 0; device < d; ++device) {
    for (std::uint32_t slot = w.device_begin[device]; slot < w.device_begin[device + 1]; ++slot) {
      const std::uint32_t op = w.op_in_slot[slot];
      const auto index = static_cast<std::uint32_t>(RunWorkspace::own_index(slot, device) + 1);
      for (std::uint32_t i = model.parts_begin[op]; i < model.parts_begin[op + 1]; i += Model::kPartBlock) {
        for (std::uint32_t k = i; k < i + Model::kPartBlock; ++k) last_end[model.parts[k] * d + device] = index;
      }
    }
  }
}

// Which input was the last, which copy is freed when: nothing here is predictable, so there are no branches and no
// short loops.
void FillRows(const Model& model, RunWorkspace& w) {
  const std::size_t d = model.num_devices;
  OpenRows(model, w);
  FindLastEnds(model, w);
  const std::uint32_t* const last_end = w.last_end.data();
  Change* const own = w.own.data();
  for (const Model::ReadTensor& tensor : model.read_tensors) {
    own[last_end[tensor.id * d + w.ops[tensor.producer].device]].bytes -= tensor.bytes;
  }
  w.sent[w.num_sent].tensor = ~0U;
  std::int64_t arrived = 0;
  for (const SentTensor* sent = w.sent.data(); sent != w.sent.data() + w.num_sent; ++sent) {
    const std::int64_t bytes = model.tensor_bytes[sent->tensor];
    own[last_end[sent->tensor * d + sent->to]].bytes -= bytes;
    w.received[w.received_end[sent->to * d + sent->from]++] = {sent->start, bytes};
    // Home keeps it until the last copy has arrived.
    arrived = std::max(arrived, sent->arrival);
    const bool is_last = sent[1].tensor != sent->tensor;
    Change& home_end = own[last_end[sent->tensor * d + sent->from]];
    const bool is_released = is_last & (arrived > home_end.time);
    w.released[w.released_end[sent->from]] = {arrived, -bytes};
    w.released_end[sent->from] += is_released ? 1 : 0;
    home_end.bytes += is_released ? bytes : 0;
    arrived = is_last ? 0 : arrived;
  }
}

void CloseRows(const Model& model, RunWorkspace& w) {
  const std::size_t d = model.num_devices;
  for (std::size_t device = 0; device < d; ++device) {
    w.own[RunWorkspace::own_index(w.device_begin[device + 1], device)] = {kNever, 0};
    w.released[w.released_end[device]] = {kNever, 0};
  }
  for (std::size_t row = 0; row < d * d; ++row) w.received[w.received_end[row]] = {kNever, 0};
  if (!model.channel_per_pair) return;
  // With a channel for each destination, arrivals of one device are in no order.
  for (std::size_t device = 0; device < d; ++device) {
    std::sort(w.released.begin() + w.released_begin[device], w.released.begin() + w.released_end[device],
              [](const Change& a, const Change& b) { return a.time < b.time; });
  }
}

void StartMerge(const Model& model, const RunWorkspace& w, std::size_t device, RunWorkspace::Merge* merge) {
  const std::size_t d = model.num_devices;
  merge->now = 0;
  merge->in_use = 0;
  merge->peak = 0;
  merge->heads[0] = &w.own[RunWorkspace::own_index(w.device_begin[device], device)];
  merge->heads[1] = &w.released[w.released_begin[device]];
  std::size_t row = 2;
  for (std::size_t from = 0; from < d; ++from) {
    if (from != device) merge->heads[row++] = &w.received[w.received_begin[device * d + from]];
  }
  for (std::size_t r = 0; r < row; ++r) merge->times[r] = merge->heads[r]->time;
}

// Takes the next change. Returns its time; kNever, again and again, when there is none. kRows: num_rows, or 0.
template <std::size_t kRows>
[[gnu::always_inline]] inline std::int64_t Step(std::size_t num_rows, RunWorkspace::Merge& merge) {
  if constexpr (kRows != 0) num_rows = kRows;
  std::int64_t* const times = merge.times.data();
  std::int64_t time = times[0];
  std::size_t row = 0;
  for (std::size_t r = 1; r < num_rows; ++r) {
    const bool earlier = times[r] < time;
    row = earlier ? r : row;
    time = earlier ? times[r] : time;
  }
  // All changes of `now` are in when time goes on.
  const std::int64_t peak = std::max(merge.peak, merge.in_use);
  merge.peak = time > merge.now ? peak : merge.peak;
  merge.now = time;
  const Change* const head = merge.heads[row];
  merge.in_use += head->bytes;
  const Change* const next = head + (time != kNever ? 1 : 0);
  merge.heads[row] = next;
  times[row] = next->time;
  return time;
}

template <std::size_t kRows>
void MergeAll(std::size_t num_rows, std::span<RunWorkspace::Merge> merges) {
  std::int64_t time = 0;
  while (time != kNever) {
    time = kNever;
    for (RunWorkspace::Merge& merge : merges) time = std::min(time, Step<kRows>(num_rows, merge));
  }
}

}  // namespace

void PrepareRecord(const Model& model, RunWorkspace* w) {
  const std::size_t d = model.num_devices;
  w->device_begin.resize(d + 1);
  w->next_slot.resize(d);
  w->op_in_slot.resize(model.num_ops);
  w->sent.resize(model.max_transfers + 1);
  w->own.resize(2 * model.num_ops + d);
  w->received.resize(model.max_transfers + d * d);
  w->released.resize(model.max_transfers + d);
  w->num_received.resize(d * d);
  w->received_begin.resize(d * d);
  w->received_end.resize(d * d);
  w->released_begin.resize(d);
  w->released_end.resize(d);
  w->last_end.resize(model.num_tensors * d);
  w->merges.resize(std::min(d, kMergedTogether));
  for (RunWorkspace::Merge& merge : w->merges) {
    merge.times.resize(d + 1);
    merge.heads.resize(d + 1);
  }
}

void ComputePeaks(const Model& model, RunWorkspace& w, StepResult* result) {
  const std::size_t d = model.num_devices;
  FillRows(model, w);
  CloseRows(model, w);
  result->peak_memory.assign(d, Bytes{0});
  for (std::size_t first = 0; first < d; first += kMergedTogether) {
    const std::size_t together = std::min(kMergedTogether, d - first);
    for (std::size_t k = 0; k < together; ++k) StartMerge(model, w, first + k, &w.merges[k]);
    const std::span merges = std::span(w.merges).first(together);
    switch (d) {
      case 2:
        MergeAll<3>(3, merges);
        break;
      case 4:
        MergeAll<5>(5, merges);
        break;
      case 8:
        MergeAll<9>(9, merges);
        break;
      default:
        MergeAll<0>(d + 1, merges);
    }
    for (std::size_t k = 0; k < together; ++k) result->peak_memory[first + k].count = w.merges[k].peak;
  }
  for (std::size_t device = 0; device < d; ++device) {
    std::int64_t persistent = 0;
    for (std::uint32_t slot = w.device_begin[device]; slot < w.device_begin[device + 1]; ++slot) {
      persistent += model.persistent[w.op_in_slot[slot]];
    }
    result->peak_memory[device].count += persistent;
    if (result->peak_memory[device].count > model.capacity[device]) result->fits_memory = false;
  }
}

void AppendMemorySamples(const Model& model, const RunWorkspace& w, Timeline* timeline) {
  const std::size_t d = model.num_devices;
  for (std::size_t device = 0; device < d; ++device) {
    std::int64_t in_use = 0;
    for (std::size_t i = 0; i < model.num_ops; ++i) {
      if (w.ops[i].device == device) in_use += model.persistent[i];
    }
    std::vector<Change> changes = {{0, 0}};
    const auto add_row = [&changes](const Change* change) {
      for (; change->time != kNever; ++change) changes.push_back(*change);
    };
    add_row(&w.own[RunWorkspace::own_index(w.device_begin[device], device)]);
    add_row(&w.released[w.released_begin[device]]);
    for (std::size_t from = 0; from < d; ++from) add_row(&w.received[w.received_begin[device * d + from]]);
    std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
    for (std::size_t k = 0; k < changes.size(); ++k) {
      in_use += changes[k].bytes;
      if (k + 1 < changes.size() && changes[k + 1].time == changes[k].time) continue;
      timeline->memory.push_back(
          {MakeId<DeviceId>(device), MicrosFromDuration(Duration(changes[k].time)), Bytes{in_use}});
    }
  }
}

}  // namespace emplace::fifo
