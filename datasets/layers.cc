#include "datasets/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

using Output = NetworkBuilder::Output;

// The op's own name if the network gives it none: its kind.
std::string_view NameOr(std::string_view name, std::string_view kind) { return name.empty() ? kind : name; }

// An op with one output.
Value One(NetworkBuilder& net, std::string_view name, std::string_view kind, std::vector<Value> inputs, Shape shape,
          std::string attrs = {}) {
  const DType dtype = inputs.empty() ? DType::kF32 : net.dtype(inputs.front());
  return net
      .Forward(NameOr(name, kind), kind, std::move(inputs), {{.dtype = dtype, .shape = std::move(shape)}},
               std::move(attrs))
      .front();
}

std::string SlidingAttrs(const Sliding& sliding, const std::array<std::int64_t, 2>* window) {
  std::string attrs = "{";
  if (window != nullptr) attrs += fmt::format(R"("window":[{},{}],)", (*window)[0], (*window)[1]);
  attrs += fmt::format(R"("stride":[{},{}],"padding":"{}")", sliding.stride[0], sliding.stride[1],
                       sliding.same ? "same" : "valid");
  if (sliding.dilation != std::array<std::int64_t, 2>{1, 1}) {
    attrs += fmt::format(R"(,"dilation":[{},{}])", sliding.dilation[0], sliding.dilation[1]);
  }
  return attrs + "}";
}

Shape SlidingShape(const Shape& x, std::int64_t channels, const std::array<std::int64_t, 2>& window,
                   const Sliding& sliding) {
  EMPLACE_CHECK_EQ(x.size(), 4U);
  Shape y = {x[0], channels, 0, 0};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t reach = (window[axis] - 1) * sliding.dilation[axis];
    const std::int64_t steps = sliding.same ? x[2 + axis] - 1 : x[2 + axis] - reach - 1;
    EMPLACE_CHECK_GE(steps, 0);
    y[2 + axis] = steps / sliding.stride[axis] + 1;
  }
  return y;
}

Shape Broadcast(const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()));
  for (std::size_t i = 1; i <= shape.size(); ++i) {
    const std::int64_t left = i <= a.size() ? a[a.size() - i] : 1;
    const std::int64_t right = i <= b.size() ? b[b.size() - i] : 1;
    EMPLACE_CHECK(left == right || left == 1 || right == 1);
    shape[shape.size() - i] = left == 1 ? right : left;
  }
  return shape;
}

std::string AxisAttr(std::size_t axis) { return fmt::format(R"({{"axis":{}}})", axis); }

Shape Without(Shape shape, std::size_t axis) {
  EMPLACE_CHECK_LT(axis, shape.size());
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return shape;
}

// m -= rate * (m - statistic)
void UpdateMovingAverage(NetworkBuilder& net, std::string_view name, Value statistic, double rate) {
  const Shape shape = net.shape(statistic);
  const Value average = net.Variable(name, shape, /*trainable=*/false);
  const std::string& variable = net.nodes()[net.producer(average)].name;
  const auto update = [&](std::string_view kind, std::vector<Value> inputs, std::vector<Output> outputs,
                          std::string attrs = {}) {
    NetworkBuilder::Node node;
    node.name = fmt::format("update/{}/{}", variable, kind);
    node.kind = kind;
    node.attrs = std::move(attrs);
    node.layer = net.nodes()[net.producer(average)].layer;
    node.pass = Pass::kUpdate;
    node.inputs = std::move(inputs);
    node.colocate_with = variable;
    return net.Add(std::move(node), std::move(outputs));
  };
  const Value difference = update("sub", {average, statistic}, {{.shape = shape}}).front();
  const Value step = update("scale", {difference}, {{.shape = shape}}, fmt::format(R"({{"factor":{}}})", rate)).front();
  update("assign_sub", {average, step}, {});
}

}  // namespace

Value Unary(NetworkBuilder& net, std::string_view kind, Value x, std::string_view name) {
  return One(net, name, kind, {x}, net.shape(x));
}

