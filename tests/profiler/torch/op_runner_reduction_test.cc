#include <gmock/gmock.h>

#include "tests/profiler/torch/op_runner_testing.h"

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OpRunnerReductionTest, SumsMeansAndMaximaRunOverTheirAxes) {
  const Contents x = Of({2, 3}, {1, 5, 3, 4, 2, 9});
  EXPECT_THAT(RunOp("reduce_sum", R"({"axes":[0]})", {x}, {Spec({3})})[0], ElementsAre(5, 7, 12));
  EXPECT_THAT(RunOp("reduce_sum", R"({"axes":[1]})", {x}, {Spec({2, 1})})[0], ElementsAre(9, 15));
  EXPECT_THAT(RunOp("reduce_sum", "", {x}, {Spec({})})[0], ElementsAre(24));
  EXPECT_THAT(RunOp("reduce_mean", R"({"axes":[-1]})", {x}, {Spec({2})})[0], ElementsAre(3, 5));
  EXPECT_THAT(RunOp("reduce_mean", R"({"axes":[]})", {x}, {x.spec})[0], ElementsAre(1, 5, 3, 4, 2, 9));
  EXPECT_THAT(RunOp("reduce_max", R"({"axes":[0,1]})", {x}, {Spec({})})[0], ElementsAre(9));
  EXPECT_THAT(RunOp("reduce_sum", "", {Ids({3}, {1, 2, 3})}, {Spec({}, DType::kI32)})[0], ElementsAre(6));
  // A tensor broadcast from [2,1] to [2,2,3] is summed over the first and the last dimension.
  const Contents wide = Of({2, 2, 3}, {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60});
  EXPECT_THAT(RunOp("broadcast_grad", "", {wide}, {Spec({2, 1})})[0], ElementsAre(66, 165));
  EXPECT_THAT(RunOp("broadcast_grad", "", {wide}, {Spec({})})[0], ElementsAre(231));
}

TEST(OpRunnerReductionTest, NormsAreThoseComputedByHand) {
  EXPECT_THAT(RunOp("l2_loss", "", {Of({2, 1}, {3, 4})}, {Spec({})})[0], ElementsAre(12.5));
  // The halved sums of squares, 12.5 and 37.5, belong to a norm of sqrt(2 * 50) = 10: the factor is 5 / 10. A norm of 4
  // stays.
  const std::vector<profiler::TensorSpec> scalar = {Spec({})};
  EXPECT_THAT(RunOp("global_norm_scale", "", {Of({}, {12.5}), Of({}, {37.5})}, scalar)[0], ElementsAre(0.5));
  EXPECT_THAT(RunOp("global_norm_scale", "", {Of({}, {8})}, scalar)[0], ElementsAre(1));
  EXPECT_THAT(RunOp("global_norm_scale", R"({"threshold":1})", {Of({}, {8})}, scalar)[0], ElementsAre(0.25));
  EXPECT_THAT(RunOp("global_norm_scale", "", {Of({}, {0})}, scalar)[0], ElementsAre(1));
}

TEST(OpRunnerReductionTest, LossesAreThoseComputedByHand) {
  // exp of log 1, log 2, log 5: probabilities 1/8, 2/8, 5/8.
  const Contents logits = Of({1, 3}, {std::log(1), std::log(2), std::log(5)});
  const Numbers probabilities = {0.125, 0.25, 0.625};
  ExpectNear(RunOp("softmax", "", {logits}, {logits.spec})[0], probabilities, 1e-12, "softmax");
  const auto classes = RunOp("softmax_cross_entropy", "", {logits, Ids({1}, {1})}, {Spec({1}), logits.spec});
  ExpectNear(classes[0], {-std::log(0.25)}, 1e-12, "the loss of class 1");
  ExpectNear(classes[1], probabilities, 1e-12, "probabilities");
  const auto shares = RunOp("softmax_cross_entropy", "", {logits, Of({1, 3}, {0.5, 0, 0.5})}, {Spec({1}), logits.spec});
  ExpectNear(shares[0], {-0.5 * std::log(0.125) - 0.5 * std::log(0.625)}, 1e-12, "the loss of a distribution");
}

