#include "agents/nn/torch_plugin.h"

#include "sim/base/check.h"
#include "sim/base/plugin.h"

namespace emplace::agents {

const TorchExports& LoadTorch() {
  // Never unloaded, as LibTorch does not support it.
  static const auto* const part = static_cast<const TorchExports*>(
      LoadPlugin({.file = EMPLACE_TORCH_FILE,
                  .built = EMPLACE_TORCH_PATH,
                  .symbol = kTorchName,
                  .what = "the library with LibTorch's part, which some agents, autograd and the torch device cuda "
                          "need; the build target emplace_all makes it"}));
  return *part;
}

void CheckTorchDevice(const std::string& device) {
  if (device != "cpu" && device != "cuda") throw InputError("torch device", "is \"" + device + "\" (cpu or cuda)");
  if (device == "cuda") LoadTorch().check_device(device);
}

}  // namespace emplace::agents
