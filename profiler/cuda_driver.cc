#include "profiler/cuda_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace emplace::profiler {

CudaDriver::CudaDriver(const char* library) {
  void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(opened, "cuInit"));
  if (init != nullptr && init(0) == 0) library_ = opened;
}

template <typename Function>
Function CudaDriver::Find(const char* name) const {
  return library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, name));
}

std::string CudaDriver::DeviceName(int device) const {
  const auto get = Find<int (*)(char*, int, int)>("cuDeviceGetName");
  std::array<char, 256> name{};
  if (get == nullptr || get(name.data(), static_cast<int>(name.size()), device) != 0) return "cuda";
  return name.data();
}

std::optional<Bytes> CudaDriver::FreeMemory(int device) const {
  // The call is about the current context's device; the primary context is the one that LibTorch uses, too.
  const auto retain = Find<int (*)(void**, int)>("cuDevicePrimaryCtxRetain");
  const auto push = Find<int (*)(void*)>("cuCtxPushCurrent_v2");
  const auto get = Find<int (*)(std::size_t*, std::size_t*)>("cuMemGetInfo_v2");
  const auto pop = Find<int (*)(void**)>("cuCtxPopCurrent_v2");
  const auto release = Find<int (*)(int)>("cuDevicePrimaryCtxRelease_v2");
  if (retain == nullptr || push == nullptr || get == nullptr || pop == nullptr || release == nullptr) {
    return std::nullopt;
  }
  void* context = nullptr;
  if (retain(&context, device) != 0) return std::nullopt;
  std::optional<Bytes> memory;
  if (push(context) == 0) {
    std::size_t free = 0;
    std::size_t total = 0;
    if (get(&free, &total) == 0) memory = Bytes{static_cast<std::int64_t>(free)};
    pop(&context);
  }
  release(device);
  return memory;
}

std::string CudaDriver::PciBusId(int device) const {
  const auto get = Find<int (*)(char*, int, int)>("cuDeviceGetPCIBusId");
  std::array<char, 64> id{};
  if (get == nullptr || get(id.data(), static_cast<int>(id.size()), device) != 0) return "";
  return id.data();
}

std::string CudaDriver::Version() const {
  const auto get = Find<int (*)(int*)>("cuDriverGetVersion");
  int version = 0;
  if (get == nullptr || get(&version) != 0) return "";
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

const CudaDriver& ThisCudaDriver() {
  static const CudaDriver driver;
  return driver;
}

std::string CudaKind(std::string name) {
  for (const std::string_view maker : {"NVIDIA ", "Tesla "}) {
    if (name.starts_with(maker)) name.erase(0, maker.size());
  }
  for (char& c : name) c = c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::size_t end = std::min(name.find('-'), name.size());
  const bool has_digit = std::any_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(end),
                                     [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!has_digit) return name.empty() ? "cuda" : name;
  std::string kind = name.substr(0, end);
  const std::string_view in_catalogue = kind == "p100" ? "-pcie" : "-sxm2";  // suffix of boards of this model
  for (const std::string_view board : {"-pcie", "-nvl", "-sxm2"}) {
    if (board != in_catalogue && name.find(board) != std::string::npos) kind += board;
  }
  const std::size_t part = name.find("-mig-");
  if (part != std::string::npos) kind += name.substr(part);
  return kind;
}

}  // namespace emplace::profiler
