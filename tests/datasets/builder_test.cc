#include "datasets/builder.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "datasets/layers.h"
#include "datasets/training.h"
#include "sim/ops/op_catalog.h"

namespace emplace::testing {
namespace {

// The expected properties of an op of a training graph.
struct Expected {
  std::string name;
  std::string kind;
  std::vector<std::string> inputs;  // "producer" or "producer:index"
  std::vector<datasets::Shape> outputs;
  double flop;
  Pass pass;
  std::string layer;
  std::string colocate_with;
  std::int64_t persistent;
};

std::vector<std::string> InputNames(const Graph& graph, OpId op) {
  std::vector<std::string> names;
  for (const TensorId input : graph.inputs(op)) {
    const Tensor& tensor = graph.tensor(input);
    names.emplace_back(graph.op(tensor.producer).name);
    if (tensor.output_index > 0) names.back() += ":" + std::to_string(tensor.output_index);
  }
  return names;
}

std::vector<datasets::Shape> OutputShapes(const Graph& graph, OpId op) {
  std::vector<datasets::Shape> shapes;
  for (std::size_t i = 0; i < graph.num_outputs(op); ++i) {
    const auto shape = graph.tensor(MakeId<TensorId>(Index(graph.first_output(op)) + i)).shape;
    shapes.emplace_back(shape.begin(), shape.end());
  }
  return shapes;
}

// Convolution, relu, pooling and a classifier: images [2, 3, 6, 6] to 5 classes.
Graph FourLayers() {
  datasets::NetworkBuilder net("four_layers");
  datasets::Value x;
  datasets::Value labels;
  {
    const auto scope = net.Layer("data");
    x = net.Input("images", DType::kF32, {2, 3, 6, 6});
    labels = net.Input("labels", DType::kI32, {2});
  }
  {
    const auto scope = net.Layer("conv");
    x = datasets::AddBias(net, datasets::Conv2d(net, x, 4, {3, 3}));
  }
  {
    const auto scope = net.Layer("hidden");
    x = datasets::Unary(net, "relu", x);
  }
  {
    const auto scope = net.Layer("pool");
    x = datasets::MaxPool(net, x, {2, 2}, {.stride = {2, 2}, .same = false, .dilation = {1, 1}});
    x = datasets::Reshape(net, x, {2, 36});
  }
  {
    const auto scope = net.Layer("fc");
    x = datasets::Dense(net, x, 5);
  }
  const auto scope = net.Layer("loss");
  const datasets::Value loss = datasets::Reduce(net, "reduce_mean", datasets::SoftmaxCrossEntropy(net, x, labels), {0});
  return datasets::BuildTrainingGraph(net, loss,
                                      {.optimizer = "momentum", .clip_gradients = false, .average_variables = false});
}

TEST(BuilderTest, FourLayersGiveTheTrainingGraphWrittenOutByHand) {
  constexpr Pass kForward = Pass::kForward;
  constexpr Pass kBackward = Pass::kBackward;
  constexpr Pass kUpdate = Pass::kUpdate;
  const datasets::Shape maps = {2, 4, 6, 6};     // 288 elements
  const datasets::Shape pooled = {2, 4, 3, 3};   // 72 elements
  const datasets::Shape filters = {4, 3, 3, 3};  // 108 elements, 432 bytes
  const std::vector<Expected> expected = {
      {"data/images", "input", {}, {{2, 3, 6, 6}}, 0, kForward, "data", "", 0},
      {"data/labels", "input", {}, {{2}}, 0, kForward, "data", "", 0},
      {"conv/weights", "variable", {}, {filters}, 0, kForward, "conv", "", 432},
      // 288 outputs, 27 products each: 2 * 288 * 27
      {"conv/conv2d", "conv2d", {"data/images", "conv/weights"}, {maps}, 15552, kForward, "conv", "", 0},
      {"conv/bias", "variable", {}, {{4}}, 0, kForward, "conv", "", 16},
      {"conv/bias_add", "bias_add", {"conv/conv2d", "conv/bias"}, {maps}, 288, kForward, "conv", "", 0},
      {"hidden/relu", "relu", {"conv/bias_add"}, {maps}, 288, kForward, "hidden", "", 0},
      // 72 windows of 4: 3 comparisons each
      {"pool/max_pool", "max_pool", {"hidden/relu"}, {pooled}, 216, kForward, "pool", "", 0},
      {"pool/reshape", "reshape", {"pool/max_pool"}, {{2, 36}}, 0, kForward, "pool", "", 0},
      {"fc/weights", "variable", {}, {{36, 5}}, 0, kForward, "fc", "", 720},
      {"fc/matmul", "matmul", {"pool/reshape", "fc/weights"}, {{2, 5}}, 720, kForward, "fc", "", 0},  // 2 * 2*36*5
      {"fc/bias", "variable", {}, {{5}}, 0, kForward, "fc", "", 20},
      {"fc/bias_add", "bias_add", {"fc/matmul", "fc/bias"}, {{2, 5}}, 10, kForward, "fc", "", 0},
      // 5 * 10 for the softmax, log and sign of 2 numbers
      {"loss/softmax_cross_entropy",
       "softmax_cross_entropy",
       {"fc/bias_add", "data/labels"},
       {{2}, {2, 5}},
       54,
       kForward,
       "loss",
       "",
       0},
      {"loss/reduce_mean", "reduce_mean", {"loss/softmax_cross_entropy"}, {{}}, 2, kForward, "loss", "", 0},

      {"gradients/loss/reduce_mean/fill", "fill", {}, {{}}, 0, kBackward, "loss", "", 0},
      {"gradients/loss/reduce_mean/reduce_mean_grad",
       "reduce_mean_grad",
       {"gradients/loss/reduce_mean/fill"},
       {{2}},
       1,
       kBackward,
       "loss",
       "",
       0},
      {"gradients/loss/softmax_cross_entropy/softmax_cross_entropy_grad",
       "softmax_cross_entropy_grad",
       {"gradients/loss/reduce_mean/reduce_mean_grad", "loss/softmax_cross_entropy:1", "data/labels"},
       {{2, 5}},
       12,  // 10 products, 2 differences
       kBackward,
       "loss",
       "",
       0},
      {"gradients/fc/bias_add/bias_add_grad",
       "bias_add_grad",
       {"gradients/loss/softmax_cross_entropy/softmax_cross_entropy_grad"},
       {{5}},
       5,  // 10 - 5 sums
       kBackward,
       "fc",
       "",
       0},
      {"gradients/fc/matmul/matmul_grad_a",
       "matmul_grad_a",
       {"gradients/loss/softmax_cross_entropy/softmax_cross_entropy_grad", "fc/weights"},
       {{2, 36}},
       720,
       kBackward,
       "fc",
       "",
       0},
      {"gradients/fc/matmul/matmul_grad_b",
       "matmul_grad_b",
       {"pool/reshape", "gradients/loss/softmax_cross_entropy/softmax_cross_entropy_grad"},
       {{36, 5}},
       720,
       kBackward,
       "fc",
       "",
       0},
      {"gradients/pool/reshape/reshape_grad",
       "reshape_grad",
       {"gradients/fc/matmul/matmul_grad_a"},
       {pooled},
       0,
       kBackward,
       "pool",
       "",
       0},
      {"gradients/pool/max_pool/max_pool_grad",
       "max_pool_grad",
       {"gradients/pool/reshape/reshape_grad", "hidden/relu", "pool/max_pool"},
       {maps},
       288,  // 72 windows of 4
       kBackward,
       "pool",
       "",
       0},
      {"gradients/hidden/relu/relu_grad",
       "relu_grad",
       {"gradients/pool/max_pool/max_pool_grad", "hidden/relu"},
       {maps},
       288,
       kBackward,
       "hidden",
       "",
       0},
      {"gradients/conv/bias_add/bias_add_grad",
       "bias_add_grad",
       {"gradients/hidden/relu/relu_grad"},
       {{4}},
       284,
       kBackward,
       "conv",
       "",
       0},
      // The images need no gradient: no conv2d_grad_input.
      {"gradients/conv/conv2d/conv2d_grad_filter",
       "conv2d_grad_filter",
       {"data/images", "gradients/hidden/relu/relu_grad"},
       {filters},
       15552,
       kBackward,
       "conv",
       "",
       0},

      // Momentum: 4 FLOP for each weight, and as many bytes of state as the variable's.
      {"update/conv/weights/momentum",
       "momentum",
       {"conv/weights", "gradients/conv/conv2d/conv2d_grad_filter"},
       {},
       432,
       kUpdate,
       "conv",
       "conv/weights",
       432},
      {"update/conv/bias/momentum",
       "momentum",
       {"conv/bias", "gradients/conv/bias_add/bias_add_grad"},
       {},
       16,
       kUpdate,
       "conv",
       "conv/bias",
       16},
      {"update/fc/weights/momentum",
       "momentum",
       {"fc/weights", "gradients/fc/matmul/matmul_grad_b"},
       {},
       720,
       kUpdate,
       "fc",
       "fc/weights",
       720},
      {"update/fc/bias/momentum",
       "momentum",
       {"fc/bias", "gradients/fc/bias_add/bias_add_grad"},
       {},
       20,
       kUpdate,
       "fc",
       "fc/bias",
       20},
  };
  const Graph graph = FourLayers();
  ASSERT_EQ(graph.num_ops(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const OpId id = graph.file_order()[i];
    const Op& op = graph.op(id);
    const Expected& wanted = expected[i];
    SCOPED_TRACE(wanted.name);
    EXPECT_EQ(op.name, wanted.name);
    EXPECT_EQ(op.kind, wanted.kind);
    EXPECT_EQ(InputNames(graph, id), wanted.inputs);
    EXPECT_EQ(OutputShapes(graph, id), wanted.outputs);
    EXPECT_EQ(op.flop, wanted.flop);
    EXPECT_EQ(op.pass, wanted.pass);
    EXPECT_EQ(op.layer, wanted.layer);
    EXPECT_EQ(op.colocate_with ? graph.op(*op.colocate_with).name : "", wanted.colocate_with);
    EXPECT_EQ(op.persistent.count, wanted.persistent);
    EXPECT_EQ(op.temp.count, 0);
    EXPECT_TRUE(graph.control_inputs(id).empty());
  }
  EXPECT_EQ(graph.op(*graph.FindOp("conv/conv2d")).attrs, R"({"stride":[1,1],"padding":"same"})");
  EXPECT_EQ(graph.op(*graph.FindOp("gradients/conv/conv2d/conv2d_grad_filter")).attrs,
            R"({"stride":[1,1],"padding":"same"})");
}

TEST(BuilderTest, ScopesNestAndEndWithTheirBlock) {
  datasets::NetworkBuilder net("scopes");
  {
    const auto layer = net.Layer("block");
    {
      const auto part = net.Within("branch");
      net.Input("a", DType::kF32, {1});
    }
    net.Input("b", DType::kF32, {1});
    const auto other = net.Layer("other");  // numbering restarts in a new layer
    net.Input("c", DType::kF32, {1});
  }
  net.Input("d", DType::kF32, {1});
  const Graph graph = net.Build();
  const std::map<std::string, std::string> layers = {
      {"block/branch/a", "block"}, {"block/b", "block"}, {"other/c", "other"}, {"d", ""}};
  for (const auto& [name, layer] : layers) {
    ASSERT_TRUE(graph.FindOp(name)) << name;
    EXPECT_EQ(graph.op(*graph.FindOp(name)).layer, layer);
  }
}

TEST(BuilderTest, CountsTheParametersThatAreTrained) {
  datasets::NetworkBuilder net("parameters");
  net.Variable("weights", {10, 7});
  net.Variable("average", {10, 7}, /*trainable=*/false);
  EXPECT_EQ(net.num_parameters(), 70);
}

TEST(BuilderTest, OnlyWhatReadsATrainedVariableIsTrained) {
  datasets::NetworkBuilder net("trained");
  const datasets::Value x = net.Input("x", DType::kF32, {4, 3});
  const datasets::Value frozen = net.Variable("frozen", {3, 2}, /*trainable=*/false);
  const datasets::Value weights = net.Variable("weights", {2, 2});
  const datasets::Value fixed = datasets::MatMul(net, x, frozen);
  EXPECT_FALSE(net.trained(fixed));
  EXPECT_TRUE(net.trained(datasets::MatMul(net, fixed, weights, false, "second")));
}

}  // namespace
}  // namespace emplace::testing
