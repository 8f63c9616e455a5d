#include "agents/throughput/pipeline_chain.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "sim/base/check.h"
#include "sim/schedule/pipeline_stages.h"

namespace emplace::agents {
namespace {

// Each op where it may run: on an accelerator, if there is one.
Placement AnywhereAllowed(const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  std::vector<DeviceId> devices;
  for (const bool cpus : {false, true}) {
    for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
      if (cluster.devices()[d].is_cpu == cpus) devices.push_back(MakeId<DeviceId>(d));
    }
  }
  Placement placement(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    const auto found = std::ranges::find_if(devices, [&](DeviceId device) { return costs.Allowed(op, device); });
    placement[op] = found == devices.end() ? devices.front() : *found;
  }
  return placement;
}

// By ActionKind but kBackward, which is both parts.
constexpr std::uint8_t kNoAction = 255;
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
  return kNoAction;
}

PipelineRole RoleFrom(std::uint8_t role) { return static_cast<PipelineRole>(role); }

std::size_t PositionOfRole(PipelineRole role) { return static_cast<std::size_t>(role) - 1; }

void AccumulatePrefix(std::vector<std::int64_t>* sums) {
  for (std::size_t i = 1; i < sums->size(); ++i) (*sums)[i] += (*sums)[i - 1];
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

PipelineChain::PipelineChain(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                             const ContiguousUnits& units)
    : graph_(graph), cluster_(cluster), costs_(costs) {
  const Placement anywhere = AnywhereAllowed(graph, cluster, costs);
  std::vector<std::uint8_t> roles;
  for (const PipelineRole role : PipelineRoles({graph, cluster, costs, anywhere})) {
    roles.push_back(static_cast<std::uint8_t>(role));
  }
  std::vector<bool> has_forward(units.size(), false);
  std::vector<bool> on_accelerator(units.size(), true);  // whether some accelerator has a time for all ops
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    if (RoleFrom(roles[i]) == PipelineRole::kForwardOp) has_forward[units.unit_of[i]] = true;
    const bool is_cpu = cluster.device(anywhere[MakeId<OpId>(i)]).is_cpu;
    if (is_cpu) on_accelerator[units.unit_of[i]] = false;
  }
  // A unit without forward ops goes with the part before it, unless it has to be elsewhere.
  std::vector<std::size_t> part_of_unit(units.size());
  std::vector<bool> apart(units.size(), false);
  std::size_t parts = 0;
  const auto first_part = static_cast<std::size_t>(std::ranges::find(has_forward, true) - has_forward.begin());
  bool accelerated = first_part == units.size() || on_accelerator[first_part];
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    if (has_forward[unit]) {
      ++parts;
      accelerated = on_accelerator[unit];
    }
    apart[unit] = !has_forward[unit] && on_accelerator[unit] != accelerated;
    part_of_unit[unit] = parts == 0 ? 0 : parts - 1;
  }
  size_ = parts;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const std::size_t unit = units.unit_of[i];
    part_of_.push_back(apart[unit] || parts == 0 ? size_ : part_of_unit[unit]);
  }
  AddTimes(roles);
  AddBytes(roles);
  AddTransient(roles);
}