Value Binary(NetworkBuilder& net, std::string_view kind, Value a, Value b, std::string_view name) {
  return One(net, name, kind, {a, b}, Broadcast(net.shape(a), net.shape(b)));
}

Value Scale(NetworkBuilder& net, Value x, double factor, std::string_view name) {
  return One(net, name, "scale", {x}, net.shape(x), fmt::format(R"({{"factor":{}}})", factor));
}

Value Conv2d(NetworkBuilder& net, Value x, std::int64_t filters, std::array<std::int64_t, 2> kernel,
             const Sliding& sliding) {
  const Value weights = net.Variable("weights", {filters, net.shape(x)[1], kernel[0], kernel[1]});
  return One(net, {}, "conv2d", {x, weights}, SlidingShape(net.shape(x), filters, kernel, sliding),
             SlidingAttrs(sliding, nullptr));
}

Value DepthwiseConv2d(NetworkBuilder& net, Value x, std::int64_t multiplier, std::array<std::int64_t, 2> kernel,
                      const Sliding& sliding) {
  const std::int64_t channels = net.shape(x)[1];
  const Value weights = net.Variable("depthwise_weights", {channels, multiplier, kernel[0], kernel[1]});
  return One(net, {}, "depthwise_conv2d", {x, weights},
             SlidingShape(net.shape(x), channels * multiplier, kernel, sliding), SlidingAttrs(sliding, nullptr));
}

Value MaxPool(NetworkBuilder& net, Value x, std::array<std::int64_t, 2> window, const Sliding& sliding) {
  return One(net, {}, "max_pool", {x}, SlidingShape(net.shape(x), net.shape(x)[1], window, sliding),
             SlidingAttrs(sliding, &window));
}

Value AvgPool(NetworkBuilder& net, Value x, std::array<std::int64_t, 2> window, const Sliding& sliding) {
  return One(net, {}, "avg_pool", {x}, SlidingShape(net.shape(x), net.shape(x)[1], window, sliding),
             SlidingAttrs(sliding, &window));
}

Value AddBias(NetworkBuilder& net, Value x) {
  const Shape& shape = net.shape(x);
  const Value bias = net.Variable("bias", {shape.size() == 4 ? shape[1] : shape.back()});
  return BiasAdd(net, x, bias);
}

Value Dense(NetworkBuilder& net, Value x, std::int64_t units, bool bias) {
  const Value product = MatMul(net, x, net.Variable("weights", {net.shape(x).back(), units}));
  return bias ? AddBias(net, product) : product;
}

Value MatMul(NetworkBuilder& net, Value a, Value b, bool transposed, std::string_view name) {
  Shape shape = net.shape(a);
  EMPLACE_CHECK_EQ(net.shape(b)[transposed ? 1 : 0], shape.back());
  shape.back() = net.shape(b)[transposed ? 0 : 1];
  return One(net, name, "matmul", {a, b}, std::move(shape), transposed ? R"({"transpose_b":true})" : "");
}

Value BatchMatMul(NetworkBuilder& net, Value a, Value b, bool transposed, std::string_view name) {
  Shape shape = net.shape(a);
  const Shape& right = net.shape(b);
  EMPLACE_CHECK_EQ(right[right.size() - (transposed ? 1 : 2)], shape.back());
  shape.back() = right[right.size() - (transposed ? 2 : 1)];
  return One(net, name, "batch_matmul", {a, b}, std::move(shape), transposed ? R"({"transpose_b":true})" : "");
}

Value BiasAdd(NetworkBuilder& net, Value x, Value bias) { return One(net, {}, "bias_add", {x, bias}, net.shape(x)); }

