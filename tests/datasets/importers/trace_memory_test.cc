// Traces of a CPU alone: op ranges with their own times, and the memory that they allocate.

#include "datasets/importers/trace_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "datasets/importers/kineto.h"
#include "datasets/importers/pytorch_et.h"
#include "datasets/importers/trace_step.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/reference.h"
#include "tests/testing/trace_text.h"

namespace emplace::testing {
namespace {

using datasets::TraceStep;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// "aten::mm 50" for each op of a device, in their order, times in µs; "host 20" between ranges.
std::vector<std::string> RangesOn(const datasets::KinetoTrace& trace, const TraceStep& step,
                                  const std::string& device) {
  std::vector<std::string> ops;
  for (const TraceStep::Op& op : step.ops) {
    if (step.devices[op.device].name != device) continue;
    const bool is_range = op.type == TraceStep::OpType::kRange;
    ops.push_back(fmt::format("{} {}", is_range ? trace.text(trace.events[op.event].name) : "host", op.time / 1000));
  }
  return ops;
}

// linear calls t and addmm, which copies; then relu.
TraceText LinearAndRelu() {
  return TraceText()
      .Op("aten::linear", 0, 100, 1, R"("Input Dims": [[2, 3], [4, 3]], "Input type": ["float", "float"])")
      .Op("aten::t", 10, 10)
      .Op("aten::addmm", 30, 60, 1, R"("Input Dims": [[4], [2, 3], [3, 4]], "Input type": ["float", "float", "float"])")
      .Op("aten::copy_", 40, 10)
      .Op("aten::relu", 120, 20);
}

TEST(OpRangesTest, EachRangeHasTheTimeThatNoneInsideItHas) {
  const datasets::KinetoTrace trace = ReadTrace(LinearAndRelu());
  EXPECT_TRUE(datasets::HoldsOpsAlone(trace));
  const TraceStep step = datasets::RebuildStep({trace});
  EXPECT_THAT(RangesOn(trace, step, "thread 1"), ElementsAre("aten::t 10", "aten::copy_ 10", "aten::addmm 50",
                                                             "aten::linear 30", "host 20", "aten::relu 20"));
  EXPECT_EQ(step.measured_time, 140'000);
  EXPECT_EQ(step.activity_time, 120'000);
  EXPECT_EQ(step.activities.size(), 5U);
  const TraceStep::Op& addmm = step.ops[2];
  EXPECT_EQ(addmm.measured_start, 40'000) << "its time stands at its end";
  EXPECT_EQ(trace.text(trace.events[addmm.outer].name), "aten::linear");
  EXPECT_FALSE(addmm.calls_operators) << "a copy is part of it";
  EXPECT_TRUE(step.ops[3].calls_operators);
  EXPECT_THAT(step.ops[4].after, ElementsAre(3));
  EXPECT_THAT(step.notes, IsEmpty());
}

TEST(OpRangesTest, AStepEndsWithItsAnnotation) {
  TraceText text;
  for (int step = 0; step < 3; ++step) {
    const double start = 1000 * step;
    text.Add("user_annotation", fmt::format("ProfilerStep#{}", step), "9", "1", start, 100 + 10 * step, "");
    text.Op("aten::mm", start + 5, 40 + step);
  }
  const datasets::KinetoTrace trace = ReadTrace(text);
  const TraceStep median = datasets::RebuildStep({trace});
  EXPECT_EQ(median.step, 1);
  EXPECT_EQ(median.measured_time, 110'000);
  EXPECT_THAT(RangesOn(trace, median, "thread 1"), ElementsAre("host 5", "aten::mm 41", "host 64"));
  EXPECT_THAT(RangesOn(trace, datasets::RebuildStep({trace}, "2"), "thread 1"),
              ElementsAre("host 5", "aten::mm 42", "host 73"));
  EXPECT_EQ(datasets::RebuildStep({trace}, "all").activity_time, 123'000);
}

std::string FlowEnd(char phase, double time, int thread) {
  return fmt::format(R"({{"ph": "{}", "id": 3, "pid": 9, "tid": {}, "ts": {}, "cat": "fwdbwd", "name": "fwdbwd"}})",
                     phase, thread, time);
}

// Thread 2 runs the backward pass; thread 1 waits for it.
TEST(OpRangesTest, TheBackwardPassComesAfterTheForwardPass) {
  const datasets::KinetoTrace trace = ReadTrace(TraceText()
                                                    .Op("aten::tanh", 0, 20)
                                                    .Raw(FlowEnd('s', 0, 1))
                                                    .Op("aten::sum", 20, 30)
                                                    .Op("TanhBackward0", 60, 40, 2)
                                                    .Raw(FlowEnd('f', 60, 2))
                                                    .Op("aten::tanh_backward", 70, 25, 2)
                                                    .Op("aten::sub_", 110, 20));
  ASSERT_EQ(trace.flows.size(), 1U);
  const TraceStep step = datasets::RebuildStep({trace});
  EXPECT_THAT(RangesOn(trace, step, "thread 1"),
              ElementsAre("aten::tanh 20", "aten::sum 30", "host 10", "aten::sub_ 20"));
  EXPECT_THAT(RangesOn(trace, step, "thread 2"), ElementsAre("host 10", "aten::tanh_backward 25", "TanhBackward0 15"));
  EXPECT_THAT(step.ops[2].after, ElementsAre(1, 6)) << "the thread waits for the backward pass";
  EXPECT_THAT(step.ops[4].after, ElementsAre(1)) << "what the other thread did before it started";
  EXPECT_THAT(step.ops[5].after, ElementsAre(4, 0)) << "the first op inside of the range that the flow leads to";
  EXPECT_EQ(step.measured_time, 130'000);
}

TEST(OpRangesTest, AFlowThatContradictsTheTimesIsIgnored) {
  const datasets::KinetoTrace trace = ReadTrace(
      TraceText().Op("whole", 0, 100).Raw(FlowEnd('s', 0, 1)).Op("Backward0", 50, 20).Raw(FlowEnd('f', 50, 1)));
  const TraceStep step = datasets::RebuildStep({trace});
  EXPECT_THAT(step.ops[0].after, IsEmpty());
}

std::string Change(double time, int address, int bytes, int total, int thread = 1, int device_type = 0) {
  return fmt::format(
      R"({{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 9, "tid": {}, "ts": {},
          "args": {{"Total Allocated": {}, "Bytes": {}, "Addr": {}, "Device Type": {}, "Device Id": -1}}}})",
      thread, time, total, bytes, address, device_type);
}

// 1000 bytes are there before; b reads what a makes, d what b makes; c has 50 bytes for a while, twice.
TraceText FourOps() {
  TraceText text;
  text.Op("a", 0, 10).Op("b", 10, 20).Op("c", 30, 10).Op("d", 40, 10);
  text.Raw(Change(5, 1, 100, 1100)).Raw(Change(15, 2, 200, 1300)).Raw(Change(29, 1, -100, 1200));
  text.Raw(Change(32, 3, 50, 1250)).Raw(Change(34, 3, -50, 1200));
  text.Raw(Change(35, 3, 50, 1250)).Raw(Change(38, 3, -50, 1200));
  text.Raw(Change(45, 2, -200, 1000)).Raw(Change(46, 4, 10, 1010));
  return text.Raw(Change(47, 5, 1 << 20, 1 << 20, 1, /*device_type=*/1));
}

TEST(AddMemoryTest, TensorsLiveFromTheirAllocationToTheirRelease) {
  const TraceStep step = datasets::RebuildStep({ReadTrace(FourOps())});
  std::vector<std::string> tensors;
  for (const TraceStep::Tensor& tensor : step.tensors) {
    tensors.push_back(fmt::format("{} to {}: {}", tensor.from, tensor.to, tensor.bytes));
  }
  EXPECT_THAT(tensors, ElementsAre("0 to 1: 100", "1 to 3: 200", "3 to 3: 10", "0 to 3: 1000"));
  EXPECT_EQ(step.ops[2].temp_bytes, 50) << "not both at once";
  EXPECT_EQ(step.peak_bytes, 1300);
}

TEST(AddMemoryTest, MemoryOfAnEarlierStepIsThereFromTheStart) {
  TraceText text;
  text.Add("user_annotation", "ProfilerStep#0", "9", "1", 0, 100, "").Op("a", 0, 10);
  text.Add("user_annotation", "ProfilerStep#1", "9", "1", 100, 100, "").Op("b", 100, 20).Op("c", 130, 20);
  text.Raw(Change(5, 1, 100, 100)).Raw(Change(6, 2, 7, 107)).Raw(Change(110, 1, -100, 7));
  const TraceStep step = datasets::RebuildStep({ReadTrace(text)}, "1");
  ASSERT_EQ(step.tensors.size(), 2U);
  EXPECT_EQ(step.tensors[0].from, 0U);
  EXPECT_EQ(step.tensors[0].to, 0U) << "b releases it";
  EXPECT_EQ(step.tensors[1].bytes, 7) << "nobody does";
  EXPECT_EQ(step.tensors[1].to, 3U);
  EXPECT_EQ(step.peak_bytes, 107);
}

TEST(AddMemoryTest, AnotherThreadMayReleaseIt) {
  TraceText text;
  text.Op("a", 0, 10).Op("b", 10, 40).Op("c", 50, 20).Op("other", 0, 60, 2);
  text.Raw(Change(5, 1, 100, 100)).Raw(Change(30, 1, -100, 0, 2));
  const TraceStep step = datasets::RebuildStep({ReadTrace(text)});
  ASSERT_EQ(step.tensors.size(), 1U);
  EXPECT_EQ(step.tensors[0].from, 0U);
  EXPECT_EQ(step.tensors[0].to, 1U) << "b runs then";
}

TEST(AddMemoryTest, BetweenTwoRangesInsideAnotherOneTheRangesHaveIt) {
  TraceText text;
  text.Op("whole", 0, 100).Op("aten::mm", 10, 20).Op("aten::relu", 50, 20);
  text.Raw(Change(5, 1, 100, 100)).Raw(Change(40, 1, -100, 0)).Raw(Change(42, 2, 30, 30)).Raw(Change(80, 2, -30, 0));
  const TraceStep step = datasets::RebuildStep({ReadTrace(text)});
  ASSERT_THAT(step.tensors, IsEmpty());
  EXPECT_EQ(step.ops[0].temp_bytes, 100);
  EXPECT_EQ(step.ops[1].temp_bytes, 30);
}

datasets::Imported ImportCpuTrace(const TraceText& text) {
  return ImportText(datasets::FindImporter("kineto", "", ""), text.str(), "t.json");
}

TEST(ImportOpRangesTest, TheGraphHasOperatorsThreadsAndMemory) {
  const datasets::Imported imported = ImportCpuTrace(LinearAndRelu());
  std::vector<std::string> kinds;
  for (const OpId id : imported.graph.file_order()) kinds.emplace_back(imported.graph.op(id).kind);
  EXPECT_THAT(kinds, ElementsAre("aten::t", "aten::copy_", "aten::addmm", "host", "host", "aten::relu"));
  const Op& addmm = FindOp(imported.graph, "0000002 aten.addmm");
  EXPECT_EQ(addmm.attrs, R"({"measured_start_us":40,"op":"aten::addmm","input_dims":[[4],[2,3],[3,4]],)"
                         R"("input_types":["float","float","float"]})");
  EXPECT_EQ(addmm.layer, "aten::linear");
  ASSERT_EQ(imported.cluster->num_devices(), 1U);
  EXPECT_EQ(imported.cluster->devices()[0].name, "thread 1");
  EXPECT_EQ(imported.cluster->devices()[0].kind, datasets::kTraceThreadKind);
  EXPECT_THAT(imported.notes,
              ElementsAre("5 op ranges on 1 thread: 0.120 ms in them, 0.020 ms between them",
                          "simulated: 0.140 ms of 0.140 ms that were measured, 0.00 % is not explained"));

  const datasets::Imported with_memory = ImportCpuTrace(FourOps());
  EXPECT_EQ(with_memory.measured->peak_bytes, 1300);
  EXPECT_EQ(with_memory.measured->simulated_peak_bytes, 1300);
  EXPECT_EQ(with_memory.notes.back(), "memory: 1.27 KiB allocated at the peak as measured, 1.27 KiB as simulated");
  EXPECT_THAT(with_memory.graph.metadata(), HasSubstr(R"("peak_bytes":1300,"simulated_peak_bytes":1300)"));
}

TEST(JoinTimesTest, RangesOfACpuGiveTheirOwnTimes) {
  const auto id = [](int number) { return fmt::format(R"("Record function id": {})", number); };
  const datasets::KinetoTrace times = ReadTrace(TraceText()
                                                    .Op("aten::linear", 0, 100, 1, id(1))
                                                    .Op("aten::t", 10, 10, 1, id(2))
                                                    .Op("aten::mm", 30, 60, 1, id(3))
                                                    .Op("aten::sub_", 100, 20, 1, id(4)));
  std::istringstream in(kEtSample);
  const datasets::EtTrace trace = datasets::ReadEtTrace(in);
  const datasets::EtTimes joined = datasets::JoinTimes(trace, times);
  EXPECT_TRUE(joined.is_host);
  EXPECT_EQ(joined.device_kind, datasets::kTraceThreadKind);
  EXPECT_THAT(joined.micros, ElementsAre(-1, 30, 10, 60, 20));
  EXPECT_EQ(joined.total_micros, 120);
  // linear and t are no ops.
  const datasets::Imported imported = datasets::MakeEtGraph(trace, &times, 95);
  EXPECT_EQ(imported.attributed_percent, 100);
  EXPECT_EQ(imported.notes.back(), "attributed: 100.0 % of 0.080 ms of host time; 2 of 2 ops have a time");
}

TEST(IsPartOfOperatorTest, ViewsAndCopiesArePartOfWhatCallsThem) {
  EXPECT_TRUE(datasets::IsPartOfOperator("aten::addmm", "aten::copy_"));
  EXPECT_TRUE(datasets::IsPartOfOperator("aten::linear", "aten::t"));
  EXPECT_TRUE(datasets::IsPartOfOperator("aten::convolution_backward", "aten::sum"));
  EXPECT_FALSE(datasets::IsPartOfOperator("aten::linear", "aten::addmm"));
  EXPECT_FALSE(datasets::IsPartOfOperator("aten::clone", "aten::copy_")) << "it does nothing else";
}

}  // namespace
}  // namespace emplace::testing
