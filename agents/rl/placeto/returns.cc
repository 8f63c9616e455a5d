#include "agents/rl/placeto/returns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr double kEntropyFloor = 1e-3;

}  // namespace

std::vector<double> EpisodeReturns(std::span<const double> costs, Credit credit, double discount, bool thesis_sign) {
  const std::size_t steps = costs.size() - 1;
  std::vector<double> returns(steps);
  double later = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t t = steps; t-- > 0;) {
    switch (credit) {
      case Credit::kIntermediate:
        later = costs[t] - costs[t + 1] + discount * later;
        returns[t] = later;
        break;
      case Credit::kTerminal:
        returns[t] = -costs[steps];
        break;
      case Credit::kMinRuntime:
        least = std::min(least, costs[t + 1]);
        returns[t] = costs[t] - least;
        break;
    }
  }
  if (thesis_sign) {
    for (double& value : returns) value = -value;
  }
  return returns;
}

void StepBaselines::Add(std::span<const double> returns) {
  returns_.resize(returns.size());
  for (std::size_t t = 0; t < returns.size(); ++t) {
    returns_[t].push_back(returns[t]);
    if (returns_[t].size() > episodes_) returns_[t].pop_front();
  }
}

double StepBaselines::operator[](std::size_t step) const {
  const std::deque<double>& past = returns_[step];
  return std::accumulate(past.begin(), past.end(), 0.0) / static_cast<double>(past.size());
}

void LossGradient(std::span<const double> probabilities, std::size_t action, double advantage, double entropy_weight,
                  std::span<float> gradient) {
  // dH/dp = -log(p + e) - p / (p + e); through the softmax, dH/dl_j = p_j (dH/dp_j - sum of p_i dH/dp_i).
  double mean = 0;
  const auto slope = [](double p) { return -std::log(p + kEntropyFloor) - p / (p + kEntropyFloor); };
  for (const double p : probabilities) mean += p * slope(p);
  for (std::size_t d = 0; d < probabilities.size(); ++d) {
    const double p = probabilities[d];
    const double log_likelihood = (d == action ? 1.0 : 0.0) - p;
    gradient[d] = static_cast<float>(-advantage * log_likelihood - entropy_weight * p * (slope(p) - mean));
  }
}

double StepLoss(std::span<const double> probabilities, std::size_t action, double advantage, double entropy_weight) {
  double entropy = 0;
  for (const double p : probabilities) entropy -= p * std::log(p + kEntropyFloor);
  return -advantage * std::log(probabilities[action]) - entropy_weight * entropy;
}

}  // namespace emplace::agents
