#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "sim/base/check.h"
#include "sim/groupers/groupers.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/modules.h"

namespace emplace::testing {
namespace {

std::size_t GroupOf(const Graph& graph, const Grouping& grouping, std::string_view op) {
  return grouping.group_of(*graph.FindOp(op));
}

TEST(ModulesGrouperTest, ABlockAroundAResidualConnectionIsWhole) {
  const Graph graph = MakeLanguageModel(2);
  const WholeModules whole = FindWholeModules(graph);
  std::set<std::string_view> modules(whole.module_of_op.begin(), whole.module_of_op.end());
  modules.erase("");
  EXPECT_THAT(modules, ::testing::ElementsAre("head", "m.embed", "m.layers.0", "m.layers.1", "m.norm", "m.rotary"));
  const Grouping& grouping = whole.grouping;
  EXPECT_EQ(GroupOf(graph, grouping, "m.layers.0.up/mm"), GroupOf(graph, grouping, "m.layers.0/add"));
  EXPECT_EQ(GroupOf(graph, grouping, "m.layers.0.up/mm"), GroupOf(graph, grouping, "m.layers.0.down/backward"));
  EXPECT_NE(GroupOf(graph, grouping, "m.layers.0/add"), GroupOf(graph, grouping, "m.layers.1/add"));
}

TEST(ModulesGrouperTest, OwnOpsOfADividedModelRunWhereTheirInputsAre) {
  const Graph graph = MakeLanguageModel(2);
  const Grouping grouping = FindWholeModules(graph).grouping;
  EXPECT_EQ(GroupOf(graph, grouping, "loss"), GroupOf(graph, grouping, "head/mm"));
  EXPECT_EQ(grouping.num_groups(), 5U);  // embed, two layers, norm, head
}

TEST(ModulesGrouperTest, WhatIsComputedFromDataAloneIsWithItsFirstReader) {
  const Graph graph = MakeLanguageModel(3);
  const Grouping grouping = FindWholeModules(graph).grouping;
  EXPECT_EQ(GroupOf(graph, grouping, "m/mask"), GroupOf(graph, grouping, "m.layers.0/mul"));
  EXPECT_EQ(GroupOf(graph, grouping, "m.rotary/cos"), GroupOf(graph, grouping, "m.layers.0/mul"));
}

TEST(ModulesGrouperTest, ModulesThatShareAWeightAreOneGroup) {
  const Graph graph = MakeLanguageModel(2, /*tied=*/true);
  const Grouping grouping = FindWholeModules(graph).grouping;
  EXPECT_EQ(GroupOf(graph, grouping, "head/mm"), GroupOf(graph, grouping, "m.embed/embedding"));
  EXPECT_EQ(grouping.num_groups(), 4U);
}

TEST(ModulesGrouperTest, ClassesThatTheMetadataKeepsWholeAreWhole) {
  Graph graph = MakeLanguageModel(2);
  graph.SetMetadata(R"({"torch": {"modules": {"m": "Decoder", "m.norm": "Norm"}, "keep_whole": ["Decoder"]}})");
  const Grouping grouping = FindWholeModules(graph).grouping;
  EXPECT_EQ(GroupOf(graph, grouping, "m.embed/embedding"), GroupOf(graph, grouping, "m.norm/norm"));
  EXPECT_EQ(grouping.num_groups(), 2U);  // the decoder and the head
}

TEST(ModulesGrouperTest, LayersAreNumberedBlocks) {
  EXPECT_EQ(NumberedBlock("model.layers.3.mlp.experts.7"), "model.layers.3");
  EXPECT_EQ(NumberedBlock("layers.12"), "layers.12");
  EXPECT_EQ(NumberedBlock("model.norm1"), "");
  const Graph graph = MakeLanguageModel(2);
  const Grouping grouping = GroupByBlock(graph);
  EXPECT_EQ(grouping.num_groups(), 5U);
  EXPECT_EQ(GroupOf(graph, grouping, "m.layers.1.norm/norm"), GroupOf(graph, grouping, "m.layers.1.up/mm"));
}

TEST(ModulesGrouperTest, AGraphWithoutLayersIsRefused) {
  EXPECT_THAT(ErrorOf([] { FindWholeModules(MakeChain(3, 1, 1)); }), ::testing::HasSubstr("no op has a layer"));
}

}  // namespace
}  // namespace emplace::testing
