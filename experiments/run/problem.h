#ifndef EMPLACE_EXPERIMENTS_RUN_PROBLEM_H_
#define EMPLACE_EXPERIMENTS_RUN_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agents/search.h"
#include "experiments/spec/trial_choice.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"

namespace emplace::experiments {

// How many groups a graph is put into where neither the user nor the family says.
inline constexpr std::size_t kDefaultGroups = 256;

// Loaders of what trials and commands name. All throw InputError. A choice with a fingerprint needs a file with that
// content.
Graph LoadGraph(const GraphSource& source);
// The same; kept as long as the program runs, so that asking for it again costs nothing.
const Graph& KeptGraph(const GraphSource& source);

// The cluster, and what its choice keeps of it: devices, accelerators, memory limits. Errors of KeepChosen are said to
// be in `prefix` and the field, such as "--" and "devices"; nowhere if there is no prefix.
Cluster LoadWholeCluster(const ClusterChoice& choice);
Cluster KeepChosen(Cluster cluster, const ClusterChoice& choice, const std::string& prefix = "");

struct CostModels {
  std::unique_ptr<CostModel> model;
  std::unique_ptr<CostModel> fallback;  // null if there is none
};
// `measured` where the choice says nothing. An unknown model is said to be in `place`.
CostModels LoadCostModels(const CostsChoice& choice, const std::string& place = "");

// A graph of the trial with its cluster, costs and grouping. Places are paths in the spec.
agents::SearchProblem LoadProblem(const GraphSource& graph, const TrialChoice& choice);
// The whole trial, its checkpoint, threads and evaluator aside.
agents::SearchSpec LoadSearchSpec(const TrialChoice& choice);

// The members of a family that a seed gives, without their graphs. The first time makes the whole family (up to a few
// seconds), later ones cost nothing.
struct FamilyMemberFacts {
  bool training = false;
  std::size_t num_ops = 0;
  std::size_t num_groups = 0;
};
const std::vector<FamilyMemberFacts>& FactsOfFamily(std::string_view family, std::uint64_t seed);

// 16 hex digits of a file's content, undone gzip. Throws InputError.
std::string FingerprintOfFile(const std::string& path);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_PROBLEM_H_
