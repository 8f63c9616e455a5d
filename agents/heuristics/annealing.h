#ifndef EMPLACE_AGENTS_HEURISTICS_ANNEALING_H_
#define EMPLACE_AGENTS_HEURISTICS_ANNEALING_H_

#include <memory>

#include "agents/agent.h"

namespace emplace::agents {

// Simulated annealing. A move puts one random group on another device or, one time in ten, a random connected chunk of
// up to 10 groups on one device. It is kept if it does not raise the cost, else with probability exp(-rise / T). Up to
// 100 probes around the start (a tenth of the budget at most) find the T at which 80 % of the rises among them would be
// kept; the search then starts from the best of them, and T falls geometrically to a thousandth over the rest of the
// budget; every fifth of it the search goes on from the best. The cost is minus the reward; of a placement that does
// not fit, plus a second for each GB over. Where the start does not fit, all this begins anew at the first that does:
// rises in GB say nothing about step times. Source: Kirkpatrick, Gelatt, Vecchi 1983; the schedule is ours.
std::unique_ptr<Agent> MakeAnnealingAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_ANNEALING_H_
