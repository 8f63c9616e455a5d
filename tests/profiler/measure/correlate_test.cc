#include "profiler/measure/correlate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/base/rng.h"

namespace emplace {
namespace correlate_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kThread = 7;

profiler::KernelActivity Kernel(std::uint32_t correlation, std::int64_t start, std::int64_t end,
                                std::uint32_t stream = 1) {
  return {.name = "k" + std::to_string(correlation),
          .correlation = correlation,
          .device = 0,
          .stream = stream,
          .start = start,
          .end = end};
}

profiler::RuntimeCall Launch(std::uint32_t correlation, std::int64_t start, std::int64_t end,
                             std::uint64_t thread = kThread) {
  return {.name = "cudaLaunchKernel",
          .correlation = correlation,
          .thread = thread,
          .start = start,
          .end = end,
          .launches_kernel = true};
}

profiler::OpRange Op(std::uint64_t op, std::int64_t start, std::int64_t end, std::uint64_t thread = kThread) {
  return {.op = op, .thread = thread, .start = start, .end = end};
}

std::string ErrorOf(const profiler::ActivityTrace& trace, const profiler::CorrelateOptions& options = {}) {
  try {
    profiler::Correlate(trace, options);
  } catch (const profiler::ActivityError& error) {
    return error.what();
  }
  return "";
}

// Two ops of one kernel each: op 100 runs on the host 10-20 and on the device 30-50, op 200 on 20-28 and 53-60.
profiler::ActivityTrace TwoOps() {
  return {.kernels = {Kernel(1, 30, 50), Kernel(2, 53, 60)},
          .calls = {Launch(1, 12, 18), Launch(2, 22, 27)},
          .ops = {Op(100, 10, 20), Op(200, 20, 28)}};
}

TEST(CorrelateTest, GivesEachOpWhatItStarted) {
  const std::vector<profiler::OpRun> runs = profiler::Correlate(TwoOps());
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].op, 100U);
  EXPECT_EQ(runs[0].start, 10);
  EXPECT_EQ(runs[0].end, 20);
  ASSERT_EQ(runs[0].devices.size(), 1U);
  EXPECT_EQ(runs[0].devices[0].busy, 20);
  EXPECT_EQ(runs[0].devices[0].first_start, 30);
  EXPECT_EQ(runs[0].devices[0].last_end, 50);
  EXPECT_EQ(runs[0].devices[0].launch_end, 18);
  EXPECT_EQ(runs[0].devices[0].kernels, 1);
  ASSERT_EQ(runs[1].devices.size(), 1U);
  EXPECT_EQ(runs[1].devices[0].busy, 7);
}

