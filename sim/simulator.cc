#include "sim/simulator.h"

#include <array>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/registry.h"
#include "sim/engines/fifo.h"
#include "sim/engines/flow.h"
#include "sim/engines/placeto_reference.h"

namespace emplace {
namespace {

std::unique_ptr<Simulator::Engine> MakeEngine(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                              const SimOptions& options) {
  EMPLACE_CHECK_EQ(costs.num_ops(), graph.num_ops());
  EMPLACE_CHECK(options.collectives == "model" || options.collectives == "ring" || options.collectives == "tree");
  return FindByName(AllEngines(), options.engine, "engine").make(graph, cluster, costs, options);
}

}  // namespace

Simulator::Simulator(const Graph& graph, const Cluster& cluster, const CostTable& costs, const SimOptions& options)
    : options_(options), engine_(MakeEngine(graph, cluster, costs, options)) {}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

std::unique_ptr<Simulator::Workspace> Simulator::MakeWorkspace() const { return engine_->MakeWorkspace(); }

void Simulator::Run(std::span<const DeviceId> placement, Workspace& workspace, StepResult* result) const {
  engine_->Run(placement, workspace, result, nullptr);
}

StepResult Simulator::Run(const Placement& placement) const {
  StepResult result;
  const auto workspace = MakeWorkspace();
  engine_->Run(placement.devices(), *workspace, &result, nullptr);
  return result;
}

Timeline Simulator::Record(const Placement& placement) const {
  StepResult result;
  Timeline timeline;
  const auto workspace = MakeWorkspace();
  engine_->Run(placement.devices(), *workspace, &result, &timeline);
  return timeline;
}

std::span<const EngineEntry> AllEngines() {
  static constexpr std::array<EngineEntry, 3> kEngines = {{
      {"fifo", "One op at a time and one outgoing channel per device, in integer nanoseconds (default).",
       "emplace; docs/model.md, engine fifo", MakeFifoEngine},
      {"flow", "As fifo, but transfers share the links of the cluster's topology with max-min fairness.",
       "emplace; docs/model.md, engine flow", MakeFlowEngine},
      {"placeto-reference", "Reproduces the published Placeto / Park simulator bit for bit.",
       "Addanki et al. 2019, Placeto, A.5; park-project/park tf_placement_sim", MakePlacetoReferenceEngine},
  }};
  return kEngines;
}

}  // namespace emplace
