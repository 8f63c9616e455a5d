#ifndef EMPLACE_AGENTS_BOUNDS_ENERGETIC_BOUND_H_
#define EMPLACE_AGENTS_BOUNDS_ENERGETIC_BOUND_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agents/bounds/path_bound.h"
#include "agents/bounds/relaxation.h"

namespace emplace::agents {

// The value of one nanosecond on a device of each type, [num_types], at least 0. Work is worth what it takes on the
// type where that is cheapest, so the devices must have at least that much to give: sum over ops of the least
// price * (time + gap) <= sum over devices of price * (step + gap), for any prices (the dual of the linear program of
// work on unrelated machines).
using Prices = std::vector<double>;

// Prices that make the bound on all work large: some steps of a subgradient method from equal prices. The linear
// program (work_program.h) has the best ones.
Prices FindPrices(const Relaxation& problem);

// Work: what all ops take at the given prices. In ns; at most the step time of any placement.
std::int64_t WorkBound(const Relaxation& problem, const Prices& prices);

// Energetic reasoning: at least a part of an op runs between a time `start` and `end` before the last op ends, whenever
// it runs within its window. All such parts must fit on the devices between the two. Tries `grid` values of each, then
// closer ones around the best. `known` is a bound that holds. Derivation: docs/model.md, B7. Source: Fernandez and
// Bussell 1973, theorem 2, with the windows of path_bound.h and with prices for devices that differ.
std::int64_t EnergeticBound(const Relaxation& problem, const Windows& windows, const Prices& prices, std::size_t grid,
                            std::int64_t known);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_BOUNDS_ENERGETIC_BOUND_H_
