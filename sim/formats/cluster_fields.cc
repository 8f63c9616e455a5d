#include "sim/formats/cluster_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/formats/topology_fields.h"

namespace emplace {
namespace {

using OwnKinds = std::map<std::string, DeviceKind, std::less<>>;
using ClassEfficiency = std::array<double, kNumOpClasses>;

constexpr double kMaxGib = 1e9;
// Links are held for every pair of devices.
constexpr std::int64_t kMaxDevices = 1024;

// The default efficiencies of custom kinds: judgements, between the rows of the catalogue for
// devices of its class. Columns as OpClass: none, convolution, matrix product, elementwise, reduction, gather, copy,
// attention, normalisation, optimizer, recurrent.
struct GenericEfficiency {
  ClassEfficiency compute;
  ClassEfficiency bandwidth;
};
constexpr GenericEfficiency kGenericEfficiency[] = {
    {{1, 0.40, 0.65, 1, 1, 1, 1, 0.40, 1, 1, 0.20},
     {1, 0.75, 0.75, 0.75, 0.60, 0.40, 0.75, 0.75, 0.65, 0.75, 0.55}},  // accelerator
    {{1, 0.35, 0.70, 1, 1, 1, 1, 0.35, 1, 1, 0.30},
     {1, 0.70, 0.70, 0.80, 0.60, 0.25, 0.80, 0.70, 0.60, 0.80, 0.60}},  // cpu
};

void ReadEfficiency(const JsonNode& node, ClassEfficiency* efficiency) {
  for (const JsonMember& member : node.Object("an object: a number for each class of op")) {
    std::string known;
    std::size_t op_class = 1;  // not of kNone, which takes no time
    while (op_class < kNumOpClasses && Name(static_cast<OpClass>(op_class)) != member.key) {
      known.append(known.empty() ? "" : ", ").append(Name(static_cast<OpClass>(op_class)));
      ++op_class;
    }
    if (op_class == kNumOpClasses) {
      throw InputError(PlaceOfKey(node.Place(), member.key), "unknown class of op (" + known + ")");
    }
    (*efficiency)[op_class] = JsonNode(node, member.key, member.value).Number(0.001, 1);
  }
}

constexpr double kFlopOfTera = 1e12;

FlopsPerSecond ReadPeak(const JsonFields& fields) {
  return {fields.Get("peak_tflop_per_s", kRateAllowed).Number(kMinGbPerS, kMaxGbPerS, kRateAllowed) * kFlopOfTera};
}

// The efficiencies of a precision are those of the kind, but for those that it gives.
void ReadPrecisions(const JsonNode& node, DeviceKind* kind) {
  constexpr std::string_view kAllowed = "an object: f32, tf32, bf16, f16, i8, f8 or f4, each with its peak_tflop_per_s";
  for (const JsonMember& member : node.Object(kAllowed)) {
    const auto precision = PrecisionFromName(member.key);
    if (!precision) {
      throw InputError(PlaceOfKey(node.Place(), member.key), "unknown precision (f32, tf32, bf16, f16, i8, f8 or f4)");
    }
    const JsonNode value(node, member.key, member.value);
    const JsonFields fields(value, {"peak_tflop_per_s", "compute_efficiency"});
    PrecisionRate& rate = kind->precisions[static_cast<std::size_t>(*precision)];
    rate.peak = ReadPeak(fields);
    rate.efficiency = kind->compute_efficiency;
    if (const auto field = fields.Find("compute_efficiency")) ReadEfficiency(*field, &rate.efficiency);
  }
}

DeviceKind ReadKind(const JsonNode& node) {
  const JsonFields fields(
      node, {"name", "class", "summary", "source", "peak_tflop_per_s", "memory_bandwidth_gb_per_s", "launch_us",
             "time_scale", "memory_gib", "compute_efficiency", "bandwidth_efficiency", "precisions"});
  constexpr std::string_view kClasses = "cpu or accelerator";
  DeviceKind kind;
  kind.name = fields.Get("name", "a string").NonEmptyText();
  const JsonNode device_class = fields.Get("class", kClasses);
  kind.is_cpu = device_class.Text(kClasses) == "cpu";
  if (!kind.is_cpu && device_class.Text() != "accelerator") device_class.Refuse(kClasses);
  if (const auto field = fields.Find("summary")) kind.summary = field->Text();
  if (const auto field = fields.Find("source")) kind.source = field->Text();
  kind.peak = ReadPeak(fields);
  kind.memory_bandwidth = RateFromGbPerS(
      fields.Get("memory_bandwidth_gb_per_s", kRateAllowed).Number(kMinGbPerS, kMaxGbPerS, kRateAllowed));
  if (const auto field = fields.Find("launch_us")) kind.launch_micros = field->Number(0, kMaxJsonMicros);
  if (const auto field = fields.Find("time_scale")) kind.time_scale = field->Number(0.001, 1000);
  if (const auto field = fields.Find("memory_gib")) kind.memory = BytesFromGib(field->Number(0, kMaxGib));
  const GenericEfficiency& generic = kGenericEfficiency[kind.is_cpu ? 1 : 0];
  kind.compute_efficiency = generic.compute;
  kind.bandwidth_efficiency = generic.bandwidth;
  if (const auto field = fields.Find("compute_efficiency")) ReadEfficiency(*field, &kind.compute_efficiency);
  if (const auto field = fields.Find("bandwidth_efficiency")) ReadEfficiency(*field, &kind.bandwidth_efficiency);
  if (const auto field = fields.Find("precisions")) ReadPrecisions(*field, &kind);
  return kind;
}

OwnKinds ReadKinds(const JsonNode& node) {
  OwnKinds kinds;
  const JsonList& list = node.List("a list of device kinds");
  for (std::size_t i = 0; i < list.size(); ++i) {
    DeviceKind kind = ReadKind(JsonNode(node, i, list[i]));
    const std::string name = kind.name;
    if (!kinds.emplace(name, std::move(kind)).second) {
      throw InputError(PlaceOfIndex(node.Place(), i) + ".name", "duplicate kind " + Quoted(name) + " (each name once)");
    }
  }
  return kinds;
}

// The names that an entry of `devices` means.
std::vector<std::string> ExpandNames(const JsonFields& fields) {
  const JsonNode node = fields.Get("name", "a string");
  const std::string name = node.NonEmptyText();
  const auto count_node = fields.Find("count");
  if (!count_node) return {name};
  const std::int64_t count = count_node->Integer(1, kMaxDevices);
  const std::size_t colon = name.rfind(':');
  const std::string digits = colon == std::string::npos ? "" : name.substr(colon + 1);
  constexpr std::size_t kMostDigits = 9;
  std::int64_t first = 0;
  const char* const end = digits.data() + digits.size();
  const bool is_number = !digits.empty() && digits.size() <= kMostDigits &&
                         std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
                         (digits.size() == 1 || digits[0] != '0') &&
                         std::from_chars(digits.data(), end, first).ec == std::errc();
  if (!is_number) node.Refuse("a name that ends in :N, since there is a count");
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(name.substr(0, colon + 1) + std::to_string(first + i));
  return names;
}

bool IsCpu(const std::string& kind, const std::string& name, const OwnKinds& own_kinds) {
  const auto own = own_kinds.find(kind);
  if (own != own_kinds.end()) return own->second.is_cpu;
  const DeviceKind* known = FindDeviceKind(kind);
  return known != nullptr ? known->is_cpu : LooksLikeCpu(kind, name);
}

IssueLane ReadIssue(const JsonNode& node) {
  const JsonFields fields(node, {"lane", "host_us", "launch_latency_us", "max_queued"});
  IssueLane issue;
  if (const auto field = fields.Find("lane")) issue.lane = field->NonEmptyText();
  if (const auto field = fields.Find("host_us")) issue.host_micros = field->Number(0, kMaxJsonMicros);
  if (const auto field = fields.Find("launch_latency_us")) {
    issue.launch_latency_micros = field->Number(0, kMaxJsonMicros);
  }
  if (const auto field = fields.Find("max_queued")) issue.max_queued = field->Integer(1, kMaxJsonInteger);
  return issue;
}

using DeviceIds = std::map<std::string, std::size_t, std::less<>>;

// Adds the devices of one entry.
void ReadDevices(const JsonNode& node, double default_gap, const OwnKinds& own_kinds, std::vector<Device>* devices,
                 DeviceIds* ids) {
  const JsonFields fields(node, {"name", "kind", "memory_gib", "count", "op_gap_us", "copy_engine", "issue", "host"});
  Device device;
  device.op_gap_micros = default_gap;
  const std::vector<std::string> names = ExpandNames(fields);
  device.kind = fields.Get("kind", "a device kind").NonEmptyText();
  if (const auto own = own_kinds.find(device.kind); own != own_kinds.end()) device.memory = own->second.memory;
  if (const auto field = fields.Find("memory_gib")) device.memory = BytesFromGib(field->Number(0, kMaxGib));
  if (const auto field = fields.Find("op_gap_us")) device.op_gap_micros = field->Number(0, kMaxJsonMicros);
  if (const auto field = fields.Find("copy_engine")) device.copy_engine = field->Flag();
  if (const auto field = fields.Find("issue")) device.issue = ReadIssue(*field);
  if (const auto field = fields.Find("host")) device.host = field->NonEmptyText();
  for (const std::string& name : names) {
    device.name = name;
    device.is_cpu = IsCpu(device.kind, name, own_kinds);
    if (!ids->emplace(name, devices->size()).second) {
      throw InputError(node.Place() + ".name", "duplicate device name " + Quoted(name) + " (each name once)");
    }
    if (devices->size() == static_cast<std::size_t>(kMaxDevices)) {
      throw InputError(node.Place(), "there are too many devices (at most " + std::to_string(kMaxDevices) + ")");
    }
    devices->push_back(device);
  }
}

// 0 in an exception says that it has no knee, as a `knee_bytes` of 0 does.
double ReadBeyond(const JsonNode& node) {
  constexpr std::string_view kAllowed = "0, or a number above it, at most 1e+09";
  const double rate = node.Number(0, kMaxGbPerS, kAllowed);
  if (rate > 0 && rate < kMinGbPerS) node.Refuse(kAllowed);
  return rate;
}

// `link` with what the fields give in place of it; no link at all is all zeros.
Link ReadLink(const JsonFields& fields, Link link) {
  if (const auto field = fields.Find("bandwidth_gb_per_s")) {
    link.bandwidth_gb_per_s = field->Number(kMinGbPerS, kMaxGbPerS, kRateAllowed);
  }
  if (const auto field = fields.Find("latency_us")) link.latency_micros = field->Number(0, kMaxJsonMicros);
  if (const auto field = fields.Find("gap_us")) link.gap_micros = field->Number(0, kMaxJsonMicros);
  if (const auto field = fields.Find("knee_bytes")) link.knee = {field->Integer(0, kMaxJsonInteger)};
  if (const auto field = fields.Find("beyond_gb_per_s")) link.beyond_gb_per_s = ReadBeyond(*field);
  if (const auto field = fields.Find("contention")) link.contention = field->Flag();
  if (const auto field = fields.Find("receive")) link.receive = field->Flag();
  return link;
}

std::size_t ReadEnd(const JsonNode& node, const DeviceIds& ids) {
  const auto found = ids.find(node.Text("the name of a device"));
  if (found == ids.end()) node.Refuse("the name of a device of this cluster");
  return found->second;
}

// Where links lead, row = from.
class LinkTable {
 public:
  LinkTable(std::size_t num_devices, Link fallback)
      : n_(num_devices), fallback_(fallback), links_(n_ * n_, Normal(fallback)) {}

