#include "agents/heuristics/megatron.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agents/agent.h"
#include "sim/graph.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace::agents {
namespace megatron_test {

using ::emplace::testing::ErrorOf;
using ::emplace::testing::MakeOp;

// An embedding, `blocks` blocks and a loss of each of 2 replicas with 2 parts.
Graph MakeRanks(int blocks) {
  GraphBuilder builder("ranks");
  for (const std::string replica : {"r0/", "r1/"}) {
    for (const std::string part : {"t0/", "t1/"}) {
      const std::string prefix = replica + part;
      std::string before;
      const auto add = [&](const std::string& layer) {
        OpSpec spec = MakeOp(prefix + layer, 1, before.empty() ? std::vector<std::string>{} : std::vector{before}, {1});
        spec.layer = layer;
        builder.Add(spec);
        before = prefix + layer;
      };
      add("embedding");
      for (int block = 0; block < blocks; ++block) add("block" + std::to_string(block));
      add("loss");
    }
  }
  builder.SetMetadata(R"({"parallel":{"data":2,"tensor":2,"expert":1}})");
  return builder.Build();
}

struct Placed {
  Graph graph;
  Placement placement;
  std::size_t Of(const std::string& name) const { return Index(placement[*graph.FindOp(name)]); }
};

Placed Place(const Graph& graph, std::size_t devices, const OptionMap& options = {}) {
  return {graph, testing::FirstProposal(MakeMegatronAgent, options, graph, testing::MakeCluster(devices))};
}

TEST(MegatronTest, ModulesAreInTheStageOfTheirLayer) {
  GraphBuilder builder("modules");
  std::string before;
  for (const std::string layer :
       {"model.embed_tokens", "model.layers.0.self_attn.q_proj", "model.layers.1.mlp", "model.layers.1", "lm_head"}) {
    OpSpec spec = MakeOp(layer, 1, before.empty() ? std::vector<std::string>{} : std::vector{before}, {1});
    spec.layer = layer;
    builder.Add(spec);
    before = layer;
  }
  const Placed placed = Place(builder.Build(), 2);
  EXPECT_EQ(placed.Of("model.embed_tokens"), 0U);
  EXPECT_EQ(placed.Of("model.layers.0.self_attn.q_proj"), 0U);
  EXPECT_EQ(placed.Of("model.layers.1.mlp"), 1U);
  EXPECT_EQ(placed.Of("model.layers.1"), 1U);
  EXPECT_EQ(placed.Of("lm_head"), 1U);
}

TEST(MegatronTest, PartsAreNeighboursThenReplicasThenStages) {
  const Placed placed = Place(MakeRanks(4), 8);
  EXPECT_EQ(placed.Of("r0/t0/embedding"), 0U);
  EXPECT_EQ(placed.Of("r0/t1/block0"), 1U);
  EXPECT_EQ(placed.Of("r1/t0/block1"), 2U);
  EXPECT_EQ(placed.Of("r0/t0/block2"), 4U);
  EXPECT_EQ(placed.Of("r1/t1/block3"), 7U);
  EXPECT_EQ(placed.Of("r1/t1/loss"), 7U);
}

TEST(MegatronTest, ChunksGoRoundOrBack) {
  const Placed looped = Place(MakeRanks(4), 8, {{"chunks", "2"}});
  EXPECT_EQ(looped.Of("r0/t0/block1"), 4U);
  EXPECT_EQ(looped.Of("r0/t0/block2"), 0U);
  EXPECT_EQ(looped.Of("r0/t0/loss"), 4U);
  const Placed folded = Place(MakeRanks(4), 8, {{"chunks", "2"}, {"fold", "true"}});
  EXPECT_EQ(folded.Of("r0/t0/block2"), 4U);
  EXPECT_EQ(folded.Of("r0/t0/loss"), 0U);
}

TEST(MegatronTest, FewerStagesThanDevicesAndBlocksThatDoNotDivide) {
  const Placed placed = Place(MakeRanks(3), 8, {{"pipeline", "1"}});
  EXPECT_EQ(placed.Of("r0/t0/block2"), 0U);
  const Placed three = Place(MakeRanks(3), 8);
  EXPECT_EQ(three.Of("r0/t0/block1"), 0U);
  EXPECT_EQ(three.Of("r0/t0/block2"), 4U);
}

TEST(MegatronTest, AGraphWithoutBlocksIsCutByTime) {
  const Placed placed = Place(testing::MakeChain(4, 1, 1), 2);
  EXPECT_EQ(placed.Of("op1"), 0U);
  EXPECT_EQ(placed.Of("op2"), 1U);
}

TEST(MegatronTest, StrangeNamesAndMetadataAreNoRanks) {
  const auto place = [](const std::string& name, const std::string& layer, const std::string& metadata) {
    OpSpec spec = MakeOp(name, 1, {}, {1});
    spec.layer = layer;
    GraphBuilder builder("strange");
    builder.Add(spec);
    builder.SetMetadata(metadata);
    return ErrorOf([&] { Place(builder.Build(), 4); });
  };
  const std::string two = R"({"parallel":{"data":2}})";
  EXPECT_EQ(place("r-5/o", "block0", two),
            "megatron: needs 2 blocks, one for each stage (the graph has 1 layers block0 ..)");
  EXPECT_EQ(place("o", "block-7", two), "(no error)");
  EXPECT_EQ(place("o", "block9223372036854775807", two), "(no error)");
  EXPECT_EQ(place("r7/o", "block3", two), "megatron: \"r7/o\" is of a rank that the graph's metadata do not have");
  EXPECT_EQ(place("o", "block0", R"({"parallel":{"data":4611686018427387904,"tensor":4,"expert":4}})"),
            "megatron: needs 16777216 accelerators for 1 stages, 1048576 replicas and 16 parts (the cluster has 4)");
}

TEST(MegatronTest, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(ErrorOf([] { Place(MakeRanks(2), 3); }),
            "megatron: needs 4 accelerators for 1 stages, 2 replicas and 2 parts (the cluster has 3)");
  EXPECT_EQ(ErrorOf([] { Place(MakeRanks(1), 8); }),
            "megatron: needs 2 blocks, one for each stage (the graph has 1 layers block0 ..)");
}

}  // namespace megatron_test
}  // namespace emplace::agents
