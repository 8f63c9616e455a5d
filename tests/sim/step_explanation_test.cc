#include "sim/step_explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "sim/simulator.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/reference_simulator.h"

namespace emplace {
namespace {

using testing::Build;
using testing::MakeChain;
using testing::MakeCluster;
using testing::MakeOp;
using testing::MeasuredCosts;
using testing::RandomDag;
using testing::RandomPlacement;

#ifdef EMPLACE_SANITIZED
constexpr int kRandomSteps = 300;
#else
constexpr int kRandomSteps = 2000;
#endif

struct Problem {
  Graph graph;
  Cluster cluster;
  CostTable costs;
  Placement placement;
};

StepExplanation Explain(const Problem& problem, const std::string& engine = "fifo") {
  const SimOptions options{.engine = engine};
  const Simulator simulator(problem.graph, problem.cluster, problem.costs, options);
  return ExplainStep(problem.graph, problem.cluster, problem.costs, problem.placement, options,
                     simulator.Record(problem.placement));
}

Problem Placed(const Graph& graph, const Cluster& cluster, const std::vector<std::size_t>& devices) {
  Placement placement(graph.num_ops());
  for (std::size_t i = 0; i < devices.size(); ++i) placement[MakeId<OpId>(i)] = MakeId<DeviceId>(devices[i]);
  return {graph, cluster, MeasuredCosts(graph, cluster), placement};
}

// 1 to 6 devices, some of them CPUs, some without a copy engine; links alike or not, a channel per device or per pair.
Cluster RandomCluster(Rng& rng) {
  const std::size_t count = 1 + rng.Below(6);
  const bool mixed = rng.Below(2) == 0 && count > 1;
  std::vector<Device> devices;
  for (std::size_t i = 0; i < count; ++i) {
    const bool cpu = mixed && i % 3 == 0;
    devices.push_back({.name = "d" + std::to_string(i),
                       .kind = cpu ? "test-cpu" : "test-gpu",
                       .memory = {},
                       .op_gap_micros = static_cast<double>(rng.Below(3)) / 2,
                       .is_cpu = cpu,
                       .copy_engine = !cpu || rng.Below(2) == 0});
  }
  std::vector<Link> links;
  for (std::size_t i = 0; i < count * count; ++i) {
    links.push_back({.bandwidth_gb_per_s = 0.25 * static_cast<double>(rng.Between(1, 9)),
                     .latency_micros = static_cast<double>(rng.Below(3)) / 4,
                     .gap_micros = static_cast<double>(rng.Below(3)) / 2});
  }
  if (rng.Below(3) == 0) {
    for (Link& link : links) {
      link.knee = Bytes{rng.Between(1, 2000)};
      link.beyond_gb_per_s = 0.3 * static_cast<double>(rng.Between(1, 9));
    }
  }
  return Cluster("random", "", std::move(devices), std::move(links),
                 rng.Below(3) == 0 ? Channels::kPerPair : Channels::kPerDevice);
}

Problem RandomProblem(Rng& rng, bool has_lanes = false) {
  Cluster cluster = RandomCluster(rng);
  if (has_lanes) cluster = testing::WithIssueLanes(rng, cluster);
  testing::RandomDagOptions options;
  options.num_ops = 1 + rng.Below(rng.Below(8) == 0 ? 150 : 30);
  options.max_inputs = 1 + rng.Below(4);
  options.kinds_differ = cluster.devices()[0].is_cpu;
  options.fractional = rng.Below(2) == 0;
  options.zero_time_probability = rng.Below(2) == 0 ? 0.2 : 0.6;
  options.classes = true;
  options.host_times = has_lanes;
  Graph graph = RandomDag(rng, options);
  CostTable costs = rng.Below(3) == 0
                        ? testing::ContendedCosts(graph, cluster, {{OpClass::kCopy, 1.7}, {OpClass::kElementwise, 1.2}})
                        : MeasuredCosts(graph, cluster);
  Placement placement = RandomPlacement(rng, graph, cluster, costs);
  return {std::move(graph), std::move(cluster), std::move(costs), std::move(placement)};
}

// The chain reaches from 0 to the end without a hole, its ops cannot end later, and each device's time adds up.
void ExpectConsistent(const StepExplanation& explained) {
  Duration at{};
  for (const ChainPart& part : explained.chain) {
    ASSERT_EQ(part.begin, at);
    ASSERT_GT(part.length(), Duration(0));
    at = part.end;
    const bool is_queue = part.kind == ChainKind::kDeviceQueue || part.kind == ChainKind::kChannelQueue;
    EXPECT_EQ(part.waiter.has_value(), is_queue);
    if (!part.item.is_transfer && part.kind <= ChainKind::kDeviceQueue) {
      EXPECT_EQ(explained.slack[Index(part.item.op)], Duration(0));
    }
  }
  EXPECT_EQ(at, explained.step_time);
  EXPECT_EQ(std::accumulate(explained.totals.begin(), explained.totals.end(), Duration(0)), explained.step_time);
  for (const DeviceUse& use : explained.devices) {
    EXPECT_EQ(use.busy + use.gap + use.sending + use.waiting_for_ops + use.waiting_for_transfers +
                  use.waiting_for_issue + use.idle,
              explained.step_time);
  }
}

// The parts add up to the step that the engine says.
void ExpectWholeStep(const Problem& problem, const std::string& engine) {
  const StepExplanation explained = Explain(problem, engine);
  const Simulator simulator(problem.graph, problem.cluster, problem.costs, {.engine = engine});
  ASSERT_EQ(explained.step_time, DurationFromMicros(simulator.Run(problem.placement).step_time_micros));
  ExpectConsistent(explained);
}

// Explains random steps, and compares them with the slow simulator. Returns the sums of the parts.
std::array<Duration, kNumChainKinds> ExplainRandomSteps(Rng& rng, bool has_lanes, DeviceUse* use) {
  std::array<Duration, kNumChainKinds> totals{};
  for (int i = 0; i < kRandomSteps; ++i) {
    const Problem problem = RandomProblem(rng, has_lanes);
    const StepExplanation explained = Explain(problem);
    const auto expected = testing::SimulateSlowly(problem.graph, problem.cluster, problem.costs, problem.placement);
    EXPECT_EQ(explained.step_time.count(), expected.step_time_ns) << "graph " << i;
    for (std::size_t op = 0; op < problem.graph.num_ops(); ++op) {
      EXPECT_EQ(explained.start[op].count(), expected.start_ns[op]);
    }
    ExpectConsistent(explained);
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "graph " << i;
      return totals;
    }
    for (std::size_t k = 0; k < kNumChainKinds; ++k) totals[k] += explained.totals[k];
    for (const DeviceUse& device : explained.devices) {
      use->sending += device.sending;
      use->waiting_for_issue += device.waiting_for_issue;
    }
  }
  return totals;
}

TEST(StepExplanationTest, ThePartsAddUpToTheStepOfTheSlowSimulatorExactly) {
  Rng rng(1);
  DeviceUse use;
  const auto totals = ExplainRandomSteps(rng, /*has_lanes=*/false, &use);
  for (std::size_t k = 0; k < kNumChainKinds; ++k) {
    const bool is_of_lanes = k >= static_cast<std::size_t>(ChainKind::kIssue);
    EXPECT_EQ(totals[k] > Duration(0), !is_of_lanes) << "every other kind of part occurs";
  }
  EXPECT_GT(use.sending, Duration(0));
  EXPECT_EQ(use.waiting_for_issue, Duration(0));
}

TEST(StepExplanationTest, ThePartsAddUpWithIssueLanesTooLengthy) {
  Rng rng(4);
  DeviceUse use;
  for (const Duration total : ExplainRandomSteps(rng, /*has_lanes=*/true, &use)) EXPECT_GT(total, Duration(0));
  EXPECT_GT(use.waiting_for_issue, Duration(0));
}

TEST(StepExplanationTest, ThePartsAddUpWithPlacetoReferenceToo) {
  Rng rng(2);
  for (int i = 0; i < kRandomSteps; ++i) {
    const Cluster cluster =
        MakeCluster(1 + rng.Below(5), {.bandwidth_gb_per_s = 1.3, .latency_micros = 0, .gap_micros = 0.7}, 1.1);
    testing::RandomDagOptions options{.num_ops = 1 + rng.Below(60), .fractional = true};
    if (rng.Below(2) == 0) options.max_outputs = 1;
    Graph graph = RandomDag(rng, options);
    CostTable costs = MeasuredCosts(graph, cluster);
    Placement placement = RandomPlacement(rng, graph, cluster, costs);
    const Problem problem{std::move(graph), cluster, std::move(costs), std::move(placement)};
    ASSERT_NO_FATAL_FAILURE(ExpectWholeStep(problem, "placeto-reference")) << "graph " << i;
  }
}

TEST(StepExplanationTest, ThePartsAddUpWhereFlowsShareLinksToo) {
  Rng rng(6);
  for (int i = 0; i < kRandomSteps; ++i) {
    const Cluster cluster = testing::RandomTree(rng);
    Graph graph = RandomDag(rng, {.num_ops = 1 + rng.Below(60)});
    CostTable costs = MeasuredCosts(graph, cluster);
    Placement placement = RandomPlacement(rng, graph, cluster, costs);
    const Problem problem{std::move(graph), cluster, std::move(costs), std::move(placement)};
    ASSERT_NO_FATAL_FAILURE(ExpectWholeStep(problem, "flow")) << "graph " << i;
  }
}

// The step time in ns if the end of `late` is `by` ns later, and devices, channels and lanes keep the order of
// `timeline`.
// Slow and simple: every start is moved until nothing has to wait.
std::int64_t StepWithDelay(const Problem& problem, const Timeline& timeline, OpId late, std::int64_t by) {
  const auto nanos = [](double micros) { return DurationFromMicros(micros).count(); };
  const Cluster& cluster = problem.cluster;
  std::vector<std::int64_t> start(problem.graph.num_ops(), 0);
  std::vector<std::int64_t> end(problem.graph.num_ops(), 0);
  std::vector<std::int64_t> issued(problem.graph.num_ops(), 0);
  std::map<std::pair<TensorId, DeviceId>, std::int64_t> arrival;
  // The ops that lanes issue first come first, in that order: starts are moved until all others agree.
  std::map<OpId, std::size_t> rank;
  for (const OpId op : timeline.issued) rank.emplace(op, rank.size());
  std::vector<Timeline::OpRun> runs = timeline.ops;
  std::stable_sort(runs.begin(), runs.end(), [&](const Timeline::OpRun& a, const Timeline::OpRun& b) {
    const auto key = [&](OpId op) { return rank.contains(op) ? rank.at(op) : rank.size(); };
    return key(a.op) < key(b.op);
  });
  for (bool moved = true; moved;) {
    moved = false;
    const auto move = [&moved](std::int64_t* time, std::int64_t to) {
      moved |= to > *time;
      *time = std::max(*time, to);
    };
    std::map<DeviceId, std::int64_t> device_free;
    std::map<std::pair<DeviceId, DeviceId>, std::int64_t> channel_free;
    std::map<std::string, std::int64_t> lane_free;
    std::map<DeviceId, std::vector<std::int64_t>> queued;  // ends of the device's ops that take time
    std::map<OpId, std::vector<Timeline::Transfer>> sent;
    for (const Timeline::Transfer& transfer : timeline.transfers) {
      sent[problem.graph.tensor(transfer.tensor).producer].push_back(transfer);
    }
    for (const Timeline::OpRun& run : runs) {
      const Device& device = cluster.device(run.device);
      std::int64_t& mine = start[Index(run.op)];
      std::int64_t ready = 0;
      for (const TensorId input : problem.graph.inputs(run.op)) {
        const OpId producer = problem.graph.tensor(input).producer;
        const bool here = problem.placement[producer] == run.device;
        const std::vector<std::int64_t>& done = device.issue ? issued : end;
        ready = std::max(ready, here ? done[Index(producer)] : arrival[{input, run.device}]);
      }
      for (const OpId producer : problem.graph.control_inputs(run.op)) {
        const DeviceId from = problem.placement[producer];
        const bool here = from == run.device;
        const double latency = here ? 0 : cluster.link(from, run.device).latency_micros;
        ready = std::max(ready, (here && device.issue ? issued : end)[Index(producer)] + nanos(latency));
      }
      const std::int64_t time = nanos(run.end_micros) - nanos(run.start_micros);
      if (device.issue) {
        const std::string lane = device.issue->lane.empty() ? "of device " + device.name : "lane " + device.issue->lane;
        std::vector<std::int64_t>& ends = queued[run.device];
        const auto most = static_cast<std::size_t>(device.issue->max_queued);
        if (most > 0 && ends.size() >= most) ready = std::max(ready, ends[ends.size() - most]);
        ready = std::max(ready, lane_free[lane]);
        move(&issued[Index(run.op)], ready + nanos(run.issue_end_micros) - nanos(run.issue_start_micros));
        lane_free[lane] = issued[Index(run.op)];
        ready = issued[Index(run.op)] + (time == 0 ? 0 : nanos(device.issue->launch_latency_micros));
      }
      move(&mine, std::max(ready, device_free[run.device]));
      move(&end[Index(run.op)], mine + time + (run.op == late ? by : 0));
      if (time != 0) queued[run.device].push_back(end[Index(run.op)]);
      std::int64_t free = end[Index(run.op)] + (time == 0 ? 0 : nanos(device.op_gap_micros));
      for (const Timeline::Transfer& transfer : sent[run.op]) {
        const bool pair = cluster.channels() == Channels::kPerPair && device.copy_engine;
        std::int64_t& channel = channel_free[{run.device, pair ? transfer.to : run.device}];
        const std::int64_t begin = std::max(channel, end[Index(run.op)]);
        std::int64_t& there = arrival[{transfer.tensor, transfer.to}];
        move(&there, begin + nanos(transfer.arrival_micros) - nanos(transfer.start_micros));
        channel = there + nanos(cluster.link(run.device, transfer.to).gap_micros);
      }
      if (!device.copy_engine) free = std::max(free, channel_free[{run.device, run.device}]);
      device_free[run.device] = free;
    }
  }
  return *std::max_element(end.begin(), end.end());
}

void ExpectTrueSlack(Rng& rng, bool has_lanes) {
  int with_slack = 0;
  for (int i = 0; i < kRandomSteps / 10; ++i) {
    const Problem problem = RandomProblem(rng, has_lanes);
    const StepExplanation explained = Explain(problem);
    const Timeline timeline = Simulator(problem.graph, problem.cluster, problem.costs).Record(problem.placement);
    for (int k = 0; k < 10; ++k) {
      const OpId op = MakeId<OpId>(rng.Below(problem.graph.num_ops()));
      const std::int64_t slack = explained.slack[Index(op)].count();
      with_slack += slack > 0 ? 1 : 0;
      ASSERT_EQ(StepWithDelay(problem, timeline, op, slack), explained.step_time.count()) << "graph " << i;
      ASSERT_EQ(StepWithDelay(problem, timeline, op, slack + 1), explained.step_time.count() + 1) << "graph " << i;
    }
  }
  EXPECT_GT(with_slack, kRandomSteps / 10);
}

TEST(StepExplanationTest, AnOpMayEndLaterByItsSlackAndNotByOneNanosecondMore) {
  Rng rng(3);
  ExpectTrueSlack(rng, /*has_lanes=*/false);
}

TEST(StepExplanationTest, SlackIsTrueWithIssueLanesTooLengthy) {
  Rng rng(5);
  ExpectTrueSlack(rng, /*has_lanes=*/true);
}

std::string Text(const Graph& graph, const ChainItem& item) {
  return (item.is_transfer ? "sending " : "") + std::string(graph.op(item.op).name);
}
// "0-10 compute a; 10-12 device_queue b before c", times in us.
std::string Text(const Graph& graph, const StepExplanation& explained) {
  std::string text;
  for (const ChainPart& part : explained.chain) {
    text += (text.empty() ? "" : "; ") + std::to_string(part.begin.count() / 1000) + "-" +
            std::to_string(part.end.count() / 1000) + " " + std::string(Name(part.kind)) + " " + Text(graph, part.item);
    if (part.waiter) text += " before " + Text(graph, *part.waiter);
  }
  return text;
}

constexpr Link kGigabyteLink{.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0};  // 1000 bytes per us

TEST(StepExplanationTest, ATransferThatTheNextOpNeedsIsOnTheChain) {
  // a runs 0-4, 2000 bytes take 2 us after a latency of 1, b runs 7-11.
  const Graph graph = MakeChain(2, 4, 2000);
  const StepExplanation explained =
      Explain(Placed(graph, MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 1, .gap_micros = 0}), {0, 1}));
  EXPECT_EQ(Text(graph, explained), "0-4 compute op0; 4-7 transfer sending op0; 7-11 compute op1");
  EXPECT_EQ(explained.chain[1].item.tensor, graph.first_output(MakeId<OpId>(0)));
  EXPECT_EQ(explained.chain[1].item.to, MakeId<DeviceId>(1));
  EXPECT_EQ(explained.devices[1].waiting_for_ops, Duration(4000));
  EXPECT_EQ(explained.devices[1].waiting_for_transfers, Duration(3000));
  EXPECT_EQ(explained.devices[0].idle, Duration(7000));
  EXPECT_EQ(explained.devices[0].on_chain, Duration(4000));
}

