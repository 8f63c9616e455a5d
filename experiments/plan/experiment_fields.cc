#include "experiments/plan/experiment_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "agents/agent.h"
#include "agents/reward.h"
#include "agents/settings_json.h"
#include "datasets/families/families.h"
#include "datasets/models/registry.h"
#include "datasets/shipped_clusters.h"
#include "experiments/library/instances.h"
#include "experiments/plan/checked_json.h"
#include "sim/base/check.h"
#include "sim/base/json_options.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_text.h"
#include "sim/cost_model.h"

namespace emplace::experiments {
namespace {

constexpr std::int64_t kLargestSeed = std::numeric_limits<std::int64_t>::max();

// The name of the row that `find` returns for the node's text.
template <typename Find>
std::string ReadNameOf(const JsonNode& node, Find find) {
  const std::string text = node.NonEmptyText();
  return WithLocation(node.Place(), [&] { return std::string(find(text).name); });
}

std::string ReadWord(const JsonNode& node, const std::vector<std::string_view>& known) {
  const std::string allowed = fmt::format("{}", fmt::join(known, ", "));
  const std::string& word = node.Text(allowed);
  if (std::find(known.begin(), known.end(), word) == known.end()) node.Refuse(allowed);
  return word;
}

std::size_t ReadCount(const JsonNode& node, std::int64_t least, std::int64_t most) {
  return static_cast<std::size_t>(node.Integer(least, most));
}

std::uint64_t ReadSeed(const JsonNode& node) { return static_cast<std::uint64_t>(node.Integer(0, kLargestSeed)); }

// A list of distinct elements, at least one.
template <typename Read>
auto ReadDistinct(const JsonNode& node, std::string_view allowed, Read read) {
  std::vector<decltype(read(node))> values;
  const JsonList& list = node.List(allowed);
  if (list.empty()) node.Refuse(allowed);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonNode element(node, i, list[i]);
    auto value = read(element);
    if (std::find(values.begin(), values.end(), value) != values.end()) {
      throw InputError(element.Place(), "is a duplicate entry (each once)");
    }
    values.push_back(std::move(value));
  }
  return values;
}

std::string ReadText(const JsonNode& node) { return node.NonEmptyText(); }

std::vector<std::size_t> ReadIndex(const JsonNode& node) {
  const auto read = [](const JsonNode& n) {
    return ReadCount(n, 0, static_cast<std::int64_t>(datasets::kFamilySize) - 1);
  };
  if (node.value().As<JsonList>() == nullptr) return {read(node)};
  std::vector<std::size_t> index = ReadDistinct(node, "a number of a graph, or a list of them", read);
  std::sort(index.begin(), index.end());
  return index;
}

// Throws if two of `keys` are given.
void RefuseTogether(const JsonFields& fields, std::initializer_list<std::string_view> keys) {
  std::optional<JsonNode> first;
  std::string_view first_key;
  for (const std::string_view key : keys) {
    const auto field = fields.Find(key);
    if (!field) continue;
    if (first)
      throw InputError(field->Place(), fmt::format("cannot be used together with {} (one of them)", first_key));
    first.emplace(*field);
    first_key = key;
  }
}

void ReadFamily(const JsonFields& fields, GraphChoice* choice) {
  if (const auto field = fields.Find("family_seed")) choice->family_seed = ReadSeed(*field);
  if (const auto field = fields.Find("split")) choice->split = ReadWord(*field, {"all", "train", "test"});
  if (const auto field = fields.Find("seed")) choice->seed = ReadSeed(*field);
  if (const auto field = fields.Find("index")) choice->index = ReadIndex(*field);
  if (const auto field = fields.Find("sample")) {
    const auto most =
        static_cast<std::int64_t>(choice->split == "all" ? datasets::kFamilySize : datasets::kFamilySize / 2);
    choice->sample = ReadCount(*field, 1, most);
  }
}

// The possible sources of graphs, of which one must be given.
const std::initializer_list<std::string_view> kGraphSources = {"dataset", "instances", "files", "model", "models"};

// Rejects keys that are valid only for graphs of a family, or only for a model.
void CheckSource(const JsonFields& fields, const JsonNode& node) {
  const bool has_dataset = fields.Find("dataset").has_value();
  const bool has_model = fields.Find("model").has_value();
  if (std::none_of(kGraphSources.begin(), kGraphSources.end(), [&](auto key) { return fields.Find(key); })) {
    throw InputError(node.Place(), "names no graphs (dataset, instances, files, model or models)");
  }
  for (const char* const key : {"family_seed", "split", "sample", "seed", "index"}) {
    const auto field = fields.Find(key);
    if (field && !has_dataset) throw InputError(field->Place(), "is for a dataset only");
  }
  if (const auto field = fields.Find("set"); field && !has_model)
    throw InputError(field->Place(), "is for a model only");
}

GraphSource ReadModel(const JsonNode& node) {
  const JsonFields fields(node, {"model", "set"});
  GraphSource source{.model = ReadNameOf(fields.Get("model", "a model"), datasets::FindModelName)};
  if (const auto field = fields.Find("set")) source.set = OptionsFromFields(field->value(), field->Place());
  return source;
}

std::string ReadInstance(const JsonNode& node) {
  const std::string& name = node.Text("an instance of `emplace library list`");
  return WithLocation(node.Place(), [&] { return FindInstance(name).name; });
}

GraphChoice ReadGraphs(const JsonNode& node, bool complete) {
  const JsonFields fields(node, {"dataset", "family_seed", "split", "sample", "seed", "index", "instances", "files",
                                 "model", "set", "models", "transform", "together", "grouping"});
  GraphChoice choice;
  RefuseTogether(fields, kGraphSources);
  RefuseTogether(fields, {"index", "split"});
  RefuseTogether(fields, {"index", "sample"});
  if (complete) CheckSource(fields, node);
  if (const auto field = fields.Find("dataset")) {
    choice.dataset = ReadNameOf(*field, datasets::FindFamily);
  }
  ReadFamily(fields, &choice);
  if (const auto field = fields.Find("instances")) {
    choice.instances = ReadDistinct(*field, "a list of instances", ReadInstance);
  }
  if (const auto field = fields.Find("files")) {
    choice.files = ReadDistinct(*field, "a list of graph files", ReadText);
  }
  GraphSource source;
  if (const auto field = fields.Find("set")) source.set = OptionsFromFields(field->value(), field->Place());
  if (const auto field = fields.Find("model")) {
    source.model = ReadNameOf(*field, datasets::FindModelName);
    choice.models = {std::move(source)};
  }
  if (const auto field = fields.Find("models")) {
    choice.models = ReadDistinct(*field, "a list of models", ReadModel);
  }
  if (const auto field = fields.Find("transform")) choice.transform = ReadFields<datasets::TransformOptions>(*field);
  if (const auto field = fields.Find("together")) choice.together = field->Flag();
  return choice;
}

bool HasAny(const JsonObject& members, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](std::string_view key) { return FindMember(members, key) != nullptr; });
}

