#include "experiments/spec/trial_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "agents/agent.h"
#include "agents/environment.h"
#include "agents/nn/torch_plugin.h"
#include "datasets/families/families.h"
#include "experiments/run/checked_json.h"
#include "experiments/run/json_build.h"
#include "experiments/run/problem.h"
#include "experiments/run/trial.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/rng.h"
#include "sim/cluster.h"
#include "sim/simulator.h"

namespace emplace {
namespace {

constexpr std::string_view kGrouperWithNumber = "merge_and_colocate";

// An option as JSON has it: an integer where it is one.
JsonValue OptionValue(const std::string& text) {
  std::int64_t integer = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), integer);
  const bool whole = error == std::errc() && rest == text.data() + text.size() && fmt::format("{}", integer) == text;
  return whole ? ToJson(integer) : ToJson(text);
}

// A graph as a spec names it.
struct ChosenGraph {
  JsonObject json;
  std::string name;
  std::size_t num_ops = 0;
  std::size_t drawn_groups = 0;  // by a family's member; 0: no family
};

class Planner {
 public:
  Planner(const ExperimentSpec& experiment, bool set_up) : experiment_(experiment), set_up_(set_up) {}

  TrialPlan Plan() {
    for (std::size_t i = 0; i < experiment_.cells.size(); ++i) {
      const ExperimentCell& cell = experiment_.cells[i];
      try {
        PlanCell(cell, i);
      } catch (const InputError& error) {
        throw PlacedInSweep(error, cell.values).In(experiment_.path);
      }
    }
    return std::move(plan_);
  }

 private:
  const std::string& Fingerprinted(const std::string& path) {
    const auto [found, is_new] = fingerprints_.try_emplace(path);
    if (is_new) found->second = FingerprintOfFile(path);
    return found->second;
  }

  std::vector<ChosenGraph> OfFamily(const GraphChoice& choice) const {
    const auto& facts = FactsOfFamily(choice.dataset, choice.family_seed);
    std::vector<ChosenGraph> graphs;
    for (const std::size_t index : ChosenMembers(choice)) {
      ChosenGraph graph{.json = {},
                        .name = fmt::format("{}_{:02}", choice.dataset, index),
                        .num_ops = facts[index].num_ops,
                        .drawn_groups = facts[index].num_groups};
      AddMember(&graph.json, "dataset", choice.dataset);
      AddMember(&graph.json, "seed", choice.family_seed);
      AddMember(&graph.json, "index", index);
      graphs.push_back(std::move(graph));
    }
    return graphs;
  }

  ChosenGraph OfFile(const std::string& written) {
    const std::string path = ResolvePath(written, experiment_.path);
    ChosenGraph graph;
    AddMember(&graph.json, "file", path);
    AddMember(&graph.json, "fingerprint", Fingerprinted(path));
    const JsonValue source{graph.json};
    const Graph& loaded = LoadGraphOf(source);
    graph.name = loaded.name();
    graph.num_ops = loaded.num_ops();
    return graph;
  }

  static ChosenGraph OfModel(const ModelChoice& choice) {
    ChosenGraph graph{.json = {}, .name = choice.model, .num_ops = 0, .drawn_groups = 0};
    AddMember(&graph.json, "model", choice.model);
    JsonObject set;
    for (const auto& [key, value] : choice.set) set.push_back({key, OptionValue(value)});
    AddMember(&graph.json, "set", std::move(set));
    graph.num_ops = LoadGraphOf({graph.json}).num_ops();
    return graph;
  }

  std::vector<ChosenGraph> Choose(const GraphChoice& choice, const std::string& place) {
    if (!choice.dataset.empty()) return AtPlace(place, [&] { return OfFamily(choice); });
    std::vector<ChosenGraph> graphs;
    for (const ModelChoice& model : choice.models) graphs.push_back(AtPlace(place, [&] { return OfModel(model); }));
    for (std::size_t i = 0; i < choice.files.size(); ++i) {
      graphs.push_back(AtPlace(fmt::format("{}.files[{}]", place, i), [&] { return OfFile(choice.files[i]); }));
    }
    return graphs;
  }