TEST(StepExplanationTest, AHostThatIsTooSlowIsOnTheChain) {
  // Issued 0-5, 5-10, 10-15; a runs 6-7, b 11-12, c 16-17: the device waits for the host.
  const Graph graph = MakeChain(3, 1, 2000);
  std::vector<Device> devices = MakeCluster(1, kGigabyteLink).devices();
  devices[0].issue = {.lane = "", .host_micros = 5, .launch_latency_micros = 1, .max_queued = 0};
  const Cluster cluster("fed", "", devices, std::vector<Link>(1), Channels::kPerDevice);
  const StepExplanation explained = Explain(Placed(graph, cluster, {0, 0, 0}));
  EXPECT_EQ(Text(graph, explained),
            "0-5 issue op0; 5-10 issue op1; 10-15 issue op2; 15-16 launch op2; 16-17 compute op2");
  EXPECT_EQ(explained.devices[0].waiting_for_issue, Duration(14000));
  EXPECT_EQ(explained.devices[0].busy, Duration(3000));
  EXPECT_TRUE(explained.has_issue_lanes);
  EXPECT_EQ(explained.num_chain_kinds(), kNumChainKinds);
  // One at a time: each is issued when the one before has ended.
  devices[0].issue->max_queued = 1;
  const Cluster full("full", "", devices, std::vector<Link>(1), Channels::kPerDevice);
  EXPECT_EQ(Text(graph, Explain(Placed(graph, full, {0, 0, 0}))),
            "0-5 issue op0; 5-6 launch op0; 6-7 device_queue op0 before op1; 7-12 issue op1; 12-13 launch op1; "
            "13-14 device_queue op1 before op2; 14-19 issue op2; 19-20 launch op2; 20-21 compute op2");
}

