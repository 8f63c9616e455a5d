#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "datasets/synthetic/registry.h"
#include "sim/base/check.h"
#include "sim/bounds.h"
#include "sim/cluster.h"
#include "sim/simulator.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::testing::HasSubstr;

Graph Make(std::string_view kind, const OptionMap& options = {}) {
  return datasets::MakeSyntheticGraph(kind, options, "test").graph;
}

std::size_t NumEdges(const Graph& graph) {
  std::size_t edges = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    edges += graph.inputs(MakeId<OpId>(i)).size() + graph.control_inputs(MakeId<OpId>(i)).size();
  }
  return edges;
}

std::size_t NumRoots(const Graph& graph) {
  std::size_t roots = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    roots += graph.inputs(op).empty() && graph.control_inputs(op).empty() ? 1 : 0;
  }
  return roots;
}

TEST(SyntheticTest, TheSameSeedGivesTheSameBytesAndAnotherSeedOthers) {
  std::set<std::string_view> names;
  for (const datasets::SyntheticEntry& entry : datasets::AllSyntheticGraphs()) {
    EXPECT_TRUE(names.insert(entry.name).second);
    EXPECT_FALSE(entry.summary.empty());
    EXPECT_FALSE(entry.source.empty());
    const std::string text = testing::GraphText(Make(entry.name, {{"seed", "5"}}));
    EXPECT_EQ(text, testing::GraphText(Make(entry.name, {{"seed", "5"}}))) << entry.name;
    EXPECT_NE(text, testing::GraphText(Make(entry.name, {{"seed", "6"}}))) << entry.name;
  }
  EXPECT_EQ(datasets::FindSyntheticGraph("chain").name, "chain");
  EXPECT_THROW(datasets::FindSyntheticGraph("star"), InputError);
}

// Frozen: a change of these bytes changes the instances of the library.
TEST(SyntheticTest, AChainIsTheSameOnEveryMachine) {
  EXPECT_EQ(testing::GraphText(Make("chain", {{"ops", "2"}, {"seed", "7"}, {"speeds", "unrelated"}})),
            R"({"schema": "emplace.graph", "version": 1, "name": "test",
 "ops": [
  {"name": "f000000", "kind": "work", "outputs": [28000], "time_us": {"fast": 181.77, "slow": 164.25, "host": 45.26}},
  {"name": "f000001", "kind": "work", "inputs": ["f000000:0"], "outputs": [41000], "time_us": {"fast": 37.43, "slow": 45.22, "host": 43.13}}]}
)");
}

TEST(SyntheticTest, ShapesHaveTheOpsAndEdgesThatTheirNamesSay) {
  struct Shape {
    const char* kind;
    OptionMap options;
    std::size_t ops, edges, roots;
  };
  const Shape shapes[] = {
      {"chain", {{"ops", "10"}}, 10, 9, 1},
      {"chain", {{"ops", "10"}, {"chains", "3"}}, 10, 7, 3},
      {"independent", {{"ops", "10"}}, 10, 0, 10},
      {"fork_join", {{"branches", "4"}, {"depth", "2"}}, 10, 12, 1},
      {"fork_join", {{"stages", "2"}, {"branches", "3"}}, 9, 12, 1},
      {"tree", {{"ops", "15"}}, 15, 14, 8},
      {"tree", {{"ops", "15"}, {"inward", "false"}}, 15, 14, 1},
      {"tree", {{"ops", "13"}, {"arity", "3"}}, 13, 12, 9},
      {"grid", {{"layers", "3"}, {"steps", "5"}}, 15, 3 * 4 + 2 * 5, 1},
      // Each block: project, heads, mixed, added, wide, stream; 1 + 2 h + 2 + 1 + 2 edges.
      {"transformer", {{"blocks", "2"}, {"heads", "3"}}, 1 + 2 * 8, std::size_t{2} * 12, 1},
      {"butterfly", {{"points", "8"}}, 32, std::size_t{3} * 8 * 2, 8},
      // Pivots of 4 rows: 3; updates 3 + 2 + 1, each reads a pivot; all but the first step's read their column too, and
      // so do two pivots.
      {"elimination", {{"size", "4"}}, 9, 6 + 3 + 2, 1},
      {"layered", {{"ops", "20"}, {"max_inputs", "1"}, {"width", "1"}}, 20, 19, 1},
  };
  for (const Shape& shape : shapes) {
    const Graph graph = Make(shape.kind, shape.options);
    EXPECT_EQ(graph.num_ops(), shape.ops) << shape.kind;
    EXPECT_EQ(NumEdges(graph), shape.edges) << shape.kind;
    EXPECT_EQ(NumRoots(graph), shape.roots) << shape.kind;
  }
}

TEST(SyntheticTest, PercentagesOfAHundredTakeEveryOp) {
  const Graph zero = Make("layered", {{"zero_percent", "100"}});
  const Graph control = Make("layered", {{"control_percent", "100"}});
  const Graph together = Make("layered", {{"colocate_percent", "100"}});
  const Graph missing = Make("layered", {{"missing_percent", "100"}, {"speeds", "related"}});
  for (std::size_t i = 0; i < zero.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    EXPECT_EQ(zero.op(op).time_micros, 0);
    EXPECT_TRUE(control.inputs(op).empty());
    EXPECT_EQ(together.colocation_class(op), MakeId<OpId>(0));
    EXPECT_EQ(missing.op(op).kind_times.size(), 2U);
  }
  EXPECT_GT(NumEdges(control), 0U);
}

