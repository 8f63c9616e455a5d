#ifndef EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_H_
#define EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "datasets/importers/registry.h"
#include "datasets/importers/tensorflow_file.h"
#include "datasets/importers/tensorflow_tracer.h"

namespace emplace::datasets {

// Times of nodes from a RunMetadata.
struct TfTimes {
  struct Run {
    double start_micros = 0;
    double micros = 0;
  };
  std::map<std::string, std::vector<Run>> runs;  // by node, in the order of their starts
  double total_micros = 0;
};

// The times of the step's ops: of GPUs those of their kernels where the file has them. Names are those of the graph:
// what TensorFlow adds to them when it inlines functions and loops is taken out. Without step_stats, the estimates of
// cost_graph count.
TfTimes TimesOfRun(const tensorflow::RunMetadata& run);

// Where a device string such as "/job:worker/replica:0/task:0/device:GPU:1" points to in a cluster: GPU k is the k-th
// accelerator, CPU k the k-th CPU. Null if the string names no device. Throws InputError if the cluster has none such.
std::optional<DeviceId> DeviceOfTfString(const std::string& text, const Cluster& cluster);
// "/job:worker/replica:0/task:0/device:GPU:1" for the second accelerator; CPUs likewise.
std::string TfDeviceString(const Cluster& cluster, DeviceId device);

// The graph of a step. `times` may be null. With a cluster, times are those of the kinds of its devices, and the
// placement is what the nodes' device strings say.
Imported MakeTensorFlowGraph(const TensorFlowFile& file, const TfProgram& program, const TfTimes* times,
                             const Cluster* cluster);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_H_
