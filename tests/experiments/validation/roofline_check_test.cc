#include "experiments/validation/roofline_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "datasets/importers/registry.h"
#include "sim/cost/cost_models.h"
#include "sim/cost/curves.h"
#include "tests/testing/errors.h"
#include "tests/testing/trace_text.h"

namespace emplace::testing {
namespace {

using experiments::CheckRoofline;
using experiments::RooflineCheck;

datasets::Imported ImportedTrace(const TraceText& text) {
  const datasets::ImportSource source("t.json", text.str());
  return datasets::Import(datasets::FindImporter("kineto", "", ""), {&source, 1}, {.min_attributed_percent = 0});
}

RooflineCheck Check(const datasets::Imported& imported, const RooflineOptions& options,
                    const experiments::RooflineScales* scales = nullptr) {
  return CheckRoofline(imported, *MakeRooflineCostModel(options), scales);
}

// A product of two kernels, a sum, an operator of nobody's, a copy to the host.
TraceText ThreeOperators() {
  TraceText text;
  text.Op("aten::mm", 0, 20, 1, R"("Input Dims": [[1000, 1000], [1000, 1000]], "Input type": ["float", "float"])");
  text.Call("cudaLaunchKernel", 1, 2, 1).Call("cudaLaunchKernel", 4, 2, 2);
  text.Op("aten::add", 30, 10, 1, R"("Input Dims": [[1000], [1000]], "Input type": ["float", "float"])");
  text.Call("cudaLaunchKernel", 31, 2, 3);
  text.Op("mine::op", 50, 10, 1).Call("cudaLaunchKernel", 51, 2, 4).Call("cudaMemcpyAsync", 54, 2, 5);
  text.Kernel("a", 10, 40, 1).Kernel("b", 51, 20, 2).Kernel("c", 80, 4, 3).Kernel("d", 90, 8, 4);
  return text.Copy(100, 6, 5).Call("cudaDeviceSynchronize", 70, 50, 6);
}

TEST(RooflineCheckTest, CallsOfSeveralKernelsAreOne) {
  const RooflineCheck check = Check(ImportedTrace(ThreeOperators()), {});
  EXPECT_EQ(check.kind, "h100");
  ASSERT_EQ(check.classes.size(), 2U);
  EXPECT_EQ(check.classes[0].name, "matrix-product");
  EXPECT_EQ(check.classes[0].calls, 1U);
  EXPECT_EQ(check.classes[0].kernels, 2U);
  EXPECT_EQ(check.classes[0].measured, 60);
  // 2e9 FLOP at 0.8 * 67 TFLOP/s, and two launches.
  EXPECT_NEAR(check.classes[0].roofline, 2e9 / (0.8 * 67e12) * 1e6 + 5, 1e-9);
  EXPECT_NEAR(check.classes[0].median_error, 1 - check.classes[0].roofline / 60, 1e-12);
  EXPECT_EQ(check.operators[1].name, "aten::add");
  EXPECT_EQ(check.total.calls, 2U);
  EXPECT_EQ(check.total.measured, 64);
  EXPECT_EQ(check.transfers, 6);
  EXPECT_EQ(check.unknown_time, 8);
  ASSERT_EQ(check.unknown.size(), 1U);
  EXPECT_EQ(check.unknown[0], "mine::op");
}

TEST(RooflineCheckTest, CallsOfTwoRanksAreTwo) {
  const datasets::ImportSource sources[] = {{"a.json", ThreeOperators().str()}, {"b.json", ThreeOperators().str()}};
  const RooflineCheck check =
      Check(datasets::Import(datasets::FindImporter("kineto", "", ""), sources, {.min_attributed_percent = 0}), {});
  EXPECT_EQ(check.total.calls, 4U);
  EXPECT_EQ(check.classes[0].calls, 2U);
  EXPECT_EQ(check.classes[0].kernels, 4U);
  EXPECT_EQ(check.classes[0].measured, 120);
}

TEST(RooflineCheckTest, Tf32MakesProductsFaster) {
  const datasets::Imported graph = ImportedTrace(ThreeOperators());
  const double plain = Check(graph, {.tf32 = Tf32::kNone}).classes[0].roofline;
  EXPECT_EQ(Check(graph, {.tf32 = Tf32::kConvolutions}).classes[0].roofline, plain);
  EXPECT_LT(Check(graph, {.tf32 = Tf32::kAll}).classes[0].roofline, plain);
}

TEST(RooflineCheckTest, AGraphWithoutTimesIsRefused) {
  GraphBuilder builder("g");
  OpSpec op;
  op.name = "a";
  op.kind = "aten::relu";
  builder.Add(op);
  const datasets::Imported graph = {.graph = builder.Build(), .cluster = {}, .notes = {}};
  EXPECT_EQ(ErrorOf([&] { Check(graph, {}); }),
            "no op has a time on a device to compare with (a Kineto trace, or an Execution Trace with --times)");
}

TEST(RooflineCheckTest, ScaledByItsOwnErrorsItIsRight) {
  const datasets::Imported trace = ImportedTrace(ThreeOperators());
  const experiments::RooflineScales scales = experiments::MeasureRooflineScales({&trace, 1}, *MakeRooflineCostModel());
  const RooflineCheck plain = Check(trace, {});
  EXPECT_NEAR(scales.by_operator.at("aten::mm"), 60 / plain.classes[0].roofline, 1e-12);
  const RooflineCheck scaled = Check(trace, {}, &scales);
  EXPECT_NEAR(scaled.total.mean_error, 0, 1e-12);
  EXPECT_NEAR(scaled.total.roofline, 64, 1e-9);
  // Its two kernels took 40 and 20 us, and are said to take 30 each; the device waits for neither alone.
  EXPECT_EQ(scaled.measured_step_time, 120);
  EXPECT_NEAR(scaled.step_time.value(), 120, 2);
  // The kernels that are twice as long make the step longer; the others keep the trace's times.
  experiments::RooflineScales doubled = scales;
  for (auto& [name, scale] : doubled.by_operator) scale *= 2;
  EXPECT_NEAR(Check(trace, {}, &doubled).total.mean_error, 1, 1e-12);
  EXPECT_GT(Check(trace, {}, &doubled).step_time.value(), scaled.step_time.value() + 10);
}

TEST(RooflineCheckTest, ScalesOfAnOperatorThatIsNotThereAreThoseOfItsClass) {
  const experiments::RooflineScales scales = {
      .by_operator = {{"aten::mm", 2}}, .by_class = {{OpClass::kMatrixProduct, 3}}, .all = 4};
  EXPECT_EQ(scales.Of("aten::mm", OpClass::kMatrixProduct), 2);
  EXPECT_EQ(scales.Of("aten::bmm", OpClass::kMatrixProduct), 3);
  EXPECT_EQ(scales.Of("aten::add", OpClass::kElementwise), 4);
  TraceText text;
  text.Call("cudaLaunchKernel", 1, 2, 1).Kernel("a", 10, 40, 1);
  const datasets::Imported trace = ImportedTrace(text);
  EXPECT_EQ(ErrorOf([&] {
              experiments::MeasureRooflineScales({&trace, 1}, *MakeRooflineCostModel());
            }),
            "has no operator with a measured time that roofline knows (a trace with shapes: record_shapes=True)");
  EXPECT_THAT(ErrorOf([&] { Check(trace, {}); }), ::testing::StartsWith("has no operator with a measured time"));
}

TEST(RooflineCheckTest, IsWrittenAsJson) {
  std::ostringstream out;
  experiments::WriteRooflineCheck(out, Check(ImportedTrace(ThreeOperators()), {}), "roofline");
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["schema"], "emplace.roofline-check");
  EXPECT_EQ(json["classes"][0]["kernels"], 2);
  EXPECT_EQ(json["unknown"][0], "mine::op");
}

TEST(RooflineCheckTest, OperatorsOfAnH100AreWithinAFactorOfTwo) {
  const std::string path =
      std::string(EMPLACE_REFERENCE_DATA) + "/AMD-AGI+TraceLens/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const datasets::ImportSource source(path);
  const RooflineCheck check =
      Check(datasets::Import(datasets::FindImporter("", source.head(), path), {&source, 1}), {});
  EXPECT_EQ(check.kind, "h100");
  EXPECT_GT(check.total.calls, 500U);
  EXPECT_GT(check.total.Ratio(), 0.5);
  EXPECT_LT(check.total.Ratio(), 2);
}

}  // namespace
}  // namespace emplace::testing
