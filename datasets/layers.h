#ifndef EMPLACE_DATASETS_LAYERS_H_
#define EMPLACE_DATASETS_LAYERS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/builder.h"

// Building blocks of models. Each function adds forward ops under the builder's current scopes, works out shapes,
// and returns the result. `name` is the op's; layers of several ops put theirs in a scope of that name. Shapes that do
// not fit are a bug of the network's and stop the program.
namespace emplace::datasets {

// A window that slides over [N, C, H, W].
struct Sliding {
  std::array<std::int64_t, 2> stride = {1, 1};
  bool same = true;  // pad so that stride 1 keeps the size; else no padding ("valid")
  std::array<std::int64_t, 2> dilation = {1, 1};
};

// Any op of one input and one output of that shape: relu, sigmoid, tanh, gelu, softmax.
Value Unary(NetworkBuilder& net, std::string_view kind, Value x, std::string_view name = {});
// add, sub, mul, div, with broadcasting.
Value Binary(NetworkBuilder& net, std::string_view kind, Value a, Value b, std::string_view name = {});
Value Scale(NetworkBuilder& net, Value x, double factor, std::string_view name = {});

// Convolution with a filter of `kernel` (rows, columns), variable "weights" [filters, C, rows, columns]; no bias.
Value Conv2d(NetworkBuilder& net, Value x, std::int64_t filters, std::array<std::int64_t, 2> kernel,
             const Sliding& sliding = {});
// One filter for each channel and multiple; variable "depthwise_weights" [C, multiplier, rows, columns].
Value DepthwiseConv2d(NetworkBuilder& net, Value x, std::int64_t multiplier, std::array<std::int64_t, 2> kernel,
                      const Sliding& sliding = {});
Value MaxPool(NetworkBuilder& net, Value x, std::array<std::int64_t, 2> window, const Sliding& sliding);
Value AvgPool(NetworkBuilder& net, Value x, std::array<std::int64_t, 2> window, const Sliding& sliding);

// Adds variable "bias" along the channels ([N, C, H, W]) or the last dimension.
Value AddBias(NetworkBuilder& net, Value x);
// Product with variable "weights" [last dimension, units], and the bias if `bias`.
Value Dense(NetworkBuilder& net, Value x, std::int64_t units, bool bias = true);
// a [.., M, K] times b [K, N]; a Value for b lets steps share their weights. `transposed`: b is [N, K].
Value MatMul(NetworkBuilder& net, Value a, Value b, bool transposed = false, std::string_view name = {});
// a [.., M, K] times b [.., K, N].
Value BatchMatMul(NetworkBuilder& net, Value a, Value b, bool transposed = false, std::string_view name = {});
Value BiasAdd(NetworkBuilder& net, Value x, Value bias);

// Batch normalisation in training: variables "beta" and, if `scale`, "gamma"; the moving averages that inference will
// need ("moving_mean", "moving_variance") are updated by m -= average_rate * (m - statistic), three ops each, as
// TensorFlow graphs of 2016 to 2018 do. Source: Ioffe and Szegedy 2015, algorithm 1.
struct BatchNormOptions {
  bool scale = true;
  double average_rate = 0.0003;
};
Value BatchNorm(NetworkBuilder& net, Value x, const BatchNormOptions& options);
// Along the last dimension, variables "gamma" and "beta"; means and deviations are f32 in every precision. Source: Ba,
// Kiros, Hinton 2016, equation 4.
Value LayerNorm(NetworkBuilder& net, Value x);
// The same with variables that are read elsewhere too.
Value LayerNorm(NetworkBuilder& net, Value x, Value gamma, Value beta);
// x / root of the mean of its squares along the last dimension, times `scale`; one f32 number a row is kept. Source:
// Zhang and Sennrich 2019, equation 4.
Value RmsNorm(NetworkBuilder& net, Value x, Value scale);
Value Dropout(NetworkBuilder& net, Value x);
Value Cast(NetworkBuilder& net, Value x, DType dtype);

Value Concat(NetworkBuilder& net, const std::vector<Value>& parts, std::size_t axis, std::string_view name = {});
// `count` equal parts.
std::vector<Value> Split(NetworkBuilder& net, Value x, std::size_t count, std::size_t axis, std::string_view name = {});
// Tensors of one shape to one with a new axis, and back.
Value Stack(NetworkBuilder& net, const std::vector<Value>& parts, std::size_t axis, std::string_view name = {});
std::vector<Value> Unstack(NetworkBuilder& net, Value x, std::size_t axis, std::string_view name = {});
// Elements [begin, begin + shape) of each dimension.
Value Slice(NetworkBuilder& net, Value x, const Shape& begin, Shape shape, std::string_view name = {});
// Zeros around: before[i] in front of and after[i] behind dimension i.
Value Pad(NetworkBuilder& net, Value x, const Shape& before, const Shape& after, std::string_view name = {});
Value Transpose(NetworkBuilder& net, Value x, const std::vector<std::size_t>& order, std::string_view name = {});
Value Reshape(NetworkBuilder& net, Value x, Shape shape, std::string_view name = {});
// Transpose() as a view, which takes no time, for readers that take any strides.
Value Permute(NetworkBuilder& net, Value x, const std::vector<std::size_t>& order, std::string_view name = {});
// x with sizes of 1 repeated up to `shape`, as a view.
Value Expand(NetworkBuilder& net, Value x, Shape shape, std::string_view name = {});
// A constant.
Value Fill(NetworkBuilder& net, Shape shape, std::string_view name);
// x itself, a constant to the backward pass.
Value StopGradient(NetworkBuilder& net, Value x);
// Rows of `table` [rows, width] by number: shape of `ids`, then width.
Value Gather(NetworkBuilder& net, Value table, Value ids);
// The same with a gradient that is as large as the table.
Value EmbeddingRows(NetworkBuilder& net, Value table, Value ids);
// Gather() with a variable "table" of its own.
Value Embedding(NetworkBuilder& net, Value ids, std::int64_t rows, std::int64_t width);

// Sums and means over `axes`, which disappear.
Value Reduce(NetworkBuilder& net, std::string_view kind, Value x, const std::vector<std::size_t>& axes,
             std::string_view name = {});
Value AddN(NetworkBuilder& net, const std::vector<Value>& parts, std::string_view name = {});
// Loss of each row of `logits` [N, C], f32 in every precision; labels are class numbers [N] or distributions [N, C].
Value SoftmaxCrossEntropy(NetworkBuilder& net, Value logits, Value labels);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_LAYERS_H_
