#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "sim/groupers/group_graph.h"
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
  // a -100-> b -1-> c -50-> d. d sends nothing (0 bytes) and has no successor: it merges with its predecessor c. That
  // leaves a, b, {c, d}; now {c, d} sends nothing, so it merges with b.
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
  // s -5-> x, s -9-> y, x -100-> y, y -100-> z. z sends nothing, but only a CPU can run it, and only a GPU the others.
  // So z stays, and so does y, whose only successor is z. s is next: its heaviest neighbour is y (9), but s -> x -> y
  // is another path, so s merges with x.
  const auto op = [](const char* name, const char* kind, std::vector<std::string> inputs,
                     const std::vector<std::int64_t>& bytes) {
    OpSpec spec = testing::MakeOp(name, 0, std::move(inputs), bytes);
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

// A slow implementation of the same algorithm: every neighbour is examined each time, and every search counts anew.
class SlowMerger {
 public:
  explicit SlowMerger(const Graph& graph) : groups_(graph), num_ops_(graph.num_ops()) {}

  std::vector<std::size_t> Labels(std::size_t target) {
    for (const bool avoid_cycles : {true, false}) {
      passed_over_.clear();
      while (groups_.num_groups() > target && MergeOne(avoid_cycles)) continue;
    }
    return groups_.Labels();
  }

 private:
  bool MergeOne(bool avoid_cycles) {
    std::vector<std::pair<std::int64_t, std::size_t>> least;
    for (std::size_t op = 0; op < num_ops_; ++op) {
      if (groups_.IsGroup(op) && !passed_over_.contains(op)) least.emplace_back(groups_.output_bytes(op), op);
    }
    std::sort(least.begin(), least.end());
    for (const auto& [bytes, group] : least) {
      const bool forward = !groups_.successors(group).empty();
      std::vector<std::pair<std::int64_t, std::size_t>> heaviest;
      for (const auto& [neighbour, weight] : forward ? groups_.successors(group) : groups_.predecessors(group)) {
        heaviest.emplace_back(-weight, neighbour);
      }
      std::sort(heaviest.begin(), heaviest.end());
      for (const auto& [weight, neighbour] : heaviest) {
        if (!groups_.Compatible(group, neighbour)) continue;
        if (avoid_cycles && (forward ? OtherPath(group, neighbour) : OtherPath(neighbour, group))) continue;
        const std::size_t merged = groups_.Merge(group, neighbour);
        passed_over_.erase(group);
        passed_over_.erase(neighbour);
        for (const auto& [beside, bytes_beside] : groups_.successors(merged)) passed_over_.erase(beside);
        for (const auto& [beside, bytes_beside] : groups_.predecessors(merged)) passed_over_.erase(beside);
        return true;
      }
      passed_over_.insert(group);
    }
    return false;
  }

  bool OtherPath(std::size_t from, std::size_t to) const {
    if (groups_.num_successors(from) == 1 || groups_.num_predecessors(to) == 1) return false;
    std::set<std::size_t> seen = {from};
    std::vector<std::size_t> open = {from};
    for (std::size_t i = 0; i < open.size(); ++i) {
      for (const auto& [next, bytes] : groups_.successors(open[i])) {
        if (next == to && i > 0) return true;
        if (next != to && seen.insert(next).second) open.push_back(next);
        if (seen.size() > 256) return true;  // a longer search is not worth its time
      }
    }
    return false;
  }

  GroupGraph groups_;
  std::size_t num_ops_;
  std::set<std::size_t> passed_over_;
};

std::vector<std::size_t> SlowGroupsOf(const Graph& graph, std::size_t max_groups) {
  const Grouping grouping(graph, SlowMerger(graph).Labels(max_groups));
  std::vector<std::size_t> groups;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) groups.push_back(grouping.group_of(MakeId<OpId>(i)));
  return groups;
}

// Expects the slow way's groups for each number of groups. Returns how many could be compared: the slow implementation
// does not merge groups without neighbours.
std::size_t NumGroupedAsTheSlowWay(const Graph& graph, const std::vector<std::size_t>& targets) {
  std::size_t compared = 0;
  for (const std::size_t target : targets) {
    const std::vector<std::size_t> slow = SlowGroupsOf(graph, target);
    if (*std::max_element(slow.begin(), slow.end()) >= target) continue;
    EXPECT_EQ(GroupsOf(graph, target), slow) << "into " << target;
    ++compared;
  }
  return compared;
}

// An op that reads `fan_in` others, or has `fan_out` readers, with some tensors of equal size, and a few more ops.
Graph HubGraph(Rng& rng, std::size_t fan_in, std::size_t fan_out) {
  std::vector<OpSpec> ops;
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < fan_in; ++i) {
    inputs.push_back("in" + std::to_string(i));
    ops.push_back(testing::MakeOp(inputs.back(), 1, {}, {static_cast<std::int64_t>(rng.Below(20))}));
  }
  ops.push_back(testing::MakeOp("hub", 1, inputs, {static_cast<std::int64_t>(rng.Below(20))}));
  for (std::size_t i = 0; i < fan_out; ++i) {
    ops.push_back(testing::MakeOp("out" + std::to_string(i), 1, {"hub"}, {static_cast<std::int64_t>(rng.Below(20))}));
  }
  ops.push_back(testing::MakeOp("end", 1, fan_out > 1 ? std::vector<std::string>{"out0", "out1"} : inputs));
  return testing::Build(ops);
}

