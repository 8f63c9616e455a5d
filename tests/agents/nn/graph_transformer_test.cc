#include "agents/nn/graph_transformer.h"

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

}  // namespace
}  // namespace emplace
