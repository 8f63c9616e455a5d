#include "datasets/importers/dnn_partitioning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/importers/importers.h"
#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/base/json_value.h"
#include "sim/base/units.h"
#include "sim/op_kinds.h"

namespace emplace::datasets {
namespace {

constexpr double kGibPerSecond = 2;  // between host memory and one accelerator
constexpr double kMaxMillis = 1e9;
constexpr double kMaxBytes = 4e18;
constexpr std::size_t kMaxNameLength = 1000;  // inputs repeat names: edges * length must stay small
constexpr std::int64_t kMaxDevices = 256;     // devices of a sort: links are their square

struct InstanceNode {
  std::int64_t id = 0;
  std::string name;
  bool on_accelerators = false;
  bool is_backward = false;
  double cpu_millis = 0;
  double accelerator_millis = 0;
  Bytes size;
  std::optional<std::int64_t> color;
  std::optional<std::int64_t> layer;
};

struct InstanceEdge {
  std::size_t from = 0;  // positions in `nodes`
  std::size_t to = 0;
  double size = 0;  // bytes, as read
  std::optional<double> cost;

  Bytes bytes() const { return {RoundToInteger(size)}; }
};

// The file, checked.
struct Input {
  std::int64_t cpus = 0;
  std::int64_t accelerators = 0;
  Bytes accelerator_memory;
  std::vector<InstanceNode> nodes;
  std::vector<InstanceEdge> edges;
  std::set<std::string> unknown_keys;
};

// The members of an object of the file: keys that are not of the format are noted, not refused.
class ObjectMembers {
 public:
  ObjectMembers(const JsonNode& node, std::string_view what, std::initializer_list<std::string_view> known,
                std::set<std::string>* unknown)
      : node_(node) {
    constexpr std::size_t kMaxUnknown = 20;
    for (const JsonMember& member : node.Object()) {
      if (std::find(known.begin(), known.end(), member.key) != known.end()) continue;
      if (unknown->size() < kMaxUnknown) unknown->insert(PlaceOfKey(std::string(what), member.key));
    }
  }

  std::optional<JsonNode> Find(std::string_view key) const {
    for (const JsonMember& member : node_.Object()) {
      if (member.key == key) return JsonNode(node_, member.key, member.value);
    }
    return std::nullopt;
  }
  JsonNode Get(std::string_view key, std::string_view allowed) const {
    const auto found = Find(key);
    if (!found) throw InputError(PlaceOfKey(node_.Place(), key), fmt::format("is missing ({})", allowed));
    return *found;
  }
  double Number(std::string_view key, double high) const {
    return Get(key, fmt::format("a number from 0 to {}", NumberText(high))).Number(0, high);
  }
  Bytes Size(std::string_view key) const { return {RoundToInteger(Number(key, kMaxBytes))}; }
  std::int64_t Integer(std::string_view key, std::int64_t low, std::int64_t high) const {
    return Get(key, fmt::format("an integer from {} to {}", low, high)).Integer(low, high);
  }
  std::optional<std::int64_t> MaybeInteger(std::string_view key) const {
    const auto found = Find(key);
    if (!found) return std::nullopt;
    return found->Integer(-kMaxJsonInteger, kMaxJsonInteger, "an integer");
  }
  bool Flag(std::string_view key) const {
    constexpr std::string_view kAllowed = "true or false, 1 or 0";
    const JsonNode node = Get(key, kAllowed);
    if (const auto* flag = node.value().As<bool>()) return *flag;
    const auto* number = node.value().As<std::int64_t>();
    if (number == nullptr || (*number != 0 && *number != 1)) node.Refuse(kAllowed);
    return *number == 1;
  }

