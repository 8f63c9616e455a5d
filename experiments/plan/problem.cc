#include "experiments/plan/problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>
#include "agents/reward.h"
#include "datasets/families/families.h"
#include "datasets/models/registry.h"
#include "datasets/shipped_clusters.h"
#include "datasets/transform/transform.h"
#include "experiments/library/instances.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/fingerprint.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_text.h"
#include "sim/cost/cost_models.h"
#include "sim/cost_model.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/formats/graph_json.h"
#include "sim/profile.h"

namespace emplace::experiments {
namespace {

// Specs name M (agents/reward.h) since it is the memory of the devices unless given. Before, it was this many GB.
constexpr std::string_view kMemoryOfEarlierSpecs = "10.7";

std::size_t GroupsOf(const GraphSource& graph, const TrialChoice& choice) {
  std::uint64_t groups = graph.groups.value_or(choice.groups);
  if (groups == 0 && !graph.dataset.empty()) groups = FamilyFacts(graph.dataset, graph.seed)[graph.index].num_groups;
  return groups;
}

std::vector<agents::SearchProblem> LoadProblems(const std::vector<GraphSource>& graphs, const TrialChoice& choice) {
  std::vector<agents::SearchProblem> problems;
  problems.reserve(graphs.size());
  for (const GraphSource& graph : graphs) problems.push_back(LoadProblem(graph, choice));
  return problems;
}

}  // namespace

namespace {

agents::SearchProblem LoadProblemOfInstance(const GraphSource& graph) {
  return WithLocation("graph", [&]() -> agents::SearchProblem {
    const LibraryInstance& instance = FindInstance(graph.instance);
    if (graph.fingerprint != instance.hash) {
      throw InputError("instance",
                       fmt::format("{} has a different hash than when the trial was planned (sweep again: that "
                                   "makes a new trial)",
                                   graph.instance));
    }
    const LibraryProblem& kept = KeptInstance(instance);
    return {.graph = kept.graph, .cluster = kept.cluster, .costs = kept.costs, .name = instance.name};
  });
}

agents::SearchProblem LoadProblemOfInputs(const GraphSource& graph, const TrialChoice& choice) {
  Graph loaded = WithLocation("graph", [&] { return KeptGraph(graph); });
  Cluster cluster =
      WithLocation("cluster", [&] { return KeepChosen(LoadWholeCluster(choice.cluster), choice.cluster); });
  CostTable costs = WithLocation("costs", [&] {
    return MakeCosts(loaded, cluster, LoadCostModels(choice.costs_choice()),
                     graph.file.empty() ? "graph " + loaded.name() : graph.file, "cluster " + cluster.name());
  });
  return {.graph = std::move(loaded), .cluster = std::move(cluster), .costs = std::move(costs)};
}

}  // namespace

agents::SearchProblem LoadProblem(const GraphSource& graph, const TrialChoice& choice) {
  agents::SearchProblem problem =
      graph.instance.empty() ? LoadProblemOfInputs(graph, choice) : LoadProblemOfInstance(graph);
  problem.SetGrouping(choice.grouping, GroupsOf(graph, choice));
  return problem;
}

namespace {

std::uint64_t SeedOf(const TrialChoice& choice) {
  if (choice.draws != "per_graph") return choice.seed;
  Fingerprint drawn;
  drawn.Add(fmt::format("{}", choice.seed));
  for (GraphSource graph : choice.graphs()) {
    graph.groups.reset();
    if (!graph.file.empty()) graph.file = "file";  // the fingerprint identifies it, so that the folder does not matter
    drawn.Add(JsonText({FieldsToJson(graph)}));
  }
  return drawn.value();
}

}  // namespace

agents::SearchSpec LoadSearchSpec(const TrialChoice& choice) {
  std::vector<agents::SearchProblem> problems = LoadProblems(choice.graphs(), choice);
  agents::SearchSpec trial{{}, std::move(problems.front())};
  for (std::size_t i = 1; i < problems.size(); ++i) trial.also.push_back(std::move(problems[i]));
  trial.transfer = LoadProblems(choice.transfer, choice);
  trial.settings() = choice.settings();
  trial.pipeline = agents::LoadSchedule(trial, agents::Door::kSpec);
  trial.threads = 1;  // sweeps run a trial on each core
  trial.reward = agents::WithPenaltyMemory(choice.reward, kMemoryOfEarlierSpecs);
  trial.seed = SeedOf(choice);
  return trial;
}

}  // namespace emplace::experiments
