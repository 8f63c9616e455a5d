#ifndef EMPLACE_AGENTS_RL_CATEGORICAL_H_
#define EMPLACE_AGENTS_RL_CATEGORICAL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "agents/nn/kernel.h"
#include "sim/base/rng.h"

namespace emplace::agents {

// The softmax of logits, 0 where not allowed. [num_devices] each. Requires: at least one is allowed.
void Softmax(std::span<const float> logits, std::span<const std::uint8_t> allowed, std::span<double> probabilities);

// The entropy in nats.
double Entropy(std::span<const double> probabilities);

// Entropy divided by the maximum for `choices`: H / log(choices); 0 if there is only one choice.
double RelativeEntropy(std::span<const double> probabilities, std::size_t choices);

// An index drawn with these probabilities, which sum to 1 up to rounding. Never an index with probability 0.
std::size_t Draw(std::span<const double> probabilities, Rng& rng);

// Normally distributed noise on logits, scaled so that the largest magnitude in `row` is `largest`.
void DrawNoise(double largest, Rng& rng, std::span<float> row);

// The smallest index of the largest probability.
std::size_t Likeliest(std::span<const double> probabilities);

// One of the indices of the largest probability, at random if there are several; then also adds 1 to `tied`.
std::size_t DrawMostLikely(std::span<const double> probabilities, Rng& rng, std::size_t* tied);

// Throws InputError at `place` that names the tensor if a number is not finite, so that a diverged policy is reported.
void CheckFinite(std::span<const float> values, const std::string& place, std::string_view tensor);
void CheckFinite(const Matrix& rows, const std::string& place, std::string_view tensor);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_CATEGORICAL_H_