void PipelineChain::AddTimes(const std::vector<std::uint8_t>& roles) {
  struct Key {
    std::size_t kind = 0;
    double gap = 0;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::size_t> known;
  for (std::size_t d = 0; d < cluster_.num_devices(); ++d) {
    const auto device = MakeId<DeviceId>(d);
    const auto [found, is_new] =
        known.emplace(Key{costs_.KindIndex(device), cluster_.device(device).op_gap_micros}, speeds_.size());
    speed_of_.push_back(found->second);
    if (!is_new) continue;
    Speed& speed = speeds_.emplace_back();
    for (auto* const sums : {&speed.device, &speed.host}) {
      for (std::vector<std::int64_t>& of_role : *sums) of_role.assign(size_ + 1, 0);
    }
    speed.final_ops.assign(size_ + 1, 0);
    speed.refused.assign(size_ + 1, 0);
    const std::optional<IssueLane>& lane = cluster_.device(device).issue;
    if (lane) speed.launch = DurationFromMicros(lane->launch_latency_micros);
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      const auto op = MakeId<OpId>(i);
      if (part_of_[i] == size_) continue;
      const std::size_t at = part_of_[i] + 1;
      const double micros = costs_.Micros(op, device);
      if (std::isnan(micros)) {
        ++speed.refused[at];
        continue;
      }
      Duration time = DurationFromMicros(micros);
      if (time > Duration{}) time += DurationFromMicros(cluster_.device(device).op_gap_micros);
      const PipelineRole role = RoleFrom(roles[i]);
      if (role == PipelineRole::kFinalOp) speed.final_ops[at] += time.count();
      if (role == PipelineRole::kFinalOp || role == PipelineRole::kSourceOp) continue;
      speed.device[PositionOfRole(role)][at] += time.count();
      if (!lane) continue;
      const double host = costs_.HostMicros(op, costs_.KindIndex(device));
      speed.host[PositionOfRole(role)][at] += DurationFromMicros(std::isnan(host) ? lane->host_micros : host).count();
    }
    for (auto* const sums : {&speed.device, &speed.host}) {
      for (std::vector<std::int64_t>& of_role : *sums) AccumulatePrefix(&of_role);
    }
    AccumulatePrefix(&speed.final_ops);
    for (std::size_t i = 1; i <= size_; ++i) speed.refused[i] += speed.refused[i - 1];
  }
}

void PipelineChain::AddBytes(const std::vector<std::uint8_t>& roles) {
  for (std::vector<std::int64_t>& sums : bytes_) sums.assign(size_ + 1, 0);
  for (std::vector<std::int64_t>& sums : crossing_bytes_) sums.assign(size_ + 2, 0);
  for (std::vector<std::int64_t>& sums : crossing_tensors_) sums.assign(size_ + 2, 0);
  const auto cross = [&](BoundaryOf what, std::size_t before, std::size_t last, std::int64_t bytes) {
    // At the boundaries behind `before` up to that before `last`.
    if (before >= last) return;
    crossing_bytes_[what][before + 1] += bytes;
    crossing_bytes_[what][last + 1] -= bytes;
    ++crossing_tensors_[what][before + 1];
    --crossing_tensors_[what][last + 1];
  };
  for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    const std::size_t part = part_of_[i];
    if (part == size_) continue;
    bytes_[kHeld][part + 1] += graph_.op(op).persistent.count;
    const PipelineRole role = RoleFrom(roles[i]);
    for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) {
      const auto tensor = MakeId<TensorId>(Index(graph_.first_output(op)) + k);
      const std::int64_t size = graph_.tensor(tensor).size.count;
      std::size_t last_forward = part;
      std::size_t last_backward = part;
      std::size_t first = part;
      bool by_input = false;
      bool by_weight = false;
      bool by_final = false;
      for (const OpId reader : graph_.consumers(tensor)) {
        const std::size_t at = part_of_[Index(reader)];
        const PipelineRole of_reader = RoleFrom(roles[Index(reader)]);
        by_final = by_final || of_reader == PipelineRole::kFinalOp;
        if (at == size_) continue;
        if (of_reader == PipelineRole::kForwardOp) last_forward = std::max(last_forward, at);
        if (of_reader != PipelineRole::kInputOp && of_reader != PipelineRole::kWeightOp) continue;
        first = std::min(first, at);
        last_backward = std::max(last_backward, at);
        by_input = by_input || of_reader == PipelineRole::kInputOp;
        by_weight = by_weight || of_reader == PipelineRole::kWeightOp;
      }
      switch (role) {
        case PipelineRole::kSourceOp:
          bytes_[graph_.op(op).kind == "variable" ? kHeld : kInputs][part + 1] += size;
          break;
        case PipelineRole::kForwardOp:
          if (by_input || by_weight) bytes_[by_weight ? kUntilWeight : kUntilInput][part + 1] += size;
          cross(kKept, part, last_backward, size);
          cross(kForwardOnly, std::max(part, last_backward), last_forward, size);
          break;
        case PipelineRole::kInputOp:
          if (by_weight) bytes_[kBetweenParts][part + 1] += size;
          if (by_final) bytes_[kGradients][part + 1] += size;
          cross(kBackwards, first, part, size);
          break;
        case PipelineRole::kWeightOp:
          if (by_final) bytes_[kGradients][part + 1] += size;
          break;
        case PipelineRole::kFinalOp:
          break;
      }
    }
  }
  for (std::vector<std::int64_t>& sums : bytes_) AccumulatePrefix(&sums);
  for (std::vector<std::int64_t>& sums : crossing_bytes_) AccumulatePrefix(&sums);
  for (std::vector<std::int64_t>& sums : crossing_tensors_) AccumulatePrefix(&sums);
  backwards_.emplace_back(crossing_bytes_[kBackwards]);
}

