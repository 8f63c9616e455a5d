#include "experiments/plan/trial_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "agents/agent.h"
#include "agents/environment.h"
#include "agents/nn/torch_plugin.h"
#include "agents/python/python_agent.h"
#include "agents/search.h"
#include "datasets/families/families.h"
#include "experiments/library/instances.h"
#include "experiments/plan/checked_json.h"
#include "experiments/plan/problem.h"
#include "sim/base/check.h"
#include "sim/base/json_options.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"
#include "sim/base/rng.h"
#include "sim/cluster.h"
#include "sim/simulator.h"

namespace emplace::experiments {
namespace {

constexpr std::string_view kGrouperWithNumber = "merge_and_colocate";

// A graph of a cell.
struct ChosenGraph {
  GraphSource source;
  std::string name;
  std::size_t num_ops = 0;
  std::size_t drawn_groups = 0;  // number of the family's member; 0: no family
};

std::string AgentText(const agents::SearchSettings& settings) {
  return settings.agent + JsonText({OptionsToJson(settings.agent_options, false)});
}

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
    const auto& facts = FamilyFacts(choice.dataset, choice.family_seed);
    std::vector<ChosenGraph> graphs;
    for (const std::size_t index : ChosenMembers(choice)) {
      GraphSource source = {.dataset = choice.dataset, .seed = choice.family_seed, .index = index};
      source.transform = choice.transform;
      const std::size_t num_ops =
          source.transform.ChangesSomething() ? KeptGraph(source).num_ops() : facts[index].num_ops;
      graphs.push_back({.source = std::move(source),
                        .name = fmt::format("{}_{:02}", choice.dataset, index),
                        .num_ops = num_ops,
                        .drawn_groups = facts[index].num_groups});
    }
    return graphs;
  }

  ChosenGraph OfFile(const std::string& written, const datasets::TransformOptions& transform) {
    GraphSource source;
    source.transform = transform;
    source.file = ResolvePath(written, experiment_.path);
    source.fingerprint = Fingerprinted(source.file);
    const Graph& loaded = KeptGraph(source);
    return {.source = std::move(source), .name = loaded.name(), .num_ops = loaded.num_ops(), .drawn_groups = 0};
  }

  static ChosenGraph OfInstance(const std::string& name) {
    const LibraryInstance& instance = FindInstance(name);
    GraphSource source;
    source.instance = name;
    source.fingerprint = instance.hash;
    return {.source = std::move(source), .name = name, .num_ops = instance.ops, .drawn_groups = 0};
  }

  static ChosenGraph OfModel(GraphSource source, const datasets::TransformOptions& transform) {
    source.transform = transform;
    const std::size_t num_ops = KeptGraph(source).num_ops();
    std::string name = source.model;
    return {.source = std::move(source), .name = std::move(name), .num_ops = num_ops, .drawn_groups = 0};
  }

  std::vector<ChosenGraph> Choose(const GraphChoice& choice, const std::string& place) {
    if (!choice.dataset.empty()) return WithLocation(place, [&] { return OfFamily(choice); });
    std::vector<ChosenGraph> graphs;
    for (const std::string& name : choice.instances) graphs.push_back(OfInstance(name));
    for (const GraphSource& model : choice.models) {
      graphs.push_back(WithLocation(place, [&] { return OfModel(model, choice.transform); }));
    }
    for (std::size_t i = 0; i < choice.files.size(); ++i) {
      graphs.push_back(WithLocation(fmt::format("{}.files[{}]", place, i),
                                    [&] { return OfFile(choice.files[i], choice.transform); }));
    }
    return graphs;
  }

