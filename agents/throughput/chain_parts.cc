#include "agents/throughput/chain_parts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "sim/schedule/schedule.h"

namespace emplace::agents {
namespace {

// By ActionKind but kBackward, which is both parts.
constexpr std::uint8_t kInvalidAction = 255;
std::uint8_t ActionOf(PipelineRole role) {
  switch (role) {
    case PipelineRole::kForwardOp:
      return static_cast<std::uint8_t>(ActionKind::kForward);
    case PipelineRole::kInputOp:
      return static_cast<std::uint8_t>(ActionKind::kBackwardInput);
    case PipelineRole::kWeightOp:
      return static_cast<std::uint8_t>(ActionKind::kBackwardWeight);
    case PipelineRole::kSourceOp:
    case PipelineRole::kFinalOp:
      break;
  }
  return kInvalidAction;
}

std::size_t PositionOfRole(PipelineRole role) { return static_cast<std::size_t>(role) - 1; }

void AccumulatePrefix(std::vector<std::int64_t>* sums) {
  for (std::size_t i = 1; i < sums->size(); ++i) (*sums)[i] += (*sums)[i - 1];
}

// The time of ops on a device.
ChainSpeed SpeedOn(DeviceId id, const Graph& graph, const Cluster& cluster, const CostTable& costs,
                   const ChainParts& parts, const std::vector<PipelineRole>& roles) {
  const Device& device = cluster.device(id);
  ChainSpeed speed;
  for (auto* const sums : {&speed.device, &speed.host}) {
    for (std::vector<std::int64_t>& of_role : *sums) of_role.assign(parts.size + 1, 0);
  }
  speed.final_ops.assign(parts.size + 1, 0);
  speed.refused.assign(parts.size + 1, 0);
  if (device.issue) speed.launch = DurationFromMicros(device.issue->launch_latency_micros);
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    if (parts.part_of[i] == parts.size) continue;
    const std::size_t at = parts.part_of[i] + 1;
    const double micros = costs.Micros(op, id);
    if (std::isnan(micros)) {
      ++speed.refused[at];
      continue;
    }
    Duration time = DurationFromMicros(micros);
    if (time > Duration{}) time += DurationFromMicros(device.op_gap_micros);
    const PipelineRole role = roles[i];
    if (role == PipelineRole::kFinalOp) speed.final_ops[at] += time.count();
    if (role == PipelineRole::kFinalOp || role == PipelineRole::kSourceOp) continue;
    speed.device[PositionOfRole(role)][at] += time.count();
    if (!device.issue) continue;
    const double host = costs.HostMicros(op, costs.KindIndex(id));
    speed.host[PositionOfRole(role)][at] +=
        DurationFromMicros(std::isnan(host) ? device.issue->host_micros : host).count();
  }
  for (auto* const sums : {&speed.device, &speed.host}) {
    for (std::vector<std::int64_t>& of_role : *sums) AccumulatePrefix(&of_role);
  }
  AccumulatePrefix(&speed.final_ops);
  for (std::size_t i = 1; i <= parts.size; ++i) speed.refused[i] += speed.refused[i - 1];
  return speed;
}

// The readers of a tensor of a part.
struct TensorReaders {
  std::size_t last_forward = 0;  // part with a forward op that does
  std::size_t last_backward = 0;
  std::size_t first = 0;  // part with a backward op that does
  bool by_input = false;
  bool by_weight = false;
  bool by_final = false;
};

TensorReaders ReadersOf(const Graph& graph, const ChainParts& parts, const std::vector<PipelineRole>& roles,
                        TensorId tensor, std::size_t part) {
  TensorReaders readers{.last_forward = part, .last_backward = part, .first = part};
  for (const OpId reader : graph.consumers(tensor)) {
    const std::size_t at = parts.part_of[Index(reader)];
    const PipelineRole of_reader = roles[Index(reader)];
    readers.by_final = readers.by_final || of_reader == PipelineRole::kFinalOp;
    if (at == parts.size) continue;
    if (of_reader == PipelineRole::kForwardOp) readers.last_forward = std::max(readers.last_forward, at);
    if (of_reader != PipelineRole::kInputOp && of_reader != PipelineRole::kWeightOp) continue;
    readers.first = std::min(readers.first, at);
    readers.last_backward = std::max(readers.last_backward, at);
    readers.by_input = readers.by_input || of_reader == PipelineRole::kInputOp;
    readers.by_weight = readers.by_weight || of_reader == PipelineRole::kWeightOp;
  }
  return readers;
}

}  // namespace

