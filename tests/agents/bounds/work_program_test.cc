#include "agents/bounds/work_program.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agents/heuristics/linear_program.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

TEST(WorkProgramTest, MemorySendsWorkToTheSlowDevice) {
  // Four ops of 10 kB: the accelerator holds two of them, so two run on the CPU, where each takes 9 us.
  std::vector<OpSpec> specs;
  for (int i = 0; i < 4; ++i) {
    OpSpec spec = MakeOp("op" + std::to_string(i), 0);
    spec.time_micros.reset();
    spec.kind_times = {{"test-cpu", 9}, {"test-gpu", 1}};
    spec.persistent = Bytes{10'000};
    specs.push_back(spec);
  }
  const Graph graph = Build(specs);
  const auto bound = [&](std::optional<Bytes> memory) {
    const Cluster cluster = MakeMixedCluster(1, memory);
    const CostTable costs = MeasuredCosts(graph, cluster);
    return agents::SolveWorkProgram(graph, cluster, agents::Relaxation(graph, cluster, costs), 10).nanos;
  };
  EXPECT_NEAR(static_cast<double>(bound(std::nullopt)), 3'600, 1);  // x on the CPU: 9 x = 4 - x
  EXPECT_NEAR(static_cast<double>(bound(Bytes{20'000})), 18'000, 1);
}

TEST(WorkProgramTest, AnEmptyGraphHasNoBound) {
  const Graph graph;
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  EXPECT_EQ(agents::SolveWorkProgram(graph, cluster, agents::Relaxation(graph, cluster, costs), 1).nanos, 0);
}

// Minimise t with t >= 3 x and x >= 1/2.
agents::LinearProgram HalfOfThree() {
  agents::LinearProgram program(2);
  program.num_fractions = 1;
  program.BeginRow(0);
  program.Add(1, 1);
  program.Add(0, -3);
  program.BeginRow(0.5);
  program.Add(0, 1);
  return program;
}

TEST(WorkProgramTest, TheDualBoundHoldsForAnyPrices) {
  const agents::LinearProgram program = HalfOfThree();
  EXPECT_NEAR(agents::DualBound(program, {1, 3}), 1.5, 1e-6);
  for (const std::vector<double>& prices : std::vector<std::vector<double>>{
           {0, 0}, {1, 0}, {0, 3}, {0.5, 1.5}, {7, 3}, {-1, 2}, {1, 1e9}, {std::nan(""), 3}}) {
    EXPECT_LE(agents::DualBound(program, prices), 1.5);
  }
}

TEST(WorkProgramTest, TheSolverGivesPrices) {
  const agents::LinearSolution solution = agents::SolveProgram(HalfOfThree(), 10);
  EXPECT_TRUE(solution.is_optimal);
  EXPECT_NEAR(solution.columns[1], 1.5, 1e-9);
  EXPECT_NEAR(agents::DualBound(HalfOfThree(), solution.prices), 1.5, 1e-6);
}

}  // namespace
}  // namespace emplace::testing
