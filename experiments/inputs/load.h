#ifndef EMPLACE_EXPERIMENTS_INPUTS_LOAD_H_
#define EMPLACE_EXPERIMENTS_INPUTS_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/inputs/choices.h"
#include "sim/cluster.h"
#include "sim/cost/cost_models.h"
#include "sim/cost_model.h"
#include "sim/graph.h"

namespace emplace::experiments {

// Loaders of the inputs of trials and commands. All throw InputError. If a choice has a fingerprint, the file's content
// must match it.
Graph LoadGraph(const GraphSource& source);
// The same, cached until the program ends.
const Graph& KeptGraph(const GraphSource& source);

// Loads the cluster; KeepChosen restricts it to the choice's devices, accelerators and memory limits. The place of
// KeepChosen's errors is `prefix` and the field, such as "--" and "devices".
Cluster LoadWholeCluster(const ClusterChoice& choice);
Cluster KeepChosen(Cluster cluster, const ClusterChoice& choice, const std::string& prefix = "");

struct CostModels {
  std::unique_ptr<CostModel> model;
  std::unique_ptr<CostModel> fallback;  // null if there is none
};
// Names the model where neither a model nor a profile is given: measured if every op has a time on a device of the
// cluster, else curves if every kind of accelerator of the cluster has them and there is one, else roofline. (Where
// some ops have times and roofline does not know the others, it is measured, whose error says what is missing.)
CostsChoice ResolvedCosts(CostsChoice choice, const Graph& graph, const Cluster& cluster);
// The source of op times in words, for results: "roofline", "profile p.json", "profile p.json, else roofline".
std::string CostsText(const CostsChoice& choice);
// What the cost models roofline and curves are made with: the choice's TF32, and the curves of its files.
RooflineOptions LoadCostOptions(const CostsChoice& choice);
// What the name of the costs does not say, in a line: with curves, which ops have their times from which curves; with
// roofline that ResolvedCosts chose in place of `asked`, the kinds that have no curves; else "".
std::string CostsDetail(const CostsChoice& asked, const CostsChoice& used, const Graph& graph, const Cluster& cluster);
// The default is `measured`. `place` is the place of the error on an unknown model.
CostModels LoadCostModels(const CostsChoice& choice, const std::string& place = "");
// Without a fallback, every device kind must be one that the model knows (CostModel::CheckKind).
void CheckKinds(const CostModels& models, const Cluster& cluster, const std::string& place);
// The times of the graph's ops on the cluster, whose kinds are checked. Errors about an op are at `graph_place`, those
// about a kind at `cluster_place`.
CostTable MakeCosts(const Graph& graph, const Cluster& cluster, const CostModels& models,
                    const std::string& graph_place, const std::string& cluster_place);

// The members of a family for a seed, without their graphs. The first call generates the whole family (up to a few
// seconds); later calls are cached.
struct FamilyMemberFacts {
  bool training = false;
  std::size_t num_ops = 0;
  std::size_t num_groups = 0;
};
const std::vector<FamilyMemberFacts>& FamilyFacts(std::string_view family, std::uint64_t seed);

// Fingerprint of a file's decompressed content, 16 hex digits. Throws InputError.
std::string FingerprintOfFile(const std::string& path);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_INPUTS_LOAD_H_
