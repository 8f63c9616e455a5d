#ifndef EMPLACE_AGENTS_HEURISTICS_ANNEALING_H_
#define EMPLACE_AGENTS_HEURISTICS_ANNEALING_H_

#include <memory>

#include "agents/agent.h"

namespace emplace::agents {

// Simulated annealing from the given start, or everything on one accelerator. A move puts one random group on another
// device. One move in ten puts a random connected chunk of up to 10 groups on one device. It is accepted if it does not
// raise the cost, else with probability exp(-rise / T). The search begins with up to 100 probes around the start, at
// most a tenth of the budget. The first T is the one at which 80 % of the probes' rises would be accepted. The search
// then continues from the best probe. T falls geometrically to a thousandth over the rest of the budget. After every
// fifth of the budget the search returns to the best placement. The cost is minus the reward, plus one second per GB
// over capacity if the placement does not fit. If the start does not fit, all this restarts at the first placement that
// fits, as rises in GB are unrelated to step times. Source: Kirkpatrick, Gelatt, Vecchi 1983; the schedule is ours.
std::unique_ptr<Agent> MakeAnnealingAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_ANNEALING_H_