  // Lists the remaining devices by name.
  ClusterChoice ClusterOf(const ClusterChoice& written, const std::string& agent) {
    ClusterChoice choice = written;
    const std::string place = written.file.empty() ? "cluster.name" : "cluster.file";
    if (!written.file.empty()) {
      choice.file = ResolvePath(written.file, experiment_.path);
      choice.fingerprint = WithLocation(place, [&] { return Fingerprinted(choice.file); });
    }
    Cluster cluster = WithLocation(place, [&] { return LoadWholeCluster(choice); });
    choice.name = cluster.name().empty() ? std::filesystem::path(choice.file).stem().string() : cluster.name();
    cluster = KeepChosen(std::move(cluster), choice, "cluster.");
    if (cluster.num_devices() == 0) throw InputError("cluster.gpus", "leaves no device (at least one)");
    CheckRunsOn(agent, cluster);
    choice.gpus.reset();
    choice.devices = NamesOf(cluster);
    return choice;
  }

  static void CheckRunsOn(const std::string& agent, const Cluster& cluster) {
    if (agents::RunsOn(agents::FindAgent(agent), cluster)) return;
    throw InputError("agent.name", fmt::format("{} has nothing to propose without a CPU (exclude it)", agent));
  }
  static std::vector<std::string> NamesOf(const Cluster& cluster) {
    std::vector<std::string> names;
    for (const Device& device : cluster.devices()) names.push_back(device.name);
    return names;
  }

  // The keys that an instance of the library determines besides the graph.
  static void SetInstance(const GraphSource& graph, TrialChoice* choice) {
    if (graph.instance.empty()) return;
    const LibraryInstance& instance = FindInstance(graph.instance);
    const Cluster cluster = LoadInstanceCluster(instance);
    CheckRunsOn(choice->agent, cluster);
    choice->cluster = {.name = cluster.name(), .devices = NamesOf(cluster)};
    choice->costs = instance.costs;
    choice->engine = kLibraryEngine;
  }

  static std::string GrouperOf(const ExperimentCell& cell, const ChosenGraph& graph) {
    if (!cell.grouping.empty()) return cell.grouping;
    return std::string(agents::DefaultGrouping(agents::FindAgent(cell.agent), graph.num_ops));
  }
  // 0 if the grouper has no number of groups.
  static std::size_t GroupsOf(const ExperimentCell& cell, const ChosenGraph& graph) {
    if (GrouperOf(cell, graph) != kGrouperWithNumber) return 0;
    if (cell.groups != 0) return cell.groups;
    return graph.drawn_groups != 0 ? graph.drawn_groups : agents::kDefaultGroups;
  }

  // If a spec has several graphs, each has its own number of groups.
  static std::vector<GraphSource> ListOf(const ExperimentCell& cell, const std::vector<ChosenGraph>& graphs) {
    std::vector<GraphSource> list;
    for (const ChosenGraph& graph : graphs) {
      list.push_back(graph.source);
      list.back().groups = GroupsOf(cell, graph);
    }
    return list;
  }

  // The settings common to all graphs of a cell.
  TrialChoice ChoiceOf(const ExperimentCell& cell) {
    TrialChoice choice;
    choice.experiment = experiment_.name;
    if (cell.graphs.instances.empty()) choice.cluster = ClusterOf(cell.cluster, cell.agent);
    choice.settings() = cell.settings();
    choice.costs = cell.costs.model;
    return choice;
  }

  void AddProfile(const ExperimentCell& cell, TrialChoice* choice) {
    const bool has_curves = !CurvesFiles(cell.costs.model).empty();
    if (cell.costs.profile.empty() && !has_curves) return;
    const std::string path = ResolvePath(has_curves ? cell.costs.model : cell.costs.profile, experiment_.path);
    choice->costs = (has_curves ? "" : std::string(kProfilePrefix)) + path;
    choice->profile_fingerprint = WithLocation("costs", [&] { return Fingerprinted(path); });
  }

