#include "profiler/gpu_clocks.h"

#include <dlfcn.h>

#include <array>

namespace emplace::profiler {
namespace {

constexpr int kSmClock = 1;  // NVML_CLOCK_SM

// Reasons for a reduced clock: NVML's bit, and its number among the policies that it keeps a sum of time for (none:
// -1). An idle GPU, and clocks that someone has set, do not count.
struct Reason {
  unsigned long long bit = 0;
  int policy = -1;
  const char* name = "";
};
constexpr std::array<Reason, 6> kReasons = {{
    {0x04, 0, "power limit"},
    {0x08, -1, "hardware slowdown"},
    {0x10, 2, "sync boost"},
    {0x20, 1, "temperature"},
    {0x40, -1, "temperature (hardware)"},
    {0x80, -1, "power brake"},
}};

// nvmlViolationTime_t: µs since 1970, and ns.
struct Violation {
  unsigned long long reference_time = 0;
  unsigned long long violation_time = 0;
};

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
  // Every NVML has the function under its older name.
  const auto reasons = Find<int (*)(void*, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons");
  if (find == nullptr || clock == nullptr || reasons == nullptr || pci_bus_id.empty()) return std::nullopt;
  void* device = nullptr;
  unsigned mhz = 0;
  unsigned long long bits = 0;
  if (find(pci_bus_id.c_str(), &device) != 0 || clock(device, kSmClock, &mhz) != 0 || reasons(device, &bits) != 0) {
    return std::nullopt;
  }
  DeviceClock now{.mhz = static_cast<double>(mhz)};
  const auto violation = Find<int (*)(void*, int, Violation*)>("nvmlDeviceGetViolationStatus");
  for (const Reason& reason : kReasons) {
    if ((bits & reason.bit) != 0) now.slowed_by.insert(reason.name);
    Violation sum;
    if (reason.policy < 0 || violation == nullptr || violation(device, reason.policy, &sum) != 0) continue;
    now.slowed_ns[reason.name] = sum.violation_time;
  }
  return now;
}

const GpuClocks& TheseGpuClocks() {
  static const GpuClocks clocks;
  return clocks;
}

}  // namespace emplace::profiler
