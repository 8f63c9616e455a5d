// Peak memory of a `fifo` run (simulator.md 1.7). An allocation is a half-open interval: at one instant everything that
// ends is freed before anything is allocated, and an empty interval leaves no trace.
//
// Sorting all allocations and frees would cost more than the simulation. Each device's changes come in streams that are
// in time order already: allocations at op starts, frees at op ends (ends of ops on one device are in start order),
// transfers that arrive from each other device (a channel is first-in first-out), and frees at arrivals of the device's
// own transfers. They are merged.

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "sim/engines/fifo_model.h"

namespace emplace::fifo {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
using Change = RunWorkspace::Change;
using Rows = RunWorkspace::Rows;

// Starts `num_rows` empty rows; Count() each value, then Open(), then Append().
void Clear(Rows& rows, std::size_t num_rows) { rows.end.assign(num_rows + 1, 0); }
void Count(Rows& rows, std::size_t row) { ++rows.end[row + 1]; }
void Open(Rows& rows) {
  std::partial_sum(rows.end.begin(), rows.end.end(), rows.end.begin());
  rows.values.resize(rows.end.back());
  rows.end.pop_back();
  rows.begin = rows.end;
}
void Append(Rows& rows, std::size_t row, Change change) { rows.values[rows.end[row]++] = change; }

void SortByDevice(const Model& model, RunWorkspace& w) {
  w.device_begin.assign(model.num_devices + 2, 0);
  for (const OpState& op : w.ops) ++w.device_begin[op.device + 2];
  std::partial_sum(w.device_begin.begin(), w.device_begin.end(), w.device_begin.begin());
  w.by_device.resize(w.started.size());
  // Row d is filled from device_begin[d + 1] on, which ends as the begin of row d + 1.
  for (const Started& started : w.started) w.by_device[w.device_begin[w.ops[started.op].device + 1]++] = started;
  w.device_begin.pop_back();
}

void MakeRoomForTransfers(const Model& model, RunWorkspace& w) {
  const std::size_t d = model.num_devices;
  Clear(w.received, d * d);
  Clear(w.released, d);
  for (const SentTensor& sent : w.sent) {
    Count(w.received, sent.to * d + sent.from);
    Count(w.released, sent.from);
  }
  Open(w.received);
  Open(w.released);
}

// Finds when the copies of one tensor are freed. Returns the first transfer behind those of the tensor.
const SentTensor* EndLifetimes(const Model& model, RunWorkspace& w, const Started& producer, std::uint32_t tensor,
                               std::span<const std::uint32_t> readers, const SentTensor* sent) {
  const std::uint32_t home = w.ops[producer.op].device;
  const std::int64_t bytes = model.tensor_bytes[tensor];
  const SentTensor* const first = sent;
  std::int64_t arrived = 0;
  for (const SentTensor* const all = w.sent.data() + w.sent.size(); sent != all && sent->tensor == tensor; ++sent) {
    w.last_end[sent->to] = -1;
    arrived = std::max(arrived, sent->arrival);
  }
  w.last_end[home] = producer.end;
  w.last_reader[home] = producer.op;
  for (const std::uint32_t reader : readers) {
    const OpState& state = w.ops[reader];
    const bool later = state.time > w.last_end[state.device];
    w.last_end[state.device] = later ? state.time : w.last_end[state.device];
    w.last_reader[state.device] = later ? reader : w.last_reader[state.device];
  }
  if (arrived > w.last_end[home]) {
    Append(w.released, home, {arrived, bytes});
  } else {
    w.freed_at_end[w.last_reader[home]] += bytes;
  }
  for (const SentTensor* copy = first; copy != sent; ++copy) {
    w.freed_at_end[w.last_reader[copy->to]] += bytes;
    Append(w.received, copy->to * model.num_devices + home, {copy->start, bytes});
  }
  return sent;
}

void FillStreams(const Model& model, RunWorkspace& w) {
  SortByDevice(model, w);
  MakeRoomForTransfers(model, w);
  w.freed_at_end.assign(model.num_ops, 0);
  w.last_end.resize(model.num_devices);
  w.last_reader.resize(model.num_devices);
  const SentTensor* sent = w.sent.data();  // transfers are in the order of producers and their tensors
  for (const Started& producer : w.started) {
    w.freed_at_end[producer.op] += model.temp_bytes[producer.op] + model.unread_bytes[producer.op];
    const std::uint32_t* word = &model.program[model.program_begin[producer.op]];
    const std::uint32_t tensors = word[0] / 2;
    word += 1 + 2 * model.num_kinds;
    for (std::uint32_t k = tensors; k > 0; --k) {
      const std::uint32_t tensor = word[0];
      const std::uint32_t count = word[1];
      word += 2 + 2 * model.rates_in_program;
      sent = EndLifetimes(model, w, producer, tensor, {word, count}, sent);
      word += count;
    }
  }
  if (!model.channel_per_pair) return;
  // With a channel for each destination, arrivals of one device are in no order.
  for (std::size_t d = 0; d < model.num_devices; ++d) {
    std::sort(w.released.values.begin() + w.released.begin[d], w.released.values.begin() + w.released.end[d],
              [](const Change& a, const Change& b) { return a.time < b.time; });
  }
}

// The largest sum of what is alive at one time on the device, persistent bytes left out.
std::int64_t PeakOf(const Model& model, RunWorkspace& w, std::size_t device) {
  const std::size_t d = model.num_devices;
  const Started* start = w.by_device.data() + w.device_begin[device];
  const Started* const last = w.by_device.data() + w.device_begin[device + 1];
  const Started* end = start;
  const Change* released = w.released.values.data() + w.released.begin[device];
  const Change* const last_released = w.released.values.data() + w.released.end[device];
  std::uint32_t* const heads = w.received.begin.data() + device * d;  // advanced: this run needs them no more
  const std::uint32_t* const ends = w.received.end.data() + device * d;

  std::int64_t next_arrival = 0;
  std::size_t source = 0;
  const auto find_next_arrival = [&] {
    next_arrival = kNever;
    for (std::size_t from = 0; from < d; ++from) {
      if (heads[from] == ends[from]) continue;
      const std::int64_t time = w.received.values[heads[from]].time;
      source = time < next_arrival ? from : source;
      next_arrival = std::min(next_arrival, time);
    }
  };
  find_next_arrival();

  std::int64_t in_use = 0;
  std::int64_t peak = 0;
  while (start != last || next_arrival != kNever) {
    const bool op_starts = start != last && start->start <= next_arrival;
    const std::int64_t now = op_starts ? start->start : next_arrival;
    for (; end != last && end->end <= now; ++end) in_use -= w.freed_at_end[end->op];
    for (; released != last_released && released->time <= now; ++released) in_use -= released->bytes;
    if (op_starts) {
      in_use += model.start_bytes[start->op];
      ++start;
    } else {
      in_use += w.received.values[heads[source]++].bytes;
      find_next_arrival();
    }
    peak = std::max(peak, in_use);
  }
  return peak;
}

}  // namespace

