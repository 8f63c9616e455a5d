#ifndef EMPLACE_SIM_CLUSTER_YAML_H_
#define EMPLACE_SIM_CLUSTER_YAML_H_

#include <iosfwd>
#include <string>

#include "sim/cluster.h"

namespace emplace {

// cluster.yaml, `emplace.cluster` version 1 (JSON is YAML too). `file` stands in front of every error. Throws
// InputError.
Cluster ReadCluster(std::istream& in, const std::string& file);
// A file that ReadCluster reads to the same cluster.
void WriteCluster(std::ostream& out, const Cluster& cluster);

}  // namespace emplace

#endif  // EMPLACE_SIM_CLUSTER_YAML_H_
