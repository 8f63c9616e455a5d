#include "agents/explain/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agents/explain/changes.h"
#include "sim/base/printable.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace::agents {
namespace {

using testing::Build;
using testing::MakeCluster;
using testing::MakeOp;
using testing::MeasuredCosts;
using ::testing::SizeIs;

TEST(WordsTest, ALongNameKeepsItsBeginAndItsEnd) {
  EXPECT_EQ(ShortName("short"), "short");
  EXPECT_EQ(ShortName("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(ShortName("abcdefghijk", 10), "abc...hijk");
  // None of the 8 sequences of two bytes is cut.
  for (std::size_t most = 3; most < 16; ++most) {
    const std::string name = ShortName("éééééééé", most);
    EXPECT_LE(name.size(), most);
    EXPECT_EQ(name, Printable(name)) << most;
  }
}

TEST(WordsTest, OpsAndMovesAreNamedByTheFirstOp) {
  std::vector<OpSpec> specs = {MakeOp("a", 1), MakeOp("b", 1), MakeOp("c", 1)};
  specs[0].layer = specs[1].layer = "m";
  const Graph graph = Build(specs);
  const std::vector<OpId> two = {MakeId<OpId>(0), MakeId<OpId>(1)};
  const std::vector<OpId> three = {MakeId<OpId>(0), MakeId<OpId>(1), MakeId<OpId>(2)};
  EXPECT_EQ(OpsText(graph, std::span(two).first(1)), "a");
  EXPECT_EQ(OpsText(graph, two), "a and 1 more of layer m");
  EXPECT_EQ(OpsText(graph, three), "a and 2 more");
  Move move{.ops = two};
  EXPECT_EQ(MoveText(graph, {.ops = {two[0]}}), "op a");
  move.unit = MoveUnit::kLayer;
  EXPECT_EQ(MoveText(graph, move), "layer m, 2 ops");
  move.unit = MoveUnit::kChainPiece;
  EXPECT_EQ(MoveText(graph, move), "piece of the chain: a and 1 more of layer m");
  move.unit = MoveUnit::kColocationClass;
  EXPECT_EQ(MoveText(graph, move), "colocated a and 1 more of layer m");
}

TEST(WordsTest, PartsSayWhatWaitsForWhat) {
  // gpu:0 runs a 0-10, then b 10-15; b's 2000 bytes reach gpu:1 at 17, where c runs 17-18.
  OpSpec c = MakeOp("c", 1, {"b"});
  c.layer = "end";
  const Graph graph = Build({MakeOp("a", 10), MakeOp("b", 5, {}, {2000}), c});
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  Placement placement(3);
  placement[*graph.FindOp("c")] = MakeId<DeviceId>(1);
  const Simulator simulator(graph, cluster, costs);
  const StepExplanation explained =
      ExplainStep(graph, cluster, costs, placement, simulator.options(), simulator.Record(placement));
  ASSERT_THAT(explained.chain, SizeIs(4));
  EXPECT_EQ(Words(explained.chain[0].kind), "device queue");
  EXPECT_EQ(PartText(graph, explained.chain[0]), "b waits for a");
  EXPECT_EQ(PlaceText(cluster, explained.chain[0].item), "gpu:0");
  EXPECT_EQ(PartText(graph, explained.chain[2]), "b");
  EXPECT_EQ(PlaceText(cluster, explained.chain[2].item), "gpu:0 to gpu:1");
  EXPECT_NE(Meaning(ChainKind::kGap), Meaning(ChainKind::kCompute));

  const std::vector<ChainPart> longest = LongestParts(explained, 2);
  ASSERT_THAT(longest, SizeIs(2));
  EXPECT_EQ(longest[0].length(), Duration(10'000));
  EXPECT_EQ(longest[1].length(), Duration(5000));

  const std::vector<ChainShare> shares = SharesOf(graph, explained);
  ASSERT_THAT(shares, SizeIs(2));
  EXPECT_EQ(shares[0].name, "kind test");
  EXPECT_EQ(shares[0].needed, Duration(7000));
  EXPECT_EQ(shares[0].other, Duration(10'000));
  EXPECT_EQ(shares[1].name, "layer end");
  EXPECT_EQ(shares[1].sum(), Duration(1000));
}

TEST(ChangesTest, ClassesAreWholeAndSorted) {
  OpSpec c = MakeOp("c", 1);
  c.colocate_with = "a";
  const Graph graph = Build({MakeOp("a", 1), MakeOp("b", 1), c});
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Changes changes(graph, cluster, costs);
  EXPECT_THAT(changes.ClassOf(MakeId<OpId>(2)), ::testing::ElementsAre(MakeId<OpId>(0), MakeId<OpId>(2)));
  const std::vector<OpId> ops = {MakeId<OpId>(2), MakeId<OpId>(1), MakeId<OpId>(0)};
  EXPECT_EQ(changes.WithClasses(ops), (std::vector{MakeId<OpId>(0), MakeId<OpId>(1), MakeId<OpId>(2)}));
  EXPECT_TRUE(changes.CanRun(Placement(3), ops));
}

}  // namespace
}  // namespace emplace::agents
