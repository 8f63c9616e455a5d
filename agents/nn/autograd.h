#ifndef EMPLACE_AGENTS_NN_AUTOGRAD_H_
#define EMPLACE_AGENTS_NN_AUTOGRAD_H_

#include <memory>
#include <span>
#include <string>

#include "agents/nn/network.h"

namespace emplace::agents {

// The same network as LibTorch tensors, with gradients by autograd. It is the reference for the plain kernels of
// Network in tests, and runs on a GPU. Weights are those of the Network, copied at each Forward. LibTorch is in a
// separate library that is loaded on demand (torch_plugin.h).
class AutogradNetwork {
 public:
  virtual ~AutogradNetwork() = default;
  // As in Network.
  virtual const Matrix& Forward(const StateBatch& states) = 0;
  virtual void Backward(const Matrix& d_logits, std::span<float> gradients) = 0;
};

// Keeps a reference to `network`. `device`: cpu or cuda. Uses one thread. Throws InputError if there is no such device,
// or LibTorch cannot be loaded.
std::unique_ptr<AutogradNetwork> MakeAutogradNetwork(const Network& network, const std::string& device);

// GFLOP/s of a product of two float [size, size] matrices with LibTorch's BLAS, on one thread, best of several. The
// reference BLAS is 10 to 30 times slower than OpenBLAS.
double MatrixProductGflops(int size);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_AUTOGRAD_H_
