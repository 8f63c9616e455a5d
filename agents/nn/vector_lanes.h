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

using Ints = std::int32_t __attribute__((vector_size(kLane * sizeof(std::int32_t)), aligned(alignof(std::int32_t))));

EMPLACE_INLINE Lane Splat(float value) { return Lane{} + value; }

// (e - 1) / (e + 1) for e = exp(2x), which is 2^n times the Taylor series of 2^f around 0 to the sixth power, f within
// +-1/2: 2e-8 off at most. Beyond +-9 a float's tanh is 1.
EMPLACE_INLINE Lane Tanh(Lane x) {
  x = x > 9.0F ? Splat(9.0F) : x;
  x = x < -9.0F ? Splat(-9.0F) : x;
  constexpr float kLog2 = 0.693147180559945309F;
  const Lane power = x * (2.0F / kLog2);
  // Adding 1.5 * 2^23 leaves no room for digits after the point.
  constexpr float kRound = 12582912.0F;
  const Lane shifted = power + kRound;
  const Lane whole = shifted - kRound;
  const Lane t = (power - whole) * kLog2;
  Lane e = Splat(1.0F / 720);
  e = e * t + 1.0F / 120;
  e = e * t + 1.0F / 24;
  e = e * t + 1.0F / 6;
  e = e * t + 0.5F;
  e = e * t + 1.0F;
  e = e * t + 1.0F;
  const Ints exponent = (__builtin_convertvector(whole, Ints) + 127) << 23;
  Lane scale;
  __builtin_memcpy(&scale, &exponent, sizeof scale);
  e = e * scale;
  return (e - 1.0F) / (e + 1.0F);
}

EMPLACE_INLINE Lane Sigmoid(Lane x) { return Tanh(x * 0.5F) * 0.5F + 0.5F; }

}  // namespace emplace

#endif  // EMPLACE_AGENTS_NN_VECTOR_LANES_H_
