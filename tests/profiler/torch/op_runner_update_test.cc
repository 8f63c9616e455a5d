#include <gmock/gmock.h>

#include <algorithm>

#include "tests/profiler/torch/op_runner_testing.h"

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kRate = 1e-6;

// The variable after each of two steps with the same gradient.
std::pair<Numbers, Numbers> TwoSteps(const std::string& kind, const std::vector<Contents>& inputs) {
  KeptOp op(kind, "", inputs, {});
  EXPECT_TRUE(op.Run().empty());
  Numbers first = op.Input(0);
  op.Run();
  return {first, op.Input(0)};
}

// The change of w = 1 with gradient 2 after one step and after two, computed by hand.
struct Descent {
  const char* optimizer;
  double first;
  double second;
};
std::vector<Descent> Descents() {
  // rmsprop: s = 0.1 * 4 = 0.4, m = a * 2 / sqrt(0.401); s = 0.9 * 0.4 + 0.4 = 0.76, m = 0.9 * m + a * 2 / sqrt(0.761).
  const double r1 = 2 / std::sqrt(0.401);
  const double r2 = 0.9 * r1 + 2 / std::sqrt(0.761);
  // adam: m = 0.2, s = 0.001 * 4 = 0.004; m = 0.9 * 0.2 + 0.2 = 0.38, s = 0.999 * 0.004 + 0.004 = 0.007996.
  const double a1 = 0.2 / (std::sqrt(0.004) + 1e-8);
  const double a2 = 0.38 / (std::sqrt(0.007996) + 1e-8);
  return {{"sgd", 2 * kRate, 4 * kRate},
          {"momentum", 2 * kRate, (2 + 3.8) * kRate},  // m = 2; m = 0.9 * 2 + 2
          {"rmsprop", r1 * kRate, (r1 + r2) * kRate},
          {"adam", a1 * kRate, (a1 + a2) * kRate}};
}

TEST(OpRunnerUpdateTest, VariablesDescendAndStateIsKept) {
  for (const auto& [optimizer, first, second] : Descents()) {
    const auto steps = TwoSteps(optimizer, {Of({2}, {1, 5}), Of({2}, {2, 0})});
    ExpectNear(steps.first, {1 - first, 5}, 1e-14, optimizer);
    ExpectNear(steps.second, {1 - second, 5}, 1e-14, optimizer);
  }
  const auto steps = TwoSteps("assign_sub", {Of({2}, {1, 5}), Of({2}, {2, 0.5})});
  EXPECT_THAT(steps.first, ElementsAre(-1, 4.5));
  EXPECT_THAT(steps.second, ElementsAre(-3, 4));
}

TEST(OpRunnerUpdateTest, MastersDescendBelowThePrecisionOfTheWeights) {
  // In bf16, 1 - 2e-6 is 1: 3000 steps are seen in the weights only because f32 masters add them up.
  for (const std::string prefix : {"", "sparse_"}) {
    std::vector<Contents> inputs = {Of({2, 1}, {1, 4}, DType::kBf16), Of({2, 1}, {2, 0}, DType::kBf16)};
    if (!prefix.empty()) inputs.push_back(Ids({2}, {0, 1}));
    const auto after = [&](const char* attrs) {
      KeptOp op(prefix + "sgd", attrs, inputs, {});
      for (int step = 0; step < 3000; ++step) op.Run();
      return op.Input(0);
    };
    EXPECT_THAT(after(""), ElementsAre(1, 4));
    EXPECT_THAT(after(R"({"f32_master":true})"), ElementsAre(1 - 2.0 / 256, 4));  // 1 - 0.006, rounded
  }
}

TEST(OpRunnerUpdateTest, OnlyRowsWithAGradientDescend) {
  for (const auto& [optimizer, first, second] : Descents()) {
    const std::string kind = std::string("sparse_") + optimizer;
    // Row 2 has gradient 2, row 0 none, row 1 a gradient of 0. The number 2 occurs twice, once with a gradient of 0, as
    // in the output of gather_grad.
    const auto steps = TwoSteps(kind, {Of({3, 1}, {3, 4, 1}), Of({3, 1}, {2, 0, 0}), Ids({3}, {2, 1, 2})});
    ExpectNear(steps.first, {3, 4, 1 - first}, 1e-14, kind);
    ExpectNear(steps.second, {3, 4, 1 - second}, 1e-14, kind);
  }
  // Gradients of the same row number are added: 1.5 + 0.5.
  const auto steps = TwoSteps("sparse_momentum", {Of({1, 1}, {1}), Of({2, 1}, {1.5, 0.5}), Ids({2}, {0, 0})});
  ExpectNear(steps.second, {1 - 5.8 * kRate}, 1e-14, "sparse_momentum");
}

TEST(OpRunnerUpdateTest, WeightsStayFiniteOverThousandsOfSteps) {
  const Contents w = Of({3, 1}, {0.5, -0.5, 1}, DType::kF32);
  const Contents g = Of({3, 1}, {100, -1e-3, 0}, DType::kF32);
  for (const Descent& row : Descents()) {
    for (const bool sparse : {false, true}) {
      std::vector<Contents> inputs = {w, g};
      if (sparse) inputs.push_back(Ids({3}, {0, 1, 2}));
      KeptOp op((sparse ? "sparse_" : "") + std::string(row.optimizer), "", inputs, {});
      for (int step = 0; step < 3000; ++step) op.Run();
      // 3000 steps, each of at most 10 gradients (momentum) of 100 times 1e-6.
      for (const double weight : op.Input(0)) EXPECT_LE(std::abs(weight), 4) << row.optimizer;
    }
  }
}

TEST(OpRunnerUpdateTest, WhatDoesNotFitIsRefused) {
  const Contents w = Varied({3, 2}, 1);
  EXPECT_THAT(RefusalOf("sgd", "", {w, Varied({2, 3}, 1)}, {}), HasSubstr("variable and gradient have one shape"));
  EXPECT_THAT(RefusalOf("adam", "", {w, w}, {w.spec}), HasSubstr("has 1 outputs (0 expected)"));
  EXPECT_THAT(RefusalOf("sparse_sgd", "", {w, w, Varied({3}, 1)}, {}), HasSubstr("row numbers are integers"));
  EXPECT_THAT(RefusalOf("sparse_sgd", "", {w, w, Ids({2}, {0, 1})}, {}), HasSubstr("one row number a row"));
}

}  // namespace
}  // namespace emplace::testing
