#include "sim/engines/fifo.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "sim/base/rng.h"
#include "sim/graph.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"
#include "tests/testing/reference_simulator.h"

namespace {
// Counts allocations of the whole program: a run must make none.
std::size_t allocations = 0;
}  // namespace

// g++ inlines the pair below, and then reports free() as a mismatch of operator new.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeOp;
using ::emplace::testing::MeasuredCosts;
using ::testing::ElementsAre;

// Start times by op id and the step time.
struct RunResult {
  std::vector<double> starts;
  double step = 0;
  std::vector<std::int64_t> peaks;
};

RunResult RunOn(const Graph& graph, const Cluster& cluster, std::vector<std::size_t> devices) {
  Placement placement(graph.num_ops());
  for (std::size_t i = 0; i < devices.size(); ++i) placement[MakeId<OpId>(i)] = MakeId<DeviceId>(devices[i]);
  const StepResult result =
      Simulator(graph, cluster, MeasuredCosts(graph, cluster), {.start_times = true}).Run(placement);
  RunResult run{result.start_micros, result.step_time_micros, {}};
  for (const Bytes peak : result.peak_memory) run.peaks.push_back(peak.count);
  return run;
}

// 1 GB/s is 1000 bytes per µs.
constexpr Link kLink{.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0};

TEST(FifoTest, ARemoteConsumerWaitsForTheTransfer) {
  // a runs 0-4; 2000 bytes take 2 us; b runs 6-10.
  const RunResult run = RunOn(testing::MakeChain(2, 4, 2000), MakeCluster(2, kLink), {0, 1});
  EXPECT_THAT(run.starts, ElementsAre(0, 6));
  EXPECT_EQ(run.step, 10);
}

// a runs 0-1 on gpu:0, where z is next. Its 3000 bytes go to gpu:1 (1-4), where b reads them. They also go to gpu:2
// (4-7, or 1-4 with a channel for each pair), where c reads them.
TEST(FifoTest, ADeviceWithoutACopyEngineStartsNoOpWhileItSends) {
  const Graph graph =
      Build({MakeOp("a", 1, {}, {3000}), MakeOp("b", 1, {"a"}), MakeOp("c", 1, {"a"}), MakeOp("z", 1, {"a"})});
  const auto run = [&](bool copy_engine, Channels channels) {
    std::vector<Device> devices = MakeCluster(3).devices();
    for (Device& device : devices) device.copy_engine = copy_engine;
    return RunOn(graph, Cluster::Uniform("test", devices, kLink, channels), {0, 1, 2, 0}).starts;
  };
  EXPECT_THAT(run(true, Channels::kPerDevice), ElementsAre(0, 4, 7, 1));
  EXPECT_THAT(run(false, Channels::kPerDevice), ElementsAre(0, 4, 7, 7));
  EXPECT_THAT(run(true, Channels::kPerPair), ElementsAre(0, 4, 4, 1));
  EXPECT_THAT(run(false, Channels::kPerPair), ElementsAre(0, 4, 7, 7)) << "it can send only one at a time";
}

// Devices of 1 us launch latency, whose lanes take `host` us for an op.
Cluster FedDevices(std::size_t count, double host, std::int64_t max_queued = 0, const std::string& lane = "") {
  std::vector<Device> devices = MakeCluster(count).devices();
  for (Device& device : devices) {
    device.issue = {.lane = lane, .host_micros = host, .launch_latency_micros = 1, .max_queued = max_queued};
  }
  return Cluster::Uniform("fed", devices, kLink);
}

TEST(FifoTest, AnIssueLaneRunsAheadOfItsDevice) {
  const Graph chain = testing::MakeChain(3, 10, 0);
  // Issued 0-2, 2-4, 4-6; a starts 1 us behind its issue, and the others wait for the device, not for the lane.
  const RunResult ahead = RunOn(chain, FedDevices(1, 2), {0, 0, 0});
  EXPECT_THAT(ahead.starts, ElementsAre(3, 13, 23));
  EXPECT_EQ(ahead.step, 33);
  // The lane is slower than the device: every op starts 1 us behind its issue.
  EXPECT_THAT(RunOn(chain, FedDevices(1, 20), {0, 0, 0}).starts, ElementsAre(21, 41, 61));
}

