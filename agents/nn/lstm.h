#ifndef EMPLACE_AGENTS_NN_LSTM_H_
#define EMPLACE_AGENTS_NN_LSTM_H_

#include <cstddef>

#include "agents/nn/kernel.h"

namespace emplace::agents {

// The steps of an LSTM. They are sequential, so each multiplies a few rows with one large matrix, which is read
// completely. A BLAS would spend more time on packing that matrix than on the product. Autograd would write the
// matrix's gradient in every step instead of once. All arrays are dense; gates are in the order input, forget, cell,
// output.
// Source: Hochreiter and Schmidhuber 1997; Gers et al. 2000 for the forget gate.
struct LstmShape {
  std::size_t steps = 0;
  std::size_t rows = 0;   // parallel sequences
  std::size_t width = 0;  // units, a multiple of 4
};

// Results of a forward pass that the backward pass needs.
struct LstmCourse {
  float* gates;   // [steps, rows, 4 width], after their sigmoid or tanh
  float* cells;   // [steps, rows, width]
  float* states;  // [steps, rows, width]
};

// inputs: [steps, rows, 4 width], the contribution of inputs and bias to the gates. weights: [width, 4 width]. state
// and cell: [rows, width], before the first step. Fills `course`, whose arrays the caller owns.
void LstmForward(const LstmShape& shape, const float* inputs, const PackedMatrix& weights, const float* state,
                 const float* cell, const LstmCourse& course);

// Input: the gradients of a loss with respect to all states, [steps, rows, width], and the last cell, [rows, width].
// Overwrites those with respect to the inputs, [steps, rows, 4 width], and the state and cell before the first step.
// The gradient with respect to the weights is the sum over steps of (state before)^T (gradient of the inputs).
void LstmBackward(const LstmShape& shape, const LstmCourse& course, const float* weights, const float* cell,
                  const float* d_states, const float* d_last_cell, float* d_inputs, float* d_state, float* d_cell);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_LSTM_H_
