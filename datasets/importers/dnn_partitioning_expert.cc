#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/importers/dnn_partitioning.h"
#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/base/json_value.h"
#include "sim/base/units.h"
#include "sim/cost_model.h"

namespace emplace::datasets {
namespace {

using OpsById = std::map<std::int64_t, OpId>;  // keyed by the id of the node that the op was made from

OpsById MakeOpsById(const Graph& graph) {
  OpsById ops;
  for (const OpId op : graph.file_order()) {
    if (graph.op(op).attrs.empty()) continue;
    const JsonValue attrs = ParseJson(graph.op(op).attrs);
    for (const JsonMember& member : JsonNode(attrs).Object()) {
      const auto* id = member.value.As<std::int64_t>();
      if (member.key == "id" && id != nullptr) ops.emplace(*id, op);
    }
  }
  if (ops.size() != graph.num_ops()) {
    throw InputError("", fmt::format("graph {}: its ops have no ids (the attribute \"id\", as the format "
                                     "dnn-partitioning gives it)",
                                     Quoted(graph.name())));
  }
  return ops;
}

// Puts the nodes of the i-th list on the i-th of `devices`.
void ReadSplit(const JsonNode& lists, const std::vector<DeviceId>& devices, const OpsById& ops,
               std::vector<std::optional<DeviceId>>* placed) {
  const JsonList& elements = lists.List("a list with one split for each device");
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const JsonNode split(lists, i, elements[i]);
    const JsonFields fields(split, {"load", "nodes"});
    const JsonNode nodes = fields.Get("nodes", "a list of node ids");
    const JsonList& ids = nodes.List("a list of node ids");
    if (i >= devices.size() && !ids.empty()) {
      throw InputError(split.Place(),
                       fmt::format("has no device (the cluster has {} for {})", devices.size(), lists.Place()));
    }
    for (std::size_t k = 0; k < ids.size(); ++k) {
      const JsonNode id(nodes, k, ids[k]);
      const auto op = ops.find(id.Integer(0, kMaxJsonInteger, "the id of a node"));
      if (op == ops.end()) id.Refuse("the id of a node of this graph");
      auto& device = (*placed)[Index(op->second)];
      if (device) id.Refuse("each node once");
      device = devices[i];
    }
  }
}

Placement ReadExpert(const std::string& content, const Graph& graph, const Cluster& cluster) {
  const OpsById ops = MakeOpsById(graph);
  std::vector<DeviceId> cpus;
  std::vector<DeviceId> accelerators;
  for (std::size_t i = 0; i < cluster.num_devices(); ++i) {
    (cluster.devices()[i].is_cpu ? cpus : accelerators).push_back(MakeId<DeviceId>(i));
  }
  const JsonValue root = ParseJson(content, JsonLimitsOf(InputKind::kTextProfile));
  const JsonNode json(root);
  const JsonFields fields(json, {"fpgas", "cpus", "maxLoad"});
  std::vector<std::optional<DeviceId>> placed(graph.num_ops());
  ReadSplit(fields.Get("fpgas", "a list with one split for each accelerator"), accelerators, ops, &placed);
  if (const auto splits = fields.Find("cpus")) ReadSplit(*splits, cpus, ops, &placed);

  std::vector<std::optional<DeviceId>> of_class(graph.num_ops());
  for (const auto& [id, op] : ops) {
    if (placed[Index(op)]) of_class[Index(graph.colocation_class(op))] = placed[Index(op)];
  }
  Placement placement(graph.num_ops());
  for (const auto& [id, op] : ops) {
    if (!placed[Index(op)]) placed[Index(op)] = of_class[Index(graph.colocation_class(op))];
    if (!placed[Index(op)]) {
      throw InputError(
          "", fmt::format("node {} ({}) is on no device (every node of the graph, or one of its colour class)", id,
                          Quoted(graph.op(op).name)));
    }
    placement[op] = *placed[Index(op)];
  }
  CheckPlacement(placement, graph, cluster, CostTable(graph, cluster, *MakeCostModel("measured")));
  return placement;
}

}  // namespace

std::string FindExpertFile(const std::string& input_file) {
  namespace fs = std::filesystem;
  const fs::path input(input_file);
  std::string stem = input.filename().string();
  for (const std::string_view ending : {".gz", ".json"}) {
    if (stem.ends_with(ending)) stem.resize(stem.size() - ending.size());
  }
  if (input_file == "-" || stem.empty()) return "";
  std::vector<std::string> names = {stem + "_expert.json"};
  constexpr std::string_view kTraining = "_training";
  if (stem.ends_with(kTraining)) {
    names.push_back(stem.substr(0, stem.size() - kTraining.size()) + "_inference_expert.json");
  }
  const fs::path folder = input.parent_path();
  const fs::path above = (folder.empty() ? fs::path(".") : folder) / ".." / "..";
  for (const std::string& name : names) {
    for (const fs::path& candidate : {above / "human-experts" / name, folder / "human-experts" / name, folder / name}) {
      std::error_code ignored;
      if (fs::is_regular_file(candidate, ignored)) return candidate.string();
    }
  }
  return "";
}

Placement ImportExpertPlacement(const std::string& content, const std::string& file, const Graph& graph,
                                const Cluster& cluster) {
  try {
    return ReadExpert(content, graph, cluster);
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

}  // namespace emplace::datasets