TEST(OpRunnerReductionTest, NormalisedChannelsAndRowsHaveTheirMeanAndVariance) {
  // Channel 0: 1, 3, 5, 7: mean 4, variance 5. Channel 1: 2, 2, 2, 2. y = (x - mean) / sqrt(variance + 0.001) * 2 + 10.
  const Contents x = Of({2, 2, 2}, {1, 3, 2, 2, 5, 7, 2, 2});
  const Contents offset = Of({2}, {10, 20});
  const std::vector<profiler::TensorSpec> outputs = {x.spec, Spec({2}), Spec({2})};
  const auto batch = RunOp("batch_norm", "", {x, Of({2}, {2, 3}), offset}, outputs);
  const double step = 2 / std::sqrt(5.001);
  ExpectNear(batch[0], {10 - 3 * step, 10 - step, 20, 20, 10 + step, 10 + 3 * step, 20, 20}, 1e-9, "batch_norm");
  ExpectNear(batch[1], {4, 2}, 1e-9, "mean");
  ExpectNear(batch[2], {5, 0}, 1e-9, "variance");
  ExpectNear(RunOp("batch_norm", "", {x, offset}, outputs)[0],
             {10 - 1.5 * step, 10 - 0.5 * step, 20, 20, 10 + 0.5 * step, 10 + 1.5 * step, 20, 20}, 1e-9, "unscaled");
  // Rows 1, 3 and 2, 2: means 2, deviations sqrt(1 + 0.00001) and sqrt(0.00001).
  const auto layer = RunOp("layer_norm", "", {Of({1, 2, 2}, {1, 3, 2, 2}), Of({2}, {2, 3}), Of({2}, {10, 20})},
                           {Spec({1, 2, 2}), Spec({1, 2}), Spec({1, 2})});
  const double deviation = std::sqrt(1.00001);
  ExpectNear(layer[0], {10 - 2 / deviation, 20 + 3 / deviation, 10, 20}, 1e-9, "layer_norm");
  ExpectNear(layer[1], {2, 2}, 1e-9, "mean");
  ExpectNear(layer[2], {deviation, std::sqrt(0.00001)}, 1e-9, "deviation");
}

TEST(OpRunnerReductionTest, PoolsTakeTheWindowsOfTheirPadding) {
  const Contents row = Of({1, 1, 1, 4}, {-1, -2, -3, -4});
  const auto pool = [&row](const char* kind, const std::string& attrs, std::int64_t columns) {
    return RunOp(kind, R"({"window":[1,3],)" + attrs + "}", {row}, {Spec({1, 1, 1, columns})})[0];
  };
  // Window 3, stride 2: one element at the end is missing and counts as the smallest. Largest of (-1 -2 -3), (-3 -4).
  EXPECT_THAT(pool("max_pool", R"("padding":"same","stride":[1,2])", 2), ElementsAre(-1, -3));
  EXPECT_THAT(pool("max_pool", R"("padding":"valid")", 2), ElementsAre(-1, -2));
  EXPECT_THAT(pool("max_pool", R"("padding":"same")", 4), ElementsAre(-1, -1, -2, -3));
  EXPECT_THAT(pool("max_pool", R"("padding":[0,2],"stride":[1,2])", 3), ElementsAre(-1, -1, -3));  // over half a window
  // Missing elements count as 0, and every window as 3: (-1 - 2 - 3) / 3, (-3 - 4 + 0) / 3.
  ExpectNear(pool("avg_pool", R"("padding":"same","stride":[1,2])", 2), {-2, -7. / 3}, 1e-12, "asymmetric");
  ExpectNear(pool("avg_pool", R"("padding":"same")", 4), {-1, -2, -3, -7. / 3}, 1e-12, "symmetric");
  ExpectNear(pool("avg_pool", R"("padding":"valid")", 2), {-2, -3}, 1e-12, "valid");
  // The gradient of the asymmetric pooling goes to the largest elements, or is divided by three.
  const Contents y = Of({1, 1, 1, 2}, {-1, -3});
  const Contents dy = Of({1, 1, 1, 2}, {3, 6});
  const std::string attrs = R"({"window":[1,3],"padding":"same","stride":[1,2]})";
  EXPECT_THAT(RunOp("max_pool_grad", attrs, {dy, row, y}, {row.spec})[0], ElementsAre(3, 0, 6, 0));
  EXPECT_THAT(RunOp("avg_pool_grad", attrs, {dy}, {row.spec})[0], ElementsAre(1, 1, 3, 2));
}

TEST(OpRunnerReductionTest, GradientsOfReductionsAreTheirDifferences) {
  const Contents x = Varied({2, 3, 4}, 1);
  for (const char* const attrs : {R"({"axes":[1]})", R"({"axes":[0,2]})", ""}) {
    const std::string text = attrs;
    const profiler::TensorSpec y = text.empty() ? Spec({}) : text == R"({"axes":[1]})" ? Spec({2, 4}) : Spec({1, 3, 1});
    for (const std::string kind : {"reduce_sum", "reduce_mean", "reduce_max"}) {
      const ForwardOp op = {kind, attrs, {x}, {y}};
      std::vector<Contents> inputs = {op.Dy()};
      if (kind == "reduce_max") inputs = {op.Dy(), x, op.Results()[0]};
      ExpectGradient(op, 0, kind + "_grad", inputs, {x.spec});
    }
  }
  const ForwardOp norm = {"l2_loss", "", {x}, {Spec({})}};
  ExpectGradient(norm, 0, "l2_loss_grad", {norm.Dy(), x}, {x.spec});
  const ForwardOp spread = {"add", "", {Varied({3, 1}, 1), x}, {x.spec}};
  ExpectGradient(spread, 0, "broadcast_grad", {spread.Dy()}, {Spec({3, 1})});
}

