#include "agents/rl/categorical.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

TEST(CategoricalTest, ProbabilitiesSumToOneWithinWhatIsAllowed) {
  const std::vector<float> logits = {1, 1e9F, 1e9F, -3};
  const std::vector<std::uint8_t> allowed = {1, 0, 1, 1};
  std::vector<double> p(4);
  agents::Softmax(logits, allowed, p);
  EXPECT_THAT(p, ElementsAre(0, 0, 1, 0));
  agents::Softmax(std::vector<float>{0, 5, 0, 0}, allowed, p);
  EXPECT_THAT(p, ElementsAre(DoubleEq(1.0 / 3), 0, DoubleEq(1.0 / 3), DoubleEq(1.0 / 3)));
  EXPECT_NEAR(agents::Entropy(p), std::log(3), 1e-12);
}

TEST(CategoricalTest, DrawsAreAsFrequentAsTheirProbabilitiesSay) {
  const std::vector<double> p = {0, 0.25, 0, 0.75, 0};
  Rng rng(1);
  std::vector<int> counts(5);
  for (int i = 0; i < 10000; ++i) ++counts[agents::Draw(p, rng)];
  // The standard deviation of 10,000 such draws is 43.
  EXPECT_THAT(counts,
              ElementsAre(0, ::testing::AllOf(::testing::Gt(2300), ::testing::Lt(2700)), 0, 10000 - counts[1], 0));
}

TEST(CategoricalTest, WhatRoundingLeavesGoesToTheLastThatIsPossible) {
  const std::vector<double> p = {1e-300, 1e-300, 0};  // sums to far less than 1
  Rng rng(1);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(agents::Draw(p, rng), 1U);
}

TEST(CategoricalTest, NoiseIsNormalAndItsLargestIsAsLargeAsAsked) {
  Rng rng(1);
  std::vector<float> row(20'001);  // odd: numbers are drawn in pairs
  agents::DrawNoise(1, rng, row);
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  float largest = 0;
  for (const float x : row) {
    const double square = static_cast<double>(x) * x;
    sum += x;
    squares += square;
    fourth += square * square;
    largest = std::max(largest, std::abs(x));
  }
  const auto count = static_cast<double>(row.size());
  EXPECT_FLOAT_EQ(largest, 1);
  EXPECT_NEAR(sum / std::sqrt(squares * count), 0, 0.03);      // the mean, in standard errors: 4.2
  EXPECT_NEAR(fourth * count / (squares * squares), 3, 0.15);  // kurtosis; its standard error is 0.035
  EXPECT_NEAR(1 / std::sqrt(squares / count), 4.1, 0.6);       // the largest of 20,001 draws is at about 4.1 sigma
  agents::DrawNoise(0, rng, row);
  EXPECT_EQ(std::count(row.begin(), row.end(), 0.0F), 20'001);
}

TEST(CategoricalTest, OfEqualProbabilitiesTheFirstIsTheLikeliest) {
  EXPECT_EQ(agents::Likeliest(std::vector<double>{0.1, 0.4, 0.4, 0.1}), 1U);
}

TEST(CategoricalTest, EqualProbabilitiesAreTakenAtRandomAndCounted) {
  Rng rng(1);
  const Rng before = rng;
  std::size_t tied = 0;
  EXPECT_EQ(agents::DrawMostLikely(std::vector<double>{0.1, 0.5, 0.4}, rng, &tied), 1U);
  EXPECT_EQ(tied, 0U);
  EXPECT_EQ(rng, before);  // nothing was drawn
  std::vector<std::size_t> chosen(4);
  for (int i = 0; i < 300; ++i) ++chosen[agents::DrawMostLikely(std::vector<double>{0.3, 0.1, 0.3, 0.3}, rng, &tied)];
  EXPECT_EQ(tied, 300U);
  EXPECT_EQ(chosen[1], 0U);
  for (const std::size_t i : {0, 2, 3}) EXPECT_NEAR(static_cast<double>(chosen[i]), 100, 40) << i;
}

TEST(CategoricalTest, WhatIsNotFiniteIsNamed) {
  const std::vector<float> fine = {0, -3e38F};
  EXPECT_EQ(testing::ErrorOf([&] { agents::CheckFinite(fine, "sgdp, update 3", "logits"); }), "(no error)");
  const std::vector<float> bad = {0, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(testing::ErrorOf([&] { agents::CheckFinite(bad, "sgdp, update 3", "logits"); }),
            "sgdp, update 3: tensor logits holds nan (a finite number: try a smaller learning_rate)");
}

}  // namespace
}  // namespace emplace
