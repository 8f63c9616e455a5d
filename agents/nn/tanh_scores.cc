#include "agents/nn/tanh_scores.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sim/base/vector_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "agents/nn/tanh_scores.cc"  // this file is compiled once for each instruction set
#include <hwy/foreach_target.h>

#include "agents/nn/float_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace emplace::agents::HWY_NAMESPACE {

void ExponentialsOn(const float* from, std::size_t size, float* to) {
  for (std::size_t i = 0; i < size; i += kWidth) Store(ExpOfTwice(Load(from + i)), to + i);
}

// The score of a query and a key, from their sums.
float ScoreOn(const float* query, const float* key, const float* v, std::size_t width) {
  Floats sums[kVectors];
  for (Floats& sum : sums) sum = Zero();
  for (std::size_t i = 0; i < width; i += kLane) {
    for (std::size_t at = i, part = 0; part < kVectors; ++part, at += kWidth) {
      sums[part] = MulAdd(Load(v + at), Tanh(Add(Load(query + at), Load(key + at))), sums[part]);
    }
  }
  return SumInOrder(sums);
}

// The sum of v / (1 + query key) from their exponentials: two lanes of kLane numbers at a time, a / b + c / d = (a d +
// c b) / (b d).
float FractionsOn(const float* query, const float* key, const float* v, std::size_t width) {
  const Floats one = Splat(1.0F);
  Floats sums[kVectors];
  for (Floats& sum : sums) sum = Zero();
  std::size_t i = 0;
  for (; i + 2 * kLane <= width; i += 2 * kLane) {
    for (std::size_t at = i, part = 0; part < kVectors; ++part, at += kWidth) {
      const Floats a = MulAdd(Load(query + at), Load(key + at), one);
      const Floats b = MulAdd(Load(query + at + kLane), Load(key + at + kLane), one);
      const Floats top = MulAdd(Load(v + at), b, Mul(Load(v + at + kLane), a));
      sums[part] = Add(sums[part], Div(top, Mul(a, b)));
    }
  }
  if (i < width) {
    for (std::size_t at = i, part = 0; part < kVectors; ++part, at += kWidth) {
      sums[part] = Add(sums[part], Div(Load(v + at), MulAdd(Load(query + at), Load(key + at), one)));
    }
  }
  return SumInOrder(sums);
}

void ScoresOn(const float* query, const TanhKeys& keys, const float* v, float* scores) {
  for (std::size_t j = 0; j < keys.num_keys(); ++j) {
    scores[j] = ScoreOn(query, keys.keys() + j * keys.width(), v, keys.width());
  }
}

void FastScoresOn(const float* query, const TanhKeys& keys, const float* v, float sum_of_v, float* scores) {
  for (std::size_t j = 0; j < keys.num_keys(); ++j) {
    scores[j] = sum_of_v - 2 * FractionsOn(query, keys.exponentials() + j * keys.width(), v, keys.width());
  }
}

// Backward pass of one query, from sums.
void ScoresBackwardOn(const float* query, const TanhKeys& keys, const float* v, const float* d_scores, float* d_query,
                      float* d_keys, float* d_v) {
  const std::size_t width = keys.width();
  for (std::size_t j = 0; j < keys.num_keys(); ++j) {
    const Floats change = Splat(d_scores[j]);
    for (std::size_t i = 0; i < width; i += kWidth) {
      const Floats value = Tanh(Add(Load(query + i), Load(keys.keys() + j * width + i)));
      const Floats of_sum = Mul(Mul(change, Load(v + i)), NegMulAdd(value, value, Splat(1.0F)));
      Store(MulAdd(change, value, Load(d_v + i)), d_v + i);
      Store(Add(Load(d_query + i), of_sum), d_query + i);
      Store(Add(Load(d_keys + j * width + i), of_sum), d_keys + j * width + i);
    }
  }
}

