#include "agents/nn/mlp.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

// 2 -> 2 -> 1: y = 3 relu(x0 - x1) + 5 relu(2 x0) + 7.
agents::Mlp ByHand(agents::ParameterSet& parameters, bool relu_last) {
  agents::Mlp mlp(parameters, "net", {2, 2, 1}, relu_last);
  const std::vector<float> weights = {1, 2, -1, 0, 0, 0, 3, 5, 7};
  std::copy(weights.begin(), weights.end(), parameters.values().begin());
  mlp.Pack(parameters.values());
  return mlp;
}

TEST(MlpTest, ForwardAndBackwardByHand) {
  agents::ParameterSet parameters;
  agents::Mlp mlp = ByHand(parameters, false);
  agents::Matrix x(2, 2);
  x.row(0)[0] = 4;
  x.row(0)[1] = 1;
  x.row(1)[0] = 1;
  x.row(1)[1] = 9;
  agents::MlpCache cache;
  mlp.Prepare(2, true, &cache);
  mlp.Forward(x, 0, 2, &cache);
  EXPECT_EQ(cache.result().row(0)[0], 3 * 3 + 5 * 8 + 7);
  EXPECT_EQ(cache.result().row(1)[0], 5 * 2 + 7);  // x0 - x1 is negative
  cache.result_gradient().row(0)[0] = 1;
  cache.result_gradient().row(1)[0] = 10;
  agents::Matrix dx(2, 2);
  mlp.Backward(0, 2, &cache, &dx);
  EXPECT_EQ(dx.row(0)[0], 3 * 1 + 5 * 2);
  EXPECT_EQ(dx.row(0)[1], -3);
  EXPECT_EQ(dx.row(1)[0], 10 * 5 * 2);
  EXPECT_EQ(dx.row(1)[1], 0);
  std::vector<float> gradients(parameters.size());
  mlp.AddGradients(x, 0, 2, cache, gradients);
  // d/dw of the first layer: x^T times (3, 5) in row 0, (0, 50) in row 1; then its biases; the second layer's hidden
  // values (3, 8) and 10 (0, 2); its bias.
  EXPECT_EQ(gradients, (std::vector<float>{12, 20 + 50, 3, 5 + 450, 3, 55, 3, 8 + 20, 11}));
}

TEST(MlpTest, ARowRangeLeavesOtherRowsAlone) {
  agents::ParameterSet parameters;
  agents::Mlp mlp = ByHand(parameters, true);
  agents::Matrix x(3, 2);
  agents::MlpCache cache;
  mlp.Prepare(3, false, &cache);
  for (std::size_t r = 0; r < 3; ++r) cache.outputs.back().row(r)[0] = -1;
  mlp.Forward(x, 1, 2, &cache);
  EXPECT_EQ(cache.result().row(0)[0], -1);
  EXPECT_EQ(cache.result().row(1)[0], 7);
  EXPECT_EQ(cache.result().row(2)[0], -1);
}

TEST(MlpTest, TheLastReluIsThereIfAskedFor) {
  for (const bool relu_last : {false, true}) {
    agents::ParameterSet parameters;
    agents::Mlp mlp(parameters, "net", {1, 1}, relu_last);
    parameters.values()[1] = -2;  // the bias
    mlp.Pack(parameters.values());
    const agents::Matrix x(1, 1);
    agents::MlpCache cache;
    mlp.Prepare(1, false, &cache);
    mlp.Forward(x, 0, 1, &cache);
    EXPECT_EQ(cache.result().row(0)[0], relu_last ? 0 : -2);
  }
}

}  // namespace
}  // namespace emplace
