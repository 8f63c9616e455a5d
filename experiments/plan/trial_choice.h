#ifndef EMPLACE_EXPERIMENTS_PLAN_TRIAL_CHOICE_H_
#define EMPLACE_EXPERIMENTS_PLAN_TRIAL_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agents/settings.h"
#include "datasets/families/families.h"
#include "datasets/transform/transform.h"
#include "experiments/inputs/choices.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_value.h"
#include "sim/base/options.h"

namespace emplace::experiments {

// spec.json, `emplace.trial_spec` version 1: one trial, with all defaults filled in. The content of a file must match
// its fingerprint in the spec.
struct TrialChoice : agents::SearchSettings {
  std::string experiment;
  std::optional<GraphSource> graph;   // or:
  std::vector<GraphSource> together;  // the agent learns on all of them
  std::vector<GraphSource> transfer;  // the policy is applied to these; empty: none
  ClusterChoice cluster;
  std::string costs;  // a cost model, a file of curves, or kProfilePrefix and a file
  std::string profile_fingerprint;

  // Those that are not settings.
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
    visit("cluster", self.cluster, {.needed = "a cluster", .own_place = "cluster"});
    visit("costs", self.costs, {.needed = "where op times come from"});
    visit("profile_fingerprint", self.profile_fingerprint,
          {.optional = true, .written = !self.profile_fingerprint.empty()});
  }

  // The graphs that are searched.
  std::vector<GraphSource> graphs() const { return graph ? std::vector{*graph} : together; }
  CostsChoice costs_choice() const {
    if (!costs.starts_with(kProfilePrefix)) return {.model = costs, .fingerprint = profile_fingerprint};
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
