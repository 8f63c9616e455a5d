#ifndef EMPLACE_DATASETS_EXPORTERS_TENSORFLOW_DEVICES_H_
#define EMPLACE_DATASETS_EXPORTERS_TENSORFLOW_DEVICES_H_

#include <string>
#include <string_view>

#include "sim/cluster.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::datasets {

// A placement of a graph of TensorFlow as JSON: the name of each node with its device, such as
// "/job:worker/replica:0/task:0/device:GPU:1" for the second accelerator. The copies of a node that a loop's iterations
// have are one entry. Throws InputError where they are on different devices: TensorFlow has one node for them.
std::string WriteTensorFlowDevices(const Graph& graph, const Cluster& cluster, const Placement& placement);

// The placement that such a file says. Throws InputError on a name that no op has, and on an op without an entry.
Placement ReadTensorFlowDevices(std::string_view text, const std::string& file, const Graph& graph,
                                const Cluster& cluster);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_EXPORTERS_TENSORFLOW_DEVICES_H_
