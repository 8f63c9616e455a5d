#include "profiler/cuda_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace emplace::profiler {
namespace {

// Null where there is no driver, or none that works.
void* Library() {
  static void* const library = []() -> void* {
    void* const opened = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) return nullptr;
    const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(opened, "cuInit"));
    return init != nullptr && init(0) == 0 ? opened : nullptr;
  }();
  return library;
}

template <typename Function>
Function Find(const char* name) {
  void* const library = Library();
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

std::string CudaDeviceName(int index) {
  const auto get = Find<int (*)(char*, int, int)>("cuDeviceGetName");
  std::array<char, 256> name{};
  if (get == nullptr || get(name.data(), static_cast<int>(name.size()), index) != 0) return "cuda";
  return name.data();
}

std::optional<Bytes> CudaDeviceMemory(int index) {
  const auto get = Find<int (*)(std::size_t*, int)>("cuDeviceTotalMem_v2");
  std::size_t bytes = 0;
  if (get == nullptr || get(&bytes, index) != 0) return std::nullopt;
  return Bytes{static_cast<std::int64_t>(bytes)};
}

std::string CudaDriverVersion() {
  const auto get = Find<int (*)(int*)>("cuDriverGetVersion");
  int version = 0;
  if (get == nullptr || get(&version) != 0) return "";
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string CudaKind(std::string name) {
  for (const std::string_view maker : {"NVIDIA ", "Tesla "}) {
    if (name.starts_with(maker)) name.erase(0, maker.size());
  }
  const std::size_t end = std::min(name.find_first_of(" -"), name.size());
  const bool has_digit = std::any_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(end),
                                     [](unsigned char c) { return std::isdigit(c) != 0; });
  if (has_digit) name.resize(end);
  for (char& c : name) c = c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name.empty() ? "cuda" : name;
}

}  // namespace emplace::profiler
