#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "datasets/importers/export_call.h"
#include "sim/base/check.h"

// Elementwise functions, sums, norms, pooling.
namespace emplace::datasets {
namespace {

bool Broadcasts(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) return false;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    if (from[from.size() - i] != 1 && from[from.size() - i] != to[to.size() - i]) return false;
  }
  return true;
}

template <char kSign>
bool LowerBinary(ExportCall& call) {
  constexpr std::string_view kKind = kSign == '+' ? "add" : kSign == '-' ? "sub" : kSign == '*' ? "mul" : "div";
  const Shape& y = call.out().shape;
  const Value a = call.Tensor("self");
  if (!call.IsTensor("other")) {
    const std::optional<double> number = call.Number("other");
    if ((kSign != '*' && kSign != '/') || !number || call.shape(a) != y || call.Text("rounding_mode") != "")
      return false;
    const double factor = kSign == '*' ? *number : 1 / *number;
    if (!std::isfinite(factor)) return false;
    call.Set(0, call.EmitOne("scale", {a}, y, fmt::format(R"({{"factor":{}}})", factor)));
    return true;
  }
  Value b = call.Tensor("other");
  if (!Broadcasts(call.shape(a), y) || !Broadcasts(call.shape(b), y) || call.Has("rounding_mode")) return false;
  if (const std::optional<double> alpha = call.Number("alpha"); alpha && *alpha != 1) {
    b = call.EmitOne("scale", {b}, call.shape(b), fmt::format(R"({{"factor":{}}})", *alpha), "alpha");
  }
  call.Set(0, call.EmitOne(kKind, {a, b}, y));
  return true;
}

// The catalogue's kind of the same name.
bool LowerUnary(ExportCall& call) {
  const Value x = call.Tensor("self");
  if (call.shape(x) != call.out().shape) return false;
  const std::string kind = ExportKind(call.node().target, false).substr(std::string_view("aten::").size());
  call.Set(0, call.EmitOne(kind.ends_with('_') ? kind.substr(0, kind.size() - 1) : kind, {x}, call.out().shape));
  return true;
}

bool LowerNegate(ExportCall& call) {
  const Value x = call.Tensor("self");
  if (call.shape(x) != call.out().shape) return false;
  call.Set(0, call.EmitOne("scale", {x}, call.out().shape, R"({"factor":-1})"));
  return true;
}

bool LowerSquare(ExportCall& call) {
  const Value x = call.Tensor("self");
  const bool is_power = ExportKind(call.node().target, false).starts_with("aten::pow");
  if (call.shape(x) != call.out().shape || (is_power && (call.IsTensor("exponent") || call.Number("exponent") != 2))) {
    return false;
  }
  call.Set(0, call.EmitOne("mul", {x, x}, call.out().shape));
  return true;
}

bool LowerSilu(ExportCall& call) {
  const Value x = call.Tensor("self");
  const Shape& y = call.out().shape;
  if (call.shape(x) != y) return false;
  call.Set(0, call.EmitOne("mul", {x, call.EmitOne("sigmoid", {x}, y, "", "sigmoid")}, y));
  return true;
}

// Nothing where it drops nothing. A training step drops, also if the program was exported for inference.
bool LowerDropout(ExportCall& call) {
  const Value x = call.Tensor(call.Has("input") ? "input" : "self");
  const double rate = call.Number("p").value_or(0.5);
  if (call.shape(x) != call.out().shape) return false;
  if ((!call.Flag("train", false) && !call.training()) || rate <= 0) {
    call.Set(0, x);
    return true;
  }
  if (rate >= 1) return false;
  call.Set(0, call.Emit("dropout", {x},
                        {{.dtype = call.out().dtype, .shape = call.shape(x)},
                         {.dtype = DType::kBool, .shape = call.shape(x)}},
                        fmt::format(R"({{"rate":{}}})", rate))
                  .front());
  return true;
}

