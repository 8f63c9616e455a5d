#include "sim/cost/curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/cost/curve_forms.h"
#include "sim/ops/aten_call.h"
#include "sim/ops/aten_work.h"
#include "sim/ops/op_shape.h"
#include "tests/testing/op_case.h"

namespace emplace {
namespace curves_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 1,000 TFLOP/s, 3 TB/s, 100 multiprocessors, 50 MB of cache.
CurveDevice DeviceOf(double tflop_per_s, double element_bytes) {
  return {.flop_per_us = tflop_per_s * 1e6,
          .bytes_per_us = 3e6,
          .multiprocessors = 100,
          .cache_bytes = 50e6,
          .element_bytes = element_bytes};
}

// Corrections of up to 5 %, so that a wrong knot shows.
std::vector<std::vector<double>> Tables(std::initializer_list<std::size_t> sizes) {
  std::vector<std::vector<double>> tables;
  for (const std::size_t size : sizes) {
    std::vector<double>& table = tables.emplace_back();
    for (std::size_t i = 0; i < size; ++i) table.push_back(static_cast<double>(i * 7 % 11) - 5);
  }
  return tables;
}

// The expected times are what tools/fit_devices computes for the same parameters and tables.
constexpr double kTolerance = 1e-9;
#define EXPECT_MICROS(time, expected) EXPECT_NEAR((time).micros / (expected), 1, kTolerance)

Curve<ProductForm> Products() {
  return {.form = {.launch_us = 1.5,
                   .rate = 0.9,
                   .memory = {.bandwidth = 0.85, .cache_speed = 2, .cache_share = 0.25, .cache_edge = 2},
                   .tile_us = 1,
                   .partial_wave = 0.5,
                   .overlap = 2,
                   .edge = 0.1,
                   .edge_power = 1,
                   .split_us = 1,
                   .clock_drop = 0.08,
                   .write = 1.3},
          .tables = Tables({54, 54, 36, 30})};
}

TEST(CurveFormsTest, ProductTakesWhatTheFitComputes) {
  const CurveDevice device = DeviceOf(1000, 2);
  EXPECT_MICROS(Time(Products(), device, ProductShape{.m = 4096, .n = 4096, .k = 4096}), 191.14476155169854);
  EXPECT_MICROS(Time(Products(), device, ProductShape{.m = 1, .n = 4096, .k = 4096}), 14.999666456176598);
  EXPECT_MICROS(Time(Products(), device, ProductShape{.batch = 64, .m = 512, .n = 512, .k = 64}), 21.65650397358007);
  EXPECT_MICROS(Time(Products(), device, ProductShape{.m = 1025, .n = 768, .k = 12288}), 32.008846676674096);
  EXPECT_MICROS(Time(Products(), DeviceOf(50, 4), ProductShape{.m = 1000, .n = 3000, .k = 1000}), 169.2388270977603);
}

TEST(CurveFormsTest, WeightsThatAreUsedInTurnLeaveTheCacheAndTheOtherOperandStays) {
  Curve<ProductForm> products = Products();
  const CurveDevice device = DeviceOf(1000, 2);
  const ProductShape few_rows = {.m = 16, .n = 4096, .k = 4096};
  const ProductShape few_columns = {.m = 4096, .n = 128, .k = 4096};
  EXPECT_MICROS(Time(products, device, few_rows), 13.961755619237586);
  EXPECT_MICROS(Time(products, device, few_columns), 16.17374305926733);
  products.form.weight_sets = 6;
  EXPECT_MICROS(Time(products, device, few_rows), 14.722124548889365);
  EXPECT_MICROS(Time(products, device, few_columns), 16.17814564166833);
  // Bytes of a cache's size take twice the time of those that it holds.
  const MemoryTerm term = {.bandwidth = 0.5, .cache_speed = 2, .cache_share = 1, .cache_edge = 100};
  EXPECT_NEAR(term.Micros(device, 30e6), 30e6 / 3e6, 1e-9);
  EXPECT_NEAR(term.Micros(device, 30e6, 100e6), 2 * 30e6 / 3e6, 1e-9);
}

TEST(CurveFormsTest, AttentionTakesWhatTheFitComputes) {
  const Curve<AttentionForm> curve = {
      .form = {.launch_us = 4,
               .rate = 0.7,
               .score_us = 1e-7,
               .memory = {.bandwidth = 0.7, .cache_speed = 2, .cache_share = 0.25, .cache_edge = 2},
               .tile_us = 1,
               .partial_wave = 0.5,
               .overlap = 0.7,
               .clock_drop = 0.1,
               .key_bytes = 2.7,
               .row_us = 0.05,
               .wide_head = 0.14,
               .packing = 0.5},
      .tables = Tables({56, 35, 28, 32, 40})};
  AttentionShape shape = {
      .batch = 2, .queries = 4096, .keys = 4096, .heads = 32, .key_heads = 8, .head_dim = 128, .causal = true};
  EXPECT_MICROS(Time(curve, DeviceOf(1000, 2), shape), 506.4961614541404);
  shape.backward = true;
  EXPECT_MICROS(Time(curve, DeviceOf(1000, 2), shape), 506.4961614541404 * 2.5 / 0.85);
  shape = {.batch = 1, .queries = 100, .keys = 100, .heads = 16, .key_heads = 16, .head_dim = 64, .causal = true};
  EXPECT_MICROS(Time(curve, DeviceOf(1000, 2), shape), 5.723581380336234);
  shape = {.batch = 4,
           .queries = 8192,
           .keys = 8192,
           .heads = 8,
           .key_heads = 1,
           .head_dim = 256,
           .window = 1024,
           .causal = true};
  EXPECT_MICROS(Time(curve, DeviceOf(1000, 2), shape), 564.541006358521);
}

TEST(CurveFormsTest, DecodingTakesWhatTheFitComputes) {
  Curve<DecodingForm> curve = {
      .form = {.launch_us = 6,
               .memory = {.bandwidth = 0.8, .cache_speed = 2, .cache_share = 0.25, .cache_edge = 2},
               .tile_us = 2,
               .key_us = 0.01,
               .chunk = 256,
               .partial_wave = 0.3,
               .overlap = 1,
               .row_us = 0.3,
               .head_us = 0.01,
               .single_chunk = 1},
      .tables = Tables({64, 40, 32, 32, 40})};
  AttentionShape shape = {.batch = 8, .queries = 1, .keys = 4096, .heads = 32, .key_heads = 8, .head_dim = 128};
  EXPECT_MICROS(Time(curve, DeviceOf(1000, 2), shape), 66.59900410173005);
  shape = {.batch = 64, .queries = 1, .keys = 100, .heads = 16, .key_heads = 16, .head_dim = 64};
  EXPECT_MICROS(Time(curve, DeviceOf(1000, 2), shape), 37.601554414544886);
  shape = {.batch = 1, .queries = 1, .keys = 60000, .heads = 64, .key_heads = 8, .head_dim = 128, .window = 1024};
  EXPECT_MICROS(Time(curve, DeviceOf(1000, 2), shape), 8.879264761959135);
  shape = {.batch = 64, .queries = 1, .keys = 2000, .heads = 32, .key_heads = 4, .head_dim = 128, .window = 128};
  EXPECT_MICROS(Time(curve, DeviceOf(1000, 2), shape), 22.033941680845206);
  curve.form.window_heads = 0.5;
  EXPECT_MICROS(Time(curve, DeviceOf(1000, 2), shape), 48.672470996084016);
  curve.form.window_heads = 1;
  EXPECT_MICROS(Time(curve, DeviceOf(1000, 2), shape), 76.46330192080433);
}

TEST(CurveFormsTest, StreamsTakeWhatTheFitComputes) {
  Curve<StreamForm> curve = {
      .form = {.launch_us = 2.5, .memory = {.bandwidth = 0.8, .cache_speed = 2, .cache_share = 0.4, .cache_edge = 2}},
      .tables = Tables({7, 5})};
  EXPECT_MICROS(Time(curve, DeviceOf(50, 4), StreamShape{8e6, 1024}), 4.468813711936825);
  EXPECT_MICROS(Time(curve, DeviceOf(50, 4), StreamShape{8e8, 3000}), 350.20575673337186);
  curve.tables = Tables({5});
  EXPECT_MICROS(Time(curve, DeviceOf(50, 4), StreamShape{1e5, 0}), 2.509938998841281);
  EXPECT_MICROS(Time(curve, DeviceOf(50, 4), StreamShape{1e8, 0}), 45.327199635893024);
}

TEST(CurveFormsTest, NoTimeIsBelowTheDataSheet) {
  Curve<ProductForm> curve = Products();
  for (std::vector<double>& table : curve.tables) table.assign(table.size(), -300);
  const CurveTime time = Time(curve, DeviceOf(1000, 2), ProductShape{.m = 8192, .n = 8192, .k = 8192});
  EXPECT_DOUBLE_EQ(time.micros, 2.0 * 8192 * 8192 * 8192 / 1e9);
  EXPECT_DOUBLE_EQ(time.micros, time.roofline_micros);
}

TEST(CurveFormsTest, TheLimitIsTheResourceThatTakesLongest) {
  const CurveDevice device = DeviceOf(1000, 2);
  EXPECT_EQ(Time(Products(), device, ProductShape{.m = 8192, .n = 8192, .k = 8192}).limit, CurveLimit::kCompute);
  EXPECT_EQ(Time(Products(), device, ProductShape{.m = 1, .n = 32768, .k = 16384}).limit, CurveLimit::kMemory);
  EXPECT_EQ(Time(Products(), device, ProductShape{.m = 16, .n = 16, .k = 16}).limit, CurveLimit::kLaunch);
  EXPECT_EQ(Name(CurveLimit::kLatency), "latency");
}

TEST(CurveFormsTest, ShapesBeyondTheMeasuredOnesAreExtrapolated) {
  Curve<ProductForm> curve = Products();
  curve.fit.low = {1, 1, 32, 32};
  curve.fit.high = {1, 8192, 65536, 65536};
  const CurveDevice device = DeviceOf(1000, 2);
  EXPECT_FALSE(Time(curve, device, ProductShape{.m = 8192, .n = 32, .k = 32}).is_extrapolated);
  EXPECT_TRUE(Time(curve, device, ProductShape{.m = 8193, .n = 32, .k = 32}).is_extrapolated);
  EXPECT_TRUE(Time(curve, device, ProductShape{.batch = 2, .m = 8192, .n = 32, .k = 32}).is_extrapolated);
}

TEST(ShippedCurvesTest, EveryFileIsOfADeviceKindAndItsNeighboursExist) {
  for (const ShippedCurves& shipped : AllShippedCurves()) {
    const DeviceCurves* const curves = FindDeviceCurves(shipped.name);
    ASSERT_NE(curves, nullptr);
    EXPECT_EQ(curves->kind, shipped.name);
    if (curves->kind == "common") continue;
    EXPECT_NE(FindDeviceKind(curves->kind), nullptr) << curves->kind;
    EXPECT_GT(curves->multiprocessors, 0) << curves->kind;
    if (!curves->like.empty()) {
      EXPECT_NE(FindDeviceCurves(curves->like), nullptr) << curves->kind;
    }
  }
  EXPECT_EQ(FindDeviceCurves("k40"), nullptr);
}

TEST(ShippedCurvesTest, TheKindsOfDataCentresHaveRatesAndCurves) {
  for (const char* const kind : {"l4", "l40s", "h100-pcie", "h200", "b200", "gb200", "mi100", "mi210", "mi250",
                                 "mi300x", "p4", "t4", "p100", "rtx-pro-6000"}) {
    const DeviceKind* const device = FindDeviceKind(kind);
    ASSERT_NE(device, nullptr) << kind;
    EXPECT_GT(device->memory_bandwidth.count, 0) << kind;
    EXPECT_NE(FindDeviceCurves(kind), nullptr) << kind;
  }
}

TEST(ShippedCurvesTest, AKindWithoutItsOwnCurveTakesThatOfTheKindItIsLike) {
  const ProductShape shape = {.m = 4096, .n = 4096, .k = 4096};
  const auto h100 = CurveMicros(*FindDeviceKind("h100"), Precision::kBf16, shape);
  const auto pcie = CurveMicros(*FindDeviceKind("h100-pcie"), Precision::kBf16, shape);
  ASSERT_TRUE(h100 && pcie);
  EXPECT_EQ(h100->kind, "h100");
  EXPECT_EQ(pcie->kind, "h100");
  EXPECT_GT(pcie->time.micros, 1.1 * h100->time.micros);
  // Those of MI250s were measured in f32 only.
  EXPECT_EQ(CurveMicros(*FindDeviceKind("mi300x"), Precision::kF32, shape)->kind, "mi250");
  EXPECT_EQ(CurveMicros(*FindDeviceKind("mi250"), Precision::kBf16, shape)->kind, "common");
  EXPECT_EQ(CurveMicros(*FindDeviceKind("k40"), Precision::kF32, shape), std::nullopt);
  EXPECT_EQ(CurveMicros(*FindDeviceKind("h100"), Precision::kI8, shape), std::nullopt);
}

TEST(ShippedCurvesTest, LargeProductsReachMostOfThePeak) {
  for (const char* const kind : {"a100", "h100", "h200", "b200", "gb200", "rtx-pro-6000"}) {
    const auto found =
        CurveMicros(*FindDeviceKind(kind), Precision::kBf16, ProductShape{.m = 8192, .n = 8192, .k = 8192});
    ASSERT_TRUE(found);
    const double share = found->time.roofline_micros / found->time.micros;
    EXPECT_GT(share, 0.55) << kind;
    EXPECT_LE(share, 1) << kind;
    EXPECT_EQ(found->time.limit, CurveLimit::kCompute) << kind;
  }
}

TEST(ShippedCurvesTest, ProductsInFewerBitsAreNoFasterThanTheirPeaks) {
  const ProductShape shape = {.m = 8192, .n = 8192, .k = 8192};
  const double flop = 2 * shape.m * shape.n * shape.k;
  for (const char* const name : {"h100", "h200", "b200", "gb200", "b300", "gb300"}) {
    const DeviceKind& kind = *FindDeviceKind(name);
    const double half = CurveMicros(kind, Precision::kBf16, shape)->time.micros;
    double last = half;
    for (const Precision precision : {Precision::kF8, Precision::kF4}) {
      if (kind.precisions[static_cast<std::size_t>(precision)].peak.count <= 0) continue;
      const double micros = CurveMicros(kind, precision, shape)->time.micros;
      EXPECT_GE(micros, flop / (RateOf(kind, precision).peak.count / 1e6)) << name;
      EXPECT_LT(micros, last / 1.4) << name;
      last = micros;
    }
    // A small product is launched, whatever it is made of.
    const ProductShape small = {.m = 16, .n = 128, .k = 128};
    EXPECT_GT(CurveMicros(kind, Precision::kF8, small)->time.micros,
              0.6 * CurveMicros(kind, Precision::kBf16, small)->time.micros)
        << name;
  }
  EXPECT_EQ(CurveMicros(*FindDeviceKind("a100"), Precision::kF8, shape), std::nullopt);
}

// ---- Shapes of ops

std::vector<OpShape> ShapesOf(const testing::OpCase& op_case) {
  const Graph graph = testing::GraphOf(op_case);
  return FindOpShapes(graph, *graph.FindOp("op"));
}

// {batch, m, n, k}
std::vector<double> Sizes(const OpShape& shape) {
  const ProductShape& product = std::get<ProductShape>(shape);
  return {product.batch, product.m, product.n, product.k};
}

TEST(OpShapeTest, ProductsAndTheirGradientsHaveTheirOwnSizes) {
  using testing::F32;
  EXPECT_THAT(Sizes(ShapesOf({"matmul", {F32({4, 30, 50}), F32({50, 70})}, {F32({4, 30, 70})}, ""}).at(0)),
              ElementsAre(1, 120, 70, 50));
  EXPECT_THAT(Sizes(ShapesOf({"matmul_grad_a", {F32({4, 30, 70}), F32({50, 70})}, {F32({4, 30, 50})}, ""}).at(0)),
              ElementsAre(1, 120, 50, 70));
  EXPECT_THAT(Sizes(ShapesOf({"matmul_grad_b", {F32({4, 30, 50}), F32({4, 30, 70})}, {F32({50, 70})}, ""}).at(0)),
              ElementsAre(1, 50, 70, 120));
  EXPECT_THAT(
      Sizes(ShapesOf({"batch_matmul", {F32({2, 3, 8, 16}), F32({2, 3, 16, 32})}, {F32({2, 3, 8, 32})}, ""}).at(0)),
      ElementsAre(6, 8, 32, 16));
  EXPECT_THAT(Sizes(ShapesOf({"aten::mm", {F32({30, 50}), F32({50, 70})}, {F32({30, 70})}, ""}).at(0)),
              ElementsAre(1, 30, 70, 50));
  EXPECT_THAT(Sizes(ShapesOf({"aten::bmm", {F32({9, 30, 50}), F32({9, 50, 70})}, {F32({9, 30, 70})}, ""}).at(0)),
              ElementsAre(9, 30, 70, 50));
  EXPECT_THAT(Sizes(ShapesOf({"aten::addmm", {F32({70}), F32({30, 50}), F32({50, 70})}, {F32({30, 70})}, ""}).at(0)),
              ElementsAre(1, 30, 70, 50));
  EXPECT_THAT(Sizes(ShapesOf({"aten::linear", {F32({4, 30, 50}), F32({70, 50})}, {F32({4, 30, 70})}, ""}).at(0)),
              ElementsAre(1, 120, 70, 50));
  EXPECT_TRUE(ShapesOf({"aten::mm", {F32({30, 50}), F32({51, 70})}, {F32({30, 70})}, ""}).empty());
  EXPECT_TRUE(ShapesOf({"relu", {F32({30, 50})}, {F32({30, 50})}, ""}).empty());
}

TEST(OpShapeTest, ConvolutionsAreProductsOverTheirWindows) {
  using testing::F32;
  const auto forward =
      ShapesOf({"conv2d", {F32({2, 3, 8, 8}), F32({16, 3, 3, 3})}, {F32({2, 16, 8, 8})}, R"({"padding":"same"})"});
  EXPECT_THAT(Sizes(forward.at(0)), ElementsAre(1, 128, 16, 27));
  EXPECT_EQ(std::get<ProductShape>(forward[0]).moved_bytes, 4 * (2 * 3 * 64 + 16 * 27 + 2 * 16 * 64));
  EXPECT_THAT(Sizes(ShapesOf({"conv2d_grad_input",
                              {F32({16, 3, 3, 3}), F32({2, 16, 8, 8})},
                              {F32({2, 3, 8, 8})},
                              R"({"padding":"same"})"})
                        .at(0)),
              ElementsAre(1, 128, 3, 144));
  EXPECT_THAT(Sizes(ShapesOf({"conv2d_grad_filter",
                              {F32({2, 3, 8, 8}), F32({2, 16, 8, 8})},
                              {F32({16, 3, 3, 3})},
                              R"({"padding":"same"})"})
                        .at(0)),
              ElementsAre(1, 16, 27, 128));
  EXPECT_THAT(
      Sizes(ShapesOf({"aten::convolution", {F32({2, 4, 8, 8}), F32({16, 2, 3, 3})}, {F32({2, 16, 8, 8})}, ""}).at(0)),
      ElementsAre(2, 128, 8, 18));
}

// Kernels of a Kineto trace, whose results are not known.
TEST(OpShapeTest, KernelsOfATraceSayWhatTheirCallsDoNot) {
  const auto of = [](const std::string& kernel, const std::string& op, const std::string& dims,
                     const std::string& types, const std::string& values) {
    return ShapesOf({"kernel",
                     {},
                     {},
                     "{\"kernel\":\"" + kernel + "\",\"op\":\"" + op + "\",\"input_dims\":" + dims +
                         ",\"input_types\":" + types + ",\"input_values\":" + values + "}"});
  };
  const auto convolution =
      of("k", "aten::cudnn_convolution", "[[2,4,8,8],[16,4,3,3],[],[],[]]",
         R"(["float","float","ScalarList","ScalarList","ScalarList"])", R"(["","","[1,1]","[2,2]","[1,1]"])");
  EXPECT_THAT(Sizes(convolution.at(0)), ElementsAre(1, 2 * 4 * 4, 16, 36));
  const std::string two = R"(["float","float"])";
  const auto elements = [](const std::vector<OpShape>& shapes) {
    return shapes.empty() ? 0 : std::get<IndexedShape>(shapes.at(0)).elements;
  };
  const std::string dims = "[[30,50],[30,50]]";
  EXPECT_EQ(elements(of("void at::native::elementwise_kernel<128>", "aten::add", dims, two, "[]")), 1500);
  EXPECT_EQ(elements(of("void at::native::vectorized_elementwise_kernel<4>", "aten::add", dims, two, "[]")), 0);
  EXPECT_EQ(elements(of("CatArrayBatchedCopy", "aten::cat", "[[[30,50],[20,50]]]", R"(["TensorList"])", "[]")), 2500);
}

TEST(OpShapeTest, AnOpAsksForTheTimesOfItsShapes) {
  using testing::F32;
  const Graph graph = testing::GraphOf({"aten::mm", {F32({30, 50}), F32({50, 70})}, {F32({30, 70})}, ""});
  double kernels = 0;
  const std::vector<CurveQuestion> questions = CurveQuestions(graph, *graph.FindOp("op"), {}, &kernels);
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_EQ(kernels, 1);
  EXPECT_EQ(questions[0].precision, Precision::kF32);
  EXPECT_EQ(questions[0].bytes, 4 * (30 * 50 + 50 * 70 + 30 * 70));
  EXPECT_THAT(Sizes(questions[0].shape), ElementsAre(1, 30, 70, 50));
  const Graph convolution =
      testing::GraphOf({"aten::convolution", {F32({2, 4, 8, 8}), F32({16, 2, 3, 3})}, {F32({2, 16, 8, 8})}, ""});
  EXPECT_EQ(ConvolvedElements(ReadAtenCall(convolution, *convolution.FindOp("op"))), 2 * 16 * 64);
  EXPECT_EQ(ConvolvedElements(ReadAtenCall(graph, *graph.FindOp("op"))), std::nullopt);
}

TEST(OpShapeTest, TensorsThatAreSpreadCostTheirIndices) {
  using testing::F32;
  const Graph spread = testing::GraphOf({"aten::add", {F32({4096, 4096}), F32({4096})}, {F32({4096, 4096})}, ""});
  const Graph equal = testing::GraphOf({"aten::add", {F32({4096, 4096}), F32({4096, 4096})}, {F32({4096, 4096})}, ""});
  const auto shapes = FindOpShapes(spread, *spread.FindOp("op"));
  EXPECT_EQ(std::get<IndexedShape>(shapes.at(0)).elements, 4096 * 4096);
  EXPECT_TRUE(FindOpShapes(equal, *equal.FindOp("op")).empty());
  const DeviceKind& h100 = *FindDeviceKind("h100");
  const double bytes = 4096.0 * 4096 * 4;
  const double plain = CurveMicros(h100, Precision::kBf16, OpShape(), bytes)->time.micros;
  EXPECT_NEAR(CurveMicros(h100, Precision::kBf16, shapes[0], bytes)->time.micros, 200 * 4096.0 * 4096 / 67e6, 1e-6);
  EXPECT_GT(CurveMicros(h100, Precision::kBf16, shapes[0], bytes)->time.micros, plain);
}

TEST(OpShapeTest, NormsAndSoftmaxHaveRows) {
  using testing::F32;
  const auto softmax = ShapesOf({"softmax", {F32({4, 30, 50})}, {F32({4, 30, 50})}, ""});
  EXPECT_EQ(std::get<RowsShape>(softmax.at(0)).columns, 50);
  EXPECT_TRUE(std::get<RowsShape>(softmax.at(0)).is_softmax);
  const auto norm = ShapesOf({"aten::native_layer_norm", {F32({4, 30, 60})}, {F32({4, 30, 60})}, ""});
  EXPECT_EQ(std::get<RowsShape>(norm.at(0)).columns, 60);
  EXPECT_FALSE(std::get<RowsShape>(norm.at(0)).is_softmax);
}

TEST(OpShapeTest, AttentionHasHeadsAndLengths) {
  using testing::F32;
  const auto shapes = ShapesOf({"aten::scaled_dot_product_attention",
                                {F32({2, 32, 1024, 128}), F32({2, 8, 2048, 128}), F32({2, 8, 2048, 128})},
                                {F32({2, 32, 1024, 128})},
                                R"({"args":["%0","%1","%2",null,0.0,true]})"});
  const AttentionShape& shape = std::get<AttentionShape>(shapes.at(0));
  EXPECT_EQ(shape.batch, 2);
  EXPECT_EQ(shape.heads, 32);
  EXPECT_EQ(shape.key_heads, 8);
  EXPECT_EQ(shape.queries, 1024);
  EXPECT_EQ(shape.keys, 2048);
  EXPECT_EQ(shape.head_dim, 128);
  EXPECT_TRUE(shape.causal);
  EXPECT_FALSE(shape.backward);
}

// ---- The cost model

Cluster OneDevice(const std::string& kind) {
  Device device;
  device.name = "gpu:0";
  device.kind = kind;
  return Cluster("test", "", {device}, std::vector<Link>(1), Channels::kPerDevice, {});
}

TEST(CurvesCostModelTest, OpsWithoutACurveTakeTheRoofline) {
  using testing::F32;
  const Graph matmul = testing::GraphOf({"matmul", {F32({512, 512}), F32({512, 512})}, {F32({512, 512})}, ""});
  const OpId op = *matmul.FindOp("op");
  const Cluster h100 = OneDevice("h100");
  const auto curves = MakeCurvesCostModel();
  const auto curved = CurveMicros(matmul, op, h100, "h100", {});
  ASSERT_TRUE(curved);
  EXPECT_EQ(curves->OpMicros(matmul, op, h100, "h100"), curved->time.micros);
  EXPECT_EQ(curved->form, "product");
  const Cluster k40 = OneDevice("k40");
  EXPECT_EQ(curves->OpMicros(matmul, op, k40, "k40"), MakeRooflineCostModel()->OpMicros(matmul, op, k40, "k40"));
  EXPECT_TRUE(curves->TimesCollectives());
  EXPECT_TRUE(CostTable(matmul, h100, *curves).times_collectives());
  EXPECT_FALSE(CostTable(matmul, h100, *MakeRooflineCostModel()).times_collectives());
  const CurveCoverage coverage = CoverOps(matmul, h100, {});
  EXPECT_EQ(CoverageText(coverage), "1 product; by roofline 0");
  EXPECT_THAT(CoverageText(CoverOps(matmul, k40, {})), HasSubstr("no curves, so roofline, on k40"));
  EXPECT_THAT(CoverageText(CoverOps(matmul, OneDevice("h100-pcie"), {})), HasSubstr("h100-pcie takes curves of h100"));
  OutputSpec factor = F32({64, 64});
  factor.dtype = DType::kI8;
  const Graph bytes = testing::GraphOf({"matmul", {factor, factor}, {F32({64, 64})}, ""});
  EXPECT_EQ(CoverageText(CoverOps(bytes, h100, {})), "no op; by roofline 1 (matmul 1)");
}

TEST(CurvesCostModelTest, Tf32ProductsTakeTheirOwnRate) {
  using testing::F32;
  const Graph graph = testing::GraphOf({"matmul", {F32({8192, 8192}), F32({8192, 8192})}, {F32({8192, 8192})}, ""});
  const auto micros = [&](Tf32 tf32) {
    return *MakeCurvesCostModel({.tf32 = tf32})->OpMicros(graph, *graph.FindOp("op"), OneDevice("a100"), "a100");
  };
  const double flop = 2.0 * 8192 * 8192 * 8192;
  EXPECT_GT(micros(Tf32::kNone), flop / 19.5e6);
  EXPECT_LT(micros(Tf32::kNone), 1.4 * flop / 19.5e6);
  EXPECT_GT(micros(Tf32::kByFramework), flop / 156e6);
  EXPECT_LT(micros(Tf32::kByFramework), 1.4 * flop / 156e6);
}

TEST(CurvesCostModelTest, ConvolutionsOfGraphsInTf32TransposeTwoOfTheirTensors) {
  using testing::F32;
  const std::vector<OutputSpec> inputs = {F32({32, 64, 56, 56}), F32({64, 64, 3, 3})};
  const auto graph_of = [&](const std::string& kind) {
    return testing::GraphOf({kind, inputs, {F32({32, 64, 56, 56})}, kind == "conv2d" ? R"({"padding":"same"})" : ""});
  };
  const Cluster a100 = OneDevice("a100");
  const DeviceKind& device = *FindDeviceKind("a100");
  const Graph graph = graph_of("conv2d");
  const OpId op = *graph.FindOp("op");
  const OpShape shape = FindOpShapes(graph, op).at(0);
  const double moved = 4.0 * (2 * 32 * 64 * 56 * 56 + 64 * 64 * 9);
  const double alone = CurveMicros(device, Precision::kTf32, shape)->time.micros;
  const double transpose = CurveMicros(device, Precision::kF32, OpShape(), moved * 2 / 3)->time.micros;
  EXPECT_NEAR(CurveMicros(graph, op, a100, "a100", {.tf32 = Tf32::kAll})->time.micros, alone + 2 * transpose, 1e-9);
  EXPECT_EQ(CurveMicros(graph, op, a100, "a100", {.tf32 = Tf32::kNone})->time.micros,
            CurveMicros(device, Precision::kF32, shape)->time.micros);
  const Graph call = graph_of("aten::convolution");  // as a trace has it, beside its other kernels
  EXPECT_EQ(CurveMicros(call, *call.FindOp("op"), a100, "a100", {.tf32 = Tf32::kAll})->time.micros,
            CurveMicros(device, Precision::kTf32, FindOpShapes(call, *call.FindOp("op")).at(0))->time.micros);
}

TEST(CurvesCostModelTest, ARuntimeStretchesWhatMovesBytesAndLetsTheDeviceWait) {
  GraphBuilder builder("step");
  const auto add = [&](const std::string& name, const std::string& kind, const std::vector<std::string>& inputs,
                       Pass pass, DType dtype) {
    OpSpec op;
    op.name = name;
    op.kind = kind;
    op.inputs = inputs;
    op.pass = pass;
    op.outputs = {{.size = std::nullopt, .dtype = dtype, .shape = {1024, 1024}}};
    builder.Add(op);
  };
  add("half", "input", {}, Pass::kForward, DType::kF16);
  add("full", "input", {}, Pass::kForward, DType::kF32);
  add("matmul", "matmul", {"half", "half"}, Pass::kForward, DType::kF16);
  add("relu", "relu", {"half"}, Pass::kForward, DType::kF16);
  add("gelu", "gelu", {"half"}, Pass::kForward, DType::kF16);
  add("softmax", "softmax", {"full"}, Pass::kBackward, DType::kF32);
  add("scale", "scale", {"full"}, Pass::kUpdate, DType::kF32);
  const Graph graph = builder.Build();
  const Cluster v100 = OneDevice("v100");
  const auto micros = [&](const std::string& op, const Runtime* runtime) {
    return *MakeCurvesCostModel({.runtime = runtime})->OpMicros(graph, *graph.FindOp(op), v100, "v100");
  };
  const Runtime runtime = {
      .name = "slow", .elementwise_f32 = 1.5, .elementwise_half = 2, .op_micros = 10, .update_micros = 100};
  const auto plain = [&](const std::string& op) { return micros(op, nullptr); };
  EXPECT_DOUBLE_EQ(micros("matmul", &runtime), plain("matmul") + 10);
  EXPECT_DOUBLE_EQ(micros("relu", &runtime), plain("relu") + 10);
  EXPECT_DOUBLE_EQ(micros("gelu", &runtime), 2 * plain("gelu") + 10);
  EXPECT_DOUBLE_EQ(micros("softmax", &runtime), 1.5 * plain("softmax") + 10);
  EXPECT_DOUBLE_EQ(micros("scale", &runtime), plain("scale") + 100);
  EXPECT_EQ(micros("half", &runtime), 0);
  EXPECT_EQ(RuntimeFromName("", "runtime"), nullptr);
  EXPECT_EQ(RuntimeFromName("tensorflow", "runtime")->op_micros, 23);
  try {
    RuntimeFromName("tensorflo", "runtime");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        R"(runtime: is "tensorflo" (pytorch, tensorflow, tensorflow2, paddlepaddle); did you mean tensorflow?)");
  }
}

}  // namespace curves_test
}  // namespace emplace