// One op of three kernels, the second of them launched 20 us before the first ends, at 100 us: the device idles between
// them by itself. The third is launched too late for that, and waits for the host. A fourth overlaps the third.
TEST(CorrelateTest, TheDevicesOwnGapsWithinAnOpAreCounted) {
  const profiler::ActivityTrace trace = {.kernels = {Kernel(1, 30'000, 100'000), Kernel(2, 102'000, 150'000),
                                                     Kernel(3, 157'000, 160'000), Kernel(4, 158'000, 170'000, 2)},
                                         .calls = {Launch(1, 1'000, 2'000), Launch(2, 79'000, 80'000),
                                                   Launch(3, 149'000, 151'000), Launch(4, 151'000, 152'000)},
                                         .ops = {Op(100, 500, 155'000)}};
  const std::vector<profiler::OpRun> runs = profiler::Correlate(trace);
  ASSERT_EQ(runs.size(), 1U);
  ASSERT_EQ(runs[0].devices.size(), 1U);
  EXPECT_EQ(runs[0].devices[0].busy, 70'000 + 48'000 + 13'000);
  EXPECT_EQ(runs[0].devices[0].gaps, 2'000);
  profiler::ActivityTrace later = trace;
  later.calls[1].end = 80'001;  // less than 20 us before
  EXPECT_EQ(profiler::Correlate(later)[0].devices[0].gaps, 0);
}

TEST(CorrelateTest, RecordsMayComeInAnyOrder) {
  profiler::ActivityTrace trace = TwoOps();
  std::reverse(trace.kernels.begin(), trace.kernels.end());
  std::reverse(trace.calls.begin(), trace.calls.end());
  std::reverse(trace.ops.begin(), trace.ops.end());
  const std::vector<profiler::OpRun> runs = profiler::Correlate(trace);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].op, 100U);
  EXPECT_EQ(runs[0].devices.at(0).busy, 20);
  EXPECT_EQ(runs[1].op, 200U);
  EXPECT_EQ(runs[1].devices.at(0).busy, 7);
}

TEST(CorrelateTest, BusyTimeCountsWhatOverlapsOnce) {
  // Stream 1: 30-50. Stream 2: 40-70 overlaps it, and 41-45 is within both. A set at 80-82. Union: 40 + 2.
  profiler::ActivityTrace trace = {.kernels = {Kernel(1, 30, 50), Kernel(2, 40, 70, 2), Kernel(3, 41, 45, 2)},
                                   .sets = {{.correlation = 4, .stream = 1, .start = 80, .end = 82}},
                                   .calls = {Launch(1, 11, 12), Launch(2, 12, 13), Launch(3, 13, 14)},
                                   .ops = {Op(1, 10, 20)}};
  trace.calls.push_back({.name = "cudaMemsetAsync", .correlation = 4, .thread = kThread, .start = 14, .end = 15});
  const std::vector<profiler::OpRun> runs = profiler::Correlate(trace);
  ASSERT_EQ(runs.at(0).devices.size(), 1U);
  EXPECT_EQ(runs[0].devices[0].busy, 42);
  EXPECT_EQ(runs[0].devices[0].last_end, 82);
  EXPECT_EQ(runs[0].devices[0].kernels, 3);
  EXPECT_EQ(runs[0].devices[0].sets, 1);
}

TEST(CorrelateTest, BusyTimeIsPerDevice) {
  // The kernel of device 1 runs at the same time as that of device 0: both count in full.
  profiler::ActivityTrace trace = TwoOps();
  trace.ops = {Op(100, 10, 28)};
  trace.kernels[1].device = 1;
  trace.kernels[1].start = 35;
  trace.kernels[1].end = 45;
  const std::vector<profiler::OpRun> runs = profiler::Correlate(trace);
  ASSERT_EQ(runs.at(0).devices.size(), 2U);
  EXPECT_EQ(runs[0].devices[0].device, 0);
  EXPECT_EQ(runs[0].devices[0].busy, 20);
  EXPECT_EQ(runs[0].devices[1].device, 1);
  EXPECT_EQ(runs[0].devices[1].busy, 10);
}

TEST(CorrelateTest, ANestedOpHasItsOwnKernelsAndTheOuterTheRest) {
  // Outer 10-40 launches 1 at 12 and 3 at 32, inner 20-30 launches 2 at 22.
  const std::vector<profiler::OpRun> runs =
      profiler::Correlate({.kernels = {Kernel(1, 50, 51), Kernel(2, 60, 62), Kernel(3, 70, 74)},
                           .calls = {Launch(1, 12, 14), Launch(2, 22, 24), Launch(3, 32, 34)},
                           .ops = {Op(8, 20, 30), Op(9, 10, 40)}});
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].op, 9U);
  EXPECT_EQ(runs[0].devices.at(0).busy, 5);
  EXPECT_EQ(runs[1].op, 8U);
  EXPECT_EQ(runs[1].devices.at(0).busy, 2);
}

TEST(CorrelateTest, TheThreadTellsOpsOfTheSameTimeApart) {
  const std::vector<profiler::OpRun> runs = profiler::Correlate({.kernels = {Kernel(1, 30, 31), Kernel(2, 40, 44)},
                                                                 .calls = {Launch(1, 12, 14, 1), Launch(2, 12, 14, 2)},
                                                                 .ops = {Op(8, 10, 20, 2), Op(9, 10, 20, 1)}});
  EXPECT_EQ(runs.at(0).op, 8U);
  EXPECT_EQ(runs[0].devices.at(0).busy, 4);
  EXPECT_EQ(runs.at(1).op, 9U);
  EXPECT_EQ(runs[1].devices.at(0).busy, 1);
}

TEST(CorrelateTest, OpsWhoseNumbersAreCorrelationIdsOfOthersAreNotTakenIn) {
  // Traces of older profilers have correlation ids as external ids. Joined by these ids, op 2 would get kernel 2,
  // although op 1 launched it, and op 1 would get kernel 1.
  const std::vector<profiler::OpRun> runs = profiler::Correlate({.kernels = {Kernel(1, 30, 31), Kernel(2, 40, 44)},
                                                                 .calls = {Launch(2, 12, 14), Launch(1, 22, 24)},
                                                                 .ops = {Op(1, 10, 20), Op(2, 20, 28)}});
  EXPECT_EQ(runs.at(0).op, 1U);
  EXPECT_EQ(runs[0].devices.at(0).busy, 4);
  EXPECT_EQ(runs.at(1).op, 2U);
  EXPECT_EQ(runs[1].devices.at(0).busy, 1);
}

// Ops within [start, end] of one thread, randomly nested.
void Nest(std::int64_t start, std::int64_t end, std::uint64_t thread, Rng* rng, std::vector<profiler::OpRange>* ops) {
  while (end - start > 20) {
    const std::int64_t from = start + rng->Between(0, 10);
    const std::int64_t to = std::min(end, from + rng->Between(10, 200));
    ops->push_back(Op(ops->size(), from, to, thread));
    if (rng->Uniform() < 0.7) Nest(from + 1, to - 1, thread, rng, ops);
    start = to + 1;
  }
}

TEST(CorrelateTest, FindsTheInnermostOpWhateverTheNesting) {
  // Compared with a search through every op for every call.
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    profiler::ActivityTrace trace;
    for (const std::uint64_t thread : {1U, 2U}) Nest(100, 2000, thread, &rng, &trace.ops);
    std::map<std::uint64_t, std::int64_t> kernels;  // keyed by op
    for (std::uint32_t id = 1; id <= 200; ++id) {
      const std::int64_t start = rng.Between(100, 2000);
      const profiler::RuntimeCall call = Launch(id, start, start + rng.Between(0, 5), 1 + id % 2);
      const profiler::OpRange* innermost = nullptr;
      for (const profiler::OpRange& op : trace.ops) {
        const bool is_around = op.thread == call.thread && op.start <= call.start && call.end <= op.end;
        if (is_around && (innermost == nullptr || op.end - op.start < innermost->end - innermost->start))
          innermost = &op;
      }
      if (innermost == nullptr) continue;
      ++kernels[innermost->op];
      trace.calls.push_back(call);
      trace.kernels.push_back(Kernel(id, 5000 + 10 * id, 5001 + 10 * id));
    }
    ASSERT_GT(trace.kernels.size(), 50U);
    rng.Shuffle(trace.ops);
    rng.Shuffle(trace.calls);
    for (const profiler::OpRun& run : profiler::Correlate(trace)) {
      const auto expected = kernels.find(run.op);
      const std::int64_t found = run.devices.empty() ? 0 : run.devices[0].kernels;
      ASSERT_EQ(found, expected == kernels.end() ? 0 : expected->second) << "seed " << seed << " op " << run.op;
    }
  }
}

