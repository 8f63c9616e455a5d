#ifndef EMPLACE_AGENTS_HEURISTICS_ONE_SHOT_H_
#define EMPLACE_AGENTS_HEURISTICS_ONE_SHOT_H_

#include <functional>
#include <memory>

#include "agents/agent.h"

namespace emplace::agents {

// A heuristic with one placement: it is proposed once, then the agent is finished. Later calls return the same
// placement. `place` is called with the first proposal's Rng.
std::unique_ptr<Agent> MakeOneShot(std::function<Placement(const Environment& env, Rng& rng)> place);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_ONE_SHOT_H_