// The fields of `transfer`, completed by those of `graphs` that it neither has nor contradicts.
JsonValue InheritGraphs(const JsonObject& transfer, const JsonObject& graphs) {
  std::set<std::string_view> not_inherited = {"together"};
  if (HasAny(transfer, kGraphSources)) {
    not_inherited.insert(kGraphSources);
    not_inherited.insert({"set", "family_seed", "split", "sample", "seed", "index"});
  }
  if (HasAny(transfer, {"split", "sample"})) not_inherited.insert("index");
  if (HasAny(transfer, {"index"})) not_inherited.insert({"split", "sample"});
  JsonObject merged = transfer;
  for (const JsonMember& member : graphs) {
    if (FindMember(transfer, member.key) == nullptr && !not_inherited.contains(member.key)) merged.push_back(member);
  }
  return {std::move(merged)};
}

GraphChoice ReadTransfer(const JsonNode& root, const JsonNode& node, const JsonValue* graphs, bool complete) {
  // Checks its own fields first, so that errors are not about inherited ones.
  const JsonFields own(node, {"dataset", "family_seed", "split", "sample", "seed", "index", "files", "model", "set",
                              "models", "transform"});
  const auto* inherited = graphs == nullptr ? nullptr : graphs->As<JsonObject>();
  const JsonValue merged =
      InheritGraphs(*node.value().As<JsonObject>(), inherited == nullptr ? JsonObject{} : *inherited);
  return ReadGraphs(JsonNode(root, "transfer", merged), complete);
}

ClusterChoice ReadClusterFields(const JsonNode& node, bool complete) {
  const JsonFields fields(node, {"name", "file", "nodes", "devices", "gpus", "memory"});
  RefuseTogether(fields, {"name", "file"});
  RefuseTogether(fields, {"devices", "gpus"});
  if (complete && !fields.Find("name") && !fields.Find("file")) {
    throw InputError(node.Place(), "names no cluster (name or file)");
  }
  ClusterChoice choice;
  if (const auto field = fields.Find("name")) {
    std::vector<std::string_view> known;
    for (const datasets::ShippedCluster& shipped : datasets::AllShippedClusters()) known.push_back(shipped.name);
    choice.name = ReadWord(*field, known);
  }
  if (const auto field = fields.Find("file")) choice.file = field->NonEmptyText();
  if (const auto field = fields.Find("nodes")) choice.nodes = ReadCount(*field, 1, 1024);
  if (const auto field = fields.Find("devices")) {
    choice.devices = ReadDistinct(*field, "a list of device names", ReadText);
  }
  if (const auto field = fields.Find("gpus")) choice.gpus = ReadCount(*field, 0, 1 << 20);
  if (const auto field = fields.Find("memory")) {
    ReadWord(*field, {"unlimited"});
    choice.unlimited_memory = true;
  }
  return choice;
}

