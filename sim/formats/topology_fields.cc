#include "sim/formats/topology_fields.h"

#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/units.h"

namespace emplace {
namespace {

constexpr std::size_t kMaxSwitches = 1 << 16;
constexpr std::size_t kMaxLinks = 1 << 20;

using Vertices = std::map<std::string, Topology::Vertex, std::less<>>;

// Devices, then switches.
Vertices ReadVertices(const JsonFields& fields, const std::map<std::string, std::size_t, std::less<>>& devices,
                      std::vector<std::string>* switches) {
  Vertices vertices;
  for (const auto& [name, id] : devices) vertices.emplace(name, static_cast<Topology::Vertex>(id));
  const auto field = fields.Find("switches");
  if (!field) return vertices;
  const JsonList& list = field->List("a list of names");
  if (list.size() > kMaxSwitches) field->Refuse("at most " + std::to_string(kMaxSwitches) + " switches");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonNode node(*field, i, list[i]);
    switches->push_back(node.NonEmptyText());
    if (!vertices.emplace(switches->back(), static_cast<Topology::Vertex>(vertices.size())).second) {
      node.Refuse("a name that no device and no other switch has");
    }
  }
  return vertices;
}

Topology::Vertex ReadVertex(const JsonNode& node, const Vertices& vertices) {
  const auto found = vertices.find(node.Text("the name of a device or a switch"));
  if (found == vertices.end()) node.Refuse("the name of a device or a switch of this cluster");
  return found->second;
}

// A name, or a list of names.
std::vector<Topology::Vertex> ReadEnd(const JsonNode& node, const Vertices& vertices) {
  if (node.value().As<JsonList>() == nullptr) return {ReadVertex(node, vertices)};
  std::vector<Topology::Vertex> ends;
  const JsonList& list = node.List();
  for (std::size_t i = 0; i < list.size(); ++i) ends.push_back(ReadVertex(JsonNode(node, i, list[i]), vertices));
  return ends;
}

class LinkReader {
 public:
  LinkReader(const Vertices& vertices, std::vector<Topology::Link>* links) : vertices_(vertices), links_(links) {}

  void Read(const JsonNode& node) {
    const JsonFields fields(node, {"between", "from", "to", "bandwidth_gb_per_s", "latency_us"});
    Topology::Link link;
    link.bandwidth_gb_per_s =
        fields.Get("bandwidth_gb_per_s", kRateAllowed).Number(kMinGbPerS, kMaxGbPerS, kRateAllowed);
    if (const auto field = fields.Find("latency_us")) link.latency_micros = field->Number(0, kMaxMicros);
    const auto between = fields.Find("between");
    if (between && (fields.Find("from") || fields.Find("to"))) {
      throw InputError(node.Place(), "has both between and from or to (between: both directions; from and to: one)");
    }
    if (!between && !fields.Find("from") && !fields.Find("to")) {
      throw InputError(PlaceOfKey(node.Place(), "between"), "is missing (between, or from and to)");
    }
    if (!between) {
      constexpr std::string_view kAllowed = "a name, or a list of names";
      Join(ReadEnd(fields.Get("from", kAllowed), vertices_), ReadEnd(fields.Get("to", kAllowed), vertices_), link, node,
           false);
      return;
    }
    constexpr std::string_view kAllowed = "a list of two: each a name, or a list of names";
    const JsonList& list = between->List(kAllowed);
    if (list.size() != 2) between->Refuse(kAllowed);
    Join(ReadEnd(JsonNode(*between, 0, list[0]), vertices_), ReadEnd(JsonNode(*between, 1, list[1]), vertices_), link,
         node, true);
  }

 private:
  void Join(const std::vector<Topology::Vertex>& from, const std::vector<Topology::Vertex>& to, Topology::Link link,
            const JsonNode& node, bool both) {
    for (const Topology::Vertex a : from) {
      for (const Topology::Vertex b : to) {
        if (a == b) throw InputError(node.Place(), "joins a device or a switch to itself (two of them)");
        if (links_->size() + 2 > kMaxLinks) node.Refuse("at most " + std::to_string(kMaxLinks) + " links");
        link.from = a;
        link.to = b;
        links_->push_back(link);
        if (!both) continue;
        std::swap(link.from, link.to);
        links_->push_back(link);
      }
    }
  }

  const Vertices& vertices_;
  std::vector<Topology::Link>* links_;
};

Topology::GivenRoute ReadRoute(const JsonNode& node, const Vertices& vertices, std::size_t num_devices) {
  constexpr std::string_view kAllowed = "a list of names, from one device to another";
  const JsonList& list = node.List(kAllowed);
  if (list.size() < 2) node.Refuse(kAllowed);
  Topology::GivenRoute route;
  std::set<Topology::Vertex> passed;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonNode name(node, i, list[i]);
    route.push_back(ReadVertex(name, vertices));
    const bool is_end = i == 0 || i + 1 == list.size();
    if (is_end && route.back() >= num_devices) name.Refuse("the name of a device: a route begins and ends at one");
    if (!passed.insert(route.back()).second) name.Refuse("a name that the route does not have already");
  }
  return route;
}

}  // namespace