  void PlanCell(const ExperimentCell& cell, std::size_t number) {
    const std::vector<ChosenGraph> graphs = Choose(cell.graphs, "graphs");
    TrialChoice choice = ChoiceOf(cell);
    if (cell.transfer) choice.transfer = ListOf(cell, Choose(*cell.transfer, "transfer"));
    if (choice.NeedsHardware()) RefuseSeveralGraphs(cell.graphs.together, cell.transfer.has_value());
    AddProfile(cell, &choice);
    const auto plan = [&](const std::vector<ChosenGraph>& own, const std::string& name) {
      PlannedTrial trial{.choice = choice, .cell = number, .graph = name};
      if (cell.graphs.together) {
        trial.choice.together = ListOf(cell, own);
      } else {
        trial.choice.graph = own.front().source;
        SetInstance(own.front().source, &trial.choice);
      }
      trial.choice.grouping = GrouperOf(cell, own.front());
      trial.choice.groups = GroupsOf(cell, own.front());
      for (const ChosenGraph& graph : own) trial.work += WorkOf(cell, graph);
      if (set_up_) CheckGroups(cell, own, trial.choice);
      AddSeeds(cell, std::move(trial));
    };
    if (cell.graphs.together) return plan(graphs, fmt::format("{} graphs", graphs.size()));
    for (const ChosenGraph& graph : graphs) plan({graph}, graph.name);
  }

  static double WorkOf(const ExperimentCell& cell, const ChosenGraph& graph) {
    const std::size_t most = GroupsOf(cell, graph);
    const std::size_t groups = most == 0 ? graph.num_ops : std::min(most, graph.num_ops);
    return (1 + static_cast<double>(cell.evaluations) +
            static_cast<double>(cell.episodes) * static_cast<double>(groups)) *
           static_cast<double>(graph.num_ops);
  }

  void AddSeeds(const ExperimentCell& cell, PlannedTrial trial) {
    for (const std::uint64_t seed : cell.seeds) {
      trial.choice.seed = trial.seed = seed;
      trial.spec = TrialChoiceToJson(trial.choice);
      trial.id = TrialId(trial.spec);
      if (!ids_.insert(trial.id).second) {
        ++plan_.merged;
        continue;
      }
      if (set_up_) CheckProblem(cell, trial);
      plan_.trials.push_back(trial);
    }
  }

  // Whether the agent takes each graph with its budget: every graph is checked, since one may be smaller than others.
  void CheckGroups(const ExperimentCell& cell, const std::vector<ChosenGraph>& graphs, const TrialChoice& choice) {
    if (agents::IsPythonAgent(cell.agent)) return;  // it cannot be asked
    for (const ChosenGraph& graph : graphs) {
      const std::size_t most = GroupsOf(cell, graph);
      const std::size_t groups = most == 0 ? graph.num_ops : std::min(most, graph.num_ops);
      const std::string agent = fmt::format("{} {} {}", AgentText(cell), cell.evaluations, cell.episodes);
      const std::string question = fmt::format("{} {} {}", agent, graphs.size(), groups);
      if (taken_.contains(question)) continue;
      const auto check = [&](std::size_t num_groups) {
        const agents::AgentContext context = {
            .evaluations = cell.Budget(num_groups), .episodes = cell.episodes, .num_graphs = graphs.size()};
        agents::MakeAgent(cell.agent, cell.agent_options, context)->CheckGroups(num_groups);
      };
      try {
        check(groups);
        taken_.insert(question);
      } catch (const InputError&) {
        // The grouper may have made fewer groups than it was asked for.
        TrialChoice own = choice;
        own.grouping = GrouperOf(cell, graph);
        own.groups = most;
        const agents::SearchProblem problem = LoadProblem(graph.source, own);
        const std::size_t made = agents::MakeGrouping(problem, agents::FindAgent(cell.agent)).num_groups();
        try {
          check(made);
        } catch (const InputError& error) {
          throw InputError("budget",
                           fmt::format("{}, on graph {} of {}", error.what(), graph.name, Counted(made, "group")));
        }
      }
    }
  }

