#ifndef EMPLACE_EXPERIMENTS_PLAN_TRIAL_CHOICE_H_
#define EMPLACE_EXPERIMENTS_PLAN_TRIAL_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/families/families.h"
#include "datasets/transform/transform.h"
#include "experiments/plan/hardware_choice.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_value.h"
#include "sim/base/options.h"

namespace emplace::experiments {

// The settings of a search, by name: from an experiment, a spec.json or command-line options. problem.h loads them.
// Each struct has one list of its fields in spec.json (json_struct.h).

// One graph: a member of a family, an instance of the library, a file or a generated network, and what is made of it.
struct GraphSource {
  std::string dataset = {};  // a family; "": none
  std::uint64_t seed = 0;
  std::uint64_t index = 0;
  std::string instance = {};     // of the library, which determines cluster and op times too; "": none
  std::string file = {};         // "": none
  std::string fingerprint = {};  // of the file's content, or the instance's hash, which must match; "": not checked
  std::string model = {};
  OptionMap set = {};
  datasets::TransformOptions transform = {};
  std::optional<std::uint64_t> groups = {};  // instead of GroupingChoice::groups
  bool operator==(const GraphSource&) const = default;

  static void Fields(auto& visit, auto& self) {
    // Fields are read in order, so a field must precede the rules that depend on it.
    const auto has = [](const std::string& text) { return !text.empty(); };
    visit("dataset", self.dataset, {.optional = true, .written = has(self.dataset), .not_empty = true});
    const bool family = has(self.dataset);
    visit("seed", self.seed, {.optional = !family, .written = family, .needed = "a seed"});
    visit("index", self.index,
          {.optional = !family, .written = family, .needed = "a member", .most = datasets::kFamilySize - 1});
    visit("instance", self.instance, {.optional = true, .written = has(self.instance), .not_empty = true});
    visit("file", self.file, {.optional = true, .written = has(self.file), .not_empty = true});
    visit("fingerprint", self.fingerprint, {.optional = true, .written = has(self.file) || has(self.instance)});
    const bool other = family || has(self.file) || has(self.instance);
    visit("model", self.model,
          {.optional = other,
           .written = !other,
           .needed = "a dataset, an instance, a file or a model",
           .not_empty = true});
    visit("set", self.set, {.optional = true, .written = !other, .integers = true});
    visit("transform", self.transform, {.optional = true, .written = self.transform.ChangesSomething()});
    visit("groups", self.groups, {.optional = true, .written = self.groups.has_value()});
  }
};

struct GroupingChoice {
  std::string name;          // a grouper
  std::uint64_t groups = 0;  // 0: the number of the family's member, else kDefaultGroups

  static void Fields(auto& visit, auto& self) {
    visit("name", self.name, {.needed = "a grouper", .not_empty = true});
    visit("groups", self.groups, {.needed = "a number of groups"});
  }
};

// `cluster:`. An experiment gives either name or file; a spec also has the name of a file's cluster.
struct ClusterChoice {
  std::string name = {};                  // a shipped one
  std::string file = {};                  // as in GraphSource
  std::string fingerprint = {};           // as GraphSource::fingerprint
  std::vector<std::string> devices = {};  // empty: all
  std::optional<std::size_t> gpus =
      {};  // number of accelerators to keep, in addition to every CPU; a spec names the devices instead
  bool unlimited_memory = false;

  static void Fields(auto& visit, auto& self) {
    const bool file = !self.file.empty();
    visit("name", self.name, {.needed = "a shipped cluster", .not_empty = true, .unless = "file"});
    visit("file", self.file, {.optional = true, .written = file, .not_empty = true});
    visit("fingerprint", self.fingerprint, {.optional = true, .written = file});
    visit("devices", self.devices, {.optional = true, .allowed = "a list of at least one device", .not_empty = true});
    visit("memory", self.unlimited_memory, {.optional = true, .written = self.unlimited_memory, .word = "unlimited"});
  }
};

// The source of op times.
struct CostsChoice {
  std::string model = {};        // a cost model; with a profile, for the ops that it lacks; "": none
  std::string profile = {};      // a file; "": none
  std::string fingerprint = {};  // as in GraphSource
  std::string tf32 = {};         // of roofline: which f32 products are in TF32 (Tf32FromName)
};

struct AgentChoice {
  std::string label;  // name in reports
  std::string name;
  OptionMap set;

  static void Fields(auto& visit, auto& self) {
    visit("label", self.label, {.optional = true});
    visit("name", self.name, {.needed = "an agent", .not_empty = true});
    visit("set", self.set, {.needed = "options"});
  }
};

// `budget:`, for each graph. Exactly one is not 0.
struct BudgetChoice {
  std::size_t evaluations = 0;
  std::size_t episodes = 0;  // corresponds to 1 + episodes * number of groups evaluations

