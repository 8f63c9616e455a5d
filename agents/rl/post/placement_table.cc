#include "agents/rl/post/placement_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "agents/rl/categorical.h"
#include "agents/rl/start_prior.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr double kLeastProbability = 1e-6;
constexpr double kLeastLogit = 1e-3;

}  // namespace

PlacementTable::PlacementTable(std::vector<std::vector<DeviceId>> devices) : devices_(std::move(devices)) {
  Resize();
  Normalize();
}

void PlacementTable::Resize() {
  offsets_ = {0};
  for (const std::vector<DeviceId>& of_group : devices_) offsets_.push_back(offsets_.back() + of_group.size());
  logits_.resize(offsets_.back());
  probabilities_.resize(offsets_.back());
}

void PlacementTable::Expect(const Placement& placement) {
  for (std::size_t m = 0; m < num_groups(); ++m) {
    const auto at = std::ranges::find(devices_[m], placement[MakeId<OpId>(m)]);
    EMPLACE_CHECK(at != devices_[m].end());
    const auto d = static_cast<std::size_t>(at - devices_[m].begin());
    // Without a draw between equals, even where half of few groups are to change.
    logits_[offsets_[m] + d] = std::max(StartLogit(num_groups(), 1, devices_[m].size() - 1), kLeastLogit);
  }
  Normalize();
}

void PlacementTable::Normalize() {
  for (std::size_t m = 0; m < num_groups(); ++m) {
    const double largest = *std::max_element(logits_.begin() + static_cast<std::ptrdiff_t>(offsets_[m]),
                                             logits_.begin() + static_cast<std::ptrdiff_t>(offsets_[m + 1]));
    double sum = 0;
    for (std::size_t i = offsets_[m]; i < offsets_[m + 1]; ++i)
      sum += probabilities_[i] = std::exp(logits_[i] - largest);
    for (std::size_t i = offsets_[m]; i < offsets_[m + 1]; ++i) {
      probabilities_[i] /= sum;
      if (!std::isfinite(probabilities_[i])) {
        throw InputError("post", fmt::format("tensor logits of group {} holds {} (a finite number: try a smaller "
                                             "learning_rate)",
                                             m, logits_[i]));
      }
    }
  }
}

Choices PlacementTable::Sample(Rng& rng) const {
  Choices choices(num_groups());
  for (std::size_t m = 0; m < num_groups(); ++m) choices[m] = static_cast<std::uint16_t>(Draw(probabilities(m), rng));
  return choices;
}

Choices PlacementTable::Likeliest() const {
  Choices choices(num_groups());
  for (std::size_t m = 0; m < num_groups(); ++m)
    choices[m] = static_cast<std::uint16_t>(emplace::agents::Likeliest(probabilities(m)));
  return choices;
}

Placement PlacementTable::ToPlacement(const Choices& choices) const {
  Placement placement(num_groups());
  for (std::size_t m = 0; m < num_groups(); ++m) placement[MakeId<OpId>(m)] = devices_[m][choices[m]];
  return placement;
}

double PlacementTable::MeanEntropy() const {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t m = 0; m < num_groups(); ++m) {
    if (devices_[m].size() < 2) continue;
    sum += RelativeEntropy(probabilities(m), devices_[m].size());
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

PlacementTable::Climbed PlacementTable::Climb(std::span<const Choices> samples, std::span<const double> advantages,
                                              double rate, std::size_t steps, double beta) {
  const std::vector<double> before = probabilities_;
  const auto count = static_cast<double>(samples.size());
  std::vector<double> gained(logits_.size());  // 1/K sum over samples of A f / f', at the device chosen
  double squares = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    squares = 0;
    std::fill(gained.begin(), gained.end(), 0.0);
    for (std::size_t n = 0; n < samples.size(); ++n) {
      for (std::size_t m = 0; m < num_groups(); ++m) {
        const std::size_t i = offsets_[m] + samples[n][m];
        gained[i] += advantages[n] / count * (probabilities_[i] / before[i]);
      }
    }
    for (std::size_t m = 0; m < num_groups(); ++m) {
      double sum = 0;
      for (std::size_t i = offsets_[m]; i < offsets_[m + 1]; ++i) sum += gained[i];
      for (std::size_t i = offsets_[m]; i < offsets_[m + 1]; ++i) {
        const double slope = gained[i] - sum * probabilities_[i] - beta * (probabilities_[i] - before[i]);
        squares += slope * slope;
        logits_[i] += rate * slope;
      }
    }
    Normalize();
  }
  double divergence = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] > 0) divergence += before[i] * (std::log(before[i]) - std::log(std::max(probabilities_[i], 1e-300)));
  }
  return {.divergence = num_groups() > 0 ? divergence / static_cast<double>(num_groups()) : 0,
          .gradient_norm = std::sqrt(squares)};
}

void PlacementTable::CrossEntropy(std::span<const Choices> elite, double epsilon) {
  const auto count = static_cast<double>(elite.size());
  for (std::size_t m = 0; m < num_groups(); ++m) {
    const std::size_t num_devices = devices_[m].size();
    std::vector<double> share(num_devices);
    for (const Choices& choices : elite) share[choices[m]] += 1 / count;
    for (std::size_t d = 0; d < num_devices; ++d) {
      const double mixed = (1 - epsilon) * share[d] + epsilon / static_cast<double>(num_devices);
      logits_[offsets_[m] + d] = std::log(std::max(mixed, kLeastProbability));
    }
  }
  Normalize();
}

}  // namespace emplace::agents
