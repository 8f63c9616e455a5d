#ifndef EMPLACE_AGENTS_NN_DROPOUT_H_
#define EMPLACE_AGENTS_NN_DROPOUT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/base/rng.h"

namespace emplace::agents {

// Fills `kept`: 1 with probability 1 - rate (to 2^-16), else 0.
void DrawKept(Rng& rng, double rate, std::span<std::uint8_t> kept);

// The dropout Rng of one level of one state, determined by both: the same in every pass over that state.
Rng DropoutRng(std::uint64_t state_seed, std::size_t level);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_DROPOUT_H_