  void ReadException(const JsonNode& node, const DeviceIds& ids) {
    const JsonFields fields(node, {"between", "from", "to", "bandwidth_gb_per_s", "latency_us", "gap_us", "knee_bytes",
                                   "beyond_gb_per_s", "contention", "receive"});
    const Link link = Normal(ReadLink(fields, fallback_));
    const auto between = fields.Find("between");
    if (between && (fields.Find("from") || fields.Find("to"))) {
      throw InputError(node.Place(), "has both between and from or to (between: both directions; from and to: one)");
    }
    if (between) {
      constexpr std::string_view kAllowed = "a list of the names of two devices";
      const JsonList& list = between->List(kAllowed);
      if (list.size() != 2) between->Refuse(kAllowed);
      const std::size_t a = ReadEnd(JsonNode(*between, 0, list[0]), ids);
      const std::size_t b = ReadEnd(JsonNode(*between, 1, list[1]), ids);
      Set(a, b, link, node);
      Set(b, a, link, node);
      return;
    }
    if (!fields.Find("from") && !fields.Find("to")) {
      throw InputError(PlaceOfKey(node.Place(), "between"), "is missing (between, or from and to)");
    }
    Set(ReadEnd(fields.Get("from", "the name of a device"), ids),
        ReadEnd(fields.Get("to", "the name of a device"), ids), link, node);
  }

