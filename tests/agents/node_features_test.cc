#include "agents/node_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/ops/op_catalog.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

OpSpec Kind(OpSpec op, const std::string& kind, std::vector<std::int64_t> shape = {}) {
  op.kind = kind;
  if (!shape.empty()) op.outputs = {{.size = std::nullopt, .dtype = DType::kF32, .shape = std::move(shape)}};
  return op;
}

// "a" (a matmul) feeds "b" (a relu), which feeds "c" and "d". "c" and "d" are colocated; "d" takes longer.
Graph SomeGraph() {
  OpSpec c = Kind(testing::MakeOp("c", 5, {"b"}), "tanh", {7});
  OpSpec d = Kind(testing::MakeOp("d", 9, {"b"}), "nobody_knows_it", {2, 3});
  d.colocate_with = "c";
  return testing::Build(
      {Kind(testing::MakeOp("a", 1), "matmul", {4, 5}), Kind(testing::MakeOp("b", 2, {"a"}), "relu", {6}), c, d});
}

class NodeFeaturesTest : public ::testing::Test {
 protected:
  NodeFeaturesTest()
      : graph_(SomeGraph()),
        cluster_(testing::MakeCluster(2)),
        costs_(testing::MeasuredCosts(graph_, cluster_)),
        simulator_(graph_, cluster_, costs_, {}),
        env_(graph_, cluster_, costs_, FindGrouper("identity").make(graph_, {}), simulator_),
        nodes_(agents::DescribeNodes(env_)) {}
  Graph graph_;
  Cluster cluster_;
  CostTable costs_;
  Simulator simulator_;
  agents::Environment env_;
  agents::NodeFeatures nodes_;
};

TEST_F(NodeFeaturesTest, ANodeHasTheKindAndShapesOfItsLongestOp) {
  ASSERT_EQ(nodes_.num_nodes(), 3U);
  EXPECT_EQ(nodes_.kinds[0], agents::KindIndex("matmul"));
  EXPECT_EQ(AllOpKinds()[nodes_.kinds[1]].name, "relu");
  EXPECT_EQ(nodes_.kinds[2], agents::NumKinds() - 1);                 // d's
  EXPECT_EQ(agents::KindIndex("onnx::Exp"), agents::NumKinds() - 1);  // kinds of imported models are not distinguished
  EXPECT_THAT(std::vector<float>(nodes_.shapes[2].begin(), nodes_.shapes[2].begin() + 5),
              ElementsAre(2, 3, -1, -1, -1));
  EXPECT_THAT(std::vector<float>(nodes_.shapes[0].begin(), nodes_.shapes[0].begin() + 3), ElementsAre(4, 5, -1));
}

TEST_F(NodeFeaturesTest, AllItsOpsAreCounted) {
  EXPECT_THAT(nodes_.kind_counts[2], ElementsAre(Pair(agents::KindIndex("tanh"), 1), Pair(agents::NumKinds() - 1, 1)));
}

TEST_F(NodeFeaturesTest, NeighboursAreDistinctAndOthers) {
  EXPECT_THAT(nodes_.producers, ElementsAre(IsEmpty(), ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(nodes_.consumers, ElementsAre(ElementsAre(1), ElementsAre(2), IsEmpty()));
  // b reads a's 4 x 5 floats; c and d each read b's 6.
  EXPECT_THAT(nodes_.producer_bytes, ElementsAre(IsEmpty(), ElementsAre(80), ElementsAre(48)));
  EXPECT_THAT(nodes_.consumer_bytes, ElementsAre(ElementsAre(80), ElementsAre(48), IsEmpty()));
}

TEST(BreadthFirstIndexTest, LevelsComeOneAfterTheOther) {
  agents::NodeFeatures nodes;
  nodes.kinds.resize(6);
  // 0 -> 1 -> 2, 0 -> 3 -> 4; 5 has no edges.
  nodes.consumers = {{1, 3}, {2}, {}, {4}, {}, {}};
  nodes.producers = {{}, {0}, {1}, {0}, {3}, {}};
  EXPECT_THAT(agents::BreadthFirstIndex(nodes), ElementsAre(0, 2, 4, 3, 5, 1));
}

TEST(NeighbourIndicesTest, SixProducersThenSixConsumersAscending) {
  agents::NodeFeatures nodes;
  nodes.kinds.resize(9);
  // 0 sends to 1 to 7, in breadth-first order; all but 1 send to 8.
  nodes.consumers = {{1, 2, 3, 4, 5, 6, 7}, {}, {8}, {8}, {8}, {8}, {8}, {8}, {}};
  nodes.producers = {{}, {0}, {0}, {0}, {0}, {0}, {0}, {0}, {7, 2, 3, 4, 5, 6}};
  const auto indices = agents::NeighbourIndices(nodes);
  EXPECT_THAT(indices[0], ElementsAre(-1, -1, -1, -1, -1, -1, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(indices[2], ElementsAre(0, -1, -1, -1, -1, -1, 8, -1, -1, -1, -1, -1));
  EXPECT_THAT(indices[8], ElementsAre(2, 3, 4, 5, 6, 7, -1, -1, -1, -1, -1, -1));
}

TEST(BreadthFirstIndexTest, ACircleOfGroupsIsNumberedToo) {
  agents::NodeFeatures nodes;
  nodes.kinds.resize(2);
  nodes.consumers = {{1}, {0}};
  nodes.producers = {{1}, {0}};
  EXPECT_THAT(agents::BreadthFirstIndex(nodes), ElementsAre(0, 1));
}

}  // namespace
}  // namespace emplace
