#include "agents/rl/proposals.h"

#include <algorithm>
#include <limits>

#include "agents/score.h"

namespace emplace::agents {

ProposalSize NextProposal(std::size_t budget, std::size_t spent, std::size_t wanted, bool final_evaluation) {
  const std::size_t left = budget > spent ? budget - spent : 0;
  if (!final_evaluation || left == 0) return {.count = wanted, .argmax = false};
  if (left == 1) return spent > 0 ? ProposalSize{.count = 1, .argmax = true} : ProposalSize{.count = wanted};
  return {.count = std::min(wanted, left - 1), .argmax = false};
}

void ScoreBatch(const Environment& env, std::span<const Placement> batch, std::span<const Outcome> outcomes,
                BestPlacement* best, EpisodeRecord* record) {
  record->best_micros = std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    best->Keep(batch[i], ScoreOf(outcomes[i], env.observation().cluster));
    record->final_micros = outcomes[i].result.step_time_micros;
    record->best_micros = std::min(record->best_micros, record->final_micros);
    sum += record->final_micros;
  }
  if (!record->argmax && !batch.empty()) record->mean_micros = sum / static_cast<double>(batch.size());
}

}  // namespace emplace::agents
