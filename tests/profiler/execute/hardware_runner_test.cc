#include "profiler/execute/hardware_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "sim/cluster.h"
#include "tests/testing/errors.h"
#include "tests/testing/fake_hardware.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::ErrorOf;
using ::emplace::testing::FakeDevice;
using ::emplace::testing::FakeLog;
using ::emplace::testing::FakeOp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Cluster TwoFakes(std::optional<Bytes> memory = std::nullopt) {
  return Cluster::Uniform("fakes",
                          {{.name = "cpu:0", .kind = "cpu-core", .memory = memory},
                           {.name = "cpu:1", .kind = "cpu-core", .memory = memory}},
                          {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0});
}

using Machine = ::emplace::testing::TwoFakeCores;

constexpr profiler::HardwareOptions kOneStep{.warmups = 0, .steps = 1};

Placement PlacedAt(const Graph& graph, const std::map<std::string, std::size_t>& devices) {
  Placement placement(graph.num_ops());
  for (const auto& [name, device] : devices) placement[*graph.FindOp(name)] = MakeId<DeviceId>(device);
  return placement;
}

TEST(HardwareRunnerTest, EveryOpRunsOnceOnItsDevicesOwnThreadWithWhatItsProducersMade) {
  Machine machine;
  // in = 1, a = 1 + 1 = 2, b = 1 + 1 = 2, c = 1 + 2 + 2 = 5
  const Graph graph =
      Build({FakeOp("in", {}, "input"), FakeOp("a", {"in"}), FakeOp("b", {"in"}), FakeOp("c", {"a", "b"})});
  const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices, kOneStep);
  runner.Run(PlacedAt(graph, {{"b", 1}}));
  std::map<std::string, FakeLog::Run> runs;
  for (const FakeLog::Run& run : machine.log.runs()) EXPECT_TRUE(runs.emplace(run.op, run).second) << run.op;
  ASSERT_EQ(runs.size(), 3U);  // the variable is made, not run
  EXPECT_EQ(runs["a"].device, "cpu:0");
  EXPECT_EQ(runs["b"].device, "cpu:1");
  EXPECT_EQ(runs["b"].thread, machine.second.thread());
  EXPECT_EQ(runs["a"].thread, machine.first.thread());
  EXPECT_NE(machine.first.thread(), machine.second.thread());
  EXPECT_THAT(runs["c"].inputs, ElementsAre(2, 2));
}

TEST(HardwareRunnerTest, ATensorIsSentOnceToEachDeviceThatReadsIt) {
  Machine machine;
  const Graph graph = Build({FakeOp("a"), FakeOp("b", {"a"}), FakeOp("c", {"a"}), FakeOp("d", {"a", "b", "c"})});
  const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices, kOneStep);
  // b, c and d read a on the other device: one copy.
  runner.Run(PlacedAt(graph, {{"b", 1}, {"c", 1}, {"d", 1}}));
  EXPECT_THAT(machine.log.copies(), ElementsAre(Pair("cpu:0 to cpu:1", 1)));
}

TEST(HardwareRunnerTest, ACoreSendsByItselfAndAnAcceleratorBesideItsOps) {
  for (const bool is_cpu : {true, false}) {
    FakeLog log;
    FakeDevice from("first", "a-kind", &log, is_cpu);
    FakeDevice to("second", "a-kind", &log, is_cpu);
    const Graph graph = Build({FakeOp("a"), FakeOp("b", {"a"})});
    const profiler::HardwareRunner runner(graph, TwoFakes(), {&from, &to}, kOneStep);
    runner.Run(PlacedAt(graph, {{"b", 1}}));
    ASSERT_THAT(log.copies(), ElementsAre(Pair("first to second", is_cpu ? 1 : 2)));  // a second copy is timed
    EXPECT_EQ(to.receiving_thread() == from.thread(), is_cpu);
  }
}

TEST(HardwareRunnerTest, OpsThatBecomeRunnableTogetherRunInTheOrderOfTheirIds) {
  Machine machine;
  const Graph graph = Build({FakeOp("z"), FakeOp("c", {"z"}), FakeOp("a", {"z"}), FakeOp("b", {"z"})});
  const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices, kOneStep);
  runner.Run(Placement(graph.num_ops()));
  std::vector<std::string> order;
  for (const FakeLog::Run& run : machine.log.runs()) order.push_back(run.op);
  EXPECT_THAT(order, ElementsAre("z", "a", "b", "c"));  // ids are in the order of the names
}