CostsChoice ReadCosts(const JsonNode& node) {
  CostsChoice costs;
  std::vector<std::string_view> known;
  for (const CostModelEntry& entry : AllCostModels()) {
    if (entry.make != nullptr) known.push_back(entry.name);
  }
  if (node.value().As<JsonObject>() != nullptr) {
    const JsonFields fields(node, {"profile"});
    costs.profile = fields.Get("profile", "a profile.json").NonEmptyText();
  } else {
    const std::string allowed =
        fmt::format("{}, a device.yaml of emplace calibrate or {}FILE", fmt::join(known, ", "), kProfilePrefix);
    const std::string& text = node.Text(allowed);
    if (text.starts_with(kProfilePrefix) && text.size() > kProfilePrefix.size()) {
      costs.profile = text.substr(kProfilePrefix.size());
    } else if (std::find(known.begin(), known.end(), text) != known.end() || CurvesFiles(text).size() == 1) {
      costs.model = text;
    } else {
      node.Refuse(allowed);
    }
  }
  return costs;
}

// An instance of the library is a graph on a cluster, with op times and an engine.
void CheckKeysFixedByInstances(const JsonObject& members, const JsonValue& graphs) {
  for (const std::string_view key :
       {"cluster", "costs", "engine", "transfer", "collectives", "schedule", "objective"}) {
    if (FindMember(members, key) == nullptr) continue;
    throw InputError(std::string(key), "is not chosen where graphs are instances of the library (leave it out)");
  }
  for (const std::string_view key : {"transform", "together"}) {
    if (FindMember(*graphs.As<JsonObject>(), key) == nullptr) continue;
    throw InputError(fmt::format("graphs.{}", key), "is not for instances of the library (leave it out)");
  }
}

// Fills in the agent's defaults for fields that the experiment omits.
void FillDefaults(ExperimentCell* cell) {
  if (cell->agent.empty()) return;
  const agents::AgentEntry& agent = agents::FindAgent(cell->agent);
  cell->agent = agent.name;
  if (cell->label.empty()) cell->label = cell->agent;
  if (cell->reward.empty()) cell->reward = agent.reward;
  cell->reward = agents::WithPenaltyMemory(cell->reward, agents::kCapacity);
  if (cell->Budget(0) == 0) cell->evaluations = agent.default_evaluations;
  if (cell->seeds.empty()) cell->seeds = {1};
}

// Keys of an experiment other than settings.
constexpr std::string_view kOtherKeys[] = {"schema",    "version", "name",    "question",  "graphs",
                                           "transfer",  "cluster", "costs",   "seeds",     "metrics",
                                           "published", "sweep",   "exclude", kChecksumKey};

}  // namespace

JsonFields ExperimentFields(const JsonNode& root) {
  std::vector<std::string_view> keys(std::begin(kOtherKeys), std::end(kOtherKeys));
  for (const std::string_view key : agents::SettingKeys(agents::Door::kExperiment)) {
    if (std::ranges::count(keys, key) == 0) keys.push_back(key);
  }
  return {root, keys};
}

ExperimentCell ReadCell(const JsonValue& root, bool complete) {
  const JsonNode node(root);
  const JsonObject& members = node.Object();
  const auto find = [&](std::string_view key) -> std::optional<JsonNode> {
    const JsonValue* value = FindMember(members, key);
    return value == nullptr ? std::nullopt : std::optional(JsonNode(node, key, *value));
  };
  const auto get = [&](std::string_view key, std::string_view allowed) {
    const auto found = find(key);
    if (!found && complete) throw InputError(std::string(key), fmt::format("is missing ({})", allowed));
    return found;
  };
  ExperimentCell cell;
  if (const auto field = get("graphs", "which graphs to place")) cell.graphs = ReadGraphs(*field, complete);
  if (const auto field = find("transfer")) {
    cell.transfer = ReadTransfer(node, *field, FindMember(members, "graphs"), complete);
  }
  if (!cell.graphs.instances.empty()) {
    CheckKeysFixedByInstances(members, *FindMember(members, "graphs"));
  } else if (const auto field = get("cluster", "on which devices")) {
    cell.cluster = ReadClusterFields(*field, complete);
  }
  if (const auto field = find("costs")) cell.costs = ReadCosts(*field);
  cell.agent.clear();
  if (const auto field = get("agent", "the agent that places the ops"); field && complete) {
    NeedMember(*field, "name", "an agent");
  }
  agents::ReadSettings(node, agents::Door::kExperiment, &cell);
  if (!cell.agent.empty()) {
    agents::CheckSettings(cell, agents::Door::kExperiment, complete);
    cell.settings() = agents::Resolved(cell.settings());
  }
  if (const auto field = find("seeds")) cell.seeds = ReadDistinct(*field, "a list of seeds", ReadSeed);
  FillDefaults(&cell);
  return cell;
}

}  // namespace emplace::experiments