TEST(OpRunnerReductionTest, GradientsOfLossesAndNormsAreTheirDifferences) {
  const Contents x = Varied({4, 3}, 1);
  const ForwardOp softmax = {"softmax", "", {x}, {x.spec}};
  ExpectGradient(softmax, 0, "softmax_grad", {softmax.Dy(), softmax.Results()[0]}, {x.spec});
  // The gradient for distributions requires rows that sum to 1.
  const Contents shares = Of({4, 3}, {1, 0, 0, 0.5, 0.5, 0, 0.25, 0.25, 0.5, 0, 0.1, 0.9});
  for (const Contents& labels : {Ids({4}, {2, 0, 1, 2}), shares}) {
    const ForwardOp loss = {"softmax_cross_entropy", "", {x, labels}, {Spec({4}), x.spec}};
    ExpectGradient(loss, 0, "softmax_cross_entropy_grad", {loss.Dy(), loss.Results()[1], labels}, {x.spec});
  }

  const Contents image = Varied({2, 3, 2, 2}, 2);
  const Contents scale = Varied({3}, 3);
  const Contents offset = Varied({3}, 4);
  const std::vector<profiler::TensorSpec> channels = {image.spec, scale.spec, scale.spec};
  const ForwardOp batch = {"batch_norm", "", {image, scale, offset}, channels};
  const std::vector<Contents> statistics = batch.Results();
  for (std::size_t i = 0; i < 3; ++i) {
    ExpectGradient(batch, i, "batch_norm_grad", {batch.Dy(), image, statistics[1], statistics[2], scale}, channels, i);
  }
  const ForwardOp plain = {"batch_norm", "", {image, offset}, channels};
  for (std::size_t i = 0; i < 2; ++i) {
    ExpectGradient(plain, i, "batch_norm_grad", {plain.Dy(), image, statistics[1], statistics[2]},
                   {image.spec, offset.spec}, i);
  }

  const ForwardOp layer = {"layer_norm", "", {x, scale, offset}, {x.spec, Spec({4}), Spec({4})}};
  const std::vector<Contents> rows = layer.Results();
  for (std::size_t i = 0; i < 3; ++i) {
    ExpectGradient(layer, i, "layer_norm_grad", {layer.Dy(), x, rows[1], rows[2], scale},
                   {x.spec, scale.spec, offset.spec}, i);
  }
}

TEST(OpRunnerReductionTest, GradientsOfPoolsAreTheirDifferences) {
  struct Case {
    const char* attrs;
    std::int64_t rows;
    std::int64_t columns;
  };
  const Contents x = Varied({1, 2, 6, 5}, 1);
  for (const Case& row : {Case{R"({"window":[3,2],"padding":"same"})", 6, 5},                 // columns asymmetric
                          Case{R"({"window":[3,3],"padding":"same","stride":[2,2]})", 3, 3},  // rows asymmetric
                          Case{R"({"window":[2,2],"padding":"valid","stride":[2,2]})", 3, 2},
                          Case{R"({"window":[3,3],"padding":[1,1]})", 6, 5}}) {
    for (const std::string kind : {"max_pool", "avg_pool"}) {
      const ForwardOp op = {kind, row.attrs, {x}, {Spec({1, 2, row.rows, row.columns})}};
      std::vector<Contents> inputs = {op.Dy()};
      if (kind == "max_pool") inputs = {op.Dy(), x, op.Results()[0]};
      ExpectGradient(op, 0, kind + "_grad", inputs, {x.spec});
    }
  }
}

TEST(OpRunnerReductionTest, WhatDoesNotFitIsRefused) {
  const Contents x = Varied({2, 3}, 1);
  EXPECT_THAT(RefusalOf("reduce_sum", R"({"axes":[2]})", {x}, {Spec({2})}), HasSubstr("axes are dimensions"));
  EXPECT_THAT(RefusalOf("reduce_sum", R"({"axes":[1,-1]})", {x}, {Spec({2})}), HasSubstr("axes are distinct"));
  EXPECT_THAT(RefusalOf("reduce_sum", R"({"axes":[0.5]})", {x}, {Spec({2})}), HasSubstr("list of integers"));
  EXPECT_THAT(RefusalOf("reduce_sum", R"({"axes":[0]})", {x}, {Spec({2})}), HasSubstr("has the output's shape"));
  EXPECT_THAT(RefusalOf("softmax_cross_entropy", "", {x, Ids({3}, {0, 0, 0})}, {Spec({2}), x.spec}),
              HasSubstr("one class number or one distribution a row"));
  const Contents image = Varied({1, 1, 4, 4}, 1);
  EXPECT_THAT(RefusalOf("max_pool", "", {image}, {image.spec}), HasSubstr("at least 1"));
  EXPECT_THAT(RefusalOf("avg_pool", R"({"window":[2,2],"dilation":[2,2]})", {image}, {Spec({1, 1, 2, 2})}),
              HasSubstr("has no dilation"));
  // A missing class is detected when it is looked up. On a GPU a kernel does this, and the GPU cannot be used
  // afterwards.
  if (!TestDevice().is_cpu()) return;
  EXPECT_THAT(RefusalOf("softmax_cross_entropy", "", {x, Ids({2}, {0, 3})}, {Spec({2}), x.spec}),
              HasSubstr("the_op: as an op of kind softmax_cross_entropy"));
}

}  // namespace
}  // namespace emplace::testing
