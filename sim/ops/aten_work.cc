#include "sim/ops/aten_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "sim/base/check.h"
#include "sim/ops/op_view.h"

namespace emplace {
namespace {

using Shape = std::vector<std::int64_t>;

struct Effort {
  double flop = 0;
  double bytes = 0;
};

// The exception of a rule if the call lacks information.
struct NotSaid {
  std::string what;
};
[[noreturn]] void Misses(std::string what) { throw NotSaid{std::move(what)}; }

struct AtenRule;
using Formula = Effort (*)(const AtenCall&, const AtenRule&);

// An operator. What the numbers mean is the formula's affair.
struct AtenRule {
  std::string_view names;  // separated by spaces, without "aten::"
  OpClass op_class;
  Formula formula;
  double a = 0;
  double b = 0;
  int first = 0;  // position of the argument that matters
  int flag = -1;  // position of a flag; -1: none
};

// ---- What all formulas use

const AtenTensor& Given(const AtenCall& call, std::size_t i) {
  const AtenTensor* const tensor = call.tensor(i);
  if (tensor == nullptr) Misses(fmt::format("tensor in argument {}", i));
  return *tensor;
}

const AtenTensor& Ranked(const AtenCall& call, std::size_t i, std::size_t rank) {
  const AtenTensor& tensor = Given(call, i);
  if (tensor.shape.size() < rank) Misses(fmt::format("tensor of rank {} or more in argument {}", rank, i));
  return tensor;
}

double Size(std::int64_t dim) { return static_cast<double>(dim); }

double Sum(const std::vector<AtenTensor>& tensors, bool bytes) {
  double sum = 0;
  for (const AtenTensor& tensor : tensors) sum += bytes ? tensor.bytes() : tensor.elements();
  return sum;
}

double InputBytes(const AtenCall& call) {
  double sum = 0;
  for (const AtenArgument& argument : call.arguments) sum += Sum(argument.tensors, true);
  return sum;
}

bool IsFloat(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBf16 || dtype == DType::kF32 || dtype == DType::kF64;
}

// Shapes are aligned at their ends, and sizes of 1 spread.
Shape Broadcast(const Shape& a, const Shape& b) {
  Shape shape = a.size() >= b.size() ? a : b;
  const Shape& other = a.size() >= b.size() ? b : a;
  for (std::size_t i = 0; i < other.size(); ++i) {
    std::int64_t& size = shape[shape.size() - 1 - i];
    const std::int64_t also = other[other.size() - 1 - i];
    if (size == 1) size = also;
  }
  return shape;
}

// The result of an element-wise operator: all tensors spread over each other, in the widest type of those that are not
// scalars.
AtenTensor Spread(const AtenCall& call) {
  AtenTensor result;
  for (const AtenArgument& argument : call.arguments) {
    if (argument.is_list || argument.tensors.empty()) continue;
    const AtenTensor& tensor = argument.tensors[0];
    result.shape = Broadcast(result.shape, tensor.shape);
    const bool is_weak = tensor.shape.empty() && result.element_bytes > 0;
    const bool is_wider = IsFloat(tensor.dtype) == IsFloat(result.dtype) ? tensor.element_bytes > result.element_bytes
                                                                         : IsFloat(tensor.dtype);
    if (result.element_bytes == 0 || (is_wider && !is_weak)) {
      result.dtype = tensor.dtype;
      result.element_bytes = tensor.element_bytes;
    }
  }
  return result;
}

double OutputBytes(const AtenCall& call, double otherwise) {
  if (call.has_outputs) return Sum(call.outputs, true);
  const AtenTensor* const self = call.tensor(0);
  return call.in_place && self != nullptr ? self->bytes() : otherwise;
}

// ---- Formulas

Effort NoEffort(const AtenCall&, const AtenRule&) { return {}; }

// a FLOP an element; results take b bytes an element if b > 0.
Effort Elementwise(const AtenCall& call, const AtenRule& rule) {
  const AtenTensor result = Spread(call);
  double elements = result.elements();
  for (const AtenTensor& output : call.outputs) elements = std::max(elements, output.elements());
  const double out = OutputBytes(call, elements * (rule.b > 0 ? rule.b : result.element_bytes));
  return {rule.a * elements, InputBytes(call) + out};
}

// a FLOP an element of what goes in.
Effort Reduce(const AtenCall& call, const AtenRule& rule) {
  double elements = 0;
  for (const AtenArgument& argument : call.arguments) elements = std::max(elements, Sum(argument.tensors, false));
  return {rule.a * elements, InputBytes(call) + OutputBytes(call, 0)};
}

// a FLOP an element of argument `first`, b times its bytes.
Effort Passes(const AtenCall& call, const AtenRule& rule) {
  const AtenTensor& self = Given(call, static_cast<std::size_t>(rule.first));
  return {rule.a * self.elements(), rule.b * self.bytes()};
}

// As Passes; without statistics to gather, which `flag` says, x is read and the result written.
Effort BatchNorm(const AtenCall& call, const AtenRule& rule) {
  const bool trains = call.flag(static_cast<std::size_t>(rule.flag)).value_or(true);
  const AtenTensor& self = Given(call, 0);
  return {rule.a * self.elements(), (trains ? rule.b : 2) * self.bytes()};
}

Effort CopyFrom(const AtenCall& call, const AtenRule&) { return {0, Given(call, 1).bytes() + Given(call, 0).bytes()}; }

// Reads what goes in and writes as much, unless the results are known.
Effort Rearrange(const AtenCall& call, const AtenRule&) {
  const double in = InputBytes(call);
  const bool has_list = !call.arguments.empty() && call.arguments[0].is_list;
  if (has_list && call.arguments[0].tensors.empty() && !call.has_outputs) Misses("shape of a tensor in argument 0");
  return {0, in + (call.has_outputs ? Sum(call.outputs, true) : in)};
}

// The result is larger than what goes in: its sizes are argument `first`.
Effort Widen(const AtenCall& call, const AtenRule& rule) {
  const double in = InputBytes(call);
  if (call.has_outputs) return {0, in + Sum(call.outputs, true)};
  const auto sizes = call.integers(static_cast<std::size_t>(rule.first));
  if (!sizes) Misses(fmt::format("list of sizes in argument {}", rule.first));
  AtenTensor out = Given(call, 0);
  out.shape = *sizes;
  return {0, in + out.bytes()};
}

Effort Fill(const AtenCall& call, const AtenRule& rule) {
  double bytes = OutputBytes(call, -1);
  if (bytes < 0) {
    bytes = call.tensor(0) != nullptr ? call.tensor(0)->bytes() : 0;  // a tensor to write to, or to be like
    if (const auto sizes = call.integers(0)) {
      bytes = 4;
      for (const std::int64_t size : *sizes) bytes *= Size(size);
    }
  }
  return {rule.a * bytes / 4, bytes};
}

Effort Embedding(const AtenCall& call, const AtenRule&) {
  const AtenTensor& table = Ranked(call, 0, 1);
  const AtenTensor& rows = Given(call, 1);
  const double read = rows.elements() * Size(table.shape.back()) * table.element_bytes;
  return {0, rows.bytes() + read + OutputBytes(call, read)};
}

Effort EmbeddingGrad(const AtenCall& call, const AtenRule&) {
  const AtenTensor& grad = Ranked(call, 0, 1);
  double table = 0;
  if (const auto rows = call.integers(2); rows && rows->size() == 1) {
    table = Size(rows->front()) * Size(grad.shape.back()) * grad.element_bytes;
  }
  // The whole gradient of the table is set to zero first.
  return {grad.elements(), 2 * grad.bytes() + Given(call, 1).bytes() + OutputBytes(call, table)};
}

Effort IndexSelect(const AtenCall& call, const AtenRule&) {
  const AtenTensor& self = Ranked(call, 0, 1);
  const auto dim = call.integers(1);
  std::size_t axis = 0;
  if (dim && dim->size() == 1) {
    const std::int64_t rank = static_cast<std::int64_t>(self.shape.size());
    axis =
        static_cast<std::size_t>(std::clamp<std::int64_t>((*dim)[0] < 0 ? (*dim)[0] + rank : (*dim)[0], 0, rank - 1));
  }
  const AtenTensor& rows = Given(call, 2);
  const double taken = self.bytes() / std::max(1.0, Size(self.shape[axis])) * rows.elements();
  return {0, rows.bytes() + 2 * taken};
}

// index(self, list of index tensors): without known results, the indexed dimensions are taken to be the first.
Effort Index(const AtenCall& call, const AtenRule&) {
  const AtenTensor& self = Given(call, 0);
  double index_bytes = 0;
  double taken = -1;
  if (call.has_outputs) {
    taken = Sum(call.outputs, true);
  } else if (call.arguments.size() > 1 && call.arguments[1].is_list) {
    Shape spread;
    double left = self.elements();
    std::size_t axis = 0;
    for (const AtenTensor& index : call.arguments[1].tensors) {
      spread = Broadcast(spread, index.shape);
      if (axis < self.shape.size()) left /= std::max(1.0, Size(self.shape[axis++]));
    }
    taken = left * AtenTensor{.element_bytes = self.element_bytes, .shape = spread}.bytes();
  }
  if (taken < 0) Misses("list of index tensors in argument 1");
  if (call.arguments.size() > 1) index_bytes = Sum(call.arguments[1].tensors, false) * 8;
  return {0, index_bytes + 2 * taken};
}

// (self, dim, index, ..): as many elements as there are indices move, a times read or written.
Effort Gather(const AtenCall& call, const AtenRule& rule) {
  const AtenTensor& self = Given(call, 0);
  const AtenTensor& index = Given(call, 2);
  const double whole = rule.b > 0 && !call.in_place ? 2 * self.bytes() : 0;  // the result begins as a copy of self
  return {rule.b * index.elements(), index.bytes() + rule.a * index.elements() * self.element_bytes + whole};
}

// (self, indices, values): reads indices and values, and reads and writes the places.
Effort IndexPut(const AtenCall& call, const AtenRule&) {
  const AtenTensor& values = Given(call, 2);
  const double indices = call.arguments[1].is_list ? Sum(call.arguments[1].tensors, false) * 8 : 0;
  return {values.elements(), indices + 3 * values.bytes()};
}

// A product of the matrices in arguments `first` and the next, both of rank a.
Effort Product(const AtenCall& call, const AtenRule& rule) {
  const auto first = static_cast<std::size_t>(rule.first);
  const AtenTensor& left = Ranked(call, first, static_cast<std::size_t>(rule.a));
  const AtenTensor& right = Ranked(call, first + 1, static_cast<std::size_t>(rule.a));
  const std::int64_t inner = left.shape.back();
  if (right.shape[right.shape.size() - 2] != inner) Misses("pair of matrices that fit each other");
  const double out = inner == 0 ? 0 : left.elements() / Size(inner) * Size(right.shape.back());
  return {2 * left.elements() * Size(right.shape.back()),
          InputBytes(call) + OutputBytes(call, out * left.element_bytes)};
}

// matmul: vectors, matrices and batches of them.
Effort MatMul(const AtenCall& call, const AtenRule&) {
  const AtenTensor& left = Ranked(call, 0, 1);
  const AtenTensor& right = Ranked(call, 1, 1);
  const double inner = Size(left.shape.back());
  const double rows = left.shape.size() > 1 ? Size(left.shape[left.shape.size() - 2]) : 1;
  const double columns = right.shape.size() > 1 ? Size(right.shape.back()) : 1;
  const auto batch = [](const Shape& shape) {
    return Shape(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(2, shape.size())));
  };
  const double batches = AtenTensor{.shape = Broadcast(batch(left.shape), batch(right.shape))}.elements();
  const double out = batches * rows * columns;
  return {2 * out * inner, InputBytes(call) + OutputBytes(call, out * left.element_bytes)};
}

// _grouped_mm(self, mat2, offsets, ..): rows of each group meet the matrix of that group. One of the factors, or each,
// has all groups in one dimension; a sum over that dimension costs what all groups cost together.
Effort Grouped(const AtenCall& call, const AtenRule&) {
  const AtenTensor& left = Ranked(call, 0, 2);
  const AtenTensor& right = Ranked(call, 1, 2);
  const bool rows_are_grouped = left.shape.size() == 3 && right.shape.size() == 2;
  const double pairs = rows_are_grouped ? left.elements() / std::max(1.0, Size(left.shape[0])) : left.elements();
  const double columns = Size(right.shape.back());
  const double rows = pairs / std::max(1.0, Size(left.shape.back()));
  return {2 * pairs * columns, InputBytes(call) + OutputBytes(call, rows * columns * left.element_bytes)};
}

// What no shape says: the op's own FLOP.
Effort Recorded(const AtenCall& call, const AtenRule&) { return {call.flop, InputBytes(call) + OutputBytes(call, 0)}; }

// The gradients of an operator that has no row for them, as one op: the operator's FLOP an element, or those of the op.
Effort Backward(const AtenCall& call, const AtenRule& rule) {
  double elements = 0;
  for (const AtenArgument& argument : call.arguments) {
    for (const AtenTensor& tensor : argument.tensors) elements = std::max(elements, tensor.elements());
  }
  for (const AtenTensor& output : call.outputs) elements = std::max(elements, output.elements());
  return {std::max(call.flop, rule.a * elements), InputBytes(call) + OutputBytes(call, 0)};
}

// Fast Fourier transforms along a dimension of n elements: 5 n log2 n FLOP each (Cooley and Tukey 1965).
Effort Fourier(const AtenCall& call, const AtenRule&) {
  const AtenTensor& x = Ranked(call, 0, 1);
  const double longest = Size(*std::max_element(x.shape.begin(), x.shape.end()));
  return {5 * x.elements() * std::log2(std::max(2.0, longest)), InputBytes(call) + OutputBytes(call, x.bytes())};
}

// A matrix, or a vector, in argument `first` times the vector in the next.
Effort VectorProduct(const AtenCall& call, const AtenRule& rule) {
  const AtenTensor& left = Ranked(call, static_cast<std::size_t>(rule.first), 1);
  return {2 * left.elements(),
          InputBytes(call) + OutputBytes(call, left.bytes() / std::max(1.0, Size(left.shape.back())))};
}

Effort Linear(const AtenCall& call, const AtenRule&) {
  const AtenTensor& x = Ranked(call, 0, 1);
  const AtenTensor& weight = Ranked(call, 1, 2);
  const double out = x.shape.back() == 0 ? 0 : x.elements() / Size(x.shape.back()) * Size(weight.shape[0]);
  return {2 * x.elements() * Size(weight.shape[0]), InputBytes(call) + OutputBytes(call, out * x.element_bytes)};
}

// linear_backward(self, grad_output, weight, output_mask): the gradients of input and weight.
Effort LinearGrad(const AtenCall& call, const AtenRule&) {
  const AtenTensor& grad = Given(call, 1);
  const AtenTensor& weight = Ranked(call, 2, 2);
  return {4 * grad.elements() * Size(weight.shape[1]), 2 * (Given(call, 0).bytes() + grad.bytes() + weight.bytes())};
}

// ---- Convolutions. Where each operator has its arguments; -1: not at all.
struct ConvolutionLayout {
  std::string_view name;
  int stride;
  int padding;
  int dilation;
  int transposed;   // a flag
  bool transposes;  // always
};
constexpr ConvolutionLayout kConvolutionLayouts[] = {
    {"convolution", 3, 4, 5, 6, false},
    {"convolution_overrideable", 3, 4, 5, 6, false},
    {"_convolution", 3, 4, 5, 6, false},
    {"conv1d", 3, 4, 5, -1, false},
    {"conv2d", 3, 4, 5, -1, false},
    {"conv3d", 3, 4, 5, -1, false},
    {"cudnn_convolution", 3, 2, 4, -1, false},
    {"cudnn_convolution_relu", 3, 4, 5, -1, false},
    {"cudnn_convolution_add_relu", 5, 6, 7, -1, false},
    {"cudnn_convolution_transpose", 4, 2, 5, -1, true},
    {"miopen_convolution", 4, 3, 5, -1, false},
    {"miopen_depthwise_convolution", 4, 3, 5, -1, false},
    {"miopen_convolution_transpose", 5, 3, 6, -1, true},
    {"mkldnn_convolution", 4, 3, 5, -1, false},
    {"_slow_conv2d_forward", 4, 5, -1, -1, false},
    {"thnn_conv2d", 4, 5, -1, -1, false},
    {"slow_conv3d_forward", 4, 5, -1, -1, false},
    {"_conv_depthwise2d", 4, 5, 6, -1, false},
    {"conv_depthwise3d", 4, 5, 6, -1, false},
    {"conv_transpose1d", 3, 4, 7, -1, true},
    {"conv_transpose2d", 3, 4, 7, -1, true},
    {"conv_transpose3d", 3, 4, 7, -1, true},
};

double WeightsOfAChannel(const AtenTensor& weight) {
  return weight.shape[0] == 0 ? 0 : weight.elements() / Size(weight.shape[0]);
}

// Elements of the result, by stride, padding and dilation.
double Convolved(const AtenCall& call, const ConvolutionLayout& layout, const AtenTensor& x, const AtenTensor& weight) {
  const auto of = [&](int argument, std::size_t axis, std::int64_t otherwise, bool required) {
    const auto numbers = argument < 0 ? std::nullopt : call.integers(static_cast<std::size_t>(argument));
    if (!numbers || numbers->empty()) {
      if (required) Misses(fmt::format("stride in argument {}", argument));
      return otherwise;
    }
    return (*numbers)[std::min(axis, numbers->size() - 1)];
  };
  double positions = Size(x.shape[0]) * Size(weight.shape[0]);
  for (std::size_t axis = 0; axis + 2 < x.shape.size(); ++axis) {
    const std::int64_t stride = of(layout.stride, axis, 1, true);
    const std::int64_t padding = of(layout.padding, axis, 0, false);
    const std::int64_t dilation = of(layout.dilation, axis, 1, false);
    const double window = Size(weight.shape[axis + 2] - 1) * Size(dilation) + 1;
    const double room = Size(x.shape[axis + 2]) + 2 * Size(padding) - window;
    if (stride < 1 || room < 0) Misses("window that fits into the image");
    positions *= std::floor(room / Size(stride)) + 1;
  }
  return positions;
}

// Null if the call is none of these.
const ConvolutionLayout* LayoutOf(const AtenCall& call) {
  const std::string_view name = std::string_view(call.name).substr(call.name.rfind(':') + 1);
  const auto* const layout = std::find_if(std::begin(kConvolutionLayouts), std::end(kConvolutionLayouts),
                                          [&](const ConvolutionLayout& row) { return row.name == name; });
  return layout == std::end(kConvolutionLayouts) ? nullptr : layout;
}

bool IsTransposed(const AtenCall& call, const ConvolutionLayout& layout) {
  return layout.transposes ||
         (layout.transposed >= 0 && call.flag(static_cast<std::size_t>(layout.transposed)).value_or(false));
}

Effort Convolution(const AtenCall& call, const AtenRule&) {
  const ConvolutionLayout* const layout = LayoutOf(call);
  EMPLACE_CHECK(layout != nullptr);
  const AtenTensor& x = Ranked(call, 0, 3);
  const AtenTensor& weight = Ranked(call, 1, 3);
  if (weight.shape.size() != x.shape.size()) Misses("weight of the rank of the image");
  if (IsTransposed(call, *layout)) {
    return {2 * x.elements() * WeightsOfAChannel(weight), InputBytes(call) + OutputBytes(call, x.bytes())};
  }
  const double out =
      call.has_outputs && !call.outputs.empty() ? call.outputs[0].elements() : Convolved(call, *layout, x, weight);
  return {2 * out * WeightsOfAChannel(weight), InputBytes(call) + OutputBytes(call, out * x.element_bytes)};
}

// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
// groups, output_mask)
Effort ConvolutionGrad(const AtenCall& call, const AtenRule&) {
  const AtenTensor& grad = Ranked(call, 0, 3);
  const AtenTensor& x = Ranked(call, 1, 3);
  const AtenTensor& weight = Ranked(call, 2, 3);
  double gradients = 2;
  if (call.arguments.size() > 10 && call.arguments[10].flags.size() >= 2) {
    gradients = (call.arguments[10].flags[0] ? 1 : 0) + (call.arguments[10].flags[1] ? 1 : 0);
  }
  const bool transposed = call.flag(7).value_or(false);
  const double each = 2 * (transposed ? x : grad).elements() * WeightsOfAChannel(weight);
  return {gradients * each, gradients * (grad.bytes() + x.bytes() + weight.bytes())};
}

// ---- Attention: queries, keys and values from argument `first`, [B, heads, S, D]; [B, S, heads, D] if b > 0. `flag`:
// whether each query sees only the keys before it, which halves the work. a times the two products of the forward pass.
// The backward pass has five: 2.5 times as much (Dao et al. 2022, FlashAttention).
Effort Attention(const AtenCall& call, const AtenRule& rule) {
  const auto first = static_cast<std::size_t>(rule.first);
  const AtenTensor& q = Ranked(call, first, 3);
  const AtenTensor& k = Ranked(call, first + 1, 3);
  const AtenTensor& v = Ranked(call, first + 2, 3);
  const std::size_t rank = q.shape.size();
  const bool heads_last = rule.b > 0;
  // In packed sequences, [tokens, heads, D], each query sees at most the longest one.
  double keys = Size(k.shape[k.shape.size() - (heads_last ? 3 : 2)]);
  if (heads_last && rank == 3) {
    const auto longest = call.integers(first + 6);
    if (longest && longest->size() == 1) keys = std::min(keys, Size((*longest)[0]));
  }
  double share = 1;
  if (rule.flag >= 0) {
    const auto flag = static_cast<std::size_t>(rule.flag);
    const auto number = call.integers(flag);
    if (call.flag(flag).value_or(false) || (number && number->size() == 1 && (*number)[0] == 1)) share = 0.5;
  }
  const double rows = q.shape.back() == 0 ? 0 : q.elements() / Size(q.shape.back());  // queries times heads
  const double pairs = share * rows * keys;
  const double flop = rule.a * (2 * pairs * (Size(q.shape.back()) + Size(v.shape.back())) + 5 * pairs);
  const double moved = q.bytes() * 2 + k.bytes() + v.bytes();
  return {flop, rule.a > 1 ? 2 * moved : moved};
}

// ---- Recurrences: every matrix among the weights, arguments from `first` on, meets every step of every sequence. a
// times that.
Effort Recurrent(const AtenCall& call, const AtenRule& rule) {
  const AtenTensor& x = Ranked(call, 0, 2);
  const double steps = x.shape.back() == 0 ? 0 : x.elements() / Size(x.shape.back());
  const auto first = static_cast<std::size_t>(rule.first);
  double weights = 0;
  double bytes = x.bytes();
  const std::size_t last = rule.b > 0 ? first + static_cast<std::size_t>(rule.b) : first + 1;
  for (std::size_t i = first; i < last && i < call.arguments.size(); ++i) {
    for (const AtenTensor& weight : call.arguments[i].tensors) {
      if (weight.shape.size() == 2) weights += weight.elements();
      bytes += weight.bytes();
    }
  }
  if (weights == 0) Misses(fmt::format("list of weights in argument {}", first));
  return {rule.a * 2 * steps * weights, rule.a * (bytes + OutputBytes(call, x.bytes()))};
}

// ---- Optimizers: all lists are read, and a of them written; b FLOP an element of the first.
Effort Fused(const AtenCall& call, const AtenRule& rule) {
  double elements = 0;
  double bytes = 0;
  double first = 0;
  for (const AtenArgument& argument : call.arguments) {
    if (!argument.is_list) continue;
    if (first == 0) {
      first = Sum(argument.tensors, true);
      elements = Sum(argument.tensors, false);
    }
    // The steps of all parameters, one number each, are not lists of parameters.
    bytes += Sum(argument.tensors, true);
  }
  if (first == 0) Misses("list of tensors in argument 0");
  return {rule.b * elements, bytes + rule.a * first};
}

// ---- Autograd's own names. A product's gradients: the elements of dy, da and db are MN, MK and KN.
Effort ProductBackward(const AtenCall& call, const AtenRule&) {
  const AtenTensor& grad = Ranked(call, 0, 2);
  std::vector<double> sizes;
  for (const AtenTensor& output : call.outputs) {
    if (output.shape.size() >= 2) sizes.push_back(output.elements());
  }
  if (sizes.size() != 2) Misses("gradient of each factor among its results");
  double batches = 1;
  for (std::size_t i = 0; i + 2 < grad.shape.size(); ++i) batches *= Size(grad.shape[i]);
  const double each = std::sqrt(sizes[0] / batches * (sizes[1] / batches) * (grad.elements() / batches)) * batches;
  return {2 * 2 * each, InputBytes(call) + Sum(call.outputs, true)};
}

// The inputs, moved n times: in collectives, a rank reads and writes its own tensors.
Effort MovesItsTensors(const AtenCall& call, const AtenRule&) {
  return {0, InputBytes(call) + (call.has_outputs ? Sum(call.outputs, true) : 0)};
}

// ---- The operators
constexpr AtenRule kAtenRules[] = {
    {"_reshape_alias _unsafe_view alias as_strided broadcast_to chunk detach diagonal empty empty_like empty_permuted "
     "empty_strided expand expand_as imag is_pinned is_nonzero item lift lift_fresh movedim moveaxis narrow new_empty "
     "new_empty_strided numpy_T permute real record_stream resize resolve_conj resolve_neg result_type select set "
     "set_data sizes size slice split split_with_sizes squeeze squeeze_dim stride swapaxes swapdims sym_size t "
     "tensor_split transpose unbind unflatten unfold unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze view "
     "view_as view_as_complex view_as_real hsplit vsplit dsplit sym_stride sym_numel sym_storage_offset dim numel "
     "is_floating_point is_complex _nested_tensor_size is_same_size _has_compatible_shallow_copy_type "
     "_version requires_grad mT mH T data _cudnn_init_dropout_state _use_cudnn_ctc_loss cudnn_is_acceptable "
     "unflatten_dense_tensors broadcast_tensors atleast_1d atleast_2d atleast_3d adjoint slice_inverse "
     "sym_constrain_range sym_constrain_range_for_size _assert_tensor_metadata _neg_view",
     OpClass::kNone, NoEffort},

    {"mm", OpClass::kMatrixProduct, Product, 2, 0, 0},
    {"addmm _addmm_activation", OpClass::kMatrixProduct, Product, 2, 0, 1},
    {"bmm", OpClass::kMatrixProduct, Product, 3, 0, 0},
    {"_scaled_mm _int_mm", OpClass::kMatrixProduct, Product, 2, 0, 0},
    {"baddbmm addbmm", OpClass::kMatrixProduct, Product, 3, 0, 1},
    {"matmul inner", OpClass::kMatrixProduct, MatMul},
    {"_grouped_mm transformers::grouped_mm_fallback", OpClass::kMatrixProduct, Grouped},
    {"einsum bilinear _trilinear chain_matmul linalg_multi_dot", OpClass::kMatrixProduct, Recorded},
    {"mv dot vdot", OpClass::kMatrixProduct, VectorProduct, 0, 0, 0},
    {"addmv", OpClass::kMatrixProduct, VectorProduct, 0, 0, 1},
    {"linear mkldnn_linear _mkl_linear", OpClass::kMatrixProduct, Linear},
    {"linear_backward mkldnn_linear_backward", OpClass::kMatrixProduct, LinearGrad},
    {"mm_backward addmm_backward bmm_backward baddbmm_backward", OpClass::kMatrixProduct, ProductBackward},

    {"convolution convolution_overrideable _convolution conv1d conv2d conv3d cudnn_convolution cudnn_convolution_relu "
     "cudnn_convolution_add_relu cudnn_convolution_transpose miopen_convolution miopen_depthwise_convolution "
     "miopen_convolution_transpose mkldnn_convolution _slow_conv2d_forward thnn_conv2d slow_conv3d_forward "
     "_conv_depthwise2d conv_depthwise3d conv_transpose1d conv_transpose2d conv_transpose3d",
     OpClass::kConvolution, Convolution},
    {"conv_tbc", OpClass::kConvolution, Recorded},
    {"convolution_backward convolution_backward_overrideable _convolution_double_backward mkldnn_convolution_backward",
     OpClass::kConvolution, ConvolutionGrad},

    {"scaled_dot_product_attention", OpClass::kAttention, Attention, 1, 0, 0, 5},
    {"_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu", OpClass::kAttention, Attention,
     1, 0, 0, 4},
    {"_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention", OpClass::kAttention, Attention, 1,
     0, 0, 6},
    {"_scaled_dot_product_fused_attention_overrideable", OpClass::kAttention, Attention, 1, 0, 0, 5},
    {"_flash_attention_forward", OpClass::kAttention, Attention, 1, 1, 0, 8},
    {"_efficient_attention_forward", OpClass::kAttention, Attention, 1, 1, 0, 9},
    // Arguments in a captured step: gradient, query, key, value, mask, output, row statistics, dropout, causal.
    {"scaled_dot_product_attention_backward", OpClass::kAttention, Attention, 2.5, 0, 1, 8},
    {"_scaled_dot_product_flash_attention_backward", OpClass::kAttention, Attention, 2.5, 0, 1, 11},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", OpClass::kAttention, Attention, 2.5, 0, 1, 7},
    {"_scaled_dot_product_efficient_attention_backward", OpClass::kAttention, Attention, 2.5, 0, 1, 11},
    {"_scaled_dot_product_cudnn_attention_backward", OpClass::kAttention, Attention, 2.5, 0, 1, 14},
    {"_flash_attention_backward", OpClass::kAttention, Attention, 2.5, 1, 1, 11},
    {"_efficient_attention_backward", OpClass::kAttention, Attention, 2.5, 1, 1, 13},

    {"_cudnn_rnn miopen_rnn", OpClass::kRecurrent, Recurrent, 1, 0, 1},
    {"_cudnn_rnn_backward miopen_rnn_backward", OpClass::kRecurrent, Recurrent, 2, 0, 1},
    {"lstm gru rnn_tanh rnn_relu", OpClass::kRecurrent, Recurrent, 1, 0, 2},
    {"mkldnn_rnn_layer", OpClass::kRecurrent, Recurrent, 1, 4, 1},
    {"mkldnn_rnn_layer_backward", OpClass::kRecurrent, Recurrent, 2, 4, 1},
    {"lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell", OpClass::kRecurrent, Recurrent, 1, 2, 2},

    {"batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional cudnn_batch_norm "
     "miopen_batch_norm _batch_norm_with_update _batch_norm_with_update_functional _batch_norm_impl_index "
     "_batch_norm_no_update",
     OpClass::kNormalisation, BatchNorm, 8, 3, 0, 5},
    {"native_batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward batch_norm_backward",
     OpClass::kNormalisation, Passes, 9, 5, 0},
    {"_native_batch_norm_legit_no_training", OpClass::kNormalisation, Passes, 8, 2, 0},
    {"batch_norm_stats", OpClass::kNormalisation, Passes, 4, 1, 0},
    {"batch_norm_elemt batch_norm_backward_reduce", OpClass::kNormalisation, Passes, 4, 2, 0},
    {"batch_norm_backward_elemt", OpClass::kNormalisation, Passes, 5, 3, 0},
    {"native_layer_norm layer_norm", OpClass::kNormalisation, Passes, 8, 2, 0},
    {"native_layer_norm_backward layer_norm_backward", OpClass::kNormalisation, Passes, 13, 3, 0},
    {"native_group_norm group_norm instance_norm", OpClass::kNormalisation, Passes, 8, 3, 0},
    {"native_group_norm_backward group_norm_backward", OpClass::kNormalisation, Passes, 13, 5, 0},
    {"rms_norm _fused_rms_norm", OpClass::kNormalisation, Passes, 5, 2, 0},
    {"_fused_rms_norm_backward", OpClass::kNormalisation, Passes, 10, 3, 0},
    {"softmax _softmax log_softmax _log_softmax _safe_softmax _masked_softmax", OpClass::kNormalisation, Passes, 5, 2,
     0},
    {"_softmax_backward_data _log_softmax_backward_data _masked_softmax_backward softmax_backward "
     "log_softmax_backward",
     OpClass::kNormalisation, Passes, 4, 3, 0},

    {"add sub rsub mul multiply div divide true_divide floor_divide neg negative abs sign sgn reciprocal square "
     "maximum minimum fmax fmin clamp clamp_min clamp_max clip relu relu6 leaky_relu hardtanh threshold "
     "threshold_backward relu_backward floor ceil round trunc frac positive where masked_fill where_self logical_and_ "
     "bitwise_and bitwise_or bitwise_xor bitwise_not __and__ __or__ __xor__ __lshift__ __rshift__ "
     "bitwise_left_shift bitwise_right_shift remainder fmod tril triu masked_fill_backward clamp_backward "
     "hardtanh_backward leaky_relu_backward add_backward sub_backward mul_backward neg_backward div_backward "
     "masked_scale ldexp one_hot outer ger kron addr feature_dropout feature_alpha_dropout affine_grid_generator "
     "deg2rad "
     "rad2deg _conj conj_physical heaviside copysign nan_to_num native_dropout_backward accumulate_grad "
     "_assert_async _assert_scalar isclose masked_scatter dropout_backward where_backward complex polar",
     OpClass::kElementwise, Elementwise, 1},
    {"eq ne lt le gt ge equal logical_and logical_or logical_xor logical_not isnan isinf isfinite isneginf isposinf "
     "greater less signbit isin greater_equal less_equal not_equal",
     OpClass::kElementwise, Elementwise, 1, 1},
    {"exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh erf erfc erfinv pow "
     "float_power atan2 lerp addcmul addcdiv dropout native_dropout _fused_dropout alpha_dropout feature_dropout "
     "sqrt_backward exp_backward pow_backward log_backward rsqrt_backward xlogy hypot lgamma digamma sinc "
     "acosh asinh atanh logaddexp logaddexp2 i0 i0e i1 i1e polygamma mvlgamma igamma igammac ndtri log_ndtr entr erfcx "
     "xlog1py zeta linalg_cross cross angle absolute arccos arcsin arctan arccosh arcsinh arctanh arctan2",
     OpClass::kElementwise, Elementwise, 3},
    {"sigmoid hardsigmoid hardswish silu softplus elu selu celu glu mish logit log_sigmoid log_sigmoid_forward "
     "softshrink hardshrink prelu _prelu_kernel rrelu rrelu_with_noise rrelu_with_noise_functional sigmoid_backward "
     "tanh_backward logit_backward "
     "hardsigmoid_backward hardswish_backward softplus_backward elu_backward glu_backward log_sigmoid_backward "
     "_prelu_kernel_backward softshrink_backward hardshrink_backward",
     OpClass::kElementwise, Elementwise, 4},
    {"gelu gelu_backward silu_backward mish_backward _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward "
     "_thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell _thnn_fused_gru_cell_backward",
     OpClass::kElementwise, Elementwise, 10},
    {"upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact2d upsample_linear1d "
     "_upsample_nearest_exact1d _upsample_nearest_exact3d _upsample_lanczos2d_aa grid_sampler "
     "upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa "
     "upsample_nearest2d_backward upsample_bilinear2d_backward upsample_bicubic2d_backward "
     "upsample_nearest1d_backward upsample_linear1d_backward upsample_nearest3d_backward "
     "upsample_trilinear3d_backward grid_sampler_2d grid_sampler_3d grid_sampler_2d_backward "
     "_upsample_bilinear2d_aa_backward",
     OpClass::kElementwise, Elementwise, 8},

    {"sum nansum mean max min amax amin aminmax argmax argmin prod any all count_nonzero sum_to_size _grad_sum_to_size "
     "max_pool1d max_pool2d max_pool2d_with_indices max_pool3d_with_indices cudnn_max_pool mean_backward "
     "sum_backward adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d "
     "fractional_max_pool3d max_pool1d_with_indices max_pool3d max_unpool2d max_unpool3d nanmean _aminmax median "
     "nanmedian mode kthvalue trace bincount histc "
     "cummax_helper unique unique2 _unique2 unique_consecutive unique_dim",
     OpClass::kReduction, Reduce, 1},
    {"norm linalg_vector_norm linalg_norm frobenius_norm var std var_mean std_mean logsumexp mse_loss l1_loss "
     "smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div cosine_similarity "
     "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
     "_adaptive_avg_pool2d _adaptive_avg_pool3d renorm dist cdist _cdist_forward cross_entropy_loss nll_loss "
     "cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss multilabel_margin_loss "
     "multilabel_margin_loss_forward nll_loss_nd nll_loss2d pairwise_distance poisson_nll_loss soft_margin_loss "
     "triplet_margin_loss pdist _pdist_forward linalg_matrix_norm nuclear_norm ctc_loss _ctc_loss trapezoid "
     "cumulative_trapezoid _euclidean_dist local_response_norm cov corrcoef _weight_norm "
     "weight_norm _weight_norm_interface _weight_norm_interface_backward im2col col2im",
     OpClass::kReduction, Reduce, 3},
    {"mse_loss_backward l1_loss_backward smooth_l1_loss_backward huber_loss_backward binary_cross_entropy_backward "
     "kl_div_backward",
     OpClass::kElementwise, Elementwise, 3},
    {"max_pool2d_with_indices_backward max_pool3d_with_indices_backward", OpClass::kReduction, Reduce, 1},
    {"avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward "
     "adaptive_max_pool2d_backward",
     OpClass::kReduction, Reduce, 1},
    {"nll_loss_forward nll_loss2d_forward", OpClass::kReduction, Passes, 2, 3, 1},
    {"nll_loss_backward nll_loss2d_backward", OpClass::kReduction, Passes, 1, 1, 1},
    {"cumsum cumprod cummax cummin logcumsumexp", OpClass::kReduction, Passes, 1, 2, 0},
    {"_fft_c2c _fft_c2r _fft_r2c fft_fft fft_ifft fft_rfft fft_irfft fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2 fft_fftn "
     "fft_ifftn fft_rfftn fft_irfftn fft_hfft fft_ihfft",
     OpClass::kReduction, Fourier},
    // A sort passes over keys and positions once for each eight bits of its keys.
    {"sort argsort msort topk quantile nanquantile", OpClass::kReduction, Passes, 8, 12, 0},
    {"multinomial searchsorted bucketize", OpClass::kReduction, Reduce, 4},

    {"copy", OpClass::kCopy, CopyFrom},
    {"_to_copy to clone contiguous reshape reshape_as flatten ravel repeat repeat_interleave tile roll flip rot90 cat "
     "concat concatenate _cat stack hstack vstack dstack constant_pad_nd pad reflection_pad1d reflection_pad2d "
     "reflection_pad3d replication_pad1d replication_pad2d replication_pad3d reflection_pad2d_backward pixel_shuffle "
     "pixel_unshuffle channel_shuffle unfold_copy permute_copy view_copy transpose_copy pin_memory _pin_memory "
     "type_as float half bfloat16 double long int cpu cuda meshgrid block_diag view_as_real_copy "
     "to_backward _to_copy_backward clone_backward cat_backward stack_backward repeat_backward copy_backwards "
     "copy_backward flatten_dense_tensors split_copy split_with_sizes_copy select_copy slice_copy expand_copy "
     "narrow_copy lift_fresh_copy unsqueeze_copy squeeze_copy diff cartesian_prod column_stack fliplr flipud "
     "native_channel_shuffle fft_fftshift fft_ifftshift "
     "_local_scalar_dense _copy_from slice_scatter select_scatter diagonal_scatter as_strided_scatter "
     "_foreach_copy unfold_copy_backward diag diag_embed take_along_dim",
     OpClass::kCopy, Rearrange},
    {"slice_backward select_backward", OpClass::kCopy, Widen, 0, 0, 1},
    {"unfold_backward diagonal_backward as_strided_backward value_selecting_reduction_backward", OpClass::kCopy, Widen,
     0, 0, 1},
    {"fill zero zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full scalar_tensor arange range "
     "linspace eye tensor _foreach_zero tril_indices triu_indices",
     OpClass::kCopy, Fill},
    {"normal uniform random bernoulli exponential cauchy log_normal geometric rand randn randint randperm rand_like "
     "randn_like randint_like poisson",
     OpClass::kElementwise, Fill, 8},

    {"embedding", OpClass::kGather, Embedding},
    {"_embedding_bag _embedding_bag_forward_only embedding_bag", OpClass::kGather, Embedding},
    {"embedding_dense_backward _embedding_bag_dense_backward embedding_backward", OpClass::kGather, EmbeddingGrad},
    {"index_select", OpClass::kGather, IndexSelect},
    {"index _unsafe_index take", OpClass::kGather, Index},
    {"index_put _index_put_impl _unsafe_index_put", OpClass::kGather, IndexPut},
    {"gather", OpClass::kGather, Gather, 2, 0},
    {"gather_backward scatter scatter_add scatter_reduce index_add index_copy index_fill", OpClass::kGather, Gather, 3,
     1},
    {"masked_select nonzero index_select_backward argwhere", OpClass::kGather, Reduce, 1},

    {"_fused_adam _fused_adamw", OpClass::kOptimizer, Fused, 3, 12},
    {"_fused_sgd", OpClass::kOptimizer, Fused, 2, 4},
    {"_fused_adagrad", OpClass::kOptimizer, Fused, 2, 6},
    // PyTorch has no such operator: a captured step has it for the update of one parameter. Both factors are small.
    {"_fused_adafactor", OpClass::kOptimizer, Fused, 1, 10},
    {"_foreach_add _foreach_sub _foreach_mul _foreach_div _foreach_neg _foreach_abs _foreach_maximum "
     "_foreach_minimum _foreach_clamp_max _foreach_clamp_min _foreach_reciprocal _foreach_sign _foreach_clamp "
     "_foreach_round _foreach_floor",
     OpClass::kOptimizer, Fused, 1, 1},
    {"_foreach_addcmul _foreach_addcdiv _foreach_sqrt _foreach_rsqrt _foreach_lerp _foreach_pow _foreach_exp "
     "_foreach_log _amp_foreach_non_finite_check_and_unscale _foreach_tanh _foreach_sigmoid",
     OpClass::kOptimizer, Fused, 1, 3},
    {"_foreach_norm _foreach_max", OpClass::kOptimizer, Fused, 0, 2},
    {"_amp_update_scale", OpClass::kOptimizer, Reduce, 1},
};

using Rules = std::unordered_map<std::string_view, const AtenRule*>;

template <typename Add>
void ForEachName(const AtenRule& rule, Add add) {
  for (std::string_view rest = rule.names; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    add(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

const Rules& RulesByName() {
  static const Rules rules = [] {
    Rules by_name;
    for (const AtenRule& rule : kAtenRules) {
      ForEachName(rule, [&](std::string_view name) { by_name.try_emplace(name, &rule); });
    }
    return by_name;
  }();
  return rules;
}

// The rule of NAME_backward for the operators NAME that have no such row, as importers make one op of their gradients:
// the class of NAME. The gradient of a view is one, unless it writes zeros around what the view shows.
const AtenRule* BackwardRuleFor(std::string_view name) {
  constexpr std::string_view kSuffix = "_backward";
  if (!name.ends_with(kSuffix)) return nullptr;
  name.remove_suffix(kSuffix.size());
  static const std::unordered_map<const AtenRule*, AtenRule> derived = [] {
    std::unordered_map<const AtenRule*, AtenRule> by_rule;
    for (const AtenRule& rule : kAtenRules) {
      const bool by_element = rule.op_class == OpClass::kElementwise || rule.op_class == OpClass::kReduction ||
                              rule.op_class == OpClass::kNormalisation;
      const bool is_free = rule.op_class == OpClass::kNone;
      by_rule.emplace(&rule,
                      AtenRule{rule.names, rule.op_class, is_free ? NoEffort : Backward, by_element ? rule.a : 0});
    }
    return by_rule;
  }();
  const auto forward = RulesByName().find(name);
  return forward == RulesByName().end() ? nullptr : &derived.at(forward->second);
}

constexpr std::string_view kAtenSpace = "aten::";

constexpr AtenRule kCollectiveRule = {"", OpClass::kCopy, MovesItsTensors};
constexpr AtenRule kPointwiseKernel = {"", OpClass::kElementwise, MovesItsTensors};
constexpr AtenRule kReductionKernel = {"", OpClass::kReduction, MovesItsTensors};

// "ConvolutionBackward0" is "convolution_backward"; "" if it is not a name of autograd's.
std::string FromAutograd(std::string_view name) {
  name = name.substr(name.rfind(':') + 1);
  const std::size_t at = name.find("Backward");
  if (name == "AccumulateGrad") return "accumulate_grad";
  if (at == std::string_view::npos || at == 0) return "";
  for (const char c : name.substr(at + 8)) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return "";
  }
  std::string snake;
  for (const char c : name.substr(0, at)) {
    if (std::isupper(static_cast<unsigned char>(c)) != 0 && !snake.empty()) snake += '_';
    snake += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return snake + "_backward";
}

// The operator's name if it is one of ATen's.
std::optional<std::string_view> OwnName(std::string_view name) {
  return name.starts_with(kAtenSpace) ? std::optional(name.substr(kAtenSpace.size())) : std::nullopt;
}

const AtenRule* RuleFor(std::string_view name) {
  const Rules& rules = RulesByName();
  const auto find = [&](std::string_view plain) {
    const auto found = rules.find(plain);
    return found == rules.end() ? nullptr : found->second;
  };
  if (name.starts_with(kAtenSpace)) {
    name.remove_prefix(kAtenSpace.size());
    const AtenRule* const rule = find(name);
    return rule == nullptr ? BackwardRuleFor(name) : rule;
  }
  if (name.find("::") != std::string_view::npos) {  // of another library
    if (const AtenRule* const rule = find(name)) return rule;
    if (const AtenRule* const rule = BackwardRuleFor(name)) return rule;
  }
  for (const std::string_view space : {"c10d::", "nccl:", "_c10d_functional::", "record_param_comms", "symm_mem::"}) {
    if (name.starts_with(space)) return &kCollectiveRule;
  }
  // As PyTorch's compiler names its kernels: pointwise; reductions that keep their result, or need several passes.
  for (const std::string_view kind : {"triton_poi_", "triton_for_"}) {
    if (name.starts_with(kind)) return &kPointwiseKernel;
  }
  for (const std::string_view kind : {"triton_red_", "triton_per_"}) {
    if (name.starts_with(kind)) return &kReductionKernel;
  }
  const std::string backward = FromAutograd(name);
  if (backward.empty()) return nullptr;
  if (const AtenRule* const rule = find(backward)) return rule;
  // The gradient of a view is a view, that of an element-wise operator is one.
  constexpr std::string_view kSuffix = "_backward";
  const AtenRule* const forward = find(std::string_view(backward).substr(0, backward.size() - kSuffix.size()));
  if (forward == nullptr) return nullptr;
  const bool alike = forward->formula == NoEffort || forward->formula == Elementwise || forward->formula == Rearrange;
  return alike ? forward : nullptr;
}

// The type of the factors: of the first tensor of floats that is not a scalar.
DType FactorsOf(const AtenCall& call, OpClass op_class) {
  if (op_class == OpClass::kMatrixProduct || op_class == OpClass::kConvolution || op_class == OpClass::kAttention ||
      op_class == OpClass::kRecurrent) {
    for (const AtenArgument& argument : call.arguments) {
      for (const AtenTensor& tensor : argument.tensors) {
        if (tensor.shape.size() > 1) return IsFloat(tensor.dtype) ? tensor.dtype : DType::kNone;
      }
    }
    for (const AtenArgument& argument : call.arguments) {
      for (const AtenTensor& tensor : argument.tensors) return IsFloat(tensor.dtype) ? tensor.dtype : DType::kNone;
    }
  }
  return DType::kF32;
}

std::optional<bool> AllowsTf32(const AtenCall& call) {
  if (call.tf32) return true;
  const std::string_view name = std::string_view(call.name).substr(call.name.rfind(':') + 1);
  if (name == "cudnn_convolution") return call.flag(8);
  if (name == "_convolution") return call.flag(12);
  if (name == "cudnn_convolution_relu" || name == "cudnn_convolution_add_relu") return std::nullopt;
  if (name == "cudnn_convolution_transpose") return call.flag(9);
  return std::nullopt;
}

}  // namespace

std::optional<double> ConvolvedElements(const AtenCall& call) {
  const ConvolutionLayout* const layout = LayoutOf(call);
  if (layout == nullptr || IsTransposed(call, *layout)) return std::nullopt;
  if (!call.outputs.empty()) return call.outputs[0].elements();
  const AtenTensor* const x = call.tensor(0);
  const AtenTensor* const weight = call.tensor(1);
  if (x == nullptr || weight == nullptr || x->shape.size() < 3 || weight->shape.size() != x->shape.size()) {
    return std::nullopt;
  }
  try {
    return Convolved(call, *layout, *x, *weight);
  } catch (const NotSaid&) {
    return std::nullopt;
  }
}

std::optional<OpClass> AtenClass(std::string_view name) {
  const AtenRule* const rule = RuleFor(name);
  return rule == nullptr ? std::nullopt : std::optional(rule->op_class);
}

std::optional<AtenWork> FindAtenWork(const Graph& graph, OpId op, std::string* why) {
  const AtenCall call = ReadAtenCall(graph, op);
  const auto give_up = [&](std::string reason) -> std::optional<AtenWork> {
    if (why != nullptr) *why = std::move(reason);
    return std::nullopt;
  };
  const AtenRule* const rule = RuleFor(call.name);
  if (rule == nullptr) {
    return give_up(call.name.empty() ? "the trace names no operator that launched this kernel"
                                     : fmt::format("it knows no operator \"{}\"", call.name));
  }
  AtenWork found;
  found.kernels = call.kernels;
  found.is_transfer = rule == &kCollectiveRule || call.crosses_devices;
  if (rule->op_class == OpClass::kNone || call.is_view) return found;
  if (!call.has_shapes) {
    return give_up("the graph has no shapes of its tensors (traces have them if recorded with record_shapes=True)");
  }
  std::optional<std::string> missing;
  const auto effort_of = [&](const AtenRule& row) -> std::optional<Effort> {
    try {
      return row.formula(call, row);
    } catch (const NotSaid& error) {
      missing = error.what;
      return std::nullopt;
    }
  };
  std::optional<Effort> effort = effort_of(*rule);
  if (!effort) {  // an importer's op of all gradients has other arguments than PyTorch's operator of that name
    const AtenRule* const whole = OwnName(call.name) ? BackwardRuleFor(*OwnName(call.name)) : nullptr;
    if (whole != nullptr) effort = effort_of(*whole);
  }
  if (!effort) return give_up(fmt::format("its call of {} lacks a {}", call.name, *missing));
  // Values of a call come from files: sizes may be negative, or too large to multiply.
  if (!(effort->flop >= 0 && effort->bytes >= 0 && std::isfinite(effort->flop) && std::isfinite(effort->bytes))) {
    return give_up(fmt::format("the sizes in its call of {} are negative or too large", call.name));
  }
  found.work = MakeWork(rule->op_class, effort->flop, effort->bytes);
  found.dtype = FactorsOf(call, rule->op_class);
  found.allow_tf32 = AllowsTf32(call);
  return found;
}

}  // namespace emplace
