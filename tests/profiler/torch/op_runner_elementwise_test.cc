#include <gmock/gmock.h>

#include <numeric>

#include "tests/profiler/torch/op_runner_testing.h"

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OpRunnerElementwiseTest, FunctionsOfSmallTensorsAreThoseComputedByHand) {
  const Contents x = Of({2}, {-2, 0.5});
  const std::vector<profiler::TensorSpec> two = {Spec({2})};
  EXPECT_THAT(RunOp("relu", "", {x}, two)[0], ElementsAre(0, 0.5));
  ExpectNear(RunOp("sigmoid", "", {x}, two)[0], {1 / (1 + std::exp(2)), 1 / (1 + std::exp(-0.5))}, 1e-12, "sigmoid");
  ExpectNear(RunOp("tanh", "", {x}, two)[0], {std::tanh(-2), std::tanh(0.5)}, 1e-12, "tanh");
  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  const auto gelu = [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  };
  ExpectNear(RunOp("gelu", "", {x}, two)[0], {gelu(-2), gelu(0.5)}, 1e-12, "gelu");
  EXPECT_THAT(RunOp("sub_grad", "", {x}, two)[0], ElementsAre(2, -0.5));
  EXPECT_THAT(RunOp("add_n", "", {x, x, Of({2}, {1, 2}), x}, two)[0], ElementsAre(-5, 3.5));
  EXPECT_THAT(RunOp("add_n", "", {x}, two)[0], ElementsAre(-2, 0.5));
  EXPECT_THAT(RunOp("scale", R"({"factor":0.5})", {x}, two)[0], ElementsAre(-1, 0.25));
  EXPECT_THAT(RunOp("scale", "", {x, Of({}, {3})}, two)[0], ElementsAre(-6, 1.5));
  EXPECT_THAT(RunOp("scale_grad", R"({"factor":4})", {x}, two)[0], ElementsAre(-8, 2));
}

TEST(OpRunnerElementwiseTest, OperandsAreBroadcast) {
  const Contents column = Of({2, 1}, {6, 12});
  const Contents row = Of({3}, {1, 2, 3});
  const std::vector<profiler::TensorSpec> table = {Spec({2, 3})};
  EXPECT_THAT(RunOp("add", "", {column, row}, table)[0], ElementsAre(7, 8, 9, 13, 14, 15));
  EXPECT_THAT(RunOp("sub", "", {column, row}, table)[0], ElementsAre(5, 4, 3, 11, 10, 9));
  EXPECT_THAT(RunOp("mul", "", {column, row}, table)[0], ElementsAre(6, 12, 18, 12, 24, 36));
  EXPECT_THAT(RunOp("div", "", {column, row}, table)[0], ElementsAre(6, 3, 2, 12, 6, 4));
  // Both operands may be smaller than the output, and of another type.
  EXPECT_THAT(RunOp("mul_grad", "", {row, row}, table)[0], ElementsAre(1, 4, 9, 1, 4, 9));
  EXPECT_THAT(RunOp("add", "", {row, Of({}, {1}, DType::kF32)}, {Spec({3}, DType::kF32)})[0], ElementsAre(2, 3, 4));
}

TEST(OpRunnerElementwiseTest, ABiasIsAddedAlongTheChannels) {
  const Contents bias = Of({2}, {10, 20});
  // Channels are dimension 1 of an image and the last dimension of other tensors, or the one with the bias's length.
  EXPECT_THAT(RunOp("bias_add", "", {Of({1, 2, 1, 2}, {1, 2, 3, 4}), bias}, {Spec({1, 2, 1, 2})})[0],
              ElementsAre(11, 12, 23, 24));
  EXPECT_THAT(RunOp("bias_add", "", {Of({2, 2}, {1, 2, 3, 4}), bias}, {Spec({2, 2})})[0], ElementsAre(11, 22, 13, 24));
  EXPECT_THAT(RunOp("bias_add", "", {Of({1, 2, 3}, {1, 2, 3, 4, 5, 6}), bias}, {Spec({1, 2, 3})})[0],
              ElementsAre(11, 12, 13, 24, 25, 26));
  const profiler::TensorSpec two = Spec({2});
  EXPECT_THAT(RunOp("bias_add_grad", "", {Of({1, 2, 1, 2}, {1, 2, 3, 4})}, {two})[0], ElementsAre(3, 7));
  EXPECT_THAT(RunOp("bias_add_grad", "", {Of({2, 2}, {1, 2, 3, 4})}, {two})[0], ElementsAre(4, 6));
  EXPECT_THAT(RunOp("bias_add_grad", "", {Of({2}, {1, 2})}, {two})[0], ElementsAre(1, 2));
}

