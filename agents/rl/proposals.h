#ifndef EMPLACE_AGENTS_RL_PROPOSALS_H_
#define EMPLACE_AGENTS_RL_PROPOSALS_H_

#include <cstddef>
#include <span>

#include "agents/agent.h"
#include "agents/score.h"

namespace emplace::agents {

// For agents that propose whole placements, several at a time: how many to propose next. With `final_evaluation` the
// budget's last evaluation is of the likeliest placement, alone.
struct ProposalSize {
  std::size_t count = 0;
  bool argmax = false;
};
ProposalSize NextProposal(std::size_t budget, std::size_t spent, std::size_t wanted, bool final_evaluation);

// Keeps the best of a batch, and fills in the step times of its EpisodeRecord. The rest of the record is left as it is;
// its `argmax` says whether the batch was drawn.
void ScoreBatch(const Environment& env, std::span<const Placement> batch, std::span<const Outcome> outcomes,
                BestPlacement* best, EpisodeRecord* record);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PROPOSALS_H_
