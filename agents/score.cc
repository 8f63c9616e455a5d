#include "agents/score.h"

#include <istream>
#include <optional>
#include <ostream>

#include "agents/saved_text.h"

namespace emplace::agents {

namespace {

constexpr double kCannotRunBytes = 1e18;  // more than any overflow

}  // namespace

bool Score::BetterThan(const Score& other) const {
  if (fits != other.fits) return fits;
  if (!fits && overflow_bytes != other.overflow_bytes) return overflow_bytes < other.overflow_bytes;
  return reward > other.reward;
}

Score ScoreOf(const Outcome& outcome, const Cluster& cluster) {
  Score score{.fits = outcome.result.fits_memory, .overflow_bytes = 0, .reward = outcome.reward};
  if (score.fits) return score;  // an evaluator may have no limit where the cluster has one
  if (!outcome.result.runs) {
    score.overflow_bytes = kCannotRunBytes;
    return score;
  }
  for (std::size_t d = 0; d < outcome.result.peak_memory.size(); ++d) {
    const std::optional<Bytes>& memory = cluster.devices()[d].memory;
    if (memory && outcome.result.peak_memory[d] > *memory) {
      score.overflow_bytes += static_cast<double>((outcome.result.peak_memory[d] - *memory).count);
    }
  }
  return score;
}

void SaveScore(std::ostream& out, const Score& score) {
  out << (score.fits ? 1 : 0) << ' ';
  SaveDouble(out, score.overflow_bytes);
  SaveDouble(out, score.reward);
}

Score LoadScore(std::istream& in) {
  Score score;
  score.fits = LoadNumber(in) != 0;
  score.overflow_bytes = LoadDouble(in);
  score.reward = LoadDouble(in);
  return score;
}

void SaveBest(std::ostream& out, const BestPlacement& best) {
  out << (best.value() ? 1 : 0) << ' ';
  if (!best.value()) return;
  SavePlacement(out, *best.value());
  SaveScore(out, best.score());
}

BestPlacement LoadBest(std::istream& in) {
  BestPlacement best;
  if (LoadNumber(in) == 0) return best;
  const Placement placement = LoadPlacement(in);
  best.Keep(placement, LoadScore(in));
  return best;
}

double CostOf(const Score& score) { return -score.reward + score.overflow_bytes / 1e9; }

}  // namespace emplace::agents
