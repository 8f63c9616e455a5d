#include "agents/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "agents/named_placement.h"
#include "agents/saved_text.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/simulator.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace {
namespace {

using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeSearch;

agents::SearchSpec SomeSearch(const std::string& agent, std::size_t num_ops = 40) {
  Rng rng(11);
  agents::SearchSpec spec = MakeSearch(testing::RandomDag(rng, {.num_ops = num_ops}), MakeCluster(3), agent);
  spec.evaluations = 2000;
  spec.seed = 5;
  return spec;
}

std::string TemporaryFile(const char* name) {
  std::string path = ::testing::TempDir() + "/" + name;
  std::filesystem::remove(path);
  return path;
}

TEST(SearchTest, TheSameSpecGivesTheSameResultOnAnyNumberOfThreads) {
  for (const char* const agent : {"random", "annealing", "local_search", "random_walk"}) {
    agents::SearchSpec spec = SomeSearch(agent);
    const agents::SearchResult first = agents::RunSearch(spec);
    spec.threads = 3;
    const agents::SearchResult second = agents::RunSearch(spec);
    EXPECT_EQ(first.best, second.best) << agent;
    EXPECT_EQ(first.evaluations, second.evaluations) << agent;
    spec.seed = 6;
    const bool is_random = std::string(agent) == "random";
    EXPECT_TRUE(!is_random || agents::RunSearch(spec).best != first.best);
  }
}

TEST(SearchTest, WholeModulesAreSetBesideSingleOps) {
  Rng rng(12);
  agents::SearchSpec spec =
      MakeSearch(testing::RandomDag(rng, {.num_ops = 40, .layers = true}), MakeCluster(3), "local_search");
  spec.evaluations = 300;
  EXPECT_FALSE(agents::MovesModules(spec));
  EXPECT_FALSE(agents::MicrosOfSingleOps(spec, agents::RunSearch(spec)));
  spec.grouping = "modules";
  spec.problem.SetGrouping(spec.grouping, 0);
  EXPECT_TRUE(agents::MovesModules(spec));
  const agents::SearchResult modules = agents::RunSearch(spec);
  const auto micros = agents::MicrosOfSingleOps(spec, modules);
  ASSERT_TRUE(micros);
  EXPECT_LE(*micros, modules.best_result.step_time_micros);
  EXPECT_GT(*micros, 0);
  // One evaluation leaves none to move ops in.
  agents::SearchResult one = modules;
  one.evaluations = 1;
  EXPECT_FALSE(agents::MicrosOfSingleOps(spec, one));
  // Placements by name are not looked up again.
  spec.incumbent = "single_device";
  EXPECT_EQ(agents::MicrosOfSingleOps(spec, modules), micros);
  spec.interrupt = [] { return true; };
  EXPECT_THROW(agents::MicrosOfSingleOps(spec, modules), agents::SearchInterrupted);
}

TEST(SearchTest, LibTorchIsNeededForSomeNetworksAndWhereItComputesGradients) {
  agents::SearchSettings settings;
  for (const char* const agent : {"hierarchical", "coloc_rl", "sgdp"}) {
    settings.agent = agent;
    EXPECT_TRUE(agents::NeedsLibTorch(settings)) << agent;
  }
  for (const char* const agent : {"placeto", "post", "heft", "module:Class", "nobody"}) {
    settings.agent = agent;
    EXPECT_FALSE(agents::NeedsLibTorch(settings)) << agent;
  }
  settings.agent_options["autograd"] = "false";
  EXPECT_FALSE(agents::NeedsLibTorch(settings));
  settings.agent_options["autograd"] = "true";
  EXPECT_TRUE(agents::NeedsLibTorch(settings));
  settings.agent_options.clear();
  settings.torch_device = "cuda";
  EXPECT_TRUE(agents::NeedsLibTorch(settings));
}

TEST(SearchTest, ASearchThatIsStoppedGoesOnFromItsCheckpointToTheSameResult) {
  for (const char* const agent : {"random", "annealing", "local_search", "random_walk"}) {
    agents::SearchSpec spec = SomeSearch(agent, /*num_ops=*/300);
    const agents::SearchResult uninterrupted = agents::RunSearch(spec);
    spec.checkpoint = TemporaryFile("search_checkpoint");
    std::size_t stop_at = 600;
    const auto stop = [&stop_at](const agents::SearchProgress& now) {
      if (now.evaluations >= stop_at) throw std::runtime_error("stopped");
    };
    EXPECT_THROW(agents::RunSearch(spec, stop), std::runtime_error);
    ASSERT_TRUE(std::filesystem::exists(spec.checkpoint));
    stop_at = 1300;
    ASSERT_GT(uninterrupted.evaluations, 600U);
    try {
      agents::RunSearch(spec, stop);
    } catch (const std::runtime_error&) {
    }
    const agents::SearchResult resumed = agents::RunSearch(spec);
    EXPECT_EQ(resumed.best, uninterrupted.best) << agent;
    EXPECT_EQ(resumed.evaluations, uninterrupted.evaluations) << agent;
    EXPECT_EQ(resumed.fitting, uninterrupted.fitting) << agent;
    // The same again: the search is already complete.
    EXPECT_EQ(agents::RunSearch(spec).best, uninterrupted.best);
  }
}

TEST(SearchTest, TheEndIsSavedWhetherItIsSyncedOrNot) {
  for (const double seconds : {0.0, 3600.0}) {
    agents::SearchSpec spec = SomeSearch("annealing", /*num_ops=*/10);
    spec.evaluations = 100;
    spec.checkpoint = TemporaryFile("short_checkpoint");
    spec.sync_end_after_seconds = seconds;
    const agents::SearchResult first = agents::RunSearch(spec);
    std::size_t steps = 0;
    EXPECT_EQ(agents::RunSearch(spec, [&](const agents::SearchProgress&) { ++steps; }).trace, first.trace);
    EXPECT_EQ(steps, 0U);
  }
}

TEST(SearchTest, AnInterruptSavesACheckpointAtOnce) {
  for (const char* const agent : {"annealing", "placeto"}) {
    agents::SearchSpec spec = SomeSearch(agent, /*num_ops=*/30);
    const agents::SearchResult uninterrupted = agents::RunSearch(spec);
    spec.checkpoint = TemporaryFile("interrupt_checkpoint");
    int asked = 0;
    spec.interrupt = [&asked] { return ++asked == 3; };
    EXPECT_THROW(agents::RunSearch(spec), agents::SearchInterrupted);
    EXPECT_TRUE(std::filesystem::exists(spec.checkpoint)) << agent;
    const agents::SearchResult resumed = agents::RunSearch(spec);
    EXPECT_EQ(resumed.best, uninterrupted.best) << agent;
    EXPECT_EQ(resumed.evaluations, uninterrupted.evaluations) << agent;
    EXPECT_EQ(resumed.trace, uninterrupted.trace) << agent;
  }
}

// Adds 1 us at every evaluation, so its results depend on the number of earlier ones.
class Slowing : public Evaluator, public agents::SearchPart {
 public:
  StepResult Run(const Placement& placement) const override {
    StepResult result;
    result.step_time_micros = static_cast<double>(calls_++);
    for (const DeviceId device : placement.devices())
      result.step_time_micros += 100.0 * static_cast<double>(Index(device));
    return result;
  }
  void Save(std::ostream& out) const override { out << calls_; }
  void Load(std::istream& in) override { calls_ = agents::LoadNumber(in); }

