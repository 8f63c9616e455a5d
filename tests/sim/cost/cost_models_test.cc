#include "sim/cost/cost_models.h"

#include <gtest/gtest.h>
#include <algorithm>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/op_case.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;

// A "matmul" op that reads an f32[2,3] and has attrs; an op "other" that no profile contains.
Graph TwoOps() {
  GraphBuilder builder("g");
  OpSpec input;
  input.name = "in";
  input.kind = "input";
  input.outputs = {{.size = std::nullopt, .dtype = DType::kF32, .shape = {2, 3}}};
  builder.Add(input);
  OpSpec product;
  product.name = "product";
  product.kind = "matmul";
  product.inputs = {"in"};
  product.attrs = R"({"transpose":true,"alpha":2})";
  builder.Add(product);
  OpSpec other;
  other.name = "other";
  other.kind = "mystery";
  builder.Add(other);
  return builder.Build();
}

Profile::OpEntry Entry(std::string signature, std::string device, double micros) {
  Profile::OpEntry entry;
  entry.signature = std::move(signature);
  entry.device = std::move(device);
  entry.median_micros = micros;
  return entry;
}

TEST(ProfiledTest, TakesTheMeanWhereTheProfileHasIt) {
  Profile profile;
  profile.ops = {Entry("matmul(f32[2,3]){alpha=2,transpose=true}", "test-gpu", 7.5)};
  profile.ops[0].mean_micros = 8;
  const auto model = MakeProfiledCostModel(profile);
  const Graph graph = TwoOps();
  EXPECT_EQ(model->OpMicros(graph, *graph.FindOp("product"), testing::MakeMixedCluster(1), "test-gpu"), 8);
}

TEST(ProfiledTest, FindsTheMedianBySignatureAndKind) {
  Profile profile;
  profile.ops = {Entry("matmul(f32[2,3]){alpha=2,transpose=true}", "test-gpu", 7.5),
                 Entry("matmul(f32[2,3]){transpose=true,alpha=3}", "test-gpu", 1),
                 Entry("matmul(f32[2,4]){alpha=2,transpose=true}", "test-gpu", 2),
                 Entry("matmul(f32[2,3]){alpha=2,transpose=true}", "test-cpu", 90)};
  const auto model = MakeProfiledCostModel(profile);
  const Graph graph = TwoOps();
  const Cluster cluster = testing::MakeMixedCluster(1);
  const OpId product = *graph.FindOp("product");
  EXPECT_EQ(model->OpMicros(graph, product, cluster, "test-gpu"), 7.5);
  EXPECT_EQ(model->OpMicros(graph, product, cluster, "test-cpu"), 90.0);
  EXPECT_EQ(model->OpMicros(graph, product, cluster, "k80"), std::nullopt);
  EXPECT_EQ(model->OpMicros(graph, *graph.FindOp("other"), cluster, "test-gpu"), std::nullopt);
}

// A chain of four ops with an input f32[10].
Graph ACopyAProductAndTwoOthers() {
  GraphBuilder builder("g");
  for (const auto& [name, kind, input] : std::vector<std::array<std::string, 3>>{{"in", "input", ""},
                                                                                 {"copy", "concat", "in"},
                                                                                 {"sum", "add", "in"},
                                                                                 {"product", "matmul", "in"},
                                                                                 {"mystery", "mystery", "in"}}) {
    OpSpec op;
    op.name = name;
    op.kind = kind;
    if (!input.empty()) op.inputs = {input};
    op.outputs = {{.size = std::nullopt, .dtype = DType::kF32, .shape = {10}}};
    builder.Add(op);
  }
  return builder.Build();
}

