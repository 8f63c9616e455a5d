#ifndef EMPLACE_SIM_BASE_VECTOR_CODE_H_
#define EMPLACE_SIM_BASE_VECTOR_CODE_H_

// Included first by every source of vector code, before hwy/foreach_target.h: which instruction sets it is compiled for
// (sim/base/vector_targets.h). Left out are the sets between SSE2 and AVX2, which would lengthen every compilation for
// processors that are rare, and those above AVX-512, which differ between versions of Highway: better sets have
// smaller numbers.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | (HWY_AVX3 - 1))

#endif  // EMPLACE_SIM_BASE_VECTOR_CODE_H_
