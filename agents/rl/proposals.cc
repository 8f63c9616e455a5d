#include "agents/rl/proposals.h"

#include <algorithm>
#include <istream>
#include <limits>
#include <ostream>

#include "agents/saved_text.h"
#include "agents/score.h"

namespace emplace {

ProposalSize NextProposal(std::size_t budget, std::size_t spent, std::size_t wanted, bool final_evaluation) {
  const std::size_t left = budget > spent ? budget - spent : 0;
  if (!final_evaluation || left == 0) return {.count = wanted, .argmax = false};
  if (left == 1) return spent > 0 ? ProposalSize{.count = 1, .argmax = true} : ProposalSize{.count = wanted};
  return {.count = std::min(wanted, left - 1), .argmax = false};
}

void BestSoFar::Keep(const Placement& placement, const Score& score) {
  if (placement_ && !score.BetterThan(score_)) return;
  placement_ = placement;
  score_ = score;
}

void BestSoFar::Save(std::ostream& out) const {
  out << (placement_ ? 1 : 0) << ' ';
  if (!placement_) return;
  SavePlacement(out, *placement_);
  SaveScore(out, score_);
}

void BestSoFar::Load(std::istream& in) {
  if (LoadNumber(in) == 0) return;
  placement_ = LoadPlacement(in);
  score_ = LoadScore(in);
}

void ScoreBatch(const Environment& env, std::span<const Placement> batch, std::span<const Outcome> outcomes,
                BestSoFar* best, EpisodeRecord* record) {
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

}  // namespace emplace
