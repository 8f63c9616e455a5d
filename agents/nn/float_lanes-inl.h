// Vectors of floats for the instruction set being compiled, only for kernel sources. Highway includes them once for
// each set (sim/base/vector_targets.h). Hence no ordinary include guard.
#if defined(EMPLACE_AGENTS_NN_FLOAT_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMPLACE_AGENTS_NN_FLOAT_LANES_INL_H_
#undef EMPLACE_AGENTS_NN_FLOAT_LANES_INL_H_
#else
#define EMPLACE_AGENTS_NN_FLOAT_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "agents/nn/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace emplace::agents::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
// Highway before 1.0.5 has no vectors for SSE2, the x86-64 baseline, and processes one number at a time. The compiler's
// vectors replace Highway's here.
inline constexpr std::size_t kWidth = 4;
using Floats = float __attribute__((vector_size(kWidth * sizeof(float))));
using Ints = std::int32_t __attribute__((vector_size(kWidth * sizeof(std::int32_t))));
using LooseFloats = float __attribute__((vector_size(kWidth * sizeof(float)), aligned(alignof(float)), may_alias));
using Flags = std::uint8_t __attribute__((vector_size(kWidth), aligned(1), may_alias));

HWY_INLINE Floats Load(const float* from) { return *reinterpret_cast<const LooseFloats*>(from); }
HWY_INLINE void Store(Floats value, float* to) { *reinterpret_cast<LooseFloats*>(to) = value; }
HWY_INLINE Floats Splat(float value) { return Floats{value, value, value, value}; }
HWY_INLINE Floats Add(Floats a, Floats b) { return a + b; }
HWY_INLINE Floats Sub(Floats a, Floats b) { return a - b; }
HWY_INLINE Floats Mul(Floats a, Floats b) { return a * b; }
HWY_INLINE Floats Div(Floats a, Floats b) { return a / b; }
HWY_INLINE Floats MulAdd(Floats a, Floats b, Floats c) { return a * b + c; }
HWY_INLINE Floats MulSub(Floats a, Floats b, Floats c) { return a * b - c; }
HWY_INLINE Floats NegMulAdd(Floats a, Floats b, Floats c) { return c - a * b; }
// `yes` where a < b, else `no`.
HWY_INLINE Floats IfLess(Floats a, Floats b, Floats yes, Floats no) { return a < b ? yes : no; }
// 2^n for integers n.
HWY_INLINE Floats PowerOfTwo(Floats n) {
  return reinterpret_cast<Floats>((__builtin_convertvector(n, Ints) + 127) << 23);
}
HWY_INLINE Floats LoadBytes(const std::uint8_t* from) {
  return __builtin_convertvector(*reinterpret_cast<const Flags*>(from), Floats);
}
#else
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::CappedTag<float, kLane>;
inline constexpr std::size_t kWidth = HWY_MIN(kLane, HWY_LANES(float));
using Floats = hn::Vec<Tag>;

HWY_INLINE Floats Load(const float* from) { return hn::LoadU(Tag(), from); }
HWY_INLINE void Store(Floats value, float* to) { hn::StoreU(value, Tag(), to); }
HWY_INLINE Floats Splat(float value) { return hn::Set(Tag(), value); }
using hn::Add;
using hn::Div;
using hn::Mul;
using hn::MulAdd;
using hn::MulSub;
using hn::NegMulAdd;
using hn::Sub;
HWY_INLINE Floats IfLess(Floats a, Floats b, Floats yes, Floats no) { return hn::IfThenElse(hn::Lt(a, b), yes, no); }
HWY_INLINE Floats PowerOfTwo(Floats n) {
  const hn::RebindToSigned<Tag> ints;
  return hn::BitCast(Tag(), hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(ints, n), hn::Set(ints, 127))));
}
HWY_INLINE Floats LoadBytes(const std::uint8_t* from) {
  const hn::RebindToSigned<Tag> ints;
  return hn::ConvertTo(Tag(), hn::PromoteTo(ints, hn::LoadU(hn::Rebind<std::uint8_t, Tag>(), from)));
}
#endif

// Number of vectors in kLane floats.
inline constexpr std::size_t kVectors = kLane / kWidth;

HWY_INLINE Floats Zero() { return Splat(0.0F); }
// (x < 0 ? 0 : x); NaN stays NaN. On x86 Max() returns its second argument unless the first is larger.
HWY_INLINE Floats Relu(Floats x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Max(Zero(), x);
#else
  return IfLess(x, Zero(), Zero(), x);
#endif
}

// The Taylor series of exp around 0 to the sixth power.
HWY_INLINE Floats ExpSeries(Floats t) {
  Floats e = Splat(1.0F / 720);
  e = MulAdd(e, t, Splat(1.0F / 120));
  e = MulAdd(e, t, Splat(1.0F / 24));
  e = MulAdd(e, t, Splat(1.0F / 6));
  e = MulAdd(e, t, Splat(0.5F));
  e = MulAdd(e, t, Splat(1.0F));
  e = MulAdd(e, t, Splat(1.0F));
  return e;
}

// (e - 1) / (e + 1) for e = exp(2x). e is 2^n times the Taylor series of 2^f around 0 to the sixth power, f within
// +-1/2. The error is at most 2e-8. Beyond +-9 the tanh of a float is 1.
HWY_INLINE Floats Tanh(Floats x) {
  x = IfLess(Splat(9.0F), x, Splat(9.0F), x);
  x = IfLess(x, Splat(-9.0F), Splat(-9.0F), x);
  constexpr float kLog2 = 0.693147180559945309F;
  const Floats factor = Splat(2.0F / kLog2);
  // Adding 1.5 * 2^23 rounds to an integer, as no fraction bits remain.
  const Floats round = Splat(12582912.0F);
  const Floats whole = Sub(MulAdd(x, factor, round), round);
  const Floats t = Mul(MulSub(x, factor, whole), Splat(kLog2));
  const Floats e = ExpSeries(t);
  const Floats scale = PowerOfTwo(whole);
  return Div(MulSub(e, scale, Splat(1.0F)), MulAdd(e, scale, Splat(1.0F)));
}

HWY_INLINE Floats Sigmoid(Floats x) { return MulAdd(Tanh(Mul(x, Splat(0.5F))), Splat(0.5F), Splat(0.5F)); }

// exp(2x) for |x| <= 20: 2^n times the Taylor series of exp, as above, with n log 2 subtracted in two parts.
HWY_INLINE Floats ExpOfTwice(Floats x) {
  constexpr float kLog2 = 0.693147180559945309F;
  const Floats twice = Add(x, x);
  const Floats round = Splat(12582912.0F);
  const Floats whole = Sub(MulAdd(twice, Splat(1.0F / kLog2), round), round);
  // The first part has few digits, so that its products with n are exact.
  const Floats t = NegMulAdd(whole, Splat(1.42860682e-6F), NegMulAdd(whole, Splat(0.693145751953125F), twice));
  const Floats e = ExpSeries(t);
  return Mul(e, PowerOfTwo(whole));
}

// The sum of kLane numbers in index order.
HWY_INLINE float SumInOrder(const Floats (&lanes)[kVectors]) {
  float values[kLane];
  for (std::size_t v = 0; v < kVectors; ++v) Store(lanes[v], values + v * kWidth);
  float sum = 0;
  for (const float value : values) sum += value;
  return sum;
}

}  // namespace emplace::agents::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EMPLACE_AGENTS_NN_FLOAT_LANES_INL_H_
