#include "agents/nn/tanh_scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "agents/nn/kernel.h"
#include "sim/base/rng.h"
#include "tests/testing/vector_targets.h"

namespace emplace {
namespace {

std::vector<float> Random(Rng& rng, std::size_t size, double scale) {
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(scale * (2 * rng.Uniform() - 1));
  return values;
}

class TanhScoresTest : public testing::OnVectorTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, TanhScoresTest, ::testing::ValuesIn(SupportedVectorTargets()),
                         testing::VectorTargetOf);

TEST_P(TanhScoresTest, TheTangentIsThatOfTheMathLibrary) {
  // One key of 0 and a v that picks one entry: the score is the tanh of that entry.
  const std::vector<float> keys(agents::kLane);
  std::vector<float> v(agents::kLane);
  v[3] = 1;
  for (double x = -12; x <= 12; x += 0.0173) {
    std::vector<float> query(agents::kLane);
    query[3] = static_cast<float>(x);
    float score = 0;
    agents::TanhScores(query.data(), 1, {keys.data(), 1, agents::kLane}, v.data(), &score);
    EXPECT_NEAR(score, std::tanh(static_cast<double>(query[3])), 4e-7) << x;
  }
}

TEST_P(TanhScoresTest, LargeQueriesAndKeysMayCancel) {
  // Within +-10 by exponentials, beyond by the sum.
  std::vector<float> v(agents::kLane);
  v[3] = 1;
  for (const float k : {-30.0F, -9.9F, 9.5F, 10.0F, 12.0F}) {
    std::vector<float> keys(agents::kLane);
    keys[3] = k;
    const agents::TanhKeys prepared(keys.data(), 1, agents::kLane);
    EXPECT_EQ(prepared.small(), std::abs(k) <= 10);
    for (double off = -2; off <= 2; off += 0.013) {
      std::vector<float> query(agents::kLane);
      query[3] = static_cast<float>(off) - k;
      float score = 0;
      agents::TanhScores(query.data(), 1, prepared, v.data(), &score);
      EXPECT_NEAR(score, std::tanh(static_cast<double>(query[3]) + k), 4e-7) << k << ' ' << off;
    }
  }
}

TEST_P(TanhScoresTest, ScoresAreTheirDefinition) {
  Rng rng(1);
  constexpr std::size_t kWidth = 3 * agents::kLane;
  const auto queries = Random(rng, 3 * kWidth, 2);
  const auto keys = Random(rng, 5 * kWidth, 2);
  const auto v = Random(rng, kWidth, 1);
  std::vector<float> scores(15);
  agents::TanhScores(queries.data(), 3, {keys.data(), 5, kWidth}, v.data(), scores.data());
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t j = 0; j < 5; ++j) {
      double expected = 0;
      for (std::size_t i = 0; i < kWidth; ++i) {
        expected += v[i] * std::tanh(static_cast<double>(queries[r * kWidth + i]) + keys[j * kWidth + i]);
      }
      EXPECT_NEAR(scores[r * 5 + j], expected, 1e-5);
    }
  }
}

// Rows: a block of four, a large one, and two others.
TEST_P(TanhScoresTest, GradientsAreFiniteDifferencesAndAreAdded) {
  Rng rng(2);
  constexpr std::size_t kRows = 7;
  constexpr std::size_t kKeys = 3;
  auto queries = Random(rng, kRows * agents::kLane, 1);
  queries[4 * agents::kLane] = 11;
  auto keys = Random(rng, kKeys * agents::kLane, 1);
  auto v = Random(rng, agents::kLane, 1);
  const auto d_scores = Random(rng, kRows * kKeys, 1);
  const auto loss = [&] {
    double sum = 0;
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t j = 0; j < kKeys; ++j) {
        for (std::size_t i = 0; i < agents::kLane; ++i) {
          sum += static_cast<double>(d_scores[r * kKeys + j]) * v[i] *
                 std::tanh(static_cast<double>(queries[r * agents::kLane + i]) + keys[j * agents::kLane + i]);
        }
      }
    }
    return sum;
  };
  std::vector<float> d_queries(queries.size(), 1);
  std::vector<float> d_keys(keys.size(), 1);
  std::vector<float> d_v(v.size(), 1);
  agents::TanhScoresBackward(queries.data(), kRows, {keys.data(), kKeys, agents::kLane}, v.data(), d_scores.data(),
                             d_queries.data(), d_keys.data(), d_v.data());
  const auto check = [&](std::vector<float>& values, const std::vector<float>& gradients) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float before = values[i];
      values[i] = before + 0.0078125F;
      const double up = loss();
      values[i] = before - 0.0078125F;
      const double down = loss();
      values[i] = before;
      EXPECT_NEAR(gradients[i] - 1, (up - down) / 0.015625, 1e-3) << i;
    }
  };
  check(queries, d_queries);
  check(keys, d_keys);
  check(v, d_v);
}

TEST(TanhScoresTargetsTest, FusedMultiplyAddGivesTheSameBits) {
  std::vector<float> fused;
  testing::OnEachVectorTarget([&](VectorTarget target) {
    if (target == VectorTarget::kBaseline) return;
    Rng rng(3);
    constexpr std::size_t kWidth = 3 * agents::kLane;
    const auto queries = Random(rng, 2 * kWidth, 2);
    const auto keys = Random(rng, 7 * kWidth, 2);
    const auto v = Random(rng, kWidth, 1);
    const auto d_scores = Random(rng, 14, 1);
    std::vector<float> results(14 + 10 * kWidth);
    const agents::TanhKeys prepared(keys.data(), 7, kWidth);
    agents::TanhScores(queries.data(), 2, prepared, v.data(), results.data());
    float* const gradients = results.data() + 14;
    agents::TanhScoresBackward(queries.data(), 2, prepared, v.data(), d_scores.data(), gradients,
                               gradients + 2 * kWidth, gradients + 9 * kWidth);
    EXPECT_TRUE(fused.empty() || results == fused);
    fused = results;
  });
}

}  // namespace
}  // namespace emplace
