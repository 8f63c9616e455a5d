#ifndef EMPLACE_AGENTS_RL_PLANNER_PLANNER_PROBLEM_H_
#define EMPLACE_AGENTS_RL_PLANNER_PLANNER_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "agents/node_features.h"
#include "agents/rl/planner/options.h"
#include "sim/placement.h"

namespace emplace::agents {

// A graph as the policy of the agents hierarchical and coloc_rl sees it.
struct PlannerProblem {
  NodeFeatures nodes;
  Matrix numbers;                                  // [num_nodes, kOpNumbers]
  bool raw_groups = false;                         // GroupVectors
  std::vector<std::vector<DeviceId>> devices;      // [num_nodes]: allowed devices of a node
  std::vector<std::uint8_t> usable;                // [num_devices]: devices allowed for groups
  std::vector<std::vector<std::uint8_t>> allowed;  // [num_nodes][num_devices]: `devices` as masks, if nodes are
                                                   // groups
  std::vector<std::uint32_t> fixed_groups;         // [num_nodes]: used if the grouping is not learned
  std::vector<std::uint32_t> order;                // [num_groups]: the Placer's p-th group
  std::optional<Placement> start;                  // placement of nodes
  std::vector<DeviceId> home;                      // [num_groups]: where the groups are at the start; empty without

  // Mask of the devices allowed for the Placer's group at `position`.
  const std::vector<std::uint8_t>& AllowedAt(std::size_t position) const {
    return allowed.empty() ? usable : allowed[order[position]];
  }
  // Adds to the logits of a node's groups, or of the devices of the Placer's group at `position`, what makes the start
  // likely, if there is one.
  void AddStartOfNode(std::size_t node, std::span<float> logits) const;
  void AddStartOfGroup(std::size_t position, std::span<float> logits) const;
};

// A fixed grouping into `num_groups` is drawn with `seed`.
PlannerProblem MakePlannerProblem(const Environment& env, const PlannerOptions& options, std::size_t num_groups,
                                  std::uint64_t seed);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PLANNER_PLANNER_PROBLEM_H_
