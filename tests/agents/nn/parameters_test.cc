#include "agents/nn/parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "agents/saved_state.h"
#include "sim/base/check.h"

namespace emplace {
namespace {

agents::ParameterSet SomeParameters() {
  agents::ParameterSet parameters;
  parameters.Add("a.weight", 30, 20, false);
  parameters.Add("a.bias", 1, 20, true);
  return parameters;
}

TEST(ParameterSetTest, GlorotFillsItsRangeAndLeavesBiasesAtZero) {
  agents::ParameterSet parameters = SomeParameters();
  Rng rng(3);
  parameters.InitializeGlorot(rng);
  const double bound = std::sqrt(6.0 / 50);
  double largest = 0;
  double squares = 0;
  for (std::size_t i = 0; i < 600; ++i) {
    const double value = parameters.values()[i];
    largest = std::max(largest, std::abs(value));
    squares += value * value;
  }
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.98 * bound);
  EXPECT_NEAR(squares / 600, bound * bound / 3, 0.1 * bound * bound / 3);  // variance of a uniform distribution
  for (std::size_t i = 600; i < 620; ++i) EXPECT_EQ(parameters.values()[i], 0);
}

TEST(ParameterSetTest, MoreWeightsThanAnyNetworkMayHaveAreRefusedBeforeTheyTakeMemory) {
  agents::ParameterSet parameters = SomeParameters();
  EXPECT_THROW(parameters.Add("b", std::size_t{1} << 14, std::size_t{1} << 14, false), InputError);
  EXPECT_THROW(parameters.Add("b", std::size_t{1} << 40, std::size_t{1} << 40, false), InputError);
  EXPECT_EQ(parameters.size(), 620U);
  EXPECT_EQ(parameters.Add("b", 2, 3, false), 2U);
}

TEST(ParameterSetTest, WhatIsSavedIsLoadedAndOtherShapesAreRefused) {
  agents::ParameterSet parameters = SomeParameters();
  Rng rng(4);
  parameters.InitializeGlorot(rng);
  std::stringstream saved;
  agents::SaveState(saved, parameters);
  agents::ParameterSet loaded = SomeParameters();
  std::istringstream in(saved.str());
  agents::LoadState(in, &loaded);
  EXPECT_TRUE(std::equal(loaded.values().begin(), loaded.values().end(), parameters.values().begin()));
  agents::ParameterSet other;
  other.Add("a.weight", 30, 20, false);
  other.Add("a.bias", 1, 21, true);
  std::istringstream again(saved.str());
  try {
    agents::LoadState(again, &other);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "weights: have a.bias [1, 20] (a.bias [1, 21]: the same agent, options and number of devices)");
  }
}

TEST(ParameterSetTest, AWeightThatIsNotFiniteIsRefused) {
  agents::ParameterSet parameters = SomeParameters();
  parameters.values()[7] = std::numeric_limits<float>::infinity();
  std::stringstream saved;
  agents::SaveState(saved, parameters);
  agents::ParameterSet loaded = SomeParameters();
  EXPECT_THROW(agents::LoadState(saved, &loaded), InputError);
}

TEST(ClipGlobalNormTest, OnlyLongGradientsAreShortened) {
  std::vector<float> gradients = {3, 4};
  EXPECT_DOUBLE_EQ(agents::ClipGlobalNorm(10, gradients), 5);
  EXPECT_EQ(gradients, (std::vector<float>{3, 4}));
  EXPECT_DOUBLE_EQ(agents::ClipGlobalNorm(1.25, gradients), 5);  // to a quarter
  EXPECT_FLOAT_EQ(gradients[0], 0.75);
  EXPECT_FLOAT_EQ(gradients[1], 1);
}

TEST(AdamTest, StepsFollowTheAlgorithm) {
  // First step: m / (1 - b1) = g and v / (1 - b2) = g^2, so it is lr * g / (|g| + 1e-8). Second, with gradient 0:
  // m = 0.9 * 0.1 g, v = 0.999 * 0.001 g^2; m' = 0.09 g / 0.19, v' = 0.000999 g^2 / 0.001999.
  agents::Adam adam;
  std::vector<float> values = {1, 1};
  adam.Step(0.1, std::vector<float>{2, -0.5}, values);
  EXPECT_NEAR(values[0], 0.9, 1e-6);
  EXPECT_NEAR(values[1], 1.1, 1e-6);
  adam.Step(0.1, std::vector<float>{0, 0}, values);
  const double second = 0.1 * (0.09 / 0.19) / std::sqrt(0.000999 / 0.001999);
  EXPECT_NEAR(values[0], 0.9 - second, 1e-6);
  EXPECT_NEAR(values[1], 1.1 + second, 1e-6);
}

TEST(AdamTest, SavedAndLoadedItGoesOnAlike) {
  agents::Adam adam;
  std::vector<float> values = {1, 2};
  adam.Step(0.1, std::vector<float>{0.3F, -0.2F}, values);
  std::stringstream saved;
  agents::SaveState(saved, adam);
  agents::Adam loaded;
  agents::LoadState(saved, &loaded);
  std::vector<float> others = values;
  adam.Step(0.1, std::vector<float>{0.1F, 0.1F}, values);
  loaded.Step(0.1, std::vector<float>{0.1F, 0.1F}, others);
  EXPECT_EQ(values, others);
}

}  // namespace
}  // namespace emplace
