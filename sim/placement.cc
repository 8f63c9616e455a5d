#include "sim/placement.h"

#include <algorithm>
#include <charconv>
#include <istream>
#include <map>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/cost_model.h"

namespace emplace {
namespace {

constexpr std::string_view kPlacementSchema = "emplace.placement";

std::string PlaceOfOp(std::string_view op) { return PlaceOfMember("devices", op); }

// The devices that satisfy `is_wanted`, by name, at most a line of them.
template <typename Predicate>
std::string DeviceNames(const Cluster& cluster, Predicate is_wanted) {
  constexpr std::size_t kMost = 20;
  std::string names;
  std::size_t count = 0;
  for (std::size_t i = 0; i < cluster.num_devices(); ++i) {
    const auto id = MakeId<DeviceId>(i);
    if (!is_wanted(id)) continue;
    if (++count > kMost) return names + ", ...";
    names += (names.empty() ? "" : ", ") + cluster.device(id).name;
  }
  return names;
}

constexpr std::string_view kDevicesAllowed = "an object: the device of each op, by name";

// Takes the members of `devices` one by one: a placement of ten million ops is never held as JSON.
class DevicesReader {
 public:
  DevicesReader(const Graph& graph, const Cluster& cluster) : graph_(graph), cluster_(cluster) {
    for (std::size_t i = 0; i < cluster.num_devices(); ++i) {
      ids_.emplace(cluster.devices()[i].name, MakeId<DeviceId>(i));
    }
  }

  void Take(const std::string& name, const JsonValue& value) {
    const auto op = graph_.FindOp(name);
    if (!op) {
      throw InputError(PlaceOfOp(name), "is not an op of graph " + Quoted(graph_.name()) + " (which has " +
                                            std::to_string(graph_.num_ops()) + " ops)");
    }
    if (devices_[Index(*op)]) throw InputError(PlaceOfKey("devices", name), "duplicate key (each key once)");
    const JsonValue root{JsonObject()};
    const JsonNode parent(root);
    const JsonNode devices(parent, "devices", root);
    const JsonNode device(devices, name, value);
    const auto id = ids_.find(device.Text("the name of a device"));
    if (id == ids_.end()) {
      throw InputError(PlaceOfOp(name), "unknown device " + Quoted(device.Text()) + " (cluster " +
                                            Quoted(cluster_.name()) + " has " +
                                            DeviceNames(cluster_, [](DeviceId) { return true; }) + ")");
    }
    devices_[Index(*op)] = id->second;
  }

  const std::vector<std::optional<DeviceId>>& devices() const { return devices_; }

