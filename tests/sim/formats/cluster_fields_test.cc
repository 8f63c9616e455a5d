#include "sim/formats/cluster_fields.h"

#include <gmock/gmock.h>

#include <sstream>
#include <string>
#include <vector>

#include "sim/base/json_text.h"
#include "sim/formats/cluster_yaml.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;
using ::emplace::testing::Replaced;
using ::testing::ElementsAre;

Cluster Read(const std::string& json) { return ClusterFromFields(ParseJson(json)); }

// A cluster with these fields after schema and version.
Cluster With(const std::string& fields) {
  return Read(R"({"schema": "emplace.cluster", "version": 1, )" + fields + "}");
}

std::string ErrorWith(const std::string& fields) {
  return ErrorOf([&] { With(fields); });
}

std::vector<std::string> DeviceNames(const Cluster& cluster) {
  std::vector<std::string> names;
  for (const Device& device : cluster.devices()) names.push_back(device.name);
  return names;
}

const Link& LinkOf(const Cluster& cluster, std::string_view from, std::string_view to) {
  return cluster.link(*cluster.FindDevice(from), *cluster.FindDevice(to));
}

constexpr const char* kTwo = R"("devices": [{"name": "a", "kind": "k"}, {"name": "b", "kind": "k"}])";

TEST(ClusterFieldsTest, ReadsTheExample) {
  const Cluster cluster = Read(R"({"schema": "emplace.cluster", "version": 1, "name": "p2.8xlarge", "source": "s",
      "devices": [{"name": "cpu:0", "kind": "xeon-e5-2686v4", "memory_gib": 488},
                  {"name": "gpu:0", "kind": "k80", "memory_gib": 11.17, "count": 8}],
      "op_gap_us": 5.7, "link": {"bandwidth_gb_per_s": 7.6, "latency_us": 0, "gap_us": 25},
      "links": [{"between": ["gpu:0", "gpu:1"], "bandwidth_gb_per_s": 12.0, "latency_us": 4, "gap_us": 0},
                {"from": "cpu:0", "to": "gpu:0", "bandwidth_gb_per_s": 6.0}], "channels": "device"})");
  EXPECT_EQ(cluster.name(), "p2.8xlarge");
  EXPECT_EQ(cluster.source(), "s");
  EXPECT_THAT(DeviceNames(cluster),
              ElementsAre("cpu:0", "gpu:0", "gpu:1", "gpu:2", "gpu:3", "gpu:4", "gpu:5", "gpu:6", "gpu:7"));
  EXPECT_TRUE(cluster.devices()[0].is_cpu);
  EXPECT_FALSE(cluster.devices()[8].is_cpu);
  EXPECT_EQ(cluster.devices()[0].memory, Bytes{488LL << 30});
  EXPECT_EQ(cluster.devices()[8].memory, Bytes{11993696174});  // 11.17 * 2^30 = 11993696174.08
  EXPECT_EQ(cluster.devices()[3].op_gap_micros, 5.7);
  EXPECT_EQ(cluster.channels(), Channels::kPerDevice);
  const Link fallback{.bandwidth_gb_per_s = 7.6, .latency_micros = 0, .gap_micros = 25};
  const Link fast{.bandwidth_gb_per_s = 12, .latency_micros = 4, .gap_micros = 0};
  const Link slow{.bandwidth_gb_per_s = 6, .latency_micros = 0, .gap_micros = 25};  // the rest are the default's values
  EXPECT_EQ(LinkOf(cluster, "gpu:0", "gpu:1"), fast);
  EXPECT_EQ(LinkOf(cluster, "gpu:1", "gpu:0"), fast);
  EXPECT_EQ(LinkOf(cluster, "cpu:0", "gpu:0"), slow);
  EXPECT_EQ(LinkOf(cluster, "gpu:0", "cpu:0"), fallback);
  EXPECT_EQ(LinkOf(cluster, "gpu:2", "gpu:7"), fallback);
}

