#ifndef EMPLACE_AGENTS_NN_TORCH_MAKERS_H_
#define EMPLACE_AGENTS_NN_TORCH_MAKERS_H_

#include <torch/torch.h>

#include <map>
#include <span>
#include <string>

#include "agents/nn/autograd.h"
#include "agents/nn/graph_transformer.h"
#include "agents/nn/network.h"
#include "agents/nn/parameters.h"
#include "agents/nn/sequence_network.h"

namespace emplace::agents {

// What the sources of the library with LibTorch share. Only they include this.

AutogradNetwork* MakeTorchAutograd(const Network& network, const std::string& device);
SequenceNetwork* MakeTorchSequence(const SequenceOptions& options, const ParameterSet& parameters,
                                   const std::string& device);
GraphTransformer* MakeTorchGraphTransformer(const GraphTransformerOptions& options, const ParameterSet& parameters,
                                            const std::string& device);

// cpu, or the first GPU. Throws InputError if there is none. From then on one thread computes.
torch::Device OpenTorchDevice(const std::string& device);

// The weights of a ParameterSet as tensors that gradients are computed for. On a CPU they share the set's memory.
class TorchWeights {
 public:
  TorchWeights(const ParameterSet& parameters, torch::Device device) : parameters_(parameters), device_(device) {}
  // Takes over the current values; earlier tensors are let go.
  void Refresh();
  const torch::Tensor& operator[](const std::string& name) const { return tensors_.at(name); }
  const std::map<std::string, torch::Tensor>& tensors() const { return tensors_; }
  // x NAME.weight + NAME.bias
  torch::Tensor Affine(const std::string& name, const torch::Tensor& x) const {
    return x.matmul((*this)[name + ".weight"]) + (*this)[name + ".bias"];
  }
  // Adds the gradients that backward() left, in the order of the set.
  void AddGradients(std::span<float> gradients) const;

 private:
  const ParameterSet& parameters_;
  torch::Device device_;
  std::map<std::string, torch::Tensor> tensors_;
};

// The logits of a network's last pass forward, and the way back from them.
class TorchLogits {
 public:
  // A copy of ours. Without `backward` the tensor, and all that it was computed from, is let go.
  const Matrix& Keep(torch::Tensor logits, bool backward);
  // Adds the gradients of `weights` for those by the logits that were kept. They are let go.
  void Backward(const Matrix& d_logits, const TorchWeights& weights, std::span<float> gradients);

 private:
  torch::Tensor logits_;
  Matrix values_;
};

// A matrix of ours on the device, [rows, width], and a dense copy back.
torch::Tensor ToTorch(const Matrix& matrix, torch::Device device);
void FromTorch(const torch::Tensor& tensor, Matrix* matrix);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_TORCH_MAKERS_H_
