#include "datasets/importers/trace_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/datasets/importers/samples.h"
#include "tests/testing/trace_text.h"

namespace emplace::testing {
namespace {

using datasets::TraceStep;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TraceStep Rebuild(const TraceText& text) { return datasets::RebuildStep({ReadTrace(text)}); }

// The ops of a device in their order.
std::vector<TraceStep::Op> OpsOn(const TraceStep& step, const std::string& device) {
  std::vector<TraceStep::Op> ops;
  for (const TraceStep::Op& op : step.ops) {
    if (step.devices[op.device].name == device) ops.push_back(op);
  }
  return ops;
}

std::vector<std::int64_t> TimesOn(const TraceStep& step, const std::string& device) {
  std::vector<std::int64_t> times;
  for (const TraceStep::Op& op : OpsOn(step, device)) times.push_back(op.time / 1000);
  return times;
}

// What op `op` waits for, but for the ones before it on its device: the devices and starts of these.
std::vector<std::string> Waits(const TraceStep& step, const TraceStep::Op& op) {
  std::vector<std::string> waits;
  for (const std::uint32_t before : op.after) {
    if (step.ops[before].device == op.device) continue;
    waits.push_back(
        fmt::format("{} at {}", step.devices[step.ops[before].device].name, step.ops[before].measured_start / 1000));
  }
  return waits;
}

// One thread launches two kernels and waits.
TraceText TwoKernels() {
  return TraceText()
      .Op("aten::mm", 100, 30)
      .Call("cudaLaunchKernel", 110, 10, 1)
      .Kernel("gemm", 122, 50, 1)
      .Op("aten::relu", 140, 20)
      .Call("cudaLaunchKernel", 142, 10, 2)
      .Kernel("relu", 173, 20, 2)
      .Call("cudaDeviceSynchronize", 165, 35, 3);
}

TEST(RebuildStepTest, AThreadIsCutWhereItLaunchesAndWaits) {
  const TraceStep step = Rebuild(TwoKernels());
  EXPECT_EQ(step.measured_time, 100'000);
  // Up to the end of each launch; up to the wait; what is behind the wait.
  EXPECT_THAT(TimesOn(step, "thread 1"), ElementsAre(20, 32, 13, 7));
  EXPECT_THAT(TimesOn(step, "gpu 0 stream 7"), ElementsAre(50, 20));
  const std::vector<TraceStep::Op> kernels = OpsOn(step, "gpu 0 stream 7");
  EXPECT_THAT(Waits(step, kernels[0]), ElementsAre("thread 1 at 0"));
  EXPECT_THAT(Waits(step, kernels[1]), ElementsAre("thread 1 at 20"));
  EXPECT_EQ(kernels[1].after.size(), 2U);  // the kernel before it, and its launch
  const TraceStep::Op wait = OpsOn(step, "thread 1")[3];
  EXPECT_EQ(wait.type, TraceStep::OpType::kWait);
  EXPECT_THAT(Waits(step, wait), ElementsAre("gpu 0 stream 7 at 73"));
  EXPECT_EQ(step.activity_time, 70'000);
  EXPECT_EQ(step.launched_time, 70'000);
  EXPECT_EQ(step.named_time, 70'000);
  EXPECT_THAT(step.notes, IsEmpty());
}

TEST(RebuildStepTest, AKernelBelongsToTheInnermostOpAroundItsCall) {
  const datasets::KinetoTrace trace = ReadTrace(
      TraceText()
          .Op("outer", 0, 100)
          .Op("before", 5, 5)
          .Op("aten::linear", 20, 50)
          .Op("aten::addmm", 25, 30)
          .Add("cuda_runtime", "cudaLaunchKernelExC", "9", "1", 30, 10, R"("correlation": 5, "External id": 99)")
          .Add("cuda_driver", "cuLaunchKernelEx", "9", "1", 32, 5, "\"correlation\": 6")
          .Kernel("gemm", 60, 5, 6)
          .Kernel("split", 66, 5, 5));
  const TraceStep step = datasets::RebuildStep({trace});
  for (const TraceStep::Op& op : OpsOn(step, "gpu 0 stream 7")) {
    EXPECT_EQ(trace.text(trace.events[op.source].name), "aten::addmm");
    EXPECT_EQ(trace.text(trace.events[op.outer].name), "outer");
    // A call inside a call: both hang on the outer one.
    EXPECT_THAT(Waits(step, op), ElementsAre("thread 1 at 0"));
  }
}

TEST(RebuildStepTest, ActivitiesWithoutTheirCallsHoldTheirStream) {
  TraceText text;
  text.Kernel("before the window", 0, 10, 90).Kernel("on the edge", 12, 8, 91).Kernel("backlog", 22, 10, 94);
  text.Op("op", 15, 100).Call("cudaLaunchKernel", 20, 5, 1).Call("cudaLaunchKernel", 30, 5, 2);
  text.Kernel("a", 40, 10, 1).Kernel("lost", 50, 10, 92).Kernel("b", 60, 10, 2).Kernel("later", 90, 10, 93);
  const TraceStep step = Rebuild(text);
  // All of the backlog with its pause is one op, from the start of the step, which is at 15.
  EXPECT_THAT(TimesOn(step, "gpu 0 stream 7"), ElementsAre(17, 10, 10, 10, 10));
  EXPECT_EQ(OpsOn(step, "gpu 0 stream 7")[0].type, TraceStep::OpType::kBacklog);
  EXPECT_THAT(Waits(step, OpsOn(step, "gpu 0 stream 7")[2]), IsEmpty());
  ASSERT_EQ(step.backlog.size(), 2U);
  EXPECT_EQ(step.backlog[0].end, 5'000);
  EXPECT_EQ(step.backlog[1].start, 7'000);
  EXPECT_EQ(step.backlog_time, 15'000);
  EXPECT_EQ(step.trimmed_time, 13'000);
  EXPECT_EQ(step.activity_time, 40'000);
  EXPECT_EQ(step.launched_time, 20'000);
  EXPECT_THAT(step.notes, ElementsAre("1 GPU activities (0.013 ms) at the window's edges without their calls: trimmed",
                                      "0.015 ms of GPU activities were launched before the step and hold their streams",
                                      "2 GPU activities (0.020 ms) have no call"));
}

TEST(RebuildStepTest, AHostWaitsForTheBacklog) {
  const TraceStep step = Rebuild(TraceText()
                                     .Kernel("before", 0, 80, 90)
                                     .Call("cudaDeviceSynchronize", 10, 73, 1)
                                     .Call("cudaLaunchKernel", 90, 5, 2)
                                     .Kernel("k", 100, 10, 2));
  EXPECT_THAT(TimesOn(step, "thread 1"), ElementsAre(3, 12));
  EXPECT_THAT(Waits(step, OpsOn(step, "thread 1")[0]), ElementsAre("gpu 0 stream 7 at 0"));
}

TEST(RebuildStepTest, AnActivityFarBeforeItsCallHasNone) {
  TraceText text;
  text.Op("op", 0, 300);
  for (int id = 1; id <= 30; ++id) text.Call("cudaLaunchKernel", 5 * id, 4, id).Kernel("k", 10 + 5 * id, 4, id);
  text.Call("cudaMemcpyAsync", 290, 4, 99).Kernel("wrong", 12, 1, 99);
  const TraceStep step = Rebuild(text);
  EXPECT_THAT(step.notes, ::testing::Contains("1 GPU activities start before their calls: they count as without one"));
}

// Steps of 100, whose kernels run 60 behind their calls.
TraceText Steps(const std::vector<double>& lengths) {
  TraceText text;
  double start = 0;
  int id = 0;
  for (std::size_t k = 0; k < lengths.size(); ++k) {
    text.Add("user_annotation", fmt::format("ProfilerStep#{}", 7 + k), "9", "1", start, lengths[k], "");
    for (int i = 0; i < 2; ++i) {
      ++id;
      text.Op("op", start + 10 + 10 * i, 8).Call("cudaLaunchKernel", start + 12 + 10 * i, 5, id);
      text.Kernel("k", start + 75 + 40 * i, 40, id);
    }
    start += lengths[k];
  }
  return text;
}

TEST(RebuildStepTest, OfSeveralStepsTheMedianOneIsTaken) {
  const TraceStep step = Rebuild(Steps({100, 130, 110}));
  EXPECT_EQ(step.steps, 3U);
  EXPECT_EQ(step.step, 9);
  EXPECT_THAT(step.notes[0],
              HasSubstr("3 steps in the window (ProfilerStep#7 to #9) of 0.100 to 0.130 ms, median 0.110: "
                        "#9 is taken"));
  // From when the step before has ended on the GPU, at 255, to its own end, at 385.
  EXPECT_EQ(step.measured_time, 130'000);
  EXPECT_THAT(TimesOn(step, "gpu 0 stream 7"), ElementsAre(40, 40));
  EXPECT_EQ(step.activity_time, 80'000);
}

TEST(RebuildStepTest, AStepIsChosenByItsNumber) {
  const datasets::KinetoTrace trace = ReadTrace(Steps({100, 130, 110}));
  const TraceStep first = datasets::RebuildStep({trace}, "7");
  EXPECT_EQ(first.measured_time, 155'000);
  EXPECT_EQ(datasets::RebuildStep({trace}, "all").measured_time, 375'000);
  EXPECT_THAT(OpsOn(datasets::RebuildStep({trace}, "all"), "gpu 0 stream 7"), ::testing::SizeIs(6));
  EXPECT_EQ(Refusal([&] { datasets::RebuildStep({trace}, "12"); }), "--step: is \"12\" (#7 to #9)");
  EXPECT_EQ(datasets::StepsOf({trace}), (std::vector<std::int64_t>{7, 8, 9}));
}

TEST(RebuildStepTest, OneIdOfTwoCallsIsRefusedUnlessTheOrderIsClear) {
  TraceText text;
  text.Op("op", 0, 60).Call("cudaLaunchKernel", 0, 5, 1).Call("cudaLaunchKernel", 10, 5, 1).Kernel("a", 7, 5, 1);
  EXPECT_THAT(Refusal([&] { Rebuild(text); }), HasSubstr("correlation 1 is that of 2 calls and 1 activities"));
  text.Kernel("b", 20, 5, 1);
  EXPECT_EQ(Rebuild(text).launched_time, 10'000);
}

TEST(RebuildStepTest, WhatStartsBeforeTheOneBeforeEndsTakesTheRest) {
  const TraceStep step = Rebuild(TraceText()
                                     .Op("op", 0, 30)
                                     .Call("cudaGraphLaunch", 0, 10, 1)
                                     .Kernel("a", 20, 30, 1)
                                     .Kernel("b", 40, 30, 1)
                                     .Kernel("inside", 45, 5, 1));
  // One launch of a graph, many kernels.
  EXPECT_THAT(TimesOn(step, "gpu 0 stream 7"), ElementsAre(30, 20, 0));
  for (const TraceStep::Op& op : OpsOn(step, "gpu 0 stream 7"))
    EXPECT_THAT(Waits(step, op), ElementsAre("thread 1 at 0"));
}

TEST(RebuildStepTest, ABlockingCopySplitsItsCall) {
  const TraceStep step = Rebuild(TraceText()
                                     .Op("aten::copy_", 0, 200)
                                     .Call("cudaMemcpyAsync", 10, 80, 1)
                                     .Copy(30, 50, 1)
                                     .Call("cudaLaunchKernel", 150, 3, 2)
                                     .Kernel("k", 155, 5, 2));
  // The launch delay is that of the kernel, 2: the copy is handed over 2 before it starts.
  EXPECT_THAT(TimesOn(step, "thread 1"), ElementsAre(28, 10, 63, 47));
  EXPECT_THAT(Waits(step, OpsOn(step, "gpu 0 stream 7")[0]), ElementsAre("thread 1 at 0"));
  EXPECT_THAT(Waits(step, OpsOn(step, "thread 1")[1]), ElementsAre("gpu 0 stream 7 at 30"));
}

TEST(RebuildStepTest, ACopyThatOutlivesItsCallIsNotWaitedFor) {
  const TraceStep step = Rebuild(
      TraceText().Op("aten::copy_", 0, 100).Call("cudaMemcpyAsync", 10, 80, 1).Copy(30, 100, 1).Op("next", 100, 50));
  EXPECT_THAT(TimesOn(step, "thread 1"), ElementsAre(30, 120));
  for (const TraceStep::Op& op : OpsOn(step, "thread 1")) EXPECT_THAT(Waits(step, op), IsEmpty());
}

TEST(RebuildStepTest, DelaysAreMediansOfIdleStreamsAndMeansOfQueues) {
  TraceText text;
  for (int i = 0; i < 5; ++i) {
    // Idle streams: 3, 4, 5, 6, 7 after the call.
    text.Op("op", 1000 * i, 20).Call("cudaLaunchKernel", 1000 * i, 10, 10 * i);
    text.Kernel("k", 1000 * i + 13 + i, 100, 10 * i);
    // Queued ones: 1 after the kernel before, the last one 6.
    text.Call("cudaLaunchKernel", 1000 * i + 12, 5, 10 * i + 1);
    text.Kernel("q", 1000 * i + 114 + i + (i == 4 ? 5 : 0), 10, 10 * i + 1);
  }
  const TraceStep step = Rebuild(text);
  for (const TraceStep::Device& device : step.devices) {
    if (!device.is_stream) continue;
    EXPECT_EQ(device.launch_delay, 5'000);
    EXPECT_EQ(device.gap, 2'000);
  }
}

// Thread 1 runs forward, thread 2 backward meanwhile thread 1 pauses, then thread 1 goes on.
TEST(RebuildStepTest, APauseInWhichAnotherThreadWorksWaitsForIt) {
  const TraceStep step = Rebuild(TraceText()
                                     .Op("forward", 0, 100)
                                     .Call("cudaLaunchKernel", 10, 10, 1)
                                     .Kernel("f", 25, 10, 1)
                                     .Op("backward", 130, 200, 2)
                                     .Call("cudaLaunchKernel", 140, 10, 2, 2)
                                     .Kernel("b", 155, 10, 2)
                                     .Op("optimizer", 350, 50)
                                     .Call("cudaLaunchKernel", 360, 10, 3)
                                     .Kernel("o", 375, 10, 3));
  // Thread 2 starts 30 after thread 1 stopped; thread 1 goes on 20 after thread 2 stopped.
  const std::vector<TraceStep::Op> second = OpsOn(step, "thread 2");
  ASSERT_GE(second.size(), 1U);
  EXPECT_EQ(second[0].time, 30'000);
  EXPECT_THAT(Waits(step, second[0]), ElementsAre("thread 1 at 20"));
  const std::vector<TraceStep::Op> first = OpsOn(step, "thread 1");
  const auto resumed =
      std::find_if(first.begin(), first.end(), [&](const auto& op) { return !Waits(step, op).empty(); });
  ASSERT_NE(resumed, first.end());
  EXPECT_THAT(Waits(step, *resumed), ElementsAre("thread 2 at 150"));
  EXPECT_EQ(resumed->measured_start, 330'000);
  EXPECT_EQ(resumed->time, 20'000);
}

TEST(RebuildStepTest, APauseBesideAThreadThatWorksOnIsItsOwn) {
  const TraceStep step = Rebuild(TraceText()
                                     .Op("a", 0, 100)
                                     .Call("cudaLaunchKernel", 10, 10, 1)
                                     .Kernel("f", 25, 10, 1)
                                     .Op("loader", 0, 1000, 2)
                                     .Op("b", 400, 100));
  EXPECT_THAT(TimesOn(step, "thread 1"), ElementsAre(20, 480));
  EXPECT_THAT(TimesOn(step, "thread 2"), ElementsAre(1000));
}

TEST(RebuildStepTest, ThreadsThatOnlyPollAreLeftOut) {
  TraceText text = TwoKernels();
  text.Call("cudaEventQuery", 0, 5, 50, 3).Call("cudaEventQuery", 5000, 5, 51, 3);
  const TraceStep step = Rebuild(text);
  EXPECT_THAT(OpsOn(step, "thread 3"), IsEmpty());
  EXPECT_EQ(step.measured_time, 100'000);
  EXPECT_THAT(step.notes, ElementsAre("1 threads that only poll or query: left out"));
}

// Stream 8 waits for what stream 7 had when the event was recorded, not for what came later.
TEST(RebuildStepTest, ARecordedWaitJoinsStreams) {
  const auto trace = [](bool recorded) {
    TraceText text;
    text.Op("op", 0, 200).Call("cudaLaunchKernel", 0, 10, 1).Call("cudaEventRecord", 12, 2, 2);
    text.Call("cudaLaunchKernel", 20, 10, 3).Call("cudaStreamWaitEvent", 32, 2, 4).Call("cudaLaunchKernel", 40, 10, 5);
    text.Kernel("first", 15, 100, 1).Kernel("second", 115, 300, 3).Kernel("waits", 117, 50, 5, 8);
    if (recorded) {
      text.Sync("Stream Wait Event", 32, 2, 4, 8, R"("wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 2)");
    }
    return text;
  };
  const TraceStep with_record = Rebuild(trace(true));
  EXPECT_THAT(Waits(with_record, OpsOn(with_record, "gpu 0 stream 8")[0]),
              UnorderedElementsAre("thread 1 at 30", "gpu 0 stream 7 at 15"));
}

// Without records, a start right behind another stream's end shows the wait; one that its launch explains shows none.
TEST(RebuildStepTest, AWaitWithoutARecordIsFoundByTheStart) {
  const auto waits = [](double start) {
    const TraceStep step = Rebuild(TraceText()
                                       .Op("op", 0, 200)
                                       .Call("cudaLaunchKernel", 0, 10, 1)
                                       .Kernel("first", 12, 100, 1)
                                       .Call("cudaEventRecord", 14, 2, 2)
                                       .Call("cudaStreamWaitEvent", 20, 2, 4)
                                       .Call("cudaLaunchKernel", 40, 10, 5)
                                       .Kernel("waits", start, 50, 5, 8));
    return Waits(step, OpsOn(step, "gpu 0 stream 8")[0]);
  };
  EXPECT_THAT(waits(114), UnorderedElementsAre("thread 1 at 10", "gpu 0 stream 7 at 12"));
  EXPECT_THAT(waits(52), ElementsAre("thread 1 at 10"));
  EXPECT_THAT(waits(300), ElementsAre("thread 1 at 10"));
}

TEST(RebuildStepTest, AStreamSynchronisationWaitsForItsStreamOnly) {
  const TraceStep step = Rebuild(TraceText()
                                     .Op("op", 0, 30)
                                     .Call("cudaLaunchKernel", 0, 10, 1)
                                     .Call("cudaLaunchKernel", 12, 10, 2)
                                     .Kernel("short", 15, 60, 1)
                                     .Kernel("long", 25, 70, 2, 8)
                                     .Call("cudaStreamSynchronize", 32, 68, 3)
                                     .Sync("Stream Sync", 32, 68, 3, 7));
  const std::vector<TraceStep::Op> host = OpsOn(step, "thread 1");
  EXPECT_THAT(Waits(step, host.back()), ElementsAre("gpu 0 stream 7 at 15"));
  EXPECT_EQ(host.back().time, 25'000);
}

TEST(RebuildStepTest, AnEventSynchronisationWaitsForWhatWasRecorded) {
  TraceText text;
  text.Op("op", 0, 60).Call("cudaLaunchKernel", 0, 10, 1).Call("cudaEventRecord", 12, 2, 2);
  text.Call("cudaLaunchKernel", 20, 10, 3).Call("cudaEventSynchronize", 40, 30, 4);
  text.Kernel("first", 15, 50, 1).Kernel("second", 66, 300, 3);
  // With a record of what it waited for, and without.
  for (const bool recorded : {true, false}) {
    if (recorded) {
      text.Sync("Event Sync", 40, 30, 4, -1, R"("wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 2)");
    }
    const TraceStep step = Rebuild(text);
    std::vector<TraceStep::Op> waits;
    for (const TraceStep::Op& op : step.ops) {
      if (op.type == TraceStep::OpType::kWait) waits.push_back(op);
    }
    ASSERT_EQ(waits.size(), 1U);
    EXPECT_THAT(Waits(step, waits[0]), ElementsAre("gpu 0 stream 7 at 15"));
    EXPECT_EQ(waits[0].time, 5'000);
  }
}

TEST(RebuildStepTest, ALaunchIntoAFullQueueWaitsForRoom) {
  TraceText text;
  constexpr int kQueued = 1000;
  text.Op("op", 0, 30'000);
  for (int i = 0; i < kQueued; ++i) {
    text.Call("cudaLaunchKernel", 10 * i, 5, i).Kernel("k", 10 + 20'000 * i, 20'000, i);
  }
  // Blocked until the first kernel has ended, at 20,010.
  text.Call("cudaLaunchKernel", 10'000, 10'015, kQueued).Kernel("k", 10 + 20'000 * kQueued, 20'000, kQueued);
  const TraceStep step = Rebuild(text);
  std::vector<TraceStep::Op> waits;
  for (const TraceStep::Op& op : step.ops) {
    if (op.type == TraceStep::OpType::kWait) waits.push_back(op);
  }
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_THAT(Waits(step, waits[0]), ElementsAre("gpu 0 stream 7 at 10"));
  EXPECT_EQ(waits[0].time, 5'000);
}

datasets::KinetoTrace Rank(int rank, double arrives, const std::string& name = "ncclKernel_AllReduce_Sum") {
  TraceText text;
  text.Head(fmt::format("\"distributedInfo\": {{\"rank\": {}}}", rank));
  text.Op("op", 0, 20).Call("cudaLaunchKernel", 0, 10, 1).Kernel("work", 15, arrives - 20, 1);
  text.Op("c10d::allreduce_", 25, 20).Call("cudaLaunchKernel", 30, 10, 2);
  text.Kernel(name, arrives, 500 - arrives, 2, 7, R"("Process Group Name": "0")");
  return ReadTrace(text);
}

TEST(RebuildStepTest, ACollectiveGoesOnWhenAllRanksHaveArrived) {
  const TraceStep step = datasets::RebuildStep({Rank(0, 100), Rank(1, 400)});
  for (const char* const stream : {"rank 0 gpu 0 stream 7", "rank 1 gpu 0 stream 7"}) {
    std::vector<TraceStep::Op> ops = OpsOn(step, stream);
    // Work, the collective after the arrivals, and the arrival, which was added last.
    ASSERT_EQ(ops.size(), 3U);
    EXPECT_EQ(ops[1].type, TraceStep::OpType::kCollective);
    EXPECT_EQ(ops[1].time, 100'000);
    EXPECT_EQ(ops[1].after.size(), 2U);
    EXPECT_EQ(ops[2].type, TraceStep::OpType::kArrival);
    EXPECT_EQ(ops[2].time, 0);
  }
  EXPECT_THAT(step.notes, ElementsAre("1 collectives of several ranks joined"));
}

TEST(RebuildStepTest, CollectivesThatDifferAreNotJoined) {
  const TraceStep step = datasets::RebuildStep({Rank(0, 100), Rank(1, 400, "ncclKernel_Broadcast")});
  EXPECT_THAT(step.notes,
              ElementsAre("process group \"0\": the ranks' collectives differ from number 0 on: not joined"));
  EXPECT_EQ(OpsOn(step, "rank 0 gpu 0 stream 7").size(), 2U);
}

TEST(RebuildStepTest, ClocksAreSetRightByCollectives) {
  datasets::KinetoTrace late = Rank(1, 400);
  late.origin += 1'000'000;
  const TraceStep step = datasets::RebuildStep({Rank(0, 100), late});
  EXPECT_THAT(step.notes,
              ElementsAre("rank 1 has another clock: shifted by -1.000 ms, so that its collectives end with "
                          "the other ranks'",
                          "1 collectives of several ranks joined"));
  EXPECT_EQ(OpsOn(step, "rank 0 gpu 0 stream 7")[1].time, 100'000);
  EXPECT_EQ(step.measured_time, datasets::RebuildStep({Rank(0, 100), Rank(1, 400)}).measured_time);
}

// A rank whose collectives of 20 start then.
datasets::KinetoTrace RankOfMany(int rank, const std::vector<double>& starts) {
  TraceText text;
  text.Head(fmt::format("\"distributedInfo\": {{\"rank\": {}}}", rank)).Op("op", 0, 5);
  for (int k = 0; k < static_cast<int>(starts.size()); ++k) {
    text.Call("cudaLaunchKernel", 10 + 2 * k, 1, k + 1)
        .Kernel("ncclKernel_AllReduce", starts[static_cast<std::size_t>(k)], 20, k + 1);
  }
  return ReadTrace(text);
}

TEST(RebuildStepTest, ClocksThatContradictEachOtherAreRefused) {
  EXPECT_THAT(Refusal([] {
                datasets::RebuildStep({RankOfMany(0, {100, 200, 300, 400}), RankOfMany(1, {150, 500, 900, 2000})});
              }),
              HasSubstr("collectives end on a rank before another rank starts them, whatever the clocks' difference"));
}

TEST(RebuildStepTest, TracesOfAnotherDayAreNotOfOneStep) {
  datasets::KinetoTrace late = Rank(1, 400);
  late.origin += 3'600'000'000'000;
  EXPECT_EQ(Refusal([&] {
              datasets::RebuildStep({Rank(0, 100), late});
            }),
            "traceEvents: rank 1 is 3600 s apart from the traces before it (traces of one step)");
  EXPECT_EQ(Refusal([&] {
              datasets::RebuildStep({late, Rank(0, 100)});
            }),
            "traceEvents: rank 0 is 3600 s apart from the traces before it (traces of one step)");
}

TEST(RebuildStepTest, FilesOfOtherClocksWithoutCommonCollectivesAreRefused) {
  datasets::KinetoTrace late = Rank(1, 400, "ncclKernel_Broadcast");
  late.origin += 2'000'000'000;
  late.file = 1;
  const std::string refusal = Refusal([&] { datasets::RebuildStep({Rank(0, 100), late}); });
  EXPECT_THAT(refusal,
              HasSubstr("rank 1 is 1999.500 ms apart from ranks that are busy for at most 0.500 ms: their clocks "
                        "differ, and no collectives"));
  late.file = 0;  // merged into one file, they have one clock
  EXPECT_EQ(datasets::RebuildStep({Rank(0, 100), late}).measured_time, 2'000'500'000);
}

TEST(RebuildStepTest, AClockThatIsOffByTheSameForAllCollectivesIsSetRight) {
  const std::vector<double> starts = {100, 200, 300, 400};
  datasets::KinetoTrace late = RankOfMany(1, starts);
  late.origin += 15'000;
  EXPECT_THAT(datasets::RebuildStep({RankOfMany(0, starts), late}).notes.at(0),
              HasSubstr("rank 1 has another clock: shifted by -0.015 ms"));
}

TEST(RebuildStepTest, ATraceWithoutAGpuIsRefused) {
  EXPECT_EQ(Refusal([] { Rebuild(TraceText().Op("a", 0, 5).Call("cudaLaunchKernel", 1, 2, 1)); }),
            "traceEvents: has no kernel, copy or set with its call (a step on a GPU)");
  EXPECT_EQ(Refusal([] { Rebuild(TraceText().Op("a", 0, 0)); }), "traceEvents: has no op range (a step on a CPU)");
  EXPECT_EQ(Refusal([] {
              datasets::RebuildStep({ReadTrace(TwoKernels()), ReadTrace(TraceText().Op("a", 0, 5))});
            }),
            "traceEvents: rank 1 holds op ranges alone, or another trace does (traces of one step)");
  EXPECT_THAT(Refusal([] { Rebuild(TraceText().Op("a", 0, 5).Kernel("k", 9, 5, 1)); }), HasSubstr("has no kernel"));
}

}  // namespace
}  // namespace emplace::testing