 private:
  mutable std::uint64_t calls_ = 0;
};

TEST(SearchTest, AnEvaluatorThatChangesGoesOnWhereItWas) {
  const auto run = [](const std::string& checkpoint, std::size_t stop_at) {
    agents::SearchSpec spec = SomeSearch("annealing");
    Slowing evaluator;
    spec.evaluator = &evaluator;
    spec.evaluator_state = &evaluator;
    spec.checkpoint = checkpoint;
    return agents::RunSearch(spec, [stop_at](const agents::SearchProgress& now) {
      if (now.evaluations >= stop_at) throw std::runtime_error("stopped");
    });
  };
  const std::string file = TemporaryFile("slowing_checkpoint");
  const agents::SearchResult uninterrupted = run("", 1'000'000);
  EXPECT_THROW(run(file, 600), std::runtime_error);
  ASSERT_TRUE(std::filesystem::exists(file));
  EXPECT_EQ(run(file, 1'000'000).trace, uninterrupted.trace);
}

TEST(SearchTest, ACheckpointOfAnotherSearchIsRefused) {
  agents::SearchSpec spec = SomeSearch("annealing");
  spec.checkpoint = TemporaryFile("other_checkpoint");
  agents::RunSearch(spec);
  spec.seed = 99;
  try {
    agents::RunSearch(spec);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()),
              spec.checkpoint + ": checkpoint: belongs to another search; remove it, or name another file");
  }
}

