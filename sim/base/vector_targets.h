#ifndef EMPLACE_SIM_BASE_VECTOR_TARGETS_H_
#define EMPLACE_SIM_BASE_VECTOR_TARGETS_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace emplace {

// The instruction sets that vector code is compiled for, each in one source: Google Highway includes the source once
// for each set and calls, at run time, the best one that the processor has. Sources of vector code begin with
// sim/base/vector_code.h.
enum class VectorTarget : std::uint8_t {
  kBaseline,  // supported by every processor of the architecture: SSE2 on x86-64, NEON on ARM
  kAvx2,      // with fused multiply-add
  kAvx512,    // its parts F, VL, DQ, BW and CD: Intel since Skylake-SP, AMD since Zen 4
};

// "baseline", "avx2", "avx512".
std::string_view VectorTargetName(VectorTarget target);

// The targets that this processor supports, the best one last.
std::vector<VectorTarget> SupportedVectorTargets();

// The one that runs: the best, until one of the next functions chooses another.
VectorTarget ChosenVectorTarget();

// From now on vector code of all threads runs on this target. For tests and benchmarks; no vector code may be running.
// Throws InputError if the processor lacks it.
void ChooseVectorTarget(VectorTarget target);

// Chooses the target that the environment variable EMPLACE_VECTORS names, if it is set. Throws InputError if the name
// is unknown or the processor lacks the target.
void ChooseVectorTargetByEnvironment();

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_VECTOR_TARGETS_H_