// sum, mean, amax (self, dim, keepdim); all axes if none is given.
bool LowerReduce(ExportCall& call) {
  const std::string name = ExportKind(call.node().target, false);
  const std::string_view kind = name == "aten::sum"    ? "reduce_sum"
                                : name == "aten::mean" ? "reduce_mean"
                                                       : "reduce_max";
  const Value x = call.Tensor("self");
  const Shape& from = call.shape(x);
  const auto rank = static_cast<std::int64_t>(from.size());
  Shape axes = call.Integers("dim", {});
  for (std::int64_t& axis : axes) {
    if (axis < -rank || axis >= rank) return false;
    if (axis < 0) axis += rank;
  }
  if (axes.empty()) {
    for (std::int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return false;
  Shape kept;
  Shape without;
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::int64_t dim = from[static_cast<std::size_t>(i)];
    if (dim == 0) return false;
    const bool is_reduced = std::binary_search(axes.begin(), axes.end(), i);
    kept.push_back(is_reduced ? 1 : dim);
    if (!is_reduced) without.push_back(dim);
  }
  if (call.out().shape != kept && call.out().shape != without) return false;
  call.Set(0, call.EmitOne(kind, {x}, call.out().shape, fmt::format(R"({{"axes":[{}]}})", fmt::join(axes, ","))));
  return true;
}

bool LowerSoftmax(ExportCall& call) {
  const Value x = call.Tensor("self");
  if (call.shape(x).empty() || call.shape(x) != call.out().shape) return false;
  if (call.Axis("dim", -1, call.shape(x).size()) + 1 != call.shape(x).size()) return false;
  call.Set(0, call.EmitOne("softmax", {x}, call.out().shape));
  return true;
}

// layer_norm(input, normalized_shape, weight, bias) along the last axis.
bool LowerLayerNorm(ExportCall& call) {
  if (!call.IsTensor("weight") || !call.IsTensor("bias")) return false;
  const Value x = call.Tensor("input");
  const Shape& shape = call.shape(x);
  const Value scale = call.Tensor("weight");
  const Value offset = call.Tensor("bias");
  if (shape.empty() || call.shape(scale) != Shape{shape.back()} || call.shape(offset) != Shape{shape.back()}) {
    return false;
  }
  const Shape rows(shape.begin(), shape.end() - 1);
  const DType dtype = call.out().dtype;
  call.Set(
      0, call.Emit("layer_norm", {x, scale, offset},
                   {{.dtype = dtype, .shape = shape}, {.dtype = dtype, .shape = rows}, {.dtype = dtype, .shape = rows}})
             .front());
  return true;
}

// batch_norm(input, weight, bias, running_mean, running_var, training): with the statistics of the batch, as a training
// step has it.
bool LowerBatchNorm(ExportCall& call) {
  const Value x = call.Tensor("input");
  const Shape& shape = call.shape(x);
  if (shape.size() < 2 || !call.IsTensor("bias") || shape != call.out().shape) return false;
  std::vector<Value> inputs = {x};
  if (call.IsTensor("weight")) inputs.push_back(call.Tensor("weight"));
  inputs.push_back(call.Tensor("bias"));
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (call.shape(inputs[i]) != Shape{shape[1]}) return false;
  }
  const DType dtype = call.out().dtype;
  const Shape channels = {shape[1]};
  call.Set(0, call.Emit("batch_norm", std::move(inputs),
                        {{.dtype = dtype, .shape = shape},
                         {.dtype = dtype, .shape = channels},
                         {.dtype = dtype, .shape = channels}})
                  .front());
  return true;
}

// Attrs of a pooling whose window slides from `x` to `y` as the catalogue has it; "" if it does not.
std::string PoolAttrs(const Shape& x, const Shape& y, const Shape& window, const Shape& stride, const Shape& padding,
                      const Shape& dilation) {
  if (x.size() != 4 || y.size() != 4 || x[0] != y[0] || x[1] != y[1]) return "";
  for (const std::size_t axis : {0U, 1U}) {
    for (const Shape* const list : {&window, &stride, &padding, &dilation}) {
      if ((*list)[axis] < 0 || (*list)[axis] > std::int64_t{1} << 31) return "";
    }
    if (window[axis] < 1 || stride[axis] < 1 || dilation[axis] != 1) return "";
    const double room =
        static_cast<double>(x[2 + axis]) + 2 * static_cast<double>(padding[axis]) - static_cast<double>(window[axis]);
    if (room < 0 || std::floor(room / static_cast<double>(stride[axis])) + 1 != static_cast<double>(y[2 + axis])) {
      return "";
    }
  }
  return fmt::format(R"({{"window":[{}],"stride":[{}],"padding":[{}]}})", fmt::join(window, ","),
                     fmt::join(stride, ","), fmt::join(padding, ","));
}

Shape Two(Shape list, const Shape& absent) {
  if (list.empty()) return absent;
  if (list.size() == 1) list.push_back(list[0]);
  return list.size() == 2 ? list : Shape{-1, -1};
}