  JsonObject ClusterOf(const ClusterChoice& choice, const std::string& agent) {
    JsonObject json;
    if (choice.file.empty()) {
      AddMember(&json, "name", choice.name);
    } else {
      const std::string path = ResolvePath(choice.file, experiment_.path);
      AddMember(&json, "file", path);
      AtPlace("cluster.file", [&] {
        AddMember(&json, "fingerprint", Fingerprinted(path));
        return 0;
      });
    }
    Cluster cluster =
        AtPlace(choice.file.empty() ? "cluster.name" : "cluster.file", [&] { return LoadClusterOf({json}); });
    if (!choice.file.empty()) json.insert(json.begin(), {"name", ToJson(cluster.name())});
    if (!choice.devices.empty()) cluster = AtPlace("cluster.devices", [&] { return cluster.Keep(choice.devices); });
    if (choice.gpus) cluster = AtPlace("cluster.gpus", [&] { return cluster.KeepAccelerators(*choice.gpus); });
    if (cluster.num_devices() == 0) throw InputError("cluster.gpus", "leaves no device (at least one)");
    const bool has_cpu = std::any_of(cluster.devices().begin(), cluster.devices().end(),
                                     [](const Device& device) { return device.is_cpu; });
    if (FindAgent(agent).needs_cpu && !has_cpu) {
      throw InputError("agent.name", fmt::format("{} has nothing to propose without a CPU (exclude it)", agent));
    }
    JsonList names;
    for (const Device& device : cluster.devices()) names.push_back(ToJson(device.name));
    AddMember(&json, "devices", std::move(names));
    if (choice.unlimited_memory) AddMember(&json, "memory", "unlimited");
    return json;
  }

  static std::string GrouperOf(const ExperimentCell& cell, const ChosenGraph& graph) {
    if (!cell.graphs.grouping.empty()) return cell.graphs.grouping;
    return std::string(DefaultGrouping(FindAgent(cell.agent.name), graph.num_ops));
  }
  static JsonObject GroupingOf(const ExperimentCell& cell, const ChosenGraph& graph) {
    JsonObject json;
    AddMember(&json, "name", GrouperOf(cell, graph));
    AddMember(&json, "groups", GroupsOf(cell, graph));
    return json;
  }
  // 0 where the grouper takes no number.
  static std::size_t GroupsOf(const ExperimentCell& cell, const ChosenGraph& graph) {
    if (GrouperOf(cell, graph) != kGrouperWithNumber) return 0;
    if (cell.graphs.groups) return *cell.graphs.groups;
    return graph.drawn_groups != 0 ? graph.drawn_groups : kDefaultGroups;
  }

  // Where a spec has several graphs, each says its own number of groups.
  static JsonList ListOf(const ExperimentCell& cell, const std::vector<ChosenGraph>& graphs) {
    JsonList list;
    for (const ChosenGraph& graph : graphs) {
      JsonObject json = graph.json;
      AddMember(&json, "groups", GroupsOf(cell, graph));
      list.push_back({std::move(json)});
    }
    return list;
  }