TEST(HardwareRunnerTest, ControlEdgesAreWaitedForAcrossDevices) {
  Machine machine;
  OpSpec late = FakeOp("a_late");
  late.control_inputs = {"z"};
  const Graph graph = Build({FakeOp("z"), late});
  const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices, kOneStep);
  runner.Run(PlacedAt(graph, {{"a_late", 1}}));
  ASSERT_EQ(machine.log.runs().size(), 2U);
  EXPECT_EQ(machine.log.runs()[0].op, "z");
  EXPECT_TRUE(machine.log.copies().empty());
}

// A device that runs behind the host: its clock advances by 10 µs with every recorded event.
class BehindDevice : public FakeDevice {
 public:
  using FakeDevice::FakeDevice;
  void Synchronize() override {
    if (on_synchronize) on_synchronize();
  }
  std::shared_ptr<profiler::DeviceEvent> RecordTime() override {
    auto moment = std::make_shared<Moment>();
    moment->micros = clock_ += 10;
    return moment;
  }
  double MicrosBetween(const profiler::DeviceEvent& first, const profiler::DeviceEvent& second) override {
    return static_cast<const Moment&>(second).micros - static_cast<const Moment&>(first).micros;
  }
  std::function<void()> on_synchronize;

 private:
  struct Moment : profiler::DeviceEvent {
    double micros = 0;
  };
  double clock_ = 0;
};

// Such a device, and a CPU core.
struct GpuAndCore {
  FakeLog log;
  BehindDevice gpu{"cuda:0", "a-gpu", &log, /*is_cpu=*/false};
  FakeDevice core{"cpu:1", "cpu-core", &log};
  std::vector<profiler::HardwareDevice*> devices{&gpu, &core};
};

TEST(HardwareRunnerTest, ADeviceBehindTheHostTellsItsTimesInOneMoreStep) {
  GpuAndCore machine;
  const Graph graph = Build({FakeOp("a"), FakeOp("b", {"a"}), FakeOp("c", {"b"})});
  const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices, {.warmups = 0, .steps = 2});
  const profiler::HardwareStep step = runner.Measure(PlacedAt(graph, {{"c", 1}}));
  EXPECT_EQ(machine.log.runs().size(), 3 * 3U);
  EXPECT_EQ(step.step_micros.size(), 2U);
  std::map<std::size_t, Timeline::OpRun> ops;
  for (const Timeline::OpRun& run : step.timeline.ops) ops[Index(run.op)] = run;
  ASSERT_EQ(ops.size(), 3U);
  // The recorded events are: the step's beginning, a's two, b's two.
  EXPECT_NEAR(ops[0].end_micros - ops[0].start_micros, 10, 1e-6);
  EXPECT_NEAR(ops[1].start_micros - ops[0].end_micros, 10, 1e-6);
  EXPECT_NEAR(ops[1].end_micros - ops[1].start_micros, 10, 1e-6);
  EXPECT_EQ(step.result.start_micros[1], ops[1].start_micros);
}

TEST(HardwareRunnerTest, AControlEdgeWaitsUntilADeviceBehindTheHostIsDone) {
  GpuAndCore machine;
  machine.gpu.on_synchronize = [&] {
    machine.log.Add({.op = "synchronize", .device = "cuda:0", .thread = std::this_thread::get_id(), .inputs = {}});
  };
  OpSpec late = FakeOp("a_late");
  late.control_inputs = {"z"};
  const Graph graph = Build({FakeOp("z"), late});
  const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices, kOneStep);
  runner.Run(PlacedAt(graph, {{"a_late", 1}}));
  std::vector<std::string> course;
  for (const FakeLog::Run& run : machine.log.runs()) course.push_back(run.op);
  const auto z = std::find(course.begin(), course.end(), "z");
  const auto then = std::find(z, course.end(), "synchronize");
  EXPECT_LT(z, then);
  EXPECT_LT(then, std::find(course.begin(), course.end(), "a_late"));
}

