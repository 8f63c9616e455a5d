#ifndef EMPLACE_AGENTS_HEURISTICS_RANDOM_H_
#define EMPLACE_AGENTS_HEURISTICS_RANDOM_H_

#include <memory>

#include "agents/agent.h"

// Searches without any learning: the controls of learning agents.
namespace emplace::agents {

// Every group on a device drawn uniformly from those where it is allowed (accelerators, and CPUs with option use_cpus).
std::unique_ptr<Agent> MakeRandomAgent(OptionReader& reader, const AgentContext& context);

// The protocol of the thesis with uniform actions and no network: the control that its tables lack. It starts with
// everything on the first accelerator; each episode starts from the best placement so far and moves the groups, in
// topological order, one after another to a device drawn uniformly; every placement on the way is evaluated. Finished
// after `episodes` episodes: 16, as the thesis's 20 hold 4 of argmax actions that its results leave out. Source:
// Mitropolitsky et al. 2020, section 4.1.3, and its published configuration.
std::unique_ptr<Agent> MakeRandomWalkAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_RANDOM_H_
