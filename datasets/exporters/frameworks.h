#ifndef EMPLACE_DATASETS_EXPORTERS_FRAMEWORKS_H_
#define EMPLACE_DATASETS_EXPORTERS_FRAMEWORKS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/parallel_plan.h"
#include "sim/cluster.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::datasets {

// What a framework is told. Targets of placements have no plan and those of plans no placement; both may have a graph.
struct FrameworkInput {
  const Graph* graph = nullptr;
  const Cluster* cluster = nullptr;
  const Placement* placement = nullptr;
  const ParallelPlan* plan = nullptr;
};

// A format in which a framework reads how a model is divided. `emplace export --to NAME`.
struct FrameworkTarget {
  std::string_view name;
  std::string_view summary;
  bool reads_placement;  // it can say where modules are; else it needs a plan, which stages of a placement make too
  // Throws InputError where the format cannot say what is given.
  std::string (*write)(const FrameworkInput& input);
};
std::span<const FrameworkTarget> AllFrameworkTargets();
// Throws InputError that lists the known names.
const FrameworkTarget& FindFrameworkTarget(std::string_view name);

// The devices of a cluster that are no CPUs, which frameworks count from 0.
std::vector<DeviceId> Accelerators(const Cluster& cluster);

// A placement with stages as a plan: pp is the number of its devices. Throws as ModuleStages.
ParallelPlan PlanOfPlacement(const Graph& graph, const Cluster& cluster, const Placement& placement,
                             std::int64_t micro_batches, const std::string& schedule);
// The placement of a plan with stages, dp, tp and cp being 1: stage s runs on accelerator s mod pp of the cluster.
Placement PlacementOfPlan(const Graph& graph, const Cluster& cluster, const ParallelPlan& plan);

// The numbers of a network's layers in each stage, from the stages' paths or numbers; without stages, the layers of the
// graph are divided evenly, the first stages taking one more. Throws InputError where a stage's layers do not follow
// those of the stage before.
std::vector<std::vector<std::int64_t>> LayersOfStages(const ParallelPlan& plan, const Graph* graph);

// The placement that a device map says: the text of a "device-map", as Accelerate takes it.
Placement ReadDeviceMap(std::string_view text, const std::string& file, const Graph& graph, const Cluster& cluster);
// The same of "split-spec" and "stages", whose stage s is accelerator s.
Placement ReadSplitSpec(std::string_view text, const std::string& file, const Graph& graph, const Cluster& cluster);
Placement ReadStages(std::string_view text, const std::string& file, const Graph& graph, const Cluster& cluster);
// The same of "llama.cpp", where what is not in a layer is beside a layer or the output, and of "onnxruntime", where
// inputs and weights are beside what reads them first.
Placement ReadLlamaCpp(std::string_view text, const std::string& file, const Graph& graph, const Cluster& cluster);
Placement ReadOnnxRuntime(std::string_view text, const std::string& file, const Graph& graph, const Cluster& cluster);

// All formats that say a placement: those above, and "plan".
std::span<const std::string_view> PlacementFormats();
Placement ReadFrameworkPlacement(std::string_view target, std::string_view text, const std::string& file,
                                 const Graph& graph, const Cluster& cluster);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_EXPORTERS_FRAMEWORKS_H_