// Queries whose backward passes run together, so that keys and their gradients are read once for all.
inline constexpr std::size_t kTogether = 4;  // the same value as kQueriesTogether

// Backward pass of `rows` queries, at most kTogether, and two keys, from their exponentials. `quadruple_v` is 4 v. With
// r = 1 / (1 + query key), adds the sums of change * r to `fractions`; the slope of tanh is 4 (r - r^2). changes:
// [kRows, 2].
template <std::size_t kRows>
HWY_INLINE void PairBackward(std::size_t width, const float* const* queries, const float* const* key,
                             const float* quadruple_v, const float* changes, float* const* d_queries,
                             float* const* d_key, float* fractions) {
  const Floats one = Splat(1.0F);
  for (std::size_t i = 0; i < width; i += kWidth) {
    const Floats first = Load(key[0] + i);
    const Floats second = Load(key[1] + i);
    const Floats weight = Load(quadruple_v + i);
    Floats d_first = Load(d_key[0] + i);
    Floats d_second = Load(d_key[1] + i);
    Floats sum = Load(fractions + i);
    for (std::size_t r = 0; r < kRows; ++r) {
      const Floats query = Load(queries[r] + i);
      const Floats a = MulAdd(query, first, one);
      const Floats b = MulAdd(query, second, one);
      const Floats inverse = Div(one, Mul(a, b));
      const Floats of_a = Mul(b, inverse);
      const Floats of_b = Mul(a, inverse);
      const Floats change_a = Splat(changes[2 * r]);
      const Floats change_b = Splat(changes[2 * r + 1]);
      sum = MulAdd(change_b, of_b, MulAdd(change_a, of_a, sum));
      const Floats slope_a = Mul(Mul(change_a, weight), NegMulAdd(of_a, of_a, of_a));
      const Floats slope_b = Mul(Mul(change_b, weight), NegMulAdd(of_b, of_b, of_b));
      d_first = Add(d_first, slope_a);
      d_second = Add(d_second, slope_b);
      Store(Add(Load(d_queries[r] + i), Add(slope_a, slope_b)), d_queries[r] + i);
    }
    Store(d_first, d_key[0] + i);
    Store(d_second, d_key[1] + i);
    Store(sum, fractions + i);
  }
}

void PairBackwardOn(std::size_t rows, std::size_t width, const float* const* queries, const float* const* key,
                    const float* quadruple_v, const float* changes, float* const* d_queries, float* const* d_key,
                    float* fractions) {
  if (rows == kTogether) {
    PairBackward<kTogether>(width, queries, key, quadruple_v, changes, d_queries, d_key, fractions);
    return;
  }
  for (std::size_t r = 0; r < rows; ++r) {
    PairBackward<1>(width, queries + r, key, quadruple_v, changes + 2 * r, d_queries + r, d_key, fractions);
  }
}

}  // namespace emplace::agents::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace emplace::agents {

HWY_EXPORT(ExponentialsOn);
HWY_EXPORT(ScoresOn);
HWY_EXPORT(FastScoresOn);
HWY_EXPORT(ScoresBackwardOn);
HWY_EXPORT(PairBackwardOn);

namespace {

constexpr std::size_t kQueriesTogether = 4;

// Products of exponentials of two such sums, exp(80), still fit a float.
bool IsSmall(const float* values, std::size_t size) {
  return std::all_of(values, values + size, [](float value) { return std::abs(value) <= 10; });
}

// Queries that are learned from together.
struct QueryBlock {
  explicit QueryBlock(std::size_t width) : exponentials(kQueriesTogether * width) {}
  void Add(const float* query, const float* d_scores_of, float* d_query, std::size_t width) {
    float* const to = exponentials.data() + rows * width;
    HWY_DYNAMIC_DISPATCH(ExponentialsOn)(query, width, to);
    queries[rows] = to;
    d_scores[rows] = d_scores_of;
    d_queries[rows] = d_query;
    ++rows;
  }
  std::size_t rows = 0;
  std::vector<float> exponentials;
  const float* queries[kQueriesTogether] = {};
  const float* d_scores[kQueriesTogether] = {};
  float* d_queries[kQueriesTogether] = {};
};

}  // namespace

