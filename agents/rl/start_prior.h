#ifndef EMPLACE_AGENTS_RL_START_PRIOR_H_
#define EMPLACE_AGENTS_RL_START_PRIOR_H_

#include <cstddef>

namespace emplace::agents {

// How policies begin at a given start: a constant is added to the logits of what the start chose. A sample then differs
// from the start in four of its `num_choices` choices on average (at most half of them), as long as the network's own
// logits are equal. The constant stays while the network learns, and no gradient depends on it. Ours.
//
// Returns the constant for a choice where the start chose one of `chosen` options that are equally good, and `others`
// are left; 0 if either is 0.
double StartLogit(std::size_t num_choices, std::size_t chosen, std::size_t others);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_START_PRIOR_H_
