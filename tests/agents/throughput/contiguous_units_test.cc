#include "agents/throughput/contiguous_units.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

using agents::ContiguousUnits;

OpSpec Backward(OpSpec spec, std::string with = "") {
  spec.pass = Pass::kBackward;
  spec.colocate_with = std::move(with);
  return spec;
}

OpSpec InLayer(OpSpec spec, std::string layer) {
  spec.layer = std::move(layer);
  return spec;
}

ContiguousUnits UnitsOf(const Graph& graph, const agents::UnitOptions& options = {}) {
  const Cluster cluster = MakeCluster(2);
  return agents::MakeContiguousUnits(graph, ColocationClasses(graph),
                                     agents::MakeStageCosts(graph, cluster, MeasuredCosts(graph, cluster)), options);
}

std::size_t UnitOf(const ContiguousUnits& units, const Graph& graph, std::string_view op) {
  return units.unit_of[Index(graph.FindOp(op).value())];
}

TEST(ContiguousUnitsTest, FollowTheEdges) {
  const Graph graph = MakeDiamond(1, 1);
  const ContiguousUnits units = UnitsOf(graph);
  ASSERT_EQ(units.size(), 4U);
  EXPECT_EQ(units.unit_of, (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(units.before, (std::vector<std::vector<std::size_t>>{{}, {0}, {0}, {1, 2}}));
}

TEST(ContiguousUnitsTest, AreNumberedDepthFirst) {
  // Two chains: the first is done before the second.
  const ContiguousUnits units =
      UnitsOf(Build({MakeOp("a", 1), MakeOp("b", 1), MakeOp("c", 1, {"a"}), MakeOp("d", 1, {"b"})}));
  EXPECT_EQ(units.unit_of, (std::vector<std::size_t>{0, 2, 1, 3}));
}

TEST(ContiguousUnitsTest, GroupsOnACycleAreOne) {
  OpSpec last = MakeOp("c", 1, {"b"});
  last.colocate_with = "a";
  const Graph graph = Build({MakeOp("a", 1), MakeOp("b", 1, {"a"}), last, MakeOp("d", 1, {"c"})});
  const ContiguousUnits units = UnitsOf(graph);
  EXPECT_EQ(units.size(), 2U);
  EXPECT_EQ(UnitOf(units, graph, "b"), UnitOf(units, graph, "a"));
  EXPECT_EQ(UnitOf(units, graph, "c"), UnitOf(units, graph, "a"));
  EXPECT_EQ(units.before, (std::vector<std::vector<std::size_t>>{{}, {0}}));
}

TEST(ContiguousUnitsTest, TheBackwardHalfFollowsTheForwardHalf) {
  const Graph graph =
      Build({MakeOp("a", 1), MakeOp("b", 1, {"a"}), MakeOp("c", 1, {"b"}), Backward(MakeOp("dc", 1, {"c"}), "c"),
             Backward(MakeOp("db", 1, {"dc"}), "b"), Backward(MakeOp("da", 1, {"db"}), "a")});
  const ContiguousUnits units = UnitsOf(graph);
  EXPECT_EQ(units.before, (std::vector<std::vector<std::size_t>>{{}, {0}, {1}}));
  for (const char* const name : {"a", "b", "c"}) {
    EXPECT_EQ(UnitOf(units, graph, "d" + std::string(name)), UnitOf(units, graph, name));
  }
}

TEST(ContiguousUnitsTest, GradientsWithoutAForwardOpAreMirrored) {
  // a -> b -> db -> x -> da, where x shares no group: on the way forward it is between a and b.
  const Graph graph = Build({MakeOp("a", 1), MakeOp("b", 1, {"a"}), Backward(MakeOp("db", 1, {"b"}), "b"),
                             Backward(MakeOp("x", 1, {"db"})), Backward(MakeOp("da", 1, {"x"}), "a")});
  const ContiguousUnits units = UnitsOf(graph);
  ASSERT_EQ(units.size(), 3U);
  EXPECT_EQ(UnitOf(units, graph, "a"), 0U);
  EXPECT_EQ(UnitOf(units, graph, "x"), 1U);
  EXPECT_EQ(units.before, (std::vector<std::vector<std::size_t>>{{}, {0}, {0, 1}}));
}

TEST(ContiguousUnitsTest, GradientsGoWithTheirLayer) {
  const Graph graph =
      Build({InLayer(MakeOp("a", 1), "l0"), InLayer(MakeOp("b", 1, {"a"}), "l0"), InLayer(MakeOp("c", 1, {"b"}), "l1"),
             Backward(InLayer(MakeOp("dc", 1, {"c"}), "l1")), Backward(InLayer(MakeOp("db", 1, {"dc"}), "l0"))});
  const ContiguousUnits units = UnitsOf(graph, {.layers = agents::LayerUnits::kGradients});
  ASSERT_EQ(units.size(), 3U);
  EXPECT_EQ(UnitOf(units, graph, "db"), UnitOf(units, graph, "b"));
  EXPECT_EQ(UnitOf(units, graph, "dc"), UnitOf(units, graph, "c"));
  EXPECT_EQ(UnitsOf(graph, {.layers = agents::LayerUnits::kApart}).size(), 5U);
  const ContiguousUnits together = UnitsOf(graph, {.layers = agents::LayerUnits::kTogether});
  EXPECT_EQ(together.before, (std::vector<std::vector<std::size_t>>{{}, {0}}));
  EXPECT_EQ(UnitOf(together, graph, "db"), UnitOf(together, graph, "a"));
}

TEST(ContiguousUnitsTest, LayersOnACycleAreBrokenWhereItTakesTheFewest) {
  // The layer "shared" begins and ends a chain of two layers, and is read by both.
  const Graph graph = Build({InLayer(MakeOp("a", 1), "shared"), InLayer(MakeOp("b", 1, {"a"}), "l0"),
                             InLayer(MakeOp("c", 1, {"b", "a"}), "l0"), InLayer(MakeOp("d", 1, {"c", "a"}), "l1"),
                             InLayer(MakeOp("e", 1, {"d"}), "l1"), InLayer(MakeOp("f", 1, {"e"}), "shared")});
  const ContiguousUnits units = UnitsOf(graph, {.layers = agents::LayerUnits::kTogether});
  EXPECT_EQ(units.unit_of, (std::vector<std::size_t>{0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(units.before, (std::vector<std::vector<std::size_t>>{{}, {0}, {0, 1}, {2}}));
}

TEST(ContiguousUnitsTest, WhatAForwardOpWaitsForIsForward) {
  // Named a gradient, but b needs it.
  const Graph graph = Build({MakeOp("a", 1), Backward(MakeOp("g", 1, {"a"})), MakeOp("b", 1, {"g"})});
  EXPECT_EQ(UnitsOf(graph).before, (std::vector<std::vector<std::size_t>>{{}, {0}, {1}}));
  // Where all ops are of the backward pass, their order is what there is.
  const Graph backward = Build({Backward(MakeOp("a", 1)), Backward(MakeOp("b", 1, {"a"}))});
  EXPECT_EQ(UnitsOf(backward).before, (std::vector<std::vector<std::size_t>>{{}, {0}}));
}

TEST(ContiguousUnitsTest, FreeOpsJoinTheirOnlyNeighbour) {
  // w1 and w2 take no time; w2 has one reader once w1 has joined it. x has two readers.
  const Graph graph = Build({MakeOp("w1", 0), MakeOp("w2", 0, {"w1"}), MakeOp("x", 0), MakeOp("a", 1, {"w2", "x"}),
                             MakeOp("b", 1, {"a", "x"})});
  const ContiguousUnits units = UnitsOf(graph);
  EXPECT_EQ(units.size(), 3U);
  EXPECT_EQ(UnitOf(units, graph, "w1"), UnitOf(units, graph, "a"));
  EXPECT_EQ(UnitOf(units, graph, "w2"), UnitOf(units, graph, "a"));
  EXPECT_NE(UnitOf(units, graph, "x"), UnitOf(units, graph, "a"));
  EXPECT_EQ(UnitsOf(graph, {.join_free = false}).size(), 5U);
}

TEST(ContiguousUnitsTest, AnEmptyGraphHasNone) { EXPECT_EQ(UnitsOf(Graph()).size(), 0U); }

}  // namespace
}  // namespace emplace::testing