Value BatchNorm(NetworkBuilder& net, Value x, const BatchNormOptions& options) {
  const Shape channels = {net.shape(x)[1]};
  std::vector<Value> inputs = {x};
  if (options.scale) inputs.push_back(net.Variable("gamma", channels));
  inputs.push_back(net.Variable("beta", channels));
  const std::vector<Value> outputs =
      net.Forward("batch_norm", "batch_norm", std::move(inputs),
                  {{.dtype = net.dtype(x), .shape = net.shape(x)}, {.shape = channels}, {.shape = channels}});
  UpdateMovingAverage(net, "moving_mean", outputs[1], options.average_rate);
  UpdateMovingAverage(net, "moving_variance", outputs[2], options.average_rate);
  return outputs[0];
}

Value LayerNorm(NetworkBuilder& net, Value x) {
  const Shape width = {net.shape(x).back()};
  const Value gamma = net.Variable("gamma", width);
  return LayerNorm(net, x, gamma, net.Variable("beta", width));
}

Value LayerNorm(NetworkBuilder& net, Value x, Value gamma, Value beta) {
  const Shape rows(net.shape(x).begin(), net.shape(x).end() - 1);
  return net
      .Forward("layer_norm", "layer_norm", {x, gamma, beta},
               {{.dtype = net.dtype(x), .shape = net.shape(x)}, {.shape = rows}, {.shape = rows}})
      .front();
}

Value RmsNorm(NetworkBuilder& net, Value x, Value scale) {
  Shape rows = net.shape(x);
  EMPLACE_CHECK_EQ(net.shape(scale)[0], rows.back());
  rows.pop_back();
  return net
      .Forward("rms_norm", "rms_norm", {x, scale},
               {{.dtype = net.dtype(x), .shape = net.shape(x)}, {.shape = std::move(rows)}})
      .front();
}

Value Cast(NetworkBuilder& net, Value x, DType dtype) {
  return net.Forward("cast", "cast", {x}, {{.dtype = dtype, .shape = net.shape(x)}}).front();
}

Value Dropout(NetworkBuilder& net, Value x) {
  return net
      .Forward("dropout", "dropout", {x},
               {{.dtype = net.dtype(x), .shape = net.shape(x)}, {.dtype = DType::kBool, .shape = net.shape(x)}})
      .front();
}

Value Concat(NetworkBuilder& net, const std::vector<Value>& parts, std::size_t axis, std::string_view name) {
  Shape shape = net.shape(parts.front());
  shape[axis] = 0;
  for (const Value part : parts) {
    EMPLACE_CHECK(Without(net.shape(part), axis) == Without(shape, axis));
    shape[axis] += net.shape(part)[axis];
  }
  return One(net, name, "concat", parts, std::move(shape), AxisAttr(axis));
}

std::vector<Value> Split(NetworkBuilder& net, Value x, std::size_t count, std::size_t axis, std::string_view name) {
  Shape shape = net.shape(x);
  EMPLACE_CHECK_EQ(shape[axis] % static_cast<std::int64_t>(count), 0);
  shape[axis] /= static_cast<std::int64_t>(count);
  const std::vector<Output> outputs(count, {.dtype = net.dtype(x), .shape = shape});
  return net.Forward(NameOr(name, "split"), "split", {x}, outputs, AxisAttr(axis));
}

Value Stack(NetworkBuilder& net, const std::vector<Value>& parts, std::size_t axis, std::string_view name) {
  Shape shape = net.shape(parts.front());
  for (const Value part : parts) EMPLACE_CHECK(net.shape(part) == shape);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<std::int64_t>(parts.size()));
  return One(net, name, "stack", parts, std::move(shape), AxisAttr(axis));
}

std::vector<Value> Unstack(NetworkBuilder& net, Value x, std::size_t axis, std::string_view name) {
  const auto count = static_cast<std::size_t>(net.shape(x)[axis]);
  const std::vector<Output> outputs(count, {.dtype = net.dtype(x), .shape = Without(net.shape(x), axis)});
  return net.Forward(NameOr(name, "unstack"), "unstack", {x}, outputs, AxisAttr(axis));
}

