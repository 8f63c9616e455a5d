#ifndef EMPLACE_AGENTS_HEURISTICS_MULTILEVEL_SEARCH_H_
#define EMPLACE_AGENTS_HEURISTICS_MULTILEVEL_SEARCH_H_

#include <cstddef>
#include <memory>

#include "agents/agent.h"

namespace emplace::agents {

// Placements that a walker evaluates at a time.
inline constexpr std::size_t kMultilevelBatch = 4;

// Searches at several resolutions (search_levels.h) for placements of groups, best with one group for each op:
//   1. Starts. The given start, if there is one. Every one-shot agent places the groups, and the list schedulers and
//      partitioners the units of each coarser level. Each start of groups is also brought to each coarser level: a unit
//      goes where most of its time is. Each distinct placement is one evaluation. m_sct, whose linear program is slow,
//      leaves out levels of more than 1,000 units. Where an accelerator has more memory than the fastest one,
//      everything on it is a start too. Where the objective is the largest load of a device, the optimal contiguous
//      split and that of pipedream are starts too, before the others.
//   2. Race, with 0.3 of the budget, if that gives every round 16 evaluations. One walker for each level begins at the
//      best start of its level or of a coarser one. Where there are three levels or more, another
//      of the second finest begins at the best start of all.
//      In each round every walker gets the same number of evaluations; the walker with the worst best placement is out.
//      Without a race, the walker of the finest level has the whole budget.
//   3. Refinement. The last walker stays on its level for half of what is left, then goes to the next finer level, and
//      so on. The levels below share the other half equally.
// A walker evaluates four changed copies of its placement at a time. It goes on with the best of them unless that is
// worse by more than a threshold, which falls geometrically from 0.3 % to 0.01 % of the reward over the budget. If two
// or more are better than the placement itself, all these changes together are among the next four. After an eighth of
// the budget without a new best it returns to its best. After four evaluations a unit (at least 50) without one it also
// returns, and goes on with the best of four larger changes of its best. A change is one move, and with 0.2 (larger
// ones: 0.75) another, and so on. A move:
//   - starts from an op of the critical chain (critical_chain.h; of the largest load: load_chain.h), or with 0.15 from
//     any group. Where the chain waited
//     for a transfer, its two ends are brought together, either way. Else the device is that of a neighbour, or with
//     0.3 a random one: an accelerator, or with 0.1 of these any device.
//   - moves, with 0.3, those groups of a coarser level's unit that are on the same device. Else it moves a connected
//     piece of units of that device: breadth first over producers, readers or both, of 2^k units, k geometric with
//     0.5.
//   - where it brings a device more bytes than that has room for: with 0.9, groups that were there go to the device
//     that has lost most. Of 20 groups drawn, each time the smallest that makes enough room. Bytes here are the
//     persistent and output bytes of groups, times the share of all of them that is alive at the peaks.
//   - while the placement does not fit: moves groups that follow each other in topological order from the device that
//     is over its memory by most to the one with most room (three changes of four). Their persistent and output bytes
//     are 0.25 to 2 times the overflow.
// The answer does not depend on the number of threads. Sources: multilevel search, Karypis and Kumar 1998, "A fast and
// high quality multilevel scheme for partitioning irregular graphs"; threshold accepting, Dueck and Scheuer 1990,
// "Threshold accepting"; racing, Maron and Moore 1994, "Hoeffding races"; the moves and all constants are ours.
std::unique_ptr<Agent> MakeMultilevelSearchAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_MULTILEVEL_SEARCH_H_
