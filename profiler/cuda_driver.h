#ifndef EMPLACE_PROFILER_CUDA_DRIVER_H_
#define EMPLACE_PROFILER_CUDA_DRIVER_H_

#include <optional>
#include <string>

#include "sim/base/units.h"

namespace emplace::profiler {

// What the CUDA driver of this machine says, if there is one, without a CUDA header. It is opened when it is first
// asked, and stays open.
std::string CudaDeviceName(int index);             // "cuda" if it cannot be had
std::optional<Bytes> CudaDeviceMemory(int index);  // all of the device's
std::string CudaDriverVersion();                   // of CUDA, as 12.4; "" if there is no driver

// The kind, as a device catalogue calls it, of a device that its driver calls `name`: "NVIDIA A100-SXM4-40GB" is a100,
// "Tesla K80" k80, "NVIDIA GeForce RTX 4090" geforce-rtx-4090.
std::string CudaKind(std::string name);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_CUDA_DRIVER_H_
