#ifndef EMPLACE_AGENTS_NN_ADAM_STEP_H_
#define EMPLACE_AGENTS_NN_ADAM_STEP_H_

#include <cstddef>

namespace emplace::agents {

struct AdamNumbers {
  double rate = 0;
  double beta1 = 0;
  double beta2 = 0;
  double correction1 = 1;  // 1 - beta1^steps
  double correction2 = 1;  // 1 - beta2^steps
  double epsilon = 0;
};

// One step of Adam on `size` values and their moments: agents/nn/parameters.h. Every number is computed in double
// precision, without fused multiply-add, so each instruction set gives the same bits.
void AdamStep(const AdamNumbers& numbers, std::size_t size, const float* gradients, float* first_moments,
              float* second_moments, float* values);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_ADAM_STEP_H_
