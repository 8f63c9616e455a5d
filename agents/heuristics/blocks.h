#ifndef EMPLACE_AGENTS_HEURISTICS_BLOCKS_H_
#define EMPLACE_AGENTS_HEURISTICS_BLOCKS_H_

#include <memory>

#include "agents/agent.h"

namespace emplace {

// The topological order cut into one contiguous block per accelerator, blocks of equal time (of each group the mean
// over the accelerators). Groups that may not go to their block's go to their fastest accelerator, else to their
// fastest device. Source: m-TOPO (Jeon et al. 2020, Baechi) with times in place of bytes.
Placement PlaceInBlocks(const Observation& observation);

std::unique_ptr<Agent> MakeBlocksAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_HEURISTICS_BLOCKS_H_