TEST(StepExplanationTest, AnOpThatIsReadyWaitsForTheOpAheadOfIt) {
  // On gpu:0, a runs 0-10 and, after a gap of 1, b 11-16. c, ready at 3 with the result of z on gpu:1, then runs 17-18:
  // until 3 the chain is a's own time.
  const Graph graph = Build({MakeOp("a", 10), MakeOp("b", 5), MakeOp("c", 1, {"z"}), MakeOp("z", 3)});
  const Problem problem = Placed(graph, MakeCluster(2, kGigabyteLink, 1), {0, 0, 0, 0});
  Placement placement = problem.placement;
  placement[*graph.FindOp("z")] = MakeId<DeviceId>(1);
  const StepExplanation explained = Explain({graph, problem.cluster, problem.costs, placement});
  EXPECT_EQ(Text(graph, explained),
            "0-10 device_queue a before b; 10-11 gap a; 11-16 device_queue b before c; 16-17 gap b; 17-18 compute c");
  EXPECT_EQ(explained.total(ChainKind::kGap), Duration(2000));
  // z may end 14 us later, at 17; a and b have no slack.
  EXPECT_EQ(explained.slack[Index(*graph.FindOp("z"))], Duration(14'000));
  EXPECT_EQ(explained.slack[Index(*graph.FindOp("a"))], Duration(0));
}

TEST(StepExplanationTest, TheTimeOfTheOpAheadCountsAsAQueueOnlyFromWhenTheNextIsReady) {
  // z runs 0-3 on gpu:1; a 0-10 on gpu:0; c, ready at 3, waits for a from then on.
  const Graph graph = Build({MakeOp("a", 10), MakeOp("c", 1, {"z"}), MakeOp("z", 3)});
  const StepExplanation explained = Explain(Placed(graph, MakeCluster(2, kGigabyteLink), {0, 1, 0}));
  // Ids are in canonical order: a, z, c.
  EXPECT_EQ(Text(graph, explained), "0-3 compute a; 3-10 device_queue a before c; 10-11 compute c");
}

TEST(StepExplanationTest, ATensorWaitsForTheTransferAheadOfItOnItsChannel) {
  // a runs 0-1 and sends 9000 bytes to gpu:1 (1-10), then, after a gap of 2, 3000 to gpu:2 (12-15), where c runs 15-19.
  // With a channel for each pair it runs 4-8, and the step ends at 11, with b.
  const Graph graph = Build({MakeOp("a", 1, {}, {9000, 3000}), MakeOp("b", 1, {"a:0"}), MakeOp("c", 4, {"a:1"})});
  const Link link{.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 2};
  const StepExplanation explained = Explain(Placed(graph, MakeCluster(3, link), {0, 1, 2}));
  EXPECT_EQ(Text(graph, explained),
            "0-1 compute a; 1-10 channel_queue sending a before sending a; 10-12 gap sending a; "
            "12-15 transfer sending a; 15-19 compute c");
  EXPECT_EQ(explained.chain[1].item.to, MakeId<DeviceId>(1));
  EXPECT_EQ(explained.chain[1].waiter->to, MakeId<DeviceId>(2));
  const Cluster pairs = Cluster::Uniform("pairs", MakeCluster(3).devices(), link, Channels::kPerPair);
  EXPECT_EQ(Text(graph, Explain(Placed(graph, pairs, {0, 1, 2}))),
            "0-1 compute a; 1-10 transfer sending a; 10-11 compute b");
}

TEST(StepExplanationTest, WithoutACopyEngineAnOpWaitsForTheTransferOfItsDevice) {
  // a runs 0-1 on gpu:0, which then sends 3000 bytes to gpu:1 (1-4), and only then starts z, ready at 1.
  const Graph graph = Build({MakeOp("a", 1, {}, {3000}), MakeOp("b", 1, {"a"}), MakeOp("z", 5, {"a"})});
  std::vector<Device> devices = MakeCluster(2).devices();
  for (Device& device : devices) device.copy_engine = false;
  const Cluster cluster = Cluster::Uniform("test", devices, kGigabyteLink);
  const StepExplanation explained = Explain(Placed(graph, cluster, {0, 1, 0}));
  EXPECT_EQ(Text(graph, explained), "0-1 compute a; 1-4 device_queue sending a before z; 4-9 compute z");
  EXPECT_EQ(explained.devices[0].sending, Duration(3000));
}

TEST(StepExplanationTest, AControlInputBetweenDevicesTakesItsLatency) {
  OpSpec b = MakeOp("b", 1);
  b.control_inputs = {"a"};
  const Graph graph = Build({MakeOp("a", 1), b});
  const StepExplanation explained =
      Explain(Placed(graph, MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 2, .gap_micros = 0}), {0, 1}));
  EXPECT_EQ(Text(graph, explained), "0-1 compute a; 1-3 transfer sending a; 3-4 compute b");
  EXPECT_FALSE(explained.chain[1].item.tensor.has_value());
}

