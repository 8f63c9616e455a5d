#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "profiler/cupti_session.h"
#include "sim/check.h"

namespace emplace {
namespace {

#ifdef EMPLACE_CUPTI_FILE
// Beside the program, where an installation has it, or where it was built.
const CuptiPart& LoadPart() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::filesystem::path& path :
       {program.parent_path() / EMPLACE_CUPTI_FILE, std::filesystem::path(EMPLACE_CUPTI_PATH)}) {
    if (!std::filesystem::exists(path, error)) continue;
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw InputError(path.string(), std::string("cannot be loaded (") + dlerror() + ")");
    void* const found = dlsym(library, kCuptiName);
    if (found == nullptr) throw InputError(path.string(), "is of another version of emplace");
    return *static_cast<const CuptiPart*>(found);
  }
  throw InputError(EMPLACE_CUPTI_FILE, "is not beside the program (the library that profiles CUDA devices)");
}
#else
const CuptiPart& LoadPart() {
  throw InputError("CUDA devices", "built without CUPTI (the CUDA toolkit was not found)");
}
#endif

}  // namespace

ActivitySession& CuptiSession() {
  static const CuptiPart& part = LoadPart();  // stays for good: CUPTI cannot be unloaded
  return *part.session();
}

}  // namespace emplace
