#include "datasets/exporters/module_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/groupers/groupers.h"
#include "sim/op_kinds.h"

namespace emplace::datasets {
namespace {

using Json = nlohmann::ordered_json;

std::string_view ParentOf(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

// The modules of a model as a tree, in the model's order, with what the placement says of each.
struct Module {
  std::vector<std::string> children;  // paths
  std::vector<std::string> tensors;   // of its own, by their names in the state_dict
  std::set<DeviceId> devices;         // of the ops in it
};

class Model {
 public:
  explicit Model(const Graph& graph) {
    modules_[""];
    const Json metadata = Json::parse(graph.metadata(), nullptr, /*allow_exceptions=*/false);
    if (metadata.is_object() && metadata.contains("torch") && metadata["torch"].is_object()) {
      const Json& torch = metadata["torch"];
      const Json modules = torch.value("modules", Json::object());
      const Json tensors = torch.value("state_dict", Json::object());
      const Json tied = torch.value("tied", Json::object());
      for (const auto& [path, kind] : modules.items()) Add(path);
      for (const auto& [name, bytes] : tensors.items()) AddTensor(name);
      for (const auto& [name, others] : tied.items()) {
        for (const Json& other : others) {
          if (other.is_string()) same_as_[other.get<std::string>()] = name;
        }
      }
    }
    for (const OpId id : graph.file_order()) {
      const Op& op = graph.op(id);
      Add(std::string(op.layer));
      // Optimizers' states have a "/" in their names.
      const bool is_weight = op.kind == "variable" && !op.layer.empty() && op.layer == ParentOf(op.name) &&
                             op.name.find('/') == std::string_view::npos;
      if (is_weight) AddTensor(std::string(op.name));
    }
  }

  Module& operator[](std::string_view path) { return modules_.find(path)->second; }

  // The name under which the graph has a tensor of the state_dict.
  const std::string& VariableOf(const std::string& tensor) const {
    const auto other = same_as_.find(tensor);
    return other == same_as_.end() ? tensor : other->second;
  }

 private:
  void Add(const std::string& path) {
    if (modules_.count(path) > 0) return;
    const std::string parent(ParentOf(path));
    Add(parent);
    modules_.find(parent)->second.children.push_back(path);
    modules_[path];
  }

  void AddTensor(const std::string& name) {
    const auto owner = modules_.find(ParentOf(name));
    if (owner == modules_.end()) return;
    std::vector<std::string>& tensors = owner->second.tensors;
    if (std::find(tensors.begin(), tensors.end(), name) == tensors.end()) tensors.push_back(name);
  }

  std::map<std::string, Module, std::less<>> modules_;
  std::map<std::string, std::string> same_as_;
};

// A name of an op's module for messages.
std::string NameOf(const Graph& graph, OpId op) {
  const Op& of = graph.op(op);
  return std::string(of.layer.empty() ? of.name : of.layer);
}

void CheckWhole(const Graph& graph, const Cluster& cluster, const Placement& placement, const WholeModules& whole) {
  for (std::size_t group = 0; group < whole.grouping.num_groups(); ++group) {
    const auto members = whole.grouping.members(group);
    for (const OpId op : members) {
      if (placement[op] == placement[members[0]]) continue;
      const std::string first = NameOf(graph, members[0]);
      const std::string second = NameOf(graph, op);
      const std::string what =
          first == second ? "" : fmt::format(" and {}, which have to be on one device,", Quoted(second));
      throw InputError(first, fmt::format("{} {} on {} and {} (whole modules, as --grouping modules places them)",
                                          what.empty() ? "is" : what.substr(1), what.empty() ? "placed" : "are placed",
                                          Quoted(cluster.device(placement[members[0]]).name),
                                          Quoted(cluster.device(placement[op]).name)));
    }
  }
}

class ShortestPaths {
 public:
  // by_block: modules that have numbered blocks are divided into these even where they are on one device.
  ShortestPaths(const Graph& graph, Model* model, const Placement& placement, bool by_block)
      : graph_(graph), model_(*model), placement_(placement), by_block_(by_block) {}

  std::vector<ModuleDevice> Find() {
    Visit("");
    return std::move(found_);
  }

 private:
  void Visit(const std::string& path) {
    const Module& module = model_[path];
    if (module.devices.size() == 1 && !(by_block_ && HasBlocks(path))) {
      found_.push_back({path, *module.devices.begin()});
      return;
    }
    for (const std::string& tensor : module.tensors) {
      const auto op = graph_.FindOp(model_.VariableOf(tensor));
      if (op) found_.push_back({tensor, placement_[*op]});
    }
    const std::size_t before = found_.size();
    std::vector<std::string> idle;  // modules without ops, until the first device is known
    for (const std::string& child : module.children) {
      if (model_[child].devices.empty()) {
        if (found_.size() == before) {
          idle.push_back(child);
        } else {
          found_.push_back({child, found_.back().device});
        }
        continue;
      }
      const std::size_t at = found_.size();
      Visit(child);
      for (const std::string& other : idle) found_.push_back({other, found_[at].device});
      idle.clear();
    }
  }

  bool HasBlocks(const std::string& path) const {
    if (!NumberedBlock(path).empty()) return false;
    const std::vector<std::string>& children = model_[path].children;
    return std::any_of(children.begin(), children.end(), [&](const std::string& child) {
      return path.empty() || !NumberedBlock(child).empty() || HasBlocks(child);
    });
  }

  const Graph& graph_;
  Model& model_;
  const Placement& placement_;
  bool by_block_;
  std::vector<ModuleDevice> found_;
};

void SetDevices(const Graph& graph, const Placement& placement, const WholeModules& whole, Model* model) {
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    std::string_view path = whole.module_of_op[i];
    if (path.empty()) continue;
    for (;; path = ParentOf(path)) {
      (*model)[path].devices.insert(placement[MakeId<OpId>(i)]);
      if (path.empty()) break;
    }
  }
}

bool IsForwardCall(const Op& op) { return op.pass == Pass::kForward && !IsSourceKind(op.kind); }

}  // namespace

std::vector<ModuleDevice> ModuleDevices(const Graph& graph, const Cluster& cluster, const Placement& placement) {
  const WholeModules whole = FindWholeModules(graph);
  CheckWhole(graph, cluster, placement, whole);
  Model model(graph);
  SetDevices(graph, placement, whole, &model);
  return ShortestPaths(graph, &model, placement, /*by_block=*/false).Find();
}

Placement PlaceModules(const Graph& graph, const Cluster& cluster, std::span<const ModuleDevice> modules) {
  std::map<std::string, DeviceId, std::less<>> by_path;
  for (const ModuleDevice& module : modules) by_path.insert_or_assign(module.path, module.device);
  const auto device_of = [&](std::string_view path) -> std::optional<DeviceId> {
    for (;; path = ParentOf(path)) {
      if (const auto found = by_path.find(path); found != by_path.end()) return found->second;
      if (path.empty()) return std::nullopt;
    }
  };
  const WholeModules whole = FindWholeModules(graph);
  Placement placement(graph.num_ops());
  for (std::size_t group = 0; group < whole.grouping.num_groups(); ++group) {
    const auto members = whole.grouping.members(group);
    std::optional<DeviceId> device;
    for (const OpId op : members) {
      const std::string_view module = whole.module_of_op[Index(op)];
      if (module.empty()) continue;
      const auto own = device_of(module);
      if (!own) throw InputError(std::string(module), "has no device (an entry for it, or for a module around it)");
      if (device && *device != *own) {
        throw InputError(std::string(module),
                         fmt::format("is on {}, and what has to be beside it on {}", Quoted(cluster.device(*own).name),
                                     Quoted(cluster.device(*device).name)));
      }
      device = own;
    }
    for (const OpId op : members) placement[op] = device.value_or(DeviceId{});
  }
  return placement;
}

std::vector<ModuleStage> ModuleStages(const Graph& graph, const Cluster& cluster, const Placement& placement) {
  const WholeModules whole = FindWholeModules(graph);
  CheckWhole(graph, cluster, placement, whole);
  Model model(graph);
  SetDevices(graph, placement, whole, &model);

  // In the order in which the model calls them. Own ops of divided modules are where their inputs are.
  std::vector<ModuleStage> stages;
  std::map<DeviceId, std::size_t> stage_of;
  std::map<std::string, std::size_t, std::less<>> position;
  for (const OpId id : graph.file_order()) {
    const std::string_view module = whole.module_of_op[Index(id)];
    if (!IsForwardCall(graph.op(id)) || module.empty()) continue;
    position.emplace(std::string(module), position.size());
    const auto [found, is_new] = stage_of.emplace(placement[id], stages.size());
    if (is_new) stages.push_back({.device = placement[id], .modules = {}, .first = std::string(module)});
    if (found->second + 1 < stages.size()) {
      throw InputError(
          std::string(module),
          fmt::format("runs on {} after modules on {} have run: a stage of a pipeline "
                      "is entered once (a placement made with --schedule, or stages "
                      "in the order of the model)",
                      Quoted(cluster.device(placement[id]).name), Quoted(cluster.device(stages.back().device).name)));
    }
  }
  std::vector<std::pair<std::size_t, ModuleDevice>> paths;
  for (ModuleDevice& path : ShortestPaths(graph, &model, placement, /*by_block=*/true).Find()) {
    std::size_t at = position.size();  // what runs nothing comes last
    for (const auto& [module, place] : position) {
      if (path.path.empty() || module == path.path || module.starts_with(path.path + ".")) at = std::min(at, place);
    }
    paths.emplace_back(at, std::move(path));
  }
  std::stable_sort(paths.begin(), paths.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [at, path] : paths) {
    const auto stage = stage_of.find(path.device);
    if (stage == stage_of.end()) {
      throw InputError(path.path, fmt::format("is on {}, which runs no module of the forward pass",
                                              Quoted(cluster.device(path.device).name)));
    }
    stages[stage->second].modules.push_back(std::move(path.path));
  }
  for (ModuleStage& stage : stages) {
    // The longest of its own paths that the first module is below: where a framework has to cut.
    for (const std::string& path : stage.modules) {
      if (path.empty() || stage.first.starts_with(path + ".")) stage.first = path;
    }
  }
  return stages;
}

}  // namespace emplace::datasets
