#ifndef EMPLACE_PROFILER_CUDA_DRIVER_H_
#define EMPLACE_PROFILER_CUDA_DRIVER_H_

#include <optional>
#include <string>

#include "sim/base/units.h"

namespace emplace::profiler {

// Queries to the CUDA driver of this machine, if there is one, without a CUDA header. It stays open for good.
class CudaDriver {
 public:
  explicit CudaDriver(const char* library = "libcuda.so.1");

  // By CUDA's number of the device.
  std::string DeviceName(int device) const;           // "cuda" if it cannot be had
  std::optional<Bytes> FreeMemory(int device) const;  // memory that other programs do not use
  std::string PciBusId(int device) const;             // "0000:19:00.0"; "" if it cannot be had
  std::string Version() const;                        // version of CUDA, such as 12.4; "" if there is no driver

 private:
  template <typename Function>
  Function Find(const char* name) const;

  void* library_ = nullptr;  // null: no driver, or none that works
};

// This machine's, opened when it is first asked.
const CudaDriver& ThisCudaDriver();

// The kind, as the device catalogue calls it, of a device that its driver calls `name`: "NVIDIA A100-SXM4-40GB" is
// a100, "Tesla K80" k80, "NVIDIA GeForce RTX 4090" geforce-rtx-4090. Boards other than the catalogue's, and parts of a
// GPU, have kinds of their own: h100-pcie, h100-nvl, p100-sxm2, a100-mig-1g.5gb.
std::string CudaKind(std::string name);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_CUDA_DRIVER_H_
