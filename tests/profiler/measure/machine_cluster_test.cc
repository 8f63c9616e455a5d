#include "profiler/measure/machine_cluster.h"

#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tests/testing/fake_hardware.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;

Profile Measured() {
  Profile profile;
  profile.created = "2026-01-02T03:04:05Z";
  profile.devices = {{.kind = "cpu-core", .backend = "clock", .op_gap_micros = 0.5},
                     {.kind = "h200", .backend = "cupti", .op_gap_micros = 4}};
  profile.links = {{.from = "cpu-core", .to = "h200", .latency_micros = 8, .bandwidth_gb_per_s = 50},
                   {.from = "h200", .to = "cpu-core", .latency_micros = 9, .bandwidth_gb_per_s = 40}};
  return profile;
}

TEST(MachineClusterTest, DevicesAreNamedAsTheyWereAndCostWhatTheirKindCosts) {
  const std::vector<profiler::NamedDevice> devices = {
      {.name = "cuda:0", .kind = "h200", .is_cpu = false, .memory = Bytes{1000}},
      {.name = "cpu:1", .kind = "cpu-core", .is_cpu = true, .memory = {}}};
  const Cluster cluster = profiler::MachineCluster("desk", devices, Measured());
  EXPECT_EQ(cluster.name(), "desk");
  EXPECT_EQ(cluster.source(), "measured by emplace profile, 2026-01-02T03:04:05Z");
  EXPECT_EQ(cluster.devices()[0].name, "cuda:0");
  EXPECT_EQ(cluster.devices()[0].op_gap_micros, 4);
  EXPECT_EQ(cluster.devices()[0].memory, Bytes{1000});
  EXPECT_TRUE(cluster.devices()[1].is_cpu);
  EXPECT_EQ(cluster.devices()[1].op_gap_micros, 0.5);
  EXPECT_TRUE(cluster.devices()[0].copy_engine);
  EXPECT_FALSE(cluster.devices()[1].copy_engine) << "a core copies by itself";
  const Link down = cluster.link(DeviceId{0}, DeviceId{1});
  EXPECT_EQ(down.latency_micros, 9);
  EXPECT_EQ(down.bandwidth_gb_per_s, 40);
  EXPECT_EQ(cluster.link(DeviceId{1}, DeviceId{0}).bandwidth_gb_per_s, 50);
}

TEST(MachineClusterTest, ALinkWithTheNamesOfDevicesIsTheirs) {
  Profile profile = Measured();
  profile.links = {{.from = "h200", .to = "h200", .latency_micros = 5, .bandwidth_gb_per_s = 100},
                   {.from = "h200",
                    .to = "h200",
                    .latency_micros = 9,
                    .bandwidth_gb_per_s = 20,
                    .knee = Bytes{4096},
                    .beyond_gb_per_s = 30,
                    .from_device = "cuda:1",
                    .to_device = "cuda:0"}};
  const std::vector<profiler::NamedDevice> devices = {
      {.name = "cuda:0", .kind = "h200", .is_cpu = false, .memory = {}},
      {.name = "cuda:1", .kind = "h200", .is_cpu = false, .memory = {}}};
  const Cluster cluster = profiler::MachineCluster("desk", devices, profile);
  EXPECT_EQ(cluster.link(DeviceId{0}, DeviceId{1}), (Link{.bandwidth_gb_per_s = 100, .latency_micros = 5}));
  EXPECT_EQ(cluster.link(DeviceId{1}, DeviceId{0}),
            (Link{.bandwidth_gb_per_s = 20, .latency_micros = 9, .knee = Bytes{4096}, .beyond_gb_per_s = 30}));
}

TEST(MachineClusterTest, WhatTheProfileLacksIsNamed) {
  const std::vector<profiler::NamedDevice> cores = {
      {.name = "cpu:0", .kind = "cpu-core", .is_cpu = true, .memory = {}},
      {.name = "cpu:1", .kind = "cpu-core", .is_cpu = true, .memory = {}}};
  EXPECT_EQ(ErrorOf([&] { profiler::MachineCluster("desk", cores, Measured()); }),
            "links: the profile has none from cpu-core to cpu-core (profile both devices: cpu:0,cpu:1)");
  const std::vector<profiler::NamedDevice> other = {{.name = "cuda:0", .kind = "k80", .is_cpu = false, .memory = {}}};
  EXPECT_EQ(ErrorOf([&] { profiler::MachineCluster("desk", other, Measured()); }),
            "devices: the profile has none of kind k80 (profile with such a device)");
}

TEST(MachineClusterTest, ARealDeviceIsNamedAfterItself) {
  testing::FakeDevice device("cpu:3", "cpu-core", nullptr);
  device.set_memory({77});
  const profiler::NamedDevice named = profiler::NamedAfter(device);
  EXPECT_EQ(named.name, "cpu:3");
  EXPECT_EQ(named.kind, "cpu-core");
  EXPECT_TRUE(named.is_cpu);
  EXPECT_EQ(named.memory, Bytes{77});
}

}  // namespace
}  // namespace emplace