TEST(SearchTest, ACheckpointOfAGraphThatDiffersInMemoryOnlyIsRefused) {
  const auto search = [](std::int64_t persistent) {
    OpSpec op = testing::MakeOp("a", 1);
    op.persistent = Bytes{persistent};
    agents::SearchSpec spec = MakeSearch(testing::Build({op}), MakeCluster(2), "random");
    spec.checkpoint = ::testing::TempDir() + "/memory_checkpoint";
    return spec;
  };
  TemporaryFile("memory_checkpoint");
  agents::RunSearch(search(40));
  EXPECT_NO_THROW(agents::RunSearch(search(40)));
  EXPECT_THROW(agents::RunSearch(search(41)), InputError);
}

TEST(SearchTest, WhereNothingFitsThereIsNoPlacementAndTheOverflowIsTold) {
  // 40 persistent bytes on a device of 30: 10 too many, on any device.
  GraphBuilder builder("g");
  OpSpec op = testing::MakeOp("a", 1);
  op.persistent = Bytes{40};
  builder.Add(op);
  const Cluster cluster = MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{30});
  const agents::SearchResult result = agents::RunSearch(MakeSearch(builder.Build(), cluster, "local_search"));
  EXPECT_FALSE(result.best.has_value());
  EXPECT_EQ(result.fitting, 0U);
  EXPECT_EQ(result.smallest_overflow_bytes, 10);
  EXPECT_EQ(result.final_micros, std::nullopt);
}

