#include "datasets/importers/trace_memory.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace emplace::datasets {
namespace {

// The ops of a device, which follow one another in the step: the first and the last one.
struct DeviceOps {
  std::uint32_t first = kInvalidTraceId;
  std::uint32_t last = kInvalidTraceId;
};

std::vector<DeviceOps> OpsByDevice(const TraceStep& step) {
  std::vector<DeviceOps> ops(step.devices.size());
  for (std::uint32_t i = 0; i < step.ops.size(); ++i) {
    DeviceOps& of_device = ops[step.ops[i].device];
    if (of_device.first == kInvalidTraceId) of_device.first = i;
    of_device.last = i;
  }
  return ops;
}

// The op that a device runs at `time`, or after a pause the next one; the last one if there is none.
std::uint32_t OpAt(const TraceStep& step, const DeviceOps& ops, std::int64_t time) {
  const auto begin = step.ops.begin() + ops.first;
  const auto end = step.ops.begin() + ops.last;
  const auto at =
      std::partition_point(begin, end, [&](const TraceStep::Op& op) { return op.measured_start + op.time < time; });
  return static_cast<std::uint32_t>(at - step.ops.begin());
}

// Allocated memory.
struct Block {
  std::uint32_t op = 0;  // that allocated it
  std::int64_t bytes = 0;
  std::int64_t time = 0;
};

// Memory that an op allocates and releases: how much more or less there is from a time on.
struct TempChange {
  std::uint32_t op = 0;
  std::int64_t time = 0;
  std::int64_t bytes = 0;
};

// An op's temporary bytes are the most that it has at a time.
void SetTempBytes(std::vector<TempChange> changes, TraceStep* step) {
  std::ranges::sort(changes, {},
                    [](const TempChange& change) { return std::tuple(change.op, change.time, change.bytes); });
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (i > 0 && changes[i - 1].op != changes[i].op) bytes = 0;
    bytes += changes[i].bytes;
    std::int64_t& most = step->ops[changes[i].op].temp_bytes;
    most = std::max(most, bytes);
  }
}

}  // namespace

void AddMemory(const MeasuredRank& rank, const std::vector<std::uint32_t>& users, TraceStep* step) {
  const std::vector<DeviceOps> devices = OpsByDevice(*step);
  std::map<std::int64_t, Block> blocks;  // keyed by address
  std::vector<TempChange> temps;
  std::optional<std::int64_t> before;  // what is allocated before the step
  std::int64_t released = 0;           // of that, in the step
  std::optional<std::int64_t> peak;
  std::uint32_t any = kInvalidTraceId;  // an op that allocates or releases something
  for (std::size_t i = 0; i < rank.trace->allocations.size(); ++i) {
    const TraceAllocation& change = rank.trace->allocations[i];
    if (change.time >= rank.window.end) break;
    if (change.time < rank.window.start) {
      before = change.total;
      continue;
    }
    if (!before) before = change.total - change.bytes;
    peak = std::max({peak.value_or(0), *before, change.total});
    const std::uint32_t op = users[i];
    if (op == kInvalidTraceId) continue;
    any = op;
    if (change.bytes > 0) {
      blocks[change.address] = {op, change.bytes, change.time};
      continue;
    }
    const auto found = blocks.find(change.address);
    if (found == blocks.end()) {
      released -= change.bytes;
      step->tensors.push_back({devices[step->ops[op].device].first, op, -change.bytes});
      continue;
    }
    const Block block = found->second;
    blocks.erase(found);
    const std::uint32_t device = step->ops[block.op].device;
    const std::uint32_t last =
        step->ops[op].device == device ? op : OpAt(*step, devices[device], change.time + rank.shift);
    if (last > block.op) {
      step->tensors.push_back({block.op, last, block.bytes});
    } else {
      temps.push_back({block.op, block.time, block.bytes});
      temps.push_back({block.op, change.time, -block.bytes});
    }
  }
  if (any == kInvalidTraceId) return;
  for (const auto& [_, block] : blocks) {
    step->tensors.push_back({block.op, devices[step->ops[block.op].device].last, block.bytes});
  }
  const DeviceOps& ops = devices[step->ops[any].device];
  if (*before > released) step->tensors.push_back({ops.first, ops.last, *before - released});
  SetTempBytes(std::move(temps), step);
  step->peak_bytes = step->peak_bytes.value_or(0) + *peak;
}

}  // namespace emplace::datasets
