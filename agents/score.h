#ifndef EMPLACE_AGENTS_SCORE_H_
#define EMPLACE_AGENTS_SCORE_H_

#include <optional>
#include <tuple>

#include "agents/environment.h"
#include "sim/cluster.h"
#include "sim/placement.h"

namespace emplace::agents {

// Quality of an outcome in a search. One that fits is better than one that does not. If both fit, the larger reward is
// better; if neither does, the smaller overflow.
struct Score {
  bool fits = false;
  double overflow_bytes = 0;  // summed over devices; 1e18 for a placement that cannot run
  double reward = 0;
  bool BetterThan(const Score& other) const;
  bool operator==(const Score&) const = default;

  static void SavedFields(auto& state, auto& self) { state(self.fits, self.overflow_bytes, self.reward); }
};
Score ScoreOf(const Outcome& outcome, const Cluster& cluster);

// The cost in annealing: minus the reward, plus one second for each GB of overflow.
double CostOf(const Score& score);

// The best of the values passed to Keep(); on ties the first.
template <typename T>
class BestSoFar {
 public:
  const std::optional<T>& value() const { return value_; }  // none: Keep() was not called
  const Score& score() const { return score_; }             // score of the value
  // Returns whether the value was kept.
  bool Keep(const T& value, const Score& score) {
    if (value_ && !score.BetterThan(score_)) return false;
    value_ = value;
    score_ = score;
    return true;
  }

  static void SavedFields(auto& state, auto& self) {
    state(self.value_);
    if (self.value_) state(self.score_);
  }
  // The value and its score, for lists of saved fields that have them in other places.
  static auto Parts(auto& self) { return std::tie(self.value_, self.score_); }

 private:
  std::optional<T> value_;
  Score score_;
};

using BestPlacement = BestSoFar<Placement>;

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_SCORE_H_