// Two ops that hold 30 GB each, so 60 GB on one device. The second takes twice as long.
Graph TwoLargeOps(double micros = 100'000) {
  std::vector<OpSpec> ops = {testing::MakeOp("a", micros), testing::MakeOp("b", 2 * micros)};
  for (OpSpec& op : ops) op.persistent = Bytes{30'000'000'000};
  return testing::Build(ops);
}

TEST(SearchTest, RewardsThatAreAllAtTheirFloorAreTold) {
  const auto search = [](std::int64_t gigabytes, const std::string& reward) {
    const Cluster cluster = MakeCluster(2, {.bandwidth_gb_per_s = 1}, 0, Bytes{gigabytes * 1'000'000'000});
    agents::SearchSpec spec = MakeSearch(TwoLargeOps(), cluster, "placeto", {{"workers", "1"}});
    spec.evaluations = 50;
    spec.reward = reward;
    return agents::RunSearch(spec);
  };
  // With M = 10.7 GB every placement has the reward -10, though all of them fit on cards of 80 GB.
  const agents::SearchResult old = search(80, "log_memory_penalty:M=10.7");
  EXPECT_EQ(old.saturated, 49U);  // only whole episodes count
  EXPECT_EQ(old.fitting, 49U);
  EXPECT_THAT(agents::RewardWarning(old), ::testing::StartsWith("49 of 49 evaluations had the smallest value of"));
  const agents::SearchResult large = search(80, "");
  EXPECT_EQ(large.saturated, 0U);
  EXPECT_EQ(agents::RewardWarning(large), "");
  EXPECT_EQ(search(5, "").saturated, 49U);  // at least 25 GB too many wherever they are
  EXPECT_EQ(search(5, "memory_penalty").saturated, std::nullopt);
}

// Both ops on one card of 50 GB do not fit, and count as 100 s. One op a card fits, and takes 160 s.
TEST(SearchTest, RewardsThatRankWhatDoesNotFitAboveWhatFitsAreTold) {
  const auto search = [](const std::string& reward) {
    const Cluster cluster = MakeCluster(2, {.bandwidth_gb_per_s = 1}, 0, Bytes{50'000'000'000});
    agents::SearchSpec spec = MakeSearch(TwoLargeOps(80e6), cluster, "random");
    spec.evaluations = 50;
    spec.reward = reward;
    return agents::RunSearch(spec);
  };
  for (const std::string reward : {"runtime", "sqrt"}) {
    const agents::SearchResult misled = search(reward);
    ASSERT_TRUE(misled.best);
    EXPECT_EQ(misled.best_result.step_time_micros, 160e6);
    EXPECT_THAT(agents::RewardWarning(misled),
                ::testing::HasSubstr("as a step of 100 s: less than the 160 s of the best that fits"));
    EXPECT_THAT(agents::RewardWarning(misled), ::testing::HasSubstr("invalid=1600"));
    EXPECT_EQ(agents::RewardWarning(search(reward + ":invalid=1600")), "");
  }
  EXPECT_EQ(agents::RewardWarning(search("memory_penalty")), "");
}

TEST(SearchTest, UnknownNamesAreRefused) {
  const auto refused = [](auto change) {
    agents::SearchSpec spec = SomeSearch("random");
    change(spec);
    EXPECT_THROW(agents::RunSearch(spec), InputError);
  };
  refused([](agents::SearchSpec& spec) { spec.agent = "x"; });
  refused([](agents::SearchSpec& spec) { spec.engine = "x"; });
  refused([](agents::SearchSpec& spec) { spec.problem.grouping = "x"; });
  refused([](agents::SearchSpec& spec) { spec.reward = "x"; });
  refused([](agents::SearchSpec& spec) { spec.agent_options = {{"x", "1"}}; });
}

TEST(SearchTest, ProgressCountsUpToTheBudget) {
  agents::SearchSpec spec = SomeSearch("random");
  spec.evaluations = 50;
  std::size_t last = 0;
  agents::RunSearch(spec, [&last](const agents::SearchProgress& now) {
    EXPECT_GT(now.evaluations, last);
    EXPECT_EQ(now.budget, 50U);
    EXPECT_TRUE(now.best_micros.has_value());
    last = now.evaluations;
  });
  EXPECT_EQ(last, 50U);
}

TEST(SearchTest, StopsWhenToldWithWhatItHas) {
  Rng rng(31);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 40});
  agents::SearchSpec spec = MakeSearch(graph, MakeCluster(2), "annealing");
  spec.evaluations = 1000;
  std::size_t asked = 0;
  spec.stop = [&asked] { return ++asked == 50; };
  const agents::SearchResult result = agents::RunSearch(spec);
  EXPECT_EQ(result.evaluations, 50U);
  EXPECT_TRUE(result.best.has_value());
}

TEST(SearchTest, StartsFromTheGivenPlacementLengthy) {
  Rng rng(32);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 40});
  const Cluster cluster = MakeCluster(3);
  const Placement start = testing::RandomPlacement(rng, graph, cluster, testing::MeasuredCosts(graph, cluster));
  for (const agents::AgentEntry& entry : agents::AllAgents()) {
    if (!entry.searches()) continue;
    agents::SearchSpec spec = MakeSearch(graph, cluster, std::string(entry.name));
    spec.problem.grouping = "identity";
    spec.given_start = start;
    spec.evaluations = 1;
    EXPECT_EQ(agents::RunSearch(spec).best, start) << entry.name;
  }
}

TEST(SearchTest, TheIncumbentCountsForEveryAgentAndCostsNoEvaluation) {
  for (const char* const agent : {"random", "post", "random_walk", "round_robin"}) {
    agents::SearchSpec spec = SomeSearch(agent);
    spec.evaluations = 3;
    const agents::SearchResult alone = agents::RunSearch(spec);
    spec.incumbent = "heft";
    const agents::SearchResult with = agents::RunSearch(WithNamedPlacements(spec));
    const double heft = Simulator(spec.problem.graph, spec.problem.cluster, spec.problem.costs, {})
                            .Run(agents::FindNamedPlacement("heft", spec).value())
                            .step_time_micros;
    EXPECT_EQ(with.evaluations, alone.evaluations) << agent;
    EXPECT_EQ(with.start_micros, heft) << agent;
    EXPECT_EQ(with.final_micros, alone.final_micros) << agent;  // the proposals are the same
    EXPECT_EQ(with.best_result.step_time_micros, std::min(heft, alone.best_result.step_time_micros)) << agent;
    EXPECT_EQ(with.trace.front().first, 1U) << agent;
    EXPECT_LE(with.trace.front().second, heft) << agent;
  }
}

TEST(SearchTest, AnIncumbentThatDoesNotFitChangesNothing) {
  // Two ops of 20 bytes fit on two devices of 30 bytes, and not on one.
  GraphBuilder builder("g");
  for (const char* const name : {"a", "b"}) {
    OpSpec op = testing::MakeOp(name, 1);
    op.persistent = Bytes{20};
    builder.Add(op);
  }
  agents::SearchSpec tight = MakeSearch(
      builder.Build(), MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{30}),
      "random");
  tight.evaluations = 50;
  const agents::SearchResult alone = agents::RunSearch(tight);
  tight.incumbent = "single_device";
  const agents::SearchResult with = agents::RunSearch(WithNamedPlacements(tight));
  ASSERT_TRUE(alone.best.has_value());
  EXPECT_EQ(with.best, alone.best);
  EXPECT_EQ(with.start_micros, alone.start_micros);
  EXPECT_EQ(with.trace, alone.trace);
}