TEST(ClusterFieldsTest, AbsentFieldsHaveTheirDefaults) {
  const Cluster cluster = With(R"("devices": [{"name": "/device:GPU:10", "kind": "k80"}])");
  EXPECT_EQ(cluster.name(), "");
  EXPECT_EQ(cluster.devices()[0].name, "/device:GPU:10");
  EXPECT_FALSE(cluster.devices()[0].memory.has_value()) << "no limit, whatever memory the kind has";
  EXPECT_EQ(cluster.devices()[0].op_gap_micros, 0);
  EXPECT_EQ(cluster.channels(), Channels::kPerDevice);
}

TEST(ClusterFieldsTest, ADeviceMayHaveItsOwnGap) {
  const Cluster cluster = With(
      R"("op_gap_us": 3, "devices": [{"name": "a", "kind": "k", "op_gap_us": 0}, {"name": "b:7", "kind": "k", "count": 2}])");
  EXPECT_THAT(DeviceNames(cluster), ElementsAre("a", "b:7", "b:8"));
  EXPECT_EQ(cluster.devices()[0].op_gap_micros, 0);
  EXPECT_EQ(cluster.devices()[2].op_gap_micros, 3);
}

TEST(ClusterFieldsTest, OfSeveralLinksForAPairTheLastCountsWhole) {
  const Cluster cluster = With(std::string(kTwo) + R"(, "link": {"bandwidth_gb_per_s": 1, "latency_us": 2, "gap_us": 3},
      "links": [{"from": "a", "to": "b", "bandwidth_gb_per_s": 9, "latency_us": 8, "gap_us": 7},
                {"between": ["b", "a"], "gap_us": 5}])");
  // The second has the default's bandwidth and latency, not those of the first.
  const Link last{.bandwidth_gb_per_s = 1, .latency_micros = 2, .gap_micros = 5};
  EXPECT_EQ(LinkOf(cluster, "a", "b"), last);
  EXPECT_EQ(LinkOf(cluster, "b", "a"), last);
}

TEST(ClusterFieldsTest, NoBandwidthIsNoLink) {
  const Cluster none = With(kTwo);
  EXPECT_FALSE(LinkOf(none, "a", "b").exists());
  const Cluster some = With(std::string(kTwo) + R"(, "link": {"latency_us": 2},
      "links": [{"from": "a", "to": "b", "bandwidth_gb_per_s": 9}, {"from": "b", "to": "a", "gap_us": 1}], "channels": "pair")");
  EXPECT_EQ(LinkOf(some, "a", "b"), (Link{.bandwidth_gb_per_s = 9, .latency_micros = 2, .gap_micros = 0}));
  EXPECT_FALSE(LinkOf(some, "b", "a").exists());
  EXPECT_EQ(some.channels(), Channels::kPerPair);
}

TEST(ClusterFieldsTest, AKindMayBeWrittenOut) {
  const Cluster cluster = With(R"("devices": [{"name": "x", "kind": "mine"}, {"name": "y", "kind": "k80"}], "kinds": [
      {"name": "mine", "class": "cpu", "peak_tflop_per_s": 1.5, "memory_bandwidth_gb_per_s": 20},
      {"name": "k80", "class": "cpu", "summary": "not that one", "source": "me", "peak_tflop_per_s": 10,
       "memory_bandwidth_gb_per_s": 500.5, "launch_us": 4, "time_scale": 1.5, "memory_gib": 16,
       "compute_efficiency": {"convolution": 0.25}, "bandwidth_efficiency": {"gather": 1}}])");
  EXPECT_TRUE(cluster.devices()[0].is_cpu);
  EXPECT_TRUE(cluster.devices()[1].is_cpu) << "the file's own kind counts before the catalogue's";
  const DeviceKind& mine = *cluster.FindKind("mine");
  EXPECT_EQ(mine.peak.count, 1.5e12);
  EXPECT_EQ(mine.memory_bandwidth.count, 20'000'000'000);
  EXPECT_EQ(mine.launch_micros, 0);
  EXPECT_FALSE(mine.memory.has_value());
  const DeviceKind& other = *cluster.FindKind("k80");
  EXPECT_EQ(other.summary, "not that one");
  EXPECT_EQ(other.source, "me");
  EXPECT_EQ(other.launch_micros, 4);
  EXPECT_EQ(other.time_scale, 1.5);
  EXPECT_EQ(other.memory, Bytes{16LL << 30});
  const auto convolution = static_cast<std::size_t>(OpClass::kConvolution);
  const auto gather = static_cast<std::size_t>(OpClass::kGather);
  EXPECT_EQ(other.compute_efficiency[convolution], 0.25);
  EXPECT_EQ(other.bandwidth_efficiency[gather], 1);
  EXPECT_EQ(other.bandwidth_efficiency[convolution], mine.bandwidth_efficiency[convolution]) << "the generic row";
  for (std::size_t i = 0; i < kNumOpClasses; ++i) EXPECT_GT(mine.compute_efficiency[i], 0);
}

