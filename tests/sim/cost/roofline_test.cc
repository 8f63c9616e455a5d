#include "sim/cost/roofline.h"

#include <gtest/gtest.h>

#include "sim/base/check.h"
#include "tests/testing/op_case.h"

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

TEST(RooflineTest, SaysHowToGiveATime) {
  const std::string advice = MakeRooflineCostModel()->HowToGiveATime();
  EXPECT_NE(advice.find("time_us"), std::string::npos);
  EXPECT_NE(advice.find("profile"), std::string::npos);
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
