#ifndef EMPLACE_AGENTS_HEURISTICS_M_ETF_H_
#define EMPLACE_AGENTS_HEURISTICS_M_ETF_H_

#include <memory>

#include "agents/agent.h"
#include "agents/environment.h"
#include "sim/base/options.h"
#include "sim/placement.h"

namespace emplace {

struct MEtfOptions {
  bool use_cpus = false;  // CPUs take groups that accelerators could take too
};

// The placement of list_scheduler.h without favourite children, on the accelerators: the rule looks at when a group
// could start and not at how long it takes, and so is blind to a CPU being slow.
//
// Source: m-ETF of Jeon et al. 2020 ("Baechi: fast device placement of machine learning graphs", SoCC).
Placement PlaceByMEtf(const Observation& observation, const MEtfOptions& options);

std::unique_ptr<Agent> MakeMEtfAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_HEURISTICS_M_ETF_H_
