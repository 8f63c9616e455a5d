#include "sim/network/collective_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "sim/cost/curves.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace collective_times_test {

using ::emplace::testing::RowOfDevices;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::vector<DeviceId> Devices(std::size_t first, std::size_t count) {
  std::vector<DeviceId> devices;
  for (std::size_t i = 0; i < count; ++i) devices.push_back(MakeId<DeviceId>(first + i));
  return devices;
}

// 8 devices joined alike.
CollectiveTimes Alike(double gb_per_s, double latency, const CollectiveCosts& costs,
                      Channels channels = Channels::kPerPair) {
  const Link link{.bandwidth_gb_per_s = gb_per_s, .latency_micros = latency};
  return CollectiveTimes(Cluster::Uniform("alike", RowOfDevices(8), link, channels).WithCollectiveCosts(costs));
}

TEST(CollectiveTimesTest, ARingTakesItsRoundsAndItsBytes) {
  // 100 MB among 4 at 200 GB/s: 1.5 times 500 µs; 6 hops of 3.4 µs, 8.4 µs, a launch of 10, and 100 µs of memory.
  const CollectiveTimes times = Alike(200, 1, {.launch_micros = 10, .local_gb_per_s = 1000});
  const Bytes size{100'000'000};
  const auto ring = [&](CollectiveKind kind) {
    return times.Micros(kind, size, Devices(0, 4), CollectiveAlgorithm::kRing);
  };
  EXPECT_DOUBLE_EQ(ring(CollectiveKind::kAllReduce), 750 + 6 * 3.4 + 8.4 + 10 + 100);
  EXPECT_DOUBLE_EQ(ring(CollectiveKind::kReduceScatter), 375 + 3 * 3.4 + 8.4 + 10 + 100);
  EXPECT_DOUBLE_EQ(ring(CollectiveKind::kAllGather), 375 + 3 * 3.4 + 8.4 + 10 + 100);
  EXPECT_DOUBLE_EQ(ring(CollectiveKind::kBroadcast), 500 + 3 * 3.4 + 8.4 + 10 + 100);
  EXPECT_DOUBLE_EQ(times.FixedMicros(size), 8.4 + 10 + 100);
}

TEST(CollectiveTimesTest, EachMemberHasAnAcceleratorOfItsOwn) {
  std::vector<Device> devices = RowOfDevices(4);
  devices[1].is_cpu = true;
  const Cluster cluster = Cluster::Uniform("node", devices, {.bandwidth_gb_per_s = 10});
  const std::vector<OpId> members = {MakeId<OpId>(7), MakeId<OpId>(9)};
  Collective collective;
  collective.members = members;
  EXPECT_EQ(FirstDevicesFor(collective, cluster), (std::vector<DeviceId>{MakeId<DeviceId>(0), MakeId<DeviceId>(2)}));
}

TEST(CollectiveTimesTest, InANodeOfMeasuredDevicesACurveAnswersIfAsked) {
  const auto times = [](const std::string& kind, double gb_per_s, bool curves) {
    std::vector<Device> devices = RowOfDevices(8);
    for (Device& device : devices) device.kind = kind;
    const Link link{.bandwidth_gb_per_s = gb_per_s, .latency_micros = 1};
    return CollectiveTimes(Cluster::Uniform("node", devices, link), curves);
  };
  const auto of = [&](const CollectiveTimes& node, CollectiveKind kind) {
    return MicrosFromDuration(node.Of(kind, Bytes{kMiB}, Devices(0, 8)).duration);
  };
  const double curve = *CollectiveMicros("h100", 360, CollectiveKind::kAllReduce, 8, kMiB);
  EXPECT_NEAR(of(times("h100", 360, true), CollectiveKind::kAllReduce), curve, 1e-3);
  // H100s with NVSwitch reduce 1 MiB over 8 in about 30 us.
  EXPECT_GT(curve, 15);
  EXPECT_LT(curve, 60);
  const double ruled = of(times("h100", 360, false), CollectiveKind::kAllReduce);
  EXPECT_GT(std::abs(ruled / curve - 1), 0.01);
  EXPECT_EQ(of(times("h100", 50, true), CollectiveKind::kAllReduce),
            of(times("h100", 50, false), CollectiveKind::kAllReduce))
      << "these links are not NVLink";
  EXPECT_EQ(of(times("k80", 360, true), CollectiveKind::kAllReduce),
            of(times("k80", 360, false), CollectiveKind::kAllReduce));
  EXPECT_EQ(of(times("h100", 360, true), CollectiveKind::kBroadcast),
            of(times("h100", 360, false), CollectiveKind::kBroadcast));
}

