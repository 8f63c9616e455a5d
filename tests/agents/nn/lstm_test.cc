#include "agents/nn/lstm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "sim/base/rng.h"
#include "tests/testing/vector_targets.h"

namespace emplace {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<float> Random(Rng& rng, std::size_t size) {
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(2 * rng.Uniform() - 1);
  return values;
}

struct Problem {
  explicit Problem(const agents::LstmShape& s) : shape(s) {
    Rng rng(s.width);
    const std::size_t all = s.rows * s.width;
    inputs = Random(rng, s.steps * 4 * all);
    weights = Random(rng, s.width * 4 * s.width);
    state = Random(rng, all);
    cell = Random(rng, all);
    d_states = Random(rng, s.steps * all);
    d_last_cell = Random(rng, all);
  }

  // All states and the last cell, weighted with their gradients, from the definition in double precision.
  double Loss() const {
    const std::size_t width = shape.width;
    const std::size_t all = shape.rows * width;
    std::vector<double> h(state.begin(), state.end());
    std::vector<double> c(cell.begin(), cell.end());
    double loss = 0;
    for (std::size_t t = 0; t < shape.steps; ++t) {
      std::vector<double> next(all);
      for (std::size_t r = 0; r < shape.rows; ++r) {
        for (std::size_t i = 0; i < width; ++i) {
          double gate[4];
          for (std::size_t g = 0; g < 4; ++g) {
            gate[g] = inputs[(t * shape.rows + r) * 4 * width + g * width + i];
            for (std::size_t k = 0; k < width; ++k)
              gate[g] += h[r * width + k] * weights[k * 4 * width + g * width + i];
          }
          double& now = c[r * width + i];
          now = Sigmoid(gate[1]) * now + Sigmoid(gate[0]) * std::tanh(gate[2]);
          next[r * width + i] = Sigmoid(gate[3]) * std::tanh(now);
          loss += next[r * width + i] * d_states[t * all + r * width + i];
        }
      }
      h = next;
    }
    for (std::size_t i = 0; i < all; ++i) loss += c[i] * d_last_cell[i];
    return loss;
  }

  agents::PackedMatrix Packed() const { return agents::PackedMatrix(weights.data(), shape.width, 4 * shape.width); }

  double Slope(float& value) const {
    const float before = value;
    value = before + 1.0F / 1024;
    const double up = Loss();
    value = before - 1.0F / 1024;
    const double down = Loss();
    value = before;
    return (up - down) * 512;
  }

