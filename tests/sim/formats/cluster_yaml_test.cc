#include "sim/formats/cluster_yaml.h"

#include <gmock/gmock.h>

#include <sstream>
#include <string>

#include "sim/base/json_text.h"
#include "sim/base/rng.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace cluster_yaml_test {

using ::emplace::testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Cluster Read(const std::string& text) {
  std::istringstream in(text);
  return ReadCluster(in, "c.yaml");
}

std::string Written(const Cluster& cluster) {
  std::ostringstream out;
  WriteCluster(out, cluster);
  return out.str();
}

// A YAML document as compact JSON.
std::string AsJson(const std::string& yaml) {
  std::istringstream in(yaml);
  std::string out;
  AppendJson(&out, ParseYaml(in));
  return out;
}

TEST(ClusterYamlTest, CharactersOfCommentsAreCheckedToo) {
  const auto error = [](const std::string& text) {
    std::istringstream in(text);
    return ErrorOf([&] { ReadYamlText(in, InputKind::kExperiment); });
  };
  EXPECT_EQ(error("# caf\xc3\xa9\na: 1\n"), "(no error)");
  EXPECT_EQ(error("a: 1\n# M\xff\n"), "line 2, column 4: the text is not valid UTF-8");
  EXPECT_EQ(error("# \xed\xa0\x80\n"), "line 1, column 3: the text is not valid UTF-8");
  EXPECT_EQ(error(std::string((std::size_t{4} << 20) + 1, ' ')),
            "is longer than 4194304 bytes (a file that people write)");
}

std::string YamlError(const std::string& yaml) {
  return ErrorOf([&] { AsJson(yaml); });
}

constexpr const char* kExample = R"(# a comment
schema: emplace.cluster
version: 1
name: p2.8xlarge
source: >-
  where each number
  comes from
devices:
  - {name: "cpu:0", kind: xeon-e5-2686v4, memory_gib: 488}
  - {name: gpu:0, kind: k80, memory_gib: 11.17, count: 3}   # becomes gpu:0 .. gpu:2
op_gap_us: 5.7
link: {bandwidth_gb_per_s: 7.6, latency_us: 0, gap_us: 25}
links:
  - {between: ["gpu:0", "gpu:1"], bandwidth_gb_per_s: 12.0, latency_us: 4, gap_us: 0}
  - {from: "cpu:0", to: "gpu:0", bandwidth_gb_per_s: 6.0}
channels: device
)";

TEST(ClusterYamlTest, ReadsTheExampleAndWritesItSpeltOut) {
  EXPECT_EQ(Written(Read(kExample)), R"(schema: emplace.cluster
version: 1
name: "p2.8xlarge"
source: "where each number comes from"
devices:
  - {name: "cpu:0", kind: "xeon-e5-2686v4", memory_gib: 488}
  - {name: "gpu:0", kind: "k80", memory_gib: 11.17}
  - {name: "gpu:1", kind: "k80", memory_gib: 11.17}
  - {name: "gpu:2", kind: "k80", memory_gib: 11.17}
op_gap_us: 5.7
link: {bandwidth_gb_per_s: 7.6, latency_us: 0, gap_us: 25}
links:
  - {from: "cpu:0", to: "gpu:0", bandwidth_gb_per_s: 6, latency_us: 0, gap_us: 25}
  - {between: ["gpu:0", "gpu:1"], bandwidth_gb_per_s: 12, latency_us: 4, gap_us: 0}
channels: device
)");
}

TEST(ClusterYamlTest, ALinkMayHaveAKneeAndAnExceptionNone) {
  const std::string text = R"(schema: emplace.cluster
version: 1
name: "knees"
devices:
  - {name: "a", kind: "k"}
  - {name: "b", kind: "k"}
  - {name: "c", kind: "k"}
link: {bandwidth_gb_per_s: 4, latency_us: 1, gap_us: 0, knee_bytes: 4096, beyond_gb_per_s: 8}
links:
  - {between: ["a", "c"], bandwidth_gb_per_s: 4, latency_us: 1, gap_us: 0, knee_bytes: 0, beyond_gb_per_s: 0}
channels: device
)";
  const Cluster cluster = Read(text);
  EXPECT_EQ(cluster.link(DeviceId{0}, DeviceId{1}).knee, Bytes{4096});
  EXPECT_EQ(cluster.link(DeviceId{0}, DeviceId{1}).beyond_gb_per_s, 8);
  EXPECT_EQ(cluster.link(DeviceId{0}, DeviceId{2}).knee, Bytes{0});
  EXPECT_EQ(Written(cluster), text);
}