TEST(HardwareRunnerTest, InterleavingIsRefusedWhereTheClockTellsNothing) {
  FakeLog log;
  FakeDevice gpu("cuda:0", "a-gpu", &log, /*is_cpu=*/false);
  const Graph graph = Build({FakeOp("a")});
  EXPECT_THAT(ErrorOf([&] {
                const profiler::HardwareRunner runner(graph, TwoFakes(), {&gpu, nullptr}, {.interleave = true});
              }),
              HasSubstr("cuda:0: ops cannot be timed between steps there"));
}

TEST(HardwareRunnerTest, CountsTheStepsThatItIsToldAndTakesTheirMedianOrMean) {
  Machine machine;
  const Graph graph = Build({FakeOp("a"), FakeOp("b", {"a"})});
  for (const auto statistic :
       {profiler::HardwareOptions::Statistic::kMedian, profiler::HardwareOptions::Statistic::kMean}) {
    const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices,
                                          {.warmups = 2, .steps = 3, .statistic = statistic});
    const std::size_t before = machine.log.runs().size();
    const profiler::HardwareStep step = runner.Measure(Placement(graph.num_ops()));
    EXPECT_EQ(machine.log.runs().size() - before, 10U);  // (2 + 3) steps of 2 ops
    ASSERT_EQ(step.step_micros.size(), 3U);
    std::vector<double> sorted = step.step_micros;
    std::sort(sorted.begin(), sorted.end());
    const double expected = statistic == profiler::HardwareOptions::Statistic::kMedian
                                ? sorted[1]
                                : (sorted[0] + sorted[1] + sorted[2]) / 3;
    EXPECT_DOUBLE_EQ(step.result.step_time_micros, expected);
  }
}

// "a" and "c" have one signature and are on the first device; "b" is alone on the second. After each counted step, one
// op of each signature runs by itself; on the first device a second op of the signature runs before it. Then the same
// beside the other device, which is busy. All also run once in preparation.
TEST(HardwareRunnerTest, InterleavedOpsRunByThemselvesAfterEachCountedStep) {
  Machine machine;
  const Graph graph = Build({FakeOp("a"), FakeOp("b", {"a"}), FakeOp("c")});
  const Placement placement = PlacedAt(graph, {{"b", 1}});
  const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices,
                                        {.warmups = 1, .steps = 2, .interleave = true});
  const profiler::HardwareStep step = runner.Measure(placement);
  const std::size_t runs = machine.log.runs().size();
  EXPECT_GE(runs, 3 * 3U + 3 + 2 * (3 + 3 + 2));  // the busy device ran at least one op
  ASSERT_EQ(step.op_times.alone.size(), 3U);
  EXPECT_EQ(step.op_times.alone[0], step.op_times.alone[2]);
  EXPECT_GT(step.op_times.alone[1], 0);
  ASSERT_EQ(step.op_times.beside.size(), 3U);
  EXPECT_GT(step.op_times.beside[1], 0);
  // A reward run measures only the step time.
  runner.Run(placement);
  EXPECT_EQ(machine.log.runs().size(), runs + 9);
}

// The disturbance of a step is the mean of the probes before and after it; a step is calm up to 1.1. The second device
// is never disturbed.
TEST(HardwareRunnerTest, DisturbedStepsAreRunAgainAsLongAsThereIsPatience) {
  for (const double patience : {1e6, 1e-9, 0.0}) {
    Machine machine;
    std::size_t probes = 0;
    const std::vector<double> micros = {10, 19, 10, 10, 30, 30, 11, 10};  // before and after each step
    // Indexed by the number of steps so far, the warm-up included: a long step on a busy machine is also probed within.
    machine.first.probe = [&] {
      ++probes;
      return micros.at(std::min(machine.log.runs().size() / 2 - 1, micros.size() - 1));
    };
    machine.second.probe = [] { return 5.0; };
    const Graph graph = Build({FakeOp("a"), FakeOp("b", {"a"})});
    const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices,
                                          {.warmups = 1, .steps = 2, .patience_seconds = patience});
    const profiler::HardwareStep step = runner.Measure(PlacedAt(graph, {{"b", 1}}));
    EXPECT_EQ(step.step_micros.size(), 2U);
    const std::size_t steps = machine.log.runs().size() / 2;
    if (patience == 1e6) {
      EXPECT_EQ(steps, 1 + 7U);  // after the warm-up, only the third and the seventh step are calm
      EXPECT_EQ(step.disturbed, 0U);
    } else if (patience > 0) {  // exhausted by the first step
      EXPECT_EQ(steps, 1 + 2U);
      EXPECT_EQ(step.disturbed, 2U);
    } else {
      EXPECT_EQ(steps, 1 + 2U);
      EXPECT_EQ(step.disturbed, 0U);
      EXPECT_EQ(probes, 0U);
    }
  }
}

