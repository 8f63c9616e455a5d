#include "experiments/validation/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "tests/testing/reference.h"
#include "tests/testing/trace_text.h"

namespace emplace::testing {
namespace {

using experiments::IdleCause;
using experiments::Replay;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

datasets::Imported ImportTrace(const TraceText& text) {
  const datasets::ImportSource source("t.json", text.str());
  return datasets::Import(datasets::FindImporter("kineto", "", ""), {&source, 1});
}

// Stream 7 runs a kernel, stream 8 waits for it, the host waits for both.
TraceText TwoStreams() {
  TraceText text;
  text.Op("op", 0, 60).Call("cudaLaunchKernel", 0, 10, 1).Call("cudaLaunchKernel", 12, 8, 2);
  text.Call("cudaEventRecord", 22, 2, 3).Call("cudaStreamWaitEvent", 26, 2, 4).Call("cudaLaunchKernel", 30, 10, 5);
  text.Kernel("a", 12, 50, 1).Kernel("b", 63, 20, 2).Kernel("waits", 85, 100, 5, 8);
  text.Sync("Stream Wait Event", 26, 2, 4, 8, R"("wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 3)");
  return text.Call("cudaDeviceSynchronize", 62, 128, 6);
}

TEST(ReplayTest, SimulatedAndMeasuredStandSideBySide) {
  const datasets::Imported imported = ImportTrace(TwoStreams());
  const Replay replay = experiments::MakeReplay(imported);
  EXPECT_EQ(replay.activities, 3U);
  EXPECT_EQ(replay.ops, imported.graph.num_ops());
  EXPECT_EQ(replay.measured_step_time, 190);
  // The launch delay is 2, the gap of queued kernels 1; b ends at 83, and waits starts at once instead of 2 later.
  EXPECT_EQ(replay.step_time, 188);
  EXPECT_NEAR(replay.StepError(), 188.0 / 190 - 1, 1e-12);
  EXPECT_EQ(replay.gpu_busy, 170);
  EXPECT_EQ(replay.measured_gpu_busy, 170);
  EXPECT_EQ(replay.starts.median, 0);
  EXPECT_EQ(replay.starts.largest, 2);
  ASSERT_EQ(replay.streams.size(), 2U);
  EXPECT_EQ(replay.streams[0].name, "gpu 0 stream 7");
  EXPECT_EQ(replay.streams[0].busy, 70);
  EXPECT_EQ(replay.streams[1].measured_busy, 100);
}

TEST(ReplayTest, EveryIdleMomentHasACause) {
  const Replay replay = experiments::MakeReplay(ImportTrace(TwoStreams()));
  for (const experiments::ReplayStream& stream : replay.streams) {
    double sum = stream.busy;
    double measured_sum = stream.measured_busy;
    for (std::size_t k = 0; k < experiments::kNumIdleCauses; ++k) {
      sum += stream.idle[k];
      measured_sum += stream.measured_idle[k];
    }
    EXPECT_EQ(sum, replay.step_time);
    EXPECT_EQ(measured_sum, replay.measured_step_time);
  }
  // Stream 8: launched at 40, then the other stream's kernel until 83, then 2 that nothing explains; then the host.
  EXPECT_THAT(replay.streams[1].measured_idle, ElementsAre(40 + 5, 2, 43));
  EXPECT_THAT(replay.streams[0].measured_idle, ElementsAre(10 + 107, 2 + 1, 0));
}

TEST(ReplayTest, TheCriticalPathLeadsFromTheLaunchOverBothStreams) {
  const datasets::Imported imported = ImportTrace(TwoStreams());
  const Replay replay = experiments::MakeReplay(imported);
  std::vector<std::string> path;
  for (const ChainPart& part : replay.explanation.chain) {
    if (part.kind == ChainKind::kCompute) path.emplace_back(imported.graph.op(part.item.op).kind);
  }
  EXPECT_THAT(path, ElementsAre("host", "kernel", "kernel", "kernel", "wait"));
  EXPECT_EQ(replay.explanation.step_time, DurationFromMicros(replay.step_time));
}

TEST(WriteReplayTest, HoldsTheKeysOfTheContract) {
  const datasets::Imported imported = ImportTrace(TwoStreams());
  std::ostringstream out;
  experiments::WriteReplay(out, experiments::MakeReplay(imported), imported);
  const nlohmann::json json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json.at("schema"), "emplace.replay");
  EXPECT_EQ(json.at("version"), 1);
  EXPECT_EQ(json.at("step_time_us"), 188);
  EXPECT_EQ(json.at("measured_step_time_us"), 190);
  EXPECT_EQ(json.at("gpu_busy_us"), 170);
  EXPECT_EQ(json.at("measured_gpu_busy_us"), 170);
  EXPECT_EQ(json.at("attributed_percent"), 100);
  EXPECT_NEAR(json.at("unexplained_percent"), 100.0 * 2 / 190, 1e-12);
  EXPECT_EQ(json.at("steps"), 1);
  EXPECT_NEAR(json.at("streams").at(1).at("unexplained_percent"), 100.0 * 2 / 185, 1e-12);
  EXPECT_EQ(json.at("streams").at(1).at("name"), "gpu 0 stream 8");
  EXPECT_EQ(json.at("streams").at(1).at("busy_us"), 100);
  EXPECT_EQ(json.at("streams").at(1).at("measured_busy_us"), 100);
  EXPECT_EQ(json.at("streams").at(1).at("measured_idle").at("synchronisation_us"), 43);
  EXPECT_THAT(json.at("critical_path").size(), Gt(4U));
}

Replay ReplayOf(const std::vector<std::string>& cases, const datasets::ImportOptions& options = {}) {
  std::vector<datasets::ImportSource> sources;
  for (const std::string& name : cases) {
    sources.emplace_back(std::string(EMPLACE_TEST_SOURCE_DIR) + "/cases/" + name + ".json");
  }
  return experiments::MakeReplay(datasets::Import(datasets::FindImporter("kineto", "", ""), sources, options));
}

// Small traces with known faults, and what they measure.
TEST(ReplayTest, FaultyTracesTakeTheRightTime) {
  struct Right {
    std::string name;
    double micros;
    double busy;
    std::size_t activities;
  };
  for (const Right& right : std::vector<Right>{{"k01_ts0_launched", 327, 300, 5},
                                               {"k02_inf", 327, 300, 6},
                                               {"k03_neg_dur_pyfunc", 327, 300, 5},
                                               {"k10_merged_same_corr", 3327, 600, 10},
                                               {"k14_three_steps", 990, 600, 3},
                                               {"k16_xpu_runtime", 327, 300, 5},
                                               {"k23_backlog_known", 997, 992, 5},
                                               {"k41_gpu_other_id", 327, 300, 5},
                                               {"k42_sync_waits_for_trimmed", 945, 900, 4},
                                               {"k45_external_id_only", 327, 300, 5}}) {
    const Replay replay = ReplayOf({right.name});
    EXPECT_EQ(replay.measured_step_time, right.micros) << right.name;
    EXPECT_NEAR(replay.step_time, right.micros, 0.01 * right.micros) << right.name;
    EXPECT_EQ(replay.gpu_busy, right.busy) << right.name;
    EXPECT_EQ(replay.activities, right.activities) << right.name;
  }
  EXPECT_EQ(ReplayOf({"k41_gpu_other_id"}).gpus, std::vector<std::string>{"AMD Instinct MI300X"});
  EXPECT_EQ(ReplayOf({"k14_three_steps"}).steps, 3U);
  EXPECT_LT(ReplayOf({"k10_merged_same_corr"}).starts.largest, 10);
}

TEST(ReplayTest, AWindowOfAnotherStepIsRefusedUnlessItIsAskedFor) {
  EXPECT_THROW(ReplayOf({"k47_mostly_trimmed"}), InputError);
  EXPECT_LT(ReplayOf({"k47_mostly_trimmed"}, {.min_attributed_percent = 0}).attributed_percent, 1);
}

TEST(ReplayTest, RanksWithOtherClocksTakeWhatTheyTakeTogether) {
  const Replay replay = ReplayOf({"k18_skew2_rank0", "k18_skew2_rank1"});
  EXPECT_NEAR(replay.measured_step_time, 1175, 1);
  EXPECT_NEAR(replay.step_time, 1175, 12);
}

TEST(ReplayTest, AWaitForTheBacklogIsNoWorkOfTheHost) {
  const Replay replay = ReplayOf({"k42_sync_waits_for_trimmed"});
  ASSERT_EQ(replay.streams.size(), 1U);
  EXPECT_EQ(replay.streams[0].busy, 900);
  EXPECT_EQ(replay.measured_own_busy, 400);
  EXPECT_EQ(replay.measured_own_span, 400);
  EXPECT_LT(replay.streams[0].idle[static_cast<std::size_t>(IdleCause::kHost)], 40);
}

TEST(ReplayTest, WhatIsNotExplainedIsTakenApart) {
  // 900 us before the first kernel, and 30 us between the others, have no reason.
  TraceText text;
  text.Op("op", 0, 60).Call("cudaLaunchKernel", 0, 10, 1).Call("cudaLaunchKernel", 12, 8, 2);
  text.Kernel("a", 910, 50, 1).Kernel("b", 990, 20, 2).Call("cudaDeviceSynchronize", 62, 950, 6);
  const Replay replay = experiments::MakeReplay(ImportTrace(text));
  EXPECT_NEAR(replay.UnexplainedPercent(), 100.0 * (1012 - replay.step_time) / 1012, 1e-9);
  EXPECT_EQ(replay.unexplained.idle, 900);
  EXPECT_EQ(replay.unexplained.gaps, 30);
  EXPECT_EQ(replay.unexplained.without_call, 0);
  EXPECT_EQ(experiments::UnexplainedPercent(80, 100), 20);
  EXPECT_EQ(experiments::UnexplainedPercent(80, 0), 0);
}

TEST(MeanOfTest, IsTheMeanOfEachFigure) {
  Replay a = experiments::MakeReplay(ImportTrace(TwoStreams()));
  Replay b = a;
  b.step_time += 10;
  b.streams[1].busy += 4;
  const Replay mean = experiments::MeanOf({a, b});
  EXPECT_EQ(mean.step, "mean");
  EXPECT_EQ(mean.step_time, a.step_time + 5);
  EXPECT_EQ(mean.streams[1].busy, a.streams[1].busy + 2);
  EXPECT_EQ(mean.activities, a.activities);
}

// Figures published by TraceLens for two traces on MI300X, in ms.
TEST(ReplayTest, PublishedTimesOfMi300TracesAreOurs) {
  const std::string folder = ReferenceFolder("AMD-AGI+TraceLens/mi300");
  if (folder.empty()) GTEST_SKIP() << "no AMD-AGI+TraceLens in EMPLACE_REFERENCE_DATA";
  const auto replay = [&](const std::string& file, const std::string& step) {
    const datasets::ImportSource source(folder + "/" + file);
    return experiments::MakeReplay(
        datasets::Import(datasets::FindImporter("kineto", "", ""), {&source, 1}, {.step = step}));
  };
  const Replay qwen = replay("Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", "");
  EXPECT_NEAR(qwen.measured_own_busy, 29'744, 1);
  EXPECT_NEAR(qwen.measured_own_span, 33'131, 1);
  // 13 ms of the host's time are a wait for the step before.
  EXPECT_GT(qwen.measured_gpu_busy, 42'000);
  EXPECT_LT(qwen.streams[0].idle[static_cast<std::size_t>(IdleCause::kHost)], 4'100);
  const Replay resnet = replay("resnet_act_checkpoint.json.gz", "all");
  EXPECT_NEAR(resnet.measured_step_time, 86'000, 10);
  EXPECT_NEAR(resnet.step_time, 86'000, 860);
  EXPECT_EQ(resnet.steps, 3U);
}

// Traces of H100, B200, A100, V100 and RTX 2080 Ti. docs/results/replay.md has the errors.
TEST(ReplayTest, PublicTracesTakeWhatWasMeasured) {
  const std::string root = EMPLACE_REFERENCE_DATA;
  std::size_t checked = 0;
  for (const char* const file :
       {"AMD-AGI+TraceLens/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
        "AMD-AGI+TraceLens/gaunernst_bert-small-uncased__1016001.json.gz",
        "AMD-AGI+TraceLens/Falconsai_nsfw_image_detection__1016002.json.gz", "AMD-AGI+TraceLens/eager_trace.json.gz",
        "AMD-AGI+TraceLens/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
        "AMD-AGI+TraceLens/unit/gemm_01_compute_few_tiles.json", "facebookresearch+HolisticTraceAnalysis/trace.json.gz",
        "facebookresearch+HolisticTraceAnalysis/event_sync_trace.json.gz",
        "facebookresearch+HolisticTraceAnalysis/benchmark_result_2869224_1695835535_trace.json.gz"}) {
    const std::string path = root + "/" + file;
    if (!std::filesystem::exists(path)) continue;
    const datasets::ImportSource source(path);
    const Replay replay =
        experiments::MakeReplay(datasets::Import(datasets::FindImporter("", source.head(), path), {&source, 1}));
    EXPECT_LT(std::abs(replay.StepError()), 0.005) << file;
    EXPECT_LT(replay.starts.median, 0.002 * replay.measured_step_time) << file;
    EXPECT_NEAR(replay.gpu_busy, replay.measured_gpu_busy, 1e-3 * replay.measured_gpu_busy) << file;
    ++checked;
  }
  if (checked == 0) GTEST_SKIP() << "no traces in EMPLACE_REFERENCE_DATA";
}

TEST(ReplayTest, ThreadsOfACpuStandBesideTheirMeasurement) {
  TraceText text;
  text.Op("aten::tanh", 0, 20).Op("aten::sum", 20, 30).Op("TanhBackward0", 60, 40, 2).Op("aten::sub_", 110, 20);
  const experiments::Replay replay = experiments::MakeReplay(ImportTrace(text));
  EXPECT_EQ(replay.activities, 4U);
  EXPECT_EQ(replay.step_time, 130);
  EXPECT_EQ(replay.measured_step_time, 130);
  EXPECT_EQ(replay.starts.largest, 0);
  EXPECT_THAT(replay.streams, IsEmpty());
  EXPECT_EQ(replay.measured_peak, std::nullopt);
  ASSERT_EQ(replay.threads.size(), 2U);
  EXPECT_EQ(replay.threads[0].name, "thread 1");
  EXPECT_EQ(replay.threads[0].ranges, 3U);
  EXPECT_EQ(replay.threads[0].in_ranges, 70);
  EXPECT_EQ(replay.threads[0].between, 10);
  EXPECT_EQ(replay.threads[0].Waiting(), 50);
  EXPECT_EQ(replay.threads[0].MeasuredWaiting(), 50);
  EXPECT_EQ(replay.threads[1].in_ranges, 40);
  EXPECT_EQ(replay.threads[1].end, 100);
  EXPECT_EQ(replay.threads[1].measured_end, 100);
  std::ostringstream out;
  experiments::WriteReplay(out, replay, ImportTrace(text));
  EXPECT_THAT(out.str(), HasSubstr("\"measured_waiting_us\": 50.0"));
  EXPECT_EQ(experiments::MeanOf({replay, replay}).threads[0].in_ranges, 70);
}

}  // namespace
}  // namespace emplace::testing