RangeMax::RangeMax(std::vector<std::int64_t> values) {
  levels_.push_back(std::move(values));
  for (std::size_t width = 2; width <= levels_.front().size(); width *= 2) {
    const std::vector<std::int64_t>& half = levels_.back();
    std::vector<std::int64_t> level(levels_.front().size() - width + 1);
    for (std::size_t i = 0; i < level.size(); ++i) level[i] = std::max(half[i], half[i + width / 2]);
    levels_.push_back(std::move(level));
  }
}

std::int64_t RangeMax::Of(std::size_t first, std::size_t end) const {
  if (first >= end) return 0;
  const auto level = static_cast<std::size_t>(std::bit_width(end - first) - 1);
  return std::max(levels_[level][first], levels_[level][end - (std::size_t{1} << level)]);
}

ChainParts FindParts(const Cluster& cluster, const Placement& anywhere, const std::vector<PipelineRole>& roles,
                     const ContiguousUnits& units) {
  std::vector<bool> has_forward(units.size(), false);
  std::vector<bool> on_accelerator(units.size(), true);  // whether some accelerator has a time for all ops
  for (std::size_t i = 0; i < roles.size(); ++i) {
    if (roles[i] == PipelineRole::kForwardOp) has_forward[units.unit_of[i]] = true;
    const bool is_cpu = cluster.device(anywhere[MakeId<OpId>(i)]).is_cpu;
    if (is_cpu) on_accelerator[units.unit_of[i]] = false;
  }
  // A unit without forward ops goes with the part before it, unless it has to be elsewhere.
  std::vector<std::size_t> part_of_unit(units.size());
  std::vector<bool> apart(units.size(), false);
  std::size_t count = 0;
  const auto first_part = static_cast<std::size_t>(std::ranges::find(has_forward, true) - has_forward.begin());
  bool accelerated = first_part == units.size() || on_accelerator[first_part];
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    if (has_forward[unit]) {
      ++count;
      accelerated = on_accelerator[unit];
    }
    apart[unit] = !has_forward[unit] && on_accelerator[unit] != accelerated;
    part_of_unit[unit] = count == 0 ? 0 : count - 1;
  }
  ChainParts parts{.size = count, .part_of = {}};
  for (std::size_t i = 0; i < roles.size(); ++i) {
    const std::size_t unit = units.unit_of[i];
    parts.part_of.push_back(apart[unit] || count == 0 ? parts.size : part_of_unit[unit]);
  }
  return parts;
}

Duration ChainSpeed::Time(std::size_t action, std::size_t first, std::size_t end) const {
  const Duration own{device[action][end] - device[action][first]};
  const Duration of_host{host[action][end] - host[action][first]};
  return std::max(own, of_host == Duration{} ? of_host : of_host + launch);
}

ChainSpeeds FindSpeeds(const Graph& graph, const Cluster& cluster, const CostTable& costs, const ChainParts& parts,
                       const std::vector<PipelineRole>& roles) {
  ChainSpeeds found;
  std::map<std::pair<std::size_t, double>, std::size_t> known;  // keyed by kind and gap
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    const auto device = MakeId<DeviceId>(d);
    const auto [speed, is_new] =
        known.try_emplace({costs.KindIndex(device), cluster.device(device).op_gap_micros}, found.speeds.size());
    found.speed_of.push_back(speed->second);
    if (is_new) found.speeds.push_back(SpeedOn(device, graph, cluster, costs, parts, roles));
  }
  return found;
}

