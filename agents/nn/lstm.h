#ifndef EMPLACE_AGENTS_NN_LSTM_H_
#define EMPLACE_AGENTS_NN_LSTM_H_

#include <cstddef>

#include "agents/nn/kernel.h"

namespace emplace::agents {

// The steps of an LSTM, which come one after the other and so are products of a few rows with one large matrix, read
// whole in each: a BLAS spends more time on packing that matrix than on the product, and autograd writes its gradient
// anew in each step instead of once. Everything dense, gates in the order input, forget, cell, output.
// Source: Hochreiter and Schmidhuber 1997; Gers et al. 2000 for the forget gate.
struct LstmShape {
  std::size_t steps = 0;
  std::size_t rows = 0;   // sequences side by side
  std::size_t width = 0;  // units, a multiple of 4
};

// What a forward pass leaves for the backward pass.
struct LstmCourse {
  float* gates;   // [steps, rows, 4 width], after their sigmoid or tanh
  float* cells;   // [steps, rows, width]
  float* states;  // [steps, rows, width]
};

// inputs: [steps, rows, 4 width], what the inputs and the bias add to the gates; weights: [width, 4 width]; state and
// cell: [rows, width], those before the first step. Writes the course, whose arrays are the caller's.
void LstmForward(const LstmShape& shape, const float* inputs, const PackedMatrix& weights, const float* state,
                 const float* cell, const LstmCourse& course);

// From the gradients of a loss by all states, [steps, rows, width], and by the last cell, [rows, width]: those by the
// inputs, [steps, rows, 4 width], and by the state and cell before the first step, all written. That by the weights is
// the sum over steps of (state before)^T (gradient by the inputs).
void LstmBackward(const LstmShape& shape, const LstmCourse& course, const float* weights, const float* cell,
                  const float* d_states, const float* d_last_cell, float* d_inputs, float* d_state, float* d_cell);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_LSTM_H_
