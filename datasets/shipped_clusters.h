#ifndef EMPLACE_DATASETS_SHIPPED_CLUSTERS_H_
#define EMPLACE_DATASETS_SHIPPED_CLUSTERS_H_

#include <span>
#include <string>
#include <string_view>

#include "sim/cluster.h"

namespace emplace::datasets {

// A row of `emplace list clusters`: a file of datasets/clusters, compiled into the program.
struct ShippedCluster {
  std::string_view name;
  std::string_view yaml;
};
std::span<const ShippedCluster> AllShippedClusters();

// The shipped cluster of that name, or else the file at that path. Throws InputError, which lists the
// shipped names if it is neither.
Cluster LoadCluster(const std::string& name_or_path);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_SHIPPED_CLUSTERS_H_
