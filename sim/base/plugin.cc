#include "sim/base/plugin.h"

#include <dlfcn.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "sim/base/blas.h"
#include "sim/base/check.h"
#include "sim/base/vector_targets.h"

namespace emplace {
namespace {

namespace fs = std::filesystem;

// The folder of the program or the library that this code is in: the program, or a module of Python's.
fs::path OwnFolder() {
  Dl_info info;
  std::error_code error;
  if (dladdr(reinterpret_cast<const void*>(&OwnFolder), &info) == 0 || info.dli_fname == nullptr) return {};
  return fs::canonical(info.dli_fname, error).parent_path();
}

// Where the library may be: beside the code, where an installation has it, and where it was built.
std::vector<fs::path> PlacesOf(const Plugin& part) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<fs::path> places;
  for (const fs::path& folder : {program, OwnFolder()}) {
    if (folder.empty()) continue;
    places.push_back(folder / part.file);
    places.push_back(folder / "../lib/emplace" / part.file);    // from PREFIX/bin
    places.push_back(folder / "../../../emplace" / part.file);  // from PREFIX/lib/python3/dist-packages/emplace
  }
  places.emplace_back(part.built);
  return places;
}

void* OpenLibrary(const Plugin& part) {
  std::error_code error;
  for (const fs::path& path : PlacesOf(part)) {
    if (!fs::exists(path, error)) continue;
    if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const std::string why = dlerror();
    // The loader names no reason where the address space is used up, nor on a file system without the right to execute.
    struct statvfs system {};
    const bool may_execute = statvfs(path.c_str(), &system) != 0 || (system.f_flag & ST_NOEXEC) == 0;
    const bool has_no_room = why.ends_with("failed to map segment from shared object") && may_execute;
    if (has_no_room || why.ends_with("annot allocate memory")) throw std::bad_alloc();
    throw InputError(path.string(), "cannot be loaded (" + why + ")");
  }
  throw InputError(part.file, std::string("is not beside the program (") + part.what + ")");
}

}  // namespace

void* LoadPlugin(const Plugin& part) {
  ChooseBlasKernels(ChosenVectorTarget());
  void* const found = dlsym(OpenLibrary(part), part.symbol);
  if (found == nullptr) throw InputError(part.file, "was written by another version of emplace");
  return found;
}

}  // namespace emplace
