#include "agents/throughput/pipeline_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

}  // namespace

PipelineChain::PipelineChain(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                             const ContiguousUnits& units)
    : PipelineChain(graph, cluster, costs, units, AnywhereAllowed(graph, cluster, costs)) {}

PipelineChain::PipelineChain(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                             const ContiguousUnits& units, const Placement& anywhere)
    : PipelineChain(graph, cluster, costs, units, anywhere, PipelineRoles({graph, cluster, costs, anywhere})) {}

PipelineChain::PipelineChain(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                             const ContiguousUnits& units, const Placement& anywhere,
                             const std::vector<PipelineRole>& roles)
    : graph_(graph),
      cluster_(cluster),
      costs_(costs),
      parts_(FindParts(cluster, anywhere, roles, units)),
      speeds_(FindSpeeds(graph, cluster, costs, parts_, roles)),
      bytes_(FindBytes(graph, parts_, roles)),
      backwards_(bytes_.crossing_bytes[kBackwards]),
      transient_(FindTransient(graph, parts_, roles)) {}

bool PipelineChain::AllowedUpTo(DeviceId device, std::size_t first, std::size_t end) const {
  const std::vector<std::size_t>& refused = speeds_.Of(device).refused;
  return refused[end] == refused[first];
}

bool PipelineChain::Alike(DeviceId a, DeviceId b) const {
  return speeds_.speed_of[Index(a)] == speeds_.speed_of[Index(b)] &&
         cluster_.device(a).memory == cluster_.device(b).memory &&
         cluster_.device(a).is_cpu == cluster_.device(b).is_cpu;
}

double PipelineChain::Micros(DeviceId device, std::size_t first, std::size_t end) const {
  const ChainSpeed& speed = speeds_.Of(device);
  Duration sum{};
  for (std::size_t action = 0; action < 3; ++action) sum += speed.Time(action, first, end);
  return MicrosFromDuration(sum);
}