TanhKeys::TanhKeys(const float* keys, std::size_t num_keys, std::size_t width)
    : keys_(keys), num_keys_(num_keys), width_(width), small_(IsSmall(keys, num_keys * width)) {
  if (!small_) return;
  exponentials_.resize(num_keys * width);
  HWY_DYNAMIC_DISPATCH(ExponentialsOn)(keys, num_keys * width, exponentials_.data());
}

void TanhScores(const float* queries, std::size_t rows, const TanhKeys& keys, const float* v, float* scores) {
  const std::size_t width = keys.width();
  float sum_of_v = 0;
  for (std::size_t i = 0; i < width; ++i) sum_of_v += v[i];
  std::vector<float> exponentials(width);
  for (std::size_t r = 0; r < rows; ++r, queries += width, scores += keys.num_keys()) {
    if (keys.small() && IsSmall(queries, width)) {
      HWY_DYNAMIC_DISPATCH(ExponentialsOn)(queries, width, exponentials.data());
      HWY_DYNAMIC_DISPATCH(FastScoresOn)(exponentials.data(), keys, v, sum_of_v, scores);
    } else {
      HWY_DYNAMIC_DISPATCH(ScoresOn)(queries, keys, v, scores);
    }
  }
}

void TanhScoresBackward(const float* queries, std::size_t rows, const TanhKeys& keys, const float* v,
                        const float* d_scores, float* d_queries, float* d_keys, float* d_v) {
  const std::size_t width = keys.width();
  const std::size_t num_keys = keys.num_keys();
  std::vector<float> quadruple_v(v, v + width);
  for (float& value : quadruple_v) value *= 4;
  std::vector<float> fractions(width);
  // An odd number of keys is made even by one with no effect.
  const std::vector<float> no_key(width);
  std::vector<float> no_gradient(width);
  double changes_of_all = 0;
  QueryBlock block(width);
  const auto finish = [&] {
    for (std::size_t j = 0; j < num_keys && block.rows > 0; j += 2) {
      const bool pair = j + 1 < num_keys;
      const float* const key[2] = {keys.exponentials() + j * width,
                                   pair ? keys.exponentials() + (j + 1) * width : no_key.data()};
      float* const d_key[2] = {d_keys + j * width, pair ? d_keys + (j + 1) * width : no_gradient.data()};
      float changes[2 * kQueriesTogether];
      for (std::size_t r = 0; r < block.rows; ++r) {
        changes[2 * r] = block.d_scores[r][j];
        changes[2 * r + 1] = pair ? block.d_scores[r][j + 1] : 0;
        changes_of_all += static_cast<double>(changes[2 * r]) + static_cast<double>(changes[2 * r + 1]);
      }
      HWY_DYNAMIC_DISPATCH(PairBackwardOn)
      (block.rows, width, block.queries, key, quadruple_v.data(), changes, block.d_queries, d_key, fractions.data());
    }
    block.rows = 0;
  };
  for (std::size_t r = 0; r < rows; ++r) {
    const float* const query = queries + r * width;
    if (keys.small() && IsSmall(query, width)) {
      block.Add(query, d_scores + r * num_keys, d_queries + r * width, width);
      if (block.rows == kQueriesTogether) finish();
    } else {
      HWY_DYNAMIC_DISPATCH(ScoresBackwardOn)
      (query, keys, v, d_scores + r * num_keys, d_queries + r * width, d_keys, d_v);
    }
  }
  finish();
  // tanh = 1 - 2 r.
  for (std::size_t i = 0; i < width; ++i) d_v[i] += static_cast<float>(changes_of_all - 2.0 * fractions[i]);
}

}  // namespace emplace::agents
#endif  // HWY_ONCE
