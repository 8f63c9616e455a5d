#include "agents/nn/tanh_scores.h"

#include "sim/base/vector_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "agents/nn/tanh_scores.cc"  // this file is compiled once for each instruction set
#include <hwy/foreach_target.h>

#include "agents/nn/float_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace emplace::agents::HWY_NAMESPACE {

void TanhScoresOn(const float* queries, std::size_t rows, const float* keys, std::size_t num_keys, const float* v,
                  std::size_t width, float* scores) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < num_keys; ++j) {
      Floats sums[kVectors];
      for (Floats& sum : sums) sum = Zero();
      for (std::size_t i = 0; i < width; i += kLane) {
        for (std::size_t at = i, part = 0; part < kVectors; ++part, at += kWidth) {
          const Floats value = Tanh(Add(Load(queries + r * width + at), Load(keys + j * width + at)));
          sums[part] = MulAdd(Load(v + at), value, sums[part]);
        }
      }
      scores[r * num_keys + j] = SumInOrder(sums);
    }
  }
}

void TanhScoresBackwardOn(const float* queries, std::size_t rows, const float* keys, std::size_t num_keys,
                          const float* v, std::size_t width, const float* d_scores, float* d_queries, float* d_keys,
                          float* d_v) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < width; i += kWidth) {
      const Floats query = Load(queries + r * width + i);
      const Floats weight = Load(v + i);
      Floats d_query = Zero();
      Floats d_weight = Zero();
      for (std::size_t j = 0; j < num_keys; ++j) {
        const Floats change = Splat(d_scores[r * num_keys + j]);
        const Floats value = Tanh(Add(query, Load(keys + j * width + i)));
        const Floats of_value = Mul(change, weight);
        const Floats slope = NegMulAdd(value, value, Splat(1.0F));
        d_weight = MulAdd(change, value, d_weight);
        d_query = MulAdd(of_value, slope, d_query);
        Store(MulAdd(of_value, slope, Load(d_keys + j * width + i)), d_keys + j * width + i);
      }
      Store(Add(Load(d_queries + r * width + i), d_query), d_queries + r * width + i);
      Store(Add(Load(d_v + i), d_weight), d_v + i);
    }
  }
}

}  // namespace emplace::agents::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace emplace::agents {

HWY_EXPORT(TanhScoresOn);
HWY_EXPORT(TanhScoresBackwardOn);

void TanhScores(const float* queries, std::size_t rows, const float* keys, std::size_t num_keys, const float* v,
                std::size_t width, float* scores) {
  HWY_DYNAMIC_DISPATCH(TanhScoresOn)(queries, rows, keys, num_keys, v, width, scores);
}

void TanhScoresBackward(const float* queries, std::size_t rows, const float* keys, std::size_t num_keys, const float* v,
                        std::size_t width, const float* d_scores, float* d_queries, float* d_keys, float* d_v) {
  HWY_DYNAMIC_DISPATCH(TanhScoresBackwardOn)
  (queries, rows, keys, num_keys, v, width, d_scores, d_queries, d_keys, d_v);
}

}  // namespace emplace::agents
#endif  // HWY_ONCE
