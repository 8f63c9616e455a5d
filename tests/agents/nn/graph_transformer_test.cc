#include "agents/nn/graph_transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "sim/base/rng.h"

namespace emplace {
namespace {

std::size_t SizeOf(const agents::ParameterSet& parameters, const std::string& prefix) {
  std::size_t size = 0;
  for (const agents::Parameter& parameter : parameters.parameters()) {
    if (parameter.name.starts_with(prefix)) size += parameter.size();
  }
  return size;
}

TEST(GraphTransformerTest, LayersHaveThePublishedNumbersOfWeights) {
  // docs/agents.md, sgdp: four layers of 49,408, and about 130,432 in each layer of attention without relative terms.
  const agents::ParameterSet parameters =
      agents::GraphTransformerParameters({.numbers = 11, .num_kinds = 75, .outputs = 4});
  EXPECT_EQ(SizeOf(parameters, "neighbours."), 4 * 49'408U);
  EXPECT_EQ(SizeOf(parameters, "attention."), 2 * 130'432U);
  EXPECT_EQ(SizeOf(parameters, "kinds"), 75 * 64U);
  EXPECT_EQ(SizeOf(parameters, "input"), (64 + 11 + 1) * 128U);
  EXPECT_EQ(SizeOf(parameters, "devices"), 129 * 4U);
}

TEST(GraphTransformerTest, AblationsHaveOtherParts) {
  const agents::ParameterSet gat = agents::GraphTransformerParameters(
      {.numbers = 1, .num_kinds = 1, .outputs = 1, .neighbourhood = agents::Neighbourhood::kGat});
  EXPECT_EQ(SizeOf(gat, "neighbours."), 4 * (128 * 128 + 256U));
  const agents::ParameterSet mlp = agents::GraphTransformerParameters(
      {.numbers = 1, .num_kinds = 1, .outputs = 1, .context = agents::Context::kMlp});
  EXPECT_EQ(SizeOf(mlp, "attention."), 0U);
  EXPECT_EQ(SizeOf(mlp, "mlp."), 129 * 256 + 257 * 128U);
}

TEST(GraphTransformerTest, GainsStartAtOne) {
  agents::ParameterSet parameters = agents::GraphTransformerParameters({.numbers = 1, .num_kinds = 1, .outputs = 1});
  Rng rng(1);
  agents::InitializeGraphTransformer(rng, &parameters);
  std::size_t gains = 0;
  for (const agents::Parameter& parameter : parameters.parameters()) {
    if (!parameter.name.ends_with(".gain")) continue;
    for (std::size_t i = 0; i < parameter.size(); ++i) EXPECT_EQ(parameters.values()[parameter.offset + i], 1);
    ++gains;
  }
  EXPECT_EQ(gains, 4U);
}

// 0 -> 1 and 2 -> 3 are alike, 4 -> 5 differs in the features of 5, and 6 has no edges.
agents::GraphRows Pairs() {
  agents::GraphRows rows;
  rows.numbers.Reset(7, 1);
  rows.numbers.row(5)[0] = 1;
  rows.kinds.assign(7, 0);
  rows.neighbours = {{1}, {0}, {3}, {2}, {5}, {4}, {}};
  return rows;
}

TEST(FindTokensTest, NodesAreAlikeIfTheirSurroundingsAre) {
  using ::testing::ElementsAre;
  agents::GraphTransformerOptions options = {.layers = 0, .segment = 100};
  EXPECT_THAT(agents::FindTokens(Pairs(), options).first, ElementsAre(0, 5));
  options.layers = 1;
  const agents::GraphTokens tokens = agents::FindTokens(Pairs(), options);
  EXPECT_THAT(tokens.first, ElementsAre(0, 4, 5, 6));
  EXPECT_THAT(tokens.neighbours, ElementsAre(ElementsAre(0), ElementsAre(2), ElementsAre(1), ElementsAre()));
  EXPECT_THAT(tokens.classes, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(tokens.copies, ElementsAre(4, 1, 1, 1));
  EXPECT_THAT(tokens.token_of, ElementsAre(0, 0, 0, 0, 1, 2, 3));
  EXPECT_THAT(tokens.begin, ElementsAre(0, 4));
}

TEST(FindTokensTest, EverySegmentHasTokensOfItsOwn) {
  using ::testing::ElementsAre;
  const agents::GraphTokens tokens = agents::FindTokens(Pairs(), {.layers = 1, .segment = 3});
  EXPECT_THAT(tokens.classes, ElementsAre(0, 0, 1, 2, 3));
  EXPECT_THAT(tokens.copies, ElementsAre(3, 1, 1, 1, 1));
  EXPECT_THAT(tokens.begin, ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(tokens.token_of, ElementsAre(0, 0, 0, 1, 2, 3, 4));
  // Without attention there are no segments.
  const agents::GraphTokens of_mlp =
      agents::FindTokens(Pairs(), {.layers = 1, .context = agents::Context::kMlp, .segment = 3});
  EXPECT_THAT(of_mlp.begin, ElementsAre(0, 4));
  // Unmerged, every node is a token.
  const agents::GraphTokens every = agents::FindTokens(Pairs(), {.layers = 1, .segment = 3}, /*merge=*/false);
  EXPECT_THAT(every.token_of, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(every.begin, ElementsAre(0, 3, 6, 7));
  EXPECT_EQ(every.neighbours, Pairs().neighbours);
}

}  // namespace
}  // namespace emplace
