#ifndef EMPLACE_EXPERIMENTS_LIBRARY_INSTANCES_H_
#define EMPLACE_EXPERIMENTS_LIBRARY_INSTANCES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/inputs/choices.h"
#include "sim/base/json_struct.h"
#include "sim/base/options.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/simulator.h"

namespace emplace {

namespace experiments {
// By number of ops; the last has up to 100,000.
enum class Tier : std::uint8_t { kTiny, kSmall, kMedium, kLarge, kHuge };
}  // namespace experiments

template <>
struct EnumNames<experiments::Tier> {
  using Tier = experiments::Tier;
  static constexpr std::array<std::pair<Tier, std::string_view>, 5> kNames = {{{Tier::kTiny, "tiny"},
                                                                               {Tier::kSmall, "small"},
                                                                               {Tier::kMedium, "medium"},
                                                                               {Tier::kLarge, "large"},
                                                                               {Tier::kHuge, "huge"}}};
  static constexpr std::string_view kAllowed = "tiny, small, medium, large or huge";
};

namespace experiments {

// The largest number of ops of a tier.
std::size_t MostOps(Tier tier);
// The tier of cells with measured plans (experiments/library/plans/), which are no placement problems.
inline constexpr std::string_view kPlansTier = "plans";
// Throws InputError that lists the tiers, that of plans too.
Tier FindTier(std::string_view name);

// How the graph of an instance is made: a synthetic graph, a member of a family or a network.
struct LibraryGraph {
  std::string synthetic = {};  // a row of datasets::AllSyntheticGraphs(); "": none
  std::string dataset = {};    // a family; "": none
  std::uint64_t seed = 0;      // seed of the family
  std::uint64_t index = 0;
  std::string model = {};  // "": none
  OptionMap set = {};      // options of a synthetic graph or a model

  static void Fields(auto& visit, auto& self) {
    const auto has = [](const std::string& text) { return !text.empty(); };
    visit("synthetic", self.synthetic, {.optional = true, .written = has(self.synthetic), .not_empty = true});
    visit("dataset", self.dataset, {.optional = true, .written = has(self.dataset), .not_empty = true});
    const bool family = has(self.dataset);
    visit("seed", self.seed, {.optional = !family, .written = family, .needed = "a seed"});
    visit("index", self.index,
          {.optional = !family, .written = family, .needed = "a member", .most = datasets::kFamilySize - 1});
    const bool other = family || has(self.synthetic);
    visit("model", self.model,
          {.optional = other,
           .written = has(self.model),
           .needed = "a synthetic graph, a dataset or a model",
           .not_empty = true});
    visit("set", self.set, {.optional = true, .written = !family, .integers = true});
  }
};

struct LibraryCluster {
  std::string name = {};                        // a file of datasets/library/clusters, else a shipped cluster
  std::optional<std::uint64_t> gpus = {};       // the number of accelerators to keep, beside every CPU
  std::vector<std::string> devices = {};        // devices to keep; empty: all
  std::optional<std::uint64_t> memory_kb = {};  // memory of each accelerator in thousand bytes, instead of the file's

  static void Fields(auto& visit, auto& self) {
    visit("name", self.name, {.needed = "a cluster", .not_empty = true});
    visit("gpus", self.gpus, {.optional = true, .written = self.gpus.has_value()});
    visit("devices", self.devices, {.optional = true, .written = !self.devices.empty(), .not_empty = true});
    visit("memory_kb", self.memory_kb, {.optional = true, .written = self.memory_kb.has_value()});
  }
};

// A row of datasets/library/instances.yaml: a placement problem that never changes.
struct LibraryInstance {
  std::string name;
  Tier tier = Tier::kTiny;
  std::uint64_t ops = 0;
  LibraryGraph graph;
  LibraryCluster cluster;
  std::string costs = "measured";  // a cost model; measured: the times of the graph
  std::string hash = {};           // InstanceHash; "": not frozen yet

  static void Fields(auto& visit, auto& self) {
    visit("name", self.name, {.needed = "a name", .not_empty = true});
    visit("tier", self.tier, {.needed = EnumNames<Tier>::kAllowed});
    visit("ops", self.ops, {.needed = "the number of ops"});
    visit("graph", self.graph, {.needed = "an object"});
    visit("cluster", self.cluster, {.needed = "an object"});
    visit("costs", self.costs, {.optional = true, .not_empty = true});
    visit("hash", self.hash, {.optional = true});
  }
};

// The instances, in the order of the file, which is compiled into the program.
const std::vector<LibraryInstance>& LibraryInstances();
// Reads such a file, `emplace.library` version 1. Throws InputError, its place starting with `file`: also on a name
// that repeats.
std::vector<LibraryInstance> ReadLibraryInstances(std::istream& in, const std::string& file);
// Throws InputError that names those with similar names.
const LibraryInstance& FindInstance(std::string_view name);
// The names that are most like `name`: at most three, the nearest first, by the number of letters to change.
std::vector<std::string> NearestNames(std::string_view name, std::span<const LibraryInstance> instances);

// The engine of every instance, and the version of its rules (docs/model.md: F and M). A change of a rule that changes
// a step time or a peak makes a new version, and with it new hashes.
inline constexpr std::string_view kLibraryEngine = "fifo";
inline constexpr std::string_view kLibraryRules = "fifo 1, memory 1";

// An instance, ready to be simulated. The cluster is named after the instance, so that a placement names it too.
struct LibraryProblem {
  Graph graph;
  Cluster cluster;
  CostTable costs;
  std::optional<Placement> planted = {};  // a placement around which the graph was built
  std::int64_t planted_ns = 0;            // its step time, which is optimal
};
// The cluster of an instance, named after it.
Cluster LoadInstanceCluster(const LibraryInstance& instance);
// Throws InputError if the recipe is wrong.
LibraryProblem LoadInstance(const LibraryInstance& instance);
// 16 hexadecimal digits (sim/base/fingerprint.h) that stand for all that determines a step time: graph.json, the
// cluster without its source, each op's time on each device kind in ns, and kLibraryRules.
std::string InstanceHash(const LibraryProblem& problem);
// LoadInstance, then throws InputError if the hash is not the instance's: the program makes other graphs than it did.
LibraryProblem LoadFrozenInstance(const LibraryInstance& instance);
// The same, cached until the program ends.
const LibraryProblem& KeptInstance(const LibraryInstance& instance);

}  // namespace experiments
}  // namespace emplace

#endif  // EMPLACE_EXPERIMENTS_LIBRARY_INSTANCES_H_