TEST(MergeAndColocateTest, GroupsHubsAsTheSlowWayDoes) {
  Rng rng(73);
  for (int i = 0; i < 30; ++i) {
    const Graph graph = HubGraph(rng, rng.Below(120), rng.Below(120));
    for (const std::size_t target : {std::size_t{1}, 1 + rng.Below(100)}) {
      ASSERT_EQ(GroupsOf(graph, target), SlowGroupsOf(graph, target)) << i << " into " << target;
    }
  }
}

TEST(MergeAndColocateTest, GroupsRandomGraphsAsTheSlowWayDoes) {
  Rng rng(74);
  std::size_t compared = 0;
  for (int i = 0; i < 30; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 120});
    compared += NumGroupedAsTheSlowWay(graph, {100, 80, 60, 40});
    if (HasFailure()) FAIL() << "graph " << i;
  }
  EXPECT_GT(compared, 30U);
}

// Most searches come to more than 256 groups at first, and to fewer when groups are few.
TEST(MergeAndColocateTest, GroupsWhereSearchesAreLongAsTheSlowWayDoesLengthy) {
  Rng rng(75);
  std::size_t compared = 0;
  for (const std::size_t max_inputs : {1U, 2U, 3U}) {
    for (const bool colocated : {false, true}) {
      const Graph graph = testing::RandomDag(rng, {.num_ops = 700, .max_inputs = max_inputs, .colocated = colocated});
      compared += NumGroupedAsTheSlowWay(graph, {500, 300, 200});
      if (HasFailure()) FAIL() << max_inputs << " inputs at most";
    }
  }
  EXPECT_GT(compared, 9U);
}

// `a` and `b` are on a cycle, since the reader of b is colocated with a. From b a search comes to 300 groups, but only
// through a. p goes to b. Then a goes to t, as no other path leads there: all from b pass a.
TEST(MergeAndColocateTest, GroupsOnACycleAsTheSlowWayDoes) {
  std::vector<OpSpec> ops;
  const auto add = [&ops](const std::string& name, std::vector<std::string> inputs,
                          const std::vector<std::int64_t>& bytes, const char* kind = "cpu") {
    ops.push_back(testing::MakeOp(name, 0, std::move(inputs), bytes));
    ops.back().time_micros = std::nullopt;
    ops.back().kind_times = {{kind, 1}};
  };
  add("p", {}, {2, 1});
  add("a", {}, {3, 1});
  add("b", {"p:1", "a:1"}, {100});
  add("reader", {"b"}, {});
  ops.back().colocate_with = "a";
  add("y", {}, {100});
  add("q", {"p:0", "y"}, {100});
  add("z", {"q"}, {}, "gpu");
  add("x", {}, {100});
  add("t", {"a:0", "x"}, {100});
  std::string last = "t";
  for (int i = 0; i < 300; ++i) {
    const std::string name = "c" + std::to_string(i);
    add(name, {last}, {100}, i == 299 ? "gpu" : "cpu");
    last = name;
  }
  const Graph graph = testing::Build(ops);
  const std::size_t groups = ops.size() - 1;
  const std::vector<std::size_t> merged = GroupsOf(graph, groups - 2);
  EXPECT_EQ(merged, SlowGroupsOf(graph, groups - 2));
  const auto group_of = [&](const char* name) { return merged[Index(*graph.FindOp(name))]; };
  EXPECT_EQ(group_of("p"), group_of("b"));
  EXPECT_EQ(group_of("a"), group_of("t"));
}

// Also where some ops have no neighbours, whose merging depends on the target.
TEST(MergeAndColocateTest, GroupsToSeveralNumbersAsOneByOne) {
  Rng rng(61);
  for (std::size_t round = 0; round < 40; ++round) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 10 + 5 * round,
                                                 .max_inputs = 1 + round % 4,
                                                 .kinds_differ = round % 3 == 0,
                                                 .colocated = round % 2 == 0});
    const std::vector<std::size_t> targets = {graph.num_ops() / 2, graph.num_ops() / 3, 4, 1};
    const std::vector<Grouping> groupings = MergeAndColocateToEach(graph, targets);
    ASSERT_EQ(groupings.size(), targets.size());
    for (std::size_t k = 0; k < targets.size(); ++k) {
      std::vector<std::size_t> groups;
      for (std::size_t i = 0; i < graph.num_ops(); ++i) groups.push_back(groupings[k].group_of(MakeId<OpId>(i)));
      EXPECT_EQ(groups, GroupsOf(graph, targets[k])) << round << ' ' << targets[k];
    }
  }
}

TEST(MergeAndColocateTest, ALargeGraphIsGroupedInAMoment) {
  Rng rng(72);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 5000});
  EXPECT_LE(MergeAndColocate(graph, {.max_groups = 256}).num_groups(), 256U);
}

}  // namespace
}  // namespace emplace
