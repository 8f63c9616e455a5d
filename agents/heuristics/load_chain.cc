#include "agents/heuristics/load_chain.h"

#include <algorithm>
#include <cstddef>

#include "sim/base/check.h"

namespace emplace::agents {

std::vector<ChainLink> LoadChain(const StageCosts& costs, const Placement& placement) {
  const std::vector<StageLoad> loads = StageLoads(costs, placement);
  const auto busiest = std::max_element(loads.begin(), loads.end(),
                                        [](const StageLoad& a, const StageLoad& b) { return a.micros() < b.micros(); });
  const auto device = MakeId<DeviceId>(static_cast<std::size_t>(busiest - loads.begin()));
  std::size_t of_class = 0;
  for (std::size_t c = 0; c < costs.classes.size(); ++c) {
    if (std::ranges::find(costs.classes[c].devices, device) != costs.classes[c].devices.end()) of_class = c;
  }
  std::vector<ChainLink> chain;
  for (std::size_t i = 0; i < costs.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    if (placement[op] != device || costs.classes[of_class].op_micros[i] <= 0) continue;
    chain.push_back({.op = op, .wait = Wait::kNothing, .before = op});
  }
  for (const Crossing& crossing : costs.crossings) {
    if (crossing.micros[of_class] <= 0) continue;
    const bool goes_out = placement[crossing.producer] == device;
    for (const OpId consumer : crossing.consumers) {
      if ((placement[consumer] == device) == goes_out) continue;
      chain.push_back({.op = consumer, .wait = Wait::kTransfer, .before = crossing.producer});
    }
  }
  return chain;
}

}  // namespace emplace::agents
