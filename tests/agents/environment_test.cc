#include "agents/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "sim/base/check.h"
#include "sim/grouping.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeMixedCluster;
using ::emplace::testing::MeasuredCosts;
using ::testing::DoubleEq;
using ::testing::ElementsAre;

TEST(EnvironmentTest, TheAnswerDoesNotDependOnTheNumberOfThreads) {
  Rng rng(91);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 100, .memory = true});
  const Cluster cluster = MakeCluster(3);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs, {.peak_memory = true, .start_times = true});
  std::vector<Placement> batch;
  batch.reserve(17);
  for (int i = 0; i < 17; ++i) batch.push_back(testing::RandomPlacement(rng, graph, cluster, costs));
  std::vector<std::vector<double>> rewards;
  std::vector<std::vector<StepResult>> results;
  for (const std::size_t threads : {1U, 2U, 5U}) {
    agents::Environment env(graph, cluster, costs, FindGrouper("identity").make(graph, {}), simulator, {}, threads);
    rewards.emplace_back();
    results.emplace_back();
    for (const agents::Outcome& outcome : env.Evaluate(batch)) {
      rewards.back().push_back(outcome.reward);
      results.back().push_back(outcome.result);
    }
    EXPECT_EQ(env.evaluations(), 17U);
  }
  EXPECT_EQ(rewards[0], rewards[1]);
  EXPECT_EQ(rewards[0], rewards[2]);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(results[0][i].start_micros.size(), graph.num_ops());
    EXPECT_EQ(results[0][i], simulator.Run(batch[i]));
    EXPECT_EQ(rewards[0][i], -simulator.Run(batch[i]).step_time_micros * 1e-6);
  }
}

// Notes the threads that ask.
class NotesThreads : public Evaluator {
 public:
  StepResult Run(const Placement&) const override {
    const std::lock_guard lock(mutex_);
    threads_.insert(std::this_thread::get_id());
    return {};
  }
  const std::set<std::thread::id>& threads() const { return threads_; }

 private:
  mutable std::mutex mutex_;
  mutable std::set<std::thread::id> threads_;
};

TEST(EnvironmentTest, OneThreadIsTheCallersAndSeveralStay) {
  const Graph graph = testing::MakeChain(2, 1, 4);
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const auto threads_of = [&](std::size_t threads) {
    const NotesThreads evaluator;
    agents::Environment env(graph, cluster, costs, FindGrouper("identity").make(graph, {}), evaluator, {}, threads);
    for (int batch = 0; batch < 50; ++batch) env.Evaluate(std::vector(8, Placement(2)));
    return evaluator.threads();
  };
  EXPECT_EQ(threads_of(1), std::set{std::this_thread::get_id()});
  EXPECT_LE(threads_of(3).size(), 3U) << "batches start no threads of their own";
}

TEST(EnvironmentTest, ObservesTimesMemoryAndWhereGroupsMayGo) {
  GraphBuilder builder("g");
  OpSpec a = testing::MakeOp("a", 0, {}, {100, 20});
  a.time_micros = std::nullopt;
  a.kind_times = {{"test-cpu", 9}};
  a.temp = Bytes{7};
  a.persistent = Bytes{5};
  builder.Add(a);
  builder.Add(testing::MakeOp("b", 3, {"a"}));
  const Graph graph = builder.Build();
  const Cluster cluster = MakeMixedCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs);
  const agents::Environment env(graph, cluster, costs, FindGrouper("identity").make(graph, {}), simulator);
  const agents::Observation& seen = env.observation();
  EXPECT_TRUE(seen.Allowed(0, 0));
  EXPECT_FALSE(seen.Allowed(0, 1));
  EXPECT_EQ(seen.TimeMicros(0, 0), 9);
  EXPECT_TRUE(std::isnan(seen.TimeMicros(0, 2)));
  EXPECT_EQ(seen.persistent[0], Bytes{5});
  EXPECT_EQ(seen.temp[0], Bytes{7});
  EXPECT_EQ(seen.output[0], Bytes{120});
  EXPECT_THAT(seen.accelerators, ElementsAre(MakeId<DeviceId>(1), MakeId<DeviceId>(2)));
  EXPECT_EQ(Index(seen.Fastest(0, seen.accelerators)), 0U);  // allowed on the CPU only
  EXPECT_EQ(Index(seen.Fastest(1, seen.accelerators)), 1U);
}

TEST(EnvironmentTest, PenaltiesAreOfTheMemoryOfItsDevices) {
  std::vector<OpSpec> ops = {testing::MakeOp("a", 100'000), testing::MakeOp("b", 200'000)};
  for (OpSpec& op : ops) op.persistent = Bytes{30'000'000'000};
  const Graph graph = testing::Build(ops);
  const auto rewards = [&](std::int64_t gigabytes) {
    const Cluster cluster = testing::MakeCluster(2, {.bandwidth_gb_per_s = 1}, 0, Bytes{gigabytes * 1'000'000'000});
    const CostTable costs = testing::MeasuredCosts(graph, cluster);
    const Simulator simulator(graph, cluster, costs);
    agents::Environment env(graph, cluster, costs, FindGrouper("identity").make(graph, {}), simulator,
                            agents::ParseReward("memory_penalty"));
    Placement apart(2);
    apart[MakeId<OpId>(1)] = MakeId<DeviceId>(1);
    const std::vector<agents::Outcome> outcomes = env.Evaluate(std::vector{Placement(2), apart});
    return std::vector{outcomes[0].reward, outcomes[1].reward};
  };
  EXPECT_THAT(rewards(80), ElementsAre(DoubleEq(-0.3), DoubleEq(-0.2)));
  EXPECT_THAT(rewards(40), ElementsAre(DoubleEq(-40.3), DoubleEq(-0.2)));
  EXPECT_THAT(rewards(10), ElementsAre(DoubleEq(-100.3), DoubleEq(-40.2)));
}

TEST(EnvironmentTest, AClusterWithoutALinkBetweenTwoDevicesIsRefused) {
  const Graph graph = testing::MakeChain(2, 1, 4);
  const Cluster cluster = MakeCluster(2, {});
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs);
  try {
    const agents::Environment env(graph, cluster, costs, FindGrouper("identity").make(graph, {}), simulator);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "cluster test has no link from gpu:0 to gpu:1 (agents place on all devices: add the link, or keep fewer "
        "devices)");
  }
}

}  // namespace
}  // namespace emplace
