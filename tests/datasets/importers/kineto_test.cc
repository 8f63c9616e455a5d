#include "datasets/importers/kineto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "datasets/importers/importers.h"
#include "sim/base/file_io.h"
#include "sim/cost/cost_models.h"
#include "sim/ops/aten_call.h"
#include "sim/simulator.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/reference.h"
#include "tests/testing/trace_text.h"

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

datasets::Imported ImportTrace(const std::string& text, const datasets::ImportOptions& options = {}) {
  return ImportText(datasets::FindImporter("kineto", "", ""), text, "t.json", options);
}

TEST(ImportKinetoTest, KernelsOfOneCallShareIt) {
  TraceText text;
  text.Op("aten::cat", 0, 40, 1,
          R"("Input Dims": [[[4], [2]], []], "Input type": ["TensorList", "Scalar"], "Concrete Inputs": ["", "0"])");
  text.Call("cudaLaunchKernel", 1, 2, 1).Call("cudaLaunchKernel", 5, 2, 2);
  text.Kernel("CatArrayBatchedCopy<at::OpaqueType<2u>, 1>", 10, 5, 1).Kernel("CatArrayBatchedCopy", 20, 5, 2);
  const datasets::Imported imported = ImportTrace(text.str());
  std::vector<double> kernels;
  for (const OpId id : imported.graph.file_order()) {
    if (imported.graph.op(id).kind != "kernel") continue;
    const AtenCall call = ReadAtenCall(imported.graph, id);
    kernels.push_back(call.kernels);
    EXPECT_EQ(call.name, "aten::cat");
    ASSERT_EQ(call.arguments.size(), 2U);
    EXPECT_THAT(*call.integers(1), ElementsAre(0));
    // The type of a list is not in the trace, but in the name of the first kernel.
    EXPECT_EQ(call.arguments[0].tensors[0].dtype, kernels.size() == 1 ? DType::kBf16 : DType::kF32);
  }
  EXPECT_THAT(kernels, ElementsAre(2, 2));
}

