// Cluster::Repeat: several nodes, joined by a network.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/cluster.h"

namespace emplace {
namespace {

constexpr std::size_t kMostDevices = 1024;  // of a cluster file

std::string NameInNode(const std::string& name, std::size_t node) {
  return node == 0 ? name : fmt::format("node{}/{}", node, name);
}

// The part of a name up to the colon, and its number; npos: it has none.
std::pair<std::string, std::size_t> SplitNumber(const std::string& name) {
  const std::size_t colon = name.rfind(':');
  constexpr std::size_t kMostDigits = 9;
  if (colon == std::string::npos) return {name, std::string::npos};
  const std::string digits = name.substr(colon + 1);
  const bool is_number = !digits.empty() && digits.size() <= kMostDigits &&
                         std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? std::pair(name.substr(0, colon + 1), static_cast<std::size_t>(std::stoul(digits)))
                   : std::pair(name, std::string::npos);
}

// The copies of devices: those whose names differ in their numbers alone stay together, in the order of nodes.
struct Copies {
  std::vector<Device> devices;
  std::vector<std::size_t> id;  // [node * number of devices of a node + device]
};

Copies CopyDevices(const std::vector<Device>& devices, std::size_t nodes) {
  std::vector<std::string> stems;              // in order of their first devices
  std::map<std::string, std::size_t> numbers;  // by stem: how far a copy's numbers are from those before
  for (const Device& device : devices) {
    const auto [stem, number] = SplitNumber(device.name);
    if (std::ranges::find(stems, stem) == stems.end()) stems.push_back(stem);
    if (number != std::string::npos) numbers[stem] = std::max(numbers[stem], number + 1);
  }
  Copies copies;
  copies.id.resize(nodes * devices.size());
  for (const std::string& stem : stems) {
    for (std::size_t node = 0; node < nodes; ++node) {
      for (std::size_t i = 0; i < devices.size(); ++i) {
        const auto [own, number] = SplitNumber(devices[i].name);
        if (own != stem) continue;
        Device copy = devices[i];
        copy.name = number == std::string::npos ? NameInNode(stem, node)
                                                : fmt::format("{}{}", stem, number + node * numbers[stem]);
        if (!copy.host.empty()) copy.host = NameInNode(copy.host, node);
        if (copy.issue && !copy.issue->lane.empty()) copy.issue->lane = NameInNode(copy.issue->lane, node);
        copies.id[node * devices.size() + i] = copies.devices.size();
        copies.devices.push_back(std::move(copy));
      }
    }
  }
  return copies;
}

// A switch joins the ports of all nodes.
Topology JoinedTopology(const Topology& node, const NodeNetwork& network, std::size_t nodes,
                        const std::vector<std::size_t>& id) {
  const std::size_t n = node.num_devices();
  const std::size_t num_devices = nodes * n;
  std::vector<std::string> switches = {"network"};
  for (std::size_t k = 0; k < nodes; ++k) {
    for (const std::string& name : node.switches()) switches.push_back(NameInNode(name, k));
  }
  const auto vertex = [&](std::size_t k, Topology::Vertex v) {
    return static_cast<Topology::Vertex>(v < n ? id[k * n + v]
                                               : num_devices + 1 + k * node.switches().size() + (v - n));
  };
  const auto joint = static_cast<Topology::Vertex>(num_devices);
  std::vector<Topology::Link> links;
  for (std::size_t k = 0; k < nodes; ++k) {
    for (const Topology::Link& link : node.links()) {
      links.push_back({vertex(k, link.from), vertex(k, link.to), link.bandwidth_gb_per_s, link.latency_micros});
    }
    for (const NodeNetwork::Port& port : network.ports) {
      links.push_back({vertex(k, port.at), joint, port.bandwidth_gb_per_s, port.latency_micros});
      links.push_back({joint, vertex(k, port.at), port.bandwidth_gb_per_s, port.latency_micros});
    }
  }
  Topology joined(num_devices, switches, links);
  std::vector<Topology::GivenRoute> given;
  for (std::size_t k = 0; k < nodes; ++k) {
    for (std::size_t i = 0; i < n * n; ++i) {
      Topology::GivenRoute inside = {vertex(k, static_cast<Topology::Vertex>(i / n))};
      for (const std::uint32_t link : node.Route(i / n, i % n)) inside.push_back(vertex(k, node.links()[link].to));
      Topology::GivenRoute found = {inside.front()};
      for (const std::uint32_t link : joined.Route(id[k * n + i / n], id[k * n + i % n])) {
        found.push_back(joined.links()[link].to);
      }
      if (inside.size() > 1 && found != inside) given.push_back(std::move(inside));
    }
  }
  if (given.empty()) return joined;
  return Topology(num_devices, std::move(switches), std::move(links), std::move(given));
}

}  // namespace

Cluster Cluster::Repeat(std::size_t nodes) const {
  if (nodes == 0) throw InputError("", "is 0 (at least 1)");
  if (nodes == 1) return *this;
  if (!network_) {
    throw InputError("", "cluster " + name_ + " names no network that joins nodes (network: in its file)");
  }
  const std::size_t n = num_devices();
  if (nodes * n > kMostDevices) {
    throw InputError("", fmt::format("{} nodes have {} devices (at most {})", nodes, nodes * n, kMostDevices));
  }
  Copies copies = CopyDevices(devices_, nodes);
  const std::string name = fmt::format("{}x-{}", nodes, name_);
  const auto joined = [&](auto by) {
    Cluster cluster = Cluster(name, source_, std::move(copies.devices), std::move(by), channels_, own_kinds_)
                          .WithCollectiveCosts(collective_costs_);
    cluster.names_cpu_ = names_cpu_;
    return cluster;
  };
  if (!topology().empty()) return joined(JoinedTopology(topology(), *network_, nodes, copies.id));
  std::vector<Link> links(nodes * n * nodes * n, network_->link);
  for (std::size_t k = 0; k < nodes; ++k) {
    for (std::size_t i = 0; i < n * n; ++i) {
      links[copies.id[k * n + i / n] * nodes * n + copies.id[k * n + i % n]] = links_[i];
    }
  }
  return joined(std::move(links));
}

}  // namespace emplace
