#include <optional>
#include <sstream>
#include <string>

#include "datasets/exporters/framework_plans.h"
#include "datasets/exporters/frameworks.h"
#include "datasets/parallel_plan.h"
#include "python/src/bindings.h"
#include "sim/base/check.h"
#include "sim/groupers/groupers.h"

namespace emplace::python {
namespace {

Placement PlacementFrom(const PlacementArray& array, const Graph& graph, const Cluster& cluster) {
  if (array.ndim() != 1 || static_cast<std::size_t>(array.size()) != graph.num_ops()) {
    throw InputError("placement", "has another shape (a device for each op)");
  }
  Placement placement(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const std::int16_t device = array.data()[i];
    if (device < 0 || static_cast<std::size_t>(device) >= cluster.num_devices()) {
      throw InputError("placement", "has device " + std::to_string(device) + " (devices of the cluster)");
    }
    placement[MakeId<OpId>(i)] = MakeId<DeviceId>(static_cast<std::size_t>(device));
  }
  return placement;
}

datasets::ParallelPlan PlanFrom(const std::string& text, const std::string& file) {
  std::istringstream in(text);
  return datasets::ReadPlan(in, file);
}

std::string FrameworkText(const std::string& target, const PlacedGraph* graph, const PlacedCluster* cluster,
                          const std::optional<PlacementArray>& placement, const std::string& plan) {
  std::optional<Placement> placed;
  std::optional<datasets::ParallelPlan> planned;
  if (placement) placed = PlacementFrom(*placement, graph->graph, cluster->cluster);
  if (!plan.empty()) planned = PlanFrom(plan, "plan");
  return datasets::FindFrameworkTarget(target).write({.graph = graph != nullptr ? &graph->graph : nullptr,
                                                      .cluster = cluster != nullptr ? &cluster->cluster : nullptr,
                                                      .placement = placed ? &*placed : nullptr,
                                                      .plan = planned ? &*planned : nullptr});
}

std::string PlanText(const PlacedGraph& graph, const PlacedCluster& cluster, const PlacementArray& placement,
                     std::int64_t micro_batches, const std::string& schedule) {
  const Placement placed = PlacementFrom(placement, graph.graph, cluster.cluster);
  std::ostringstream text;
  datasets::WritePlan(text, datasets::PlanOfPlacement(graph.graph, cluster.cluster, placed, micro_batches, schedule));
  return std::move(text).str();
}

std::string CheckedPlanText(const std::string& plan, const std::string& file) {
  std::ostringstream text;
  datasets::WritePlan(text, PlanFrom(plan, file));
  return std::move(text).str();
}

py::array_t<std::int16_t> ReadPlacement(const std::string& target, const std::string& text, const std::string& file,
                                        const PlacedGraph& graph, const PlacedCluster& cluster) {
  return PlacementToArray(datasets::ReadFrameworkPlacement(target, text, file, graph.graph, cluster.cluster));
}

std::string ReadPlanText(const std::string& target, const std::string& text, const std::string& file,
                         std::int64_t devices) {
  std::ostringstream plan;
  datasets::WritePlan(plan, datasets::ReadFrameworkPlan(target, text, file, devices));
  return std::move(plan).str();
}

}  // namespace

void BindExporting(py::module_& module) {
  module.def("framework_text", &FrameworkText, py::arg("target"), py::arg("graph"), py::arg("cluster"),
             py::arg("placement"), py::arg("plan"));
  module.def("plan_text", &PlanText, py::arg("graph"), py::arg("cluster"), py::arg("placement"),
             py::arg("micro_batches"), py::arg("schedule"));
  module.def("checked_plan_text", &CheckedPlanText, py::arg("plan"), py::arg("file"));
  module.def("read_framework_plan", &ReadPlanText, py::arg("target"), py::arg("text"), py::arg("file"),
             py::arg("devices"));
  module.def("read_framework_placement", &ReadPlacement, py::arg("target"), py::arg("text"), py::arg("file"),
             py::arg("graph"), py::arg("cluster"));
  module.def("whole_modules", [](const PlacedGraph& graph) {
    std::vector<std::string> modules;
    for (const std::string_view path : FindWholeModules(graph.graph).module_of_op) modules.emplace_back(path);
    return modules;
  });
}

}  // namespace emplace::python
