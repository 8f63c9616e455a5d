#include <gtest/gtest.h>

#include <vector>

#include "sim/groupers/groupers.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

std::vector<std::size_t> GroupsOf(const Graph& graph, std::size_t max_groups) {
  const Grouping grouping = MergeAndColocate(graph, {.max_groups = max_groups});
  std::vector<std::size_t> groups;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) groups.push_back(grouping.group_of(MakeId<OpId>(i)));
  return groups;
}

TEST(MergeAndColocateTest, TheGroupWithTheFewestOutputBytesGoesToItsSuccessor) {
  // a -100-> b -1-> c -50-> d. d sends nothing (0 bytes) and has no successor: it goes to its predecessor c. That
  // leaves a, b, {c, d}; now {c, d} sends nothing, so it goes to b.
  GraphBuilder builder("g");
  builder.Add(testing::MakeOp("a", 1, {}, {100}));
  builder.Add(testing::MakeOp("b", 1, {"a"}, {1}));
  builder.Add(testing::MakeOp("c", 1, {"b"}, {50}));
  builder.Add(testing::MakeOp("d", 1, {"c"}));
  const Graph graph = builder.Build();
  EXPECT_EQ(GroupsOf(graph, 4), (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(GroupsOf(graph, 3), (std::vector<std::size_t>{0, 1, 2, 2}));
  EXPECT_EQ(GroupsOf(graph, 2), (std::vector<std::size_t>{0, 1, 1, 1}));
  EXPECT_EQ(GroupsOf(graph, 1), (std::vector<std::size_t>{0, 0, 0, 0}));
}

TEST(MergeAndColocateTest, AMergeThatWouldCloseACycleIsPassedOver) {
  // s -5-> x, s -9-> y, x -100-> y, y -100-> z. z sends nothing, but only a CPU can hold it, and only a GPU the others:
  // z stays, and so does y, whose one successor is z. s comes next: its heaviest neighbour is y (9), but
  // s -> x -> y is another path, so it goes to x.
  const auto op = [](const char* name, const char* kind, std::vector<std::string> inputs,
                     std::vector<std::int64_t> bytes) {
    OpSpec spec = testing::MakeOp(name, 0, std::move(inputs), std::move(bytes));
    spec.time_micros = std::nullopt;
    spec.kind_times = {{kind, 1}};
    return spec;
  };
  const Graph graph = testing::Build({op("s", "gpu", {}, {5, 9}), op("x", "gpu", {"s:0"}, {100}),
                                      op("y", "gpu", {"s:1", "x"}, {100}), op("z", "cpu", {"y"}, {})});
  EXPECT_EQ(GroupsOf(graph, 3), (std::vector<std::size_t>{0, 0, 1, 2}));
}

TEST(MergeAndColocateTest, OpsWithoutEdgesAreMergedToo) {
  GraphBuilder builder("g");
  for (const char* const name : {"a", "b", "c", "d", "e"}) builder.Add(testing::MakeOp(name, 1));
  const Graph graph = builder.Build();
  EXPECT_EQ(MergeAndColocate(graph, {.max_groups = 2}).num_groups(), 2U);
}

TEST(MergeAndColocateTest, ReachesTheTargetOnRandomGraphs) {
  Rng rng(71);
  for (int i = 0; i < 50; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 200});
    const std::size_t target = 1 + rng.Below(100);
    ASSERT_LE(MergeAndColocate(graph, {.max_groups = target}).num_groups(), target);
  }
}

TEST(MergeAndColocateTest, ALargeGraphIsGroupedInAMoment) {
  Rng rng(72);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 5000});
  EXPECT_LE(MergeAndColocate(graph, {.max_groups = 256}).num_groups(), 256U);
}

}  // namespace
}  // namespace emplace