TEST(ProfiledTest, ContentionIsTheOpsOwnElseThatOfItsClassAboveNoise) {
  const Graph graph = ACopyAProductAndTwoOthers();
  Profile profile;
  const auto contention = [&](const std::string& op, const std::string& kind = "test-cpu") {
    return MakeProfiledCostModel(profile)->Contention(graph, *graph.FindOp(op), kind);
  };
  EXPECT_EQ(contention("copy"), 1);
  profile.devices = {{.kind = "test-cpu",
                      .backend = "cpu",
                      .contention = {{"copy", 1.9}, {"elementwise", 1.05}, {"matrix-product", 1.06}}}};
  EXPECT_EQ(contention("copy"), 1.9);
  EXPECT_EQ(contention("sum"), 1);
  EXPECT_EQ(contention("product"), 1.06);
  EXPECT_EQ(contention("mystery"), 1);
  EXPECT_EQ(contention("copy", "test-gpu"), 1);
  profile.ops = {Entry("concat(f32[10])", "test-cpu", 1), Entry("add(f32[10])", "test-cpu", 1),
                 Entry("mystery(f32[10])", "test-cpu", 1), Entry("matmul(f32[10])", "test-cpu", 1)};
  profile.ops[0].contention = 0.98;
  profile.ops[1].contention = 1.4;
  profile.ops[2].contention = 1.3;
  EXPECT_EQ(contention("copy"), 1);
  EXPECT_EQ(contention("sum"), 1.4);
  EXPECT_EQ(contention("mystery"), 1.3);
  EXPECT_EQ(contention("product"), 1.06);
  EXPECT_EQ(contention("sum", "test-gpu"), 1);
}

// A profile entry with outputs is matched first; one without them is accepted too.
TEST(ProfiledTest, TheFullSignatureComesFirst) {
  GraphBuilder builder("g");
  OpSpec fill;
  fill.name = "zeros";
  fill.kind = "fill";
  fill.outputs = {{.size = std::nullopt, .dtype = DType::kF32, .shape = {5}}};
  builder.Add(fill);
  const Graph graph = builder.Build();
  const Cluster cluster = testing::MakeMixedCluster(1);
  Profile profile;
  profile.ops = {Entry("fill()", "test-gpu", 3)};
  EXPECT_EQ(MakeProfiledCostModel(profile)->OpMicros(graph, OpId{0}, cluster, "test-gpu"), 3.0);
  profile.ops.push_back(Entry("fill()->f32[5]", "test-gpu", 4));
  EXPECT_EQ(MakeProfiledCostModel(profile)->OpMicros(graph, OpId{0}, cluster, "test-gpu"), 4.0);
}

TEST(ProfiledTest, AnOpThatTheProfileLacksIsNamed) {
  const auto model = MakeProfiledCostModel(Profile());
  const Graph graph = TwoOps();
  const Cluster cluster = testing::TwoDevices();
  const std::string error = ErrorOf([&] { CostTable(graph, cluster, *model); });
  EXPECT_NE(error.find("has no time on any device of cluster test (kinds test-gpu); the profile has no entry with its "
                       "signature"),
            std::string::npos)
      << error;
}

TEST(ProfiledTest, TheFallbackAnswersForWhatTheProfileLacks) {
  Profile profile;
  profile.ops = {Entry("matmul(f32[2,3]){alpha=2,transpose=true}", "test-gpu", 7.5)};
  const auto model = MakeProfiledCostModel(profile);
  const testing::FixedCostModel fallback(3);
  const Graph graph = TwoOps();
  const CostTable costs(graph, testing::TwoDevices(), *model, &fallback);
  EXPECT_EQ(costs.Micros(*graph.FindOp("product"), DeviceId{0}), 7.5);
  EXPECT_EQ(costs.Micros(*graph.FindOp("other"), DeviceId{0}), 3);
  EXPECT_EQ(costs.Micros(*graph.FindOp("in"), DeviceId{0}), 0) << "inputs are free without a fallback";
  EXPECT_EQ(costs.fallback_ops(), 1U);
}

}  // namespace
}  // namespace emplace

