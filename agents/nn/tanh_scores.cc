#include "agents/nn/tanh_scores.h"

#include "agents/nn/vector_lanes.h"

namespace emplace {
namespace {

using Ints = std::int32_t __attribute__((vector_size(kLane * sizeof(std::int32_t)), aligned(alignof(std::int32_t))));

EMPLACE_INLINE Lane Splat(float value) { return Lane{} + value; }

// (e - 1) / (e + 1) for e = exp(2x), which is 2^n times the Taylor series of 2^f around 0 to the sixth power, f within
// +-1/2: 2e-8 off at most. Beyond +-9 a float's tanh is 1.
EMPLACE_INLINE Lane Tanh(Lane x) {
  x = x > 9.0F ? Splat(9.0F) : x;
  x = x < -9.0F ? Splat(-9.0F) : x;
  constexpr float kLog2 = 0.693147180559945309F;
  const Lane power = x * (2.0F / kLog2);
  // Adding 1.5 * 2^23 leaves no room for digits after the point.
  constexpr float kRound = 12582912.0F;
  const Lane shifted = power + kRound;
  const Lane whole = shifted - kRound;
  const Lane t = (power - whole) * kLog2;
  Lane e = Splat(1.0F / 720);
  e = e * t + 1.0F / 120;
  e = e * t + 1.0F / 24;
  e = e * t + 1.0F / 6;
  e = e * t + 0.5F;
  e = e * t + 1.0F;
  e = e * t + 1.0F;
  const Ints exponent = (__builtin_convertvector(whole, Ints) + 127) << 23;
  Lane scale;
  __builtin_memcpy(&scale, &exponent, sizeof scale);
  e = e * scale;
  return (e - 1.0F) / (e + 1.0F);
}

EMPLACE_INLINE float Sum(const Lane& lane) {
  float sum = 0;
  for (std::size_t i = 0; i < kLane; ++i) sum += lane[i];
  return sum;
}

}  // namespace

EMPLACE_CLONES void TanhScores(const float* queries, std::size_t rows, const float* keys, std::size_t num_keys,
                               const float* v, std::size_t width, float* scores) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < num_keys; ++j) {
      Lane sum{};
      for (std::size_t i = 0; i < width; i += kLane) {
        sum += Load(v + i) * Tanh(Load(queries + r * width + i) + Load(keys + j * width + i));
      }
      scores[r * num_keys + j] = Sum(sum);
    }
  }
}

EMPLACE_CLONES void TanhScoresBackward(const float* queries, std::size_t rows, const float* keys, std::size_t num_keys,
                                       const float* v, std::size_t width, const float* d_scores, float* d_queries,
                                       float* d_keys, float* d_v) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < width; i += kLane) {
      const Lane query = Load(queries + r * width + i);
      const Lane weight = Load(v + i);
      Lane d_query{};
      Lane d_weight{};
      for (std::size_t j = 0; j < num_keys; ++j) {
        const float change = d_scores[r * num_keys + j];
        const Lane value = Tanh(query + Load(keys + j * width + i));
        const Lane inner = change * weight * (1.0F - value * value);
        d_weight += change * value;
        d_query += inner;
        Store(Load(d_keys + j * width + i) + inner, d_keys + j * width + i);
      }
      Store(Load(d_queries + r * width + i) + d_query, d_queries + r * width + i);
      Store(Load(d_v + i) + d_weight, d_v + i);
    }
  }
}

}  // namespace emplace