 private:
  const JsonNode& node_;
};

InstanceNode ReadNode(const JsonNode& json, std::set<std::string>* unknown) {
  const ObjectMembers members(
      json, "nodes[]",
      {"id", "name", "supportedOnFpga", "cpuLatency", "fpgaLatency", "isBackwardNode", "colorClass", "size", "layerId"},
      unknown);
  InstanceNode node;
  node.id = members.Integer("id", 0, kMaxJsonInteger);
  if (const auto name = members.Find("name")) {
    node.name = name->Text();
    if (node.name.size() > kMaxNameLength) name->Refuse(fmt::format("at most {} bytes", kMaxNameLength));
  }
  node.on_accelerators = members.Flag("supportedOnFpga");
  node.cpu_millis = members.Number("cpuLatency", kMaxMillis);
  if (node.on_accelerators) node.accelerator_millis = members.Number("fpgaLatency", kMaxMillis);
  node.is_backward = members.Flag("isBackwardNode");
  node.color = members.MaybeInteger("colorClass");
  node.size = members.Size("size");
  node.layer = members.MaybeInteger("layerId");
  return node;
}

using Positions = std::map<std::int64_t, std::size_t>;  // positions of nodes, by id

std::size_t FindNode(const Positions& positions, const JsonNode& id) {
  constexpr std::string_view kAllowed = "the id of a node";
  const auto found = positions.find(id.Integer(0, kMaxJsonInteger, kAllowed));
  if (found == positions.end()) id.Refuse(kAllowed);
  return found->second;
}

InstanceEdge ReadEdge(const JsonNode& json, const Positions& positions, std::set<std::string>* unknown) {
  const ObjectMembers members(json, "edges[]", {"sourceId", "destId", "cost", "size"}, unknown);
  InstanceEdge edge;
  edge.from = FindNode(positions, members.Get("sourceId", "the id of a node"));
  edge.to = FindNode(positions, members.Get("destId", "the id of a node"));
  edge.size = members.Number("size", kMaxBytes);
  if (const auto cost = members.Find("cost")) edge.cost = cost->Number(0, kMaxBytes);
  return edge;
}

Input ReadInput(const std::string& content) {
  const JsonValue root = ParseJson(content, JsonLimitsOf(InputKind::kTextProfile));
  const JsonNode json(root);
  Input input;
  const ObjectMembers members(json, "", {"maxSizePerFPGA", "maxFPGAs", "maxCPUs", "nodes", "edges"},
                              &input.unknown_keys);
  input.accelerator_memory = members.Size("maxSizePerFPGA");
  input.accelerators = members.Integer("maxFPGAs", 0, kMaxDevices);
  input.cpus = members.Integer("maxCPUs", 0, kMaxDevices);
  if (input.cpus + input.accelerators == 0) throw InputError("maxCPUs", "is 0, as is maxFPGAs (at least one device)");

  const JsonNode nodes = members.Get("nodes", "a list of nodes");
  const JsonList& node_list = nodes.List("a list of nodes");
  if (node_list.empty()) nodes.Refuse("at least one node");
  Positions positions;
  for (std::size_t i = 0; i < node_list.size(); ++i) {
    input.nodes.push_back(ReadNode(JsonNode(nodes, i, node_list[i]), &input.unknown_keys));
    const auto [found, added] = positions.emplace(input.nodes.back().id, i);
    if (!added) {
      throw InputError(
          PlaceOfIndex("nodes", i) + ".id",
          fmt::format("{} is the id of {} too (each id once)", found->first, PlaceOfIndex("nodes", found->second)));
    }
  }
  const JsonNode edges = members.Get("edges", "a list of edges");
  const JsonList& edge_list = edges.List("a list of edges");
  for (std::size_t i = 0; i < edge_list.size(); ++i) {
    input.edges.push_back(ReadEdge(JsonNode(edges, i, edge_list[i]), positions, &input.unknown_keys));
  }
  return input;
}

std::vector<std::string> OpNames(const std::vector<InstanceNode>& nodes) {
  std::set<std::string> taken;
  std::vector<std::string> names;
  for (const InstanceNode& node : nodes) {
    std::string name = node.name.empty() ? fmt::format("node{}", node.id) : node.name;
    std::replace(name.begin(), name.end(), ':', '_');
    if (name.front() == '^') name.front() = '_';
    while (!taken.insert(name).second) name += fmt::format("#{}", node.id);
    names.push_back(std::move(name));
  }
  return names;
}

// "MatMul27" is "matmul", "node27grad" is "layer_backward", "bert.embeddings.weight" is "op".
std::string KindOf(std::string_view name) {
  constexpr std::string_view kGradient = "grad";
  const bool is_gradient = name.ends_with(kGradient);
  if (is_gradient) name.remove_suffix(kGradient.size());
  std::string kind;
  for (const char c : name.substr(0, name.find_last_not_of("0123456789") + 1)) {
    if (std::isalpha(static_cast<unsigned char>(c)) == 0) return "op";
    kind.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  if (kind.empty() || kind.size() == name.size()) return "op";
  // Here a missing time is none, so that nothing is a source.
  if (IsSourceKind(kind)) return "op";
  if (kind == "node") kind = "layer";
  return is_gradient ? kind + "_backward" : kind;
}

OpSpec MakeOp(const InstanceNode& node, const std::string& name) {
  constexpr double kMicrosPerMilli = 1000;
  OpSpec op;
  op.name = name;
  op.kind = KindOf(node.name);
  op.attrs = fmt::format("{{\"id\":{}}}", node.id);
  op.pass = node.is_backward ? Pass::kBackward : Pass::kForward;
  op.persistent = node.size;
  op.kind_times.emplace_back(kDnnPartitioningCpuKind, node.cpu_millis * kMicrosPerMilli);
  if (node.on_accelerators) {
    op.kind_times.emplace_back(kDnnPartitioningAcceleratorKind, node.accelerator_millis * kMicrosPerMilli);
  }
  if (node.layer) op.layer = fmt::format("layer{}", *node.layer);
  return op;
}

// The distinct sizes that each node sends, ascending: its outputs.
std::vector<std::vector<Bytes>> OutputSizes(const Input& input) {
  std::vector<std::vector<Bytes>> sizes(input.nodes.size());
  for (const InstanceEdge& edge : input.edges) sizes[edge.from].push_back(edge.bytes());
  for (auto& of_node : sizes) {
    std::sort(of_node.begin(), of_node.end());
    of_node.erase(std::unique(of_node.begin(), of_node.end()), of_node.end());
  }
  return sizes;
}

Graph MakeGraph(const Input& input) {
  const std::vector<std::string> names = OpNames(input.nodes);
  const auto sizes = OutputSizes(input);
  std::vector<OpSpec> ops;
  std::map<std::int64_t, std::size_t> first_of_color;
  for (std::size_t i = 0; i < input.nodes.size(); ++i) {
    const InstanceNode& node = input.nodes[i];
    ops.push_back(MakeOp(node, names[i]));
    for (const Bytes size : sizes[i]) {
      ops.back().outputs.emplace_back();
      ops.back().outputs.back().size = size;
    }
    if (!node.color) continue;
    const auto [first, added] = first_of_color.emplace(*node.color, i);
    if (!added) ops.back().colocate_with = names[first->second];
  }
  for (const InstanceEdge& edge : input.edges) {
    const auto& outputs = sizes[edge.from];
    const auto index = std::lower_bound(outputs.begin(), outputs.end(), edge.bytes()) - outputs.begin();
    ops[edge.to].inputs.push_back(fmt::format("{}:{}", names[edge.from], index));
  }
  GraphBuilder builder("dnn-partitioning");
  for (OpSpec& op : ops) builder.Add(op);
  return builder.Build();
}

Cluster MakeCluster(const Input& input) {
  std::vector<Device> devices;
  const auto add = [&devices](std::int64_t count, std::string_view name, std::string_view kind,
                              std::optional<Bytes> memory, bool is_cpu) {
    for (std::int64_t i = 0; i < count; ++i) {
      devices.push_back({.name = fmt::format("{}:{}", name, i),
                         .kind = std::string(kind),
                         .memory = memory,
                         .op_gap_micros = 0,
                         .is_cpu = is_cpu});
    }
  };
  add(input.cpus, "cpu", kDnnPartitioningCpuKind, std::nullopt, true);
  add(input.accelerators, "accelerator", kDnnPartitioningAcceleratorKind, input.accelerator_memory, false);
  constexpr double kHost = kGibPerSecond * 1.073741824;  // GB/s
  constexpr double kFree = 1e9;                          // the fastest link that a cluster may have
  std::vector<Link> links;
  for (const Device& from : devices) {
    for (const Device& to : devices) {
      const double rate = from.is_cpu && to.is_cpu ? kFree : from.is_cpu || to.is_cpu ? kHost : kHost / 2;
      links.push_back({.bandwidth_gb_per_s = rate, .latency_micros = 0, .gap_micros = 0});
    }
  }
  return Cluster("dnn-partitioning",
                 "dnn-partitioning input file: maxCPUs, maxFPGAs, maxSizePerFPGA; links of its README: 2 GiB/s between "
                 "accelerator and host memory, two such copies between accelerators; CPUs share their memory",
                 std::move(devices), std::move(links), Channels::kPerDevice);
}

// A note about the unit of `cost`: an edge agrees with a unit if its size takes that long at 2 GiB/s.
void NoteCosts(const Input& input, std::vector<std::string>* notes) {
  constexpr double kTolerance = 1e-6;
  const auto near = [](double a, double b) { return std::abs(a - b) <= kTolerance * std::max(a, b); };
  std::size_t with_cost = 0;
  std::size_t in_seconds = 0;
  std::size_t in_millis = 0;
  for (const InstanceEdge& edge : input.edges) {
    if (!edge.cost || (*edge.cost == 0 && edge.size == 0)) continue;
    ++with_cost;
    const double seconds = edge.size / (kGibPerSecond * 1073741824.0);
    in_seconds += near(*edge.cost, seconds) ? 1 : 0;
    in_millis += near(*edge.cost, seconds * 1000) ? 1 : 0;
  }
  if (with_cost == 0) return;
  if (in_seconds > in_millis) {
    notes->push_back(
        "cost: left out, transfers follow from `size`; here it is in seconds beside latencies in ms, so plans made "
        "from "
        "it take transfers as 1000 times too cheap");
  } else {
    notes->push_back("cost: left out, transfers follow from `size`");
  }
  const std::size_t odd = with_cost - in_seconds - in_millis;
  if (odd > 0) {
    notes->push_back(fmt::format("{} of {} edges have a size that is not their cost at 2 GiB/s; the size is taken", odd,
                                 input.edges.size()));
  }
}

std::vector<std::string> Notes(const Input& input) {
  std::vector<std::string> notes;
  NoteCosts(input, &notes);
  std::size_t rounded = 0;
  bool has_backward = false;
  bool is_joined = false;
  for (const InstanceEdge& edge : input.edges) {
    rounded += edge.size != static_cast<double>(edge.bytes().count) ? 1 : 0;
    is_joined = is_joined || input.nodes[edge.from].is_backward != input.nodes[edge.to].is_backward;
  }
  for (const InstanceNode& node : input.nodes) has_backward = has_backward || node.is_backward;
  if (rounded > 0)
    notes.push_back(fmt::format("{} edges have a fractional number of bytes: rounded to the nearest byte", rounded));
  const auto sizes = OutputSizes(input);
  const auto several =
      std::count_if(sizes.begin(), sizes.end(), [](const auto& of_node) { return of_node.size() > 1; });
  if (several > 0) notes.push_back(fmt::format("{} nodes send several sizes: one tensor for each", several));
  if (has_backward && !is_joined) {
    notes.push_back("no edge joins forward and backward nodes: as in the file, both halves may run at once");
  }
  for (const std::string& key : input.unknown_keys) notes.push_back(key + ": left out, not of the format");
  return notes;
}

std::vector<double> CrossingCosts(const Input& input, const Graph& graph) {
  constexpr double kTolerance = 1e-6;
  const std::vector<std::string> names = OpNames(input.nodes);
  std::vector<std::optional<double>> costs(graph.num_ops());
  std::vector<std::size_t> op_of_node;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto op = graph.FindOp(names[i]);
    if (!op) throw InputError(PlaceOfIndex("nodes", i), "is not an op of the graph (the file that the graph is from)");
    op_of_node.push_back(Index(*op));
  }
  for (std::size_t i = 0; i < input.edges.size(); ++i) {
    const InstanceEdge& edge = input.edges[i];
    const std::string place = PlaceOfIndex("edges", i) + ".cost";
    if (!edge.cost) throw InputError(place, fmt::format("is missing (a number from 0 to {})", NumberText(kMaxBytes)));
    std::optional<double>& cost = costs[op_of_node[edge.from]];
    if (cost && std::abs(*cost - *edge.cost) > kTolerance) {
      throw InputError(
          place, fmt::format("is {} (the {} of other edges from the node)", NumberText(*edge.cost), NumberText(*cost)));
    }
    if (!cost) cost = edge.cost;
  }
  std::vector<double> by_op;
  by_op.reserve(costs.size());
  for (const std::optional<double>& cost : costs) by_op.push_back(cost.value_or(0));
  return by_op;
}

}  // namespace

bool LooksLikeDnnPartitioning(std::string_view content) {
  return StartsAnObject(content) && (content.find("\"maxSizePerFPGA\"") != std::string_view::npos ||
                                     content.find("\"fpgaLatency\"") != std::string_view::npos);
}

Imported ImportDnnPartitioning(const std::string& content, const std::string& file) {
  try {
    const Input input = ReadInput(content);
    return {.graph = MakeGraph(input), .cluster = MakeCluster(input), .notes = Notes(input)};
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

std::vector<double> ImportCrossingCosts(const std::string& content, const std::string& file, const Graph& graph) {
  try {
    return CrossingCosts(ReadInput(content), graph);
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

}  // namespace emplace::datasets