  void AddAgent(const ExperimentCell& cell, JsonObject* spec) {
    AddMember(spec, "engine", cell.engine);
    if (cell.profile.empty()) {
      AddMember(spec, "costs", cell.costs);
    } else {
      const std::string path = ResolvePath(cell.profile, experiment_.path);
      AddMember(spec, "costs", "profile: " + path);
      AddMember(spec, "profile_fingerprint", AtPlace("costs", [&] { return Fingerprinted(path); }));
    }
    JsonObject agent;
    AddMember(&agent, "label", cell.agent.label);
    AddMember(&agent, "name", cell.agent.name);
    JsonObject set;
    for (const auto& [key, value] : cell.agent.set) AddMember(&set, key, value);
    AddMember(&agent, "set", std::move(set));
    AddMember(spec, "agent", std::move(agent));
    JsonObject budget;
    if (cell.episodes != 0) {
      AddMember(&budget, "episodes", cell.episodes);
    } else {
      AddMember(&budget, "evaluations", cell.evaluations);
    }
    AddMember(spec, "budget", std::move(budget));
    AddMember(spec, "reward", cell.reward);
    if (cell.torch_device != "cpu") AddMember(spec, "torch_device", cell.torch_device);
    if (cell.hardware.NeedsHardware()) AddHardware(cell.hardware, spec);
  }

  static void AddHardware(const HardwareChoice& hardware, JsonObject* spec) {
    JsonObject json;
    AddMember(&json, "reward_source", Name(hardware.source));
    if (hardware.source == RewardSource::kMixed) AddMember(&json, "share", hardware.share);
    AddMember(&json, "validate_every", hardware.validate_every);
    AddMember(&json, "warmups", hardware.options.warmups);
    AddMember(&json, "steps", hardware.options.steps);
    AddMember(&json, "statistic", hardware.options.statistic == HardwareOptions::Statistic::kMean ? "mean" : "median");
    AddMember(&json, "patience", hardware.options.patience_seconds);
    if (hardware.options.interleave) AddMember(&json, "interleave", true);
    AddMember(spec, "hardware", std::move(json));
  }

  void PlanCell(const ExperimentCell& cell, std::size_t number) {
    const std::vector<ChosenGraph> graphs = Choose(cell.graphs, "graphs");
    JsonObject cluster = ClusterOf(cell.cluster, cell.agent.name);
    std::vector<ChosenGraph> transfer;
    if (cell.transfer) transfer = Choose(*cell.transfer, "transfer");
    const auto plan = [&](const std::vector<ChosenGraph>& own, const std::string& name) {
      JsonObject spec;
      AddMember(&spec, "schema", "emplace.trial_spec");
      AddMember(&spec, "version", 1);
      AddMember(&spec, "experiment", experiment_.name);
      if (cell.graphs.together) {
        AddMember(&spec, "together", ListOf(cell, own));
      } else {
        AddMember(&spec, "graph", own.front().json);
      }
      if (cell.transfer) AddMember(&spec, "transfer", ListOf(cell, transfer));
      AddMember(&spec, "grouping", GroupingOf(cell, own.front()));
      AddMember(&spec, "cluster", cluster);
      if (cell.hardware.NeedsHardware()) RefuseSeveralGraphs(cell.graphs.together, cell.transfer.has_value());
      AddAgent(cell, &spec);
      double work = 0;
      for (const ChosenGraph& graph : own) work += WorkOf(cell, graph);
      AddSeeds(cell, {.id = "", .spec = {std::move(spec)}, .cell = number, .graph = name, .seed = 0, .work = work},
               own.front());
    };
    if (cell.graphs.together) return plan(graphs, fmt::format("{} graphs", graphs.size()));
    for (const ChosenGraph& graph : graphs) plan({graph}, graph.name);
  }

  static double WorkOf(const ExperimentCell& cell, const ChosenGraph& graph) {
    const std::size_t most = GroupsOf(cell, graph);
    const std::size_t groups = most == 0 ? graph.num_ops : std::min(most, graph.num_ops);
    const double evaluations =
        static_cast<double>(cell.evaluations) + static_cast<double>(cell.episodes) * static_cast<double>(groups);
    return (1 + evaluations) * static_cast<double>(graph.num_ops);
  }