double PipelineChain::StageBytes(std::size_t first, std::size_t end, std::size_t in_flight) const {
  const std::int64_t each = bytes_.Sum(kUntilInput, first, end) + bytes_.Sum(kUntilWeight, first, end) +
                            (first == 0 ? 0 : bytes_.crossing_bytes[kKept][first]);
  const std::int64_t once =
      bytes_.Sum(kHeld, first, end) + bytes_.Sum(kGradients, first, end) + bytes_.Sum(kInputs, first, end);
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

PipelineStage PipelineChain::StageOf(DeviceId device, std::size_t first, std::size_t end) const {
  using enum ActionKind;
  const ChainSpeed& speed = speeds_.Of(device);
  PipelineStage stage;
  stage.forward = speed.Time(0, first, end);
  stage.backward_input = speed.Time(1, first, end);
  stage.backward_weight = speed.Time(2, first, end);
  const std::int64_t kept = bytes_.Sum(kUntilInput, first, end) + bytes_.Sum(kUntilWeight, first, end);
  const std::int64_t passed = backwards_.Of(first, end);  // values passed from part to part and out of the last one
  const auto set = [&](ActionKind kind, std::int64_t bytes) {
    const auto position = static_cast<std::size_t>(kind);
    stage.working[position] = Bytes{bytes + transient_[position].Of(first, end)};
  };
  set(kForward, kept);
  set(kBackward, passed);
  set(kBackwardInput, passed + bytes_.Sum(kBetweenParts, first, end));
  set(kBackwardWeight, 0);
  return stage;
}

void PipelineChain::AddKept(std::size_t s, std::size_t rank, std::size_t first, std::size_t end,
                            PipelineModel* model) const {
  using enum ActionKind;
  const auto keep = [&](ChainBytesOf what, std::optional<StagePart> after, std::vector<StagePart> readers) {
    const std::int64_t bytes = bytes_.Sum(what, first, end);
    if (bytes == 0) return;
    model->messages.push_back(
        {.route = {.from = rank, .to = rank, .size = Bytes{bytes}}, .after = after, .readers = std::move(readers)});
  };
  keep(kUntilInput, StagePart{s, kForward}, {{s, kBackwardInput}});
  keep(kUntilWeight, StagePart{s, kForward}, {{s, kBackwardInput}, {s, kBackwardWeight}});
  keep(kBetweenParts, StagePart{s, kBackwardInput}, {{s, kBackwardWeight}});
  keep(kInputs, std::nullopt, {{s, kForward}, {s, kBackwardInput}});
}

void PipelineChain::AddCrossings(const PipelineCut& cut, std::size_t s, std::size_t first, PipelineModel* model) const {
  using enum ActionKind;
  const std::size_t rank = model->rank_of_stage[s];
  const std::size_t before = model->rank_of_stage[s - 1];
  const auto send = [&](BoundaryOf what, std::size_t from, std::size_t to, StagePart after,
                        std::vector<StagePart> readers) {
    const std::int64_t bytes = bytes_.crossing_bytes[what][first];
    PipelineRoute route{.from = from, .to = to, .size = Bytes{bytes}};
    if (from != to) {
      const bool per_device = cluster_.channels() == Channels::kPerDevice;
      const bool by_itself = !cluster_.device(cut.devices[from]).copy_engine;
      route.channel = per_device ? from : from * cut.devices.size() + (by_itself ? from : to);
      route.transfer = Transfer(cut.devices[from], cut.devices[to], bytes, bytes_.crossing_tensors[what][first]);
      route.gap = DurationFromMicros(cluster_.link(cut.devices[from], cut.devices[to]).gap_micros);
    } else if (bytes == 0) {
      return;
    }
    model->messages.push_back({.route = route, .after = after, .readers = std::move(readers)});
  };
  send(kForwardOnly, before, rank, {s - 1, kForward}, {{s, kForward}});
  if (bytes_.crossing_bytes[kKept][first] > 0) {
    send(kKept, before, rank, {s - 1, kForward}, {{s, kForward}, {s, kBackwardInput}, {s, kBackwardWeight}});
  }
  send(kBackwards, rank, before, {s, kBackwardInput}, {{s - 1, kBackwardInput}});
}

PipelineModel PipelineChain::ModelOf(const PipelineCut& cut, std::span<const std::size_t> rank_of_stage) const {
  const std::size_t num_stages = cut.ends.size();
  const std::size_t num_ranks = cut.devices.size();
  EMPLACE_CHECK_EQ(rank_of_stage.size(), num_stages);
  PipelineModel model;
  model.rank_of_stage.assign(rank_of_stage.begin(), rank_of_stage.end());
  model.ranks.resize(num_ranks);
  model.num_channels = num_ranks * num_ranks;
  std::vector<std::int64_t> final_ops(num_ranks, 0);
  std::size_t first = 0;
  for (std::size_t s = 0; s < num_stages; ++s) {
    const std::size_t end = cut.ends[s];
    const std::size_t rank = rank_of_stage[s];
    const DeviceId device = cut.devices[rank];
    model.stages.push_back(StageOf(device, first, end));
    PipelineModel::Rank& of_rank = model.ranks[rank];
    of_rank.copy_engine = cluster_.device(device).copy_engine;
    of_rank.held += Bytes{bytes_.Sum(kHeld, first, end)};
    of_rank.gradients += Bytes{bytes_.Sum(kGradients, first, end)};
    of_rank.final_working += Bytes{bytes_.Sum(kGradients, first, end)};
    final_ops[rank] += speeds_.Of(device).final_ops[end] - speeds_.Of(device).final_ops[first];
    AddKept(s, rank, first, end, &model);
    if (s > 0) AddCrossings(cut, s, first, &model);
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
    if (parts_.part_of[i] < parts_.size) {
      placement[op] = device_of_part[parts_.part_of[i]];
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
