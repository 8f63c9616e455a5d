#ifndef EMPLACE_AGENTS_HEURISTICS_LOCAL_SEARCH_H_
#define EMPLACE_AGENTS_HEURISTICS_LOCAL_SEARCH_H_

#include <memory>

#include "agents/agent.h"

namespace emplace::agents {

// Hill climbing: starts with the given start, or everything on one accelerator, and sweeps over the groups in
// topological order. For each group it tries all other devices and keeps the best; on a tie the group stays. Finished
// when a complete sweep changed nothing: a local optimum for moves of one group.
std::unique_ptr<Agent> MakeLocalSearchAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_LOCAL_SEARCH_H_
