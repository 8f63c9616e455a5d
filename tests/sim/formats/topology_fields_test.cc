#include "sim/formats/topology_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "sim/formats/cluster_yaml.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace topology_fields_test {

using ::emplace::testing::ErrorOf;
using ::testing::ElementsAre;

constexpr const char* kDevices = R"(schema: emplace.cluster
version: 1
name: "two nodes"
devices:
  - {name: "a", kind: "k"}
  - {name: "b", kind: "k"}
  - {name: "c", kind: "k"}
)";

Cluster Read(const std::string& topology) {
  std::istringstream in(kDevices + topology);
  return ReadCluster(in, "c.yaml");
}

std::string Error(const std::string& topology) {
  return ErrorOf([&] { Read("topology: " + topology + "\n"); });
}

constexpr const char* kSpelt = R"(topology:
  switches: ["s", "t"]
  links:
    - {between: ["a", "s"], bandwidth_gb_per_s: 20, latency_us: 1}
    - {between: ["b", "s"], bandwidth_gb_per_s: 20, latency_us: 1}
    - {from: "s", to: "t", bandwidth_gb_per_s: 5, latency_us: 0.5}
    - {from: "t", to: "s", bandwidth_gb_per_s: 6, latency_us: 0.5}
    - {between: ["t", "c"], bandwidth_gb_per_s: 30, latency_us: 0}
    - {between: ["a", "b"], bandwidth_gb_per_s: 1, latency_us: 0}
  routes:
    - ["a", "s", "b"]
)";

TEST(TopologyFieldsTest, LinksAreReadWithListsAtTheirEndsAndWrittenSpeltOut) {
  const Cluster cluster = Read(R"(topology:
  switches: [s, t]
  links:
    - {between: [[a, b], s], bandwidth_gb_per_s: 20, latency_us: 1}
    - {from: s, to: t, bandwidth_gb_per_s: 5, latency_us: 0.5}
    - {from: t, to: s, bandwidth_gb_per_s: 6, latency_us: 0.5}
    - {between: [t, c], bandwidth_gb_per_s: 30}
    - {between: [a, b], bandwidth_gb_per_s: 1}
  routes:
    - [a, s, b]
)");
  EXPECT_EQ(TopologyText(cluster), kSpelt);
  std::ostringstream out;
  WriteCluster(out, cluster);
  EXPECT_EQ(out.str(), std::string(kDevices) + kSpelt + "channels: device\n");
  std::ostringstream again;
  WriteCluster(again, Read(kSpelt));
  EXPECT_EQ(again.str(), out.str());
  EXPECT_EQ(cluster.link(DeviceId{0}, DeviceId{2}), (Link{.bandwidth_gb_per_s = 5, .latency_micros = 1.5}));
  EXPECT_EQ(cluster.link(DeviceId{2}, DeviceId{0}), (Link{.bandwidth_gb_per_s = 6, .latency_micros = 1.5}));
  EXPECT_EQ(cluster.link(DeviceId{0}, DeviceId{1}).bandwidth_gb_per_s, 20) << "the route that is given";
  EXPECT_EQ(cluster.link(DeviceId{1}, DeviceId{0}).bandwidth_gb_per_s, 1) << "the shortest";
}

TEST(TopologyFieldsTest, NamesThePlaceOfAFault) {
  const std::string one = "{between: [a, b], bandwidth_gb_per_s: 1}";
  EXPECT_EQ(Error("5"), "c.yaml: topology: is the number 5 (an object)");
  EXPECT_EQ(Error("{}"), "c.yaml: topology.links: is missing (a list of links)");
  EXPECT_EQ(Error("{links: [], nodes: []}"), "c.yaml: topology.nodes: unknown key (switches, links, routes)");
  EXPECT_EQ(Error("{switches: [a], links: []}"),
            "c.yaml: topology.switches[0]: is the text \"a\" (a name that no device and no other switch has)");
  EXPECT_EQ(Error("{links: [{between: [a, x], bandwidth_gb_per_s: 1}]}"),
            "c.yaml: topology.links[0].between[1]: is the text \"x\" (the name of a device or a switch of this "
            "cluster)");
  EXPECT_EQ(Error("{links: [{between: [a, [b, a]], bandwidth_gb_per_s: 1}]}"),
            "c.yaml: topology.links[0]: joins a device or a switch to itself (two of them)");
  EXPECT_EQ(Error("{links: [{between: [a, b]}]}"),
            "c.yaml: topology.links[0].bandwidth_gb_per_s: is missing (a number above 0, at most 1e+09)");
  EXPECT_EQ(Error("{links: [{bandwidth_gb_per_s: 1}]}"),
            "c.yaml: topology.links[0].between: is missing (between, or from and to)");
  EXPECT_EQ(Error("{links: [{from: a, bandwidth_gb_per_s: 1}]}"),
            "c.yaml: topology.links[0].to: is missing (a name, or a list of names)");
  EXPECT_EQ(Error("{links: [{between: [a, b], to: a, bandwidth_gb_per_s: 1}]}"),
            "c.yaml: topology.links[0]: has both between and from or to (between: both directions; from and to: one)");
  EXPECT_EQ(Error("{links: [{between: [a], bandwidth_gb_per_s: 1}]}"),
            "c.yaml: topology.links[0].between: is a list of 1 element (a list of two: each a name, or a list of "
            "names)");
  EXPECT_EQ(Error("{links: [" + one + "], routes: [[a]]}"),
            "c.yaml: topology.routes[0]: is a list of 1 element (a list of names, from one device to another)");
  EXPECT_EQ(Error("{switches: [s], links: [" + one + "], routes: [[a, s]]}"),
            "c.yaml: topology.routes[0][1]: is the text \"s\" (the name of a device: a route begins and ends at one)");
  EXPECT_EQ(Error("{links: [" + one + "], routes: [[a, b, a]]}"),
            "c.yaml: topology.routes[0][2]: is the text \"a\" (a name that the route does not have already)");
  EXPECT_EQ(Error("{links: [" + one + "], routes: [[a, b, c]]}"),
            "c.yaml: topology.routes[0]: there is no link for its part 2 (links from each to the next)");
  EXPECT_EQ(ErrorOf([] { Read("link: {bandwidth_gb_per_s: 1}\ntopology: {links: []}\n"); }),
            "c.yaml: topology: is beside link or links (topology: links are what its routes give)");
}

}  // namespace topology_fields_test
}  // namespace emplace
