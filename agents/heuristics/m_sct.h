#ifndef EMPLACE_AGENTS_HEURISTICS_M_SCT_H_
#define EMPLACE_AGENTS_HEURISTICS_M_SCT_H_

#include <cstddef>
#include <memory>

#include "agents/agent.h"
#include "agents/environment.h"
#include "sim/base/options.h"
#include "sim/placement.h"

namespace emplace {

struct MSctOptions {
  double threshold = 0.1;  // x below it makes a favourite child; the published program's default
  bool use_cpus = false;   // as in MEtfOptions
};

// Above it the linear program takes too long (it grows faster than the graph): 1 s for the 6,189 ops of nmt, 4 s for
// 15,508, 33 s for 46,944. For larger graphs the registry asks for merge_and_colocate.
inline constexpr std::size_t kMaxGroupsOfMSct = 20000;

// The placement of list_scheduler.h with the favourite children of favourite_children.h. Throws InputError on more than
// kMaxGroupsOfMSct groups, and if the linear program fails.
//
// Source: m-SCT of Jeon et al. 2020 ("Baechi: fast device placement of machine learning graphs", SoCC).
Placement PlaceByMSct(const Observation& observation, const MSctOptions& options);

std::unique_ptr<Agent> MakeMSctAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_HEURISTICS_M_SCT_H_
