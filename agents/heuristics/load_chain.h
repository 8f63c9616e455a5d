#ifndef EMPLACE_AGENTS_HEURISTICS_LOAD_CHAIN_H_
#define EMPLACE_AGENTS_HEURISTICS_LOAD_CHAIN_H_

#include <vector>

#include "agents/heuristics/critical_chain.h"
#include "agents/throughput/stage_costs.h"
#include "sim/placement.h"

namespace emplace::agents {

// What the largest load of a device is made of, as links of a chain without an order: what CriticalChain is to the time
// of a step. If several devices have the largest load, the first counts. Links are for
//   - each of its ops that takes time: kNothing,
//   - each value that it sends, and each reader elsewhere: kTransfer,
//   - each value that it receives, and each reader here: kTransfer.
std::vector<ChainLink> LoadChain(const StageCosts& costs, const Placement& placement);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_LOAD_CHAIN_H_
