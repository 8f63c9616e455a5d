#include "profiler/torch_plugin.h"

#include <cstdlib>

#include "sim/base/plugin.h"

namespace emplace::profiler {

const TorchHardwareExports& LoadTorchHardware() {
  // Stays for good: LibTorch cannot be unloaded.
  static const auto* const part = [] {
    // Read when libgomp is loaded: a device is one core, and has one thread.
    setenv("OMP_NUM_THREADS", "1", /*overwrite=*/1);
    return static_cast<const TorchHardwareExports*>(
        LoadPlugin({.file = EMPLACE_TORCH_HARDWARE_FILE,
                    .built = EMPLACE_TORCH_HARDWARE_PATH,
                    .symbol = kTorchHardwareName,
                    .what = "the library with LibTorch's part, which runs ops on real devices; the build target "
                            "emplace_all makes it"}));
  }();
  return *part;
}

HardwareBackend& TorchHardware() { return *LoadTorchHardware().hardware(); }

}  // namespace emplace::profiler
