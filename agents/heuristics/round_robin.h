#ifndef EMPLACE_AGENTS_HEURISTICS_ROUND_ROBIN_H_
#define EMPLACE_AGENTS_HEURISTICS_ROUND_ROBIN_H_

#include <memory>

#include "agents/agent.h"

namespace emplace {

// The i-th group in topological order on accelerator i modulo their number; groups that may not go there go to their
// fastest accelerator, else to their fastest device.
std::unique_ptr<Agent> MakeRoundRobinAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_HEURISTICS_ROUND_ROBIN_H_
