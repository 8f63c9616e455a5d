#include "profiler/torch_part.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "sim/check.h"

namespace emplace {
namespace {

// Beside the program, where an installation has it, or where it was built.
void* OpenLibrary() {
  // Read when libgomp is loaded: a device is one core, and has one thread.
  setenv("OMP_NUM_THREADS", "1", /*overwrite=*/1);
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::filesystem::path& path :
       {program.parent_path() / EMPLACE_TORCH_HARDWARE_FILE, std::filesystem::path(EMPLACE_TORCH_HARDWARE_PATH)}) {
    if (!std::filesystem::exists(path, error)) continue;
    if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    throw InputError(path.string(), std::string("cannot be loaded (") + dlerror() + ")");
  }
  throw InputError(EMPLACE_TORCH_HARDWARE_FILE,
                   "is not beside the program (the library with LibTorch's part, which runs ops on real devices)");
}

}  // namespace

const TorchHardwarePart& LoadTorchHardware() {
  // Stays for good: LibTorch cannot be unloaded.
  static const TorchHardwarePart* const part = [] {
    void* const found = dlsym(OpenLibrary(), kTorchHardwareName);
    if (found == nullptr) throw InputError(EMPLACE_TORCH_HARDWARE_FILE, "is of another version of emplace");
    return static_cast<const TorchHardwarePart*>(found);
  }();
  return *part;
}

HardwareBackend& TorchHardware() { return *LoadTorchHardware().hardware(); }

}  // namespace emplace
