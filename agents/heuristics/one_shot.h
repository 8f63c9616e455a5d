#ifndef EMPLACE_AGENTS_HEURISTICS_ONE_SHOT_H_
#define EMPLACE_AGENTS_HEURISTICS_ONE_SHOT_H_

#include <functional>
#include <memory>

#include "agents/agent.h"

namespace emplace::agents {

// A heuristic with one placement: it is proposed once, then the agent is finished. Later calls return the same
// placement. `place` is called with the first proposal's Rng.
// `check_groups`: Agent::CheckGroups; null if the heuristic takes any number.
std::unique_ptr<Agent> MakeOneShot(std::function<Placement(const Environment& env, Rng& rng)> place,
                                   std::function<void(std::size_t num_groups)> check_groups = nullptr);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_ONE_SHOT_H_
