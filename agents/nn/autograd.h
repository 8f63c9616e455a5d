#ifndef EMPLACE_AGENTS_NN_AUTOGRAD_H_
#define EMPLACE_AGENTS_NN_AUTOGRAD_H_

#include <memory>
#include <span>
#include <string>

#include "agents/nn/network.h"

namespace emplace {

// The same network as LibTorch tensors, its gradients by autograd: the definition that the plain kernels of Network are
// held against, and what runs on a GPU. Weights are those of the Network, copied at each Forward.
class AutogradNetwork {
 public:
  // Keeps a reference to `network`. `device`: cpu or cuda. Throws InputError if there is no such device.
  AutogradNetwork(const Network& network, const std::string& device);
  ~AutogradNetwork();

  // As Network's.
  const Matrix& Forward(const StateBatch& states);
  void Backward(const Matrix& d_logits, std::span<float> gradients);

 private:
  struct Tensors;
  const Network& network_;
  std::unique_ptr<Tensors> tensors_;
  Matrix logits_;
};

// GFLOP/s of a product of two float [size, size] matrices with the BLAS that LibTorch runs on, one thread, best of
// several: the reference BLAS is 10 to 30 times slower than OpenBLAS.
double MatrixProductGflops(int size);

// One thread for everything that LibTorch and its BLAS do in this process: workers are processes or threads of ours.
void UseOneTorchThread();

}  // namespace emplace

#endif  // EMPLACE_AGENTS_NN_AUTOGRAD_H_