TEST(ClusterYamlTest, ANetworkJoinsCopies) {
  const std::string head =
      "schema: emplace.cluster\nversion: 1\nname: lab\ndevices:\n"
      "  - {name: \"gpu:0\", kind: k80, count: 2}\n  - {name: host, kind: cpu-core}\n";
  const std::string links = head + "link: {bandwidth_gb_per_s: 8}\n";
  const Cluster lab = Read(links + "network: {bandwidth_gb_per_s: 1.25, latency_us: 30, gap_us: 2}\n");
  EXPECT_EQ(Written(Read(Written(lab))), Written(lab));
  const Cluster two = lab.Repeat(2);
  std::vector<std::string> names;
  for (const Device& device : two.devices()) names.push_back(device.name);
  EXPECT_THAT(names, ::testing::ElementsAre("gpu:0", "gpu:1", "gpu:2", "gpu:3", "host", "node1/host"));
  EXPECT_EQ(two.link(DeviceId{0}, DeviceId{1}).bandwidth_gb_per_s, 8);
  EXPECT_EQ(two.link(DeviceId{2}, DeviceId{5}).bandwidth_gb_per_s, 8);
  const Link between = {.bandwidth_gb_per_s = 1.25, .latency_micros = 30, .gap_micros = 2};
  EXPECT_EQ(two.link(DeviceId{1}, DeviceId{2}), between);
  EXPECT_EQ(two.link(DeviceId{4}, DeviceId{5}), between);
  EXPECT_FALSE(two.network().has_value());
  EXPECT_EQ(ErrorOf([&] { Read(links).Repeat(2); }),
            "cluster lab names no network that joins nodes (network: in its file)");
  EXPECT_EQ(ErrorOf([&] { lab.Repeat(0); }), "is 0 (at least 1)");
  EXPECT_EQ(ErrorOf([&] { lab.Repeat(400); }), "400 nodes have 1200 devices (at most 1024)");
  EXPECT_EQ(ErrorOf([&] { Read(links + "network: {latency_us: 1}\n"); }),
            "c.yaml: network.bandwidth_gb_per_s: is missing (a number above 0, at most 1e+09)");

  const std::string topology = head +
                               "topology:\n  switches: [bus]\n  links:\n"
                               "    - {between: [[\"gpu:0\", \"gpu:1\", host], bus], bandwidth_gb_per_s: 12}\n";
  const Cluster routed = Read(topology + "network:\n  - {at: [bus], bandwidth_gb_per_s: 3, latency_us: 5}\n");
  EXPECT_EQ(Written(Read(Written(routed))), Written(routed));
  EXPECT_EQ(routed.Repeat(2).link(DeviceId{1}, DeviceId{2}), (Link{.bandwidth_gb_per_s = 3, .latency_micros = 10}));
  EXPECT_EQ(ErrorOf([&] { Read(topology + "network: {bandwidth_gb_per_s: 3}\n"); }),
            "c.yaml: network: is an object (a list of ports, since the cluster has a topology)");
  EXPECT_EQ(ErrorOf([&] { Read(topology + "network:\n  - {at: nic, bandwidth_gb_per_s: 3}\n"); }),
            "c.yaml: network[0].at: is the text \"nic\" (the name of a device or a switch of this cluster)");
}

TEST(ClusterYamlTest, JsonIsTakenTooTabsAndAll) {
  EXPECT_EQ(Read("{\n\t\"schema\": \"emplace.cluster\",\n\t\"version\": 1,\n\t\"devices\": [{\"name\": \"a\", "
                 "\"kind\": \"k\"}]}")
                .num_devices(),
            1U);
  EXPECT_EQ(Read("{schema: emplace.cluster, version: 1, devices: [{name: a, kind: k}]}").num_devices(), 1U)
      << "braces of YAML's own";
}

