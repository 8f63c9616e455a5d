#ifndef EMPLACE_AGENTS_SCORE_H_
#define EMPLACE_AGENTS_SCORE_H_

#include <iosfwd>

#include "agents/environment.h"
#include "sim/cluster.h"

namespace emplace {

// How good an outcome is, for searches: one that fits beats one that does not; of two that fit the larger reward wins,
// of two that do not the one that is over by fewer bytes.
struct Score {
  bool fits = false;
  double overflow_bytes = 0;  // summed over devices
  double reward = 0;
  bool BetterThan(const Score& other) const;
  bool operator==(const Score&) const = default;
};
Score ScoreOf(const Outcome& outcome, const Cluster& cluster);

void SaveScore(std::ostream& out, const Score& score);
Score LoadScore(std::istream& in);

// What annealing lowers: minus the reward, plus a second for each GB over.
double CostOf(const Score& score);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_SCORE_H_
