#include "datasets/importers/dnn_partitioning.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/check.h"
#include "sim/json_fields.h"
#include "sim/json_text.h"

namespace emplace {
namespace {

constexpr std::string_view kCpuKind = "dnnp-cpu";
constexpr std::string_view kAcceleratorKind = "dnnp-accelerator";
constexpr double kMaxBytes = 1e18;
constexpr double kMaxMillis = 1e9;
constexpr std::int64_t kMaxDevices = 10'000;
// 2 GiB/s in GB/s, and half of it; CPUs share their memory.
constexpr double kCpuLink = 2.147483648;
constexpr double kAcceleratorLink = kCpuLink / 2;
constexpr double kSharedMemory = 1e6;

// The format is another project's: keys that are not read here are let pass.
std::optional<JsonNode> FindMember(const JsonNode& node, std::string_view key) {
  for (const JsonMember& member : node.Object()) {
    if (member.key == key) return JsonNode(node, member.key, member.value);
  }
  return std::nullopt;
}

JsonNode GetMember(const JsonNode& node, std::string_view key, std::string_view allowed) {
  auto found = FindMember(node, key);
  if (!found) {
    const std::string place = node.Place();
    throw InputError(place.empty() ? std::string(key) : fmt::format("{}.{}", place, key),
                     fmt::format("is missing ({})", allowed));
  }
  return *found;
}

// true, false, 1 or 0.
bool ReadFlag(const JsonNode& node) {
  if (const bool* flag = node.value().As<bool>()) return *flag;
  return node.Number(0, 1, "true or false, 1 or 0") != 0;
}

std::int64_t ReadBytes(const JsonNode& node) { return RoundToInteger(node.Number(0, kMaxBytes)); }

struct Node {
  std::int64_t id = 0;
  OpSpec spec;
};

// Reads the nodes: op names without ':' or a leading '^', made distinct by the id.
class Importer {
 public:
  explicit Importer(const JsonNode& root) : root_(root) {}

  Imported Import() {
    ReadNodes();
    ReadEdges();
    GraphBuilder builder("dnn-partitioning");
    for (Node& node : nodes_) builder.Add(std::move(node.spec));
    return {.graph = builder.Build(), .cluster = MakeCluster(), .notes = {}};
  }

 private:
  void ReadNodes() {
    const JsonNode list = GetMember(root_, "nodes", "a list of nodes");
    const JsonList& nodes = list.List();
    std::map<std::int64_t, std::string> first_of_color;
    std::set<std::string> names;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const JsonNode node(list, i, nodes[i]);
      Node read;
      const JsonNode id = GetMember(node, "id", "an integer");
      read.id = id.Integer(0, kMaxJsonInteger);
      if (!position_.emplace(read.id, i).second) {
        throw InputError(id.Place(), fmt::format("duplicate node id {}", read.id));
      }
      read.spec.name = NameOf(node, read.id);
      if (!names.insert(read.spec.name).second) {
        read.spec.name += fmt::format("#{}", read.id);
        if (!names.insert(read.spec.name).second) {
          throw InputError(node.Place(), fmt::format("duplicate node name \"{}\"", read.spec.name));
        }
      }
      ReadCosts(node, read.id, &read.spec);
      if (const auto color = FindMember(node, "colorClass")) {
        const auto [first, added] =
            first_of_color.try_emplace(color->Integer(-kMaxJsonInteger, kMaxJsonInteger), read.spec.name);
        if (!added) read.spec.colocate_with = first->second;
      }
      nodes_.push_back(std::move(read));
    }
  }

  static std::string NameOf(const JsonNode& node, std::int64_t id) {
    const auto name = FindMember(node, "name");
    std::string text = name ? name->Text() : "";
    for (char& c : text) {
      if (c == ':') c = '_';
    }
    if (text.empty()) return fmt::format("node{}", id);
    if (text.front() == '^') text.front() = '_';
    return text;
  }