// The peak of the ops of each part that run together, in the order of ids, without what others read.
void PipelineChain::AddTransient(const std::vector<std::uint8_t>& roles) {
  struct Running {
    std::int64_t live = 0;
    std::int64_t peak = 0;
  };
  constexpr auto kWhole = static_cast<std::size_t>(ActionKind::kBackward);
  std::vector<std::array<Running, 4>> running(size_);
  std::vector<std::array<std::int64_t, 4>> freed(graph_.num_ops(), {0, 0, 0, 0});  // after an op
  for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    const std::uint8_t action = ActionOf(RoleFrom(roles[i]));
    if (part_of_[i] == size_ || action == kNoAction) continue;
    std::array<Running, 4>& of_part = running[part_of_[i]];
    const auto run_in = [&](std::size_t kind) {
      Running& now = of_part[kind];
      const auto is_inside = [&](std::size_t other) {
        const std::uint8_t of_other = ActionOf(RoleFrom(roles[other]));
        if (part_of_[other] != part_of_[i] || of_other == kNoAction) return false;
        return kind == kWhole ? of_other != static_cast<std::uint8_t>(ActionKind::kForward) : of_other == kind;
      };
      for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) {
        const auto tensor = MakeId<TensorId>(Index(graph_.first_output(op)) + k);
        std::size_t last = i;
        bool is_kept = false;
        for (const OpId reader : graph_.consumers(tensor)) {
          const bool is_final = RoleFrom(roles[Index(reader)]) == PipelineRole::kFinalOp;
          if (is_inside(Index(reader))) {
            last = std::max(last, Index(reader));
          } else {
            is_kept = is_kept || !is_final;
          }
        }
        if (is_kept) continue;
        now.live += graph_.tensor(tensor).size.count;
        freed[last][kind] += graph_.tensor(tensor).size.count;
      }
      now.peak = std::max(now.peak, now.live + graph_.op(op).temp.count);
      now.live -= freed[i][kind];
    };
    run_in(action);
    if (action != static_cast<std::uint8_t>(ActionKind::kForward)) run_in(kWhole);
  }
  for (std::size_t kind = 0; kind < 4; ++kind) {
    std::vector<std::int64_t> peaks;
    peaks.reserve(running.size());
    for (const std::array<Running, 4>& of_part : running) peaks.push_back(of_part[kind].peak);
    transient_.emplace_back(std::move(peaks));
  }
}

bool PipelineChain::AllowedUpTo(DeviceId device, std::size_t first, std::size_t end) const {
  const std::vector<std::size_t>& refused = SpeedOf(device).refused;
  return refused[end] == refused[first];
}

