#ifndef EMPLACE_EXPERIMENTS_RUN_PROBLEM_H_
#define EMPLACE_EXPERIMENTS_RUN_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/run/trial.h"
#include "experiments/spec/hardware_choice.h"
#include "sim/base/json_value.h"
#include "sim/cluster.h"
#include "sim/graph.h"

namespace emplace {

// How many groups a graph is put into where neither the user nor the family says.
inline constexpr std::size_t kDefaultGroups = 256;

// What the objects of a spec.json (`emplace.trial_spec`, version 1) stand for:
//   graph     {"dataset", "seed", "index"}, {"file", "fingerprint"} or {"model", "set"}; "groups" beside them goes
//   before
//             grouping.groups
//   grouping  {"name", "groups"}; groups 0: what a family's member drew, else 256
//   cluster   {"name", "devices"}, beside them "file" and "fingerprint" if it is not a shipped one, "memory":
//   "unlimited" costs     a cost model, or "profile: FILE", with "profile_fingerprint" beside it
// A file must be what it was: its content has the fingerprint of the spec. All of them throw InputError, its place a
// path in the spec. Graphs are kept as long as the program runs: asking for one again costs nothing.
const Graph& LoadGraphOf(const JsonValue& graph);
Cluster LoadClusterOf(const JsonValue& cluster);

// A graph of `spec`, which is spec.graph, or an element of spec.together or spec.transfer, on the spec's cluster with
// its costs and grouping.
TrialProblem LoadProblem(const JsonValue& graph, const JsonValue& spec);

// `hardware` of a spec: {"reward_source", "share", "validate_every", "warmups", "steps", "statistic", "patience"};
// absent where the simulator answers for everything.
HardwareChoice LoadHardwareChoice(const JsonValue& spec);

// The whole trial, its checkpoint, threads and evaluator aside.
TrialSpec LoadTrialSpec(const JsonValue& spec);

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

}  // namespace emplace

#endif  // EMPLACE_EXPERIMENTS_RUN_PROBLEM_H_
