#ifndef EMPLACE_AGENTS_HEURISTICS_SINGLE_DEVICE_H_
#define EMPLACE_AGENTS_HEURISTICS_SINGLE_DEVICE_H_

#include <memory>

#include "agents/agent.h"

namespace emplace {

// Everything on one accelerator: the one where the sum of all times is least, or the one named by option `device`.
// Groups that may not go there go to their fastest device. Source: Mirhoseini et al. 2018 (Hierarchical Planner),
// section 3.1, "GPU Only".
std::unique_ptr<Agent> MakeSingleDeviceAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_HEURISTICS_SINGLE_DEVICE_H_
