#ifndef EMPLACE_AGENTS_RL_PROPOSALS_H_
#define EMPLACE_AGENTS_RL_PROPOSALS_H_

#include <cstddef>
#include <span>

#include "agents/agent.h"
#include "agents/score.h"

namespace emplace::agents {

// Number of placements to propose next, for agents that propose several whole placements at a time. With
// `final_evaluation` the budget's last evaluation is of the most likely placement, alone.
struct ProposalSize {
  std::size_t count = 0;
  bool argmax = false;
};
ProposalSize NextProposal(std::size_t budget, std::size_t spent, std::size_t wanted, bool final_evaluation);

// Keeps the best of a batch, and fills in the step times of its EpisodeRecord. Other fields are unchanged; its `argmax`
// must tell whether the batch is an argmax placement instead of samples.
void ScoreBatch(const Environment& env, std::span<const Placement> batch, std::span<const Outcome> outcomes,
                BestPlacement* best, EpisodeRecord* record);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PROPOSALS_H_
