#ifndef EMPLACE_TESTS_PROFILER_TORCH_SIMULATED_GPU_H_
#define EMPLACE_TESTS_PROFILER_TORCH_SIMULATED_GPU_H_

#include <cstdint>

namespace emplace::testing {

// Two accelerators that are simulated on the CPU, "privateuseone:0" and ":1", in a library of their own that makes them
// known to LibTorch when it is loaded. Like CUDA's they run behind the host, in streams: what is given to a stream is
// done in order, by a thread, each part after a random delay. Streams know nothing of each other but for events. Memory
// holds NaN until something is written to it, and again once it is freed and the stream that it was allocated on gets
// there, and those that it was recorded on. A read of NaN is too early or too late, which is counted.
struct SimulatedGpuExports {
  // Since the last call: reads of what had not been written yet, or not any more.
  std::uint64_t (*take_wrong_reads)();
  // Parts of work that streams have done since the library was loaded.
  std::uint64_t (*work_done)();
  // Every stream's next parts take up to this many µs longer.
  void (*set_delay)(std::uint32_t most_micros);
};
inline constexpr char kSimulatedGpuSymbol[] = "emplace_simulated_gpu";

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_PROFILER_TORCH_SIMULATED_GPU_H_
