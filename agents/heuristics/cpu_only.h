#ifndef EMPLACE_AGENTS_HEURISTICS_CPU_ONLY_H_
#define EMPLACE_AGENTS_HEURISTICS_CPU_ONLY_H_

#include <memory>

#include "agents/agent.h"

namespace emplace {

// Everything on one CPU: the one where the sum of all times is least; groups that may not go there go to their fastest
// device. Propose throws InputError where the cluster has no CPU. Source: Mirhoseini et al. 2018 (Hierarchical
// Planner), section 3.1, "CPU Only".
std::unique_ptr<Agent> MakeCpuOnlyAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_HEURISTICS_CPU_ONLY_H_
