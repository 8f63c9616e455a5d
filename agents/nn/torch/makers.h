#ifndef EMPLACE_AGENTS_NN_TORCH_MAKERS_H_
#define EMPLACE_AGENTS_NN_TORCH_MAKERS_H_

#include <torch/types.h>

#include <map>
#include <span>
#include <string>

#include "agents/nn/autograd.h"
#include "agents/nn/graph_transformer.h"
#include "agents/nn/network.h"
#include "agents/nn/parameters.h"
#include "agents/nn/sequence_network.h"

namespace emplace::agents {

// Shared by the sources of the LibTorch library. Included only by them.

AutogradNetwork* MakeTorchAutograd(const Network& network, const std::string& device);
SequenceNetwork* MakeTorchSequence(const SequenceOptions& options, const ParameterSet& parameters,
                                   const std::string& device);
// The same on a CPU, with our kernels and without autograd.
SequenceNetwork* MakeKernelSequence(const SequenceOptions& options, const ParameterSet& parameters);
GraphTransformer* MakeTorchGraphTransformer(const GraphTransformerOptions& options, const ParameterSet& parameters,
                                            const std::string& device);

// cpu, or the first GPU. Throws InputError if there is none. Limits LibTorch to one thread, and makes it keep freed
// memory (KeepFreedTensors).
torch::Device OpenTorchDevice(const std::string& device);

// From now on, LibTorch keeps the memory of large tensors that were freed, up to 1 GiB in all, for others of nearly the
// same size. The system's allocator returns them at once, and clearing new pages then takes a third of a network's
// time.
void KeepFreedTensors();

// The weights of a ParameterSet as tensors with gradients. On a CPU they share the set's memory.
class TorchWeights {
 public:
  TorchWeights(const ParameterSet& parameters, torch::Device device) : parameters_(parameters), device_(device) {}
  // Uses the current values; earlier tensors are released.
  void Refresh();
  const torch::Tensor& operator[](const std::string& name) const { return tensors_.at(name); }
  const std::map<std::string, torch::Tensor>& tensors() const { return tensors_; }
  // x NAME.weight + NAME.bias
  torch::Tensor Affine(const std::string& name, const torch::Tensor& x) const {
    return x.matmul((*this)[name + ".weight"]) + (*this)[name + ".bias"];
  }
  // Adds the gradients computed by backward(), in the order of the set.
  void AddGradients(std::span<float> gradients) const;

 private:
  const ParameterSet& parameters_;
  torch::Device device_;
  std::map<std::string, torch::Tensor> tensors_;
};

// The logits of a network's last forward pass, and their backward pass.
class TorchLogits {
 public:
  // Returns a copy as a Matrix. Without `backward` the tensor and its computation graph are released.
  const Matrix& Keep(torch::Tensor logits, bool backward);
  // Adds the gradients of `weights`, from those of the kept logits. Releases the logits.
  void Backward(const Matrix& d_logits, const TorchWeights& weights, std::span<float> gradients);

 private:
  torch::Tensor logits_;
  Matrix values_;
};

// Copies a Matrix to the device, [rows, width], and a tensor back.
torch::Tensor ToTorch(const Matrix& matrix, torch::Device device);
void FromTorch(const torch::Tensor& tensor, Matrix* matrix);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_TORCH_MAKERS_H_
