#include "agents/nn/autograd.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "sim/check.h"

namespace emplace {
namespace {

// Beside the program, where an installation has it, or where it was built.
void* OpenLibrary() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::filesystem::path& path :
       {program.parent_path() / EMPLACE_TORCH_FILE, std::filesystem::path(EMPLACE_TORCH_PATH)}) {
    if (!std::filesystem::exists(path, error)) continue;
    if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    throw InputError(path.string(), std::string("cannot be loaded (") + dlerror() + ")");
  }
  throw InputError(EMPLACE_TORCH_FILE,
                   "is not beside the program (the library with LibTorch's part, which autograd "
                   "and --torch-device cuda need)");
}

const TorchPart& LoadTorchPart() {
  // Stays for good: LibTorch cannot be unloaded.
  static const TorchPart* const part = [] {
    void* const found = dlsym(OpenLibrary(), kTorchPartName);
    if (found == nullptr) throw InputError(EMPLACE_TORCH_FILE, "is of another version of emplace");
    return static_cast<const TorchPart*>(found);
  }();
  return *part;
}

}  // namespace

std::unique_ptr<AutogradNetwork> MakeAutogradNetwork(const Network& network, const std::string& device) {
  if (device != "cpu" && device != "cuda") throw InputError("--torch-device", "is \"" + device + "\" (cpu or cuda)");
  return std::unique_ptr<AutogradNetwork>(LoadTorchPart().make(network, device));
}

double MatrixProductGflops(int size) { return LoadTorchPart().matrix_product_gflops(size); }

}  // namespace emplace
