#include "agents/nn/heads.h"

#include <gtest/gtest.h>

#include "tests/testing/graphs.h"
#include "tests/testing/networks.h"

namespace emplace {
namespace {

struct Fixture {
  explicit Fixture(const Graph& graph) : topology(graph) {
    Rng rng(9);
    states = testing::RandomStates(topology, sample, 4, 1, rng);
    embeddings = states.features;
  }
  agents::Topology topology;
  agents::GraphSample sample;
  agents::StateBatch states;
  agents::Matrix embeddings;
};

template <typename Head>
std::vector<float> Logits(Fixture& fixture, std::size_t current, bool average = false) {
  agents::ParameterSet parameters;
  Head head(parameters, {.embedding = 4, .hidden = 4, .classifier = {8}, .num_devices = 3, .average = average});
  Rng rng(10);
  parameters.InitializeGlorot(rng);
  head.Pack(parameters.values());
  fixture.states.currents = {static_cast<std::uint32_t>(current)};
  const agents::Matrix& logits = head.Forward(fixture.states, fixture.embeddings, false);
  return {logits.row(0), logits.row(0) + 3};
}

TEST(HeadsTest, RelationsKnowTheCurrentNodeAndOneSumDoesNot) {
  Fixture chain(testing::MakeChain(4, 1, 1));
  EXPECT_NE(Logits<agents::RelationHead>(chain, 1), Logits<agents::RelationHead>(chain, 2));
  EXPECT_EQ(Logits<agents::SumHead>(chain, 1), Logits<agents::SumHead>(chain, 2));
}

TEST(HeadsTest, EqualParallelBranchesAreExchangeable) {
  // Two parallel branches with equal embeddings have equal inputs.
  Fixture fork(testing::MakeForkJoin(2, 1, 1));
  std::copy_n(fork.embeddings.row(1), 4, fork.embeddings.row(2));
  EXPECT_EQ(Logits<agents::RelationHead>(fork, 1), Logits<agents::RelationHead>(fork, 2));
}

TEST(HeadsTest, MeansDoNotGrowWithTheGraph) {
  // All embeddings are equal. Then the mean over parents is the same for the second and the last node of a chain, but
  // the sum is not. The last nodes of a short and a long chain both have no children, so children make no difference.
  Fixture shorter(testing::MakeChain(3, 1, 1));
  Fixture longer(testing::MakeChain(30, 1, 1));
  for (Fixture* const fixture : {&shorter, &longer}) {
    for (std::size_t n = 0; n < fixture->embeddings.rows(); ++n) {
      for (std::size_t f = 0; f < 4; ++f) fixture->embeddings.row(n)[f] = static_cast<float>(f + 1);
    }
  }
  const std::vector<float> few = Logits<agents::RelationHead>(shorter, 2, true);
  const std::vector<float> many = Logits<agents::RelationHead>(longer, 29, true);
  for (std::size_t d = 0; d < 3; ++d) EXPECT_NEAR(few[d], many[d], 1e-4);
  EXPECT_NE(Logits<agents::RelationHead>(shorter, 2), Logits<agents::RelationHead>(longer, 29));
}

}  // namespace
}  // namespace emplace