void ComputePeaks(const Model& model, RunWorkspace& workspace, StepResult* result) {
  FillStreams(model, workspace);
  result->peak_memory.assign(model.num_devices, Bytes{0});
  for (std::size_t i = 0; i < model.num_ops; ++i) {
    result->peak_memory[workspace.ops[i].device].count += model.persistent[i];
  }
  for (std::size_t d = 0; d < model.num_devices; ++d) {
    result->peak_memory[d].count += PeakOf(model, workspace, d);
    if (result->peak_memory[d].count > model.capacity[d]) result->fits_memory = false;
  }
}

void AppendMemorySamples(const Model& model, RunWorkspace& workspace, Timeline* timeline) {
  FillStreams(model, workspace);
  for (std::size_t d = 0; d < model.num_devices; ++d) {
    std::int64_t in_use = 0;
    for (std::size_t i = 0; i < model.num_ops; ++i) {
      if (workspace.ops[i].device == d) in_use += model.persistent[i];
    }
    std::vector<Change> changes = {{0, 0}};
    for (std::size_t k = workspace.device_begin[d]; k < workspace.device_begin[d + 1]; ++k) {
      const Started& op = workspace.by_device[k];
      changes.push_back({op.start, model.start_bytes[op.op]});
      changes.push_back({op.end, -workspace.freed_at_end[op.op]});
    }
    const auto add_row = [&changes](const Rows& rows, std::size_t row, std::int64_t sign) {
      for (std::uint32_t k = rows.begin[row]; k < rows.end[row]; ++k) {
        changes.push_back({rows.values[k].time, sign * rows.values[k].bytes});
      }
    };
    for (std::size_t from = 0; from < model.num_devices; ++from) {
      add_row(workspace.received, d * model.num_devices + from, 1);
    }
    add_row(workspace.released, d, -1);
    std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
    for (std::size_t k = 0; k < changes.size(); ++k) {
      in_use += changes[k].bytes;
      if (k + 1 < changes.size() && changes[k + 1].time == changes[k].time) continue;
      timeline->memory.push_back({MakeId<DeviceId>(d), MicrosFromDuration(Duration(changes[k].time)), Bytes{in_use}});
    }
  }
}

}  // namespace emplace::fifo