TEST(ClusterYamlTest, WhatWasWrittenIsWrittenAgain) {
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    const auto n = static_cast<std::size_t>(rng.Between(1, 4));
    std::vector<Device> devices;
    for (std::size_t i = 0; i < n; ++i) {
      devices.push_back({.name = "dev \"" + std::to_string(i) + "\"\n: é",
                         .kind = "mine",
                         .memory = std::nullopt,
                         .op_gap_micros = 0,
                         .is_cpu = true});
      if (rng.Below(2) == 0) devices.back().memory = BytesFromGib(rng.Uniform() * 100);
      if (rng.Below(2) == 0) devices.back().op_gap_micros = rng.Uniform();
      devices.back().copy_engine = rng.Below(2) == 0;
      if (rng.Below(2) == 0) devices.back().host = "host: 1";
    }
    if (rng.Below(2) == 0) {
      for (Device& device : devices) {
        device.issue = {.lane = rng.Below(2) == 0 ? "" : "host: 0",
                        .host_micros = rng.Uniform(),
                        .launch_latency_micros = rng.Uniform(),
                        .max_queued = rng.Between(0, 3)};
      }
    }
    const bool may_lack_links = rng.Below(2) == 0;
    std::vector<Link> links(n * n);
    for (Link& link : links) {
      if (may_lack_links && rng.Below(4) == 0) continue;
      const auto pick = static_cast<double>(rng.Between(1, 3));
      link = {.bandwidth_gb_per_s = pick / 7, .latency_micros = pick / 3, .gap_micros = 0};
    }
    DeviceKind kind{.name = "mine",
                    .summary = "",
                    .source = "# no: comment",
                    .is_cpu = true,
                    .peak = {rng.Uniform() * 1e14},
                    .memory_bandwidth = RateFromGbPerS(rng.Uniform() * 1e3),
                    .launch_micros = rng.Uniform(),
                    .time_scale = rng.Uniform() + 0.5,
                    .memory = std::nullopt,
                    .compute_efficiency = {},
                    .bandwidth_efficiency = {}};
    kind.compute_efficiency.fill(0.5);
    kind.bandwidth_efficiency.fill(1.0 / 3);
    const Cluster cluster("c", "", devices, links, Channels::kPerPair, {{"mine", kind}});
    const std::string text = Written(cluster);
    const Cluster again = Read(text);
    EXPECT_EQ(Written(again), text);
    EXPECT_EQ(again.channels(), Channels::kPerPair);
    const DeviceKind& kind_again = again.own_kinds().at("mine");
    EXPECT_NEAR(kind_again.peak.count, kind.peak.count, 1e-15 * kind.peak.count);
    EXPECT_EQ(kind_again.memory_bandwidth, kind.memory_bandwidth);
    EXPECT_EQ(kind_again.time_scale, kind.time_scale);
    EXPECT_EQ(kind_again.bandwidth_efficiency[1], 1.0 / 3);
    EXPECT_EQ(kind_again.source, kind.source);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(again.devices()[i].name, devices[i].name);
      EXPECT_EQ(again.devices()[i].memory, devices[i].memory);
      EXPECT_EQ(again.devices()[i].op_gap_micros, devices[i].op_gap_micros);
      EXPECT_EQ(again.devices()[i].copy_engine, devices[i].copy_engine);
      EXPECT_EQ(again.devices()[i].issue, devices[i].issue);
      EXPECT_EQ(again.devices()[i].host, devices[i].host);
      for (std::size_t k = 0; k < n; ++k) {
        if (i == k) continue;
        EXPECT_EQ(again.link(MakeId<DeviceId>(i), MakeId<DeviceId>(k)), links[i * n + k]);
      }
    }
  }
}

TEST(ClusterYamlTest, ErrorsStartWithTheFile) {
  EXPECT_EQ(ErrorOf([] { Read("schema: emplace.cluster\nversion: 1\ndevices: [{name: a}]"); }),
            "c.yaml: devices[0].kind: is missing (a device kind)");
  EXPECT_EQ(ErrorOf([] { Read("schema: emplace.cluster\nversion: 1\nname: a\nname: b"); }),
            "c.yaml: name: duplicate key (each key once)");
  EXPECT_EQ(
      ErrorOf([] { Read("{\"schema\": \"emplace.cluster\", \"version\": 1, \"name\": \"a\", \"name\": \"b\"}"); }),
      "c.yaml: name: duplicate key (each key once)");
  EXPECT_EQ(ErrorOf([] { Read(""); }), "c.yaml: the file is empty (a YAML document)");
  EXPECT_EQ(ErrorOf([] { Read("hello"); }), "c.yaml: is the text \"hello\" (an object of schema \"emplace.cluster\")");
  EXPECT_EQ(
      ErrorOf([] {
        Read("schema: emplace.cluster\nversion: 1\nlink: {bandwidth_gb_per_s: .inf}\ndevices: [{name: a, kind: k}]");
      }),
      "c.yaml: link.bandwidth_gb_per_s: is the text \".inf\" (a number above 0, at most 1e+09)");
}

