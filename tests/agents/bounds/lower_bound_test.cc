#include "agents/bounds/lower_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "sim/base/rng.h"
#include "sim/bounds.h"
#include "sim/formats/result_json.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

TEST(LowerBoundTest, TheBestIsTheLargestAndOfEqualsTheFirst) {
  const std::vector<agents::Bound> bounds = {{"a", 3}, {"b", 5}, {"c", 5}};
  EXPECT_EQ(agents::Best(bounds).method, "b");
}

TEST(LowerBoundTest, QuickBoundsAreAtLeastTheSimpleOne) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    const Graph graph = RandomDag(rng, {.num_ops = 300, .kinds_differ = seed % 2 == 0});
    const Cluster cluster = seed % 2 == 0 ? MakeMixedCluster(3) : MakeCluster(4);
    const CostTable costs = MeasuredCosts(graph, cluster);
    EXPECT_GE(agents::Best(agents::QuickBounds(graph, cluster, costs)).nanos + 1,
              DurationFromMicros(ComputeBounds(graph, cluster, costs).critical_path_micros).count());
  }
}

TEST(LowerBoundTest, OneThreadIssuesAllOps) {
  // Ten ops of 1 us that need nothing of each other, issued in 3 us each by one thread, or by one of each device.
  std::vector<OpSpec> ops;
  ops.reserve(10);
  for (int i = 0; i < 10; ++i) ops.push_back(testing::MakeOp("op" + std::to_string(i), 1));
  const Graph graph = testing::Build(ops);
  std::vector<Device> devices = testing::MakeCluster(2).devices();
  for (Device& device : devices) device.issue = IssueLane{.lane = "one", .host_micros = 3};
  const auto bound = [&] {
    const Cluster cluster = Cluster::Uniform("fed", devices, {.bandwidth_gb_per_s = 1});
    return agents::FindLowerBound(graph, cluster, testing::MeasuredCosts(graph, cluster), "fifo");
  };
  EXPECT_EQ(bound().micros, 30);
  EXPECT_EQ(bound().method, "issue lanes");
  for (Device& device : devices) device.issue->lane = "";
  EXPECT_EQ(bound().micros, 15);
  devices[0].issue.reset();
  devices[0].kind = "other";
  EXPECT_EQ(bound().method, "work");
}

TEST(LowerBoundTest, ResultsSayTheBestThatWasProved) {
  Rng rng(4);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 30});
  const Cluster cluster = testing::MakeCluster(3);
  const CostTable costs = testing::MeasuredCosts(graph, cluster);
  for (const std::string engine : {"fifo", "flow", "placeto-reference"}) {
    const StepResult result = Simulator(graph, cluster, costs, {.engine = engine}).Run(Placement(30));
    StepReport report = MakeStepReport(graph, cluster, costs, Placement(30), engine, result);
    const double simple = report.lower_bound_micros;
    agents::AddLowerBound(graph, cluster, costs, &report);
    EXPECT_GE(report.lower_bound_micros, simple) << engine;
    EXPECT_LE(report.lower_bound_micros, result.step_time_micros) << engine;
    EXPECT_FALSE(report.lower_bound_method.empty());
    if (engine == "placeto-reference") continue;
    const agents::Bound best = agents::Best(agents::QuickBounds(graph, cluster, costs));
    EXPECT_EQ(DurationFromMicros(report.lower_bound_micros).count(), best.nanos) << engine;
    EXPECT_EQ(report.lower_bound_method, best.method) << engine;
  }
}

TEST(LowerBoundTest, ALargeGraphIsBoundedWithoutSearch) {
  Rng rng(3);
  const Graph graph = RandomDag(rng, {.num_ops = 300, .memory = true});
  const Cluster cluster = MakeMixedCluster(2, Bytes{400'000});
  const CostTable costs = MeasuredCosts(graph, cluster);
  EXPECT_FALSE(agents::CanBeExact(graph, cluster));
  const agents::BoundReport report = agents::ProveBound(graph, cluster, costs, {.seconds = 5, .start = std::nullopt});
  EXPECT_EQ(report.nodes, 0U);
  EXPECT_FALSE(report.optimal);
  std::set<std::string> methods;
  for (const agents::Bound& bound : report.bounds) methods.insert(std::string(bound.method));
  EXPECT_TRUE(methods.contains("linear program"));
  for (const agents::Bound& quick : agents::QuickBounds(graph, cluster, costs)) {  // one name, one number
    const auto same = [&](const agents::Bound& bound) { return bound.method == quick.method; };
    const auto found = std::find_if(report.bounds.begin(), report.bounds.end(), same);
    ASSERT_NE(found, report.bounds.end()) << quick.method;
    EXPECT_EQ(found->nanos, quick.nanos) << quick.method;
  }
}

TEST(LowerBoundTest, APlacementAsFastAsTheBoundIsOptimalWithoutSearch) {
  const Graph graph = MakeChain(200, 10, 1000);
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  agents::BoundOptions options;
  options.start = Placement(graph.num_ops());
  const agents::BoundReport report = agents::ProveBound(graph, cluster, costs, options);
  EXPECT_TRUE(report.optimal);
  EXPECT_EQ(report.best_nanos, 2'000'000);
}

TEST(LowerBoundTest, AnEngineWithRulesOfItsOwnHasOnlyTheSimpleBounds) {
  EXPECT_TRUE(agents::HasOnlySimpleBounds("placeto-reference"));
  EXPECT_FALSE(agents::HasOnlySimpleBounds("fifo"));
  EXPECT_FALSE(agents::HasOnlySimpleBounds("flow"));
  Rng rng(5);
  const Graph graph = RandomDag(rng, {.num_ops = 12});
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const SimOptions published{.engine = "placeto-reference"};
  const agents::BoundReport report = agents::ProveBound(graph, cluster, costs, {.simulation = published});
  ASSERT_EQ(report.bounds.size(), 2U);
  EXPECT_EQ(report.nodes, 0U);
  EXPECT_FALSE(report.best.has_value());
  const Bounds simple = ComputeBounds(graph, cluster, costs);
  EXPECT_EQ(agents::Best(report.bounds).method, simple.lower_bound_method);
  EXPECT_EQ(agents::Best(report.bounds).nanos, static_cast<std::int64_t>(simple.lower_bound_micros * 1000));
  // A chain on one device takes the critical path with every engine.
  const Graph chain = MakeChain(20, 10, 1000);
  agents::BoundOptions options;
  options.simulation = published;
  options.start = Placement(chain.num_ops());
  EXPECT_TRUE(agents::ProveBound(chain, cluster, MeasuredCosts(chain, cluster), options).optimal);
}

}  // namespace
}  // namespace emplace::testing