ChainBytes FindBytes(const Graph& graph, const ChainParts& parts, const std::vector<PipelineRole>& roles) {
  ChainBytes found;
  for (std::vector<std::int64_t>& sums : found.bytes) sums.assign(parts.size + 1, 0);
  for (std::vector<std::int64_t>& sums : found.crossing_bytes) sums.assign(parts.size + 2, 0);
  for (std::vector<std::int64_t>& sums : found.crossing_tensors) sums.assign(parts.size + 2, 0);
  const auto cross = [&](BoundaryOf what, std::size_t before, std::size_t last, std::int64_t bytes) {
    // At the boundaries behind `before` up to that before `last`.
    if (before >= last) return;
    found.crossing_bytes[what][before + 1] += bytes;
    found.crossing_bytes[what][last + 1] -= bytes;
    ++found.crossing_tensors[what][before + 1];
    --found.crossing_tensors[what][last + 1];
  };
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    const std::size_t part = parts.part_of[i];
    if (part == parts.size) continue;
    found.bytes[kHeld][part + 1] += graph.op(op).persistent.count;
    const PipelineRole role = roles[i];
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      const auto tensor = MakeId<TensorId>(Index(graph.first_output(op)) + k);
      const std::int64_t size = graph.tensor(tensor).size.count;
      const TensorReaders readers = ReadersOf(graph, parts, roles, tensor, part);
      switch (role) {
        case PipelineRole::kSourceOp:
          found.bytes[graph.op(op).kind == "variable" ? kHeld : kInputs][part + 1] += size;
          break;
        case PipelineRole::kForwardOp:
          if (readers.by_input || readers.by_weight)
            found.bytes[readers.by_weight ? kUntilWeight : kUntilInput][part + 1] += size;
          cross(kKept, part, readers.last_backward, size);
          cross(kForwardOnly, std::max(part, readers.last_backward), readers.last_forward, size);
          break;
        case PipelineRole::kInputOp:
          if (readers.by_weight) found.bytes[kBetweenParts][part + 1] += size;
          if (readers.by_final) found.bytes[kGradients][part + 1] += size;
          cross(kBackwards, readers.first, part, size);
          break;
        case PipelineRole::kWeightOp:
          if (readers.by_final) found.bytes[kGradients][part + 1] += size;
          break;
        case PipelineRole::kFinalOp:
          break;
      }
    }
  }
  for (std::vector<std::int64_t>& sums : found.bytes) AccumulatePrefix(&sums);
  for (std::vector<std::int64_t>& sums : found.crossing_bytes) AccumulatePrefix(&sums);
  for (std::vector<std::int64_t>& sums : found.crossing_tensors) AccumulatePrefix(&sums);
  return found;
}

std::vector<RangeMax> FindTransient(const Graph& graph, const ChainParts& parts,
                                    const std::vector<PipelineRole>& roles) {
  struct Running {
    std::int64_t live = 0;
    std::int64_t peak = 0;
  };
  constexpr auto kWhole = static_cast<std::size_t>(ActionKind::kBackward);
  std::vector<std::array<Running, 4>> running(parts.size);
  std::vector<std::array<std::int64_t, 4>> freed(graph.num_ops(), {0, 0, 0, 0});  // after an op
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    const std::uint8_t action = ActionOf(roles[i]);
    if (parts.part_of[i] == parts.size || action == kInvalidAction) continue;
    std::array<Running, 4>& of_part = running[parts.part_of[i]];
    const auto run_in = [&](std::size_t kind) {
      Running& now = of_part[kind];
      const auto is_inside = [&](std::size_t other) {
        const std::uint8_t of_other = ActionOf(roles[other]);
        if (parts.part_of[other] != parts.part_of[i] || of_other == kInvalidAction) return false;
        return kind == kWhole ? of_other != static_cast<std::uint8_t>(ActionKind::kForward) : of_other == kind;
      };
      for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
        const auto tensor = MakeId<TensorId>(Index(graph.first_output(op)) + k);
        std::size_t last = i;
        bool is_kept = false;
        for (const OpId reader : graph.consumers(tensor)) {
          const bool is_final = roles[Index(reader)] == PipelineRole::kFinalOp;
          if (is_inside(Index(reader))) {
            last = std::max(last, Index(reader));
          } else {
            is_kept = is_kept || !is_final;
          }
        }
        if (is_kept) continue;
        now.live += graph.tensor(tensor).size.count;
        freed[last][kind] += graph.tensor(tensor).size.count;
      }
      now.peak = std::max(now.peak, now.live + graph.op(op).temp.count);
      now.live -= freed[i][kind];
    };
    run_in(action);
    if (action != static_cast<std::uint8_t>(ActionKind::kForward)) run_in(kWhole);
  }
  std::vector<RangeMax> transient;
  for (std::size_t kind = 0; kind < 4; ++kind) {
    std::vector<std::int64_t> peaks;
    peaks.reserve(running.size());
    for (const std::array<Running, 4>& of_part : running) peaks.push_back(of_part[kind].peak);
    transient.emplace_back(std::move(peaks));
  }
  return transient;
}

}  // namespace emplace::agents
