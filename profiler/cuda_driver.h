#ifndef EMPLACE_PROFILER_CUDA_DRIVER_H_
#define EMPLACE_PROFILER_CUDA_DRIVER_H_

#include <optional>
#include <string>

#include "sim/units.h"

namespace emplace {

// The CUDA driver of this machine, if there is one: names and sizes of devices without a CUDA header. It is opened when
// the first is made and stays open.
class CudaDriver {
 public:
  CudaDriver();
  std::string Name(int index) const;             // "cuda" if it cannot be had
  std::optional<Bytes> Memory(int index) const;  // all of the device's
  std::string Version() const;                   // of CUDA, as 12.4; "" if there is no driver

 private:
  template <typename Function>
  Function Find(const char* name) const;
  void* library_;
};

// The kind, as a device catalogue calls it, of a device that its driver calls `name`: "NVIDIA A100-SXM4-40GB" is a100,
// "Tesla K80" k80, "NVIDIA GeForce RTX 4090" geforce-rtx-4090.
std::string CudaKind(std::string name);

}  // namespace emplace

#endif  // EMPLACE_PROFILER_CUDA_DRIVER_H_
