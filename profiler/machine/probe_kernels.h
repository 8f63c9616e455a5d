#ifndef EMPLACE_PROFILER_MACHINE_PROBE_KERNELS_H_
#define EMPLACE_PROFILER_MACHINE_PROBE_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace emplace::profiler {

// a = b + 3 c, element by element.
void Triad(std::size_t size, const double* b, const double* c, double* a);

// Does `rounds` rounds of independent multiply-adds in f32. Adds a number that depends on all of them to `sum`, so that
// none is left out. Returns the FLOP.
double MultiplyAdds(std::int64_t rounds, float* sum);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MACHINE_PROBE_KERNELS_H_