TEST(SearchTest, AStartMayBeAskedForByName) {
  agents::SearchSpec spec = SomeSearch("annealing");
  spec.evaluations = 5;
  agents::SearchSpec named = spec;
  spec.given_start = agents::FindNamedPlacement("metis", spec);
  named.start = "metis";
  ASSERT_TRUE(spec.given_start.has_value());
  EXPECT_EQ(agents::RunSearch(WithNamedPlacements(named)).start_micros,
            agents::RunSearch(WithNamedPlacements(spec)).start_micros);
  named.agent = "heft";  // does not search, so it has no start
  EXPECT_TRUE(agents::RunSearch(WithNamedPlacements(named)).best.has_value());
}

TEST(SearchTest, GraphsThatAPolicyIsTransferredToHaveTheSameKindOfStart) {
  agents::SearchSpec spec = SomeSearch("sgdp", /*num_ops=*/8);
  spec.evaluations = 2;
  spec.transfer = {SomeSearch("sgdp", /*num_ops=*/12).problem};
  const auto micros = [&](const char* name) {
    const agents::SearchProblem& problem = spec.transfer[0];
    agents::SearchSpec other = spec;
    other.problem = problem;
    return Simulator(problem.graph, problem.cluster, problem.costs, {})
        .Run(agents::FindNamedPlacement(name, other).value())
        .step_time_micros;
  };
  spec.start = "round_robin";
  EXPECT_EQ(agents::RunSearch(WithNamedPlacements(spec)).transfer[0].start_micros, micros("round_robin"));
  spec.incumbent = "heft";
  EXPECT_EQ(agents::RunSearch(WithNamedPlacements(spec)).transfer[0].start_micros, micros("heft"));
}

