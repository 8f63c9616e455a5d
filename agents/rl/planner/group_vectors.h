#ifndef EMPLACE_AGENTS_RL_PLANNER_GROUP_VECTORS_H_
#define EMPLACE_AGENTS_RL_PLANNER_GROUP_VECTORS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "agents/nn/kernel.h"
#include "agents/node_features.h"

namespace emplace::agents {

// Numeric features of an op, 24 + 12: the dimensions of its outputs, and the breadth-first indices of 6 producers and 6
// consumers. Indices are ascending and padded with -1. Scaling: log(1 + dimension), indices divided by the number of
// ops. `raw` disables scaling; values of up to 1e6 then dominate an untrained policy.
// Source: Mirhoseini et al. 2018, section 2; the scaling is ours.
inline constexpr std::size_t kOpNumbers = kShapeWidth + kNeighbourIndices;
Matrix OpNumbers(const NodeFeatures& nodes, bool raw);

// Input of the Placer for each group, [num_groups, NumKinds() + 24 + num_groups]. First the number of its ops of each
// kind, divided by its sum. Then the sum of their outputs' dimensions, divided by its largest entry (a group without
// ops has zeros). Then 1 for each group that one of its ops reads from or is read by. `raw` disables the divisions, so
// that the Placer sees how large a group is.
// group_of: [num_nodes]. Source: Mirhoseini et al. 2018, section 2; the scaling is ours.
std::size_t GroupVectorWidth(std::size_t num_groups);
Matrix GroupVectors(const NodeFeatures& nodes, std::span<const std::uint32_t> group_of, std::size_t num_groups,
                    bool raw);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PLANNER_GROUP_VECTORS_H_