TEST(ClusterFieldsTest, AKindMayHaveRatesByPrecision) {
  const Cluster cluster = With(R"("devices": [{"name": "x", "kind": "mine"}], "kinds": [
      {"name": "mine", "class": "accelerator", "peak_tflop_per_s": 20, "memory_bandwidth_gb_per_s": 500,
       "compute_efficiency": {"attention": 0.25, "convolution": 0.5},
       "precisions": {"bf16": {"peak_tflop_per_s": 80, "compute_efficiency": {"attention": 0.125}},
                      "i8": {"peak_tflop_per_s": 320}}}])");
  const DeviceKind& mine = *cluster.FindKind("mine");
  const PrecisionRate half = RateOf(mine, Precision::kBf16);
  EXPECT_EQ(half.peak.count, 80e12);
  EXPECT_EQ(half.efficiency[static_cast<std::size_t>(OpClass::kAttention)], 0.125);
  EXPECT_EQ(half.efficiency[static_cast<std::size_t>(OpClass::kConvolution)], 0.5) << "that of the kind";
  EXPECT_EQ(RateOf(mine, Precision::kF16).peak.count, 20e12) << "no rate of its own";
  EXPECT_EQ(RateOf(mine, Precision::kI8).peak.count, 320e12);
  std::ostringstream written;
  WriteCluster(written, cluster);
  std::istringstream in(written.str());
  const Cluster again = ReadCluster(in, "again");
  EXPECT_EQ(RateOf(*again.FindKind("mine"), Precision::kBf16).peak.count, 80e12);
  EXPECT_EQ(RateOf(*again.FindKind("mine"), Precision::kBf16).efficiency, half.efficiency);
}

TEST(ClusterFieldsTest, TheMemoryOfAKindIsThatOfItsDevices) {
  const Cluster cluster = With(R"("devices": [{"name": "x", "kind": "mine"},
      {"name": "y", "kind": "mine", "memory_gib": 2}, {"name": "z", "kind": "k80"}], "kinds": [{"name": "mine",
      "class": "accelerator", "peak_tflop_per_s": 20, "memory_bandwidth_gb_per_s": 500, "memory_gib": 16}])");
  EXPECT_EQ(cluster.devices()[0].memory, Bytes{16LL << 30});
  EXPECT_EQ(cluster.devices()[1].memory, Bytes{2LL << 30});
  EXPECT_EQ(cluster.devices()[2].memory, std::nullopt) << "the catalogue's memory limits nothing";
  EXPECT_EQ(cluster.WithoutMemoryLimits().FindKind("mine")->memory, std::nullopt);
}

TEST(ClusterFieldsTest, AnUnknownKindIsACpuIfItLooksLikeOne) {
  const Cluster cluster =
      With(R"("devices": [{"name": "cpu:0", "kind": "mystery"}, {"name": "x", "kind": "mystery"}])");
  EXPECT_TRUE(cluster.devices()[0].is_cpu);
  EXPECT_FALSE(cluster.devices()[1].is_cpu);
}

struct BrokenCluster {
  std::string fields;
  std::string error;
};