TEST(FifoTest, AFullQueueHoldsTheIssueLane) {
  const Graph chain = testing::MakeChain(3, 10, 0);
  // One at a time: each op is issued when the one before has ended, at 0, 13 and 26.
  EXPECT_THAT(RunOn(chain, FedDevices(1, 2, 1), {0, 0, 0}).starts, ElementsAre(3, 16, 29));
  // Two: the third is issued when the first has ended, at 13; the device is busy until 23 anyway.
  EXPECT_THAT(RunOn(chain, FedDevices(1, 2, 2), {0, 0, 0}).starts, ElementsAre(3, 13, 23));
}

TEST(FifoTest, TheIssueLaneWaitsForWhatOtherDevicesSend) {
  // a is issued 0-2 and runs 3-13; 2000 bytes take 2 us; b is issued 15-17 and starts at 18.
  EXPECT_THAT(RunOn(testing::MakeChain(2, 10, 2000), FedDevices(2, 2), {0, 1}).starts, ElementsAre(3, 18));
}

TEST(FifoTest, DevicesOfOneIssueLaneAreFedOneAfterAnother) {
  const Graph graph = Build({MakeOp("a", 10), MakeOp("b", 10), MakeOp("c", 10)});
  // a; then c, since of candidates for one time the smaller device comes first; then b.
  EXPECT_THAT(RunOn(graph, FedDevices(2, 4, 0, "python"), {0, 1, 0}).starts, ElementsAre(5, 13, 15));
  EXPECT_THAT(RunOn(graph, FedDevices(2, 4), {0, 1, 0}).starts, ElementsAre(5, 5, 15));
}

TEST(FifoTest, AnOpThatTakesNoTimeIsIssuedAndNotLaunched) {
  const Graph graph = Build({MakeOp("a", 10), MakeOp("b", 0, {"a"}), MakeOp("c", 5, {"b"})});
  // b is a view: issued 2-4, it keeps its place behind a, and takes no place of the queue.
  EXPECT_THAT(RunOn(graph, FedDevices(1, 2, 2), {0, 0, 0}).starts, ElementsAre(3, 13, 13));
}

TEST(FifoTest, HostAndDeviceTimesOfAnOpComeBeforeThoseOfTheLane) {
  OpSpec a = MakeOp("a", 50);
  a.host_micros = 7;
  a.device_micros = 30;
  const Graph graph = Build({a, MakeOp("b", 10, {"a"})});
  const RunResult fed = RunOn(graph, FedDevices(1, 2), {0, 0});
  EXPECT_THAT(fed.starts, ElementsAre(8, 38));
  EXPECT_EQ(fed.step, 48);
  EXPECT_EQ(RunOn(graph, MakeCluster(1), {0, 0}).step, 60) << "without a lane, time_us counts";
}

TEST(FifoTest, SendsATensorOncePerDevice) {
  // a runs 0-1. Its 3000 bytes go to gpu:1 (1-4), where b and c read them, and then to gpu:2 (4-7), where d reads them:
  // b 4-5, c 5-6, d 7-8.
  const Graph graph =
      Build({MakeOp("a", 1, {}, {3000}), MakeOp("b", 1, {"a"}), MakeOp("c", 1, {"a"}), MakeOp("d", 1, {"a"})});
  const RunResult run = RunOn(graph, MakeCluster(3, kLink), {0, 1, 1, 2});
  EXPECT_THAT(run.starts, ElementsAre(0, 4, 5, 7));
}

