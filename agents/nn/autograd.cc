#include "agents/nn/autograd.h"

#include "agents/nn/torch_plugin.h"

namespace emplace::agents {

std::unique_ptr<AutogradNetwork> MakeAutogradNetwork(const Network& network, const std::string& device) {
  CheckTorchDevice(device);
  return std::unique_ptr<AutogradNetwork>(LoadTorch().make(network, device));
}

double MatrixProductGflops(int size) { return LoadTorch().matrix_product_gflops(size); }

}  // namespace emplace::agents