TEST(ClusterFieldsTest, NamesThePlaceOfAFaultInTheDevices) {
  const std::vector<BrokenCluster> cases = {
      {R"("name": "c")", "devices: is missing (a list of at least one device)"},
      {R"("devices": [])", "devices: is a list of 0 elements (a list of at least one device)"},
      {R"("devices": {})", "devices: is an object (a list of at least one device)"},
      {R"("devices": ["gpu:0"])", "devices[0]: is the text \"gpu:0\" (an object)"},
      {R"("devices": [{"kind": "k"}])", "devices[0].name: is missing (a string)"},
      {R"("devices": [{"name": "", "kind": "k"}])", "devices[0].name: is the text \"\" (a string that is not empty)"},
      {R"("devices": [{"name": 1, "kind": "k"}])", "devices[0].name: is the number 1 (a string that is not empty)"},
      {R"("devices": [{"name": "a"}])", "devices[0].kind: is missing (a device kind)"},
      {R"("devices": [{"name": "a", "kind": null}])", "devices[0].kind: is null (a string that is not empty)"},
      {R"("devices": [{"name": "a", "kind": "k", "memory": 1}])",
       "devices[0].memory: unknown key (name, kind, memory_gib, count, op_gap_us, copy_engine, issue, host); did you "
       "mean "
       "memory_gib?"},
      {R"("devices": [{"name": "a", "kind": "k", "copy_engine": 1}])",
       "devices[0].copy_engine: is the number 1 (true or false)"},
      {R"("devices": [{"name": "a", "kind": "k", "issue": true}])", "devices[0].issue: is true (an object)"},
      {R"("devices": [{"name": "a", "kind": "k", "issue": {"latency": 1}}])",
       "devices[0].issue.latency: unknown key (lane, host_us, launch_latency_us, max_queued)"},
      {R"("devices": [{"name": "a", "kind": "k", "issue": {"lane": ""}}])",
       "devices[0].issue.lane: is the text \"\" (a string that is not empty)"},
      {R"("devices": [{"name": "a", "kind": "k", "issue": {"host_us": -1}}])",
       "devices[0].issue.host_us: is the number -1 (a number from 0 to 1e+12)"},
      {R"("devices": [{"name": "a", "kind": "k", "issue": {"max_queued": 0}}])",
       "devices[0].issue.max_queued: is the number 0 (an integer from 1 to 4611686018427387903)"},
      {R"("devices": [{"name": "a", "kind": "k", "issue": {}}, {"name": "b", "kind": "k"}])",
       "devices[1].issue: only some devices of kind \"k\" have an issue lane (all devices of a kind, or none)"},
      {R"("devices": [{"name": "a", "kind": "k", "memory_gib": -1}])",
       "devices[0].memory_gib: is the number -1 (a number from 0 to 1e+09)"},
      {R"("devices": [{"name": "a", "kind": "k", "memory_gib": "8"}])",
       "devices[0].memory_gib: is the text \"8\" (a number from 0 to 1e+09)"},
      {R"("devices": [{"name": "a", "kind": "k", "op_gap_us": -1}])",
       "devices[0].op_gap_us: is the number -1 (a number from 0 to 1e+12)"},
      {R"("devices": [{"name": "a:0", "kind": "k", "count": 0}])",
       "devices[0].count: is the number 0 (an integer from 1 to 1024)"},
      {R"("devices": [{"name": "a:0", "kind": "k", "count": 2.0}])",
       "devices[0].count: is the number 2 (an integer from 1 to 1024, written without a point or an exponent)"},
      {R"("devices": [{"name": "a", "kind": "k", "count": 1}])",
       "devices[0].name: is the text \"a\" (a name that ends in :N, since there is a count)"},
      {R"("devices": [{"name": "a:01", "kind": "k", "count": 1}])",
       "devices[0].name: is the text \"a:01\" (a name that ends in :N, since there is a count)"},
      {R"("devices": [{"name": "a:", "kind": "k", "count": 1}])",
       "devices[0].name: is the text \"a:\" (a name that ends in :N, since there is a count)"},
      {R"("devices": [{"name": "a:-1", "kind": "k", "count": 1}])",
       "devices[0].name: is the text \"a:-1\" (a name that ends in :N, since there is a count)"},
      {R"("devices": [{"name": "a:0", "kind": "k", "count": 3}, {"name": "a:2", "kind": "k"}])",
       "devices[1].name: duplicate device name \"a:2\" (each name once)"},
      {R"("devices": [{"name": "a:0", "kind": "k", "count": 1024}, {"name": "b", "kind": "k"}])",
       "devices[1]: there are too many devices (at most 1024)"},
  };
  for (const BrokenCluster& broken : cases) EXPECT_EQ(ErrorWith(broken.fields), broken.error) << broken.fields;
}

