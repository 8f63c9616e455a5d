#include "agents/nn/lstm.h"

#include <algorithm>
#include <vector>

#include "agents/nn/vector_lanes.h"

namespace emplace {
namespace {

// The activations of `count` units, lane by lane; what is left over goes through a lane of its own.
template <typename Function>
EMPLACE_INLINE void ForLanes(std::size_t count, Function function) {
  std::size_t i = 0;
  for (; i + kLane <= count; i += kLane) function(i, kLane);
  if (i < count) function(i, count - i);
}

EMPLACE_INLINE Lane LoadSome(const float* from, std::size_t count) {
  if (count == kLane) return Load(from);
  Lane lane{};
  for (std::size_t i = 0; i < count; ++i) lane[i] = from[i];
  return lane;
}
EMPLACE_INLINE void StoreSome(const Lane& lane, std::size_t count, float* to) {
  if (count == kLane) {
    Store(lane, to);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) to[i] = lane[i];
}

// One row's gates, [4 width] before and after their functions, and what follows from them.
EMPLACE_CLONES void Activate(std::size_t width, const float* cell_before, float* gates, float* cell, float* state) {
  ForLanes(width, [&](std::size_t i, std::size_t count) {
    const Lane in = Sigmoid(LoadSome(gates + i, count));
    const Lane forget = Sigmoid(LoadSome(gates + width + i, count));
    const Lane candidate = Tanh(LoadSome(gates + 2 * width + i, count));
    const Lane out = Sigmoid(LoadSome(gates + 3 * width + i, count));
    const Lane now = forget * LoadSome(cell_before + i, count) + in * candidate;
    StoreSome(in, count, gates + i);
    StoreSome(forget, count, gates + width + i);
    StoreSome(candidate, count, gates + 2 * width + i);
    StoreSome(out, count, gates + 3 * width + i);
    StoreSome(now, count, cell + i);
    StoreSome(out * Tanh(now), count, state + i);
  });
}

// The way back through Activate(): `d_cell` holds the gradient by the cell after the step on entry, before it on exit.
EMPLACE_CLONES void Differentiate(std::size_t width, const float* cell_before, const float* gates, const float* cell,
                                  const float* d_state, float* d_cell, float* d_gates) {
  ForLanes(width, [&](std::size_t i, std::size_t count) {
    const Lane in = LoadSome(gates + i, count);
    const Lane forget = LoadSome(gates + width + i, count);
    const Lane candidate = LoadSome(gates + 2 * width + i, count);
    const Lane out = LoadSome(gates + 3 * width + i, count);
    const Lane bent = Tanh(LoadSome(cell + i, count));
    const Lane of_state = LoadSome(d_state + i, count);
    const Lane of_cell = LoadSome(d_cell + i, count) + of_state * out * (1.0F - bent * bent);
    StoreSome(of_cell * candidate * in * (1.0F - in), count, d_gates + i);
    StoreSome(of_cell * LoadSome(cell_before + i, count) * forget * (1.0F - forget), count, d_gates + width + i);
    StoreSome(of_cell * in * (1.0F - candidate * candidate), count, d_gates + 2 * width + i);
    StoreSome(of_state * bent * out * (1.0F - out), count, d_gates + 3 * width + i);
    StoreSome(of_cell * forget, count, d_cell + i);
  });
}

}  // namespace

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
      Activate(width, cell + r * width, gates + r * 4 * width, next_cell + r * width, next_state + r * width);
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
  std::vector<float> from_later(shape.rows * padded);  // gradient by a step's states from the step behind it
  std::vector<float> whole(all);
  std::copy_n(d_last_cell, all, d_cell);
  for (std::size_t t = shape.steps; t-- > 0;) {
    std::copy_n(d_states + t * all, all, whole.data());
    for (std::size_t r = 0; r < shape.rows; ++r)
      AddScaled(from_later.data() + r * padded, 1, width, whole.data() + r * width);
    const float* const before = t > 0 ? course.cells + (t - 1) * all : cell;
    float* const d_gates = d_inputs + t * 4 * all;
    for (std::size_t r = 0; r < shape.rows; ++r) {
      Differentiate(width, before + r * width, course.gates + (t * shape.rows + r) * 4 * width,
                    course.cells + t * all + r * width, whole.data() + r * width, d_cell + r * width,
                    d_gates + r * 4 * width);
    }
    Affine(d_gates, 4 * width, shape.rows, transposed, zeros.data(), /*relu=*/false, from_later.data(), padded);
  }
  for (std::size_t r = 0; r < shape.rows; ++r) std::copy_n(from_later.data() + r * padded, width, d_state + r * width);
}

}  // namespace emplace