TEST(FifoTest, AChannelPerPairSendsToTwoDevicesAtOnce) {
  const Graph graph = Build({MakeOp("a", 1, {}, {3000}), MakeOp("b", 1, {"a"}), MakeOp("d", 1, {"a"})});
  const Cluster cluster = Cluster::Uniform("c", MakeCluster(3).devices(), kLink, Channels::kPerPair);
  EXPECT_THAT(RunOn(graph, cluster, {0, 1, 2}).starts, ElementsAre(0, 4, 4));
}

TEST(FifoTest, TheGapComesAfterTheArrivalAndHoldsOnlyTheChannel) {
  // a runs 0-1 with two outputs of 2000 bytes. The first is sent 1-3; with latency 1 it arrives at 4, and the gap of 5
  // keeps the channel until 9. The second is sent 9-12.
  const Graph graph = Build({MakeOp("a", 1, {}, {2000, 2000}), MakeOp("b", 1, {"a:0"}), MakeOp("c", 1, {"a:1"})});
  const Cluster cluster = MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 1, .gap_micros = 5});
  EXPECT_THAT(RunOn(graph, cluster, {0, 1, 1}).starts, ElementsAre(0, 4, 12));
}

TEST(FifoTest, ControlEdgesTakeTheLatencyAndNoChannel) {
  // a runs 0-1 and sends 9000 bytes to c (1-10, + latency 2 = 12); b has only a control edge from a: 1 + 2 = 3.
  OpSpec b = MakeOp("b", 1);
  b.control_inputs = {"a"};
  const Graph graph = Build({MakeOp("a", 1, {}, {9000}), b, MakeOp("c", 1, {"a"})});
  const Cluster cluster = MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 2, .gap_micros = 0});
  EXPECT_THAT(RunOn(graph, cluster, {0, 1, 1}).starts, ElementsAre(0, 3, 12));
}

TEST(FifoTest, AnOpOfNoTimePaysNoGap) {
  // Gap 5: a (2 us) 0-2, then b (0 us) not before 7, then c immediately, at 7.
  const Graph graph = Build({MakeOp("a", 2), MakeOp("b", 0), MakeOp("c", 1)});
  const RunResult run = RunOn(graph, MakeCluster(1, kLink, 5), {0, 0, 0});
  EXPECT_THAT(run.starts, ElementsAre(0, 7, 7));
  EXPECT_EQ(run.step, 8);  // the gap after the last op is not part of the step
}

TEST(FifoTest, TimesAreRoundedToNanosecondsOnce) {
  // 0.0005 us rounds up to 1 ns, 0.0004 us down to 0; 1 byte at 3 GB/s takes 0.33 ns: 0.
  const Graph graph = Build({MakeOp("a", 0.0005, {}, {1}), MakeOp("b", 0.0004, {"a"})});
  const RunResult run =
      RunOn(graph, MakeCluster(2, {.bandwidth_gb_per_s = 3, .latency_micros = 0, .gap_micros = 0}), {0, 1});
  EXPECT_THAT(run.starts, ElementsAre(0, 0.001));
  EXPECT_EQ(run.step, 0.001);
}

