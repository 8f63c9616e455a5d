#ifndef EMPLACE_PROFILER_TORCH_PLUGIN_H_
#define EMPLACE_PROFILER_TORCH_PLUGIN_H_

#include <string>
#include <vector>

#include "profiler/hardware.h"
#include "profiler/torchscript.h"
#include "sim/graph.h"

namespace emplace::profiler {

// The content of the library with LibTorch, under the name kTorchHardwareName. The program and the library share
// headers, no code: what passes between them are these structs, virtual functions and exceptions.
struct TorchHardwareExports {
  HardwareBackend* (*hardware)();  // stays for good
  // Ops in the order in which they ran, as GraphBuilder takes them.
  std::vector<OpSpec> (*record_torchscript)(const TorchScriptOptions& options);
};
inline constexpr char kTorchHardwareName[] = "emplace_torch_hardware";

// torchscript_recorder.cc. Part of the library.
std::vector<OpSpec> RecordTorchScript(const TorchScriptOptions& options);

// Loads it once. Throws InputError.
const TorchHardwareExports& LoadTorchHardware();

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_TORCH_PLUGIN_H_
