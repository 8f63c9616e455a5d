#ifndef EMPLACE_AGENTS_RL_PROPOSALS_H_
#define EMPLACE_AGENTS_RL_PROPOSALS_H_

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <span>

#include "agents/agent.h"
#include "agents/score.h"

namespace emplace {

// What agents share that propose whole placements, several at a time.

// How many to propose next. With `final_evaluation` the budget's last evaluation is of the likeliest placement, alone.
struct ProposalSize {
  std::size_t count = 0;
  bool argmax = false;
};
ProposalSize NextProposal(std::size_t budget, std::size_t spent, std::size_t wanted, bool final_evaluation);

// The best placement so far.
class BestSoFar {
 public:
  const std::optional<Placement>& placement() const { return placement_; }
  void Keep(const Placement& placement, const Score& score);
  void Save(std::ostream& out) const;
  void Load(std::istream& in);

 private:
  std::optional<Placement> placement_;
  Score score_;
};

// Keeps the best of a batch, and says of it what an EpisodeRecord does of its step times; the rest of the record, which
// says whether it was drawn, is left as it is.
void ScoreBatch(const Environment& env, std::span<const Placement> batch, std::span<const Outcome> outcomes,
                BestSoFar* best, EpisodeRecord* record);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_RL_PROPOSALS_H_