TEST(FifoTest, AnOpTakesLongerBesideABusyNeighbour) {
  // Copies take twice as long while another device is busy, other ops do not. "a", a copy, runs 0-10 on gpu:0, since it
  // starts first. "b" is not a copy and runs 0-4 on gpu:1. The copy "c" starts at 4, while "a" runs: 4-24. The duration
  // of "a" does not change any more. "d", a copy of 1 us, starts at 10 beside "c": 10-12. "e" is not a copy: 12-13.
  const auto of_kind = [](OpSpec spec, const char* kind) {
    spec.kind = kind;
    return spec;
  };
  const Graph graph = Build({of_kind(MakeOp("a", 10), "concat"), of_kind(MakeOp("b", 4), "relu"),
                             of_kind(MakeOp("c", 10, {"b"}), "concat"), of_kind(MakeOp("d", 1, {"a"}), "concat"),
                             of_kind(MakeOp("e", 1, {"d"}), "relu")});
  const Cluster cluster = MakeCluster(2, kLink);
  Placement placement(graph.num_ops());
  for (const std::size_t op : {std::size_t{1}, std::size_t{2}}) placement[MakeId<OpId>(op)] = MakeId<DeviceId>(1);
  const auto run = [&](const CostTable& costs) {
    return Simulator(graph, cluster, costs, {.start_times = true}).Run(placement);
  };
  const StepResult beside = run(testing::ContendedCosts(graph, cluster, {{OpClass::kCopy, 2}}));
  EXPECT_THAT(beside.start_micros, ElementsAre(0, 0, 4, 10, 12));
  EXPECT_EQ(beside.step_time_micros, 24);
  // If the other ops are slowed instead: "b" 0-8 beside "a", "c" 8-18, "e" 11-13 beside "c".
  const StepResult others = run(testing::ContendedCosts(graph, cluster, {{OpClass::kElementwise, 2}}));
  EXPECT_THAT(others.start_micros, ElementsAre(0, 0, 8, 10, 11));
  EXPECT_EQ(others.step_time_micros, 18);
  const StepResult alone = run(MeasuredCosts(graph, cluster));
  EXPECT_THAT(alone.start_micros, ElementsAre(0, 0, 4, 10, 11));
  EXPECT_EQ(alone.step_time_micros, 14);
}

TEST(FifoTest, AnotherKindOfDeviceIsNoNeighbour) {
  // "a" on the CPU and "b" on the accelerator at the same time, both copies.
  OpSpec a = MakeOp("a", 10);
  OpSpec b = MakeOp("b", 10);
  a.kind = b.kind = "concat";
  const Graph graph = Build({a, b});
  const Cluster cluster = testing::MakeMixedCluster(2);
  const CostTable costs = testing::ContendedCosts(graph, cluster, {{OpClass::kCopy, 2}});
  const auto step = [&](std::size_t of_a, std::size_t of_b) {
    Placement placement(2);
    placement[MakeId<OpId>(0)] = MakeId<DeviceId>(of_a);
    placement[MakeId<OpId>(1)] = MakeId<DeviceId>(of_b);
    return Simulator(graph, cluster, costs).Run(placement).step_time_micros;
  };
  EXPECT_EQ(step(0, 1), 10);
  EXPECT_EQ(step(1, 2), 20);
}

TEST(FifoTest, TiesGoToTheSmallerReadyTimeThenToTheSmallerId) {
  // All on one device; a runs 0-3. d has been ready since 0, so it runs before b and c, which are ready at 3. These run
  // in the order of their ids (names).
  const Graph graph = Build({MakeOp("c", 1, {"a"}), MakeOp("b", 1, {"a"}), MakeOp("a", 3), MakeOp("d", 1)});
  // Canonical order: a, b, c, d.
  EXPECT_THAT(RunOn(graph, MakeCluster(1), {0, 0, 0, 0}).starts, ElementsAre(0, 4, 5, 3));
}

TEST(FifoTest, MemoryHoldsATensorUntilItsLastReaderOrTransferEnds) {
  // a (0-2, output 3000, temporary 500) on gpu:0; b (2-4) reads it there; c on gpu:1 receives it 2-5 and runs 5-7.
  // gpu:0: 0-2: 3000 + 500; 2-4: 3000 (+ b's output of 100 from 2); until 5, when the transfer arrives.
  // gpu:1: 2-7: the copy; c's output of 0 bytes. d's 40 persistent bytes stay throughout.
  OpSpec a = MakeOp("a", 2, {}, {3000});
  a.temp = Bytes{500};
  OpSpec d = MakeOp("d", 0, {}, {});
  d.persistent = Bytes{40};
  const Graph graph = Build({a, MakeOp("b", 2, {"a"}, {100}), MakeOp("c", 2, {"a"}), d});
  const RunResult run = RunOn(graph, MakeCluster(2, kLink), {0, 0, 1, 1});
  EXPECT_THAT(run.peaks, ElementsAre(3500, 3040));
}

