#ifndef EMPLACE_AGENTS_HEURISTICS_CRITICAL_CHAIN_H_
#define EMPLACE_AGENTS_HEURISTICS_CRITICAL_CHAIN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agents/environment.h"
#include "sim/placement.h"

namespace emplace::agents {

// The cause of an op's wait before its start.
enum class Wait : std::uint8_t {
  kNothing,   // it is the first of the chain
  kQueue,     // its inputs were there, and its device was busy with `before`
  kInput,     // `before`, an op on the same device of which it needs a result
  kTransfer,  // a tensor of `before`, an op on another device
};

struct ChainLink {
  OpId op{};
  Wait wait = Wait::kNothing;
  OpId before{};  // the next op of the chain; the op itself for kNothing
  bool operator==(const ChainLink&) const = default;

  static void SavedFields(auto& state, auto& self) {
    state(self.op, self.wait, self.before);
    state.Check(self.wait <= Wait::kTransfer, "what an op waited for");
  }
};

// The ops that decide the step time, from the op that ends last back to one that waited for nothing: each link's
// `before` is the op of the next link. Ops here are those of the op graph. `start_micros` is [num_ops], of a simulation
// of `placement`. The arrival of a tensor is taken to be the producer's end and the time of the link, without other
// transfers in its way; an op that started later than all its inputs' arrivals and found its device idle is a
// kTransfer. ExplainStep (sim/step_explanation.h) follows the same rule (sim/last_wait.h) through what was recorded of
// every transfer, queue and issue lane; a search records only start times, so that this chain estimates the rest. Takes
// time linear in the ops and tensors, unless many ops start at almost one time.
std::vector<ChainLink> CriticalChain(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                     const Placement& placement, std::span<const double> start_micros);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_CRITICAL_CHAIN_H_
