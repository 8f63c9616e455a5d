#include "agents/nn/tanh_scores.h"

#include "agents/nn/vector_lanes.h"

namespace emplace {
namespace {

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
