#ifndef EMPLACE_SIM_PLACEMENT_H_
#define EMPLACE_SIM_PLACEMENT_H_

#include <cstddef>
#include <iosfwd>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/graph.h"

namespace emplace {

class CostTable;

// Which device each op runs on: one DeviceId per op, by OpId. In a coarse graph, the ops are groups.
class Placement {
 public:
  Placement() = default;
  explicit Placement(std::size_t num_ops, DeviceId device = {}) : devices_(num_ops, device) {}
  explicit Placement(std::vector<DeviceId> devices) : devices_(std::move(devices)) {}

  std::size_t num_ops() const { return devices_.size(); }
  DeviceId operator[](OpId id) const { return devices_[Index(id)]; }
  DeviceId& operator[](OpId id) { return devices_[Index(id)]; }
  std::span<const DeviceId> devices() const { return devices_; }
  bool operator==(const Placement&) const = default;

 private:
  std::vector<DeviceId> devices_;
};

// Refuses what cannot run: an op where it has no time, a split colocation class, a tensor or control edge over a pair
// of devices without a link. Throws InputError, its place `devices["OP"]`.
void CheckPlacement(const Placement& placement, const Graph& graph, const Cluster& cluster, const CostTable& costs);

// An order of ops on devices: each device starts those of its list in that order, and each op still waits for its
// inputs.
struct PlacementOrder {
  std::vector<std::vector<OpId>> ops;  // [num_devices]
  bool empty() const { return ops.empty(); }
};
// The graph with a control edge from each op of a list to the next one, by which the engines start them in that order.
// Throws InputError("order") where the order contradicts the graph, with the ops on the cycle.
Graph WithOrder(const Graph& graph, const PlacementOrder& order);

// placement.json, `emplace.placement` version 1. ReadPlacement throws InputError (its place starts with `file`) on
// anything that is not a placement of every op of `graph` on devices of `cluster`. Whether it can run is
// CheckPlacement's question.
// Without `order`, a file that has one is refused.
Placement ReadPlacement(std::istream& in, const std::string& file, const Graph& graph, const Cluster& cluster,
                        PlacementOrder* order = nullptr);
void WritePlacement(std::ostream& out, const Placement& placement, const Graph& graph, const Cluster& cluster,
                    const PlacementOrder& order = {});

}  // namespace emplace

#endif  // EMPLACE_SIM_PLACEMENT_H_
