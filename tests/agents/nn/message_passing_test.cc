#include "agents/nn/message_passing.h"

#include <gtest/gtest.h>

#include "tests/testing/graphs.h"
#include "tests/testing/networks.h"

namespace emplace {
namespace {

struct Made {
  explicit Made(std::size_t rounds)
      : encoder(parameters, {.features = 6,
                             .embedding = 6,
                             .hidden = 6,
                             .transform_hidden = 2,
                             .message_hidden = 1,
                             .rounds = rounds}) {
    Rng rng(5);
    parameters.InitializeGlorot(rng);
    for (float& value : parameters.values()) value += static_cast<float>(0.2 * rng.Uniform());  // biases have an effect
    encoder.Pack(parameters.values());
  }
  agents::ParameterSet parameters;
  agents::MessagePassing encoder;
};

TEST(MessagePassingTest, AsManyRoundsAsTheLongestPathAreASweep) {
  Rng rng(6);
  for (int i = 0; i < 20; ++i) {
    const agents::Topology topology = testing::RandomTopology(rng, 25);
    const agents::GraphSample sample;
    const agents::StateBatch states = testing::RandomStates(topology, sample, 6, 2, rng);
    Made sweep(0);
    Made rounds(topology.forward().size());
    Made fewer(1);
    const agents::Matrix a = sweep.encoder.Forward(states, false);
    const agents::Matrix b = rounds.encoder.Forward(states, false);
    const agents::Matrix c = fewer.encoder.Forward(states, false);
    double difference = 0;
    double difference_of_fewer = 0;
    double largest = 0;
    for (std::size_t row = 0; row < a.rows(); ++row) {
      for (std::size_t f = 0; f < a.width(); ++f) {
        difference = std::max<double>(difference, std::abs(a.row(row)[f] - b.row(row)[f]));
        difference_of_fewer = std::max<double>(difference_of_fewer, std::abs(a.row(row)[f] - c.row(row)[f]));
        largest = std::max<double>(largest, std::abs(a.row(row)[f]));
      }
    }
    EXPECT_LT(difference, 1e-4 * largest);
    if (topology.forward().size() > 2) {
      EXPECT_GT(difference_of_fewer, 1e-3 * largest);
    }
  }
}

TEST(MessagePassingTest, ANodeThatHearsNobodyKeepsItsTransformedFeatures) {
  // Two nodes without an edge: g's bias must not affect them, for any number of rounds.
  const agents::Topology apart(testing::Build({testing::MakeOp("a", 1), testing::MakeOp("b", 1)}));
  const agents::GraphSample sample;
  Rng rng(7);
  const agents::StateBatch states = testing::RandomStates(apart, sample, 6, 1, rng);
  Made sweep(0);
  Made rounds(4);
  const agents::Matrix a = sweep.encoder.Forward(states, false);
  const agents::Matrix b = rounds.encoder.Forward(states, false);
  for (std::size_t f = 0; f < 6; ++f) {
    EXPECT_EQ(a.row(0)[f], a.row(0)[6 + f]);  // forward and backward are equal
    EXPECT_EQ(a.row(0)[f], b.row(0)[f]);
  }
}

TEST(MessagePassingTest, StatesOfABatchDoNotMix) {
  Rng rng(8);
  const agents::Topology topology = testing::RandomTopology(rng, 12);
  const agents::GraphSample sample;
  const agents::StateBatch both = testing::RandomStates(topology, sample, 6, 2, rng);
  Made made(0);
  const agents::Matrix together = made.encoder.Forward(both, false);
  for (std::size_t b = 0; b < 2; ++b) {
    agents::StateBatch one = both;
    one.features.Reset(12, 6);
    one.currents = {both.currents[b]};
    one.seeds = {both.seeds[b]};
    for (std::size_t n = 0; n < 12; ++n) std::copy_n(both.features.row(2 * n + b), 6, one.features.row(n));
    const agents::Matrix alone = made.encoder.Forward(one, false);
    for (std::size_t n = 0; n < 12; ++n) {
      for (std::size_t f = 0; f < 12; ++f) EXPECT_NEAR(alone.row(n)[f], together.row(2 * n + b)[f], 1e-5);
    }
  }
}

}  // namespace
}  // namespace emplace
