#include "datasets/training.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "datasets/layers.h"
#include "sim/base/check.h"

namespace emplace::testing {
namespace {

// logits = x w, x [4, 3], w [3, 2], and optionally a table whose rows are x.
Graph Linear(const datasets::TrainingOptions& options, bool embedded = false) {
  datasets::NetworkBuilder net("linear");
  const datasets::Value labels = net.Input("labels", DType::kI32, {4});
  datasets::Value x;
  if (embedded) {
    x = datasets::Embedding(net, net.Input("ids", DType::kI32, {4}), 100, 3);
  } else {
    x = net.Input("x", DType::kF32, {4, 3});
  }
  const auto scope = net.Layer("fc");
  const datasets::Value logits = datasets::Dense(net, x, 2, /*bias=*/false);
  return datasets::BuildTrainingGraph(
      net, datasets::Reduce(net, "reduce_mean", datasets::SoftmaxCrossEntropy(net, logits, labels), {0}), options);
}

const Op& OpOf(const Graph& graph, std::string_view name) {
  const auto id = graph.FindOp(name);
  if (!id) throw std::runtime_error("no op " + std::string(name));
  return graph.op(*id);
}

std::vector<std::string> InputsOf(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (const TensorId input : graph.inputs(*graph.FindOp(name))) {
    names.emplace_back(graph.op(graph.tensor(input).producer).name);
  }
  return names;
}

TEST(TrainingTest, EveryOptimizerKeepsItsStateBesideTheVariable) {
  // w has 6 elements: 24 bytes for each slot.
  const std::vector<std::pair<std::string, std::int64_t>> state = {
      {"sgd", 0}, {"momentum", 24}, {"rmsprop", 48}, {"adam", 48}};
  ASSERT_EQ(datasets::OptimizerNames().size(), state.size());
  for (const auto& [name, bytes] : state) {
    const Graph graph = Linear({.optimizer = name, .clip_gradients = false, .average_variables = false});
    const Op& update = OpOf(graph, "update/fc/weights/" + name);
    EXPECT_EQ(update.kind, name);
    EXPECT_EQ(update.persistent.count, bytes) << name;
    EXPECT_EQ(graph.op(*update.colocate_with).name, "fc/weights");
    EXPECT_EQ(update.pass, Pass::kUpdate);
    EXPECT_EQ(update.layer, "fc");
  }
}

TEST(TrainingTest, ATableIsUpdatedByRow) {
  const Graph graph = Linear({.optimizer = "adam", .clip_gradients = false, .average_variables = false}, true);
  const Op& update = OpOf(graph, "update/table/sparse_adam");
  EXPECT_EQ(update.flop, 12 * 4 * 3);                   // 4 rows of 3
  EXPECT_EQ(update.persistent.count, 2 * 100 * 3 * 4);  // state for the whole table
  EXPECT_EQ(InputsOf(graph, "update/table/sparse_adam"),
            (std::vector<std::string>{"table", "gradients/gather/gather_grad", "gradients/gather/gather_grad"}));
}

TEST(TrainingTest, ClippingScalesEveryGradientByOneFactor) {
  const Graph graph = Linear({.optimizer = "sgd", .clip_gradients = true, .average_variables = false}, true);
  EXPECT_EQ(InputsOf(graph, "update/global_norm_scale"),
            (std::vector<std::string>{"update/table/l2_loss", "update/fc/weights/l2_loss"}));
  EXPECT_EQ(InputsOf(graph, "update/fc/weights/clip"),
            (std::vector<std::string>{"gradients/fc/matmul/matmul_grad_b", "update/global_norm_scale"}));
  EXPECT_EQ(InputsOf(graph, "update/fc/weights/sgd"),
            (std::vector<std::string>{"fc/weights", "update/fc/weights/clip"}));
  EXPECT_EQ(InputsOf(graph, "update/table/sparse_sgd"),
            (std::vector<std::string>{"table", "update/table/clip", "gradients/gather/gather_grad"}));
  EXPECT_EQ(OpOf(graph, "update/global_norm_scale").layer, "fc");  // the layer of the loss
}

TEST(TrainingTest, AveragesFollowTheUpdateAndStayBesideTheVariable) {
  const Graph graph = Linear({.optimizer = "sgd", .clip_gradients = false, .average_variables = true});
  const Op& average = OpOf(graph, "fc/weights/average");
  EXPECT_EQ(average.kind, "variable");
  EXPECT_EQ(average.persistent.count, 24);
  EXPECT_EQ(graph.op(*average.colocate_with).name, "fc/weights");
  const auto controls = graph.control_inputs(*graph.FindOp("update/fc/weights/average/sub"));
  ASSERT_EQ(controls.size(), 1U);
  EXPECT_EQ(graph.op(controls[0]).name, "update/fc/weights/sgd");
  EXPECT_EQ(InputsOf(graph, "update/fc/weights/average/sub"),
            (std::vector<std::string>{"fc/weights/average", "fc/weights"}));
  EXPECT_EQ(InputsOf(graph, "update/fc/weights/average/assign_sub"),
            (std::vector<std::string>{"fc/weights/average", "update/fc/weights/average/scale"}));
}

TEST(TrainingOptionsTest, PrecisionIsTheTypeOfWeights) {
  const auto read = [](const OptionMap& values) {
    OptionReader reader(values, "net");
    return datasets::ReadPrecision(reader);
  };
  EXPECT_EQ(read({}), DType::kF32);
  EXPECT_EQ(read({{"precision", "f16"}}), DType::kF16);
  EXPECT_EQ(read({{"precision", "bf16"}}), DType::kBf16);
  EXPECT_THROW(read({{"precision", "f64"}}), InputError);
}

TEST(TrainingOptionsTest, WhatANetworkDoesNotUseIsNoOption) {
  const auto declared = [](datasets::TrainingOptions options) {
    const OptionMap none;
    OptionReader reader(none, "net");
    datasets::ReadTrainingOptions(reader, &options);
    std::vector<std::string> keys;
    for (const auto& option : reader.declared()) keys.push_back(option.key);
    return keys;
  };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(declared({.optimizer = "sgd"}), Keys{"optimizer"});
  EXPECT_EQ(declared({.optimizer = "sgd", .clip_gradients = true}), (Keys{"optimizer", "clip_gradients"}));
  EXPECT_EQ(declared({.optimizer = "sgd", .clip_gradients = true, .average_variables = true}),
            (Keys{"optimizer", "clip_gradients", "average_variables"}));
}

TEST(TrainingTest, GradientsThatAreThereGetUpdates) {
  datasets::NetworkBuilder net("test");
  const datasets::Value w = net.Variable("w", {4});
  const datasets::Value gradient =
      net.Forward("dw", "scale", {net.Input("x", DType::kF32, {4})}, {{.shape = {4}}}, R"({"factor":2})").front();
  datasets::TrainingOptions options;
  options.optimizer = "adam";
  net.TieGradient(gradient, w);
  const Graph graph =
      datasets::BuildUpdatedGraph(net, {{.variable = w, .gradient = {.values = gradient, .rows = {}}}}, options);
  const Op& update = graph.op(graph.FindOp("update/w/adam").value());
  EXPECT_EQ(update.persistent.count, 2 * 16);
  EXPECT_EQ(graph.colocation_class(graph.FindOp("dw").value()), graph.colocation_class(graph.FindOp("w").value()));
}

}  // namespace
}  // namespace emplace::testing
