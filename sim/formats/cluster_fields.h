#ifndef EMPLACE_SIM_FORMATS_CLUSTER_FIELDS_H_
#define EMPLACE_SIM_FORMATS_CLUSTER_FIELDS_H_

#include "sim/base/json_value.h"
#include "sim/cluster.h"

namespace emplace {

// The cluster that the fields of a cluster.yaml describe (cluster_yaml.h). Throws InputError, its place a path.
Cluster ClusterFromFields(const JsonValue& root);

}  // namespace emplace

#endif  // EMPLACE_SIM_FORMATS_CLUSTER_FIELDS_H_
