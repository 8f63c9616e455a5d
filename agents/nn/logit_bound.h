#ifndef EMPLACE_AGENTS_NN_LOGIT_BOUND_H_
#define EMPLACE_AGENTS_NN_LOGIT_BOUND_H_

#include "agents/nn/kernel.h"

namespace emplace::agents {

// Bounded logits: C tanh(l / T) of a raw logit l, or l / T without a bound.
// Source: Bello et al. 2017, appendix A.1, as cited by Mirhoseini et al. 2018, equation 1.
struct LogitBound {
  double temperature = 1;  // T
  double bound = 0;        // C; 0: none
};

// The bounded logits of raw ones, [rows, num_devices].
void BoundLogits(const LogitBound& bound, const Matrix& raw, Matrix* logits);

// The gradient of a loss with respect to raw logits from the one with respect to bounded logits, all [rows,
// num_devices]. The slope C / (T cosh^2(l / T)) is computed from exp(-2 |l| / T): 1 - tanh^2 would be 0 from |l| = 9 T
// on, where tanh rounds to 1. Adds the gradient of
//   penalty * mean over rows and devices of max(0, |l| / T - 1)^2,
// which pulls logits back to where the bound still has a slope. Without a bound there is no penalty.
void UnboundGradient(const LogitBound& bound, const Matrix& raw, const Matrix& d_logits, double penalty, Matrix* d_raw);

// The penalty itself, without its weight.
double ExcessOfLogits(const LogitBound& bound, const Matrix& raw);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_LOGIT_BOUND_H_
