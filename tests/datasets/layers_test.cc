#include "datasets/layers.h"

#include <gtest/gtest.h>

namespace emplace::testing {
namespace {

class LayersTest : public ::testing::Test {
 protected:
  datasets::NetworkBuilder net{"test"};

  datasets::Value Tensor(datasets::Shape shape) {
    return net.Input("in" + std::to_string(net.nodes().size()), DType::kF32, std::move(shape));
  }
  // The attrs of the op that made the value.
  std::string Attrs(datasets::Value value) { return net.nodes()[net.producer(value)].attrs; }
};

TEST_F(LayersTest, WindowsGiveTheSizesOfThePapers) {
  // Inception-V3's first layers: 299 -> 149 (3 x 3, stride 2, valid) -> 147 (valid) -> 73 (pool at stride 2).
  const datasets::Sliding halve = {.stride = {2, 2}, .same = false, .dilation = {1, 1}};
  const datasets::Value x = datasets::Conv2d(net, Tensor({1, 3, 299, 299}), 32, {3, 3}, halve);
  EXPECT_EQ(net.shape(x), (datasets::Shape{1, 32, 149, 149}));
  EXPECT_EQ(Attrs(x), R"({"stride":[2,2],"padding":"valid"})");
  const datasets::Value pooled = datasets::MaxPool(net, Tensor({1, 64, 147, 147}), {3, 3}, halve);
  EXPECT_EQ(net.shape(pooled), (datasets::Shape{1, 64, 73, 73}));
  EXPECT_EQ(Attrs(pooled), R"({"window":[3,3],"stride":[2,2],"padding":"valid"})");
  // ResNet's first layer: 224 -> 112 at stride 2 with padding.
  const auto scope = net.Within("same");
  EXPECT_EQ(net.shape(datasets::Conv2d(net, Tensor({1, 3, 224, 224}), 64, {7, 7}, {.stride = {2, 2}})),
            (datasets::Shape{1, 64, 112, 112}));
}

TEST_F(LayersTest, WindowsCanBeLongAndDilated) {
  EXPECT_EQ(net.shape(datasets::Conv2d(net, Tensor({1, 8, 17, 17}), 9, {1, 7})), (datasets::Shape{1, 9, 17, 17}));
  const auto scope = net.Within("dilated");
  // The filter spans (3 - 1) * 4 + 1 = 9 columns: 20 - 9 + 1 = 12.
  const datasets::Value y =
      datasets::Conv2d(net, Tensor({1, 8, 1, 20}), 9, {1, 3}, {.stride = {1, 1}, .same = false, .dilation = {1, 4}});
  EXPECT_EQ(net.shape(y), (datasets::Shape{1, 9, 1, 12}));
  EXPECT_EQ(Attrs(y), R"({"stride":[1,1],"padding":"valid","dilation":[1,4]})");
  EXPECT_EQ(net.shape(datasets::DepthwiseConv2d(net, Tensor({1, 8, 5, 5}), 3, {3, 3})), (datasets::Shape{1, 24, 5, 5}));
}

TEST_F(LayersTest, ProductsAndBroadcastsGiveTheUsualShapes) {
  EXPECT_EQ(net.shape(datasets::MatMul(net, Tensor({2, 5, 3}), Tensor({3, 7}))), (datasets::Shape{2, 5, 7}));
  EXPECT_EQ(net.shape(datasets::MatMul(net, Tensor({5, 3}), Tensor({7, 3}), true)), (datasets::Shape{5, 7}));
  EXPECT_EQ(net.shape(datasets::BatchMatMul(net, Tensor({2, 5, 3}), Tensor({2, 3, 7}))), (datasets::Shape{2, 5, 7}));
  EXPECT_EQ(net.shape(datasets::BatchMatMul(net, Tensor({2, 5, 3}), Tensor({2, 7, 3}), true)),
            (datasets::Shape{2, 5, 7}));
  EXPECT_EQ(net.shape(datasets::Binary(net, "add", Tensor({2, 1, 3}), Tensor({5, 1}))), (datasets::Shape{2, 5, 3}));
  EXPECT_EQ(net.shape(datasets::Dense(net, Tensor({4, 6}), 9)), (datasets::Shape{4, 9}));
  EXPECT_EQ(net.num_parameters(), 6 * 9 + 9);
}

TEST_F(LayersTest, DataMovesAlongItsAxis) {
  const datasets::Value x = Tensor({2, 6});
  EXPECT_EQ(net.shape(datasets::Concat(net, {x, Tensor({2, 3})}, 1)), (datasets::Shape{2, 9}));
  EXPECT_EQ(net.shape(datasets::Split(net, x, 3, 1)[2]), (datasets::Shape{2, 2}));
  EXPECT_EQ(net.shape(datasets::Stack(net, {x, x, x}, 1)), (datasets::Shape{2, 3, 6}));
  const std::vector<datasets::Value> columns = datasets::Unstack(net, x, 1);
  EXPECT_EQ(columns.size(), 6U);
  EXPECT_EQ(net.shape(columns[5]), datasets::Shape{2});
  EXPECT_EQ(net.shape(datasets::Slice(net, x, {0, 2}, {2, 4})), (datasets::Shape{2, 4}));
  EXPECT_EQ(net.shape(datasets::Pad(net, x, {0, 3}, {1, 0})), (datasets::Shape{3, 9}));
  EXPECT_EQ(net.shape(datasets::Transpose(net, Tensor({2, 3, 4}), {2, 0, 1})), (datasets::Shape{4, 2, 3}));
  EXPECT_EQ(net.shape(datasets::Reduce(net, "reduce_sum", Tensor({2, 3, 4}), {0, 2})), datasets::Shape{3});
  EXPECT_EQ(net.shape(datasets::Embedding(net, net.Input("ids", DType::kI32, {5, 2}), 100, 3)),
            (datasets::Shape{5, 2, 3}));
  EXPECT_EQ(net.dtype(datasets::Unstack(net, net.Input("rows", DType::kI32, {5, 2}), 0, "rows_apart")[0]), DType::kI32);
}

TEST_F(LayersTest, BatchNormKeepsItsMovingAverages) {
  const auto layer = net.Layer("block");
  datasets::BatchNorm(net, Tensor({2, 3, 4, 4}), {.scale = true, .average_rate = 0.25});
  const Graph graph = net.Build();
  for (const std::string statistic : {"mean", "variance"}) {
    const std::string variable = "block/moving_" + statistic;
    const std::string update = "update/" + variable + "/";
    const OpId difference = *graph.FindOp(update + "sub");
    EXPECT_EQ(graph.op(graph.tensor(graph.inputs(difference)[0]).producer).name, variable);
    EXPECT_EQ(graph.tensor(graph.inputs(difference)[1]).output_index, statistic == "mean" ? 1U : 2U);
    EXPECT_EQ(graph.op(*graph.FindOp(update + "scale")).attrs, R"({"factor":0.25})");
    for (const std::string op : {"sub", "scale", "assign_sub"}) {
      const Op& found = graph.op(*graph.FindOp(update + op));
      EXPECT_EQ(found.pass, Pass::kUpdate);
      EXPECT_EQ(found.layer, "block");
      EXPECT_EQ(graph.op(*found.colocate_with).name, variable);
    }
  }
  EXPECT_EQ(net.num_parameters(), 6);  // gamma and beta; the averages are not trained
}

TEST_F(LayersTest, StoppedGradientsAreConstants) {
  const datasets::Value weights = net.Variable("w", {2, 3});
  const datasets::Value stopped = datasets::StopGradient(net, datasets::Unary(net, "relu", weights));
  EXPECT_EQ(net.shape(stopped), (datasets::Shape{2, 3}));
  EXPECT_TRUE(net.trained(weights));
  EXPECT_FALSE(net.trained(stopped));
}

TEST_F(LayersTest, RowsAreLookedUpInAnyTable) {
  const datasets::Value ids = net.Input("ids", DType::kI32, {4, 5});
  EXPECT_EQ(net.shape(datasets::Gather(net, Tensor({9, 3}), ids)), (datasets::Shape{4, 5, 3}));
}

}  // namespace
}  // namespace emplace::testing
