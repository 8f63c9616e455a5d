#ifndef EMPLACE_SIM_NETWORK_TOPOLOGY_H_
#define EMPLACE_SIM_NETWORK_TOPOLOGY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace emplace {

// Devices and switches, the directed links between them, and the way that a tensor takes from each device to each other
// one. Devices and switches are vertices: first the devices by id, then the switches.
class Topology {
 public:
  using Vertex = std::uint32_t;
  struct Link {
    Vertex from = 0;
    Vertex to = 0;
    double bandwidth_gb_per_s = 0;
    double latency_micros = 0;
    bool operator==(const Link&) const = default;
  };
  // A way that is not to be found: the vertices from a device to another one, both included.
  using GivenRoute = std::vector<Vertex>;

  // No devices.
  Topology() = default;
  // Finds a route for each ordered pair of devices, but for those that are given; of several for a pair the last
  // counts. Ways of fewest links are found, through no other device: each vertex is reached by the widest of its ways,
  // of equal ones from the vertex that comes first. If several links join two vertices in one direction, the first
  // of the largest bandwidth is taken. A pair may have no route. Throws InputError("routes[I]") where a given route
  // takes a link that does not exist, and InputError("links") where routes together are too long to be held.
  // Requires: ends of links and vertices of routes are below num_devices + switches.size().
  Topology(std::size_t num_devices, std::vector<std::string> switches, std::vector<Link> links,
           std::vector<GivenRoute> given = {});

  bool empty() const { return num_devices_ == 0; }
  std::size_t num_devices() const { return num_devices_; }
  const std::vector<std::string>& switches() const { return switches_; }
  const std::vector<Link>& links() const { return links_; }
  const std::vector<GivenRoute>& given() const { return given_; }
  // Indices of links(), in the order in which they are passed; empty where there is no way, and from a device to
  // itself.
  std::span<const std::uint32_t> Route(std::size_t from, std::size_t to) const;

  // With these devices only, in this order. Links that no route of theirs takes are left out, and then switches without
  // a link. A device that routes pass through stays as a switch of the name that `name_of` has.
  Topology Keep(std::span<const std::size_t> devices, std::span<const std::string> name_of) const;

 private:
  struct Reached {
    std::uint32_t hops = 0;
    double bandwidth = 0;
    std::uint32_t by = 0;  // the last link
  };

  std::uint32_t Widest(Vertex from, Vertex to) const;
  std::vector<std::uint32_t> LinksOf(std::size_t route) const;  // links of a given route
  std::vector<Reached> Reach(Vertex from) const;                // indexed by vertex
  void CheckNumberOfParts(std::span<const std::vector<std::uint32_t>> given_links) const;
  void FindRoutes(Vertex from, std::vector<std::vector<std::uint32_t>>* routes) const;

  std::size_t num_devices_ = 0;
  std::vector<std::string> switches_;
  std::vector<Link> links_;
  std::vector<GivenRoute> given_;
  std::vector<std::vector<std::uint32_t>> links_from_;  // indexed by vertex
  std::vector<std::uint32_t> route_begin_;              // [num_devices^2 + 1], row = from
  std::vector<std::uint32_t> routes_;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_NETWORK_TOPOLOGY_H_