TEST(OpRunnerElementwiseTest, GradientsAreTheirDifferences) {
  const Contents x = Varied({2, 5}, 1);
  // Whether the gradient reads y or x, beside dy.
  for (const auto& [kind, reads_y] : {std::pair{"relu", true}, {"sigmoid", true}, {"tanh", true}, {"gelu", false}}) {
    const ForwardOp op = {kind, "", {x}, {x.spec}};
    ExpectGradient(op, 0, op.kind + "_grad", {op.Dy(), reads_y ? op.Results()[0] : x}, {x.spec});
  }
  const ForwardOp scale = {"scale", R"({"factor":-3})", {x}, {x.spec}};
  ExpectGradient(scale, 0, "scale_grad", {scale.Dy()}, {x.spec});
  const Contents b = Of({2, 5}, {1, 2, -1, 3, 0.5, 1, -2, 4, 1.5, 1});
  const ForwardOp mul = {"mul", "", {x, b}, {x.spec}};
  ExpectGradient(mul, 0, "mul_grad", {mul.Dy(), b}, {x.spec});
  ExpectGradient(mul, 1, "mul_grad", {mul.Dy(), x}, {x.spec});
  const ForwardOp div = {"div", "", {x, b}, {x.spec}};
  ExpectGradient(div, 0, "div_grad_a", {div.Dy(), b}, {x.spec});
  ExpectGradient(div, 1, "div_grad_b", {div.Dy(), div.Results()[0], b}, {x.spec});
  const ForwardOp sub = {"sub", "", {x, b}, {x.spec}};
  ExpectGradient(sub, 1, "sub_grad", {sub.Dy()}, {x.spec});
  const ForwardOp bias = {"bias_add", "", {x, Varied({5}, 2)}, {x.spec}};
  ExpectGradient(bias, 1, "bias_add_grad", {bias.Dy()}, {Spec({5})});
}

TEST(OpRunnerElementwiseTest, DropoutKeepsItsShareScaled) {
  constexpr std::size_t kElements = 10000;
  const Contents x = Of({10, 1000}, Numbers(kElements, 2));
  const profiler::TensorSpec mask_spec = Spec({10, 1000}, DType::kBool);
  for (const auto& [attrs, rate] : {std::pair{"", 0.5}, {R"({"rate":0.2})", 0.2}}) {
    const std::vector<Numbers> outputs = RunOp("dropout", attrs, {x}, {x.spec, mask_spec});
    const auto& [y, mask] = std::tie(outputs[0], outputs[1]);
    const double kept = std::accumulate(mask.begin(), mask.end(), 0.0);
    // 10000 draws: the share has a mean error of 0.005, and practically never one of 0.05.
    EXPECT_NEAR(kept / kElements, 1 - rate, 0.05);
    const Numbers dx = RunOp("dropout_grad", attrs, {x, {mask_spec, mask}}, {x.spec})[0];
    for (std::size_t i = 0; i < kElements; ++i) {
      ASSERT_DOUBLE_EQ(y[i], mask[i] * 2 / (1 - rate));
      ASSERT_DOUBLE_EQ(dx[i], mask[i] * 2 / (1 - rate));
    }
  }
}

TEST(OpRunnerElementwiseTest, WhatDoesNotFitIsRefused) {
  const Contents x = Varied({2, 3}, 1);
  EXPECT_EQ(
      RefusalOf("relu", "", {x}, {Spec({3, 2})}),
      "the_op: as an op of kind relu, its shapes or attrs do not fit together (inputs and output have one shape)");
  EXPECT_EQ(RefusalOf("relu", "", {x, x}, {x.spec}), "the_op: as an op of kind relu, has 2 inputs (1 expected)");
  EXPECT_THAT(RefusalOf("add", "", {x, Varied({2}, 1)}, {x.spec}), HasSubstr("aligned at the end"));
  EXPECT_THAT(RefusalOf("scale", "", {x}, {x.spec}), HasSubstr("has neither attr factor nor a second input"));
  EXPECT_THAT(RefusalOf("scale", R"({"factor":"big"})", {x}, {x.spec}), HasSubstr("attr factor is not a number"));
  EXPECT_THAT(RefusalOf("bias_add", "", {x, Varied({4}, 1)}, {x.spec}), HasSubstr("as long as one dimension"));
  EXPECT_THAT(RefusalOf("dropout", R"({"rate":1})", {x}, {x.spec, Spec({2, 3}, DType::kBool)}), HasSubstr("[0, 1)"));
}

}  // namespace
}  // namespace emplace::testing