  static void ReadCosts(const JsonNode& node, std::int64_t id, OpSpec* spec) {
    spec->kind = "node";
    spec->attrs = fmt::format("{{\"id\":{}}}", id);
    const auto millis = [&node](std::string_view key) {
      return GetMember(node, key, "ms").Number(0, kMaxMillis) * 1000;
    };
    const double accelerator = millis("fpgaLatency");
    spec->kind_times.emplace_back(kCpuKind, millis("cpuLatency"));
    if (ReadFlag(GetMember(node, "supportedOnFpga", "true or false"))) {
      spec->kind_times.emplace_back(kAcceleratorKind, accelerator);
    }
    const bool backward = ReadFlag(GetMember(node, "isBackwardNode", "true or false"));
    spec->pass = backward ? Pass::kBackward : Pass::kForward;
    spec->persistent = Bytes{ReadBytes(GetMember(node, "size", "bytes"))};
  }

  void ReadEdges() {
    const JsonNode list = GetMember(root_, "edges", "a list of edges");
    const JsonList& edges = list.List();
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const JsonNode edge(list, i, edges[i]);
      OpSpec& from = nodes_[End(GetMember(edge, "sourceId", "a node's id"))].spec;
      OpSpec& to = nodes_[End(GetMember(edge, "destId", "a node's id"))].spec;
      const Bytes size{ReadBytes(GetMember(edge, "size", "bytes"))};
      // Equal sizes are one tensor; a node's sizes are few.
      std::size_t output = 0;
      while (output < from.outputs.size() && from.outputs[output].size != size) ++output;
      if (output == from.outputs.size()) from.outputs.push_back({.size = size, .shape = {}});
      if (output >= kMostSizes) throw InputError(edge.Place(), "a node with more than 1000 sizes of tensors");
      to.inputs.push_back(fmt::format("{}:{}", from.name, output));
    }
  }

  std::size_t End(const JsonNode& node) const {
    const std::int64_t id = node.Integer(0, kMaxJsonInteger);
    const auto found = position_.find(id);
    if (found == position_.end()) throw InputError(node.Place(), fmt::format("no node has id {}", id));
    return found->second;
  }

  Cluster MakeCluster() const {
    const std::int64_t cpus = GetMember(root_, "maxCPUs", "an integer").Integer(0, kMaxDevices);
    const std::int64_t accelerators = GetMember(root_, "maxFPGAs", "an integer").Integer(0, kMaxDevices);
    const Bytes memory{ReadBytes(GetMember(root_, "maxSizePerFPGA", "bytes"))};
    if (cpus + accelerators > 1000) throw InputError("maxFPGAs", "more than 1000 devices together with maxCPUs");
    std::vector<Device> devices;
    for (std::int64_t i = 0; i < cpus; ++i) {
      devices.push_back({.name = fmt::format("cpu:{}", i),
                         .kind = std::string(kCpuKind),
                         .memory = std::nullopt,
                         .op_gap_micros = 0,
                         .is_cpu = true});
    }
    for (std::int64_t i = 0; i < accelerators; ++i) {
      devices.push_back({.name = fmt::format("accelerator:{}", i),
                         .kind = std::string(kAcceleratorKind),
                         .memory = memory,
                         .op_gap_micros = 0,
                         .is_cpu = false});
    }
    std::vector<Link> links;
    for (const Device& from : devices) {
      for (const Device& to : devices) {
        const double rate = from.is_cpu && to.is_cpu   ? kSharedMemory
                            : from.is_cpu || to.is_cpu ? kCpuLink
                                                       : kAcceleratorLink;
        links.push_back({.bandwidth_gb_per_s = rate, .latency_micros = 0, .gap_micros = 0});
      }
    }
    return Cluster(
        "dnn-partitioning",
        "msr-fiddle/dnn-partitioning: maxCPUs, maxFPGAs and maxSizePerFPGA of the file; 2 GiB/s between CPU and "
        "accelerator, two moves between accelerators; CPUs share their memory",
        std::move(devices), std::move(links), Channels::kPerDevice);
  }