TEST(StepExplanationTest, PlacetoReferenceEndsWithTheGaps) {
  // One op of 10 us and its gap of 5.7.
  const Graph graph = Build({MakeOp("a", 10)});
  const StepExplanation explained =
      Explain(Placed(graph, MakeCluster(1, kGigabyteLink, 5.7), {0}), "placeto-reference");
  EXPECT_EQ(explained.step_time, Duration(15'700));
  EXPECT_EQ(explained.total(ChainKind::kCompute), Duration(10'000));
  EXPECT_EQ(explained.total(ChainKind::kGap), Duration(5700));
}

TEST(StepExplanationTest, AnEmptyGraphAndOpsOfNoTimeHaveAnEmptyChain) {
  EXPECT_TRUE(Explain(Placed(Build({}), MakeCluster(2), {})).chain.empty());
  const StepExplanation explained = Explain(Placed(MakeChain(3, 0, 0), MakeCluster(2), {0, 1, 0}));
  EXPECT_EQ(explained.step_time, Duration(0));
  EXPECT_TRUE(explained.chain.empty());
}

TEST(StepExplanationTest, AStepBeyondExactNanosecondsIsRefused) {
  // Ten ops of 1e12 us, one after the other, take 116 days.
  EXPECT_EQ(testing::ErrorOf([] { Explain(Placed(MakeChain(10, 1e12, 0), MakeCluster(1), {})); }),
            "the step takes 104 days or more, and is not explained to the ns (a shorter step)");
}

}  // namespace
}  // namespace emplace