// Steps are slowed by factors of 3, 1.3, and then 4. The second counts; its sleep is shorter than the others'.
TEST(HardwareRunnerTest, WhereNoStepIsCalmTheLeastDisturbedCountLengthy) {
  Machine machine;
  std::size_t runs = 0;
  machine.first.on_run = [&](const std::string&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(++runs == 2 ? 1 : 100));
  };
  machine.first.probe = [&] {
    if (runs == 0) return 10.0;
    return runs == 1 ? 30.0 : runs == 2 ? 13.0 : 40.0;
  };
  const Graph graph = Build({FakeOp("a")});
  const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices,
                                        {.warmups = 0, .steps = 1, .patience_seconds = 1});
  const profiler::HardwareStep step = runner.Measure(Placement(graph.num_ops()));
  ASSERT_EQ(step.step_micros.size(), 1U);
  EXPECT_EQ(step.disturbed, 1U);
  EXPECT_GT(runs, 2U);
  EXPECT_LT(step.step_micros[0], 100'000);
}

TEST(HardwareRunnerTest, ADisturbanceInTheMiddleOfALongStepIsSeen) {
  Machine machine;
  std::size_t probes = 0;
  const std::vector<double> micros = {10, 30, 10, 10, 10};  // before, within and after the first step; then the second
  machine.first.probe = [&] { return micros.at(std::min(probes++, micros.size() - 1)); };
  machine.first.on_run = [](const std::string&) { std::this_thread::sleep_for(std::chrono::milliseconds(11)); };
  const Graph graph = Build({FakeOp("a")});
  const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices,
                                        {.warmups = 0, .steps = 1, .patience_seconds = 1e6});
  const profiler::HardwareStep step = runner.Measure(Placement(graph.num_ops()));
  EXPECT_EQ(step.step_micros.size(), 1U);
  EXPECT_EQ(machine.log.runs().size(), 2U);
  EXPECT_EQ(probes, 5U);
}

TEST(HardwareRunnerTest, TheTimelineHasEveryOpAfterItsProducersAndEveryTransfer) {
  Machine machine;
  const Graph graph = Build({FakeOp("a"), FakeOp("b", {"a"}), FakeOp("c", {"b"})});
  const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices, kOneStep);
  const profiler::HardwareStep step = runner.Measure(PlacedAt(graph, {{"b", 1}}));
  ASSERT_EQ(step.timeline.ops.size(), 3U);
  ASSERT_EQ(step.timeline.transfers.size(), 2U);
  const auto run = [&](std::size_t i) { return step.timeline.ops[i]; };
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(Index(run(i).op), i);
    EXPECT_LE(run(i).start_micros, run(i).end_micros);
    EXPECT_EQ(step.result.start_micros[i], run(i).start_micros);
  }
  EXPECT_LE(run(0).end_micros, step.timeline.transfers[0].start_micros);
  EXPECT_LE(step.timeline.transfers[0].arrival_micros, run(1).start_micros);
  EXPECT_DOUBLE_EQ(step.result.step_time_micros, run(2).end_micros);
}

TEST(HardwareRunnerTest, PeakMemoryIsWhatTheGraphStates) {
  Machine machine;
  // On cpu:0: w of 400 bytes until b has run and the copy is done, b of 40. On cpu:1: the copy of w, and c of 100.
  OpSpec weights = FakeOp("w", {}, "relu", 100);
  weights.persistent = {1000};
  const Graph graph = Build({weights, FakeOp("b", {"w"}, "relu", 10), FakeOp("c", {"w"}, "relu", 25)});
  const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices, kOneStep);
  const StepResult result = runner.Run(PlacedAt(graph, {{"c", 1}}));
  EXPECT_EQ(result.peak_memory[0].count, 1000 + 400 + 40);
  EXPECT_EQ(result.peak_memory[1].count, 400 + 100);
}

