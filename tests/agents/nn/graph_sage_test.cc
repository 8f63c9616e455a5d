#include "agents/nn/graph_sage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/testing/graphs.h"
#include "tests/testing/networks.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;

TEST(GraphSageCodeTest, NeighboursAndOwnAreInterleaved) {
  // The thesis's reshape for d = 4: neighbours' mean (10, 11, 12, 13) and own (0, 1, 2, 3) become the rows
  // (10, 0, 11, 1) and (12, 2, 13, 3).
  const std::vector<float> joined = {10, 11, 12, 13, 0, 1, 2, 3};
  std::vector<float> rows;
  for (const std::uint32_t from : agents::GraphSageCode::Interleaving(1, 4)) rows.push_back(joined[from]);
  EXPECT_THAT(rows, ElementsAre(10, 0, 11, 1, 12, 2, 13, 3));
}

TEST(GraphSageCodeTest, InterleavingUsesEveryValueOnce) {
  for (const std::size_t half : {1U, 2U, 4U}) {
    std::vector<std::uint32_t> source = agents::GraphSageCode::Interleaving(half, 5);
    std::sort(source.begin(), source.end());
    std::vector<std::uint32_t> all(2 * half * 5);
    std::iota(all.begin(), all.end(), 0U);
    EXPECT_EQ(source, all);
  }
}

TEST(GraphSageCodeTest, OneSuccessorIsNoNeighbourAndTwoAreOne) {
  // floor(0.8 * 1) = 0, floor(0.8 * 2) = 1, floor(0.8 * 5) = 4.
  agents::ParameterSet parameters;
  const agents::GraphSageCode encoder(parameters, {.features = 4, .both_directions = false});
  Rng rng(1);
  EXPECT_EQ(encoder.Draw(agents::Topology(testing::MakeChain(3, 1, 1)), rng).neighbours[0].size(), 0U);
  EXPECT_EQ(encoder.Draw(agents::Topology(testing::MakeForkJoin(2, 1, 1)), rng).neighbours[0].size(), 1U);
  EXPECT_EQ(encoder.Draw(agents::Topology(testing::MakeForkJoin(5, 1, 1)), rng).neighbours[0].size(), 4U);
  EXPECT_EQ(encoder.rows_per_node(), 8U);  // 2^(hops + 1)
}

TEST(GraphSageCodeTest, ANodesWholeMatrixHasNormOne) {
  agents::ParameterSet parameters;
  agents::GraphSageCode encoder(parameters, {.features = 4, .both_directions = false});
  Rng rng(2);
  parameters.InitializeGlorot(rng);
  encoder.Pack(parameters.values());
  const agents::Topology topology = testing::RandomTopology(rng, 10);
  const agents::GraphSample sample = encoder.Draw(topology, rng);
  const agents::StateBatch states = testing::RandomStates(topology, sample, 4, 1, rng);
  const agents::Matrix out = encoder.Forward(states, false);
  std::size_t ones = 0;
  for (std::size_t n = 0; n < 10; ++n) {
    double squares = 0;
    for (std::size_t r = 0; r < 8; ++r) {
      for (const float value : out.values(n * 8 + r)) squares += value * value;
    }
    // A node without neighbours receives nothing, and all its own values may have been dropped.
    EXPECT_TRUE(squares == 0 || std::abs(squares - 1) < 1e-5) << squares;
    ones += squares > 0 ? 1 : 0;
  }
  EXPECT_GE(ones, 3U);
}

TEST(GraphSageTextTest, SamplesARoundedShareOfBothDirectionsButAtLeastOne) {
  agents::ParameterSet parameters;
  const agents::GraphSageText encoder(parameters, {.features = 4});
  Rng rng(3);
  const agents::GraphSample sample = encoder.Draw(agents::Topology(testing::MakeForkJoin(3, 1, 1)), rng);
  // round(0.8 * 3) = 2 for the source; round(0.8 * 2) = 2 for a branch.
  EXPECT_EQ(sample.neighbours[0].size(), 2U);
  EXPECT_EQ(sample.neighbours[1].size(), 2U);
  EXPECT_EQ(encoder.Draw(agents::Topology(testing::MakeChain(2, 1, 1)), rng).neighbours[0].size(), 1U);
}

TEST(GraphSageTextTest, DropsNothingWhileEvaluating) {
  agents::ParameterSet parameters;
  agents::GraphSageText encoder(parameters, {.features = 4});
  Rng rng(4);
  parameters.InitializeGlorot(rng);
  encoder.Pack(parameters.values());
  const agents::Topology topology = testing::RandomTopology(rng, 10);
  const agents::GraphSample sample = encoder.Draw(topology, rng);
  agents::StateBatch states = testing::RandomStates(topology, sample, 4, 1, rng);
  const auto first_values = [&](std::uint64_t seed, bool evaluating) {
    states.seeds = {seed};
    states.evaluating = evaluating;
    const agents::Matrix& out = encoder.Forward(states, false);
    std::vector<float> values;
    for (std::size_t n = 0; n < 10; ++n) values.insert(values.end(), out.values(n).begin(), out.values(n).end());
    return values;
  };
  EXPECT_EQ(first_values(1, true), first_values(2, true));
  EXPECT_NE(first_values(1, false), first_values(2, false));
  EXPECT_EQ(first_values(1, false), first_values(1, false));
}

}  // namespace
}  // namespace emplace
