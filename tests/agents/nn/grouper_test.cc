#include "agents/nn/grouper.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sim/base/rng.h"

namespace emplace {
namespace {

TEST(GrouperTest, HasThePublishedShape) {
  // An op's vector has 20 + 24 + 12 = 56 entries (docs/agents.md, hierarchical), the hidden layer 64 units.
  agents::Grouper grouper({.num_kinds = 200, .numbers = 36, .groups = 256});
  EXPECT_EQ(grouper.parameters().size(), 200 * 20 + 56 * 64 + 64 + 64 * 256 + 256U);
}

TEST(GrouperTest, GradientsAreFiniteDifferences) {
  agents::Grouper grouper({.num_kinds = 3, .kind_width = 4, .numbers = 2, .hidden = 6, .groups = 5});
  Rng rng(4);
  grouper.parameters().InitializeGlorot(rng);
  for (float& value : grouper.parameters().values()) value += static_cast<float>(0.3 * (rng.Uniform() - 0.5));
  const std::vector<std::uint32_t> kinds = {0, 2, 2, 1, 0, 2, 1};
  agents::Matrix numbers;
  numbers.Reset(kinds.size(), 2);
  agents::Matrix d_logits;
  d_logits.Reset(kinds.size(), 5);
  for (std::size_t op = 0; op < kinds.size(); ++op) {
    for (float& value : numbers.values(op)) value = static_cast<float>(rng.Uniform());
    for (float& value : d_logits.values(op)) value = static_cast<float>(rng.Uniform() - 0.5);
  }
  const auto loss = [&] {
    grouper.Pack();
    const agents::Matrix& logits = grouper.Forward(kinds, numbers);
    double sum = 0;
    for (std::size_t op = 0; op < kinds.size(); ++op) {
      for (std::size_t g = 0; g < 5; ++g) sum += static_cast<double>(logits.row(op)[g]) * d_logits.row(op)[g];
    }
    return sum;
  };
  loss();
  std::vector<float> gradients(grouper.parameters().size());
  grouper.Backward(kinds, d_logits, gradients);
  double largest = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    float& value = grouper.parameters().values()[i];
    const float before = value;
    constexpr float kStep = 1.0F / 512;
    value = before + kStep;
    const double up = loss();
    value = before - kStep;
    const double down = loss();
    value = before;
    const double slope = (up - down) / (2 * kStep);
    EXPECT_NEAR(gradients[i], slope, 1e-2) << i;
    largest = std::max(largest, std::abs(slope));
  }
  EXPECT_GT(largest, 0.3);
}

}  // namespace
}  // namespace emplace
