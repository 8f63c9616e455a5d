#ifndef EMPLACE_PROFILER_GPU_CLOCKS_H_
#define EMPLACE_PROFILER_GPU_CLOCKS_H_

#include <optional>
#include <string>

#include "profiler/hardware.h"

namespace emplace::profiler {

// The clocks of this machine's NVIDIA GPUs, as NVML tells them, without its header: a GPU that is hot, or at its power
// limit, is slower than it was, and no time of a kernel says so.
class GpuClocks {
 public:
  explicit GpuClocks(const char* library = "libnvidia-ml.so.1");

  // Of the GPU at this address on the PCI bus. None where NVML is not there, does not know the GPU, or fails.
  std::optional<DeviceClock> Read(const std::string& pci_bus_id) const;

 private:
  template <typename Function>
  Function Find(const char* name) const;

  void* library_ = nullptr;  // null: no NVML, or none that works
};

// This machine's, opened when they are first asked.
const GpuClocks& TheseGpuClocks();

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_GPU_CLOCKS_H_
