#ifndef EMPLACE_AGENTS_NN_VECTOR_LANES_H_
#define EMPLACE_AGENTS_NN_VECTOR_LANES_H_

#include <cstdint>

#include "agents/nn/kernel.h"

// Sixteen floats at once, for the sources of kernels; only there.

// One function, several instruction sets. Sanitizers do not get along with what chooses among them, and clang 14 does
// not know the attribute.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(EMPLACE_SANITIZED)
#define EMPLACE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EMPLACE_CLONES
#endif
#define EMPLACE_INLINE inline __attribute__((always_inline))

namespace emplace {

using Lane = float __attribute__((vector_size(kLane * sizeof(float)), aligned(alignof(float)), may_alias));
using Flags = std::uint8_t __attribute__((vector_size(kLane), aligned(1), may_alias));

EMPLACE_INLINE Lane Load(const float* from) { return *reinterpret_cast<const Lane*>(from); }
EMPLACE_INLINE void Store(const Lane& value, float* to) { *reinterpret_cast<Lane*>(to) = value; }

}  // namespace emplace

#endif  // EMPLACE_AGENTS_NN_VECTOR_LANES_H_