TEST(SyntheticTest, ColocatedOpsHaveTimesOnTheSameKinds) {
  const Graph graph =
      Make("layered", {{"ops", "200"}, {"colocate_percent", "50"}, {"missing_percent", "60"}, {"speeds", "unrelated"}});
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    for (const char* const kind : {"fast", "slow", "host"}) {
      EXPECT_EQ(graph.MeasuredMicros(op, kind).has_value(),
                graph.MeasuredMicros(graph.colocation_class(op), kind).has_value());
    }
  }
}

TEST(SyntheticTest, TrainingAddsABackwardOpForEachAndUpdatesOfWhatHoldsMemory) {
  const Graph graph = Make("chain", {{"ops", "3"}, {"training", "true"}, {"persistent_kb", "1000"}});
  std::size_t updates = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    if (graph.op(op).pass == Pass::kUpdate) {
      ++updates;
      EXPECT_EQ(graph.colocation_class(op),
                graph.colocation_class(*graph.FindOp("f" + std::string(graph.op(op).name.substr(1)))));
    }
  }
  EXPECT_EQ(graph.num_ops(), 6 + updates);
  // The backward op of the first reads its forward op and the backward op of its reader.
  const OpId last = *graph.FindOp("g000000");
  EXPECT_EQ(graph.inputs(last).size(), 2U);
  EXPECT_EQ(*graph.op(last).time_micros, 2 * *graph.op(*graph.FindOp("f000000")).time_micros);
}

TEST(SyntheticTest, WrongOptionsAreRefused) {
  const auto message = [](std::string_view kind, const OptionMap& options) {
    try {
      Make(kind, options);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message("chain", {{"min_us", "5"}, {"max_us", "4"}}), HasSubstr("min_us: is above max_us"));
  EXPECT_THAT(message("chain", {{"min_kb", "5"}, {"max_kb", "4"}}), HasSubstr("min_kb: is above max_kb"));
  EXPECT_THAT(message("chain", {{"speeds", "odd"}}), HasSubstr("equal, related, unrelated"));
  EXPECT_THAT(message("butterfly", {{"points", "6"}}), HasSubstr("points is not a power of two"));
  EXPECT_THAT(message("planted", {{"makespan_us", "10"}}), HasSubstr("makespan_us: is 10 (at least 200"));
  EXPECT_THAT(message("fork_join", {{"branches", "10000"}, {"depth", "10000"}}), HasSubstr("more than a million ops"));
  EXPECT_THAT(message("chain", {{"width", "3"}}), HasSubstr("width"));
}

// No placement beats work / devices, and the planned one reaches it.
TEST(SyntheticTest, APlantedPlacementTakesTheStepTimeThatWasPlanned) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const std::string breaks = std::to_string(seed % 5 * 20);
    const datasets::SyntheticGraph made = datasets::MakeSyntheticGraph("planted",
                                                                       {{"seed", std::to_string(seed)},
                                                                        {"devices", "4"},
                                                                        {"ops", "30"},
                                                                        {"makespan_us", "1500"},
                                                                        {"max_kb", "19"},
                                                                        {"cross_percent", "80"},
                                                                        {"breaks_percent", breaks}},
                                                                       "planted");
    // 1,000 bytes take 1 us: a transfer of 19 kB and the latency of 1 us take min_us.
    const Cluster cluster = testing::MakeCluster(4, {.bandwidth_gb_per_s = 1, .latency_micros = 1, .gap_micros = 0});
    const CostTable costs = testing::MeasuredCosts(made.graph, cluster);
    Placement placement(made.graph.num_ops());
    for (std::size_t i = 0; i < made.planted.size(); ++i) {
      placement[made.graph.file_order()[i]] = MakeId<DeviceId>(made.planted[i]);
    }
    EXPECT_EQ(Simulator(made.graph, cluster, costs).Run(placement).step_time_micros, 1500) << seed;
    EXPECT_EQ(ComputeBounds(made.graph, cluster, costs).lower_bound_micros, 1500);
    EXPECT_EQ(made.planted_micros, 1500);
  }
}

TEST(SyntheticTest, SpecialisedPlantedOpsAreFastestWhereTheyArePlanned) {
  const datasets::SyntheticGraph made =
      datasets::MakeSyntheticGraph("planted", {{"devices", "4"}, {"specialised", "true"}}, "planted");
  for (std::size_t i = 0; i < made.planted.size(); ++i) {
    const OpId op = made.graph.file_order()[i];
    const double fast = *made.graph.MeasuredMicros(op, "fast");
    const double slow = *made.graph.MeasuredMicros(op, "slow");
    EXPECT_TRUE(made.planted[i] < 2 ? fast <= slow : slow <= fast);
  }
}

}  // namespace
}  // namespace emplace