TEST(CorrelateTest, OneCallMayStartSeveralKernels) {
  const std::vector<profiler::OpRun> runs = profiler::Correlate(
      {.kernels = {Kernel(1, 30, 31), Kernel(1, 40, 44)}, .calls = {Launch(1, 12, 14)}, .ops = {Op(5, 10, 20)}});
  EXPECT_EQ(runs.at(0).devices.at(0).kernels, 2);
  EXPECT_EQ(runs[0].devices[0].busy, 5);
}

TEST(CorrelateTest, AnOpThatStartsNothingIsThere) {
  const std::vector<profiler::OpRun> runs = profiler::Correlate({.ops = {Op(5, 10, 20)}});
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_THAT(runs[0].devices, IsEmpty());
}

TEST(CorrelateTest, ADriverCallWithinItsRuntimeCallMayShareItsId) {
  profiler::ActivityTrace trace = TwoOps();
  trace.calls.push_back(Launch(1, 13, 17));
  EXPECT_EQ(profiler::Correlate(trace).at(0).devices.at(0).launch_end, 18);
}

TEST(CorrelateTest, ADriverCallWithinItsRuntimeCallMayHaveAnIdOfItsOwn) {
  profiler::ActivityTrace trace = TwoOps();
  trace.calls.push_back(Launch(3, 13, 17));  // no kernel has this id: the outer call's kernel is enough
  EXPECT_EQ(profiler::Correlate(trace).at(0).devices.at(0).kernels, 1);
}

