#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agents/agent.h"
#include "agents/reward.h"
#include "datasets/families/families.h"
#include "datasets/importers/registry.h"
#include "datasets/models/registry.h"
#include "datasets/shipped_clusters.h"
#include "datasets/transform/transform.h"
#include "experiments/library/instances.h"
#include "experiments/library/known_results.h"
#include "experiments/report/results.h"
#include "experiments/run/run_reader.h"
#include "experiments/version.h"
#include "python/src/batch_evaluator.h"
#include "python/src/bindings.h"
#include "sim/base/check.h"
#include "sim/base/registry.h"
#include "sim/cost_model.h"
#include "sim/grouping.h"
#include "sim/simulator.h"

namespace emplace::python {
namespace {

using Settings = std::map<std::string, std::string>;

PlacedGraph Generate(const std::string& model, const Settings& settings) {
  Graph graph = datasets::MakeModel(model, {settings.begin(), settings.end()});
  std::string place = "graph " + graph.name();
  return {std::move(graph), std::move(place)};
}

py::list Family(const std::string& name, std::uint64_t seed) {
  std::vector<datasets::FamilyMember> members;
  {
    const py::gil_scoped_release released;
    members = datasets::MakeFamily(datasets::FindFamily(name), seed);
  }
  py::list rows;
  for (datasets::FamilyMember& member : members) {
    std::string place = "graph " + member.graph.name();
    py::dict drawn;
    for (const auto& [key, value] : member.drawn) drawn[py::str(key)] = value;
    rows.append(py::make_tuple(PlacedGraph{std::move(member.graph), std::move(place)}, member.training,
                               member.num_groups, drawn));
  }
  return rows;
}

// `given`: ImportOptions by name, all of them.
py::dict ImportFiles(const std::vector<std::string>& paths, const std::string& format, const py::kwargs& given) {
  const auto text = [&](const char* name) { return given[name].cast<std::string>(); };
  const datasets::ImportOptions options = {.min_attributed_percent = given["min_attributed_percent"].cast<double>(),
                                           .times = text("times"),
                                           .inputs = given["inputs"].cast<std::vector<std::string>>(),
                                           .step = text("step"),
                                           .nodes = given["nodes"].cast<int>(),
                                           .cluster = text("cluster"),
                                           .comm_groups = text("comm_groups"),
                                           .nvlink = text("nvlink"),
                                           .training = text("training")};
  if (paths.empty()) throw InputError("paths", "is empty (a file to import)");
  std::optional<datasets::Imported> imported;
  std::string name;
  {
    const py::gil_scoped_release released;
    std::vector<datasets::ImportSource> sources;
    sources.reserve(paths.size());
    for (const std::string& path : paths) sources.emplace_back(path);
    const datasets::ImporterEntry& importer =
        datasets::FindImporter(format, sources.front().head(), sources.front().name());
    name = importer.name;
    imported = datasets::Import(importer, sources, options);
  }
  py::dict result;
  result["format"] = name;
  result["placement"] = imported->placement ? py::object(PlacementToArray(*imported->placement)) : py::none();
  result["cluster"] =
      imported->cluster ? py::cast(PlacedCluster{std::move(*imported->cluster), paths.front()}) : py::none();
  result["graph"] = py::cast(PlacedGraph{std::move(imported->graph), paths.front()});
  result["notes"] = imported->notes;
  result["measured_step_us"] =
      imported->measured ? py::object(py::float_(imported->measured->step_time_micros)) : py::none();
  result["unexplained_percent"] =
      imported->measured ? py::object(py::float_(imported->measured->UnexplainedPercent())) : py::none();
  result["attributed_percent"] = imported->attributed_percent;
  return result;
}

PlacedGraph TransformGraph(const PlacedGraph& graph, std::int64_t data_parallel, std::int64_t tensor_parallel,
                           std::int64_t expert_parallel, const std::string& recompute, double bucket_mib,
                           bool shard_optimizer) {
  Graph changed = datasets::Transform(graph.graph, {.recompute = recompute,
                                                    .tensor_parallel = tensor_parallel,
                                                    .expert_parallel = expert_parallel,
                                                    .data_parallel = data_parallel,
                                                    .bucket_mib = bucket_mib,
                                                    .shard_optimizer = shard_optimizer});
  std::string place = "graph " + changed.name();
  return {std::move(changed), std::move(place)};
}

py::list LibraryRows() {
  py::list rows;
  for (const experiments::LibraryInstance& instance : experiments::LibraryInstances()) {
    py::dict row;
    row["name"] = instance.name;
    row["tier"] = std::string(EnumNames<experiments::Tier>::kNames[static_cast<std::size_t>(instance.tier)].second);
    row["ops"] = instance.ops;
    const experiments::KnownResult* const known = experiments::FindKnownResult(instance.name);
    row["best_known_ns"] = known != nullptr ? py::object(py::int_(known->step_time_ns)) : py::none();
    row["lower_bound_ns"] = known != nullptr ? py::object(py::int_(known->lower_bound_ns)) : py::none();
    rows.append(row);
  }
  return rows;
}

// Graph, cluster and costs.
py::tuple LoadLibraryProblem(const std::string& name) {
  std::optional<experiments::LibraryProblem> problem;
  const experiments::LibraryInstance& instance = experiments::FindInstance(name);
  {
    const py::gil_scoped_release released;
    problem = experiments::LoadFrozenInstance(instance);
  }
  const std::string graph_place = "graph " + problem->graph.name();
  const std::string cluster_place = "cluster " + problem->cluster.name();
  return py::make_tuple(PlacedGraph{std::move(problem->graph), graph_place},
                        PlacedCluster{std::move(problem->cluster), cluster_place},
                        NamedCosts{std::move(problem->costs), instance.costs});
}

template <typename Entries>
py::list Rows(const Entries& entries) {
  py::list rows;
  for (const auto& entry : entries) rows.append(py::make_tuple(std::string(entry.name), std::string(entry.summary)));
  return rows;
}

py::list ListTopic(const std::string& topic) {
  if (topic == "agents") return Rows(agents::AllAgents());
  if (topic == "models") return Rows(datasets::AllModelNames());
  if (topic == "datasets") return Rows(datasets::AllFamilies());
  if (topic == "engines") return Rows(AllEngines());
  if (topic == "rewards") return Rows(agents::AllRewards());
  if (topic == "groupers") return Rows(AllGroupers());
  if (topic == "cost-models") return Rows(AllCostModels());
  if (topic == "importers") return Rows(datasets::AllImporters());
  if (topic == "clusters") {
    py::list rows;
    for (const datasets::ShippedCluster& shipped : datasets::AllShippedClusters()) {
      rows.append(py::make_tuple(std::string(shipped.name), datasets::LoadCluster(std::string(shipped.name)).source()));
    }
    return rows;
  }
  throw InputError("topic", "is \"" + topic +
                                "\" (agents, models, datasets, clusters, engines, rewards, groupers, cost-models or "
                                "importers)");
}

// The header, and for each agent the texts of its cells: mean, interval, and the number of trials where some are
// missing.
py::tuple ImprovementRows(const std::string& runs) {
  experiments::TableBlock table;
  {
    const py::gil_scoped_release released;
    const std::vector<experiments::ExperimentRuns> all = experiments::ReadRuns(runs);
    if (all.size() != 1)
      throw InputError(runs, "holds " + std::to_string(all.size()) + " experiments (the folder of one)");
    table = experiments::ImprovementTable(all.front());
  }
  py::list rows;
  for (const std::vector<experiments::TextCell>& row : table.rows) {
    py::list cells;
    for (const experiments::TextCell& cell : row) cells.append(experiments::CellText(cell));
    rows.append(cells);
  }
  return py::make_tuple(table.header, rows);
}

}  // namespace

void BindDatasets(py::module_& module) {
  module.def("improvement_rows", &ImprovementRows, py::arg("runs"));
  module.def("generate", &Generate, py::arg("model"), py::arg("settings"), py::call_guard<py::gil_scoped_release>());
  module.def("family", &Family, py::arg("name"), py::arg("seed"));
  module.def("import_files", &ImportFiles, py::arg("paths"), py::arg("format"));
  module.def("transform", &TransformGraph, py::arg("graph"), py::kw_only(), py::arg("data_parallel") = 1,
             py::arg("tensor_parallel") = 1, py::arg("expert_parallel") = 1, py::arg("recompute") = "",
             py::arg("bucket_mib") = 25.0, py::arg("shard_optimizer") = false,
             py::call_guard<py::gil_scoped_release>());
  module.def("library_rows", &LibraryRows);
  module.def("library_problem", &LoadLibraryProblem, py::arg("name"));
  module.def("list_rows", &ListTopic, py::arg("topic"));
  module.attr("version") = std::string(experiments::Version());
}

}  // namespace emplace::python
