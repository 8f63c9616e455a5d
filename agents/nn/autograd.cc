#include "agents/nn/autograd.h"

#include <string>

#include "sim/check.h"
#include "sim/load_library.h"

namespace emplace {
namespace {

const TorchPart& LoadTorchPart() {
  // Stays for good: LibTorch cannot be unloaded.
  static const auto* const part = static_cast<const TorchPart*>(
      LoadLibraryPart({.file = EMPLACE_TORCH_FILE,
                       .built = EMPLACE_TORCH_PATH,
                       .symbol = kTorchPartName,
                       .what = "the library with LibTorch's part, which autograd and --torch-device cuda need"}));
  return *part;
}

}  // namespace

std::unique_ptr<AutogradNetwork> MakeAutogradNetwork(const Network& network, const std::string& device) {
  if (device != "cpu" && device != "cuda") throw InputError("--torch-device", "is \"" + device + "\" (cpu or cuda)");
  return std::unique_ptr<AutogradNetwork>(LoadTorchPart().make(network, device));
}

double MatrixProductGflops(int size) { return LoadTorchPart().matrix_product_gflops(size); }

}  // namespace emplace