  // Sets up the first problem of each kind, as a trial would.
  void CheckProblem(const ExperimentCell& cell, const PlannedTrial& trial) {
    if (cell.torch_device != "cpu") WithLocation("torch_device", [&] { agents::CheckTorchDevice(cell.torch_device); });
    const GraphSource first = trial.choice.graphs().front();
    GraphSource alone = first;
    alone.groups.reset();
    const std::string family = first.dataset.empty() ? JsonText({FieldsToJson(alone)}) : first.dataset;
    const std::string kind =
        fmt::format("{} {} {} {} {} {}", family, JsonText({FieldsToJson(trial.choice.cluster)}), cell.engine,
                    trial.choice.costs, trial.choice.grouping, Proposes(cell) ? AgentText(cell) : "");
    if (!checked_.insert(kind).second) return;
    const agents::SearchProblem problem = LoadProblem(first, trial.choice);
    const agents::AgentEntry& entry = agents::FindAgent(cell.agent);
    const Simulator simulator = WithLocation(
        "engine", [&] { return Simulator(problem.graph, problem.cluster, problem.costs, {.engine = cell.engine}); });
    const auto environment = WithLocation("cluster", [&] {
      return std::make_unique<agents::Environment>(problem.graph, problem.cluster, problem.costs,
                                                   agents::MakeGrouping(problem, entry), simulator);
    });
    if (Proposes(cell)) CheckProposes(cell, *environment);
  }

  // Whether the agent proposes once before the first trial: if it needs a policy, if it is a Python class, which may be
  // missing, or if its first proposal is all that it does.
  static bool Proposes(const ExperimentCell& cell) {
    const agents::AgentEntry& entry = agents::FindAgent(cell.agent);
    return MustLearn(cell) || agents::IsPythonAgent(cell.agent) || (!entry.searches() && entry.max_ops == 0);
  }

  static bool MustLearn(const ExperimentCell& cell) { return cell.transfer || cell.graphs.together; }

  // Proposes once before it asks for a policy, whose shape depends on its first problem.
  static void CheckProposes(const ExperimentCell& cell, const agents::Environment& environment) {
    const std::size_t budget = cell.Budget(environment.observation().num_groups());
    // An agent in Python that does not answer for a minute may do so in a trial, or be stopped there.
    constexpr std::chrono::seconds kPatience(60);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    const auto stop = [end] { return std::chrono::steady_clock::now() > end; };
    Rng rng(0);
    std::unique_ptr<agents::Agent> agent;
    WithLocation("agent", [&] {
      agent = agents::MakeAgent(cell.agent, cell.agent_options, {.evaluations = budget, .num_graphs = 1, .stop = stop});
      try {
        agent->Propose(environment, agents::Mode::kExplore, rng);
      } catch (const agents::AgentDoesNotAnswer&) {
        return;
      }
    });
    if (!MustLearn(cell) || agent->HasPolicy()) return;
    if (cell.transfer) {
      throw InputError("transfer", fmt::format("agent {} has no policy to transfer (exclude it)", cell.agent));
    }
    throw InputError("graphs.together",
                     fmt::format("agent {} does not learn, so it takes one graph at a time (exclude it)", cell.agent));
  }

  const ExperimentSpec& experiment_;
  bool set_up_;
  TrialPlan plan_;
  std::set<std::string> ids_;
  std::set<std::string> checked_;                    // kinds of problems
  std::set<std::string> taken_;                      // agents with budgets, and numbers of groups that they take
  std::map<std::string, std::string> fingerprints_;  // keyed by path
};

}  // namespace

TrialPlan PlanTrials(const ExperimentSpec& experiment, bool set_up) { return Planner(experiment, set_up).Plan(); }

std::vector<std::size_t> ChosenMembers(const GraphChoice& choice) {
  if (!choice.index.empty()) return choice.index;
  const std::array<bool, datasets::kFamilySize> training = datasets::FamilySplit(choice.family_seed);
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < datasets::kFamilySize; ++i) {
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

}  // namespace emplace::experiments
