#include "tests/testing/observations.h"

#include <numeric>

#include "sim/base/rng.h"
#include "sim/grouping.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {

agents::Observation MakeObservation(const Graph& graph, const Cluster& cluster) {
  const CostTable costs = MeasuredCosts(graph, cluster);
  agents::Observation observation{.graph = graph,
                                  .cluster = cluster,
                                  .time_micros = {},
                                  .allowed = {},
                                  .persistent = {},
                                  .temp = {},
                                  .output = {},
                                  .accelerators = {}};
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto id = MakeId<OpId>(i);
    for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
      observation.time_micros.push_back(costs.Micros(id, MakeId<DeviceId>(d)));
      observation.allowed.push_back(costs.Allowed(id, MakeId<DeviceId>(d)) ? 1 : 0);
    }
    observation.persistent.push_back(graph.op(id).persistent);
    observation.temp.push_back(graph.op(id).temp);
    Bytes output;
    for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
      output += graph.tensor(MakeId<TensorId>(Index(graph.first_output(id)) + k)).size;
    }
    observation.output.push_back(output);
  }
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    if (!cluster.devices()[d].is_cpu) observation.accelerators.push_back(MakeId<DeviceId>(d));
  }
  if (observation.accelerators.empty()) {
    for (std::size_t d = 0; d < cluster.num_devices(); ++d) observation.accelerators.push_back(MakeId<DeviceId>(d));
  }
  return observation;
}

Placement FirstProposal(std::unique_ptr<agents::Agent> (*make)(OptionReader& reader,
                                                               const agents::AgentContext& context),
                        const OptionMap& options, const Graph& graph, const Cluster& cluster) {
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs);
  std::vector<std::size_t> labels(graph.num_ops());
  std::iota(labels.begin(), labels.end(), std::size_t{0});
  const agents::Environment environment(graph, cluster, costs, Grouping(graph, labels), simulator);
  OptionReader reader(options, "agent");
  Rng rng(1);
  return make(reader, {.evaluations = 1})->Propose(environment, agents::Mode::kExplore, rng).placements.at(0);
}

std::vector<int> Devices(const Placement& placement) {
  std::vector<int> devices;
  for (const DeviceId device : placement.devices()) devices.push_back(static_cast<int>(Index(device)));
  return devices;
}

bool IsAllowed(const agents::Observation& observation, const Placement& placement) {
  if (placement.num_ops() != observation.num_groups()) return false;
  for (std::size_t group = 0; group < observation.num_groups(); ++group) {
    const std::size_t device = Index(placement[MakeId<OpId>(group)]);
    if (device >= observation.num_devices() || !observation.Allowed(group, device)) return false;
  }
  return true;
}

}  // namespace emplace::testing
