#include "profiler/machine/machine_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "profiler/machine/probe_kernels.h"
#include "sim/base/check.h"
#include "sim/formats/cluster_yaml.h"
#include "tests/testing/vector_targets.h"

namespace emplace {
namespace machine_probe_test {

// Small enough for a test: arrays of 1 MiB together.
profiler::ProbeOptions Small() {
  return {.threads = 2, .cache_bytes = 256 << 10, .runs = 5, .seconds = 0.01, .disk_bytes = 1 << 20};
}

TEST(MachineProbeTest, TheTriadIsThatOfEachElement) {
  testing::OnEachVectorTarget([](VectorTarget) {
    std::vector<double> a(37);
    std::vector<double> b(37);
    std::vector<double> c(37);
    for (std::size_t i = 0; i < a.size(); ++i) {
      b[i] = static_cast<double>(i);
      c[i] = 100 - b[i];
    }
    profiler::Triad(a.size(), b.data(), c.data(), a.data());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i], b[i] + 3 * c[i]) << i;
  });
}

TEST(MachineProbeTest, MultiplyAddsAreCountedAndDone) {
  testing::OnEachVectorTarget([](VectorTarget target) {
    // Each of the sums comes near to 0.001 / (1 - 0.999) = 1, whatever it begins with.
    float sum = 0;
    const double flop = profiler::MultiplyAdds(100'000, &sum);
    EXPECT_NEAR(sum, 10, 0.05);
    EXPECT_GE(flop, 2 * 10 * 100'000.0);
    float twice = 0;
    EXPECT_EQ(profiler::MultiplyAdds(200'000, &twice), 2 * flop) << VectorTargetName(target);
  });
}

TEST(MachineProbeTest, RatesAreMediansWithTheirSpread) {
  const profiler::ProbedRate rate = {{10, 12, 11, 8, 10}};
  EXPECT_EQ(rate.median(), 10);
  EXPECT_DOUBLE_EQ(rate.SpreadPercent(), 40);
  const profiler::MachineProbe probe = profiler::ProbeMachine(Small());
  EXPECT_EQ(probe.threads, 2U);
  EXPECT_GE(3 * probe.array_bytes, 4 * (256 << 10));
  ASSERT_EQ(probe.gb_per_s.runs.size(), 5U);
  ASSERT_EQ(probe.tflop_per_s.runs.size(), 5U);
  for (const double run : probe.gb_per_s.runs) EXPECT_GT(run, 0);
  for (const double run : probe.tflop_per_s.runs) EXPECT_GT(run, 0);
  EXPECT_FALSE(probe.disk_gb_per_s.has_value());
}

TEST(MachineProbeTest, TheDiskIsReadFromAFileThatIsRemoved) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "machine_probe";
  std::filesystem::create_directories(folder);
  profiler::ProbeOptions options = Small();
  options.folder = folder.string();
  const profiler::MachineProbe probe = profiler::ProbeMachine(options);
  ASSERT_TRUE(probe.disk_gb_per_s.has_value());
  EXPECT_EQ(probe.disk_gb_per_s->runs.size(), 5U);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
  EXPECT_THROW(profiler::ProbeMachine(options), InputError);
}

TEST(MachineProbeTest, TheClusterHasTheMediansAndIsReadBack) {
  profiler::MachineProbe probe;
  probe.threads = 8;
  probe.gb_per_s.runs = {40, 50, 45};
  probe.tflop_per_s.runs = {1, 2, 3};
  const Cluster cluster = profiler::ProbedCluster(probe, "attic", Bytes{std::int64_t{8} << 30}, "a test");
  std::stringstream file;
  WriteCluster(file, cluster);
  const Cluster read = ReadCluster(file, "c.yaml");
  ASSERT_EQ(read.num_devices(), 1U);
  const Device& device = read.devices()[0];
  EXPECT_TRUE(device.is_cpu);
  EXPECT_EQ(device.host, "attic");
  EXPECT_EQ(device.memory, Bytes{std::int64_t{8} << 30});
  const DeviceKind* const kind = read.FindKind(device.kind);
  ASSERT_NE(kind, nullptr);
  EXPECT_EQ(kind->memory_bandwidth.count, 45'000'000'000);
  EXPECT_DOUBLE_EQ(kind->peak.count, 2e12);
  EXPECT_TRUE(profiler::AvailableMemory().has_value());
}

}  // namespace machine_probe_test
}  // namespace emplace
