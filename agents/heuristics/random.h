#ifndef EMPLACE_AGENTS_HEURISTICS_RANDOM_H_
#define EMPLACE_AGENTS_HEURISTICS_RANDOM_H_

#include <memory>

#include "agents/agent.h"

// Searches without learning: the controls of learning agents.
namespace emplace::agents {

// Every group on a device drawn uniformly from those where it is allowed (accelerators, and CPUs with option use_cpus).
std::unique_ptr<Agent> MakeRandomAgent(OptionReader& reader, const AgentContext& context);

// The protocol of the thesis with uniform actions and no network: a control that its tables lack. It starts with
// everything on the first accelerator. Each episode starts from the best placement so far. It moves the groups, in
// topological order, one after another to a device drawn uniformly. Every intermediate placement is evaluated. Finished
// after `episodes` episodes: 16, as 4 of the thesis's 20 have argmax actions that its results exclude. Source:
// Mitropolitsky et al. 2020, section 4.1.3, and its published configuration.
std::unique_ptr<Agent> MakeRandomWalkAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_RANDOM_H_
