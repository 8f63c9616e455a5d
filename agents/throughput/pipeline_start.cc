#include "agents/throughput/pipeline_start.h"

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "agents/throughput/contiguous_units.h"
#include "agents/throughput/pipedream_plan.h"
#include "agents/throughput/stage_costs.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

std::vector<DeviceId> AcceleratorsOf(const Cluster& cluster) {
  std::vector<DeviceId> accelerators;
  std::vector<DeviceId> all;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    all.push_back(MakeId<DeviceId>(d));
    if (!cluster.devices()[d].is_cpu) accelerators.push_back(all.back());
  }
  return accelerators.empty() ? all : accelerators;
}

}  // namespace

Grouping PipelineGroups(const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  const StageCosts loads = MakeStageCosts(graph, cluster, costs);
  return Grouping(graph, MakeContiguousUnits(graph, ColocationClasses(graph), loads).unit_of);
}

std::optional<Placement> PipelineStart(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                       const ScheduleEvaluator& evaluator) {
  if (graph.num_ops() == 0) return std::nullopt;
  const StageCosts loads = MakeStageCosts(graph, cluster, costs);
  const ContiguousUnits units = MakeContiguousUnits(graph, ColocationClasses(graph), loads);
  const std::vector<DeviceId> all = AcceleratorsOf(cluster);
  std::optional<Placement> best;
  StepResult best_result;
  for (std::size_t count = all.size(); count > 0; --count) {
    const std::vector<DeviceId> devices(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
    const std::vector<std::size_t> ranks = evaluator.choice().StageRanks(count);
    BandwidthLevel level = FindHierarchy(cluster, devices, /*flat=*/true).levels.front();
    level.components = ranks.size();
    const PipeDreamPlan plan = PlanPipeDream(MakeLayerChain(graph, units, loads, devices), {level}, /*replicas=*/false);
    if (plan.stages.size() != ranks.size()) continue;
    std::vector<DeviceId> device_of_unit;
    bool exists = true;
    for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
      exists = exists && ranks[stage] < count;
      if (exists) device_of_unit.resize(plan.stages[stage].last + 1, devices[ranks[stage]]);
    }
    if (!exists) continue;
    Placement placement(graph.num_ops());
    bool allowed = true;
    for (std::size_t op = 0; op < graph.num_ops(); ++op) {
      const DeviceId device = device_of_unit[units.unit_of[op]];
      placement[MakeId<OpId>(op)] = device;
      allowed = allowed && !std::isnan(costs.Micros(MakeId<OpId>(op), device));
    }
    if (!allowed) continue;
    StepResult result = evaluator.Run(placement);
    if (!result.runs) continue;
    const bool better =
        !best || (result.fits_memory && !best_result.fits_memory) ||
        (result.fits_memory == best_result.fits_memory && result.step_time_micros < best_result.step_time_micros);
    if (!better) continue;
    best = std::move(placement);
    best_result = std::move(result);
  }
  return best;
}

}  // namespace emplace::agents
