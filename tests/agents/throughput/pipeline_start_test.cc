#include "agents/throughput/pipeline_start.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "agents/search.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace::testing {
namespace {

// Layers of one forward op of 10 us and one backward op of 20 us, in a chain.
Graph Layers(std::size_t count) {
  std::vector<OpSpec> specs;
  const auto add = [&](const std::string& name, double micros, std::vector<std::string> inputs, std::size_t layer,
                       Pass pass) {
    OpSpec spec = MakeOp(name, micros, std::move(inputs), {1000});
    spec.layer = fmt::format("layer{}", layer);
    spec.pass = pass;
    specs.push_back(spec);
  };
  for (std::size_t i = 0; i < count; ++i) {
    add(fmt::format("f{}", i), 10, i == 0 ? std::vector<std::string>{} : std::vector{fmt::format("f{}", i - 1)}, i,
        Pass::kForward);
  }
  for (std::size_t i = count; i-- > 0;) {
    std::vector<std::string> inputs = {fmt::format("f{}", i)};
    if (i + 1 < count) inputs.push_back(fmt::format("b{}", i + 1));
    add(fmt::format("b{}", i), 20, std::move(inputs), i, Pass::kBackward);
  }
  return Build(specs);
}

TEST(PipelineStartTest, RunsForEverySchedule) {
  const Graph graph = Layers(16);
  const Cluster cluster = MakeCluster(4);
  const CostTable costs = MeasuredCosts(graph, cluster);
  EXPECT_EQ(agents::PipelineGroups(graph, cluster, costs).num_groups(), 16U);
  for (const char* const name : {"gpipe", "1f1b", "interleaved:2", "zb-h1", "zb-v"}) {
    SCOPED_TRACE(name);
    const ScheduleEvaluator evaluator(graph, cluster, costs, {.name = name, .micro_batches = 8});
    const auto start = agents::PipelineStart(graph, cluster, costs, evaluator);
    ASSERT_TRUE(start.has_value());
    const StepResult result = evaluator.Run(*start);
    EXPECT_TRUE(result.runs);
    EXPECT_LT(result.step_time_micros, 8 * 16 * 30 / 2);  // more than twice as fast as one device
  }
}

TEST(PipelineStartTest, SearchesForAScheduleStartThere) {
  const Graph graph = Layers(6);
  const Cluster cluster = MakeCluster(2);
  agents::SearchSpec spec = MakeSearch(graph, cluster, "local_search");
  spec.problem.grouping = "";
  spec.schedule = {.name = "1f1b", .micro_batches = 8};
  const agents::SearchResult result = agents::RunSearch(spec);
  EXPECT_EQ(result.num_groups, 6U);
  ASSERT_TRUE(result.best.has_value());
  const ScheduleEvaluator evaluator(graph, cluster, spec.problem.costs, *spec.schedule);
  EXPECT_EQ(evaluator.Run(*result.best).step_time_micros, result.best_result.step_time_micros);
  EXPECT_LE(result.best_result.step_time_micros, result.start_micros);
  // Most single ops that move make no pipeline; that is survived.
  spec.problem.grouping = "identity";
  for (const char* const agent : {"multilevel_search", "annealing", "random_walk", "placeto"}) {
    SCOPED_TRACE(agent);
    spec.agent = agent;
    spec.evaluations = 200;
    EXPECT_LE(agents::RunSearch(spec).best_result.step_time_micros, result.start_micros);
  }
}

}  // namespace
}  // namespace emplace::testing