TEST(ClusterYamlTest, EveryTruncationIsRefusedOrAWholeFile) {
  // A YAML file that is cut between two lines may still be valid; every cut is read or refused with InputError.
  const std::string text = kExample;
  int refused = 0;
  for (std::size_t length = 0; length < text.size(); ++length) {
    if (ErrorOf([&] { Read(text.substr(0, length)); }) != "(no error)") ++refused;
  }
  EXPECT_GT(refused, 250);  // at least all cuts before the end of the list of devices
}

TEST(ParseYamlTest, PlainScalarsHaveTheCoreTypes) {
  EXPECT_EQ(AsJson("[1, -2, +3, 2.5, 1e3, .5, 5., true, False, null, ~, , x]"),
            R"([1,-2,3,2.5,1000,0.5,5,true,false,null,null,null,"x"])");
  EXPECT_EQ(AsJson("['1', \"true\", 'null', 0x10, 1_000, yes, 1.2.3, --1, +-1, -, 1e999, .inf, .nan, ., e5]"),
            R"(["1","true","null","0x10","1_000","yes","1.2.3","--1","+-1","-","1e999",".inf",".nan",".","e5"])");
  EXPECT_EQ(AsJson("a: |\n  block\n  text\nb: >\n  folded\n  text\n1: {c: [], d: {}}"),
            R"({"a":"block\ntext\n","b":"folded text\n","1":{"c":[],"d":{}}})");
}

TEST(ParseYamlTest, AnchorsAliasesAndTagsAreRefused) {
  const std::string allowed = " is not read (plain YAML without anchors, aliases and tags)";
  EXPECT_EQ(YamlError("a: &x 1\nb: *x"), "line 1, column 4: an anchor" + allowed);
  EXPECT_THAT(YamlError("a: 1\nb: *x"), StartsWith("line 2, column 4: "));
  EXPECT_EQ(YamlError("a: !!str 1"), "line 1, column 4: a tag" + allowed);
  EXPECT_EQ(YamlError("a: !mine [1]"), "line 1, column 4: a tag" + allowed);
}

TEST(ParseYamlTest, RefusesWhatIsNoPlainDocument) {
  EXPECT_THAT(YamlError("a: [1"), StartsWith("line "));
  EXPECT_THAT(YamlError("a: [1"), HasSubstr("not valid YAML: "));
  EXPECT_THAT(YamlError("a: b: c"), HasSubstr("not valid YAML: "));
  EXPECT_THAT(YamlError("{\"a\": 1, "), HasSubstr("not valid JSON: ")) << "a JSON file that was cut";
  EXPECT_THAT(YamlError("{a: b: c}"), HasSubstr("not valid YAML: "));
  EXPECT_EQ(YamlError("a: 1\n---\nb: 2"), "holds more than one YAML document (one)");
  // yaml-cpp ends the text at the byte 4.
  const std::string control = ": not valid YAML: a control character (of them only tabs and ends of lines)";
  EXPECT_EQ(YamlError("a: 1\n\x04 b"), "line 2, column 1" + control);
  EXPECT_EQ(YamlError(std::string("a: 1\n\0", 6)), "line 2, column 1" + control);
  EXPECT_EQ(YamlError(std::string("{\"a\": 1}\0x", 10)), "line 1, column 9" + control);
  EXPECT_EQ(YamlError("[a]: 1"), "line 1, column 1: the key is a list or an object (a word)");
  EXPECT_EQ(YamlError("~: 1"), "line 1, column 1: the key is empty (a word)");
  EXPECT_EQ(YamlError("a: \"\xff\""), "line 1, column 5: the text is not valid UTF-8");
  EXPECT_EQ(YamlError("a: {b: 1, b: 2}"), "a.b: duplicate key (each key once)");
  EXPECT_EQ(YamlError(std::string(5'000'000, ' ')), "is longer than 4194304 bytes (a file that people write)");
}

TEST(ParseYamlTest, DeepNestingIsRefusedAndNotFollowed) {
  const std::string error = "is nested too deeply (at most 64 levels)";
  EXPECT_THAT(YamlError(std::string(100, '[') + std::string(100, ']')), HasSubstr(error));
  std::string block;
  for (int i = 0; i < 100; ++i) block += "- ";
  EXPECT_THAT(YamlError(block + "1"), HasSubstr(error));
  // At a much greater depth, yaml-cpp fails with its own message.
  for (const std::string begin : {"[", "{a: ", "- ", "? "}) {
    std::string deep;
    for (int i = 0; i < 20'000; ++i) deep += begin;
    EXPECT_NE(YamlError(deep), "(no error)") << begin;
  }
}

}  // namespace cluster_yaml_test
}  // namespace emplace