TEST(CorrelateTest, TwoCallsWithOneIdAreRefused) {
  profiler::ActivityTrace trace = TwoOps();
  trace.calls[1].correlation = 1;
  EXPECT_THAT(ErrorOf(trace), HasSubstr("correlation id 1 is that of two calls, cudaLaunchKernel and cudaLaunchKernel, "
                                        "neither within the other"));
}

TEST(CorrelateTest, DroppedRecordsAreRefused) {
  profiler::ActivityTrace trace = TwoOps();
  trace.dropped = 3;
  EXPECT_EQ(ErrorOf(trace), "profile of the device's activities: 3 records were dropped (expected none)");
}

TEST(CorrelateTest, MissingTimesAreRefused) {
  profiler::ActivityTrace trace = TwoOps();
  trace.kernels[1].end = 0;
  EXPECT_THAT(ErrorOf(trace), HasSubstr("kernel \"k2\" (correlation id 2) has no end time"));
  trace = TwoOps();
  trace.kernels[0].start = 0;
  EXPECT_THAT(ErrorOf(trace), HasSubstr("kernel \"k1\" (correlation id 1) has no start time"));
  trace = TwoOps();
  trace.calls[0].end = 0;
  EXPECT_THAT(ErrorOf(trace), HasSubstr("call cudaLaunchKernel 1 has no end time"));
  trace = TwoOps();
  trace.ops[1].end = 0;
  EXPECT_THAT(ErrorOf(trace), HasSubstr("the range of op 200 has no end time"));
}

TEST(CorrelateTest, AnEndBeforeItsStartIsRefused) {
  profiler::ActivityTrace trace = TwoOps();
  trace.kernels[1].end = 52;
  EXPECT_THAT(ErrorOf(trace), HasSubstr("ends at 52 ns, before it starts at 53 ns"));
}

TEST(CorrelateTest, ActivitiesWithoutACallAreCountedAndSomeNamed) {
  profiler::ActivityTrace trace = TwoOps();
  for (std::uint32_t id = 11; id <= 15; ++id) trace.kernels.push_back(Kernel(id, 100, 101));
  EXPECT_THAT(ErrorOf(trace),
              HasSubstr("5 activities have no call of the host: kernel \"k11\" (correlation id 11), kernel \"k12\" "
                        "(correlation id 12), kernel \"k13\" (correlation id 13), ..."));
}

TEST(CorrelateTest, WhatIsStartedOutsideAnyOpIsCountedAndNamed) {
  profiler::ActivityTrace trace = TwoOps();
  trace.kernels.push_back(Kernel(3, 70, 71));
  trace.calls.push_back(Launch(3, 29, 30));  // after op 200
  trace.kernels.push_back(Kernel(4, 80, 81));
  trace.calls.push_back(Launch(4, 12, 13, kThread + 1));  // on another thread than op 100
  EXPECT_THAT(ErrorOf(trace), HasSubstr("2 activities were started outside any op: kernel \"k3\" (correlation id 3), "
                                        "kernel \"k4\" (correlation id 4)"));
}

TEST(CorrelateTest, ACallThatReachesOutOfItsOpIsOutsideIt) {
  profiler::ActivityTrace trace = TwoOps();
  trace.calls[1].end = 29;
  EXPECT_THAT(ErrorOf(trace), HasSubstr("1 activities were started outside any op: kernel \"k2\""));
}

TEST(CorrelateTest, ALaunchWithoutAKernelIsRefused) {
  // The op would appear to take no time.
  profiler::ActivityTrace trace = TwoOps();
  trace.kernels.pop_back();
  EXPECT_THAT(ErrorOf(trace), HasSubstr("1 launches of kernels left no record of a kernel: cudaLaunchKernel 2"));
}

TEST(CorrelateTest, OpsThatOverlapWithoutNestingAreRefused) {
  profiler::ActivityTrace trace = TwoOps();
  trace.ops[0].end = 21;
  EXPECT_THAT(ErrorOf(trace),
              HasSubstr("the ranges of ops 100 and 200 overlap on one thread, neither within the other"));
  trace.ops[1].thread = kThread + 1;
  trace.calls[1].thread = kThread + 1;
  EXPECT_EQ(ErrorOf(trace), "");
}

