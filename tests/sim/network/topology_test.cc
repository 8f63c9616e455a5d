#include "sim/network/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/cluster.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Both directions.
void Join(std::uint32_t a, std::uint32_t b, double gb_per_s, double latency, std::vector<Topology::Link>* links) {
  links->push_back({a, b, gb_per_s, latency});
  links->push_back({b, a, gb_per_s, latency});
}

std::vector<std::uint32_t> VerticesOf(const Topology& topology, std::size_t from, std::size_t to) {
  std::vector<std::uint32_t> vertices;
  for (const std::uint32_t link : topology.Route(from, to)) {
    if (vertices.empty()) vertices.push_back(topology.links()[link].from);
    vertices.push_back(topology.links()[link].to);
  }
  return vertices;
}

// Devices 0 to 2 on switch 3; 0 and 1 also on switch 4, which is faster, and 0 and 2 on two more in a row.
Topology Small() {
  std::vector<Topology::Link> links;
  for (const std::uint32_t device : {0U, 1U, 2U}) Join(device, 3, 10, 1, &links);
  Join(0, 4, 50, 2, &links);
  Join(1, 4, 40, 2, &links);
  Join(0, 5, 90, 0, &links);
  Join(5, 6, 90, 0, &links);
  Join(6, 2, 90, 0, &links);
  return Topology(3, {"slow", "fast", "a", "b"}, links);
}

TEST(TopologyTest, OfTheShortestWaysTheWidestIsTaken) {
  const Topology topology = Small();
  EXPECT_THAT(VerticesOf(topology, 0, 1), ElementsAre(0, 4, 1));
  EXPECT_THAT(VerticesOf(topology, 1, 0), ElementsAre(1, 4, 0));
  EXPECT_THAT(VerticesOf(topology, 0, 2), ElementsAre(0, 3, 2));  // though the longer way is wider
  EXPECT_THAT(VerticesOf(topology, 1, 1), IsEmpty());
}

TEST(TopologyTest, NoWayLeadsThroughADeviceUnlessItIsGiven) {
  std::vector<Topology::Link> links;
  Join(0, 1, 10, 1, &links);
  Join(1, 2, 20, 1, &links);
  EXPECT_THAT(VerticesOf(Topology(3, {}, links), 0, 2), IsEmpty());
  const Topology given(3, {}, links, {{0, 1, 2}});
  EXPECT_THAT(VerticesOf(given, 0, 2), ElementsAre(0, 1, 2));
  EXPECT_THAT(VerticesOf(given, 2, 0), IsEmpty());
  EXPECT_EQ(ErrorOf([&] {
              Topology(3, {}, links, {{0, 1}, {0, 2}});
            }),
            "routes[1]: there is no link for its part 1 (links from each to the next)");
}

// Both ways from 0 to 1 have three links and carry 2; switch s3 is reached by the wider one.
TEST(TopologyTest, EachVertexIsReachedByTheWidestWay) {
  std::vector<Topology::Link> links;
  Join(0, 2, 2, 0, &links);
  Join(2, 4, 2, 0, &links);
  Join(0, 3, 10, 0, &links);
  Join(3, 4, 10, 0, &links);
  Join(4, 1, 2, 0, &links);
  EXPECT_THAT(VerticesOf(Topology(2, {"s1", "s2", "s3"}, links), 0, 1), ElementsAre(0, 3, 4, 1));
}

TEST(TopologyTest, RoutesThatTogetherAreTooLongAreRefused) {
  constexpr std::uint32_t kDevices = 700;
  constexpr std::uint32_t kSwitches = 1500;
  std::vector<Topology::Link> links;
  for (std::uint32_t device = 0; device < kDevices; ++device) {
    Join(device, device % 2 == 0 ? kDevices : kDevices + kSwitches - 1, 1, 0, &links);
  }
  for (std::uint32_t k = 0; k + 1 < kSwitches; ++k) Join(kDevices + k, kDevices + k + 1, 1, 0, &links);
  EXPECT_EQ(ErrorOf([&] { Topology(kDevices, std::vector<std::string>(kSwitches, "s"), links); }),
            "links: routes have more than 268435456 links in all (fewer devices, or fewer switches in a row)");
}

TEST(TopologyTest, OfSeveralLinksInParallelTheWidestIsTakenAndOfThoseTheFirst) {
  const Topology topology(2, {}, {{0, 1, 5, 0}, {0, 1, 9, 1}, {0, 1, 9, 2}, {1, 0, 5, 0}}, {{0, 1}});
  EXPECT_THAT(topology.Route(0, 1), ElementsAre(1));
  EXPECT_THAT(Topology(2, {}, topology.links()).Route(0, 1), ElementsAre(1));
  EXPECT_THAT(topology.Route(1, 0), ElementsAre(3));
  // Also after a narrower one.
  EXPECT_THAT(Topology(2, {"s"}, {{0, 2, 1, 0}, {2, 1, 2, 0}, {2, 1, 10, 0}}).Route(0, 1), ElementsAre(0, 2));
}

TEST(TopologyTest, KeptDevicesKeepTheirRoutesAndNothingElseStays) {
  const Topology topology = Small();
  const std::vector<std::string> names = {"x", "y", "z"};
  const std::vector<std::size_t> kept = {0, 1};
  const Topology two = topology.Keep(kept, names);
  EXPECT_EQ(two.num_devices(), 2U);
  EXPECT_THAT(two.switches(), ElementsAre("fast"));
  EXPECT_EQ(two.links().size(), 4U);
  EXPECT_THAT(VerticesOf(two, 0, 1), ElementsAre(0, 2, 1));
  // A device on the way of others becomes a switch.
  std::vector<Topology::Link> links;
  Join(0, 1, 10, 1, &links);
  Join(1, 2, 20, 1, &links);
  const Topology through(3, {}, links, {{0, 1, 2}, {2, 1, 0}});
  const std::vector<std::size_t> ends = {0, 2};
  const Topology ends_only = through.Keep(ends, names);
  EXPECT_THAT(ends_only.switches(), ElementsAre("y"));
  EXPECT_THAT(VerticesOf(ends_only, 0, 1), ElementsAre(0, 2, 1));
  EXPECT_EQ(ends_only.given().size(), 2U);
}

TEST(TopologyTest, ALinkOfAClusterHasTheNarrowestPartAndTheSumOfLatencies) {
  std::vector<Device> devices;
  for (const char* name : {"x", "y", "z"}) devices.push_back({.name = name, .kind = "k", .memory = {}});
  const Cluster cluster("", "", devices, Small(), Channels::kPerDevice);
  EXPECT_EQ(cluster.link(DeviceId{0}, DeviceId{1}), (Link{.bandwidth_gb_per_s = 40, .latency_micros = 4}));
  EXPECT_EQ(cluster.link(DeviceId{0}, DeviceId{2}), (Link{.bandwidth_gb_per_s = 10, .latency_micros = 2}));
  EXPECT_FALSE(cluster.topology().empty());
  const Cluster kept = cluster.Keep({"x", "y"});
  EXPECT_EQ(kept.link(DeviceId{1}, DeviceId{0}), (Link{.bandwidth_gb_per_s = 40, .latency_micros = 4}));
  EXPECT_THAT(kept.topology().switches(), ElementsAre("fast"));
  EXPECT_FALSE(cluster.WithoutMemoryLimits().topology().empty());
  EXPECT_TRUE(Cluster::Uniform("", devices, {}).topology().empty());
}

}  // namespace
}  // namespace emplace
