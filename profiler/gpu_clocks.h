#ifndef EMPLACE_PROFILER_GPU_CLOCKS_H_
#define EMPLACE_PROFILER_GPU_CLOCKS_H_

#include <optional>
#include <string>

#include "profiler/hardware.h"

namespace emplace::profiler {

// Clocks of this machine's NVIDIA GPUs, read from NVML without its header. A GPU that is hot, or at its power limit, is
// slower than it was, which cannot be seen in the times of its kernels.
class GpuClocks {
 public:
  explicit GpuClocks(const char* library = "libnvidia-ml.so.1");

  // The clock of the GPU at this address on the PCI bus; none without NVML or such a GPU, or after an error.
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
