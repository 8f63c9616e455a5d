#include "datasets/gradients.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "datasets/attention.h"
#include "datasets/layers.h"
#include "datasets/training.h"

namespace emplace::testing {
namespace {

// Builds a net from two trained variables a and b of one shape to a loss, the sum of what `write` returns. Returns the
// gradient ops, each as "name kind(inputs)", without the seed.
std::vector<std::string> GradientOps(
    const datasets::Shape& a_shape, const datasets::Shape& b_shape,
    const std::function<datasets::Value(datasets::NetworkBuilder&, datasets::Value, datasets::Value)>& write) {
  datasets::NetworkBuilder net("test");
  const datasets::Value a = net.Variable("a", a_shape);
  const datasets::Value b = net.Variable("b", b_shape);
  const datasets::Value result = write(net, a, b);
  std::vector<std::size_t> axes;
  for (std::size_t i = 0; i < net.shape(result).size(); ++i) axes.push_back(i);
  datasets::AddGradients(net, axes.empty() ? result : datasets::Reduce(net, "reduce_sum", result, axes, "loss"));
  const Graph graph = net.Build();  // the catalogue checks every shape
  std::vector<std::string> ops;
  for (const OpId id : graph.file_order()) {
    const Op& op = graph.op(id);
    if (op.pass != Pass::kBackward || op.name.starts_with("gradients/loss/")) continue;
    std::string text = std::string(op.name.substr(std::string("gradients/").size())) + " " + std::string(op.kind) + "(";
    for (const TensorId input : graph.inputs(id)) {
      const Tensor& tensor = graph.tensor(input);
      if (text.back() != '(') text += ", ";
      text += graph.op(tensor.producer).name;
      if (tensor.output_index > 0) text += ":" + std::to_string(tensor.output_index);
    }
    ops.push_back(text + ")");
  }
  return ops;
}

using Ops = std::vector<std::string>;
const std::string kDy = "gradients/loss/reduce_sum_grad";

TEST(GradientRulesTest, KindsOfFrameworksAreKnownWithoutOverloadAndUnderline) {
  for (const char* const kind :
       {"conv2d", "aten::silu", "aten::add.Tensor", "aten::add_.Tensor", "aten::convolution"}) {
    EXPECT_TRUE(datasets::HasGradientRule(kind)) << kind;
  }
  for (const char* const kind : {"input", "sgd", "selu", ""}) {
    EXPECT_FALSE(datasets::HasGradientRule(kind)) << kind;
  }
}

TEST(GradientsTest, AttentionGivesAllItsGradientsAtOnceFromItsResultAndStatistics) {
  EXPECT_EQ(GradientOps({1, 2, 3, 4}, {1, 1, 3, 4},
                        [](auto& net, datasets::Value a, datasets::Value b) {
                          return datasets::Attend(net, a, b, b, {.causal = true, .scale = 0.5});
                        }),
            (Ops{"attention/attention_grad attention_grad(" + kDy + ", a, b, b, attention, attention:1)",
                 "b/add_n add_n(gradients/attention/attention_grad:1, gradients/attention/attention_grad:2)"}));
}

TEST(GradientsTest, PartsOfTransformersReadWhatTheyKept) {
  EXPECT_EQ(GradientOps({2, 3}, {3},
                        [](auto& net, datasets::Value a, datasets::Value b) { return datasets::RmsNorm(net, a, b); }),
            (Ops{"rms_norm/rms_norm_grad rms_norm_grad(" + kDy + ", a, rms_norm:1, b)"}));
  EXPECT_EQ(GradientOps(
                {2, 3}, {2, 3},
                [](auto& net, datasets::Value a, datasets::Value b) { return datasets::Binary(net, "swiglu", a, b); }),
            (Ops{"swiglu/swiglu_grad swiglu_grad(" + kDy + ", a, b)"}));
  EXPECT_EQ(GradientOps({5, 3}, {1, 3},
                        [](auto& net, datasets::Value a, datasets::Value b) {
                          const datasets::Value rows =
                              datasets::EmbeddingRows(net, a, net.Input("ids", DType::kI32, {2}));
                          return datasets::Binary(net, "add", rows, datasets::Expand(net, b, {2, 3}));
                        }),
            (Ops{"expand/broadcast_grad broadcast_grad(" + kDy + ")",
                 "embedding/embedding_grad embedding_grad(" + kDy + ", ids)"}));
  EXPECT_EQ(
      GradientOps({2, 3}, {2, 3},
                  [](auto& net, datasets::Value a, datasets::Value b) {
                    return datasets::Cast(net, datasets::Permute(net, datasets::Binary(net, "add", a, b), {1, 0}),
                                          DType::kBf16);
                  }),
      (Ops{"cast/cast_grad cast_grad(" + kDy + ")", "reshape/reshape_grad reshape_grad(gradients/cast/cast_grad)"}));
}

TEST(GradientsTest, SumsAndProductsGiveEachFactorTheOther) {
  EXPECT_EQ(
      GradientOps({2, 3}, {2, 3},
                  [](auto& net, datasets::Value a, datasets::Value b) { return datasets::Binary(net, "mul", a, b); }),
      (Ops{"mul/mul_grad0 mul_grad(" + kDy + ", b)", "mul/mul_grad1 mul_grad(" + kDy + ", a)"}));
  // A sum passes its gradient on without an op.
  EXPECT_EQ(
      GradientOps({2, 3}, {2, 3},
                  [](auto& net, datasets::Value a, datasets::Value b) { return datasets::Binary(net, "add", a, b); }),
      Ops{});
  EXPECT_EQ(
      GradientOps({2, 3}, {2, 3},
                  [](auto& net, datasets::Value a, datasets::Value b) { return datasets::Binary(net, "sub", a, b); }),
      (Ops{"sub/sub_grad sub_grad(" + kDy + ")"}));
  EXPECT_EQ(
      GradientOps({2, 3}, {2, 3},
                  [](auto& net, datasets::Value a, datasets::Value b) { return datasets::Binary(net, "div", a, b); }),
      (Ops{"div/div_grad_a div_grad_a(" + kDy + ", b)", "div/div_grad_b div_grad_b(" + kDy + ", div, b)"}));
}

TEST(GradientsTest, WhatWasBroadcastIsSummedBack) {
  EXPECT_EQ(
      GradientOps({2, 3}, {3},
                  [](auto& net, datasets::Value a, datasets::Value b) { return datasets::Binary(net, "add", a, b); }),
      (Ops{"add/broadcast_grad1 broadcast_grad(" + kDy + ")"}));
  EXPECT_EQ(
      GradientOps({2, 1}, {3},
                  [](auto& net, datasets::Value a, datasets::Value b) { return datasets::Binary(net, "mul", a, b); }),
      (Ops{"mul/mul_grad0 mul_grad(" + kDy + ", b)", "mul/broadcast_grad0 broadcast_grad(gradients/mul/mul_grad0)",
           "mul/mul_grad1 mul_grad(" + kDy + ", a)", "mul/broadcast_grad1 broadcast_grad(gradients/mul/mul_grad1)"}));
}

TEST(GradientsTest, GradientsThatMeetAreAdded) {
  // a is read by two ops; the gradient of the later one comes first.
  EXPECT_EQ(GradientOps({2, 2}, {2, 2},
                        [](auto& net, datasets::Value a, datasets::Value b) {
                          const datasets::Value bent = datasets::Unary(net, "tanh", a);
                          return datasets::Binary(net, "add", bent, datasets::MatMul(net, a, b));
                        }),
            (Ops{"matmul/matmul_grad_a matmul_grad_a(" + kDy + ", b)",
                 "matmul/matmul_grad_b matmul_grad_b(a, " + kDy + ")", "tanh/tanh_grad tanh_grad(" + kDy + ", tanh)",
                 "a/add_n add_n(gradients/matmul/matmul_grad_a, gradients/tanh/tanh_grad)"}));
}

TEST(GradientsTest, APieceThatNobodyReadsGetsZeros) {
  EXPECT_EQ(GradientOps({2, 4}, {2, 2},
                        [](auto& net, datasets::Value a, datasets::Value b) {
                          return datasets::Binary(net, "add", datasets::Split(net, a, 2, 1)[1], b);
                        }),
            (Ops{"split/fill0 fill()", "split/split_grad split_grad(gradients/split/fill0, " + kDy + ")"}));
}

TEST(GradientsTest, LookupsOfOneTableAreJoinedByRow) {
  datasets::NetworkBuilder net("test");
  const datasets::Value table = net.Variable("table", {100, 3});
  const datasets::Value ids = net.Input("ids", DType::kI32, {4});
  const datasets::Value first = net.Forward("first", "gather", {table, ids}, {{.shape = {4, 3}}}).front();
  const datasets::Value second = net.Forward("second", "gather", {table, ids}, {{.shape = {4, 3}}}).front();
  const datasets::Value loss = datasets::Reduce(net, "reduce_sum", datasets::Binary(net, "mul", first, second), {0, 1});
  const auto gradients = datasets::AddGradients(net, loss);
  ASSERT_EQ(gradients.size(), 1U);
  EXPECT_EQ(net.shape(gradients[0].gradient.values), (datasets::Shape{8, 3}));
  EXPECT_EQ(net.shape(gradients[0].gradient.rows), datasets::Shape{8});
  EXPECT_EQ(net.nodes()[net.producer(gradients[0].gradient.rows)].name, "gradients/table/concat_rows");
  net.Build();
}

TEST(GradientsTest, VariablesComeBackInTheirOrder) {
  datasets::NetworkBuilder net("test");
  const datasets::Value a = net.Variable("a", {2});
  const datasets::Value unused = net.Variable("unused", {2});
  const datasets::Value b = net.Variable("b", {2});
  const auto gradients =
      datasets::AddGradients(net, datasets::Reduce(net, "reduce_sum", datasets::Binary(net, "mul", b, a), {0}));
  ASSERT_EQ(gradients.size(), 2U);  // the loss does not depend on `unused`
  EXPECT_EQ(gradients[0].variable, a);
  EXPECT_EQ(gradients[1].variable, b);
  EXPECT_NE(gradients[0].variable, unused);
}

// One net with every kind of layer. All gradient ops have shapes that the catalogue accepts, and every variable gets a
// gradient of its own shape. Convolutions and products cost twice their forward FLOP.
TEST(GradientsTest, EveryLayerHasAGradientThatFitsIt) {
  datasets::NetworkBuilder net("all");
  const datasets::Value images = net.Input("images", DType::kF32, {2, 4, 8, 8});
  const datasets::Value labels = net.Input("labels", DType::kF32, {2, 6});
  const datasets::Value start = net.Variable("start", {2, 4, 8, 8});
  datasets::Value x = datasets::Binary(net, "add", images, start);
  x = datasets::Conv2d(net, x, 4, {3, 3});
  x = datasets::DepthwiseConv2d(net, x, 2, {3, 3});
  {
    const auto scope = net.Within("first");
    x = datasets::BatchNorm(net, x, {});
  }
  {
    const auto scope = net.Within("second");
    x = datasets::BatchNorm(net, x, {.scale = false});
  }
  const datasets::Sliding halve = {.stride = {2, 2}, .same = false, .dilation = {1, 1}};
  x = datasets::Concat(net, {datasets::MaxPool(net, x, {2, 2}, halve), datasets::AvgPool(net, x, {2, 2}, halve)},
                       1);  // [2, 16, 4, 4]
  x = datasets::AddBias(net, datasets::Unary(net, "relu", x));
  x = datasets::Transpose(net, datasets::Reshape(net, x, {2, 16, 16}), {0, 2, 1});
  x = datasets::LayerNorm(net, datasets::Unary(net, "gelu", x));
  x = datasets::Dropout(net, datasets::Unary(net, "softmax", datasets::BatchMatMul(net, x, x, true)));
  x = datasets::Pad(net, datasets::Slice(net, x, {0, 0, 4}, {2, 16, 8}), {0, 0, 0}, {0, 0, 2});  // [2, 16, 10]
  x = datasets::Unary(net, "tanh", datasets::Reduce(net, "reduce_max", x, {2}));                 // [2, 16]
  std::vector<datasets::Value> parts = datasets::Split(net, x, 2, 1);
  x = datasets::Stack(net, {datasets::Unary(net, "sigmoid", parts[0]), datasets::Scale(net, parts[1], 0.5)},
                      0);  // [2, 2, 8]
  parts = datasets::Unstack(net, x, 0);
  x = datasets::AddN(net, {parts[0], parts[1], parts[0]}, "together");
  {
    const auto scope = net.Within("classes");
    x = datasets::Dense(net, x, 6);
  }
  const datasets::Value penalty = net.Forward("l2_loss", "l2_loss", {x}, {{.shape = {}}}).front();
  const datasets::Value loss = datasets::Reduce(net, "reduce_mean", datasets::SoftmaxCrossEntropy(net, x, labels), {0});
  const std::size_t num_forward = net.nodes().size();
  const auto gradients = datasets::AddGradients(net, datasets::Binary(net, "add", loss, penalty, "total"));

  std::size_t trainable = 0;
  for (const auto& node : net.nodes()) trainable += node.trainable ? 1 : 0;
  EXPECT_EQ(gradients.size(), trainable);
  for (const auto& [variable, gradient] : gradients) EXPECT_EQ(net.shape(variable), net.shape(gradient.values));

  const Graph graph = net.Build();
  const auto flop_of = [&graph](std::string_view stem, Pass pass) {
    double flop = 0;
    for (const OpId id : graph.file_order()) {
      const Op& op = graph.op(id);
      if (op.pass == pass && op.kind.starts_with(stem)) flop += op.flop;
    }
    return flop;
  };
  for (const std::string_view kind : {"conv2d", "depthwise_conv2d", "matmul", "batch_matmul"}) {
    EXPECT_GT(flop_of(kind, Pass::kForward), 0) << kind;
    EXPECT_EQ(flop_of(kind, Pass::kBackward), 2 * flop_of(kind, Pass::kForward)) << kind;
  }
  EXPECT_GT(net.nodes().size(), num_forward);
}

}  // namespace
}  // namespace emplace::testing