  static constexpr std::size_t kMostSizes = 1000;
  const JsonNode& root_;
  std::vector<Node> nodes_;
  std::map<std::int64_t, std::size_t> position_;
};

// The lists of nodes under "cpus" or "fpgas", put on the devices in turn.
void PlaceLists(const JsonNode& root, std::string_view key, const std::vector<DeviceId>& devices,
                const std::map<std::int64_t, OpId>& op_of, std::vector<std::optional<DeviceId>>* placed) {
  const JsonNode lists = GetMember(root, key, "a list of {\"nodes\": [ids]}");
  std::size_t device = 0;
  for (std::size_t i = 0; i < lists.List().size(); ++i) {
    const JsonNode entry(lists, i, lists.List()[i]);
    const JsonNode nodes = GetMember(entry, "nodes", "a list of node ids");
    for (std::size_t k = 0; k < nodes.List().size(); ++k) {
      const JsonNode node(nodes, k, nodes.List()[k]);
      const auto found = op_of.find(node.Integer(0, kMaxJsonInteger, "a node's id"));
      if (found == op_of.end()) throw InputError(node.Place(), "the graph has no node of this id");
      if (device >= devices.size()) {
        throw InputError(entry.Place(), fmt::format("the cluster has {} of these devices", devices.size()));
      }
      std::optional<DeviceId>& place = (*placed)[Index(found->second)];
      if (place) throw InputError(node.Place(), "this node stands on two devices");
      place = devices[device];
    }
    ++device;
  }
}

}  // namespace

bool LooksLikeDnnPartitioning(std::string_view content) {
  return content.find("\"maxSizePerFPGA\"") != std::string_view::npos ||
         content.find("\"fpgaLatency\"") != std::string_view::npos;
}

Imported ImportDnnPartitioning(const std::string& content, const std::string& file) {
  try {
    const JsonValue value = ParseJson(std::string_view(content));
    const JsonNode root(value);
    return Importer(root).Import();
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

Placement ImportExpertPlacement(const std::string& content, const std::string& file, const Graph& graph,
                                const Cluster& cluster) {
  try {
    const JsonValue value = ParseJson(std::string_view(content));
    const JsonNode root(value);
    // The importer keeps a node's id in its op's attrs.
    std::map<std::int64_t, OpId> op_of;
    for (std::size_t i = 0; i < graph.num_ops(); ++i) {
      const JsonValue attrs = ParseJson(graph.op(MakeId<OpId>(i)).attrs);
      const JsonNode node(attrs);
      op_of.emplace(GetMember(node, "id", "a node's id").Integer(0, kMaxJsonInteger), MakeId<OpId>(i));
    }
    std::vector<DeviceId> cpus;
    std::vector<DeviceId> accelerators;
    for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
      (cluster.devices()[d].is_cpu ? cpus : accelerators).push_back(MakeId<DeviceId>(d));
    }
    std::vector<std::optional<DeviceId>> placed(graph.num_ops());
    PlaceLists(root, "fpgas", accelerators, op_of, &placed);
    PlaceLists(root, "cpus", cpus, op_of, &placed);
    Placement placement(graph.num_ops());
    for (std::size_t i = 0; i < placed.size(); ++i) {
      const OpId op = MakeId<OpId>(i);
      if (!placed[i]) throw InputError("fpgas", fmt::format("op \"{}\" stands on no device", graph.op(op).name));
      placement[op] = *placed[i];
    }
    return placement;
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

std::string FindExpertFile(const std::string& workload_path) {
  namespace fs = std::filesystem;
  const fs::path path(workload_path);
  const std::string name = path.stem().string() + "_expert.json";
  const fs::path folder = path.parent_path();
  for (const fs::path& candidate :
       {folder / ".." / ".." / "human-experts" / name, folder / "human-experts" / name, folder / name}) {
    std::error_code error;
    if (fs::is_regular_file(candidate, error)) return candidate.string();
  }
  return "";
}

}  // namespace emplace