Value Slice(NetworkBuilder& net, Value x, const Shape& begin, Shape shape, std::string_view name) {
  for (std::size_t i = 0; i < shape.size(); ++i) EMPLACE_CHECK_LE(begin[i] + shape[i], net.shape(x)[i]);
  return One(net, name, "slice", {x}, std::move(shape), fmt::format(R"({{"begin":[{}]}})", fmt::join(begin, ",")));
}

Value Pad(NetworkBuilder& net, Value x, const Shape& before, const Shape& after, std::string_view name) {
  Shape shape = net.shape(x);
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] += before[i] + after[i];
  return One(net, name, "pad", {x}, std::move(shape),
             fmt::format(R"({{"before":[{}],"after":[{}]}})", fmt::join(before, ","), fmt::join(after, ",")));
}

Value Transpose(NetworkBuilder& net, Value x, const std::vector<std::size_t>& order, std::string_view name) {
  EMPLACE_CHECK_EQ(order.size(), net.shape(x).size());
  Shape shape;
  for (const std::size_t axis : order) shape.push_back(net.shape(x)[axis]);
  return One(net, name, "transpose", {x}, std::move(shape), fmt::format(R"({{"order":[{}]}})", fmt::join(order, ",")));
}

Value Permute(NetworkBuilder& net, Value x, const std::vector<std::size_t>& order, std::string_view name) {
  EMPLACE_CHECK_EQ(order.size(), net.shape(x).size());
  Shape shape;
  for (const std::size_t axis : order) shape.push_back(net.shape(x)[axis]);
  return One(net, name, "reshape", {x}, std::move(shape), fmt::format(R"({{"order":[{}]}})", fmt::join(order, ",")));
}

Value Expand(NetworkBuilder& net, Value x, Shape shape, std::string_view name) {
  return One(net, name, "expand", {x}, std::move(shape));
}

Value Reshape(NetworkBuilder& net, Value x, Shape shape, std::string_view name) {
  return One(net, name, "reshape", {x}, std::move(shape));
}

Value Fill(NetworkBuilder& net, Shape shape, std::string_view name) {
  return One(net, name, "fill", {}, std::move(shape));
}

Value StopGradient(NetworkBuilder& net, Value x) { return One(net, {}, "stop_gradient", {x}, net.shape(x)); }

Value Gather(NetworkBuilder& net, Value table, Value ids) {
  Shape shape = net.shape(ids);
  shape.push_back(net.shape(table)[1]);
  return One(net, {}, "gather", {table, ids}, std::move(shape));
}

Value EmbeddingRows(NetworkBuilder& net, Value table, Value ids) {
  Shape shape = net.shape(ids);
  shape.push_back(net.shape(table)[1]);
  return One(net, {}, "embedding", {table, ids}, std::move(shape));
}

Value Embedding(NetworkBuilder& net, Value ids, std::int64_t rows, std::int64_t width) {
  return Gather(net, net.Variable("table", {rows, width}), ids);
}

Value Reduce(NetworkBuilder& net, std::string_view kind, Value x, const std::vector<std::size_t>& axes,
             std::string_view name) {
  Shape shape;
  for (std::size_t i = 0; i < net.shape(x).size(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) shape.push_back(net.shape(x)[i]);
  }
  return One(net, name, kind, {x}, std::move(shape), fmt::format(R"({{"axes":[{}]}})", fmt::join(axes, ",")));
}

Value AddN(NetworkBuilder& net, const std::vector<Value>& parts, std::string_view name) {
  return One(net, name, "add_n", parts, net.shape(parts.front()));
}

Value SoftmaxCrossEntropy(NetworkBuilder& net, Value logits, Value labels) {
  const Shape& shape = net.shape(logits);
  EMPLACE_CHECK_EQ(shape.size(), 2U);
  return net
      .Forward("softmax_cross_entropy", "softmax_cross_entropy", {logits, labels},
               {{.shape = {shape[0]}}, {.dtype = net.dtype(logits), .shape = shape}})
      .front();
}

}  // namespace emplace::datasets