  std::size_t Evaluations(std::size_t num_groups) const {
    return episodes != 0 ? 1 + episodes * num_groups : evaluations;
  }

  static void Fields(auto& visit, auto& self) {
    visit("evaluations", self.evaluations, {.optional = true, .written = self.episodes == 0});
    visit("episodes", self.episodes, {.optional = true, .written = self.episodes != 0});
  }
};

// The prefix of `costs` if it names a file.
inline constexpr std::string_view kProfilePrefix = "profile: ";

// spec.json, `emplace.trial_spec` version 1: one trial, with all defaults filled in. The content of a file must match
// its fingerprint in the spec.
struct TrialChoice {
  std::string experiment;
  std::optional<GraphSource> graph;   // or:
  std::vector<GraphSource> together;  // the agent learns on all of them
  std::vector<GraphSource> transfer;  // the policy is applied to these; empty: none
  GroupingChoice grouping;
  ClusterChoice cluster;
  std::string engine;
  std::string collectives = {};  // how they are timed; "": by the model
  std::string costs;             // a cost model, or kProfilePrefix and a file
  std::string profile_fingerprint;
  AgentChoice agent;
  BudgetChoice budget;
  std::string objective = {};  // "": step_time
  std::string schedule = {};   // by name; "": none
  std::size_t micro_batches = 0;
  std::string reward;
  std::string start = {};        // by name (agents/named_placement.h); "": none
  std::string incumbent = {};    // the same
  bool draws_per_graph = false;  // graphs have random numbers of their own: see LoadSearchSpec()
  std::string torch_device = "cpu";
  std::optional<HardwareChoice> hardware;  // none: the simulator evaluates everything
  std::uint64_t seed = 0;

  static void Fields(auto& visit, auto& self) {
    constexpr std::string_view kList = "a list of at least one graph";
    visit("experiment", self.experiment, {.optional = true});
    visit("graph", self.graph,
          {.written = self.graph.has_value(), .needed = "a graph", .unless = "together", .own_place = "graph"});
    visit("together", self.together,
          {.optional = true,
           .written = !self.together.empty(),
           .allowed = kList,
           .not_empty = true,
           .own_place = "graph"});
    visit("transfer", self.transfer,
          {.optional = true,
           .written = !self.transfer.empty(),
           .allowed = kList,
           .not_empty = true,
           .own_place = "graph"});
    visit("grouping", self.grouping, {.needed = "an object"});
    visit("cluster", self.cluster, {.needed = "a cluster", .own_place = "cluster"});
    visit("engine", self.engine, {.needed = "an engine", .not_empty = true});
    visit("collectives", self.collectives, {.optional = true, .written = !self.collectives.empty(), .not_empty = true});
    visit("costs", self.costs, {.needed = "where op times come from"});
    visit("profile_fingerprint", self.profile_fingerprint,
          {.optional = true, .written = !self.profile_fingerprint.empty()});
    visit("agent", self.agent, {.needed = "an agent"});
    visit("budget", self.budget, {.needed = "evaluations or episodes"});
    visit("objective", self.objective, {.optional = true, .written = !self.objective.empty(), .not_empty = true});
    visit("schedule", self.schedule, {.optional = true, .written = !self.schedule.empty(), .not_empty = true});
    visit("micro_batches", self.micro_batches, {.optional = true, .written = !self.schedule.empty()});
    visit("reward", self.reward, {.needed = "a reward", .not_empty = true});
    visit("start", self.start, {.optional = true, .written = !self.start.empty(), .not_empty = true});
    visit("incumbent", self.incumbent, {.optional = true, .written = !self.incumbent.empty(), .not_empty = true});
    visit("draws", self.draws_per_graph, {.optional = true, .written = self.draws_per_graph, .word = "per_graph"});
    visit("torch_device", self.torch_device,
          {.optional = true, .written = self.torch_device != "cpu", .not_empty = true});
    visit("hardware", self.hardware, {.optional = true, .written = self.hardware.has_value()});
    visit("seed", self.seed, {.needed = "a seed", .most = std::numeric_limits<std::int64_t>::max()});
  }

  // The graphs that are searched.
  std::vector<GraphSource> graphs() const { return graph ? std::vector{*graph} : together; }
  CostsChoice costs_choice() const {
    if (!costs.starts_with(kProfilePrefix)) return {.model = costs};
    return {.profile = costs.substr(kProfilePrefix.size()), .fingerprint = profile_fingerprint};
  }
};

inline constexpr std::string_view kSpecSchema = "emplace.trial_spec";

JsonValue TrialChoiceToJson(const TrialChoice& choice);
// Throws InputError whose place is a path in the spec.
TrialChoice ReadTrialChoice(const JsonValue& spec);

// Real devices run the ops of one graph. Throws InputError if there are further graphs to learn on or to transfer to.
void RefuseSeveralGraphs(bool together, bool transfer);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_PLAN_TRIAL_CHOICE_H_