TEST(CorrelateTest, TheClockOffsetIsAddedToTheDevicesTimes) {
  profiler::ActivityTrace trace = TwoOps();
  for (profiler::KernelActivity& kernel : trace.kernels) {
    kernel.start += 5'000'000;
    kernel.end += 5'000'000;
  }
  const std::vector<profiler::OpRun> runs = profiler::Correlate(trace, {.device_clock_offset = -5'000'000});
  EXPECT_EQ(runs.at(0).devices.at(0).first_start, 30);
  EXPECT_EQ(runs.at(1).devices.at(0).last_end, 60);
  EXPECT_THAT(profiler::GapMicros(runs, 0, 0), ElementsAre(0.003));
}

TEST(CorrelateTest, AnActivityBeforeItsCallIsRefused) {
  // An offset of 1 ms with the wrong sign.
  EXPECT_THAT(ErrorOf(TwoOps(), {.device_clock_offset = -1'000'000}),
              HasSubstr("2 activities start before the calls that started them (is the clocks' offset right?)"));
  EXPECT_EQ(ErrorOf(TwoOps(), {.device_clock_offset = -40'000}), "");
}

TEST(GapMicrosTest, IsTheIdleTimeBetweenOpsWhereTheHostWasAhead) {
  // The device is free at 50; the launch of the next kernel returned earlier, at 27, and the kernel starts at 53.
  EXPECT_THAT(profiler::GapMicros(profiler::Correlate(TwoOps()), 0, 0), ElementsAre(0.003));
  EXPECT_THAT(profiler::GapMicros(profiler::Correlate(TwoOps()), 1, 0), IsEmpty());
}

TEST(GapMicrosTest, WaitingForTheHostIsNoGap) {
  profiler::ActivityTrace trace = TwoOps();
  trace.ops[1].end = trace.calls[1].end = 51;  // the device is free at 50
  EXPECT_THAT(profiler::GapMicros(profiler::Correlate(trace), 0, 0), IsEmpty());
}

TEST(GapMicrosTest, ALaunchThatIsStillOnItsWayIsNoGap) {
  // The launch of op 200 returned 23 ns before the device was free. With a launch latency of 23 ns it was in time, with
  // 24 not.
  EXPECT_THAT(profiler::GapMicros(profiler::Correlate(TwoOps()), 0, 23), ElementsAre(0.003));
  EXPECT_THAT(profiler::GapMicros(profiler::Correlate(TwoOps()), 0, 24), IsEmpty());
  EXPECT_THAT(profiler::GapMicros(profiler::Correlate(TwoOps()), 0), IsEmpty());
}

TEST(GapMicrosTest, AnOpThatOverlapsTheOneBeforeLeavesNoGap) {
  // 2 runs within 1 on another stream; 3 starts 4 ns after the end of 1, which ends later than 2.
  const std::vector<profiler::OpRun> runs =
      profiler::Correlate({.kernels = {Kernel(1, 100, 200), Kernel(2, 110, 120, 2), Kernel(3, 204, 210)},
                           .calls = {Launch(1, 11, 12), Launch(2, 21, 22), Launch(3, 31, 32)},
                           .ops = {Op(1, 10, 20), Op(2, 20, 30), Op(3, 30, 40)}});
  EXPECT_THAT(profiler::GapMicros(runs, 0, 0), ElementsAre(0.004));
}

TEST(GapMicrosTest, IsBetweenOpsNotBetweenKernelsOfOne) {
  // Op 1's kernels 100-110 and 150-160; op 2's at 162.
  const std::vector<profiler::OpRun> runs =
      profiler::Correlate({.kernels = {Kernel(1, 100, 110), Kernel(2, 150, 160), Kernel(3, 162, 170)},
                           .calls = {Launch(1, 11, 12), Launch(2, 13, 14), Launch(3, 21, 22)},
                           .ops = {Op(1, 10, 20), Op(2, 20, 30)}});
  EXPECT_THAT(profiler::GapMicros(runs, 0, 0), ElementsAre(0.002));
}

}  // namespace correlate_test
}  // namespace emplace
