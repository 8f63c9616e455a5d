#ifndef EMPLACE_AGENTS_HEURISTICS_RANDOM_H_
#define EMPLACE_AGENTS_HEURISTICS_RANDOM_H_

#include <memory>

#include "agents/agent.h"

namespace emplace {

// Every group on a device drawn uniformly from those where it is allowed (accelerators, and CPUs with option use_cpus).
std::unique_ptr<Agent> MakeRandomAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_HEURISTICS_RANDOM_H_
