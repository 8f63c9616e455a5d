#include "agents/rl/categorical.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "sim/base/check.h"

namespace emplace::agents {

void Softmax(std::span<const float> logits, std::span<const std::uint8_t> allowed, std::span<double> probabilities) {
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t d = 0; d < logits.size(); ++d) {
    if (allowed[d] != 0) largest = std::max(largest, static_cast<double>(logits[d]));
  }
  double sum = 0;
  for (std::size_t d = 0; d < logits.size(); ++d) {
    probabilities[d] = allowed[d] != 0 ? std::exp(static_cast<double>(logits[d]) - largest) : 0;
    sum += probabilities[d];
  }
  for (double& probability : probabilities) probability /= sum;
}

double Entropy(std::span<const double> probabilities) {
  double entropy = 0;
  for (const double p : probabilities) entropy -= p > 0 ? p * std::log(p) : 0;
  return std::max(entropy, 0.0);
}

double RelativeEntropy(std::span<const double> probabilities, std::size_t choices) {
  return choices > 1 ? Entropy(probabilities) / std::log(static_cast<double>(choices)) : 0;
}

std::size_t Draw(std::span<const double> probabilities, Rng& rng) {
  double left = rng.Uniform();
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] <= 0) continue;
    chosen = i;  // if rounding leaves a remainder, the last possible index
    left -= probabilities[i];
    if (left < 0) break;
  }
  return chosen;
}

void DrawNoise(double largest, Rng& rng, std::span<float> row) {
  // Two values at a time. Source: Box and Muller 1958.
  for (std::size_t i = 0; i < row.size(); i += 2) {
    const double radius = std::sqrt(-2 * std::log(1 - rng.Uniform()));
    const double angle = 2 * std::numbers::pi * rng.Uniform();
    row[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < row.size()) row[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  float drawn = 0;
  for (const float value : row) drawn = std::max(drawn, std::abs(value));
  for (float& value : row) value *= drawn > 0 ? static_cast<float>(largest) / drawn : 0;
}

std::size_t Likeliest(std::span<const double> probabilities) {
  return static_cast<std::size_t>(std::max_element(probabilities.begin(), probabilities.end()) - probabilities.begin());
}

std::size_t DrawMostLikely(std::span<const double> probabilities, Rng& rng, std::size_t* tied) {
  const std::size_t first = Likeliest(probabilities);
  const double largest = probabilities[first];
  const auto many = static_cast<std::size_t>(std::count(probabilities.begin(), probabilities.end(), largest));
  if (many == 1) return first;
  ++*tied;
  std::size_t left = rng.Below(many);
  std::size_t chosen = first;
  while (left > 0) left -= probabilities[++chosen] == largest ? 1 : 0;
  return chosen;
}

void CheckFinite(std::span<const float> values, const std::string& place, std::string_view tensor) {
  // The largest exponent is that of infinities and NaN. Without an early exit the compiler makes vectors of the loop.
  constexpr std::uint32_t kExponent = 0x7f800000;
  std::uint32_t any = 0;
  for (const float value : values) any |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
  if (any == 0) return;
  for (const float value : values) {
    if (std::isfinite(value)) continue;
    throw InputError(place,
                     fmt::format("tensor {} holds {} (a finite number: try a smaller learning_rate)", tensor, value));
  }
}

void CheckFinite(const Matrix& rows, const std::string& place, std::string_view tensor) {
  for (std::size_t i = 0; i < rows.rows(); ++i) CheckFinite(rows.values(i), place, tensor);
}

}  // namespace emplace::agents
