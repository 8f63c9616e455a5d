#include "agents/nn/logit_bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace emplace {
namespace logit_bound_test {

agents::Matrix RowOf(const std::vector<float>& values) {
  agents::Matrix row(1, values.size());
  std::copy(values.begin(), values.end(), row.row(0));
  return row;
}

// The gradient of d . bounded logits + penalty * excess with respect to raw logits.
agents::Matrix Gradient(const agents::LogitBound& bound, const std::vector<float>& raw, const std::vector<float>& d,
                        double penalty) {
  agents::Matrix result;
  agents::UnboundGradient(bound, RowOf(raw), RowOf(d), penalty, &result);
  return result;
}

TEST(LogitBoundTest, LogitsAreTheirDefinition) {
  agents::Matrix logits;
  agents::BoundLogits({.temperature = 10, .bound = 5}, RowOf({0, 10, -25}), &logits);
  EXPECT_EQ(logits.row(0)[0], 0);
  EXPECT_FLOAT_EQ(logits.row(0)[1], 5 * std::tanh(1.0F));
  EXPECT_FLOAT_EQ(logits.row(0)[2], 5 * std::tanh(-2.5F));
  agents::BoundLogits({.temperature = 4}, RowOf({2, -100}), &logits);
  EXPECT_EQ(logits.row(0)[0], 0.5F);
  EXPECT_EQ(logits.row(0)[1], -25);
}

// In double precision, by differences of the definition.
TEST(LogitBoundTest, GradientsAreFiniteDifferences) {
  const agents::LogitBound bound = {.temperature = 2, .bound = 3};
  const std::vector<float> raw = {0.3F, -1.5F, 2.5F, -7, 5};
  const std::vector<float> d = {1, -2, 0.5F, 3, 0.25F};
  constexpr double kPenalty = 0.7;
  const auto loss = [&](std::size_t i, double l) {
    const double excess = std::max(0.0, std::abs(l) / 2 - 1);
    return d[i] * 3 * std::tanh(l / 2) + kPenalty * excess * excess / 5;
  };
  const agents::Matrix gradient = Gradient(bound, raw, d, kPenalty);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    EXPECT_NEAR(gradient.row(0)[i], (loss(i, raw[i] + 1e-5) - loss(i, raw[i] - 1e-5)) / 2e-5, 1e-6) << i;
  }
}

// tanh(12) is 1 in 32 bits, so that 1 - tanh^2 is 0.
TEST(LogitBoundTest, WhereTheTangentRoundsToOneThereIsStillASlope) {
  ASSERT_EQ(std::tanh(12.0F), 1);
  const agents::LogitBound bound = {.temperature = 10, .bound = 5};
  const agents::Matrix gradient = Gradient(bound, {120, -120, 400}, {1, 1, -1}, 0);
  const double expected = 0.5 / std::pow(std::cosh(12.0), 2);
  EXPECT_NEAR(gradient.row(0)[0] / expected, 1, 1e-6);
  EXPECT_EQ(gradient.row(0)[0], gradient.row(0)[1]);
  EXPECT_LT(gradient.row(0)[2], 0);
}

TEST(LogitBoundTest, ThePenaltyPullsBackOnlyWhatIsBeyondTheTemperature) {
  const agents::LogitBound bound = {.temperature = 10, .bound = 5};
  const agents::Matrix gradient = Gradient(bound, {9, -9, 1000, -20}, {0, 0, 0, 0}, 1);
  EXPECT_EQ(gradient.row(0)[0], 0);
  EXPECT_EQ(gradient.row(0)[1], 0);
  EXPECT_FLOAT_EQ(gradient.row(0)[2], 2.0F * 99 / 10 / 4);
  EXPECT_FLOAT_EQ(gradient.row(0)[3], -2.0F * 1 / 10 / 4);
  EXPECT_DOUBLE_EQ(agents::ExcessOfLogits(bound, RowOf({9, -9, 1000, -20})), (99.0 * 99 + 1) / 4);
  // Without a bound there is none.
  EXPECT_EQ(agents::ExcessOfLogits({.temperature = 1}, RowOf({50})), 0);
  EXPECT_EQ(Gradient({.temperature = 1}, {50}, {0}, 1).row(0)[0], 0);
}

}  // namespace logit_bound_test
}  // namespace emplace