TEST(ClusterFieldsTest, NamesThePlaceOfAFaultBesideTheDevices) {
  const std::vector<BrokenCluster> cases = {
      {R"("name": 1)", "name: is the number 1 (a string)"},
      {R"("source": [])", "source: is a list of 0 elements (a string)"},
      {R"("op_gap_us": "5")", "op_gap_us: is the text \"5\" (a number from 0 to 1e+12)"},
      {R"("bandwidth": 1)",
       "bandwidth: unknown key (schema, version, name, source, devices, op_gap_us, link, links, topology, network, "
       "channels, "
       "kinds, collectives)"},
      {R"("channels": "both")", "channels: is the text \"both\" (device or pair)"},
      {R"("channels": 1)", "channels: is the number 1 (device or pair)"},
      {R"("link": 5)", "link: is the number 5 (an object)"},
      {R"("link": {"bandwidth_gb_per_s": 0})",
       "link.bandwidth_gb_per_s: is the number 0 (a number above 0, at most 1e+09)"},
      {R"("link": {"bandwidth_gb_per_s": 2e9})",
       "link.bandwidth_gb_per_s: is the number 2e+09 (a number above 0, at most 1e+09)"},
      {R"("link": {"latency_us": -1})", "link.latency_us: is the number -1 (a number from 0 to 1e+12)"},
      {R"("link": {"gap_us": true})", "link.gap_us: is true (a number from 0 to 1e+12)"},
      {R"("link": {"between": ["a", "b"]})",
       "link.between: unknown key (bandwidth_gb_per_s, latency_us, gap_us, knee_bytes, beyond_gb_per_s, contention, "
       "receive)"},
      {R"("link": {"bandwidth_gb_per_s": 1, "knee_bytes": 8})",
       "link from a to a: has only one of knee_bytes and beyond_gb_per_s (both, or none)"},
      {R"("link": {"bandwidth_gb_per_s": 1, "beyond_gb_per_s": 8})",
       "link from a to a: has only one of knee_bytes and beyond_gb_per_s (both, or none)"},
      {R"("link": {"bandwidth_gb_per_s": 1, "beyond_gb_per_s": 1e-10})",
       "link.beyond_gb_per_s: is the number 1e-10 (0, or a number above it, at most 1e+09)"},
      {R"("link": {"knee_bytes": 1.5})",
       "link.knee_bytes: is the number 1.5 (an integer from 0 to 4611686018427387903, written without "
       "a point or an exponent)"},
      {R"("links": {})", "links: is an object (a list of links)"},
      {R"("links": [5])", "links[0]: is the number 5 (an object)"},
      {R"("links": [{}])", "links[0].between: is missing (between, or from and to)"},
      {R"("links": [{"from": "a"}])", "links[0].to: is missing (the name of a device)"},
      {R"("links": [{"to": "a"}])", "links[0].from: is missing (the name of a device)"},
      {R"("links": [{"between": ["a", "b"], "to": "a"}])",
       "links[0]: has both between and from or to (between: both directions; from and to: one)"},
      {R"("links": [{"between": "a"}])", "links[0].between: is the text \"a\" (a list of the names of two devices)"},
      {R"("links": [{"between": ["a"]}])",
       "links[0].between: is a list of 1 element (a list of the names of two devices)"},
      {R"("links": [{"between": ["a", "c"]}])",
       "links[0].between[1]: is the text \"c\" (the name of a device of this cluster)"},
      {R"("links": [{"between": ["a", 1]}])", "links[0].between[1]: is the number 1 (the name of a device)"},
      {R"("links": [{"from": "a", "to": "c"}])",
       "links[0].to: is the text \"c\" (the name of a device of this cluster)"},
      {R"("links": [{"between": ["a", "a"]}])", "links[0]: joins a device to itself (two devices)"},
      {R"("links": [{"between": ["a", "b"], "bandwidth_gb_per_s": 0}])",
       "links[0].bandwidth_gb_per_s: is the number 0 (a number above 0, at most 1e+09)"},
      {R"("links": [{"between": ["a", "b"], "speed": 1}])",
       "links[0].speed: unknown key (between, from, to, bandwidth_gb_per_s, latency_us, gap_us, knee_bytes, "
       "beyond_gb_per_s, contention, receive)"},
  };
  for (const BrokenCluster& broken : cases) {
    EXPECT_EQ(ErrorWith(kTwo + (", " + broken.fields)), broken.error) << broken.fields;
  }
}

