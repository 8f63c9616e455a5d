// Compares the plain kernels with a second implementation of the same network in LibTorch.

#include "agents/nn/autograd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/check.h"
#include "tests/testing/networks.h"

namespace emplace {
namespace {

using ::emplace::testing::AllNetworks;
using ::emplace::testing::NetworkCase;

class AutogradTest : public ::testing::TestWithParam<NetworkCase> {};

// Largest difference, relative to the largest value where that is above 1; infinite if a value is NaN.
double Difference(std::span<const float> a, std::span<const float> b) {
  double largest = 1;
  double difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, static_cast<double>(std::abs(a[i])));
    difference = std::max(difference, static_cast<double>(std::abs(a[i] - b[i])));
  }
  return difference / largest;
}

// Compares networks of several sizes and returns the largest logit. `biases`: starts with random biases, so that they
// have an effect. Initial biases are 0, which leaves rows of zeros after a ReLU.
double CompareLargestLogit(const agents::NetworkOptions& options, bool biases) {
  Rng rng(31);
  double largest_logit = 0;
  for (const std::size_t num_nodes : {1U, 2U, 7U, 40U}) {
    agents::Network network(options);
    network.parameters().InitializeGlorot(rng);
    for (float& value : network.parameters().values()) {
      value += biases ? static_cast<float>(0.1 * (rng.Uniform() - 0.5)) : 0;
    }
    network.Pack();
    const auto torch = agents::MakeAutogradNetwork(network, "cpu");
    const agents::Topology topology = testing::RandomTopology(rng, num_nodes);
    const agents::GraphSample sample = network.encoder().Draw(topology, rng);
    for (const std::size_t batch : {1U, 3U}) {
      agents::StateBatch states = testing::RandomStates(topology, sample, options.features, batch, rng);
      states.evaluating = batch == 1 && num_nodes == 7;
      const agents::Matrix logits = network.Forward(states, /*backward=*/true);
      const agents::Matrix expected = torch->Forward(states);
      agents::Matrix d_logits(batch, logits.width());
      for (std::size_t b = 0; b < batch; ++b) {
        EXPECT_LT(Difference(logits.values(b), expected.values(b)), 1e-5) << num_nodes << " nodes, state " << b;
        for (float& value : d_logits.values(b)) value = static_cast<float>(rng.Uniform() - 0.5);
        for (const float value : logits.values(b)) {
          largest_logit = std::max(largest_logit, static_cast<double>(std::abs(value)));
        }
      }
      std::vector<float> gradients(network.parameters().size());
      std::vector<float> expected_gradients(network.parameters().size());
      network.Backward(states, d_logits, gradients);
      torch->Backward(d_logits, expected_gradients);
      for (const agents::Parameter& parameter : network.parameters().parameters()) {
        const std::span<const float> ours(gradients.data() + parameter.offset, parameter.size());
        const std::span<const float> theirs(expected_gradients.data() + parameter.offset, parameter.size());
        EXPECT_LT(Difference(ours, theirs), 2e-5) << parameter.name << ", " << num_nodes << " nodes, batch " << batch;
      }
    }
  }
  return largest_logit;
}

TEST_P(AutogradTest, KernelsAndLibTorchAgree) {
  EXPECT_GT(CompareLargestLogit(GetParam().options, /*biases=*/true), 1e-3);  // the logits were not all zero
}

TEST_P(AutogradTest, KernelsAndLibTorchAgreeOnFirstWeights) {
  EXPECT_GT(CompareLargestLogit(GetParam().options, /*biases=*/false), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Networks, AutogradTest, ::testing::ValuesIn(AllNetworks()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace emplace
