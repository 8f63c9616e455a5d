#include "agents/nn/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/testing/graphs.h"
#include "tests/testing/networks.h"
#include "tests/testing/vector_targets.h"

namespace emplace {
namespace {

using ::emplace::testing::AllNetworks;
using ::emplace::testing::NetworkCase;

TEST(NetworkTest, ParameterCountsAreThoseOfPlacetosCode) {
  // 3, 5 and 8 devices have 8, 10 and 13 features.
  for (const auto& [devices, count] : {std::pair<std::size_t, std::size_t>{3, 20'827}, {5, 32'495}, {8, 54'842}}) {
    const agents::Network network({.features = 5 + devices, .num_devices = devices});
    EXPECT_EQ(network.parameters().size(), count) << devices;
  }
}

TEST(NetworkTest, TheAppendixsGeometryHasItsWidths) {
  // 8 wide throughout: transform 10-8-8-8, f and g of both directions 8-8-8-8, three aggregators 16-8-8-8 and 8-8-8-8,
  // classifier 3 * 8 + 16 to 16 to 16 to 5.
  const agents::Network network({.paper_geometry = true, .features = 10, .num_devices = 5});
  const auto layers = [](std::initializer_list<std::size_t> widths) {
    std::size_t count = 0;
    for (const auto* w = widths.begin(); w + 1 != widths.end(); ++w) count += *w * *(w + 1) + *(w + 1);
    return count;
  };
  EXPECT_EQ(network.parameters().size(), layers({10, 8, 8, 8}) + 4 * layers({8, 8, 8, 8}) +
                                             3 * (layers({16, 8, 8, 8}) + layers({8, 8, 8, 8})) +
                                             layers({40, 16, 16, 5}));
}

class NetworkGradientTest : public ::testing::TestWithParam<NetworkCase> {};

TEST_P(NetworkGradientTest, IsTheFiniteDifferenceInEveryDirectionTried) {
  Rng rng(77);
  agents::Network network(GetParam().options);
  network.parameters().InitializeGlorot(rng);
  for (float& value : network.parameters().values()) value += static_cast<float>(0.05 * rng.Uniform());
  network.Pack();
  const agents::Topology topology = testing::RandomTopology(rng, 15);
  const agents::GraphSample sample = network.encoder().Draw(topology, rng);
  const agents::StateBatch states = testing::RandomStates(topology, sample, GetParam().options.features, 2, rng);
  agents::Matrix d_logits(2, 5);
  for (std::size_t b = 0; b < 2; ++b) {
    for (float& value : d_logits.values(b)) value = static_cast<float>(rng.Uniform() - 0.5);
  }
  const auto loss = [&] {
    network.Pack();
    const agents::Matrix& logits = network.Forward(states);
    double sum = 0;
    for (std::size_t b = 0; b < 2; ++b) {
      for (std::size_t d = 0; d < 5; ++d) sum += static_cast<double>(logits.row(b)[d]) * d_logits.row(b)[d];
    }
    return sum;
  };
  network.Forward(states, /*backward=*/true);
  std::vector<float> gradients(network.parameters().size());
  network.Backward(states, d_logits, gradients);
  const std::vector<float> weights(network.parameters().values().begin(), network.parameters().values().end());
  // Along the gradient of one parameter array at a time the loss changes by step * |gradient|^2. Long steps fail at
  // kinks of ReLUs, short ones in single precision: one of several lengths must pass.
  std::size_t tried = 0;
  for (const agents::Parameter& parameter : network.parameters().parameters()) {
    double squares = 0;
    for (std::size_t i = 0; i < parameter.size(); ++i) squares += std::pow(gradients[parameter.offset + i], 2);
    if (squares < 1e-6) continue;
    const auto moved = [&](double by) {
      for (std::size_t i = 0; i < parameter.size(); ++i) {
        const std::size_t at = parameter.offset + i;
        network.parameters().values()[at] = static_cast<float>(weights[at] + by * gradients[at]);
      }
      const double result = loss();
      std::copy(weights.begin(), weights.end(), network.parameters().values().begin());
      return result;
    };
    double least_error = 1;
    for (const double length : {1e-2, 3e-3, 1e-3, 3e-4, 1e-4}) {
      const double step = length / std::sqrt(squares);
      least_error = std::min(least_error, std::abs((moved(step) - moved(-step)) / (2 * step * squares) - 1));
    }
    EXPECT_LT(least_error, 0.04) << parameter.name;
    ++tried;
  }
  EXPECT_GT(tried, network.parameters().parameters().size() / 3);
}

INSTANTIATE_TEST_SUITE_P(Networks, NetworkGradientTest, ::testing::ValuesIn(AllNetworks()),
                         [](const auto& info) { return info.param.name; });

TEST(NetworkTest, MultiplyAddsOfAForwardPassAreCounted) {
  // A graph with one node: transform 3 * 8^2; each direction's f and g 2 * 8^2 each. Of the aggregators, f counts for a
  // third of a node each, and g once. The classifier counts once.
  const agents::Network network({.features = 8, .num_devices = 3});
  const agents::Topology topology(testing::MakeChain(1, 1, 1));
  const double expected = 3 * 64 + 2 * 4 * 64 + 3 * (2 * 256) / 3.0 + 3 * 2 * 256 + 64 * 128 + 128 * 64 + 64 * 3;
  EXPECT_DOUBLE_EQ(agents::ForwardMultiplyAdds(network, topology, {}), expected);
}

// Logits and gradients of one pass over one state of a graph.
std::vector<float> PassOf(const agents::NetworkOptions& options) {
  Rng rng(78);
  agents::Network network(options);
  network.parameters().InitializeGlorot(rng);
  network.Pack();
  const agents::Topology topology = testing::RandomTopology(rng, 30);
  const agents::GraphSample sample = network.encoder().Draw(topology, rng);
  const agents::StateBatch states = testing::RandomStates(topology, sample, options.features, 3, rng);
  const agents::Matrix& logits = network.Forward(states, /*backward=*/true);
  std::vector<float> results;
  agents::Matrix d_logits(3, 5);
  for (std::size_t b = 0; b < 3; ++b) {
    results.insert(results.end(), logits.values(b).begin(), logits.values(b).end());
    for (float& value : d_logits.values(b)) value = static_cast<float>(rng.Uniform() - 0.5);
  }
  std::vector<float> gradients(network.parameters().size());
  network.Backward(states, d_logits, gradients);
  results.insert(results.end(), gradients.begin(), gradients.end());
  return results;
}

class NetworkTargetsTest : public ::testing::TestWithParam<NetworkCase> {};

TEST_P(NetworkTargetsTest, AgreesOnEveryInstructionSetAndToTheBitWhereProductsAreFused) {
  ChooseVectorTarget(VectorTarget::kBaseline);
  const std::vector<float> baseline = PassOf(GetParam().options);
  float largest = 0;
  for (const float value : baseline) largest = std::max(largest, std::abs(value));
  std::vector<float> fused;
  testing::OnEachVectorTarget([&](VectorTarget target) {
    const std::vector<float> results = PassOf(GetParam().options);
    EXPECT_EQ(results, PassOf(GetParam().options)) << "the same twice";
    ASSERT_EQ(results.size(), baseline.size());
    for (std::size_t i = 0; i < results.size(); ++i) ASSERT_NEAR(results[i], baseline[i], 1e-4F * largest) << i;
    if (target == VectorTarget::kBaseline) return;
    EXPECT_TRUE(fused.empty() || results == fused);
    fused = results;
  });
}

INSTANTIATE_TEST_SUITE_P(All, NetworkTargetsTest, ::testing::ValuesIn(testing::AllNetworks()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace emplace
