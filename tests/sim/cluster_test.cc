#include "sim/cluster.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/base/check.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::MakeMixedCluster;

template <typename Function>
std::string ErrorOf(const Function& function) {
  try {
    function();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ClusterTest, ChangesScaleLinksMemoryAndCollectives) {
  const Link link = {
      .bandwidth_gb_per_s = 10, .latency_micros = 4, .gap_micros = 2, .knee = {1000}, .beyond_gb_per_s = 5};
  std::vector<Device> devices(2);
  devices[0].name = "gpu:0";
  devices[0].memory = Bytes{1000};
  devices[1].name = "gpu:1";
  const Cluster cluster = Cluster::Uniform("two", devices, link);
  const Cluster changed = cluster.WithChanges({.bandwidth = 2, .latency = 0.5, .memory = 3});
  EXPECT_EQ(
      changed.link(DeviceId{0}, DeviceId{1}),
      (Link{.bandwidth_gb_per_s = 20, .latency_micros = 2, .gap_micros = 1, .knee = {1000}, .beyond_gb_per_s = 10}));
  EXPECT_EQ(changed.device(DeviceId{0}).memory, Bytes{3000});
  EXPECT_EQ(changed.device(DeviceId{1}).memory, std::nullopt);
  EXPECT_EQ(changed.collective_costs().launch_micros, 12);
  EXPECT_EQ(changed.collective_costs().local_gb_per_s, 600);
}

TEST(ClusterTest, ChangesOfKindsTakeMemoryOfTheNewKindBeforeItIsScaled) {
  const Cluster cluster = MakeMixedCluster(2, Bytes{1000});
  const Cluster changed = cluster.WithChanges({.memory = 0.5, .kinds = {{cluster.device(DeviceId{1}).kind, "v100"}}});
  EXPECT_EQ(changed.device(DeviceId{0}).kind, "test-cpu");
  for (const std::size_t gpu : {1, 2}) {
    EXPECT_EQ(changed.device(MakeId<DeviceId>(gpu)).kind, "v100");
    EXPECT_EQ(changed.device(MakeId<DeviceId>(gpu)).memory->count * 2, FindDeviceKind("v100")->memory->count);
  }
  const auto error_of = [](const ClusterChanges& changes) {
    return ErrorOf([&] { MakeMixedCluster(2).WithChanges(changes); });
  };
  EXPECT_EQ(error_of({.kinds = {{"h100", "v100"}}}), "cluster mixed has no device of kind \"h100\"");
  EXPECT_EQ(error_of({.kinds = {{"k80", "v1000"}}}), "unknown device kind \"v1000\" (emplace list devices)");
  EXPECT_EQ(error_of({.bandwidth = 0}), "the factor of bandwidth: is 0 (a number above 0 and at most 1e+06)");
  EXPECT_EQ(error_of({.latency = 1e7}), "the factor of latency: is 10000000 (a number above 0 and at most 1e+06)");
}

TEST(ClusterTest, KeepAcceleratorsKeepsEveryCpuAndTheFirstAccelerators) {
  const Cluster cut = MakeMixedCluster(4).KeepAccelerators(2);
  ASSERT_EQ(cut.num_devices(), 3U);
  EXPECT_EQ(cut.devices()[0].name, "cpu:0");
  EXPECT_EQ(cut.devices()[2].name, "gpu:1");
  EXPECT_EQ(ErrorOf([] { MakeMixedCluster(4).KeepAccelerators(5); }), "cluster mixed has 4 accelerators, not 5");
}

TEST(ClusterTest, KeepKeepsTheClusterOrderAndTheLinks) {
  std::vector<Device> devices = MakeMixedCluster(2).devices();
  std::vector<Link> links(9);
  for (std::size_t i = 0; i < 9; ++i) links[i].bandwidth_gb_per_s = 1 + static_cast<double>(i);
  const Cluster cluster("c", "", devices, links, Channels::kPerDevice);
  const Cluster cut = cluster.Keep({"gpu:1", "cpu:0", "gpu:1"});
  EXPECT_TRUE(cut.names_cpu());
  EXPECT_TRUE(cut.KeepAccelerators(1).names_cpu());
  EXPECT_FALSE(cluster.names_cpu());
  EXPECT_FALSE(cluster.Keep({"gpu:0"}).names_cpu());
  ASSERT_EQ(cut.num_devices(), 2U);
  EXPECT_EQ(cut.devices()[0].name, "cpu:0");
  EXPECT_EQ(cut.devices()[1].name, "gpu:1");
  // From device 2 to device 0: entry 2 * 3 + 0.
  EXPECT_EQ(cut.link(MakeId<DeviceId>(1), MakeId<DeviceId>(0)).bandwidth_gb_per_s, 7);
  EXPECT_EQ(ErrorOf([&] { cluster.Keep({"gpu:9"}); }), "unknown device \"gpu:9\" (cluster c has cpu:0, gpu:0, gpu:1)");
  EXPECT_EQ(ErrorOf([&] { cluster.Keep({}); }), "no device of cluster c is left");
}

TEST(ClusterTest, RefusesDevicesAndLinksThatMakeNoSense) {
  const auto make = [](std::vector<Device> devices, Link link) {
    return ErrorOf([&] { Cluster::Uniform("c", devices, link); });
  };
  const Device a{.name = "a", .kind = "k", .memory = std::nullopt, .op_gap_micros = 0, .is_cpu = false};
  Device gap = a;
  gap.op_gap_micros = -1;
  EXPECT_EQ(make({}, {}), "devices: there is no device (at least one)");
  EXPECT_EQ(make({a, a}, {}), "devices[1].name: duplicate device name \"a\"");
  EXPECT_EQ(make({gap}, {}).substr(0, 21), "devices[0].op_gap_us:");
  EXPECT_EQ(make({a}, {.bandwidth_gb_per_s = 1, .latency_micros = -1, .gap_micros = 0}).substr(0, 29),
            "link from a to a: latency_us:");
  EXPECT_EQ(make({a}, {.bandwidth_gb_per_s = 1e-10, .latency_micros = 0, .gap_micros = 0}),
            "link from a to a: bandwidth_gb_per_s: is below 1 byte/s");
}

TEST(ClusterTest, WithoutMemoryLimitsOnlyTheMemoryDiffers) {
  const Cluster cluster = testing::MakeMixedCluster(2, Bytes{100});
  const Cluster unlimited = cluster.WithoutMemoryLimits();
  ASSERT_EQ(unlimited.num_devices(), 3U);
  for (std::size_t d = 0; d < 3; ++d) {
    EXPECT_FALSE(unlimited.devices()[d].memory.has_value());
    EXPECT_EQ(unlimited.devices()[d].kind, cluster.devices()[d].kind);
    EXPECT_EQ(unlimited.link(MakeId<DeviceId>(d), MakeId<DeviceId>(0)),
              cluster.link(MakeId<DeviceId>(d), MakeId<DeviceId>(0)));
  }
  EXPECT_TRUE(cluster.devices()[1].memory.has_value());  // the original is unchanged
}

}  // namespace
}  // namespace emplace