 private:
  const Graph& graph_;
  const Cluster& cluster_;
  std::unordered_map<std::string_view, DeviceId> ids_;
  std::vector<std::optional<DeviceId>> devices_ = std::vector<std::optional<DeviceId>>(graph_.num_ops());
};

std::optional<std::size_t> WholeNumber(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "0*3 1 0*2": the devices of the ops in the order of the graph's file, as numbers in a list of names, each with the
// length of its run.
Placement ReadPacked(const JsonNode& node, const Graph& graph, const Cluster& cluster) {
  const JsonFields fields(node, {"devices", "ops"});
  const JsonNode names = fields.Get("devices", "a list of devices' names");
  std::vector<DeviceId> devices;
  for (std::size_t i = 0; i < names.List().size(); ++i) {
    const JsonNode name(names, i, names.List()[i]);
    const auto device = cluster.FindDevice(name.Text());
    if (!device) name.Refuse("a device of " + cluster.name());
    devices.push_back(*device);
  }
  const JsonNode ops = fields.Get("ops", "numbers of devices, with the lengths of their runs");
  std::istringstream tokens(ops.Text());
  Placement placement(graph.num_ops());
  std::size_t next = 0;
  for (std::string token; tokens >> token;) {
    const std::size_t star = token.find('*');
    const auto device = WholeNumber(std::string_view(token).substr(0, star));
    const auto count = star == std::string::npos ? std::optional<std::size_t>(1)
                                                 : WholeNumber(std::string_view(token).substr(star + 1));
    if (!device || *device >= devices.size() || !count || *count > graph.num_ops() - next) {
      throw InputError(ops.Place(), Quoted(token) +
                                        " is no number of a device, with the length of its run behind a *, of " +
                                        std::to_string(graph.num_ops() - next) + " ops that are left");
    }
    for (std::size_t i = 0; i < *count; ++i) placement[graph.file_order()[next++]] = devices[*device];
  }
  if (next < graph.num_ops()) {
    throw InputError(ops.Place(), "has devices for " + std::to_string(next) + " ops (graph " + Quoted(graph.name()) +
                                      " has " + std::to_string(graph.num_ops()) + ")");
  }
  return placement;
}

// Each op at most once, on the device where it is placed.
PlacementOrder ReadOrder(const JsonNode& node, const Placement& placement, const Graph& graph, const Cluster& cluster) {
  PlacementOrder order;
  order.ops.resize(cluster.num_devices());
  std::vector<bool> is_listed(graph.num_ops(), false);
  for (const JsonMember& member : node.Object("an object: a list of ops for each device")) {
    const JsonNode list(node, member.key, member.value);
    const auto device = cluster.FindDevice(member.key);
    if (!device) throw InputError(list.Place(), "is no device of cluster " + Quoted(cluster.name()));
    for (std::size_t i = 0; i < list.List("a list of ops").size(); ++i) {
      const JsonNode entry(list, i, list.List()[i]);
      const auto op = graph.FindOp(entry.Text("the name of an op"));
      if (!op) throw InputError(entry.Place(), Quoted(entry.Text()) + " is not an op of graph " + Quoted(graph.name()));
      if (placement[*op] != *device) {
        throw InputError(entry.Place(), Quoted(entry.Text()) + " is placed on " + cluster.device(placement[*op]).name);
      }
      if (is_listed[Index(*op)]) throw InputError(entry.Place(), Quoted(entry.Text()) + " is there twice");
      is_listed[Index(*op)] = true;
      order.ops[Index(*device)].push_back(*op);
    }
  }
  return order;
}

Placement ReadPlacementFrom(std::istream& in, const Graph& graph, const Cluster& cluster, PlacementOrder* order) {
  DevicesReader reader(graph, cluster);
  bool is_first = true;
  const auto take = [&](const JsonObject& so_far, const std::string& name, const JsonValue& value) {
    // A file of another kind is called that before its ops are looked at.
    if (std::exchange(is_first, false)) CheckSchema(JsonNode(JsonValue{so_far}), kPlacementSchema, /*complete=*/false);
    reader.Take(name, value);
  };
  const JsonValue root = ParseJson(in, {.key = "devices", .take_member = take}, JsonLimitsOf(InputKind::kPlacement));
  const JsonNode node(root);
  CheckSchema(node, kPlacementSchema);
  const JsonFields fields(node, {"schema", "version", "graph", "cluster", "devices", "packed", "order"});
  // The names of graph and cluster inform people: what matters is that the ops and the devices are there.
  for (const std::string_view key : {"graph", "cluster"}) {
    if (const auto field = fields.Find(key)) field->Text();
  }
  const auto order_node = fields.Find("order");
  if (order_node && order == nullptr) {
    throw InputError("order", "the ops have an order, which is not taken here (simulate takes it)");
  }
  if (const auto packed = fields.Find("packed"); packed && !fields.Find("devices")) {
    return ReadPacked(*packed, graph, cluster);
  }
  fields.Get("devices", kDevicesAllowed).Object(kDevicesAllowed);
  const std::vector<std::optional<DeviceId>>& devices = reader.devices();
  Placement placement(graph.num_ops());
  std::size_t missing = 0;
  std::optional<OpId> first_missing;
  for (const OpId id : graph.file_order()) {
    if (devices[Index(id)]) {
      placement[id] = *devices[Index(id)];
    } else {
      ++missing;
      if (!first_missing) first_missing = id;
    }
  }
  if (first_missing) {
    throw InputError(PlaceOfOp(graph.op(*first_missing).name),
                     "is missing (every op of graph " + Quoted(graph.name()) + " once; " + std::to_string(missing) +
                         " of " + std::to_string(graph.num_ops()) + " have no device)");
  }
  if (order_node) *order = ReadOrder(*order_node, placement, graph, cluster);
  return placement;
}

// Checks of a placement, one op at a time; for what they say see CheckPlacement.
class Checker {
 public:
  Checker(const Placement& placement, const Graph& graph, const Cluster& cluster, const CostTable& costs)
      : placement_(placement), graph_(graph), cluster_(cluster), costs_(costs) {}

  void HasTime(OpId id) const {
    if (costs_.Allowed(id, placement_[id])) return;
    const Device& device = cluster_.device(placement_[id]);
    throw InputError(PlaceOfOp(graph_.op(id).name),
                     "the op has no time on device " + Quoted(device.name) + " of kind " + Quoted(device.kind) +
                         " (it may go on " +
                         DeviceNames(cluster_, [&](DeviceId other) { return costs_.Allowed(id, other); }) + ")");
  }

  void WithItsClass(OpId id) const {
    const OpId first = graph_.colocation_class(id);
    if (placement_[id] == placement_[first]) return;
    throw InputError(PlaceOfOp(graph_.op(id).name),
                     "the op is on " + DeviceName(id) + ", but " + Quoted(graph_.op(first).name) +
                         ", which colocate_with ties it to, on " + DeviceName(first) + " (both on one device)");
  }

  // A collective goes around its devices; an all-to-all goes from each to each other.
  void HasLinks(const Collective& collective) const {
    std::vector<OpId> members(collective.members.begin(), collective.members.end());
    std::sort(members.begin(), members.end(),
              [this](OpId a, OpId b) { return std::pair(placement_[a], a) < std::pair(placement_[b], b); });
    if (collective.kind != CollectiveKind::kSendReceive) {
      members.erase(std::unique(members.begin(), members.end(),
                                [this](OpId a, OpId b) { return placement_[a] == placement_[b]; }),
                    members.end());
    }
    const std::string how = "is in the group " + Quoted(collective.group) + " with";
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (collective.kind == CollectiveKind::kAllToAll) {
        for (const OpId other : members) HasLink(members[i], other, how);
      } else if (collective.kind == CollectiveKind::kSendReceive) {
        return HasLink(collective.members.front(), collective.members.back(), how);
      } else {
        HasLink(members[i], members[(i + 1) % members.size()], how);
      }
    }
  }

  void HasLinks(OpId id) const {
    for (const TensorId input : graph_.inputs(id)) {
      const Tensor& tensor = graph_.tensor(input);
      HasLink(tensor.producer, id, "reads output " + std::to_string(tensor.output_index) + " of");
    }
    for (const OpId producer : graph_.control_inputs(id)) HasLink(producer, id, "waits for");
  }

 private:
  std::string DeviceName(OpId id) const { return Quoted(cluster_.device(placement_[id]).name); }

  void HasLink(OpId producer, OpId consumer, const std::string& how) const {
    const DeviceId from = placement_[producer];
    const DeviceId to = placement_[consumer];
    if (from == to || cluster_.link(from, to).exists()) return;
    throw InputError(PlaceOfOp(graph_.op(consumer).name),
                     "the op is on " + DeviceName(consumer) + " and " + how + " " + Quoted(graph_.op(producer).name) +
                         " on " + DeviceName(producer) + ", but cluster " + Quoted(cluster_.name()) +
                         " has no link from " + DeviceName(producer) + " to " + DeviceName(consumer) +
                         " (a link with a bandwidth)");
  }

  const Placement& placement_;
  const Graph& graph_;
  const Cluster& cluster_;
  const CostTable& costs_;
};

}  // namespace

void CheckPlacement(const Placement& placement, const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  EMPLACE_CHECK_EQ(placement.num_ops(), graph.num_ops());
  EMPLACE_CHECK_EQ(costs.num_ops(), graph.num_ops());
  const Checker checker(placement, graph, cluster, costs);
  for (const OpId id : graph.file_order()) {
    EMPLACE_CHECK_LT(Index(placement[id]), cluster.num_devices());
    checker.HasTime(id);
    checker.WithItsClass(id);
    checker.HasLinks(id);
  }
  for (const Collective& collective : graph.collectives()) checker.HasLinks(collective);
}

Placement ReadPlacement(std::istream& in, const std::string& file, const Graph& graph, const Cluster& cluster,
                        PlacementOrder* order) {
  try {
    return ReadPlacementFrom(in, graph, cluster, order);
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

Graph WithOrder(const Graph& graph, const PlacementOrder& order) {
  std::vector<std::vector<OpId>> before(graph.num_ops());
  for (const std::vector<OpId>& ops : order.ops) {
    for (std::size_t i = 1; i < ops.size(); ++i) before[Index(ops[i])].push_back(ops[i - 1]);
  }
  std::vector<std::uint32_t> position(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i)
    position[Index(graph.file_order()[i])] = static_cast<std::uint32_t>(i);
  GraphBuilder builder(graph.name());
  builder.SetMetadata(graph.metadata());
  builder.Reserve(graph.num_ops());
  for (const OpId id : graph.file_order()) {
    const Op& op = graph.op(id);
    OpSpec spec;
    spec.name = op.name;
    spec.kind = op.kind;
    spec.layer = op.layer;
    spec.attrs = op.attrs;
    spec.pass = op.pass;
    spec.flop = op.flop;
    spec.temp = op.temp;
    spec.persistent = op.persistent;
    spec.time_micros = op.time_micros;
    for (const KindTime& time : op.kind_times) spec.kind_times.emplace_back(time.kind, time.micros);
    if (op.queue_times != nullptr) {
      spec.host_micros = op.queue_times->host_micros;
      spec.device_micros = op.queue_times->device_micros;
      for (const KindTime& time : op.queue_times->device_kind_times) {
        spec.device_kind_times.emplace_back(time.kind, time.micros);
      }
    }
    if (op.colocate_with) spec.colocate_with = graph.op(*op.colocate_with).name;
    for (const TensorId input : graph.inputs(id)) {
      const Tensor& tensor = graph.tensor(input);
      spec.input_positions.push_back({position[Index(tensor.producer)], tensor.output_index});
    }
    for (const OpId control : graph.control_inputs(id)) spec.control_positions.push_back(position[Index(control)]);
    for (const OpId control : before[Index(id)]) {
      const auto controls = graph.control_inputs(id);
      if (std::find(controls.begin(), controls.end(), control) == controls.end()) {
        spec.control_positions.push_back(position[Index(control)]);
      }
    }
    for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
      const Tensor& tensor = graph.tensor(MakeId<TensorId>(Index(graph.first_output(id)) + k));
      spec.outputs.push_back({tensor.size, tensor.dtype, {tensor.shape.begin(), tensor.shape.end()}});
    }
    builder.Add(spec);
  }
  return WithLocation("order", [&] { return builder.Build(); });
}

void WritePlacement(std::ostream& out, const Placement& placement, const Graph& graph, const Cluster& cluster,
                    const PlacementOrder& order) {
  EMPLACE_CHECK_EQ(placement.num_ops(), graph.num_ops());
  std::string text = "{\"schema\": \"emplace.placement\", \"version\": 1, \"graph\": ";
  AppendQuoted(&text, graph.name());
  AppendQuoted(&text.append(", \"cluster\": "), cluster.name());
  text.append(",\n \"devices\": {");
  std::string_view separator = "\n  ";
  for (const OpId id : graph.file_order()) {
    AppendQuoted(&text.append(separator), graph.op(id).name);
    AppendQuoted(&text.append(": "), cluster.device(placement[id]).name);
    separator = ",\n  ";
  }
  text.append("}");
  if (!order.empty()) {
    text.append(",\n \"order\": {");
    separator = "\n  ";
    for (std::size_t d = 0; d < order.ops.size(); ++d) {
      if (order.ops[d].empty()) continue;
      AppendQuoted(&text.append(separator), cluster.devices()[d].name);
      text.append(": [");
      std::string_view comma;
      for (const OpId id : order.ops[d]) {
        AppendQuoted(&text.append(comma), graph.op(id).name);
        comma = ", ";
      }
      text.append("]");
      separator = ",\n  ";
    }
    text.append("}");
  }
  text.append("}\n");
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace emplace