TEST(CollectiveTimesTest, ExchangesGoDirectly) {
  const Bytes size{100'000'000};
  const auto direct = [&](const CollectiveTimes& times, CollectiveKind kind, std::size_t n) {
    return times.Micros(kind, size, Devices(0, n), CollectiveAlgorithm::kDirect);
  };
  const CollectiveCosts costs{.launch_micros = 10, .local_gb_per_s = 1000};
  const CollectiveTimes pairs = Alike(200, 1, costs);
  EXPECT_DOUBLE_EQ(direct(pairs, CollectiveKind::kSendReceive, 2), 500 + 3.4 + 8.4 + 110);
  EXPECT_DOUBLE_EQ(direct(pairs, CollectiveKind::kAllToAll, 4), 125 + 3.4 + 8.4 + 110);
  // By one channel for each device, its three parts follow one another.
  EXPECT_DOUBLE_EQ(direct(Alike(200, 1, costs, Channels::kPerDevice), CollectiveKind::kAllToAll, 4),
                   375 + 3.4 + 8.4 + 110);
}

TEST(CollectiveTimesTest, SmallMessagesTakeTheFastProtocolAndOneDeviceNoTime) {
  const CollectiveTimes times = Alike(200, 1, {.launch_micros = 0, .local_gb_per_s = 1e6});
  const auto micros = [&](std::int64_t bytes) {
    return times.Micros(CollectiveKind::kAllReduce, Bytes{bytes}, Devices(0, 2), CollectiveAlgorithm::kRing);
  };
  EXPECT_NEAR(micros(0), 3.6 + 2 * 0.47, 1e-9);
  EXPECT_NEAR(micros(20'000), 3.6 + 2 * 0.47 + 0.1 / 0.25, 1e-3);
  EXPECT_NEAR(micros(65536 * 2 + 1), 8.4 + 2 * 3.4 + 0.65536, 1e-3);
  EXPECT_EQ(times.Of(CollectiveKind::kAllReduce, Bytes{kMiB}, Devices(3, 1)).duration, Duration(0));
}

// Devices 0 to 3 and 4 to 7 are nodes, whose switches a trunk of 20 GB/s joins.
CollectiveTimes TwoNodes() {
  std::vector<Topology::Link> links;
  const auto join = [&](std::uint32_t a, std::uint32_t b, double gb_per_s, double latency) {
    links.push_back({a, b, gb_per_s, latency});
    links.push_back({b, a, gb_per_s, latency});
  };
  for (std::uint32_t d = 0; d < 8; ++d) join(d, 8 + d / 4, 200, 0.5);
  join(8, 9, 20, 5);
  const Cluster cluster("two", "", RowOfDevices(8), Topology(8, {"left", "right"}, links), Channels::kPerPair);
  return CollectiveTimes(cluster.WithCollectiveCosts({.launch_micros = 0, .local_gb_per_s = 1e6}));
}

TEST(CollectiveTimesTest, ANetworkIsTheSlowestPartAndIsShared) {
  const CollectiveTimes times = TwoNodes();
  const Bytes size{200'000'000};
  const double local = 0.2;
  // The ring passes the trunk once in each direction: 2 * 3/4 of the message at 20 GB/s.
  EXPECT_NEAR(times.Micros(CollectiveKind::kAllReduce, size, Devices(2, 4), CollectiveAlgorithm::kRing),
              1.5 * 10'000 + 8.4 + 2 * (3.4 + 9.6 + 3.4) + local, 1e-6);
  // An exchange between two and two passes it four times in each direction, with a quarter each.
  EXPECT_NEAR(times.Micros(CollectiveKind::kAllToAll, size, Devices(2, 4), CollectiveAlgorithm::kDirect),
              4 * 2500 + 8.4 + 9.6 + local, 1e-6);
}

TEST(CollectiveTimesTest, TheFasterAlgorithmIsTaken) {
  const CollectiveTimes times = Alike(200, 1, {.launch_micros = 0, .local_gb_per_s = 1e6});
  for (const std::int64_t bytes : {std::int64_t{1024}, kMiB, 1024 * kMiB}) {
    const auto time = times.Of(CollectiveKind::kAllReduce, Bytes{bytes}, Devices(0, 8));
    const auto micros = [&](CollectiveAlgorithm algorithm) {
      return times.Micros(CollectiveKind::kAllReduce, Bytes{bytes}, Devices(0, 8), algorithm);
    };
    const double ring = micros(CollectiveAlgorithm::kRing);
    const double tree = micros(CollectiveAlgorithm::kTree);
    EXPECT_EQ(time.duration, DurationFromMicros(std::min(ring, tree))) << bytes;
    EXPECT_EQ(Name(time.algorithm), ring <= tree ? "ring" : "tree") << bytes;
  }
}

}  // namespace collective_times_test
}  // namespace emplace
