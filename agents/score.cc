#include "agents/score.h"

#include <optional>

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

double CostOf(const Score& score) { return -score.reward + score.overflow_bytes / 1e9; }

}  // namespace emplace::agents