bool PipelineChain::Alike(DeviceId a, DeviceId b) const {
  return speed_of_[Index(a)] == speed_of_[Index(b)] && cluster_.device(a).memory == cluster_.device(b).memory &&
         cluster_.device(a).is_cpu == cluster_.device(b).is_cpu;
}

double PipelineChain::Micros(DeviceId device, std::size_t first, std::size_t end) const {
  const Speed& speed = SpeedOf(device);
  Duration sum{};
  for (std::size_t part = 0; part < 3; ++part) {
    const Duration own{speed.device[part][end] - speed.device[part][first]};
    const Duration host{speed.host[part][end] - speed.host[part][first]};
    sum += std::max(own, host == Duration{} ? host : host + speed.launch);
  }
  return MicrosFromDuration(sum);
}

double PipelineChain::StageBytes(std::size_t first, std::size_t end, std::size_t in_flight) const {
  const std::int64_t each =
      Sum(kUntilInput, first, end) + Sum(kUntilWeight, first, end) + (first == 0 ? 0 : crossing_bytes_[kKept][first]);
  const std::int64_t once = Sum(kHeld, first, end) + Sum(kGradients, first, end) + Sum(kInputs, first, end);
  const std::int64_t running = std::max(transient_[static_cast<std::size_t>(ActionKind::kForward)].Of(first, end),
                                        transient_[static_cast<std::size_t>(ActionKind::kBackward)].Of(first, end));
  return static_cast<double>(once + running) + static_cast<double>(each) * static_cast<double>(in_flight);
}

Duration PipelineChain::Transfer(DeviceId from, DeviceId to, std::int64_t bytes, std::int64_t tensors) const {
  if (from == to || tensors == 0) return Duration{};
  const Link& link = cluster_.link(from, to);
  return (DurationFromMicros(link.latency_micros) + DurationFromMicros(link.gap_micros)) * tensors -
         DurationFromMicros(link.gap_micros) + TransferDuration(Bytes{bytes}, link.rate());
}

