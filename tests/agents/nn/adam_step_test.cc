#include "agents/nn/adam_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sim/base/rng.h"
#include "tests/testing/vector_targets.h"

namespace emplace {
namespace adam_step_test {

TEST(AdamStepTest, EachInstructionSetGivesTheBitsOfTheDefinition) {
  constexpr std::size_t kSize = 37;  // not a whole number of vectors
  testing::OnEachVectorTarget([&](VectorTarget) {
    Rng rng(6);
    std::vector<float> values(kSize);
    for (float& value : values) value = static_cast<float>(rng.Uniform());
    std::vector<float> first(kSize);
    std::vector<float> second(kSize);
    std::vector<float> expected = values;
    std::vector<float> expected_first(kSize);
    std::vector<float> expected_second(kSize);
    for (int step = 1; step <= 3; ++step) {
      std::vector<float> gradients(kSize);
      for (float& gradient : gradients) gradient = static_cast<float>(2 * rng.Uniform() - 1);
      const double correction1 = 1 - std::pow(0.9, step);
      const double correction2 = 1 - std::pow(0.999, step);
      agents::AdamStep({.rate = 0.01,
                        .beta1 = 0.9,
                        .beta2 = 0.999,
                        .correction1 = correction1,
                        .correction2 = correction2,
                        .epsilon = 1e-8},
                       kSize, gradients.data(), first.data(), second.data(), values.data());
      for (std::size_t i = 0; i < kSize; ++i) {
        const double g = gradients[i];
        const double m = 0.9 * expected_first[i] + (1 - 0.9) * g;
        const double s = 0.999 * expected_second[i] + (1 - 0.999) * g * g;
        expected_first[i] = static_cast<float>(m);
        expected_second[i] = static_cast<float>(s);
        expected[i] = static_cast<float>(expected[i] - 0.01 * (m / correction1) / (std::sqrt(s / correction2) + 1e-8));
      }
    }
    EXPECT_EQ(values, expected);
    EXPECT_EQ(first, expected_first);
    EXPECT_EQ(second, expected_second);
  });
}

}  // namespace adam_step_test
}  // namespace emplace