TEST(FifoTest, WhatEndsAtAnInstantIsFreedBeforeWhatBegins) {
  // Chain on one device: op0's 1000 bytes live 0-2 (until op1 ends), op1's 1-3, op2's 2-3. At 2, op0's are freed.
  EXPECT_THAT(RunOn(testing::MakeChain(3, 1, 1000), MakeCluster(1), {0, 0, 0}).peaks, ElementsAre(2000));
}

TEST(FifoTest, AnEmptyLifetimeCountsNothing) {
  // b takes no time and its output has no readers, so it is never allocated. a's 8 bytes are, 0-1.
  OpSpec b = MakeOp("b", 0, {"a"}, {1 << 20});
  b.temp = Bytes{1 << 20};
  EXPECT_THAT(RunOn(Build({MakeOp("a", 1, {}, {8}), b}), MakeCluster(1), {0, 0}).peaks, ElementsAre(8));
}

TEST(FifoTest, ControlEdgesHoldNoMemory) {
  // b waits for a by a control edge: a's 1000 bytes are freed at 1, before b's 700 are allocated at 1.
  OpSpec b = MakeOp("b", 1, {}, {700});
  b.control_inputs = {"a"};
  EXPECT_THAT(RunOn(Build({MakeOp("a", 1, {}, {1000}), b}), MakeCluster(1), {0, 0}).peaks, ElementsAre(1000));
}

TEST(FifoTest, NoMemoryIsAllocatedPerRun) {
  Rng rng(21);
  for (const bool per_pair : {false, true}) {
    const Cluster four = MakeCluster(4, {.bandwidth_gb_per_s = 1, .latency_micros = 1, .gap_micros = 1}, 1);
    const Cluster cluster = Cluster::Uniform("c", four.devices(), four.link(MakeId<DeviceId>(0), MakeId<DeviceId>(1)),
                                             per_pair ? Channels::kPerPair : Channels::kPerDevice);
    // Few edges: hundreds of ops are ready at once, so the heaps behind the queues are used too.
    const Graph graph = testing::RandomDag(rng, {.num_ops = 3000, .max_inputs = 1, .memory = true});
    const CostTable costs = MeasuredCosts(graph, cluster);
    const Simulator simulator(graph, cluster, costs, {.peak_memory = true, .start_times = true});
    const auto workspace = simulator.MakeWorkspace();
    StepResult result;
    std::vector<Placement> placements;
    placements.reserve(21);
    for (int i = 0; i < 20; ++i) placements.push_back(testing::RandomPlacement(rng, graph, cluster, costs));
    placements.emplace_back(graph.num_ops());  // all on one device
    simulator.Run(placements[0].devices(), *workspace, &result);
    const std::size_t before = allocations;
    for (const Placement& placement : placements) simulator.Run(placement.devices(), *workspace, &result);
    EXPECT_EQ(allocations, before);
  }
}

// Compares the fast engine with the slow one on inputs that take a special path.
void ExpectAgreement(const Graph& graph, const Cluster& cluster, Rng& rng) {
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Placement placement = testing::RandomPlacement(rng, graph, cluster, costs);
  const auto expected = testing::SimulateSlowly(graph, cluster, costs, placement);
  const StepResult result = Simulator(graph, cluster, costs, {.start_times = true}).Run(placement);
  for (std::size_t op = 0; op < graph.num_ops(); ++op) {
    ASSERT_EQ(result.start_micros[op], static_cast<double>(expected.start_ns[op]) / 1000.0);
  }
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    ASSERT_EQ(result.peak_memory[d].count, expected.peak_bytes[d]);
  }
}

TEST(FifoTest, MoreThan64DevicesAgreeWithTheReference) {
  Rng rng(22);
  for (int i = 0; i < 20; ++i) {
    ExpectAgreement(testing::RandomDag(rng, {.num_ops = 120}), MakeCluster(70, kLink, 1), rng);
  }
}

