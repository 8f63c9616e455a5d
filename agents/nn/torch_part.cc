#include "agents/nn/torch_part.h"

#include "sim/check.h"
#include "sim/load_library.h"

namespace emplace {

const TorchPart& LoadTorchPart() {
  // Stays for good: LibTorch cannot be unloaded.
  static const auto* const part = static_cast<const TorchPart*>(
      LoadLibraryPart({.file = EMPLACE_TORCH_FILE,
                       .built = EMPLACE_TORCH_PATH,
                       .symbol = kTorchPartName,
                       .what = "the library with LibTorch's part, which some agents, autograd and --torch-device cuda "
                               "need; the build target emplace_all makes it"}));
  return *part;
}

void CheckTorchDevice(const std::string& device) {
  if (device != "cpu" && device != "cuda") throw InputError("--torch-device", "is \"" + device + "\" (cpu or cuda)");
  if (device == "cuda") LoadTorchPart().check_device(device);
}

}  // namespace emplace