PipelineModel PipelineChain::ModelOf(const PipelineCut& cut, std::span<const std::size_t> rank_of_stage) const {
  using enum ActionKind;
  const std::size_t num_stages = cut.ends.size();
  const std::size_t num_ranks = cut.devices.size();
  EMPLACE_CHECK_EQ(rank_of_stage.size(), num_stages);
  PipelineModel model;
  model.rank_of_stage.assign(rank_of_stage.begin(), rank_of_stage.end());
  model.ranks.resize(num_ranks);
  model.stages.resize(num_stages);
  model.num_channels = num_ranks * num_ranks;
  std::vector<std::int64_t> final_ops(num_ranks, 0);
  std::size_t first = 0;
  for (std::size_t s = 0; s < num_stages; ++s) {
    const std::size_t end = cut.ends[s];
    const std::size_t rank = rank_of_stage[s];
    const DeviceId device = cut.devices[rank];
    const Speed& speed = SpeedOf(device);
    PipelineStage& stage = model.stages[s];
    const std::array<Duration*, 3> times = {&stage.forward, &stage.backward_input, &stage.backward_weight};
    for (std::size_t part = 0; part < 3; ++part) {
      const Duration own{speed.device[part][end] - speed.device[part][first]};
      const Duration host{speed.host[part][end] - speed.host[part][first]};
      *times[part] = std::max(own, host == Duration{} ? host : host + speed.launch);
    }
    const std::int64_t until_input = Sum(kUntilInput, first, end);
    const std::int64_t until_weight = Sum(kUntilWeight, first, end);
    const std::int64_t between = Sum(kBetweenParts, first, end);
    const auto transient = [&](ActionKind kind) { return transient_[static_cast<std::size_t>(kind)].Of(first, end); };
    const std::int64_t passed = backwards_.front().Of(first, end);  // from part to part, and out
    stage.working[static_cast<std::size_t>(kForward)] = Bytes{until_input + until_weight + transient(kForward)};
    stage.working[static_cast<std::size_t>(kBackward)] = Bytes{passed + transient(kBackward)};
    stage.working[static_cast<std::size_t>(kBackwardInput)] = Bytes{passed + between + transient(kBackwardInput)};
    stage.working[static_cast<std::size_t>(kBackwardWeight)] = Bytes{transient(kBackwardWeight)};
    PipelineModel::Rank& of_rank = model.ranks[rank];
    of_rank.copy_engine = cluster_.device(device).copy_engine;
    of_rank.held += Bytes{Sum(kHeld, first, end)};
    of_rank.gradients += Bytes{Sum(kGradients, first, end)};
    of_rank.final_working += Bytes{Sum(kGradients, first, end)};
    final_ops[rank] += speed.final_ops[end] - speed.final_ops[first];
    const auto keep = [&](std::int64_t bytes, std::optional<StagePart> after, std::vector<StagePart> readers) {
      if (bytes == 0) return;
      model.messages.push_back(
          {.route = {.from = rank, .to = rank, .size = Bytes{bytes}}, .after = after, .readers = std::move(readers)});
    };
    keep(until_input, StagePart{s, kForward}, {{s, kBackwardInput}});
    keep(until_weight, StagePart{s, kForward}, {{s, kBackwardInput}, {s, kBackwardWeight}});
    keep(between, StagePart{s, kBackwardInput}, {{s, kBackwardWeight}});
    keep(Sum(kInputs, first, end), std::nullopt, {{s, kForward}, {s, kBackwardInput}});
    if (s > 0) {
      const std::size_t before = rank_of_stage[s - 1];
      const auto send = [&](BoundaryOf what, std::size_t from, std::size_t to, StagePart after,
                            std::vector<StagePart> readers) {
        const std::int64_t bytes = crossing_bytes_[what][first];
        PipelineRoute route{.from = from, .to = to, .size = Bytes{bytes}};
        if (from != to) {
          const bool per_device = cluster_.channels() == Channels::kPerDevice;
          const bool by_itself = !cluster_.device(cut.devices[from]).copy_engine;
          route.channel = per_device ? from : from * num_ranks + (by_itself ? from : to);
          route.transfer = Transfer(cut.devices[from], cut.devices[to], bytes, crossing_tensors_[what][first]);
          route.gap = DurationFromMicros(cluster_.link(cut.devices[from], cut.devices[to]).gap_micros);
        } else if (bytes == 0) {
          return;
        }
        model.messages.push_back({.route = route, .after = after, .readers = std::move(readers)});
      };
      send(kForwardOnly, before, rank, {s - 1, kForward}, {{s, kForward}});
      if (crossing_bytes_[kKept][first] > 0) {
        send(kKept, before, rank, {s - 1, kForward}, {{s, kForward}, {s, kBackwardInput}, {s, kBackwardWeight}});
      }
      send(kBackwards, rank, before, {s, kBackwardInput}, {{s - 1, kBackwardInput}});
    }
    first = end;
  }
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    if (final_ops[rank] > 0) model.final_ops.push_back({.rank = rank, .time = Duration{final_ops[rank]}});
  }
  return model;
}

Placement PipelineChain::PlacementOf(const PipelineCut& cut, std::span<const std::size_t> rank_of_stage) const {
  std::vector<DeviceId> device_of_part;
  for (std::size_t stage = 0; stage < cut.ends.size(); ++stage) {
    device_of_part.resize(cut.ends[stage], cut.devices[rank_of_stage[stage]]);
  }
  Placement placement(graph_.num_ops());
  for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    if (part_of_[i] < size_) {
      placement[op] = device_of_part[part_of_[i]];
      continue;
    }
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t d = 0; d < cluster_.num_devices(); ++d) {
      const double micros = costs_.Micros(op, MakeId<DeviceId>(d));
      if (std::isnan(micros) || micros >= least) continue;
      least = micros;
      placement[op] = MakeId<DeviceId>(d);
    }
  }
  return placement;
}

}  // namespace emplace::agents
