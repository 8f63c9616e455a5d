#include "profiler/gpu_clocks.h"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <utility>

namespace emplace::profiler {
namespace {

constexpr int kSmClock = 1;  // NVML_CLOCK_SM

// NVML's bits of what holds a clock back. An idle GPU, and clocks that someone has set, are no such things.
constexpr std::array<std::pair<unsigned long long, const char*>, 6> kReasons = {{
    {0x04, "power limit"},
    {0x08, "hardware slowdown"},
    {0x10, "sync boost"},
    {0x20, "temperature"},
    {0x40, "temperature (hardware)"},
    {0x80, "power brake"},
}};

}  // namespace

GpuClocks::GpuClocks(const char* library) {
  void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return;
  const auto init = reinterpret_cast<int (*)()>(dlsym(opened, "nvmlInit_v2"));
  if (init != nullptr && init() == 0) library_ = opened;
}

template <typename Function>
Function GpuClocks::Find(const char* name) const {
  return library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, name));
}

std::optional<DeviceClock> GpuClocks::Read(const std::string& pci_bus_id) const {
  const auto find = Find<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  const auto clock = Find<int (*)(void*, int, unsigned*)>("nvmlDeviceGetClockInfo");
  // Of the same function, the older name is in every NVML.
  const auto reasons = Find<int (*)(void*, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons");
  if (find == nullptr || clock == nullptr || reasons == nullptr || pci_bus_id.empty()) return std::nullopt;
  void* device = nullptr;
  unsigned mhz = 0;
  unsigned long long bits = 0;
  if (find(pci_bus_id.c_str(), &device) != 0 || clock(device, kSmClock, &mhz) != 0 || reasons(device, &bits) != 0) {
    return std::nullopt;
  }
  DeviceClock now{.mhz = static_cast<double>(mhz), .held_back_by = {}};
  for (const auto& [bit, name] : kReasons) {
    if ((bits & bit) != 0) now.held_back_by.emplace_back(name);
  }
  return now;
}

const GpuClocks& TheseGpuClocks() {
  static const GpuClocks clocks;
  return clocks;
}

}  // namespace emplace::profiler