TEST(KindOfGpuTest, IsTheCataloguesNameOfACard) {
  EXPECT_EQ(datasets::KindOfGpu("NVIDIA L4"), "l4");
  EXPECT_EQ(datasets::KindOfGpu("NVIDIA L40S"), "l40s");
  EXPECT_EQ(datasets::KindOfGpu("NVIDIA A10"), "a10");
  EXPECT_EQ(datasets::KindOfGpu("NVIDIA A10G"), "a10g") << "another card";
  EXPECT_EQ(datasets::KindOfGpu("NVIDIA GeForce RTX 4090"), "rtx-4090");
  EXPECT_EQ(datasets::KindOfGpu("GeForce RTX 2080 Ti"), "rtx-2080-ti");
  EXPECT_EQ(datasets::KindOfGpu("AMD Instinct MI300X"), "mi300x");
  EXPECT_EQ(datasets::KindOfGpu("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(datasets::KindOfGpu("NVIDIA H100 PCIe"), "h100-pcie") << "another card";
  EXPECT_EQ(datasets::KindOfGpu("NVIDIA H200 NVL"), "h200-nvl") << "another card";
}

TEST(ImportKinetoTest, PropertiesOfADeviceComeInAnyOrderAndWithoutAnId) {
  const auto kind = [](const std::string& properties) {
    std::string text = kKinetoSample;
    const std::size_t start = text.find("\"deviceProperties\"");
    const std::size_t end = text.find(']', start);
    text.replace(start, end + 1 - start, "\"deviceProperties\": [" + properties + "]");
    const datasets::Imported imported = ImportTrace(text);
    return std::string(FindOp(imported.graph, "0000000 aten.mm").kind_times[0].kind);
  };
  EXPECT_EQ(kind(R"({"id": 0, "name": "NVIDIA A100"}, {"id": 1, "name": "NVIDIA H100"})"), "a100");
  EXPECT_EQ(kind(R"({"name": "NVIDIA A100", "id": 0}, {"name": "NVIDIA H100", "id": 1})"), "a100");
  EXPECT_EQ(kind(R"({"name": "NVIDIA A100"}, {"name": "NVIDIA A100"})"), "a100");
  EXPECT_EQ(kind(R"({"name": "NVIDIA A100"}, {"id": 0, "name": "NVIDIA H100"})"), "h100");
  EXPECT_EQ(kind(R"({"name": "NVIDIA A100"}, {"name": "NVIDIA H100"})"), "gpu");  // either
}

TEST(ImportKinetoTest, AStepIsAGraphOnItsThreadsAndStreams) {
  const datasets::Imported imported = ImportTrace(kKinetoSample);
  const Graph& graph = imported.graph;
  std::vector<std::string> ops;
  for (const OpId id : graph.file_order()) {
    const Op& op = graph.op(id);
    ASSERT_EQ(op.kind_times.size(), 1U);
    ops.push_back(fmt::format("{} {} {} {}", op.name, op.kind, op.kind_times[0].kind, op.kind_times[0].micros));
  }
  EXPECT_THAT(ops, ElementsAre("0000000 aten.mm kernel h100 40", "0000001 aten.mm host host-cpu 10",
                               "0000002 cudaDeviceSynchronize host host-cpu 20",
                               "0000003 cudaDeviceSynchronize wait host-cpu 3"));
  EXPECT_EQ(FindOp(graph, "0000000 aten.mm").layer, "aten::mm");
  EXPECT_EQ(FindOp(graph, "0000000 aten.mm").attrs,
            R"({"measured_start_us":13,"kernel":"gemm","op":"aten::mm","input_dims":[[2,3]]})");
  EXPECT_EQ(FindOp(graph, "0000001 aten.mm").attrs,
            R"({"measured_start_us":0,"call":"cudaLaunchKernel","op":"aten::mm"})");
  EXPECT_EQ(
      graph.metadata(),
      R"({"source":"kineto","gpus":["NVIDIA H100 80GB HBM3"],"measured":{"step_time_us":56,"attributed_percent":100,)"
      R"("simulated_step_time_us":56,"unexplained_percent":0}})");

  ASSERT_TRUE(imported.cluster && imported.placement && imported.measured);
  const Cluster& cluster = *imported.cluster;
  ASSERT_EQ(cluster.num_devices(), 2U);
  EXPECT_EQ(cluster.devices()[0].name, "gpu 0 stream 7");
  EXPECT_EQ(cluster.devices()[1].name, "thread 1");
  EXPECT_TRUE(cluster.devices()[1].is_cpu);
  EXPECT_EQ(cluster.link(DeviceId{1}, DeviceId{0}).latency_micros, 3);
  EXPECT_EQ(cluster.link(DeviceId{0}, DeviceId{1}).latency_micros, 0);
  for (const OpId id : graph.file_order()) {
    EXPECT_EQ(Index((*imported.placement)[id]), graph.op(id).kind == "kernel" ? 0U : 1U);
  }
  EXPECT_EQ(imported.attributed_percent, 100);
  EXPECT_THAT(imported.notes,
              ElementsAre("attributed: 100.0 % of the step's 0.040 ms of device time to a call, 100.0 % to an op; 1 "
                          "GPU activities, 3 host ops",
                          "simulated: 0.056 ms of 0.056 ms that were measured, 0.00 % is not explained"));
  EXPECT_EQ(imported.measured->step_time_micros, 56);
  ASSERT_EQ(imported.measured->runs.size(), 1U);
  EXPECT_EQ(imported.measured->runs[0].start_micros, 13);
}

TEST(ImportKinetoTest, TheStepSimulatesToWhatWasMeasured) {
  const datasets::Imported imported = ImportTrace(kKinetoSample);
  const CostTable costs(imported.graph, *imported.cluster, *MakeMeasuredCostModel());
  EXPECT_EQ(Simulator(imported.graph, *imported.cluster, costs).Run(*imported.placement).step_time_micros, 56);
}

TEST(UnexplainedShareTest, WarnsAboveTwoPercentAndKnowsNoNegativeZero) {
  EXPECT_EQ(datasets::UnexplainedShare(48.651), "48.65 %");
  EXPECT_EQ(datasets::UnexplainedShare(-0.001), "0.00 %");
  EXPECT_EQ(datasets::UnexplainedWarning(2), "");
  EXPECT_EQ(datasets::UnexplainedWarning(-2.1), "warning: ");
}

TEST(ImportKinetoTest, LittleAttributedTimeIsRefused) {
  TraceText text;
  text.Op("op", 0, 20).Call("cudaLaunchKernel", 0, 5, 1).Call("cudaLaunchKernel", 6, 5, 2);
  text.Kernel("a", 20, 10, 1).Kernel("lost", 40, 10, 77).Kernel("b", 60, 10, 2);
  EXPECT_EQ(Refusal([&] { ImportTrace(text.str()); }),
            "t.json: traceEvents: only 66.7 % of the device time belongs to a call in the trace (at least 95 %; "
            "--min-attributed lowers that)");
  const datasets::Imported imported = ImportTrace(text.str(), {.min_attributed_percent = 60});
  EXPECT_NEAR(*imported.attributed_percent, 66.67, 0.01);
}

TEST(ImportKinetoTest, GpusAreKindsOfTheCatalogueWhereItHasThem) {
  const auto kind = [](const std::string& name) {
    const datasets::Imported imported = ImportTrace(Edited(kKinetoSample, "NVIDIA H100 80GB HBM3", name));
    return imported.cluster->devices()[0].kind;
  };
  EXPECT_EQ(kind("NVIDIA A100-PG509-200"), "a100");
  EXPECT_EQ(kind("Tesla V100-SXM2-32GB"), "v100");
  EXPECT_EQ(kind("NVIDIA GeForce RTX 2080 Ti"), "rtx-2080-ti");
  EXPECT_EQ(kind(""), "gpu");
}

TEST(ImportKinetoTest, TheOnlyGpuHasTheOnlyName) {
  const auto name = [](const std::string& properties) {
    return ImportTrace(Edited(kKinetoSample, "{\"id\": 0, ", properties)).measured->gpus.at(0);
  };
  EXPECT_EQ(name("{\"id\": 3, "), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(name("{\"id\": 3, \"name\": \"A100\"}, {\"id\": 4, "), "gpu 0");
}

TEST(ImportKinetoTest, AWindowThatShowsLittleOfAStepIsRefused) {
  TraceText text;
  for (int i = 0; i < 9; ++i) text.Kernel("before", 100 * i, 100, 70 + i);
  text.Call("cudaLaunchKernel", 890, 5, 1).Kernel("own", 905, 10, 1);
  EXPECT_EQ(
      Refusal([&] { ImportTrace(text.str()); }),
      "t.json: traceEvents: 98.9 % of the device time was launched before the window, and only 1.1 % belongs to a "
      "call in the trace (at least 95 %; --min-attributed lowers that)");
  const datasets::Imported imported = ImportTrace(text.str(), {.min_attributed_percent = 1});
  EXPECT_NEAR(*imported.attributed_percent, 1.1, 0.01);
  EXPECT_THAT(imported.notes, ::testing::Contains(HasSubstr("warning: 98.9 % of the device time was launched before")));
}

TEST(ImportKinetoTest, CategoriesThatLookLikeCallsAreNamed) {
  TraceText text;
  text.Op("op", 0, 5).Add("new_calls", "launch", "9", "1", 1, 1, "\"correlation\": 1").Kernel("k", 5, 5, 1);
  EXPECT_THAT(Refusal([&] { ImportTrace(text.str()); }),
              HasSubstr("1 events of category \"new_calls\" have correlation ids, but it is not known what they are"));
}

TEST(TraceNamesTest, ColonsBecomePoints) {
  EXPECT_EQ(datasets::WithoutColons("aten::add"), "aten.add");
  EXPECT_EQ(datasets::WithoutColons("a:b"), "a.b");
  EXPECT_EQ(datasets::ShortName(std::string(100, 'x')), std::string(100, 'x'));
  EXPECT_EQ(datasets::ShortName(std::string(99, 'x') + "é and more"), std::string(99, 'x'));
  EXPECT_EQ(datasets::KindOfGpu("NVIDIA B200"), "b200");
}

TEST(ImportKinetoTest, TracesAreRecognised) {
  EXPECT_TRUE(datasets::LooksLikeKineto(kKinetoSample));
  EXPECT_TRUE(datasets::LooksLikeKineto(" [{\"ph\": \"X\"}"));
  EXPECT_FALSE(datasets::LooksLikeKineto(""));
  EXPECT_FALSE(datasets::LooksLikeKineto("[1]"));
  EXPECT_FALSE(datasets::LooksLikeKineto(kEmplaceSample));
}

TEST(ImportKinetoTest, RanksAreJoined) {
  const std::vector<datasets::ImportSource> sources = {{"a.json", kKinetoSample}, {"b.json", kKinetoSample}};
  const datasets::Imported imported = datasets::ImportKineto(sources, {});
  EXPECT_EQ(imported.graph.num_ops(), 8U);
  EXPECT_EQ(imported.cluster->devices()[2].name, "rank 1 gpu 0 stream 7");
  EXPECT_EQ(imported.measured->gpus.size(), 2U);
  EXPECT_THAT(Refusal([&] {
                const std::vector<datasets::ImportSource> broken = {{"a.json", kKinetoSample}, {"b.json", "{"}};
                datasets::ImportKineto(broken, {});
              }),
              HasSubstr("b.json: "));
}

TEST(MakeTraceGraphTest, TooManyThreadsAreRefused) {
  TraceText text;
  for (int i = 0; i < 2100; ++i) text.Op("op", i, 1, i);
  text.Op("op", 0, 5, 0).Call("cudaLaunchKernel", 0, 1, 1, 0).Kernel("k", 9, 1, 1);
  std::istringstream in(text.str());
  const datasets::KinetoTrace trace = datasets::ReadKinetoTrace(in);
  EXPECT_THAT(Refusal([&] { datasets::MakeTraceGraph({trace}, 95); }),
              HasSubstr("there are 2101 threads and streams in use (at most 2000)"));
}

// The value of a column of TraceLens's table, in ms.
double TimeOf(const std::string& csv, const std::string& row) {
  const std::string text = ReadWholeFile(csv);
  const std::size_t at = text.find("\n" + row + ",");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + row.size() + 2));
}

// Another program has computed these from the same traces.
TEST(ImportKinetoTest, BusyTimesOfH100TracesAreThoseOfTraceLens) {
  const std::string folder = ReferenceFolder("AMD-AGI+TraceLens");
  if (folder.empty()) GTEST_SKIP() << "no AMD-AGI+TraceLens in EMPLACE_REFERENCE_DATA";
  std::size_t checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = entry.path();
    constexpr std::string_view kEnding = ".gpu_timeline.csv";
    if (!file.ends_with(kEnding)) continue;
    const std::string trace = file.substr(0, file.size() - kEnding.size()) + ".json.gz";
    const datasets::ImportSource source(trace);
    const datasets::Imported imported =
        datasets::Import(datasets::FindImporter("", source.head(), trace), {&source, 1});
    EXPECT_EQ(imported.attributed_percent, 100) << trace;
    double busy = 0;
    double until = 0;
    for (const datasets::MeasuredStep::Run& run : imported.measured->runs) {  // runs of one stream, ordered by start
      busy += std::max(0.0, run.end_micros - std::max(run.start_micros, until));
      until = std::max(until, run.end_micros);
    }
    EXPECT_NEAR(busy / 1000, TimeOf(file, "busy_time"), 0.5e-4 * TimeOf(file, "busy_time")) << trace;
    ++checked;
  }
  EXPECT_EQ(checked, 3U);
}

}  // namespace
}  // namespace emplace::testing
