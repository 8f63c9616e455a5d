#include "datasets/exporters/tensorflow_devices.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

#include "datasets/importers/tensorflow.h"
#include "sim/base/check.h"
#include "sim/base/json_build.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

// "while/MatMul[3]" and "while/MatMul[3]#2" are copies of the node "while/MatMul".
std::string NodeOfOp(std::string_view op) {
  std::string name;
  bool is_inside = false;
  for (const char c : op) {
    if (c == '[') is_inside = true;
    if (c == '#') break;
    if (!is_inside) name += c;
    if (c == ']') is_inside = false;
  }
  return name;
}

}  // namespace

std::string WriteTensorFlowDevices(const Graph& graph, const Cluster& cluster, const Placement& placement) {
  std::map<std::string, OpId> first;  // of each node
  JsonObject devices;
  for (const OpId id : graph.file_order()) {
    const std::string node = NodeOfOp(graph.op(id).name);
    const auto [found, is_new] = first.emplace(node, id);
    if (is_new) {
      AddMember(&devices, node, TfDeviceString(cluster, placement[id]));
    } else if (placement[id] != placement[found->second]) {
      throw InputError(std::string(graph.op(id).name),
                       fmt::format("is on {}, and {} on {}: TensorFlow has one node for both",
                                   Quoted(cluster.device(placement[id]).name), Quoted(graph.op(found->second).name),
                                   Quoted(cluster.device(placement[found->second]).name)));
    }
  }
  return JsonText(ToJson(std::move(devices))) + "\n";
}

Placement ReadTensorFlowDevices(std::string_view text, const std::string& file, const Graph& graph,
                                const Cluster& cluster) {
  return WithLocation(file, [&] {
    const JsonValue root = ParseJson(text);
    const JsonNode node(root);
    std::map<std::string, DeviceId> devices;
    for (const JsonMember& member : node.Object()) {
      const JsonNode entry(node, member.key, member.value);
      const auto device = DeviceOfTfString(entry.Text(), cluster);
      if (!device) entry.Refuse("a device such as /job:worker/replica:0/task:0/device:GPU:1");
      devices[member.key] = *device;
    }
    Placement placement(graph.num_ops());
    std::set<std::string> used;
    for (const OpId id : graph.file_order()) {
      const std::string name = NodeOfOp(graph.op(id).name);
      const auto found = devices.find(name);
      if (found == devices.end()) throw InputError(Quoted(name), "has no device");
      placement[id] = found->second;
      used.insert(name);
    }
    for (const auto& [name, device] : devices) {
      if (!used.contains(name)) throw InputError(Quoted(name), "is no op of the graph");
    }
    return placement;
  });
}

}  // namespace emplace::datasets