  agents::LstmShape shape;
  std::vector<float> inputs;
  std::vector<float> weights;
  std::vector<float> state;
  std::vector<float> cell;
  std::vector<float> d_states;
  std::vector<float> d_last_cell;
};

// The arrays of an LstmCourse.
struct Course {
  explicit Course(const agents::LstmShape& shape)
      : gates(shape.steps * shape.rows * 4 * shape.width), cells(gates.size() / 4), states(gates.size() / 4) {}
  operator agents::LstmCourse() { return {gates.data(), cells.data(), states.data()}; }
  std::vector<float> gates;
  std::vector<float> cells;
  std::vector<float> states;
};

class LstmTest : public ::testing::TestWithParam<std::tuple<VectorTarget, std::size_t>> {
 protected:
  void SetUp() override { ChooseVectorTarget(std::get<0>(GetParam())); }
  void TearDown() override { ChooseVectorTarget(SupportedVectorTargets().back()); }
  std::size_t width() const { return std::get<1>(GetParam()); }
};

TEST_P(LstmTest, StatesAreTheirDefinition) {
  const Problem problem({.steps = 3, .rows = 2, .width = width()});
  Course course(problem.shape);
  agents::LstmForward(problem.shape, problem.inputs.data(), problem.Packed(), problem.state.data(), problem.cell.data(),
                      course);
  double loss = 0;
  for (std::size_t i = 0; i < course.states.size(); ++i) {
    loss += static_cast<double>(course.states[i]) * problem.d_states[i];
  }
  const std::size_t all = 2 * width();
  for (std::size_t i = 0; i < all; ++i) loss += static_cast<double>(course.cells[2 * all + i]) * problem.d_last_cell[i];
  EXPECT_NEAR(loss, problem.Loss(), 1e-4);
}

TEST_P(LstmTest, GradientsAreFiniteDifferences) {
  Problem problem({.steps = 3, .rows = 2, .width = width()});
  const std::size_t width = this->width();
  const std::size_t all = 2 * width;
  Course course(problem.shape);
  agents::LstmForward(problem.shape, problem.inputs.data(), problem.Packed(), problem.state.data(), problem.cell.data(),
                      course);
  std::vector<float> d_inputs(problem.inputs.size());
  std::vector<float> d_state(all);
  std::vector<float> d_cell(all);
  agents::LstmBackward(problem.shape, course, problem.weights.data(), problem.cell.data(), problem.d_states.data(),
                       problem.d_last_cell.data(), d_inputs.data(), d_state.data(), d_cell.data());
  for (std::size_t i = 0; i < d_inputs.size(); i += 3) {
    EXPECT_NEAR(d_inputs[i], problem.Slope(problem.inputs[i]), 1e-4) << i;
  }
  for (std::size_t i = 0; i < all; ++i) {
    EXPECT_NEAR(d_state[i], problem.Slope(problem.state[i]), 1e-4) << i;
    EXPECT_NEAR(d_cell[i], problem.Slope(problem.cell[i]), 1e-4) << i;
  }
  // The weights' gradients, computed as documented in the header.
  for (std::size_t k = 0; k < width; k += 2) {
    for (std::size_t j = 0; j < 4 * width; j += 5) {
      double sum = 0;
      for (std::size_t t = 0; t < 3; ++t) {
        for (std::size_t r = 0; r < 2; ++r) {
          const float before = t > 0 ? course.states[(t - 1) * all + r * width + k] : problem.state[r * width + k];
          sum += static_cast<double>(before) * d_inputs[(t * 2 + r) * 4 * width + j];
        }
      }
      EXPECT_NEAR(sum, problem.Slope(problem.weights[k * 4 * width + j]), 1e-4) << k << ", " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, LstmTest,
                         ::testing::Combine(::testing::ValuesIn(SupportedVectorTargets()),
                                            ::testing::Values(4, 8, 16, 20, 36)),
                         [](const auto& info) {
                           return std::string(VectorTargetName(std::get<0>(info.param))) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(LstmTargetsTest, FusedMultiplyAddGivesTheSameBitsAndTheBaselineDiffersByRounding) {
  const Problem problem({.steps = 4, .rows = 3, .width = 20});
  const std::size_t all = 60;
  const auto run = [&] {
    Course course(problem.shape);
    agents::LstmForward(problem.shape, problem.inputs.data(), problem.Packed(), problem.state.data(),
                        problem.cell.data(), course);
    std::vector<float> results = course.states;
    const std::size_t shift = results.size();
    results.resize(shift + problem.inputs.size() + 2 * all);
    float* const d_inputs = results.data() + shift;
    float* const d_state = d_inputs + problem.inputs.size();
    agents::LstmBackward(problem.shape, course, problem.weights.data(), problem.cell.data(), problem.d_states.data(),
                         problem.d_last_cell.data(), d_inputs, d_state, d_state + all);
    return results;
  };
  ChooseVectorTarget(VectorTarget::kBaseline);
  const std::vector<float> baseline = run();
  std::vector<float> fused;
  testing::OnEachVectorTarget([&](VectorTarget target) {
    const std::vector<float> results = run();
    for (std::size_t i = 0; i < results.size(); ++i) ASSERT_NEAR(results[i], baseline[i], 1e-5) << i;
    if (target == VectorTarget::kBaseline) return;
    EXPECT_TRUE(fused.empty() || results == fused);
    fused = results;
  });
}

}  // namespace
}  // namespace emplace