TEST(SearchTest, TheBestNamedPlacementIsTheFastestOfAll) {
  const agents::SearchSpec spec = SomeSearch("random");
  const Simulator simulator(spec.problem.graph, spec.problem.cluster, spec.problem.costs, {});
  const double best = simulator.Run(agents::FindNamedPlacement(agents::kBestPlacement, spec).value()).step_time_micros;
  std::size_t as_fast = 0;
  for (const std::string_view name : agents::PlacementNames()) {
    if (name == agents::kBestPlacement) continue;
    const auto placement = agents::FindNamedPlacement(name, spec);
    if (!placement) continue;
    const double micros = simulator.Run(*placement).step_time_micros;
    EXPECT_GE(micros, best) << name;
    as_fast += micros == best ? 1 : 0;
  }
  EXPECT_GT(as_fast, 0U);
  EXPECT_EQ(
      testing::ErrorOf([&] { agents::FindNamedPlacement("annealing", spec); }).rfind("is \"annealing\" (best, ", 0),
      0U);
}

TEST(SearchTest, DefaultGroupsAreSplitWhereTheStartNeedsIt) {
  Rng rng(33);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 400, .colocated = true});
  const Cluster cluster = MakeCluster(3);
  agents::SearchSpec spec = MakeSearch(graph, cluster, "local_search");
  spec.problem.grouping.clear();
  const agents::AgentEntry& entry = agents::FindAgent("local_search");
  const Grouping plain = agents::MakeGrouping(spec.problem, entry);
  EXPECT_LE(plain.num_groups(), 256U);
  const Placement start = testing::RandomPlacement(rng, graph, cluster, testing::MeasuredCosts(graph, cluster));
  const Grouping split = agents::MakeGrouping(spec.problem, entry, start);
  EXPECT_GT(split.num_groups(), plain.num_groups());
  for (std::size_t group = 0; group < split.num_groups(); ++group) {
    for (const OpId op : split.members(group)) {
      EXPECT_EQ(start[op], start[split.members(group)[0]]);
      EXPECT_EQ(plain.group_of(op), plain.group_of(split.members(group)[0]));
    }
  }
  spec.problem.grouping = "merge_and_colocate";
  EXPECT_EQ(agents::MakeGrouping(spec.problem, entry, start).num_groups(), plain.num_groups()) << "named by the user";
}

// A few samples of a policy that has learned nothing stay near the start.
TEST(SearchTest, LearningAgentsBeginNearTheStartLengthy) {
  Rng rng(34);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 60});
  const Cluster cluster = MakeCluster(4);
  const CostTable costs = testing::MeasuredCosts(graph, cluster);
  agents::SearchSpec start = MakeSearch(graph, cluster, "multilevel_search");
  start.problem.grouping = "identity";
  start.evaluations = 2000;
  const agents::SearchResult good = agents::RunSearch(start);
  for (const char* const agent : {"post", "coloc_rl", "hierarchical", "sgdp", "doppler"}) {
    agents::SearchSpec spec = MakeSearch(graph, cluster, agent);
    spec.problem.grouping = "identity";
    spec.evaluations = 3;
    const double lost = agents::RunSearch(spec).final_micros.value();
    spec.given_start = good.best;
    const agents::SearchResult near = agents::RunSearch(spec);
    EXPECT_EQ(near.start_micros, good.best_result.step_time_micros) << agent;
    EXPECT_LT(near.final_micros.value() - near.start_micros, 0.5 * (lost - near.start_micros)) << agent;
  }
}

}  // namespace
}  // namespace emplace
