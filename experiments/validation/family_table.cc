#include "experiments/validation/family_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "datasets/shipped_clusters.h"
#include "experiments/validation/network_table.h"
#include "sim/base/check.h"
#include "sim/bounds.h"
#include "sim/cost_model.h"
#include "sim/grouping.h"
#include "sim/simulator.h"

namespace emplace::experiments {
namespace {

// The first `count` accelerators, without the CPUs.
Cluster Accelerators(const Cluster& cluster, std::size_t count) {
  const Cluster cut = cluster.KeepAccelerators(count);
  std::vector<std::string> names;
  for (const Device& device : cut.devices()) {
    if (!device.is_cpu) names.push_back(device.name);
  }
  return cut.Keep(names);
}

}  // namespace

Spread SpreadOf(const std::vector<double>& values) {
  EMPLACE_CHECK(!values.empty());
  Spread spread;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  spread.least = *least;
  spread.most = *most;
  for (const double value : values) spread.mean += value;
  spread.mean /= static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  if (spread.least < spread.most) spread.sd = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return spread;
}

std::vector<FamilyRow> MakeFamilyTable(const std::vector<datasets::FamilyMember>& members, const std::string& cluster,
                                       const std::vector<std::size_t>& accelerators) {
  const Cluster all = datasets::LoadCluster(cluster);
  const Cluster one = Accelerators(all, 1);
  const std::unique_ptr<CostModel> model = MakeCostModel("roofline");
  std::vector<Cluster> clusters;
  clusters.reserve(accelerators.size());
  for (const std::size_t count : accelerators) clusters.push_back(Accelerators(all, count));
  std::vector<double> ops;
  std::vector<double> groups;
  std::vector<double> parameters;
  std::vector<double> seconds;
  std::vector<double> gib;
  std::vector<std::vector<double>> gaps(accelerators.size());
  for (const datasets::FamilyMember& member : members) {
    const Graph& graph = member.graph;
    const Grouping grouping = FindGrouper("merge_and_colocate").make(graph, {.max_groups = member.num_groups});
    const Placement placement(graph.num_ops(), MakeId<DeviceId>(0));
    const Simulator simulator(graph, one, CostTable(graph, one, *model), {.peak_memory = true});
    const StepResult result = simulator.Run(placement);
    ops.push_back(static_cast<double>(graph.num_ops()));
    groups.push_back(static_cast<double>(grouping.num_groups()));
    parameters.push_back(TrainedParameters(graph) / 1e6);
    seconds.push_back(result.step_time_micros / 1e6);
    gib.push_back(static_cast<double>(result.peak_memory[0].count) / (1024.0 * 1024 * 1024));
    for (std::size_t i = 0; i < clusters.size(); ++i) {
      const Bounds bounds = ComputeBounds(graph, clusters[i], CostTable(graph, clusters[i], *model));
      gaps[i].push_back(100 * (1 - bounds.lower_bound_micros / result.step_time_micros));
    }
  }
  std::vector<FamilyRow> rows = {{"ops", SpreadOf(ops)},
                                 {"groups", SpreadOf(groups)},
                                 {"parameters, M", SpreadOf(parameters)},
                                 {"step on one, s", SpreadOf(seconds)},
                                 {"peak memory on one, GiB", SpreadOf(gib)}};
  for (std::size_t i = 0; i < accelerators.size(); ++i) {
    rows.push_back({fmt::format("gap to the bound of {}, %", accelerators[i]), SpreadOf(gaps[i])});
  }
  return rows;
}

}  // namespace emplace::experiments