TEST(FifoTest, RunsTooLongForPackedKeysAgreeWithTheReference) {
  // 150 ops of up to 1e12 us: 2^57 ns and 8 bits of id do not fit 64 bits together.
  Rng rng(23);
  for (int i = 0; i < 20; ++i) {
    const Graph graph =
        testing::RandomDag(rng, {.num_ops = 150, .max_micros = 1'000'000'000'000, .max_kilobytes = 1'000'000});
    ExpectAgreement(graph, MakeCluster(4, kLink, 1), rng);
  }
}

TEST(FifoTest, ThousandsOfReadyOpsRunInTheOrderOfReadyTimeAndId) {
  // 5000 independent ops of 1 us on one device: in the order of ids, far beyond the sorted part of the queue.
  std::vector<OpSpec> specs;
  specs.reserve(5000);
  for (int i = 0; i < 5000; ++i) specs.push_back(MakeOp("op" + std::to_string(i), 1));
  const RunResult run = RunOn(Build(specs), MakeCluster(1), {});
  for (std::size_t i = 0; i < 5000; ++i) ASSERT_EQ(run.starts[i], static_cast<double>(i));
}

// With more than 2^20 words in its program a run fetches ahead, which must change nothing.
TEST(FifoTest, AProgramOfAMillionWordsAgreesWithEngineFlowLengthy) {
  constexpr std::size_t kOps = 120'000;
  constexpr std::size_t kInputs = 6;
  Rng rng(5);
  GraphBuilder builder("large");
  for (std::size_t i = 0; i < kOps; ++i) {
    std::vector<std::string> inputs;
    for (std::size_t k = 0; k < kInputs && i != 0; ++k) {
      inputs.push_back(fmt::format("op{}", i - 1 - rng.Below(std::min<std::size_t>(i, 2'000))));
    }
    builder.Add(MakeOp(fmt::format("op{}", i), static_cast<double>(rng.Below(100)), inputs, {1'000'000}));
  }
  const Graph graph = builder.Build();
  const Cluster cluster = MakeCluster(3);
  Placement placement(kOps);
  for (std::size_t i = 0; i < kOps; ++i) placement[MakeId<OpId>(i)] = MakeId<DeviceId>(rng.Below(3));
  const auto run = [&](const char* engine) {
    const SimOptions options{.engine = engine, .peak_memory = false, .start_times = true};
    return Simulator(graph, cluster, MeasuredCosts(graph, cluster), options).Run(placement);
  };
  EXPECT_TRUE(run("fifo") == run("flow"));
}

TEST(FifoTest, ABackloggedChannelWithLocalOpsInFrontKeepsTheOrder) {
  // v0 .. v999 take no time and send 1000 bytes (1 us) each to gpu:1, where r<i> (1 us) waits for it: ready at 1, 2, 3,
  // ... c0 .. c999 is a chain of 0.5 us ops on gpu:1, each ready before the next r. Only the agreement is tested.
  std::vector<OpSpec> specs;
  std::vector<std::size_t> unused;
  for (int i = 0; i < 300; ++i) {
    const std::string number = std::to_string(i);
    specs.push_back(MakeOp("v" + number, 0, {}, {1000}));
    specs.push_back(MakeOp("r" + number, 1, {"v" + number}));
    specs.push_back(i == 0 ? MakeOp("c0", 0.5) : MakeOp("c" + number, 0.5, {"c" + std::to_string(i - 1)}));
  }
  const Graph graph = Build(specs);
  const Cluster cluster = MakeCluster(2, kLink);
  const CostTable costs = MeasuredCosts(graph, cluster);
  Placement placement(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    placement[op] = MakeId<DeviceId>(graph.op(op).name.front() == 'v' ? 0 : 1);
  }
  const auto expected = testing::SimulateSlowly(graph, cluster, costs, placement);
  const StepResult result = Simulator(graph, cluster, costs, {.start_times = true}).Run(placement);
  for (std::size_t op = 0; op < graph.num_ops(); ++op) {
    ASSERT_EQ(result.start_micros[op], static_cast<double>(expected.start_ns[op]) / 1000.0);
  }
}

}  // namespace
}  // namespace emplace