bool LowerPool(ExportCall& call) {
  const Value x = call.Tensor("self");
  const std::string_view kind = ExportKind(call.node().target, false) == "aten::avg_pool2d" ? "avg_pool" : "max_pool";
  if (call.num_outputs() != 1) return false;
  const Shape window = Two(call.Integers("kernel_size", {}), {-1, -1});
  const Shape stride = Two(call.Integers("stride", {}), window);
  const std::string attrs =
      PoolAttrs(call.shape(x), call.out().shape, window, stride, Two(call.Integers("padding", {}), {0, 0}),
                Two(call.Integers("dilation", {}), {1, 1}));
  if (attrs.empty()) return false;
  call.Set(0, call.EmitOne(kind, {x}, call.out().shape, attrs));
  return true;
}

// To one value a channel it is a mean; to a divisor of the image, a pooling.
bool LowerAdaptivePool(ExportCall& call) {
  const Value x = call.Tensor("self");
  const Shape& from = call.shape(x);
  const Shape& to = call.out().shape;
  if (from.size() != 4 || to.size() != 4) return false;
  if (from[2] < 1 || from[3] < 1 || to[2] < 1 || to[3] < 1) return false;
  if (to == Shape{from[0], from[1], 1, 1}) {
    call.Set(0, call.EmitOne("reduce_mean", {x}, to, R"({"axes":[2,3]})"));
    return true;
  }
  const Shape window = {from[2] / to[2], from[3] / to[3]};
  if (from[2] % to[2] != 0 || from[3] % to[3] != 0) return false;
  const std::string attrs = PoolAttrs(from, to, window, window, {0, 0}, {1, 1});
  if (attrs.empty()) return false;
  if (window == Shape{1, 1}) {
    call.Set(0, x);
    return true;
  }
  call.Set(0, call.EmitOne("avg_pool", {x}, to, attrs));
  return true;
}

// cross_entropy_loss(self[n,c], target[n]): the losses and, as usual, their mean or sum.
bool LowerCrossEntropy(ExportCall& call) {
  const Value logits = call.Tensor("self");
  const Value labels = call.Tensor("target");
  const Shape& shape = call.shape(logits);
  if (call.IsTensor("weight") || call.Number("label_smoothing").value_or(0) != 0) return false;
  const bool classes = call.shape(labels) == Shape{shape.empty() ? 0 : shape[0]} && !IsReal(call.net().dtype(labels)) &&
                       call.net().dtype(labels) != DType::kBool;
  const bool distributions = call.shape(labels) == shape && IsReal(call.net().dtype(labels));
  if (shape.size() != 2 || shape[0] < 1 || (!classes && !distributions)) return false;
  const std::int64_t reduction = call.Integer("reduction", 1);
  if (reduction < 0 || reduction > 2 || call.out().shape != (reduction == 0 ? Shape{shape[0]} : Shape{})) return false;
  const DType dtype = call.out().dtype;
  const Value losses = call.Emit("softmax_cross_entropy", {logits, labels},
                                 {{.dtype = dtype, .shape = {shape[0]}}, {.dtype = dtype, .shape = shape}}, "",
                                 reduction == 0 ? std::string_view() : "losses")
                           .front();
  call.Set(0, reduction == 0
                  ? losses
                  : call.EmitOne(reduction == 1 ? "reduce_mean" : "reduce_sum", {losses}, {}, R"({"axes":[0]})"));
  return true;
}

constexpr ExportRule kElementRules[] = {
    {"aten::add", LowerBinary<'+'>},
    {"aten::sub", LowerBinary<'-'>},
    {"aten::mul", LowerBinary<'*'>},
    {"aten::div", LowerBinary<'/'>},
    {"aten::relu", LowerUnary},
    {"aten::sigmoid", LowerUnary},
    {"aten::tanh", LowerUnary},
    {"aten::gelu", LowerUnary},
    {"aten::silu", LowerSilu},
    {"aten::neg", LowerNegate},
    {"aten::square", LowerSquare},
    {"aten::pow", LowerSquare},
    {"aten::dropout", LowerDropout},
    {"aten::sum", LowerReduce},
    {"aten::mean", LowerReduce},
    {"aten::amax", LowerReduce},
    {"aten::softmax", LowerSoftmax},
    {"aten::_softmax", LowerSoftmax},
    {"aten::layer_norm", LowerLayerNorm},
    {"aten::batch_norm", LowerBatchNorm},
    {"aten::max_pool2d", LowerPool},
    {"aten::avg_pool2d", LowerPool},
    {"aten::adaptive_avg_pool2d", LowerAdaptivePool},
    {"aten::cross_entropy_loss", LowerCrossEntropy},
};

}  // namespace

std::span<const ExportRule> ExportElementRules() { return kElementRules; }

}  // namespace emplace::datasets
