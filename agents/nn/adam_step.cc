#include "agents/nn/adam_step.h"

#include <cmath>

#include "sim/base/vector_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "agents/nn/adam_step.cc"  // this file is compiled once for each instruction set
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace emplace::agents::HWY_NAMESPACE {

void AdamStepOn(const AdamNumbers& n, std::size_t size, const float* gradients, float* first_moments,
                float* second_moments, float* values) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<double> doubles;
  const hn::Rebind<float, decltype(doubles)> floats;
  const auto load = [&](const float* from) { return hn::PromoteTo(doubles, hn::LoadU(floats, from)); };
  const auto store = [&](auto vector, float* to) { hn::StoreU(hn::DemoteTo(floats, vector), floats, to); };
  const auto beta1 = hn::Set(doubles, n.beta1);
  const auto beta2 = hn::Set(doubles, n.beta2);
  const auto rest1 = hn::Set(doubles, 1 - n.beta1);
  const auto rest2 = hn::Set(doubles, 1 - n.beta2);
  const auto correction1 = hn::Set(doubles, n.correction1);
  const auto correction2 = hn::Set(doubles, n.correction2);
  const auto rate = hn::Set(doubles, n.rate);
  const auto epsilon = hn::Set(doubles, n.epsilon);
  for (; i + hn::Lanes(doubles) <= size; i += hn::Lanes(doubles)) {
    const auto gradient = load(gradients + i);
    const auto first = hn::Add(hn::Mul(beta1, load(first_moments + i)), hn::Mul(rest1, gradient));
    const auto second = hn::Add(hn::Mul(beta2, load(second_moments + i)), hn::Mul(hn::Mul(rest2, gradient), gradient));
    store(first, first_moments + i);
    store(second, second_moments + i);
    const auto root = hn::Add(hn::Sqrt(hn::Div(second, correction2)), epsilon);
    store(hn::Sub(load(values + i), hn::Div(hn::Mul(rate, hn::Div(first, correction1)), root)), values + i);
  }
#endif
  for (; i < size; ++i) {
    const double gradient = gradients[i];
    const double first = n.beta1 * first_moments[i] + (1 - n.beta1) * gradient;
    const double second = n.beta2 * second_moments[i] + (1 - n.beta2) * gradient * gradient;
    first_moments[i] = static_cast<float>(first);
    second_moments[i] = static_cast<float>(second);
    values[i] = static_cast<float>(values[i] -
                                   n.rate * (first / n.correction1) / (std::sqrt(second / n.correction2) + n.epsilon));
  }
}

}  // namespace emplace::agents::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace emplace::agents {

HWY_EXPORT(AdamStepOn);

void AdamStep(const AdamNumbers& numbers, std::size_t size, const float* gradients, float* first_moments,
              float* second_moments, float* values) {
  HWY_DYNAMIC_DISPATCH(AdamStepOn)(numbers, size, gradients, first_moments, second_moments, values);
}

}  // namespace emplace::agents
#endif  // HWY_ONCE