TEST(ClusterFieldsTest, NamesThePlaceOfAFaultInAKind) {
  const std::string good =
      kTwo + std::string(R"(, "kinds": [{"name": "k", "class": "cpu", "peak_tflop_per_s": 1,)") +
      R"( "memory_bandwidth_gb_per_s": 2, "launch_us": 3, "compute_efficiency": {"convolution": 0.5}}])";
  EXPECT_EQ(ErrorWith(good), "(no error)");
  const auto error = [&good](const std::string& from, const std::string& to) {
    return ErrorWith(Replaced(good, from, to));
  };
  EXPECT_EQ(error(R"("name": "k", "class")", R"("class")"), "kinds[0].name: is missing (a string)");
  EXPECT_EQ(error(R"("class": "cpu", )", ""), "kinds[0].class: is missing (cpu or accelerator)");
  EXPECT_EQ(error(R"("cpu")", R"("gpu")"), "kinds[0].class: is the text \"gpu\" (cpu or accelerator)");
  EXPECT_EQ(error(R"("peak_tflop_per_s": 1,)", ""),
            "kinds[0].peak_tflop_per_s: is missing (a number above 0, at most 1e+09)");
  EXPECT_EQ(error(R"("peak_tflop_per_s": 1)", R"("peak_tflop_per_s": 0)"),
            "kinds[0].peak_tflop_per_s: is the number 0 (a number above 0, at most 1e+09)");
  EXPECT_EQ(error(R"("memory_bandwidth_gb_per_s": 2)", R"("memory_bandwidth_gb_per_s": -2)"),
            "kinds[0].memory_bandwidth_gb_per_s: is the number -2 (a number above 0, at most 1e+09)");
  EXPECT_EQ(error(R"("launch_us": 3)", R"("launch_us": -3)"),
            "kinds[0].launch_us: is the number -3 (a number from 0 to 1e+12)");
  EXPECT_EQ(error("0.5", "0"), "kinds[0].compute_efficiency.convolution: is the number 0 (a number from 0.001 to 1)");
  EXPECT_EQ(error("convolution", "magic"),
            "kinds[0].compute_efficiency.magic: unknown class of op (convolution, matrix-product, elementwise, "
            "reduction, gather, copy, attention, normalisation, optimizer, recurrent)");
  EXPECT_EQ(error(R"({"convolution": 0.5})", "1"),
            "kinds[0].compute_efficiency: is the number 1 (an object: a number for each class of op)");
  EXPECT_EQ(error(R"("launch_us": 3)", R"("launch": 3)"),
            "kinds[0].launch: unknown key (name, class, summary, source, peak_tflop_per_s, memory_bandwidth_gb_per_s, "
            "launch_us, time_scale, memory_gib, compute_efficiency, bandwidth_efficiency, precisions); "
            "did you mean launch_us?");
  EXPECT_EQ(
      error("}}]", R"(}}, {"name": "k", "class": "cpu", "peak_tflop_per_s": 1, "memory_bandwidth_gb_per_s": 1}])"),
      "kinds[1].name: duplicate kind \"k\" (each name once)");
}

TEST(ClusterFieldsTest, AFileOfAnotherKindIsCalledThat) {
  EXPECT_EQ(ErrorOf([] { Read(R"({"schema": "emplace.graph", "version": 1, "ops": []})"); }),
            "schema: is the text \"emplace.graph\" (\"emplace.cluster\")");
  EXPECT_EQ(ErrorOf([] { Read(R"({"schema": "emplace.cluster", "devices": []})"); }), "version: is missing (1)");
}

}  // namespace
}  // namespace emplace
