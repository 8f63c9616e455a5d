#ifndef EMPLACE_AGENTS_NN_TORCH_PLUGIN_H_
#define EMPLACE_AGENTS_NN_TORCH_PLUGIN_H_

#include <string>

namespace emplace::agents {

class AutogradNetwork;
class GraphTransformer;
class Network;
class ParameterSet;
class SequenceNetwork;
struct GraphTransformerOptions;
struct SequenceOptions;

// Contents of the library that contains LibTorch, exported as kTorchName. It is loaded when its first network is
// created. Linked to the program, it would add 0.4 s to the start of every command.
struct TorchExports {
  void (*check_device)(const std::string& device);  // throws InputError if this machine has no such device
  AutogradNetwork* (*make)(const Network& network, const std::string& device);
  double (*matrix_product_gflops)(int size);
  SequenceNetwork* (*make_sequence)(const SequenceOptions& options, const ParameterSet& parameters,
                                    const std::string& device);
  GraphTransformer* (*make_graph_transformer)(const GraphTransformerOptions& options, const ParameterSet& parameters,
                                              const std::string& device);
};
inline constexpr char kTorchName[] = "emplace_torch_part";

// Throws InputError if the library cannot be loaded.
const TorchExports& LoadTorch();

// Throws InputError unless `device` is cpu, or cuda where LibTorch finds a GPU.
void CheckTorchDevice(const std::string& device);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_TORCH_PLUGIN_H_
