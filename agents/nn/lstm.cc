#include "agents/nn/lstm.h"

#include <algorithm>
#include <vector>

#include "sim/base/vector_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "agents/nn/lstm.cc"  // this file is compiled once for each instruction set
#include <hwy/foreach_target.h>

#include "agents/nn/float_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace emplace::agents::HWY_NAMESPACE {

// `count` numbers, at most one vector, padded with zeros.
HWY_INLINE Floats LoadSome(const float* from, std::size_t count) {
  if (count == kWidth) return Load(from);
  float values[kWidth] = {};
  for (std::size_t i = 0; i < count; ++i) values[i] = from[i];
  return Load(values);
}
HWY_INLINE void StoreSome(Floats vector, std::size_t count, float* to) {
  if (count == kWidth) {
    Store(vector, to);
    return;
  }
  float values[kWidth];
  Store(vector, values);
  for (std::size_t i = 0; i < count; ++i) to[i] = values[i];
}

// The gates of one row, [4 width], before and after their activations, and the resulting cell and state.
void ActivateOn(std::size_t width, const float* cell_before, float* gates, float* cell, float* state) {
  for (std::size_t i = 0; i < width; i += kWidth) {
    const std::size_t count = std::min(kWidth, width - i);
    const Floats in = Sigmoid(LoadSome(gates + i, count));
    const Floats forget = Sigmoid(LoadSome(gates + width + i, count));
    const Floats candidate = Tanh(LoadSome(gates + 2 * width + i, count));
    const Floats out = Sigmoid(LoadSome(gates + 3 * width + i, count));
    const Floats now = MulAdd(in, candidate, Mul(forget, LoadSome(cell_before + i, count)));
    StoreSome(in, count, gates + i);
    StoreSome(forget, count, gates + width + i);
    StoreSome(candidate, count, gates + 2 * width + i);
    StoreSome(out, count, gates + 3 * width + i);
    StoreSome(now, count, cell + i);
    StoreSome(Mul(out, Tanh(now)), count, state + i);
  }
}

// Backward pass of ActivateOn(). On entry `d_cell` is the gradient with respect to the cell after the step, on exit
// before it.
void DifferentiateOn(std::size_t width, const float* cell_before, const float* gates, const float* cell,
                     const float* d_state, float* d_cell, float* d_gates) {
  const Floats one = Splat(1.0F);
  for (std::size_t i = 0; i < width; i += kWidth) {
    const std::size_t count = std::min(kWidth, width - i);
    const Floats in = LoadSome(gates + i, count);
    const Floats forget = LoadSome(gates + width + i, count);
    const Floats candidate = LoadSome(gates + 2 * width + i, count);
    const Floats out = LoadSome(gates + 3 * width + i, count);
    const Floats bent = Tanh(LoadSome(cell + i, count));
    const Floats of_state = LoadSome(d_state + i, count);
    const Floats of_cell = MulAdd(Mul(of_state, out), NegMulAdd(bent, bent, one), LoadSome(d_cell + i, count));
    const Floats before = LoadSome(cell_before + i, count);
    StoreSome(Mul(Mul(Mul(of_cell, candidate), in), Sub(one, in)), count, d_gates + i);
    StoreSome(Mul(Mul(Mul(of_cell, before), forget), Sub(one, forget)), count, d_gates + width + i);
    StoreSome(Mul(Mul(of_cell, in), NegMulAdd(candidate, candidate, one)), count, d_gates + 2 * width + i);
    StoreSome(Mul(Mul(Mul(of_state, bent), out), Sub(one, out)), count, d_gates + 3 * width + i);
    StoreSome(Mul(of_cell, forget), count, d_cell + i);
  }
}

}  // namespace emplace::agents::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace emplace::agents {

HWY_EXPORT(ActivateOn);
HWY_EXPORT(DifferentiateOn);

void LstmForward(const LstmShape& shape, const float* inputs, const PackedMatrix& weights, const float* state,
                 const float* cell, const LstmCourse& course) {
  const std::size_t width = shape.width;
  const std::size_t all = shape.rows * width;
  const std::vector<float> zeros(4 * width);
  for (std::size_t t = 0; t < shape.steps; ++t) {
    float* const gates = course.gates + t * 4 * all;
    Affine(state, width, shape.rows, weights, zeros.data(), /*relu=*/false, gates, 4 * width);
    AddScaled(inputs + t * 4 * all, 1, 4 * all, gates);
    float* const next_cell = course.cells + t * all;
    float* const next_state = course.states + t * all;
    for (std::size_t r = 0; r < shape.rows; ++r) {
      HWY_DYNAMIC_DISPATCH(ActivateOn)
      (width, cell + r * width, gates + r * 4 * width, next_cell + r * width, next_state + r * width);
    }
    cell = next_cell;
    state = next_state;
  }
}

void LstmBackward(const LstmShape& shape, const LstmCourse& course, const float* weights, const float* cell,
                  const float* d_states, const float* d_last_cell, float* d_inputs, float* d_state, float* d_cell) {
  const std::size_t width = shape.width;
  const std::size_t all = shape.rows * width;
  const std::size_t padded = Padded(width);
  const PackedMatrix transposed = PackedMatrix::OfTransposed(weights, width, 4 * width);
  const std::vector<float> zeros(padded);
  std::vector<float> from_later(shape.rows * padded);  // gradient with respect to a step's states from the next step
  std::vector<float> whole(all);
  std::copy_n(d_last_cell, all, d_cell);
  for (std::size_t t = shape.steps; t-- > 0;) {
    std::copy_n(d_states + t * all, all, whole.data());
    for (std::size_t r = 0; r < shape.rows; ++r)
      AddScaled(from_later.data() + r * padded, 1, width, whole.data() + r * width);
    const float* const before = t > 0 ? course.cells + (t - 1) * all : cell;
    float* const d_gates = d_inputs + t * 4 * all;
    for (std::size_t r = 0; r < shape.rows; ++r) {
      HWY_DYNAMIC_DISPATCH(DifferentiateOn)
      (width, before + r * width, course.gates + (t * shape.rows + r) * 4 * width, course.cells + t * all + r * width,
       whole.data() + r * width, d_cell + r * width, d_gates + r * 4 * width);
    }
    Affine(d_gates, 4 * width, shape.rows, transposed, zeros.data(), /*relu=*/false, from_later.data(), padded);
  }
  for (std::size_t r = 0; r < shape.rows; ++r) std::copy_n(from_later.data() + r * padded, width, d_state + r * width);
}

}  // namespace emplace::agents
#endif  // HWY_ONCE
