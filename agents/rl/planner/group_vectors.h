#ifndef EMPLACE_AGENTS_RL_PLANNER_GROUP_VECTORS_H_
#define EMPLACE_AGENTS_RL_PLANNER_GROUP_VECTORS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "agents/nn/kernel.h"
#include "agents/node_features.h"

namespace emplace::agents {

// Numbers of an op, 24 + 12: the dimensions of its outputs, and the breadth-first indices of 6 producers and 6
// consumers, the smallest first, -1 where there are fewer. Scaled: log(1 + dimension), indices divided by the number of
// ops; `raw` leaves them as they are, up to 1e6, which decides a policy before it has learned anything.
// Source: Mirhoseini et al. 2018, section 2; the scaling is ours.
inline constexpr std::size_t kOpNumbers = kShapeWidth + 12;
Matrix OpNumbers(const NodeFeatures& nodes, bool raw);

// What the Placer reads of each group, [num_groups, NumKinds() + 24 + num_groups]: how many of its ops are of each
// kind; the sum of their outputs' dimensions; 1 for each group that one of its ops reads from or is read by. The first
// part is divided by its sum, the second by its largest entry (a group without ops has zeros).
// group_of: [num_nodes]. Source: Mirhoseini et al. 2018, section 2; the scaling is ours.
std::size_t GroupVectorWidth(std::size_t num_groups);
Matrix GroupVectors(const NodeFeatures& nodes, std::span<const std::uint32_t> group_of, std::size_t num_groups);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PLANNER_GROUP_VECTORS_H_
