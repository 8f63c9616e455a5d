#include "sim/ops/op_shape.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/ops/aten_call.h"
#include "sim/ops/aten_work.h"
#include "sim/ops/op_catalog.h"
#include "sim/ops/op_view.h"

namespace emplace {
namespace {

// The product of matrices of these numbers of elements, `batch` of each: [m, k], [k, n] and [m, n].
OpShape ProductOf(double batch, double left, double right, double out) {
  if (batch <= 0 || left <= 0 || right <= 0 || out <= 0) return {};
  left /= batch;
  right /= batch;
  out /= batch;
  return ProductShape{.batch = batch,
                      .m = std::round(std::sqrt(left * out / right)),
                      .n = std::round(std::sqrt(right * out / left)),
                      .k = std::round(std::sqrt(left * right / out))};
}

double LeadingElements(ShapeView shape) { return shape.size() <= 2 ? 1 : Elements(shape.first(shape.size() - 2)); }

// ---- The op catalogue

// Forward products and their gradients all have two factors and a result.
std::vector<OpShape> CataloguedProduct(const OpView& view, bool batched) {
  if (view.num_inputs() < 2 || view.num_outputs() < 1) return {};
  const double batch = batched ? LeadingElements(view.in(0)) : 1;
  return {ProductOf(batch, Elements(view.in(0)), Elements(view.in(1)), Elements(view.out(0)))};
}

// conv2d(x, w) -> y, its gradients (w, dy) -> dx and (x, dy) -> dw, and those of depthwise convolutions.
std::vector<OpShape> CataloguedConvolution(const OpView& view, std::string_view kind) {
  if (view.num_inputs() < 2 || view.num_outputs() < 1) return {};
  const bool of_input = kind.ends_with("_grad_input");
  const bool of_filter = kind.ends_with("_grad_filter");
  const ShapeView w = of_input ? view.in(0) : of_filter ? view.out(0) : view.in(1);
  const ShapeView y = of_input || of_filter ? view.in(1) : view.out(0);
  if (w.size() != 4 || y.size() != 4) return {};
  const double positions = static_cast<double>(y[0]) * Elements(y.subspan(2));
  const double window = Elements(w.subspan(2));
  ProductShape shape{.moved_bytes = view.AllBytes()};
  const bool depthwise = kind.starts_with("depthwise");
  shape.batch = depthwise ? static_cast<double>(w[0]) : 1;
  const double filters = static_cast<double>(depthwise ? w[1] : w[0]);
  const double channels = depthwise ? 1 : static_cast<double>(w[1]);
  shape.m = of_filter ? filters : positions;
  shape.n = of_filter ? channels * window : of_input ? channels : filters;
  shape.k = of_filter ? positions : of_input ? filters * window : channels * window;
  return {shape};
}

std::vector<OpShape> Rows(ShapeView shape, std::string_view kind) {
  if (shape.empty() || shape.back() <= 0) return {};
  return {RowsShape{.columns = static_cast<double>(shape.back()),
                    .is_softmax = kind.find("softmax") != std::string_view::npos}};
}

// attention(q[B,H,N,W], k[B,G,M,W], v[B,G,M,V], ..) -> o, .., and attention_grad(do, q, k, v, ..).
std::vector<OpShape> CataloguedAttention(const OpView& view, bool backward) {
  const std::size_t first = backward ? 1 : 0;
  if (view.num_inputs() < first + 3) return {};
  const ShapeView q = view.in(first);
  const ShapeView k = view.in(first + 1);
  const ShapeView v = view.in(first + 2);
  if (q.size() != 4 || k.size() != 4 || v.size() != 4) return {};
  return {AttentionShape{.batch = static_cast<double>(q[0]),
                         .queries = static_cast<double>(q[2]),
                         .keys = static_cast<double>(k[2]),
                         .heads = static_cast<double>(q[1]),
                         .key_heads = static_cast<double>(k[1]),
                         .head_dim = static_cast<double>(q[3] + v[3]) / 2,
                         .window = static_cast<double>(view.Integer("window", 0)),
                         .causal = view.Flag("causal", false),
                         .backward = backward}};
}

std::vector<OpShape> CataloguedShapes(const Graph& graph, OpId op, OpClass op_class) {
  const std::string_view kind = graph.op(op).kind;
  if (kind.starts_with("hlo::")) return {};  // dimensions in any order
  const OpView view(graph, op);
  if (op_class == OpClass::kMatrixProduct) {
    if (kind.starts_with("matmul")) return CataloguedProduct(view, /*batched=*/false);
    if (kind.starts_with("batch_matmul")) return CataloguedProduct(view, /*batched=*/true);
    if (kind == "onnx::MatMul" && view.num_inputs() >= 2) {
      return CataloguedProduct(view, view.in(1).size() > 2 && view.in(1).size() == view.in(0).size());
    }
    if (kind == "onnx::Gemm") return CataloguedProduct(view, /*batched=*/false);
    return {};
  }
  if (op_class == OpClass::kConvolution) return CataloguedConvolution(view, kind);
  if (kind == "attention" || kind == "attention_grad") return CataloguedAttention(view, kind == "attention_grad");
  const bool is_norm =
      kind.find("softmax") != std::string_view::npos || kind.starts_with("layer_norm") || kind.starts_with("rms_norm");
  if (is_norm && view.num_inputs() > 0) return Rows(view.in(0), kind);
  return {};
}

// ---- ATen's operators

using Shape = std::vector<std::int64_t>;

const Shape* ShapeOf(const AtenCall& call, std::size_t argument, std::size_t rank) {
  const AtenTensor* const tensor = call.tensor(argument);
  return tensor == nullptr || tensor->shape.size() < rank ? nullptr : &tensor->shape;
}

double Back(const Shape& shape, std::size_t i) { return static_cast<double>(shape[shape.size() - i]); }

// Matrices, or batches of them, in arguments `first` and the next.
std::vector<OpShape> Matrices(const AtenCall& call, std::size_t first) {
  const Shape* const left = ShapeOf(call, first, 2);
  const Shape* const right = ShapeOf(call, first + 1, 2);
  if (left == nullptr || right == nullptr || Back(*right, 2) != Back(*left, 1)) return {};
  const double rows = LeadingElements(*left) * Back(*left, 2);
  ProductShape shape{.m = rows, .n = Back(*right, 1), .k = Back(*left, 1)};
  const double batch = LeadingElements(*right);
  if (batch > 1) {  // another matrix for each of the first's, which may be spread over them
    shape.batch = std::max(batch, LeadingElements(*left));
    shape.m = Back(*left, 2);
  }
  return {shape};
}

// linear(x, weight[n, k])
std::vector<OpShape> Linear(const AtenCall& call) {
  const AtenTensor* const x = call.tensor(0);
  const Shape* const weight = ShapeOf(call, 1, 2);
  if (x == nullptr || x->shape.empty() || weight == nullptr || x->shape.back() <= 0) return {};
  const double k = Back(x->shape, 1);
  return {ProductShape{.m = x->elements() / k, .n = Back(*weight, 2), .k = k}};
}

// The gradients of both factors, as one op: of dy [m, n], to da [m, k] and db [k, n].
std::vector<OpShape> BothGradients(const AtenCall& call) {
  const AtenTensor* const grad = call.tensor(0);
  std::vector<const AtenTensor*> found;
  for (const AtenTensor& output : call.outputs) {
    if (output.shape.size() >= 2) found.push_back(&output);
  }
  if (grad == nullptr || grad->shape.size() < 2 || found.size() != 2) return {};
  const double batch = LeadingElements(found[1]->shape);
  const double da = found[0]->elements();
  const double db = found[1]->elements();
  return {ProductOf(batch, grad->elements(), db, da), ProductOf(batch, da, grad->elements(), db)};
}

// The filter is [K, C / groups, window ..] and the image [N, C, ..].
std::vector<OpShape> Convolution(const AtenCall& call) {
  const Shape* const x = ShapeOf(call, 0, 3);
  const Shape* const w = ShapeOf(call, 1, 3);
  const std::optional<double> out = ConvolvedElements(call);
  if (x == nullptr || w == nullptr || !out || w->size() != x->size()) return {};
  const double groups = (*w)[1] > 0 ? static_cast<double>((*x)[1]) / static_cast<double>((*w)[1]) : 0;
  const double filters = static_cast<double>((*w)[0]);
  if (groups < 1 || filters < 1) return {};
  const AtenTensor& image = *call.tensor(0);
  return {ProductShape{.batch = groups,
                       .m = *out / filters,
                       .n = filters / groups,
                       .k = call.tensor(1)->elements() / filters,
                       .moved_bytes = image.bytes() + call.tensor(1)->bytes() + *out * image.element_bytes}};
}

// convolution_backward(grad_output, input, weight, .., output_mask)
std::vector<OpShape> ConvolutionGradients(const AtenCall& call) {
  const AtenTensor* const grad = call.tensor(0);
  const Shape* const x = ShapeOf(call, 1, 3);
  const Shape* const w = ShapeOf(call, 2, 3);
  if (grad == nullptr || x == nullptr || w == nullptr || grad->shape.size() != x->size() || (*w)[1] <= 0) return {};
  const double filters = static_cast<double>((*w)[0]);
  const double groups = static_cast<double>((*x)[1]) / static_cast<double>((*w)[1]);
  if (groups < 1 || static_cast<double>(grad->shape[1]) != filters) return {};
  const double positions = grad->elements() / filters;
  const double channels = static_cast<double>((*w)[1]);
  const double window = call.tensor(2)->elements() / filters / channels;
  const double bytes = grad->bytes() + call.tensor(1)->bytes() + call.tensor(2)->bytes();
  const std::vector<bool> mask = call.arguments.size() > 10 ? call.arguments[10].flags : std::vector<bool>();
  std::vector<OpShape> shapes;
  if (mask.size() < 2 || mask[0]) {
    shapes.push_back(ProductShape{
        .batch = groups, .m = positions, .n = channels, .k = filters / groups * window, .moved_bytes = bytes});
  }
  if (mask.size() < 2 || mask[1]) {
    shapes.push_back(ProductShape{
        .batch = groups, .m = filters / groups, .n = channels * window, .k = positions, .moved_bytes = bytes});
  }
  return shapes;
}

// Where an operator of attention has its queries, which keys and values follow, and whether it is causal (-1: never);
// tensors are [batch, heads, length, head_dim], or [batch, length, heads, head_dim].
struct AttentionLayout {
  std::string_view name;
  std::size_t first;
  int causal;
  bool heads_last;
  bool backward;
};
constexpr AttentionLayout kAttentionLayouts[] = {
    {"scaled_dot_product_attention", 0, 5, false, false},
    {"_scaled_dot_product_flash_attention", 0, 4, false, false},
    {"_scaled_dot_product_flash_attention_for_cpu", 0, 4, false, false},
    {"_scaled_dot_product_efficient_attention", 0, 6, false, false},
    {"_scaled_dot_product_cudnn_attention", 0, 6, false, false},
    {"_scaled_dot_product_fused_attention_overrideable", 0, 5, false, false},
    {"_flash_attention_forward", 0, 8, true, false},
    {"_efficient_attention_forward", 0, 9, true, false},
    {"scaled_dot_product_attention_backward", 1, 8, false, true},
    {"_scaled_dot_product_flash_attention_backward", 1, 11, false, true},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", 1, 7, false, true},
    {"_scaled_dot_product_efficient_attention_backward", 1, 11, false, true},
    {"_scaled_dot_product_cudnn_attention_backward", 1, 14, false, true},
    {"_flash_attention_backward", 1, 11, true, true},
    {"_efficient_attention_backward", 1, 13, true, true},
};

std::vector<OpShape> Attention(const AtenCall& call, const AttentionLayout& layout) {
  const Shape* const q = ShapeOf(call, layout.first, 4);
  const Shape* const k = ShapeOf(call, layout.first + 1, 4);
  if (q == nullptr || k == nullptr || q->size() != 4 || k->size() != 4) return {};
  const std::size_t heads = layout.heads_last ? 2 : 1;
  const std::size_t length = layout.heads_last ? 1 : 2;
  AttentionShape shape{.batch = static_cast<double>((*q)[0]),
                       .queries = static_cast<double>((*q)[length]),
                       .keys = static_cast<double>((*k)[length]),
                       .heads = static_cast<double>((*q)[heads]),
                       .key_heads = static_cast<double>((*k)[heads]),
                       .head_dim = static_cast<double>((*q)[3]),
                       .backward = layout.backward};
  if (layout.causal >= 0) {
    const auto flag = static_cast<std::size_t>(layout.causal);
    const auto number = call.integers(flag);
    shape.causal = call.flag(flag).value_or(false) || (number && number->size() == 1 && (*number)[0] == 1);
  }
  return {shape};
}

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// PyTorch has other kernels for tensors that it does not walk over in their own order; the name of a trace's kernel
// says it. Without one, tensors of different sizes do.
std::vector<OpShape> Indexed(const AtenCall& call, std::string_view name) {
  std::vector<const AtenTensor*> tensors;
  double elements = 0;
  for (const AtenArgument& argument : call.arguments) {
    double sum = 0;
    for (const AtenTensor& tensor : argument.tensors) {
      tensors.push_back(&tensor);
      sum += tensor.elements();
    }
    elements = std::max(elements, sum);  // those of a list follow each other
  }
  if (elements < 1) return {};
  const auto has = [&](std::string_view word) { return call.kernel.find(word) != std::string::npos; };
  bool is_indexed = IsOneOf(name, {"cat", "stack"});
  if (!call.kernel.empty()) {
    is_indexed = has("CatArrayBatchedCopy") ||
                 (has("::elementwise_kernel") && !has("vectorized_elementwise_kernel") && !has("unrolled_elementwise"));
  } else if (AtenClass(call.name) == OpClass::kElementwise) {
    is_indexed = std::any_of(tensors.begin(), tensors.end(), [&](const AtenTensor* tensor) {
      return tensor->elements() > 1 && tensor->elements() < elements;
    });
  }
  if (!is_indexed) return {};
  return {IndexedShape{.elements = elements}};
}

std::vector<OpShape> CalledShapes(const AtenCall& call) {
  if (!call.has_shapes) return {};
  const std::string_view name = std::string_view(call.name).substr(call.name.rfind(':') + 1);
  if (IsOneOf(name, {"mm", "bmm", "matmul", "_scaled_mm", "_int_mm"})) return Matrices(call, 0);
  if (IsOneOf(name, {"addmm", "_addmm_activation", "baddbmm"})) return Matrices(call, 1);
  if (IsOneOf(name, {"linear", "mkldnn_linear", "_mkl_linear"})) return Linear(call);
  if (IsOneOf(name, {"mm_backward", "addmm_backward", "bmm_backward", "baddbmm_backward"})) return BothGradients(call);
  if (IsOneOf(name, {"convolution", "_convolution", "conv1d", "conv2d", "conv3d", "cudnn_convolution",
                     "cudnn_convolution_relu", "miopen_convolution"})) {
    return Convolution(call);
  }
  if (name == "convolution_backward") return ConvolutionGradients(call);
  const bool is_norm = name.find("softmax") != std::string_view::npos ||
                       name.find("layer_norm") != std::string_view::npos ||
                       name.find("rms_norm") != std::string_view::npos;
  if (is_norm && call.tensor(0) != nullptr) return Rows(call.tensor(0)->shape, name);
  const auto* const layout = std::find_if(std::begin(kAttentionLayouts), std::end(kAttentionLayouts),
                                          [&](const AttentionLayout& row) { return row.name == name; });
  return layout == std::end(kAttentionLayouts) ? Indexed(call, name) : Attention(call, *layout);
}

}  // namespace

std::vector<OpShape> FindOpShapes(const Graph& graph, OpId op) {
  const OpKind* const kind = FindOpKind(graph.op(op).kind);
  std::vector<OpShape> shapes =
      kind != nullptr ? CataloguedShapes(graph, op, kind->op_class) : CalledShapes(ReadAtenCall(graph, op));
  // Sizes come from files, and may be 0 or negative.
  const auto is_bad = [](const OpShape& shape) {
    if (const auto* const product = std::get_if<ProductShape>(&shape)) {
      return !(product->batch >= 1 && product->m >= 1 && product->n >= 1 && product->k >= 1);
    }
    if (const auto* const attention = std::get_if<AttentionShape>(&shape)) {
      const auto& [batch, queries, keys, heads, key_heads, head_dim, window, causal, backward] = *attention;
      return !(batch >= 1 && queries >= 1 && keys >= 1 && heads >= 1 && key_heads >= 1 && head_dim >= 1 && window >= 0);
    }
    return std::holds_alternative<std::monostate>(shape);
  };
  if (std::any_of(shapes.begin(), shapes.end(), is_bad)) shapes.clear();
  return shapes;
}

}  // namespace emplace