  void AddSeeds(const ExperimentCell& cell, const PlannedTrial& trial, const ChosenGraph& first) {
    for (const std::uint64_t seed : cell.seeds) {
      PlannedTrial seeded = trial;
      seeded.seed = seed;
      AddMember(&std::get<JsonObject>(seeded.spec.data), "seed", seed);
      seeded.id = TrialId(seeded.spec);
      if (!ids_.insert(seeded.id).second) {
        ++plan_.merged;
        continue;
      }
      if (set_up_) CheckProblem(cell, seeded.spec, first);
      plan_.trials.push_back(std::move(seeded));
    }
  }

  // Sets up the first problem of each kind, as a trial would.
  void CheckProblem(const ExperimentCell& cell, const JsonValue& spec, const ChosenGraph& first) {
    if (cell.torch_device != "cpu") AtPlace("torch_device", [&] { return CheckTorchDevice(cell.torch_device), 0; });
    const std::string family = cell.graphs.dataset.empty() ? JsonText({first.json}) : cell.graphs.dataset;
    const std::string kind =
        fmt::format("{} {} {} {} {} {}", family, JsonText(*FindMember(spec, "cluster")), cell.engine,
                    JsonText(*FindMember(spec, "costs")), JsonText(*FindPath(spec, "grouping.name")),
                    MustLearn(cell) ? cell.agent.name : "");
    if (!checked_.insert(kind).second) return;
    const TrialProblem problem = LoadProblem(*FindPath(spec, cell.graphs.together ? "together[0]" : "graph"), spec);
    const AgentEntry& entry = FindAgent(cell.agent.name);
    const Simulator simulator = AtPlace(
        "engine", [&] { return Simulator(problem.graph, problem.cluster, problem.costs, {.engine = cell.engine}); });
    const auto environment = AtPlace("cluster", [&] {
      return std::make_unique<Environment>(problem.graph, problem.cluster, problem.costs, MakeGrouping(problem, entry),
                                           simulator);
    });
    if (MustLearn(cell)) CheckLearns(cell, *environment);
  }

  static bool MustLearn(const ExperimentCell& cell) { return cell.transfer || cell.graphs.together; }

  // Only who has begun knows: a policy has the shape of its first problem.
  static void CheckLearns(const ExperimentCell& cell, const Environment& environment) {
    const std::size_t episode = environment.observation().num_groups();
    const auto agent = MakeAgent(
        cell.agent.name, cell.agent.set,
        {.evaluations = cell.episodes != 0 ? 1 + cell.episodes * episode : cell.evaluations, .num_graphs = 1});
    Rng rng(0);
    AtPlace("agent", [&] { return agent->Propose(environment, Mode::kExplore, rng); });
    if (agent->HasPolicy()) return;
    if (cell.transfer) {
      throw InputError("transfer",
                       fmt::format("agent {} learns nothing that could be applied (exclude it)", cell.agent.name));
    }
    throw InputError(
        "graphs.together",
        fmt::format("agent {} learns nothing, it takes one graph at a time (exclude it)", cell.agent.name));
  }

  const ExperimentSpec& experiment_;
  bool set_up_;
  TrialPlan plan_;
  std::set<std::string> ids_;
  std::set<std::string> checked_;                    // kinds of problems
  std::map<std::string, std::string> fingerprints_;  // by path
};

}  // namespace

TrialPlan PlanTrials(const ExperimentSpec& experiment, bool set_up) { return Planner(experiment, set_up).Plan(); }

std::vector<std::size_t> ChosenMembers(const GraphChoice& choice) {
  if (!choice.index.empty()) return choice.index;
  const std::array<bool, kFamilySize> training = FamilySplit(choice.family_seed);
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < kFamilySize; ++i) {
    if (choice.split == "all" || (choice.split == "train") == training[i]) members.push_back(i);
  }
  if (!choice.sample) return members;
  EMPLACE_CHECK_LE(*choice.sample, members.size());
  Rng rng(choice.seed);
  rng.Shuffle(members);
  members.resize(*choice.sample);
  std::sort(members.begin(), members.end());
  return members;
}

}  // namespace emplace