namespace emplace {
namespace {

TEST(MeasuredCostModelTest, AnswersWithTheGraphsOwnTimes) {
  GraphBuilder builder("g");
  OpSpec by_kind = testing::MakeOp("a", 0);
  by_kind.time_micros = std::nullopt;
  by_kind.kind_times = {{"k80", 3.5}};
  builder.Add(by_kind);
  builder.Add(testing::MakeOp("b", 4.25));
  const Graph graph = builder.Build();
  const auto model = MakeMeasuredCostModel();
  const Cluster cluster = testing::MakeCluster(1);
  EXPECT_EQ(model->OpMicros(graph, MakeId<OpId>(0), cluster, "k80"), 3.5);
  EXPECT_EQ(model->OpMicros(graph, MakeId<OpId>(0), cluster, "v100"), std::nullopt);
  EXPECT_EQ(model->OpMicros(graph, MakeId<OpId>(1), cluster, "anything"), 4.25);
}

}  // namespace
}  // namespace emplace

namespace emplace::testing {
namespace {

// 1 TFLOP/s, of which products reach half; 100 GB/s, of which products reach all and element-wise ops 80 %; 5 us
// launch.
DeviceKind TestKind() {
  DeviceKind kind;
  kind.name = "test";
  kind.peak = {1e12};
  kind.memory_bandwidth = {100'000'000'000};
  kind.launch_micros = 5;
  kind.compute_efficiency.fill(0);
  kind.compute_efficiency[static_cast<std::size_t>(OpClass::kMatrixProduct)] = 0.5;
  kind.bandwidth_efficiency.fill(1);
  kind.bandwidth_efficiency[static_cast<std::size_t>(OpClass::kElementwise)] = 0.8;
  return kind;
}

Cluster TestCluster(const DeviceKind& kind) {
  Device device;
  device.name = "gpu:0";
  device.kind = kind.name;
  return Cluster("test", "", {device}, std::vector<Link>(1), Channels::kPerDevice, {{kind.name, kind}});
}

std::optional<double> Micros(const OpCase& op_case, const DeviceKind& kind = TestKind(),
                             std::string_view device_kind = "test") {
  const Graph graph = GraphOf(op_case);
  return MakeRooflineCostModel()->OpMicros(graph, *graph.FindOp("op"), TestCluster(kind), device_kind);
}

TEST(RooflineTest, AProductOfLargeMatricesIsBoundByCompute) {
  // 2 * 1000^3 = 2e9 FLOP at 0.5e12 a second: 4000 us. 12e6 bytes at 100e9 a second are only 120 us.
  EXPECT_DOUBLE_EQ(*Micros({"matmul", {F32({1000, 1000}), F32({1000, 1000})}, {F32({1000, 1000})}, ""}), 4005);
}

TEST(RooflineTest, AProductWithAVectorIsBoundByBytes) {
  // 2e6 FLOP take 4 us; 4 * (1000 + 1000000 + 1000) bytes take 40.08 us.
  EXPECT_DOUBLE_EQ(*Micros({"matmul", {F32({1, 1000}), F32({1000, 1000})}, {F32({1, 1000})}, ""}), 45.08);
}

TEST(RooflineTest, AClassWithoutComputeEfficiencyIsBoundByBytesAlone) {
  // 2e6 elements: 16e6 bytes at 80e9 a second: 200 us, plus the launch.
  EXPECT_DOUBLE_EQ(*Micros({"relu", {F32({2000000})}, {F32({2000000})}, ""}), 205);
}

TEST(RooflineTest, TinyOpsTakeTheLaunchTime) {
  // 8 bytes at 80e9 a second: 0.0001 us.
  EXPECT_DOUBLE_EQ(*Micros({"relu", {F32({1})}, {F32({1})}, ""}), 5.0001);
}

TEST(RooflineTest, InputsVariablesAndViewsTakeNothing) {
  EXPECT_EQ(Micros({"input", {}, {F32({1000})}, ""}), 0.0);
  EXPECT_EQ(Micros({"variable", {}, {F32({1000})}, ""}), 0.0);
  EXPECT_EQ(Micros({"reshape", {F32({1000})}, {F32({10, 100})}, ""}), 0.0);
}

TEST(RooflineTest, HasNoTimeForWhatItDoesNotKnow) {
  EXPECT_EQ(Micros({"no_such_kind", {F32({1})}, {F32({1})}, ""}), std::nullopt);
  EXPECT_EQ(Micros({"relu", {F32({1})}, {F32({1})}, ""}, TestKind(), "no-such-device"), std::nullopt);
  EXPECT_EQ(Micros({"relu", {{.size = Bytes{4}, .shape = {}}}, {F32({1})}, ""}), std::nullopt);
  EXPECT_EQ(Micros({"relu", {F32({1})}, {{.size = Bytes{4}, .shape = {}}}, ""}), std::nullopt);
  DeviceKind without_rates = TestKind();
  without_rates.peak = {0};
  EXPECT_EQ(Micros({"relu", {F32({1})}, {F32({1})}, ""}, without_rates), std::nullopt);
}

TEST(RooflineTest, RefusesShapesThatDoNotFitTheKind) {
  EXPECT_THROW(Micros({"relu", {F32({1})}, {F32({2})}, ""}), InputError);
}

TEST(RooflineTest, SaysWhyAnOpHasNoTime) {
  GraphBuilder builder("g");
  OpSpec typo;
  typo.name = "a";
  typo.kind = "reluu";
  builder.Add(typo);
  typo.name = "b";
  typo.kind = "relu";
  builder.Add(typo);
  const Graph without = builder.Build();
  const auto model = MakeRooflineCostModel();
  EXPECT_NE(model->WhyNoTime(without, OpId{0}).find("no op of kind \"reluu\""), std::string::npos);
  EXPECT_NE(model->WhyNoTime(without, OpId{1}).find("dtype and shape"), std::string::npos);
}

OutputSpec Half(std::vector<std::int64_t> shape) {
  return {.size = std::nullopt, .dtype = DType::kBf16, .shape = std::move(shape)};
}

// TestKind, whose peak of 1 TFLOP/s is that of TF32: 0.25 in f32, 4 in bf16, all of which products reach.
DeviceKind KindWithPrecisions() {
  DeviceKind kind = TestKind();
  const auto set = [&](Precision precision, double peak) {
    PrecisionRate& rate = kind.precisions[static_cast<std::size_t>(precision)];
    rate.peak = {peak};
    rate.efficiency.fill(1);
  };
  set(Precision::kF32, 0.25e12);
  set(Precision::kTf32, 1e12);
  set(Precision::kBf16, 4e12);
  return kind;
}

double MicrosWith(Tf32 tf32, const OpCase& op_case) {
  const Graph graph = GraphOf(op_case);
  return *MakeRooflineCostModel({.tf32 = tf32})
              ->OpMicros(graph, *graph.FindOp("op"), TestCluster(KindWithPrecisions()), "test");
}

TEST(RooflineTest, ProductsTakeTheRateOfTheirPrecision) {
  const std::vector<std::int64_t> square = {1000, 1000};
  // 2e9 FLOP.
  const OpCase mm = {"aten::mm", {F32(square), F32(square)}, {F32(square)}, ""};
  EXPECT_DOUBLE_EQ(MicrosWith(Tf32::kByFramework, mm), 8005) << "PyTorch computes products of matrices in f32";
  EXPECT_DOUBLE_EQ(MicrosWith(Tf32::kNone, mm), 8005);
  EXPECT_DOUBLE_EQ(MicrosWith(Tf32::kConvolutions, mm), 8005);
  EXPECT_DOUBLE_EQ(MicrosWith(Tf32::kAll, mm), 2005);
  const OpCase half = {"aten::mm", {Half(square), Half(square)}, {Half(square)}, ""};
  EXPECT_DOUBLE_EQ(MicrosWith(Tf32::kNone, half), 505);

  // The same FLOP in a convolution, which cuDNN computes in TF32.
  const OpCase convolution = {
      "aten::convolution", {F32({1000, 1000, 1, 1}), F32({1000, 1000, 1, 1})}, {F32({1000, 1000, 1, 1})}, ""};
  EXPECT_DOUBLE_EQ(MicrosWith(Tf32::kByFramework, convolution), 2005);
  EXPECT_DOUBLE_EQ(MicrosWith(Tf32::kNone, convolution), 8005);

  // Kinds of the op catalogue take the peak, as they did before precisions had rates, unless a choice is made.
  const OpCase matmul = {"matmul", {F32(square), F32(square)}, {F32(square)}, ""};
  EXPECT_DOUBLE_EQ(MicrosWith(Tf32::kByFramework, matmul), 4005);
  EXPECT_DOUBLE_EQ(MicrosWith(Tf32::kAll, matmul), 2005);
  EXPECT_DOUBLE_EQ(MicrosWith(Tf32::kNone, matmul), 8005);
  EXPECT_DOUBLE_EQ(MicrosWith(Tf32::kNone, {"matmul", {Half(square), Half(square)}, {Half(square)}, ""}), 505);
}

TEST(RooflineTest, ProductsOfEightBitsTakeTheirRate) {
  const std::vector<std::int64_t> square = {1000, 1000};
  const OutputSpec bytes = {.size = std::nullopt, .dtype = DType::kU8, .shape = square};
  const OutputSpec sums = {.size = std::nullopt, .dtype = DType::kI32, .shape = square};
  const Graph graph = GraphOf({"onnx::MatMulInteger", {bytes, bytes}, {sums}, ""});
  const auto micros = [&](const DeviceKind& kind) {
    return *MakeRooflineCostModel()->OpMicros(graph, *graph.FindOp("op"), TestCluster(kind), "test");
  };
  DeviceKind kind = KindWithPrecisions();
  EXPECT_DOUBLE_EQ(micros(kind), 8005) << "it has no rate of 8 bits, and none of f16: that of f32";
  PrecisionRate& rate = kind.precisions[static_cast<std::size_t>(Precision::kI8)];
  rate.peak = {8e12};
  rate.efficiency.fill(1);
  EXPECT_DOUBLE_EQ(micros(kind), 255) << "2e9 FLOP at 8 TFLOP/s, and the launch";
}

TEST(RooflineTest, ProductsOfSmallFloatsTakeTheRateOfF8) {
  const std::vector<std::int64_t> square = {1000, 1000};
  DeviceKind kind = KindWithPrecisions();
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    const OutputSpec factor = {.size = std::nullopt, .dtype = dtype, .shape = square};
    const Graph graph = GraphOf({"matmul", {factor, factor}, {F32(square)}, ""});
    const auto micros = [&] {
      return *MakeRooflineCostModel()->OpMicros(graph, *graph.FindOp("op"), TestCluster(kind), "test");
    };
    PrecisionRate& rate = kind.precisions[static_cast<std::size_t>(Precision::kF8)];
    rate.peak = {};
    EXPECT_DOUBLE_EQ(micros(), 8005) << "it has no rate of 8 bits, and none of f16: that of f32";
    rate.peak = {8e12};
    rate.efficiency.fill(1);
    EXPECT_DOUBLE_EQ(micros(), 255);
  }
}

TEST(RooflineTest, Tf32HasThreeNames) {
  EXPECT_EQ(Tf32FromName("", "--tf32"), Tf32::kByFramework);
  EXPECT_EQ(Tf32FromName("none", "--tf32"), Tf32::kNone);
  EXPECT_EQ(Tf32FromName("convolutions", "--tf32"), Tf32::kConvolutions);
  EXPECT_EQ(Tf32FromName("all", "--tf32"), Tf32::kAll);
  EXPECT_EQ(ErrorOf([] { Tf32FromName("yes", "--tf32"); }), "--tf32: is \"yes\" (none, convolutions or all)");
}

TEST(RooflineTest, KernelsOfOneCallShareItsWork) {
  // 4000 us of work in two kernels, each with its launch.
  const std::string attrs = R"({"op":"aten::add","op_kernels":2,"input_dims":[[1000000]],"input_types":["float"]})";
  // 8e6 bytes at 80e9 a second are 100 us.
  EXPECT_DOUBLE_EQ(*Micros({"kernel", {}, {}, attrs}), 5 + 50);
}

TEST(RooflineTest, WhatNoRateSaysKeepsItsTime) {
  GraphBuilder builder("g");
  OpSpec op;
  op.kind_times = {{"test", 7}};
  for (const char* const kind : {"host", "collective", "memcpy", "c10d::allreduce_"}) {
    op.name = op.kind = kind;
    std::replace(op.name.begin(), op.name.end(), ':', '.');
    builder.Add(op);
  }
  const Graph graph = builder.Build();
  const auto model = MakeRooflineCostModel();
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    EXPECT_EQ(model->OpMicros(graph, MakeId<OpId>(i), TestCluster(TestKind()), "test"), 7.0);
  }
  // On another kind of device, but not on the host.
  DeviceKind other = TestKind();
  other.name = "other";
  for (const char* const kind : {"collective", "memcpy", "c10d..allreduce_"}) {
    EXPECT_EQ(model->OpMicros(graph, *graph.FindOp(kind), TestCluster(other), "other"), 7.0);
    EXPECT_EQ(model->OpMicros(graph, *graph.FindOp(kind), TestCluster(other), "thread"), std::nullopt);
  }
  EXPECT_EQ(model->OpMicros(graph, *graph.FindOp("host"), TestCluster(other), "other"), std::nullopt);
  // Within a device's memory a copy has a rate: 1000 bytes are read and written at 100e9 a second.
  EXPECT_DOUBLE_EQ(*Micros({"memcpy", {}, {}, R"x({"kernel":"Memcpy DtoD (Device -> Device)","copied_bytes":1000})x"}),
                   5.02);
  EXPECT_EQ(Micros({"memcpy", {}, {}, R"({"kernel":"Memcpy HtoD","copied_bytes":1000})"}), std::nullopt);
}

TEST(RooflineTest, ListsTheOperatorsThatItDoesNotKnow) {
  GraphBuilder builder("g");
  OpSpec op;
  for (const auto& [name, kind] : {std::pair("a", "mine::first"), {"b", "aten::relu"}, {"c", "mine::second"}}) {
    op.name = name;
    op.kind = kind;
    builder.Add(op);
  }
  const Graph graph = builder.Build();
  const std::string why = MakeRooflineCostModel()->WhyNoTime(graph, *graph.FindOp("a"));
  EXPECT_NE(why.find("knows no op of kind \"mine::first\"; nor does it know mine::second (docs/model.md"),
            std::string::npos)
      << why;
  // f64 has no rate of its own, and none is made up.
  const OutputSpec square = {.size = std::nullopt, .dtype = DType::kF64, .shape = {4, 4}};
  const Graph wide = GraphOf({"aten::mm", {square, square}, {square}, ""});
  EXPECT_NE(MakeRooflineCostModel()->WhyNoTime(wide, *wide.FindOp("op")).find("no rate for products"),
            std::string::npos);
}

TEST(RooflineTest, RefusesADeviceKindWithoutRates) {
  const auto model = MakeRooflineCostModel();
  const Cluster cluster = testing::MakeMixedCluster(1);
  EXPECT_EQ(ErrorOf([&] { model->CheckKind(cluster, "p100"); }), "(no error)");
  const std::string error = ErrorOf([&] { model->CheckKind(cluster, "p1000"); });
  EXPECT_EQ(error.rfind("kind \"p1000\": has no rates", 0), 0U) << error;
}

TEST(RooflineTest, EveryShippedDeviceKindHasRatesForEveryClass) {
  const OpCase product = {"matmul", {F32({64, 64}), F32({64, 64})}, {F32({64, 64})}, ""};
  const OpCase sum = {"reduce_sum", {F32({64, 64})}, {F32({64})}, ""};
  const OpCase lookup = {"gather", {F32({64, 64}), I32({4})}, {F32({4, 64})}, ""};
  const OpCase copy = {"transpose", {F32({64, 32})}, {F32({32, 64})}, ""};
  for (const DeviceKind& kind : AllDeviceKinds()) {
    for (const OpCase& op_case : {product, sum, lookup, copy}) {
      const std::optional<double> micros = Micros(op_case, TestKind(), kind.name);
      ASSERT_TRUE(micros.has_value()) << kind.name << " " << op_case.kind;
      EXPECT_GE(*micros, kind.launch_micros) << kind.name << " " << op_case.kind;
    }
  }
}

}  // namespace
}  // namespace emplace::testing