TEST(HardwareRunnerTest, RunningOutOfMemoryIsAResultAndTheNextPlacementRuns) {
  Machine machine;
  // a and b hold 400 bytes each and c 4: 804 bytes at once, over 600.
  const Graph graph = Build({FakeOp("a", {}, "relu", 100), FakeOp("b", {}, "relu", 100), FakeOp("c", {"a", "b"})});
  const profiler::HardwareRunner runner(graph, TwoFakes(Bytes{900}), machine.devices, kOneStep);
  EXPECT_TRUE(runner.Run(Placement(graph.num_ops())).fits_memory);
  const profiler::HardwareRunner tight(graph, TwoFakes(Bytes{600}), machine.devices, kOneStep);
  const profiler::HardwareStep step = tight.Measure(Placement(graph.num_ops()));
  EXPECT_FALSE(step.result.fits_memory);
  EXPECT_THAT(step.failure, HasSubstr("the device has 600"));
  const Graph small = Build({FakeOp("a", {}, "relu", 100), FakeOp("b", {}, "too-large", 1)});
  const profiler::HardwareRunner broken(small, TwoFakes(), machine.devices, kOneStep);
  const profiler::HardwareStep failed = broken.Measure(Placement(small.num_ops()));
  EXPECT_FALSE(failed.result.fits_memory);
  EXPECT_EQ(failed.failure, "no room");
}

TEST(HardwareRunnerTest, AFailureOfOneOpEndsTheStepEverywhereAndIsThrown) {
  Machine machine;
  const Graph graph = Build({FakeOp("a", {}, "fails"), FakeOp("b", {"a"}), FakeOp("c", {"b"})});
  const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices, kOneStep);
  try {
    runner.Run(PlacedAt(graph, {{"b", 1}}));
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the device is on fire");
  }
}

TEST(HardwareRunnerTest, AnOpWithoutImplementationIsNamed) {
  Machine machine;
  const Graph graph = Build({FakeOp("strange", {}, "unknown")});
  const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices, kOneStep);
  EXPECT_EQ(ErrorOf([&] { runner.Run(Placement(graph.num_ops())); }), "strange: kind unknown has no implementation");
}

TEST(HardwareRunnerTest, WhatStaysOnItsDeviceIsNotPreparedAgain) {
  Machine machine;
  const Graph graph = Build({FakeOp("a"), FakeOp("b", {"a"}), FakeOp("c", {"b"})});
  const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices, kOneStep);
  runner.Run(Placement(graph.num_ops()));
  EXPECT_EQ(machine.first.prepared(), 3U);
  runner.Run(PlacedAt(graph, {{"b", 1}}));
  EXPECT_EQ(machine.first.prepared(), 3U);
  EXPECT_EQ(machine.second.prepared(), 1U);
}

// Ten thousand ops on two devices: every op runs, after its inputs (a null input stops the fake device).
TEST(HardwareRunnerTest, RandomGraphsComputeTheSameWhateverTheirPlacement) {
  Rng rng(7);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<OpSpec> ops;
    for (std::size_t i = 0; i < 60; ++i) {
      std::vector<std::string> inputs;
      for (std::size_t k = 0; i > 0 && k < rng.Below(4); ++k) inputs.push_back("op" + std::to_string(rng.Below(i)));
      ops.push_back(FakeOp("op" + std::to_string(i), inputs));
      if (i > 0 && rng.Below(5) == 0) ops.back().control_inputs = {"op" + std::to_string(rng.Below(i))};
    }
    const Graph graph = Build(ops);
    std::map<std::string, std::vector<double>> expected;
    for (int placed = 0; placed < 4; ++placed) {
      Machine machine;
      const profiler::HardwareRunner runner(graph, TwoFakes(), machine.devices, kOneStep);
      Placement placement(graph.num_ops());
      for (std::size_t n = 0; placed > 0 && n < graph.num_ops(); ++n) {
        placement[MakeId<OpId>(n)] = MakeId<DeviceId>(rng.Below(2));
      }
      EXPECT_TRUE(runner.Run(placement).fits_memory);
      std::map<std::string, std::vector<double>> inputs;
      for (const FakeLog::Run& run : machine.log.runs()) inputs[run.op] = run.inputs;
      ASSERT_EQ(inputs.size(), 60U);
      if (placed == 0) expected = inputs;
      EXPECT_EQ(inputs, expected);
    }
  }
}

}  // namespace
}  // namespace emplace
