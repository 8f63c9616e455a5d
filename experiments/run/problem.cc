#include "experiments/run/problem.h"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>

#include "datasets/dataset.h"
#include "datasets/families/families.h"
#include "datasets/shipped_clusters.h"
#include "experiments/shipped_tables.h"
#include "experiments/spec/experiment_fields.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/fingerprint.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/cost/profiled.h"
#include "sim/cost_model.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/formats/graph_json.h"
#include "sim/profile.h"

namespace emplace {
namespace {

constexpr std::int64_t kMostWritten = std::int64_t{1} << 62;

std::uint64_t ReadNumber(const JsonNode& node, std::int64_t most = kMostWritten) {
  return static_cast<std::uint64_t>(node.Integer(0, most));
}

// A file's content, which must be what the spec was made for.
std::string ReadUnchanged(const JsonNode& file, const std::optional<JsonNode>& fingerprint) {
  const std::string path = file.NonEmptyText();
  std::string text = ReadWholeFile(path);
  if (fingerprint && fingerprint->Text() != FingerprintText(text)) {
    throw InputError(path, "is not what it was when the trial was planned (sweep again: that makes a new trial)");
  }
  return text;
}

JsonFields GraphFields(const JsonNode& node) {
  return {node, {"dataset", "seed", "index", "file", "fingerprint", "model", "set", "groups"}};
}

Graph MakeGraph(const JsonFields& fields) {
  if (const auto dataset = fields.Find("dataset")) {
    const auto index = fields.Get("index", "a member").Integer(0, static_cast<std::int64_t>(kFamilySize) - 1);
    return MakeFamilyMember(FindFamily(dataset->NonEmptyText()), ReadNumber(fields.Get("seed", "a seed")),
                            static_cast<std::size_t>(index))
        .graph;
  }
  if (const auto file = fields.Find("file")) {
    std::istringstream in(ReadUnchanged(*file, fields.Find("fingerprint")));
    return ReadGraph(in, file->Text());
  }
  OptionMap options;
  if (const auto set = fields.Find("set")) options = OptionsFromFields(set->value(), set->Place());
  return MakeModel(fields.Get("model", "a dataset, a file or a model").NonEmptyText(), options);
}

CostTable MakeCosts(const JsonNode& root, const JsonFields& fields, const Graph& graph, const Cluster& cluster) {
  const JsonNode costs = fields.Get("costs", "where op times come from");
  const std::string& text = costs.Text();
  std::unique_ptr<CostModel> model;
  if (text.starts_with(kProfilePrefix)) {
    const JsonValue path{text.substr(kProfilePrefix.size())};
    std::istringstream in(ReadUnchanged(JsonNode(root, "costs", path), fields.Find("profile_fingerprint")));
    model = MakeProfiledCostModel(ReadProfile(in, *path.As<std::string>()));
  } else {
    model = MakeCostModel(text);
  }
  return {graph, cluster, *model};
}

JsonFields SpecFields(const JsonNode& root) {
  CheckSchema(root, "emplace.trial_spec");
  return {root,
          {"schema", "version", "experiment", "graph", "together", "transfer", "grouping", "cluster", "engine", "costs",
           "profile_fingerprint", "agent", "budget", "reward", "torch_device", "hardware", "seed"}};
}

std::vector<TrialProblem> LoadProblems(const JsonNode& list, const JsonValue& spec) {
  std::vector<TrialProblem> problems;
  for (const JsonValue& graph : list.List()) problems.push_back(LoadProblem(graph, spec));
  if (problems.empty()) list.Refuse("a list of at least one graph");
  return problems;
}

}  // namespace

const Graph& LoadGraphOf(const JsonValue& graph) {
  static std::mutex mutex;
  static std::map<std::string, Graph, std::less<>> kept;
  const JsonNode node(graph);
  const JsonFields fields = GraphFields(node);
  std::string key;
  for (const JsonMember& member : *graph.As<JsonObject>()) {
    if (member.key != "groups") AppendJson(&key, {JsonObject{member}});
  }
  const std::lock_guard lock(mutex);
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  return kept.emplace(key, MakeGraph(fields)).first->second;
}

Cluster LoadClusterOf(const JsonValue& cluster) {
  const JsonNode node(cluster);
  const JsonFields fields(node, {"name", "file", "fingerprint", "devices", "memory"});
  std::optional<Cluster> loaded;
  if (const auto file = fields.Find("file")) {
    std::istringstream in(ReadUnchanged(*file, fields.Find("fingerprint")));
    loaded = ReadCluster(in, file->Text());
  } else {
    loaded = LoadCluster(fields.Get("name", "a shipped cluster").NonEmptyText());
  }
  if (const auto devices = fields.Find("devices")) {
    std::vector<std::string> names;
    for (const JsonValue& name : devices->List()) names.push_back(JsonNode(*devices, "", name).Text());
    loaded = loaded->Keep(names);
  }
  return fields.Find("memory") ? loaded->WithoutMemoryLimits() : *loaded;
}

TrialProblem LoadProblem(const JsonValue& graph, const JsonValue& spec) {
  const JsonNode root(spec);
  const JsonFields fields = SpecFields(root);
  Graph loaded = AtPlace("graph", [&] { return LoadGraphOf(graph); });
  Cluster cluster = AtPlace("cluster", [&] { return LoadClusterOf(fields.Get("cluster", "a cluster").value()); });
  CostTable costs = AtPlace("costs", [&] { return MakeCosts(root, fields, loaded, cluster); });
  const JsonNode grouping = fields.Get("grouping", "an object");
  const JsonFields grouping_fields(grouping, {"name", "groups"});
  const JsonNode graph_node(graph);
  const JsonFields graph_fields = GraphFields(graph_node);
  std::uint64_t groups = ReadNumber(grouping_fields.Get("groups", "a number of groups"));
  if (const auto own = graph_fields.Find("groups")) groups = ReadNumber(*own);
  if (const auto dataset = graph_fields.Find("dataset"); dataset && groups == 0) {
    const auto& facts = FactsOfFamily(dataset->Text(), ReadNumber(graph_fields.Get("seed", "a seed")));
    groups = facts[ReadNumber(graph_fields.Get("index", "a member"))].num_groups;
  }
  return {.graph = std::move(loaded),
          .cluster = std::move(cluster),
          .costs = std::move(costs),
          .grouping = grouping_fields.Get("name", "a grouper").NonEmptyText(),
          .max_groups = groups == 0 ? kDefaultGroups : groups};
}

HardwareChoice LoadHardwareChoice(const JsonValue& spec) {
  const JsonNode root(spec);
  const JsonFields fields = SpecFields(root);
  HardwareChoice choice;
  const auto node = fields.Find("hardware");
  if (!node) return choice;
  choice.best = true;
  const JsonFields own(
      *node, {"reward_source", "share", "validate_every", "warmups", "steps", "statistic", "patience", "interleave"});
  const JsonNode source = own.Get("reward_source", "simulator, hardware or mixed");
  const auto known = RewardSourceFromName(source.Text());
  if (!known) source.Refuse("simulator, hardware or mixed");
  choice.source = *known;
  if (const auto field = own.Find("share")) choice.share = field->Number(0, 1);
  choice.validate_every = ReadNumber(own.Get("validate_every", "a number of placements"));
  choice.options.warmups = ReadNumber(own.Get("warmups", "a number of steps"));
  choice.options.steps = ReadNumber(own.Get("steps", "a number of steps"));
  if (const auto field = own.Find("patience")) choice.options.patience_seconds = field->Number(0, 3600);
  if (const auto field = own.Find("interleave")) choice.options.interleave = field->Flag();
  choice.options.statistic = own.Get("statistic", "median or mean").Text() == "mean"
                                 ? HardwareOptions::Statistic::kMean
                                 : HardwareOptions::Statistic::kMedian;
  return choice;
}

TrialSpec LoadTrialSpec(const JsonValue& spec) {
  const JsonNode root(spec);
  const JsonFields fields = SpecFields(root);
  std::vector<TrialProblem> problems;
  if (const auto together = fields.Find("together")) {
    problems = LoadProblems(*together, spec);
  } else {
    problems.push_back(LoadProblem(fields.Get("graph", "a graph").value(), spec));
  }
  TrialSpec trial{.problem = std::move(problems.front())};
  for (std::size_t i = 1; i < problems.size(); ++i) trial.also.push_back(std::move(problems[i]));
  if (const auto transfer = fields.Find("transfer")) trial.transfer = LoadProblems(*transfer, spec);
  trial.engine = fields.Get("engine", "an engine").NonEmptyText();
  trial.reward = fields.Get("reward", "a reward").NonEmptyText();
  if (const auto field = fields.Find("torch_device")) trial.torch_device = field->NonEmptyText();
  trial.seed = ReadNumber(fields.Get("seed", "a seed"), std::numeric_limits<std::int64_t>::max());
  const JsonNode agent = fields.Get("agent", "an agent");
  const JsonFields agent_fields(agent, {"label", "name", "set"});
  trial.agent = agent_fields.Get("name", "an agent").NonEmptyText();
  const JsonNode set = agent_fields.Get("set", "options");
  trial.agent_options = OptionsFromFields(set.value(), set.Place());
  const JsonNode budget = fields.Get("budget", "evaluations or episodes");
  const JsonFields budget_fields(budget, {"evaluations", "episodes"});
  if (const auto field = budget_fields.Find("evaluations")) trial.evaluations = ReadNumber(*field);
  if (const auto field = budget_fields.Find("episodes")) trial.episodes = ReadNumber(*field);
  return trial;
}

const std::vector<FamilyMemberFacts>& FactsOfFamily(std::string_view family, std::uint64_t seed) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::uint64_t>, std::vector<FamilyMemberFacts>> kept;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = kept.try_emplace({std::string(family), seed});
  if (is_new) {
    for (const FamilyMember& member : MakeFamily(FindFamily(family), seed)) {
      found->second.push_back(
          {.training = member.training, .num_ops = member.graph.num_ops(), .num_groups = member.num_groups});
    }
  }
  return found->second;
}

std::string FingerprintOfFile(const std::string& path) { return FingerprintText(ReadWholeFile(path)); }

}  // namespace emplace
