#ifndef EMPLACE_DATASETS_INFERENCE_LLAMA_CPP_H_
#define EMPLACE_DATASETS_INFERENCE_LLAMA_CPP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/inference/inference_model.h"
#include "sim/cluster.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::datasets {

// The arguments of llama.cpp's programs that say where a model is and how much memory it takes.
struct LlamaCppArguments {
  std::int64_t context = 4096;
  std::int64_t micro_batch = 512;
  std::int64_t parallel = 1;
  std::optional<std::int64_t> gpu_layers;  // none: all
  std::vector<double> tensor_split;        // empty: by the memory of the devices
  std::vector<std::string> devices;        // of -dev; empty: the servers, then the accelerators of the client
  std::vector<std::string> servers;        // HOST:PORT of --rpc: RPC0, RPC1, ..
  std::vector<std::pair<std::string, std::string>>
      overrides;  // (pattern of names, device) of -ot, the first match counts
  std::string key_type = "f16";
  std::string value_type = "f16";
  bool is_without_devices = false;   // -dev none
  std::vector<std::string> ignored;  // other arguments, which do not matter here
};
// From a command line, or a script with one whose program begins with "llama". Throws InputError on a bad value, and on
// an argument that would matter and is not modelled, by name.
LlamaCppArguments ReadLlamaCppArguments(std::string_view text, const std::string& file);

// The device of each layer and, last, of the output, as llama.cpp assigns them: the layers before the last `gpu_layers`
// (of which the output is one) to the CPU (-1), the others in order by the cumulative shares of `tensor_split`
// (llama_model::load_tensors). Requires: as many shares as devices, none negative, not all 0.
std::vector<int> LayerDevices(std::size_t num_layers, std::int64_t gpu_layers, const std::vector<double>& tensor_split);

// What a device holds under these arguments, in bytes.
struct LlamaCppMemory {
  std::string name;                // llama.cpp's: RPC0, CUDA0, ..; "Host" for the client's memory
  std::optional<DeviceId> device;  // in the cluster; none: the client has no CPU there
  std::int64_t weights = 0;
  std::int64_t caches = 0;
  std::int64_t compute = 0;
  std::int64_t bytes() const { return weights + caches + compute; }
};
struct LlamaCppSplit {
  std::string client;
  std::vector<LlamaCppMemory> devices;  // in llama.cpp's order, the host last
  std::vector<int> layers;              // index into `devices` of each layer and of the output
  std::vector<int> tensors;             // the same of each tensor of the model
};
// Throws InputError on a device that the cluster does not have. Devices of servers are those of the cluster's machine
// of that name, in the order of their ports; of servers that no machine is named after, those of the other machines in
// order.
LlamaCppSplit SplitOf(const LlamaCppArguments& arguments, const InferenceModel& model, const Cluster& cluster);

// The placement of a graph of InferenceGraph() under these arguments. Throws as SplitOf.
Placement PlacementOf(const LlamaCppArguments& arguments, const Graph& graph, const Cluster& cluster);
// Whether a graph is one of InferenceGraph().
bool IsInferenceGraph(const Graph& graph);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_INFERENCE_LLAMA_CPP_H_
