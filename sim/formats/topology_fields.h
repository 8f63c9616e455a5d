#ifndef EMPLACE_SIM_FORMATS_TOPOLOGY_FIELDS_H_
#define EMPLACE_SIM_FORMATS_TOPOLOGY_FIELDS_H_

#include <cstddef>
#include <map>
#include <string>

#include "sim/base/json_fields.h"
#include "sim/cluster.h"
#include "sim/network/topology.h"

namespace emplace {

// The field `topology` of cluster.yaml (docs/formats.md). `devices`: their ids by name. Throws InputError.
Topology TopologyFromFields(const JsonNode& node, const std::map<std::string, std::size_t, std::less<>>& devices);

// The field `network` of a cluster without one: a list of ports for a topology, else a link. Throws InputError.
NodeNetwork NetworkFromFields(const JsonNode& node, const Cluster& cluster);

// The field as NetworkFromFields reads it, with an end of line behind it. Requires: the cluster has a network.
std::string NetworkText(const Cluster& cluster);

// The field as TopologyFromFields reads it to the same topology, with an end of line behind it. Requires: the cluster
// has a topology.
std::string TopologyText(const Cluster& cluster);

}  // namespace emplace

#endif  // EMPLACE_SIM_FORMATS_TOPOLOGY_FIELDS_H_
