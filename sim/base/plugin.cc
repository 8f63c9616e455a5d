#include "sim/base/plugin.h"

#include <dlfcn.h>

#include <filesystem>

#include "sim/base/blas.h"
#include "sim/base/check.h"
#include "sim/base/vector_targets.h"

namespace emplace {
namespace {

void* OpenLibrary(const Plugin& part) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::filesystem::path& path : {program.parent_path() / part.file, std::filesystem::path(part.built)}) {
    if (!std::filesystem::exists(path, error)) continue;
    if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    throw InputError(path.string(), std::string("cannot be loaded (") + dlerror() + ")");
  }
  throw InputError(part.file, std::string("is not beside the program (") + part.what + ")");
}

}  // namespace

void* LoadPlugin(const Plugin& part) {
  ChooseBlasKernels(ChosenVectorTarget());
  void* const found = dlsym(OpenLibrary(part), part.symbol);
  if (found == nullptr) throw InputError(part.file, "is of another version of emplace");
  return found;
}

}  // namespace emplace