  std::vector<Link> Take() { return std::move(links_); }

 private:
  static Link Normal(const Link& link) { return link.exists() ? link : Link(); }
  void Set(std::size_t from, std::size_t to, const Link& link, const JsonNode& node) {
    if (from == to) throw InputError(node.Place(), "joins a device to itself (two devices)");
    links_[from * n_ + to] = link;
  }

  std::size_t n_;
  Link fallback_;
  std::vector<Link> links_;
};

std::vector<Link> ReadLinks(const JsonFields& fields, const DeviceIds& ids) {
  Link fallback;
  if (const auto field = fields.Find("link")) {
    fallback = ReadLink(JsonFields(*field, {"bandwidth_gb_per_s", "latency_us", "gap_us", "knee_bytes",
                                            "beyond_gb_per_s", "contention", "receive"}),
                        fallback);
  }
  LinkTable table(ids.size(), fallback);
  if (const auto field = fields.Find("links")) {
    const JsonList& list = field->List("a list of links");
    for (std::size_t i = 0; i < list.size(); ++i) table.ReadException(JsonNode(*field, i, list[i]), ids);
  }
  return table.Take();
}

Channels ReadChannels(const JsonFields& fields) {
  constexpr std::string_view kAllowed = "device or pair";
  const auto field = fields.Find("channels");
  if (!field || field->Text(kAllowed) == "device") return Channels::kPerDevice;
  if (field->Text() != "pair") field->Refuse(kAllowed);
  return Channels::kPerPair;
}

CollectiveCosts ReadCollectiveCosts(const JsonNode& node) {
  const JsonFields fields(node, {"launch_us", "local_gb_per_s"});
  CollectiveCosts costs;
  if (const auto field = fields.Find("launch_us")) costs.launch_micros = field->Number(0, kMaxJsonMicros);
  if (const auto field = fields.Find("local_gb_per_s")) {
    costs.local_gb_per_s = field->Number(kMinGbPerS, kMaxGbPerS, kRateAllowed);
  }
  return costs;
}

}  // namespace

Cluster ClusterFromFields(const JsonValue& root) {
  const JsonNode node(root);
  CheckSchema(node, "emplace.cluster");
  const JsonFields fields(node, {"schema", "version", "name", "source", "devices", "op_gap_us", "link", "links",
                                 "topology", "network", "channels", "kinds", "collectives"});
  const auto name = fields.Find("name");
  const auto source = fields.Find("source");
  OwnKinds own_kinds;
  if (const auto field = fields.Find("kinds")) own_kinds = ReadKinds(*field);
  double op_gap = 0;
  if (const auto field = fields.Find("op_gap_us")) op_gap = field->Number(0, kMaxJsonMicros);

  constexpr std::string_view kDevices = "a list of at least one device";
  const JsonNode entries = fields.Get("devices", kDevices);
  const JsonList& list = entries.List(kDevices);
  if (list.empty()) entries.Refuse(kDevices);
  std::vector<Device> devices;
  DeviceIds ids;
  for (std::size_t i = 0; i < list.size(); ++i) {
    ReadDevices(JsonNode(entries, i, list[i]), op_gap, own_kinds, &devices, &ids);
  }
  const Channels channels = ReadChannels(fields);
  CollectiveCosts costs;
  if (const auto field = fields.Find("collectives")) costs = ReadCollectiveCosts(*field);
  const auto with_network = [&](const Cluster& cluster) {
    const auto field = fields.Find("network");
    return field ? cluster.WithNetwork(NetworkFromFields(*field, cluster)) : cluster;
  };
  if (const auto field = fields.Find("topology")) {
    if (fields.Find("link") || fields.Find("links")) {
      throw InputError("topology", "is beside link or links (topology: links are what its routes give)");
    }
    return with_network(Cluster(name ? name->Text() : "", source ? source->Text() : "", std::move(devices),
                                TopologyFromFields(*field, ids), channels, std::move(own_kinds))
                            .WithCollectiveCosts(costs));
  }
  std::vector<Link> links = ReadLinks(fields, ids);
  return with_network(Cluster(name ? name->Text() : "", source ? source->Text() : "", std::move(devices),
                              std::move(links), channels, std::move(own_kinds))
                          .WithCollectiveCosts(costs));
}

}  // namespace emplace