Topology TopologyFromFields(const JsonNode& node, const std::map<std::string, std::size_t, std::less<>>& devices) {
  const JsonFields fields(node, {"switches", "links", "routes"});
  std::vector<std::string> switches;
  const Vertices vertices = ReadVertices(fields, devices, &switches);
  std::vector<Topology::Link> links;
  constexpr std::string_view kLinks = "a list of links";
  const JsonNode entries = fields.Get("links", kLinks);
  LinkReader reader(vertices, &links);
  const JsonList& list = entries.List(kLinks);
  for (std::size_t i = 0; i < list.size(); ++i) reader.Read(JsonNode(entries, i, list[i]));
  std::vector<Topology::GivenRoute> given;
  if (const auto field = fields.Find("routes")) {
    const JsonList& routes = field->List("a list of routes");
    for (std::size_t i = 0; i < routes.size(); ++i) {
      given.push_back(ReadRoute(JsonNode(*field, i, routes[i]), vertices, devices.size()));
    }
  }
  try {
    return Topology(devices.size(), std::move(switches), std::move(links), std::move(given));
  } catch (const InputError& error) {
    throw InputError("", node.Place() + "." + error.what());
  }
}

NodeNetwork NetworkFromFields(const JsonNode& node, const Cluster& cluster) {
  NodeNetwork network;
  const auto read = [](const JsonFields& fields, double* bandwidth, double* latency) {
    *bandwidth = fields.Get("bandwidth_gb_per_s", kRateAllowed).Number(kMinGbPerS, kMaxGbPerS, kRateAllowed);
    if (const auto field = fields.Find("latency_us")) *latency = field->Number(0, kMaxMicros);
  };
  if (cluster.topology().empty()) {
    const JsonFields fields(node, {"bandwidth_gb_per_s", "latency_us", "gap_us"});
    read(fields, &network.link.bandwidth_gb_per_s, &network.link.latency_micros);
    if (const auto field = fields.Find("gap_us")) network.link.gap_micros = field->Number(0, kMaxMicros);
    return network;
  }
  Vertices vertices;
  for (const Device& device : cluster.devices()) {
    vertices.emplace(device.name, static_cast<Topology::Vertex>(vertices.size()));
  }
  for (const std::string& name : cluster.topology().switches()) {
    vertices.emplace(name, static_cast<Topology::Vertex>(vertices.size()));
  }
  constexpr std::string_view kPorts = "a list of ports, since the cluster has a topology";
  const JsonList& list = node.List(kPorts);
  if (list.empty()) node.Refuse(kPorts);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonNode entry(node, i, list[i]);
    const JsonFields fields(entry, {"at", "bandwidth_gb_per_s", "latency_us"});
    NodeNetwork::Port port;
    read(fields, &port.bandwidth_gb_per_s, &port.latency_micros);
    for (const Topology::Vertex at : ReadEnd(fields.Get("at", "a name, or a list of names"), vertices)) {
      port.at = at;
      network.ports.push_back(port);
    }
  }
  return network;
}

namespace {

const std::string& NameOf(Topology::Vertex vertex, const Cluster& cluster) {
  const std::size_t devices = cluster.num_devices();
  return vertex < devices ? cluster.devices()[vertex].name : cluster.topology().switches()[vertex - devices];
}

}  // namespace

std::string NetworkText(const Cluster& cluster) {
  const NodeNetwork& network = cluster.network().value();
  std::string text = "network:";
  if (network.ports.empty()) {
    AppendNumber(&text.append(" {bandwidth_gb_per_s: "), network.link.bandwidth_gb_per_s);
    AppendNumber(&text.append(", latency_us: "), network.link.latency_micros);
    AppendNumber(&text.append(", gap_us: "), network.link.gap_micros);
    return text.append("}\n");
  }
  text.push_back('\n');
  for (const NodeNetwork::Port& port : network.ports) {
    AppendQuoted(&text.append("  - {at: "), NameOf(port.at, cluster));
    AppendNumber(&text.append(", bandwidth_gb_per_s: "), port.bandwidth_gb_per_s);
    AppendNumber(&text.append(", latency_us: "), port.latency_micros);
    text.append("}\n");
  }
  return text;
}

std::string TopologyText(const Cluster& cluster) {
  const Topology& topology = cluster.topology();
  const auto name_of = [&](Topology::Vertex vertex) -> const std::string& { return NameOf(vertex, cluster); };
  std::string text = "topology:\n";
  std::string_view separator = "  switches: [";
  for (const std::string& name : topology.switches()) {
    AppendQuoted(&text.append(std::exchange(separator, ", ")), name);
  }
  if (!topology.switches().empty()) text.append("]\n");
  text.append(topology.links().empty() ? "  links: []\n" : "  links:\n");
  for (std::size_t i = 0; i < topology.links().size(); ++i) {
    const Topology::Link& link = topology.links()[i];
    Topology::Link back = link;
    std::swap(back.from, back.to);
    const bool is_both = i + 1 < topology.links().size() && topology.links()[i + 1] == back;
    AppendQuoted(&text.append(is_both ? "    - {between: [" : "    - {from: "), name_of(link.from));
    AppendQuoted(&text.append(is_both ? ", " : ", to: "), name_of(link.to));
    AppendNumber(&text.append(is_both ? "], bandwidth_gb_per_s: " : ", bandwidth_gb_per_s: "), link.bandwidth_gb_per_s);
    AppendNumber(&text.append(", latency_us: "), link.latency_micros);
    text.append("}\n");
    i += is_both ? 1 : 0;
  }
  if (!topology.given().empty()) text.append("  routes:\n");
  for (const Topology::GivenRoute& route : topology.given()) {
    std::string_view before = "    - [";
    for (const Topology::Vertex vertex : route) {
      AppendQuoted(&text.append(std::exchange(before, ", ")), name_of(vertex));
    }
    text.append("]\n");
  }
  return text;
}

}  // namespace emplace
