#include "profiler/machine/probe_kernels.h"

#include "sim/base/vector_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "profiler/machine/probe_kernels.cc"  // this file is compiled once for each instruction set
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace emplace::profiler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void TriadOn(std::size_t size, const double* b, const double* c, double* a) {
  const hn::ScalableTag<double> doubles;
  const auto factor = hn::Set(doubles, 3.0);
  std::size_t i = 0;
  for (; i + hn::Lanes(doubles) <= size; i += hn::Lanes(doubles)) {
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(doubles, c + i), hn::LoadU(doubles, b + i)), doubles, a + i);
  }
  for (; i < size; ++i) a[i] = b[i] + 3 * c[i];
}

// Ten sums hide the latency of four or five cycles of two units.
double MultiplyAddsOn(std::int64_t rounds, float* sum) {
  constexpr double kSums = 10;
  const hn::ScalableTag<float> floats;
  const auto factor = hn::Set(floats, 0.999F);
  const auto term = hn::Set(floats, 0.001F);
  // The sums begin with unlike numbers, or the compiler would take them for one.
  auto s0 = hn::Set(floats, 0.0F);
  auto s1 = hn::Set(floats, 1.0F);
  auto s2 = hn::Set(floats, 2.0F);
  auto s3 = hn::Set(floats, 3.0F);
  auto s4 = hn::Set(floats, 4.0F);
  auto s5 = hn::Set(floats, 5.0F);
  auto s6 = hn::Set(floats, 6.0F);
  auto s7 = hn::Set(floats, 7.0F);
  auto s8 = hn::Set(floats, 8.0F);
  auto s9 = hn::Set(floats, 9.0F);
  for (std::int64_t i = 0; i < rounds; ++i) {
    s0 = hn::MulAdd(s0, factor, term);
    s1 = hn::MulAdd(s1, factor, term);
    s2 = hn::MulAdd(s2, factor, term);
    s3 = hn::MulAdd(s3, factor, term);
    s4 = hn::MulAdd(s4, factor, term);
    s5 = hn::MulAdd(s5, factor, term);
    s6 = hn::MulAdd(s6, factor, term);
    s7 = hn::MulAdd(s7, factor, term);
    s8 = hn::MulAdd(s8, factor, term);
    s9 = hn::MulAdd(s9, factor, term);
  }
  const auto low = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), s4);
  const auto high = hn::Add(hn::Add(hn::Add(s5, s6), hn::Add(s7, s8)), s9);
  *sum += hn::GetLane(hn::Add(low, high));
  return 2 * kSums * static_cast<double>(hn::Lanes(floats)) * static_cast<double>(rounds);
}

}  // namespace emplace::profiler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace emplace::profiler {

HWY_EXPORT(TriadOn);
HWY_EXPORT(MultiplyAddsOn);

void Triad(std::size_t size, const double* b, const double* c, double* a) {
  HWY_DYNAMIC_DISPATCH(TriadOn)(size, b, c, a);
}

double MultiplyAdds(std::int64_t rounds, float* sum) { return HWY_DYNAMIC_DISPATCH(MultiplyAddsOn)(rounds, sum); }

}  // namespace emplace::profiler
#endif  // HWY_ONCE
