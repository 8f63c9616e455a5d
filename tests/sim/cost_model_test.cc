#include "sim/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "sim/base/check.h"
#include "sim/cost/cost_models.h"
#include "sim/op_kinds.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::FixedCostModel;
using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeMixedCluster;
using ::emplace::testing::MakeOp;

std::string ErrorOf(const Graph& graph, const Cluster& cluster) {
  try {
    CostTable(graph, cluster, *MakeMeasuredCostModel());
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

OpSpec Timed(std::string name, std::vector<std::pair<std::string, double>> times, std::string colocate_with = "") {
  OpSpec spec;
  spec.name = std::move(name);
  spec.kind = "test";
  spec.kind_times = std::move(times);
  spec.colocate_with = std::move(colocate_with);
  return spec;
}

TEST(CostTableTest, AnOpIsAllowedExactlyWhereItHasATime) {
  const Graph graph = Build({Timed("a", {{"test-cpu", 7}}), Timed("b", {{"test-cpu", 8}, {"test-gpu", 2}})});
  const CostTable costs(graph, MakeMixedCluster(2), *MakeMeasuredCostModel());
  const DeviceId cpu = MakeId<DeviceId>(0);
  const DeviceId gpu = MakeId<DeviceId>(2);
  EXPECT_TRUE(costs.Allowed(MakeId<OpId>(0), cpu));
  EXPECT_FALSE(costs.Allowed(MakeId<OpId>(0), gpu));
  EXPECT_EQ(costs.Micros(MakeId<OpId>(1), cpu), 8);
  EXPECT_EQ(costs.Micros(MakeId<OpId>(1), gpu), 2);
  EXPECT_EQ(costs.num_kinds(), 2U);
  EXPECT_EQ(costs.fallback_ops(), 0U);
}

TEST(CostTableTest, InputsAndVariablesAreSources) {
  EXPECT_TRUE(IsSourceKind("input"));
  EXPECT_TRUE(IsSourceKind("variable"));
  EXPECT_FALSE(IsSourceKind("matmul"));
}

TEST(CostTableTest, WithoutTakesTimesFromSomeDevicesOnly) {
  const Graph graph = Build({Timed("a", {{"test-gpu", 7}}), Timed("b", {{"test-gpu", 2}})});
  const Cluster cluster = MakeCluster(3);  // all of one kind
  const CostTable costs(graph, cluster, *MakeMeasuredCostModel());
  const CostTable without = costs.Without({MakeId<DeviceId>(0), MakeId<DeviceId>(2)}, {true, false});
  for (const std::size_t device : {0, 1, 2}) {
    EXPECT_EQ(without.Allowed(MakeId<OpId>(0), MakeId<DeviceId>(device)), device == 1);
    EXPECT_EQ(without.Micros(MakeId<OpId>(1), MakeId<DeviceId>(device)), 2);
    EXPECT_EQ(costs.Micros(MakeId<OpId>(0), MakeId<DeviceId>(device)), 7);
  }
}

TEST(CostTableTest, TheFallbackAnswersOnlyWhereTheModelDoesNotAndIsCounted) {
  const Graph graph = Build({Timed("a", {{"test-gpu", 7}}), Timed("b", {}), Timed("c", {})});
  const FixedCostModel fallback(99);
  const CostTable costs(graph, MakeCluster(1), *MakeMeasuredCostModel(), &fallback);
  EXPECT_EQ(costs.Micros(MakeId<OpId>(0), MakeId<DeviceId>(0)), 7);
  EXPECT_EQ(costs.Micros(MakeId<OpId>(1), MakeId<DeviceId>(0)), 99);
  EXPECT_EQ(costs.fallback_ops(), 2U);
}

TEST(CostTableTest, AnOpWithoutATimeAnywhereIsRefusedByName) {
  EXPECT_EQ(
      ErrorOf(Build({Timed("lonely", {{"tpu", 1}})}), MakeMixedCluster(1)),
      "op \"lonely\": has no time on any device of cluster mixed (kinds test-cpu, test-gpu); give it a time_us in "
      "the graph, or use other costs: roofline, or a profile");
}

TEST(CostTableTest, AColocationClassNeedsADeviceThatAllItsOpsCanUse) {
  EXPECT_EQ(ErrorOf(Build({Timed("a", {{"test-cpu", 1}}), Timed("b", {{"test-gpu", 1}}, "a")}), MakeMixedCluster(1)),
            "op \"b\": no device of cluster mixed has a time for all ops that colocate_with ties it to");
}

TEST(CostTableTest, TimesThatCouldOverflowAreRefused) {
  std::vector<OpSpec> specs;
  specs.reserve(5000);
  for (int i = 0; i < 5000; ++i) specs.push_back(MakeOp("op" + std::to_string(i), 1e12));  // 5e15 us in total
  EXPECT_EQ(ErrorOf(Build(specs), MakeCluster(1)),
            "all times and transfers together are longer than 4e15 us (about 126 years)");
}

// A matrix product of 2^79 FLOP is a valid graph, but its roofline time exceeds any bound: an input error, not a bug.
TEST(CostTableTest, OneTimeThatOverflowsIsRefusedToo) {
  const testing::FixedCostModel endless(1e30);
  const Graph graph = Build({Timed("a", {})});
  try {
    const CostTable costs(graph, MakeCluster(1), endless);
    FAIL() << "a time of 1e30 us was taken";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "all times and transfers together are longer than 4e15 us (about 126 years)");
  }
}

TEST(CostTableTest, ContentionIsOfTheOpsClassAndOfKindsThatThereAreTwoOf) {
  OpSpec copy = MakeOp("copy", 3);
  copy.kind = "concat";
  OpSpec sum = MakeOp("sum", 3);
  sum.kind = "add";
  const Graph graph = Build({copy, sum, MakeOp("unknown", 3)});
  const Cluster cluster = MakeMixedCluster(2);
  const CostTable costs = testing::ContendedCosts(graph, cluster, {{OpClass::kCopy, 2}});
  ASSERT_TRUE(costs.has_contention());
  const auto factor = [&](std::size_t op, std::size_t device) {
    return costs.KindContention(MakeId<OpId>(op), costs.KindIndex(MakeId<DeviceId>(device)));
  };
  EXPECT_EQ(factor(0, 1), 2);
  EXPECT_EQ(factor(0, 0), 1);  // the only CPU
  EXPECT_EQ(factor(1, 1), 1);
  EXPECT_EQ(factor(2, 1), 1);
  EXPECT_EQ(costs.LongestMicros(MakeId<OpId>(0)), 6);
  EXPECT_FALSE(testing::ContendedCosts(graph, MakeCluster(1), {{OpClass::kCopy, 2}}).has_contention());
  EXPECT_FALSE(CostTable(graph, cluster, *MakeMeasuredCostModel()).has_contention());
}

TEST(CostTableTest, DevicesThatAreFedHaveTheTimesOfTwoQueues) {
  OpSpec both = MakeOp("both", 9);
  both.host_micros = 2;
  both.device_micros = 5;
  const Graph graph = Build({both, MakeOp("one", 3)});
  const Cluster plain = MakeMixedCluster(2);
  std::vector<Device> devices = plain.devices();
  for (Device& device : devices) {
    if (!device.is_cpu) device.issue = IssueLane();
  }
  const Cluster fed = Cluster::Uniform("fed", devices, {.bandwidth_gb_per_s = 1});
  const CostTable costs(graph, fed, *MakeMeasuredCostModel());
  ASSERT_TRUE(costs.has_issue_lanes());
  const DeviceId cpu{0};
  const DeviceId gpu{1};
  EXPECT_EQ(costs.Micros(OpId{0}, cpu), 9);
  EXPECT_EQ(costs.Micros(OpId{0}, gpu), 5);
  EXPECT_EQ(costs.HostMicros(OpId{0}, costs.KindIndex(gpu)), 2);
  EXPECT_TRUE(std::isnan(costs.HostMicros(OpId{0}, costs.KindIndex(cpu))));
  EXPECT_EQ(costs.Micros(OpId{1}, gpu), 3);
  EXPECT_TRUE(std::isnan(costs.HostMicros(OpId{1}, costs.KindIndex(gpu))));
  EXPECT_FALSE(CostTable(graph, plain, *MakeMeasuredCostModel()).has_issue_lanes());
}

TEST(CostTableTest, InputsAndVariablesAreFreeUnderEveryModel) {
  class NoTimes : public CostModel {
    std::optional<double> OpMicros(const Graph&, OpId, const Cluster&, std::string_view) const override {
      return std::nullopt;
    }
    std::string WhyNoTime(const Graph&, OpId) const override { return ""; }
  };
  OpSpec input = Timed("images", {});
  input.kind = "input";
  const CostTable costs(Build({input}), MakeCluster(1), NoTimes());
  EXPECT_EQ(costs.Micros(MakeId<OpId>(0), MakeId<DeviceId>(0)), 0);
}

}  // namespace
}  // namespace emplace
