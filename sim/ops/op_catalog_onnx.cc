#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/ops/einsum.h"
#include "sim/ops/op_catalog_parts.h"
#include "sim/ops/op_view.h"

namespace emplace {
namespace {

// Operators of ONNX that the catalogue has no kind of its own for, with the inputs, outputs and attributes of the
// operator. Optional inputs that are left out are missing in the list; those that a formula reads are never optional.
constexpr OpClass kOnnxElementwise = OpClass::kElementwise;
constexpr OpClass kOnnxReduction = OpClass::kReduction;
constexpr OpClass kOnnxCopy = OpClass::kCopy;

// This many FLOP for each element of the first output.
template <OpClass kClass, int kFlopPerElement>
OpWork OnnxPerOutput(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  return MakeWork(kClass, kFlopPerElement * Elements(view.out(0)), view.AllBytes());
}

template <OpClass kClass, int kFlopPerElement>
OpWork OnnxPerInput(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  return MakeWork(kClass, kFlopPerElement * Elements(view.in(0)), view.AllBytes());
}

OpWork OnnxVariadic(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.Expect(view.num_inputs() > 0, "it has an input");
  return MakeWork(kOnnxElementwise, static_cast<double>(view.num_inputs() - 1) * Elements(view.out(0)),
                  view.AllBytes());
}

OpWork OnnxMean(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  return MakeWork(kOnnxElementwise, static_cast<double>(view.num_inputs()) * Elements(view.out(0)), view.AllBytes());
}

OpWork OnnxNothing(const Graph& graph, OpId op) {
  OpView(graph, op).out(0);
  return {};
}

// y = a x + b, after a = scale / sqrt(variance + epsilon) and b = offset - mean a for each channel.
OpWork OnnxBatchNorm(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.Expect(view.num_inputs() == 5, "inputs are x, scale, offset, mean and variance");
  return MakeWork(kOnnxElementwise, 2 * Elements(view.out(0)) + 5 * Elements(view.in(1)), view.AllBytes());
}

// Each target adds a number of x times its weight.
OpWork OnnxLogLikelihood(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  return MakeWork(kOnnxReduction, 2 * Elements(view.in(1)), view.AllBytes());
}

// The matrix [.., D, D + 1] of each batch times a place of D coordinates and 1.
OpWork OnnxAffineGrid(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const ShapeView grid = view.out(0);
  view.Expect(!grid.empty(), "the grid has coordinates");
  return MakeWork(kOnnxElementwise, 2 * Elements(grid) * static_cast<double>(grid.back()), view.AllBytes());
}

// A square, size - 1 sums, factor and bias, a power, a division.
OpWork OnnxLrn(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const auto size = static_cast<double>(view.Integer("size", 1));
  view.Expect(size >= 1, "attr size is at least 1");
  return MakeWork(kOnnxReduction, (size + 4) * Elements(view.out(0)), view.AllBytes());
}

// Filter [K, C / groups, ...] for any number of spatial dimensions; an output element sums the products of one row.
// `kFilter`, `kBias`: which inputs these are. `kInGroups`: the attribute `group` says in how many (1 where it is
// absent).
template <std::size_t kFilter, std::size_t kBias, bool kInGroups = true>
OpWork OnnxConv(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const ShapeView w = view.in(kFilter);
  const ShapeView x = view.in(0);
  view.Expect(w.size() >= 3 && view.out(0).size() == w.size(), "filter and output have rank 3 or more");
  const std::vector<std::int64_t> window = view.Integers("kernel_shape");
  view.Expect(window.empty() || std::equal(window.begin(), window.end(), w.begin() + 2, w.end()),
              "kernel_shape is that of the filter");
  if (kInGroups) {
    const std::int64_t groups = view.Integer("group", 1);
    view.Expect(groups > 0 && w[0] % groups == 0, "the filters divide into groups");
    view.Expect(
        x.size() == w.size() && static_cast<double>(x[1]) == static_cast<double>(w[1]) * static_cast<double>(groups),
        "the filter has as many channels as a group of the data");
  }
  const double bias = view.num_inputs() > kBias ? Elements(view.out(0)) : 0;
  return MakeWork(OpClass::kConvolution, 2 * Elements(view.out(0)) * Elements(w.subspan(1)) + bias, view.AllBytes());
}

// Filter [C, K / groups, ...]: an input element is spread over one row.
OpWork OnnxConvTranspose(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const ShapeView w = view.in(1);
  view.Expect(w.size() >= 3 && view.in(0).size() == w.size(), "filter and input have rank 3 or more");
  const double bias = view.num_inputs() > 2 ? Elements(view.out(0)) : 0;
  return MakeWork(OpClass::kConvolution, 2 * Elements(view.in(0)) * Elements(w.subspan(1)) + bias, view.AllBytes());
}

OpWork OnnxMatMul(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const ShapeView a = view.in(0);
  view.Expect(!a.empty(), "a has a last dimension");
  return MakeWork(OpClass::kMatrixProduct, 2 * Elements(view.out(0)) * static_cast<double>(a.back()), view.AllBytes());
}

// Each factor may be transposed.
OpWork OnnxFusedMatMul(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const ShapeView a = view.in(0);
  const bool is_turned = view.Integer("transA", 0) != 0 && a.size() >= 2;
  view.Expect(!a.empty(), "a has a last dimension");
  const auto k = static_cast<double>(is_turned ? a[a.size() - 2] : a.back());
  return MakeWork(OpClass::kMatrixProduct, 2 * Elements(view.out(0)) * k, view.AllBytes());
}

// Weights of a few bits each, which are expanded within the kernel.
OpWork OnnxMatMulNBits(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const auto k = static_cast<double>(view.Integer("K", 0));
  view.Expect(k >= 1, "attr K is at least 1");
  return MakeWork(OpClass::kMatrixProduct, 2 * Elements(view.out(0)) * k, view.AllBytes());
}

// Attr `attention`: batch, heads, queries, keys, size of a query and a key, size of a value. Two products: queries by
// keys, and weights by values. A mask leaves nothing out, and the softmax between them is not counted.
double OnnxAttentionFlop(const OpView& view) {
  const std::vector<std::int64_t> sizes = view.Integers("attention");
  view.Expect(sizes.size() == 6, "attr attention has six sizes");
  double weights = 1;
  for (std::size_t i = 0; i < 4; ++i) weights *= static_cast<double>(sizes[i]);
  return 2 * weights * (static_cast<double>(sizes[4]) + static_cast<double>(sizes[5]));
}
OpWork OnnxAttention(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.out(0);
  return MakeWork(OpClass::kAttention, OnnxAttentionFlop(view), view.AllBytes());
}
// Input [.., I] and weights [I, J] make queries, keys and values before.
OpWork OnnxFusedAttention(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectRank(view.in(1), 2, "weights");
  const double products = 2 * Elements(view.in(0)) * static_cast<double>(view.in(1)[1]);
  return MakeWork(OpClass::kAttention, products + OnnxAttentionFlop(view), view.AllBytes());
}

// A state of size by size of a value for each head of keys: k v and its sum, q times it for each head; with a gate a
// product more, with a delta rule another product with k.
OpWork OnnxLinearAttention(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectRank(view.in(0), 3, "query");
  view.ExpectRank(view.in(2), 3, "value");
  const auto heads = static_cast<double>(view.Integer("q_num_heads", 0));
  const auto key_heads = static_cast<double>(view.Integer("kv_num_heads", 0));
  view.Expect(heads >= 1 && key_heads >= 1, "attrs q_num_heads and kv_num_heads are at least 1");
  const std::string rule = view.Text("update_rule");
  double each = 2 * heads + 2 * key_heads;
  if (rule != "linear" && rule != "delta") each += key_heads;
  if (rule != "linear" && rule != "gated") each += 2 * key_heads;
  const double state = Elements(view.in(0)) / heads * static_cast<double>(view.in(2)[2]) / key_heads;
  return MakeWork(OpClass::kAttention, each * state, view.AllBytes());
}

// Alpha and beta are not counted. `kBias`: which input is added.
template <std::size_t kBias>
OpWork OnnxGemm(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectRank(view.in(0), 2, "a");
  const double k = static_cast<double>(view.in(0)[view.Integer("transA", 0) != 0 ? 0 : 1]);
  const double bias = view.num_inputs() > kBias ? Elements(view.out(0)) : 0;
  return MakeWork(OpClass::kMatrixProduct, 2 * Elements(view.out(0)) * k + bias, view.AllBytes());
}

// X [time, batch, I], W [directions, gates * H, I], R [directions, gates * H, H]: each row of X and of the state is
// multiplied by all of W and R. What the gates do besides is not counted.
OpWork OnnxRecurrent(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectRank(view.in(0), 3, "X");
  const double rows = Elements(view.in(0).first(2));
  return MakeWork(OpClass::kMatrixProduct, 2 * rows * (Elements(view.in(1)) + Elements(view.in(2))), view.AllBytes());
}

// This many FLOP for each number in the window.
template <int kFlop>
OpWork OnnxPool(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const std::vector<std::int64_t> sizes = view.Integers("kernel_shape");
  double window = 1;
  for (const std::int64_t size : sizes) window *= static_cast<double>(size);
  view.Expect(!sizes.empty() && window >= 1, "attr kernel_shape has sizes of at least 1");
  return MakeWork(kOnnxReduction, kFlop * window * Elements(view.out(0)), view.AllBytes());
}

// This many FLOP for each element of the output.
template <int kFlop>
OpWork OnnxGather(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  return MakeWork(OpClass::kGather, kFlop * Elements(view.out(0)), view.in_bytes(1) + 2 * view.out_bytes(0));
}

OpWork OnnxSlice(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.in(0);
  return MakeWork(kOnnxCopy, 0, 2 * view.out_bytes(0));
}

// In the order of their names.
constexpr OpKind kOnnxKinds[] = {
    {"ai.onnx.preview::FlexAttention", OpClass::kAttention, "(q, k, v): as onnx::Attention", OnnxAttention},
    {"com.microsoft::Attention", OpClass::kAttention,
     "(x, w, ..): 2 * elements of x * columns of w, and the two products of onnx::Attention", OnnxFusedAttention},
    {"com.microsoft::BiasAdd", kOnnxElementwise, "(x, bias, skip): 2*E", OnnxPerOutput<kOnnxElementwise, 2>},
    {"com.microsoft::BiasGelu", kOnnxElementwise, "(x, bias): 6*E", OnnxPerOutput<kOnnxElementwise, 6>},
    {"com.microsoft::BiasSoftmax", kOnnxReduction, "(x, bias): 6*E", OnnxPerOutput<kOnnxReduction, 6>},
    {"com.microsoft::DequantizeLinear", kOnnxElementwise, "(x, scale, zero): 2*E", OnnxPerOutput<kOnnxElementwise, 2>},
    {"com.microsoft::DynamicQuantizeMatMul", OpClass::kMatrixProduct,
     "(a, b, ..), broadcast: 2 * E * last dimension of a", OnnxMatMul},
    {"com.microsoft::EmbedLayerNormalization", kOnnxReduction, "(ids, tables, ..): 10*E; two sums, 8*E of the norm",
     OnnxPerOutput<kOnnxReduction, 10>},
    {"com.microsoft::FastGelu", kOnnxElementwise, "(x, bias): 9*E", OnnxPerOutput<kOnnxElementwise, 9>},
    {"com.microsoft::FusedConv", OpClass::kConvolution, "(x, w, b): 2 * E * elements of w / K, E for b",
     OnnxConv<1, 2>},
    {"com.microsoft::FusedGemm", OpClass::kMatrixProduct, "(a, b, c): 2*M*N*K, E for c", OnnxGemm<2>},
    {"com.microsoft::FusedMatMul", OpClass::kMatrixProduct, "(a, b), broadcast, transposed or not: 2*E*K",
     OnnxFusedMatMul},
    {"com.microsoft::GatherBlockQuantized", OpClass::kGather, "(x, indices, ..): 2*E; reads what it writes",
     OnnxGather<2>},
    {"com.microsoft::Gelu", kOnnxElementwise, "(x): 5*E", OnnxPerOutput<kOnnxElementwise, 5>},
    {"com.microsoft::GroupNorm", kOnnxReduction, "(x, scale, offset): 8*E", OnnxPerOutput<kOnnxReduction, 8>},
    {"com.microsoft::GroupQueryAttention", OpClass::kAttention, "(q, k, v, ..): as onnx::Attention", OnnxAttention},
    {"com.microsoft::MatMulInteger16", OpClass::kMatrixProduct, "(a, b), broadcast: 2 * E * last dimension of a",
     OnnxMatMul},
    {"com.microsoft::MatMulIntegerToFloat", OpClass::kMatrixProduct,
     "(a, b, ..), broadcast: 2 * E * last dimension of a", OnnxMatMul},
    {"com.microsoft::MatMulNBits", OpClass::kMatrixProduct, "(a, packed b, ..): 2*E*K", OnnxMatMulNBits},
    {"com.microsoft::MultiHeadAttention", OpClass::kAttention, "(q, k, v, ..): as onnx::Attention", OnnxAttention},
    {"com.microsoft::QAttention", OpClass::kAttention,
     "(x, w, ..): 2 * elements of x * columns of w, and the two products of onnx::Attention", OnnxFusedAttention},
    {"com.microsoft::QGemm", OpClass::kMatrixProduct, "(a, scale, zero, b, ..): 2*M*N*K", OnnxGemm<99>},
    {"com.microsoft::QLinearAdd", kOnnxElementwise, "(a, .., b, ..): 8*E; two expansions, the sum, a rounding",
     OnnxPerOutput<kOnnxElementwise, 8>},
    {"com.microsoft::QLinearAveragePool", kOnnxReduction, "(x): window*E", OnnxPool<1>},
    {"com.microsoft::QLinearConcat", kOnnxCopy, "(tensors): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"com.microsoft::QLinearConv", OpClass::kConvolution,
     "(x, scale, zero, w, ..): 2 * E * elements of w / K, E for a bias", OnnxConv<3, 8>},
    {"com.microsoft::QLinearGlobalAveragePool", kOnnxReduction, "(x): elements of x", OnnxPerInput<kOnnxReduction, 1>},
    {"com.microsoft::QLinearLeakyRelu", kOnnxElementwise, "(x, ..): 7*E", OnnxPerOutput<kOnnxElementwise, 7>},
    {"com.microsoft::QLinearMul", kOnnxElementwise, "(a, .., b, ..): 8*E; two expansions, the product, a rounding",
     OnnxPerOutput<kOnnxElementwise, 8>},
    {"com.microsoft::QLinearReduceMean", kOnnxReduction, "(x): elements of x", OnnxPerInput<kOnnxReduction, 1>},
    {"com.microsoft::QLinearSigmoid", kOnnxElementwise, "(x, ..): 9*E", OnnxPerOutput<kOnnxElementwise, 9>},
    {"com.microsoft::QLinearSoftmax", kOnnxReduction, "(x, ..): 10*E", OnnxPerOutput<kOnnxReduction, 10>},
    {"com.microsoft::QuantizeLinear", kOnnxElementwise, "(x, scale, zero): 3*E", OnnxPerOutput<kOnnxElementwise, 3>},
    {"com.microsoft::QuickGelu", kOnnxElementwise, "(x): 5*E", OnnxPerOutput<kOnnxElementwise, 5>},
    {"com.microsoft::RotaryEmbedding", kOnnxElementwise, "(x, ..): 3*E", OnnxPerOutput<kOnnxElementwise, 3>},
    {"com.microsoft::SimplifiedLayerNormalization", kOnnxReduction, "(x, scale): 4*E",
     OnnxPerOutput<kOnnxReduction, 4>},
    {"com.microsoft::SkipLayerNormalization", kOnnxReduction, "(x, skip, ..): 9*E", OnnxPerOutput<kOnnxReduction, 9>},
    {"com.microsoft::SkipSimplifiedLayerNormalization", kOnnxReduction, "(x, skip, ..): 5*E",
     OnnxPerOutput<kOnnxReduction, 5>},
    {"com.microsoft::TransposeMatMul", OpClass::kMatrixProduct, "(a, b), broadcast, transposed or not: 2*E*K",
     OnnxFusedMatMul},
    {"onnx::Abs", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Acos", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Acosh", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Add", kOnnxElementwise, "(a, b), broadcast: E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::AffineGrid", kOnnxElementwise, "(matrices, size): 2*E*D for D coordinates", OnnxAffineGrid},
    {"onnx::And", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::ArgMax", kOnnxReduction, "(x): elements of x", OnnxPerInput<kOnnxReduction, 1>},
    {"onnx::ArgMin", kOnnxReduction, "(x): elements of x", OnnxPerInput<kOnnxReduction, 1>},
    {"onnx::Asin", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Asinh", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Atan", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Atanh", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Attention", OpClass::kAttention,
     "(q, k, v, ..): 2 * batch * heads * queries * keys * (size of a key + size of a value)", OnnxAttention},
    {"onnx::AveragePool", kOnnxReduction, "(x): window*E", OnnxPool<1>},
    {"onnx::BatchNormalization", kOnnxElementwise, "(x, scale, offset, mean, variance) -> y: 2*E + 5*C", OnnxBatchNorm},
    {"onnx::BitCast", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::BitShift", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::BitwiseAnd", kOnnxElementwise, "(a, b), broadcast: E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::BitwiseNot", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::BitwiseOr", kOnnxElementwise, "(a, b), broadcast: E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::BitwiseXor", kOnnxElementwise, "(a, b), broadcast: E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Cast", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::CastLike", kOnnxCopy, "(x, type): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::CausalConvWithState", OpClass::kConvolution, "(x, w, ..): 2 * E * elements of w / K",
     OnnxConv<1, 99, false>},
    {"onnx::Ceil", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Celu", kOnnxElementwise, "(x): 4*E", OnnxPerOutput<kOnnxElementwise, 4>},
    {"onnx::CenterCropPad", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Clip", kOnnxElementwise, "(x, min, max): 2*E", OnnxPerOutput<kOnnxElementwise, 2>},
    {"onnx::Col2Im", kOnnxCopy, "(x): elements of x", OnnxPerInput<kOnnxCopy, 1>},
    {"onnx::Compress", OpClass::kGather, "(x, condition): 0 flop", OnnxPerOutput<OpClass::kGather, 0>},
    {"onnx::Concat", kOnnxCopy, "(tensors): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Conv", OpClass::kConvolution, "(x, w, b) of any rank, in groups: 2 * E * elements of w / K, E for b",
     OnnxConv<1, 2>},
    {"onnx::ConvInteger", OpClass::kConvolution, "(x, w, ..): 2 * E * elements of w / K", OnnxConv<1, 99>},
    {"onnx::ConvTranspose", OpClass::kConvolution, "(x, w, b): 2 * elements of x * elements of w / C, E for b",
     OnnxConvTranspose},
    {"onnx::Cos", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Cosh", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::CumProd", kOnnxReduction, "(x): E", OnnxPerOutput<kOnnxReduction, 1>},
    {"onnx::CumSum", kOnnxReduction, "(x): E", OnnxPerOutput<kOnnxReduction, 1>},
    {"onnx::DeformConv", OpClass::kConvolution,
     "(x, w, offset, ..): 2 * E * elements of w / K; where it reads is not counted", OnnxConv<1, 99>},
    {"onnx::DepthToSpace", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::DequantizeLinear", kOnnxElementwise, "(x, scale, zero): 2*E", OnnxPerOutput<kOnnxElementwise, 2>},
    {"onnx::Div", kOnnxElementwise, "(a, b), broadcast: E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::DynamicQuantizeLinear", kOnnxReduction, "(x): 5*E; least, largest, division, sum, rounding",
     OnnxPerOutput<kOnnxReduction, 5>},
    {"onnx::Einsum", OpClass::kMatrixProduct, "(n tensors): n for each combination of the letters", EinsumWork},
    {"onnx::Elu", kOnnxElementwise, "(x): 4*E; exp, difference, product, selection",
     OnnxPerOutput<kOnnxElementwise, 4>},
    {"onnx::Equal", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Erf", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Exp", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Expand", kOnnxCopy, "(x, shape): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::EyeLike", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Floor", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::GRU", OpClass::kMatrixProduct, "(x, w, r, ..): 2 * time * batch * elements of w and r", OnnxRecurrent},
    {"onnx::Gather", OpClass::kGather, "(x, indices): 0 flop; reads what it writes", OnnxGather<0>},
    {"onnx::GatherElements", OpClass::kGather, "(x, indices): 0 flop; reads what it writes", OnnxGather<0>},
    {"onnx::GatherND", OpClass::kGather, "(x, indices): 0 flop; reads what it writes", OnnxGather<0>},
    {"onnx::Gelu", kOnnxElementwise, "(x): 5*E", OnnxPerOutput<kOnnxElementwise, 5>},
    {"onnx::Gemm", OpClass::kMatrixProduct, "(a, b, c): 2*M*N*K, E for c", OnnxGemm<2>},
    {"onnx::GlobalLpPool", kOnnxReduction, "(x): 2 * elements of x", OnnxPerInput<kOnnxReduction, 2>},
    {"onnx::Greater", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::GreaterOrEqual", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::GridSample", OpClass::kGather,
     "(x, grid): 11*E; 8 for the weights of the four neighbours and their sum, 3 for the place",
     OnnxPerOutput<OpClass::kGather, 11>},
    {"onnx::GroupNormalization", kOnnxReduction, "(x, scale, offset): 8*E", OnnxPerOutput<kOnnxReduction, 8>},
    {"onnx::HardSigmoid", kOnnxElementwise, "(x): 4*E", OnnxPerOutput<kOnnxElementwise, 4>},
    {"onnx::HardSwish", kOnnxElementwise, "(x): 5*E", OnnxPerOutput<kOnnxElementwise, 5>},
    {"onnx::Hardmax", kOnnxReduction, "(x): 2*E", OnnxPerOutput<kOnnxReduction, 2>},
    {"onnx::InstanceNormalization", kOnnxReduction, "(x, scale, offset): 8*E", OnnxPerOutput<kOnnxReduction, 8>},
    {"onnx::IsInf", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::IsNaN", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::LRN", kOnnxReduction, "(x): (size + 4)*E; square, size - 1 sums, factor, bias, power, division", OnnxLrn},
    {"onnx::LSTM", OpClass::kMatrixProduct, "(x, w, r, ..): 2 * time * batch * elements of w and r", OnnxRecurrent},
    {"onnx::LayerNormalization", kOnnxReduction, "(x, scale): 8*E", OnnxPerOutput<kOnnxReduction, 8>},
    {"onnx::LeakyRelu", kOnnxElementwise, "(x): 2*E; product, selection", OnnxPerOutput<kOnnxElementwise, 2>},
    {"onnx::Less", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::LessOrEqual", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::LinearAttention", OpClass::kAttention,
     "(q, k, v, ..): 2 to 7 for each number of the states of all positions, by update_rule", OnnxLinearAttention},
    {"onnx::Log", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::LogSoftmax", kOnnxReduction, "(x): 6*E; as softmax, with a log", OnnxPerOutput<kOnnxReduction, 6>},
    {"onnx::LpNormalization", kOnnxReduction, "(x): 3*E", OnnxPerOutput<kOnnxReduction, 3>},
    {"onnx::LpPool", kOnnxReduction, "(x): 2*window*E", OnnxPool<2>},
    {"onnx::MatMul", OpClass::kMatrixProduct, "(a, b), broadcast: 2 * E * last dimension of a", OnnxMatMul},
    {"onnx::MatMulInteger", OpClass::kMatrixProduct, "(a, b, ..), broadcast: 2 * E * last dimension of a", OnnxMatMul},
    {"onnx::Max", kOnnxElementwise, "(n tensors): (n - 1)*E", OnnxVariadic},
    {"onnx::MaxPool", kOnnxReduction, "(x): window*E", OnnxPool<1>},
    {"onnx::Mean", kOnnxElementwise, "(n tensors): n*E", OnnxMean},
    {"onnx::MeanVarianceNormalization", kOnnxReduction, "(x): 6*E", OnnxPerOutput<kOnnxReduction, 6>},
    {"onnx::Min", kOnnxElementwise, "(n tensors): (n - 1)*E", OnnxVariadic},
    {"onnx::Mish", kOnnxElementwise, "(x): 5*E", OnnxPerOutput<kOnnxElementwise, 5>},
    {"onnx::Mod", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Mul", kOnnxElementwise, "(a, b), broadcast: E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Neg", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::NegativeLogLikelihoodLoss", kOnnxReduction, "(x, targets, ..): 2 * elements of targets", OnnxLogLikelihood},
    {"onnx::Not", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::OneHot", kOnnxCopy, "(indices, ..): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Or", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::PRelu", kOnnxElementwise, "(x, slope): 2*E", OnnxPerOutput<kOnnxElementwise, 2>},
    {"onnx::Pad", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Pow", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::QLinearConv", OpClass::kConvolution, "(x, scale, zero, w, ..): 2 * E * elements of w / K, E for a bias",
     OnnxConv<3, 8>},
    {"onnx::QLinearMatMul", OpClass::kMatrixProduct, "(a, scale, zero, b, ..), broadcast: 2 * E * last dimension of a",
     OnnxMatMul},
    {"onnx::QuantizeLinear", kOnnxElementwise, "(x, scale, zero): 3*E", OnnxPerOutput<kOnnxElementwise, 3>},
    {"onnx::RMSNormalization", kOnnxReduction, "(x, scale): 4*E", OnnxPerOutput<kOnnxReduction, 4>},
    {"onnx::RNN", OpClass::kMatrixProduct, "(x, w, r, ..): 2 * time * batch * elements of w and r", OnnxRecurrent},
    {"onnx::RandomNormalLike", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::RandomUniformLike", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Range", kOnnxCopy, "(start, limit, step): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Reciprocal", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::ReduceL1", kOnnxReduction, "(x): 2 * elements of x", OnnxPerInput<kOnnxReduction, 2>},
    {"onnx::ReduceL2", kOnnxReduction, "(x): 2 * elements of x", OnnxPerInput<kOnnxReduction, 2>},
    {"onnx::ReduceLogSum", kOnnxReduction, "(x): elements of x", OnnxPerInput<kOnnxReduction, 1>},
    {"onnx::ReduceLogSumExp", kOnnxReduction, "(x): 4 * elements of x", OnnxPerInput<kOnnxReduction, 4>},
    {"onnx::ReduceMax", kOnnxReduction, "(x): elements of x", OnnxPerInput<kOnnxReduction, 1>},
    {"onnx::ReduceMean", kOnnxReduction, "(x): elements of x", OnnxPerInput<kOnnxReduction, 1>},
    {"onnx::ReduceMin", kOnnxReduction, "(x): elements of x", OnnxPerInput<kOnnxReduction, 1>},
    {"onnx::ReduceProd", kOnnxReduction, "(x): elements of x", OnnxPerInput<kOnnxReduction, 1>},
    {"onnx::ReduceSum", kOnnxReduction, "(x): elements of x", OnnxPerInput<kOnnxReduction, 1>},
    {"onnx::ReduceSumSquare", kOnnxReduction, "(x): 2 * elements of x", OnnxPerInput<kOnnxReduction, 2>},
    {"onnx::Resize", kOnnxCopy, "(x): 0 flop, as for the nearest neighbour", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::ReverseSequence", kOnnxCopy, "(x, lengths): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::RotaryEmbedding", kOnnxElementwise, "(x, ..): 3*E; two products and a sum",
     OnnxPerOutput<kOnnxElementwise, 3>},
    {"onnx::Round", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::ScatterElements", OpClass::kGather, "(x, indices, updates): 0 flop", OnnxPerOutput<OpClass::kGather, 0>},
    {"onnx::ScatterND", OpClass::kGather, "(x, indices, updates): 0 flop", OnnxPerOutput<OpClass::kGather, 0>},
    {"onnx::Selu", kOnnxElementwise, "(x): 5*E", OnnxPerOutput<kOnnxElementwise, 5>},
    {"onnx::Shape", OpClass::kNone, "(x): 0; it is known without a kernel", OnnxNothing},
    {"onnx::Shrink", kOnnxElementwise, "(x): 3*E", OnnxPerOutput<kOnnxElementwise, 3>},
    {"onnx::Sign", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::SimplifiedLayerNormalization", kOnnxReduction, "(x, scale): 4*E", OnnxPerOutput<kOnnxReduction, 4>},
    {"onnx::Sin", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Sinh", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Size", OpClass::kNone, "(x): 0; it is known without a kernel", OnnxNothing},
    {"onnx::Slice", kOnnxCopy, "(x): 0 flop; reads only what it writes", OnnxSlice},
    {"onnx::Softmax", kOnnxReduction, "(x) along any axis: 5*E", OnnxPerOutput<kOnnxReduction, 5>},
    {"onnx::SoftmaxCrossEntropyLoss", kOnnxReduction, "(x, targets, ..): 6 * elements of x; as LogSoftmax",
     OnnxPerInput<kOnnxReduction, 6>},
    {"onnx::Softplus", kOnnxElementwise, "(x): 3*E; exp, sum, log", OnnxPerOutput<kOnnxElementwise, 3>},
    {"onnx::Softsign", kOnnxElementwise, "(x): 3*E", OnnxPerOutput<kOnnxElementwise, 3>},
    {"onnx::SpaceToDepth", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Split", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Sqrt", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Sub", kOnnxElementwise, "(a, b), broadcast: E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Sum", kOnnxElementwise, "(n tensors): (n - 1)*E", OnnxVariadic},
    {"onnx::SwiGLU", kOnnxElementwise, "(a, b): 6*E; sigmoid, two products", OnnxPerOutput<kOnnxElementwise, 6>},
    {"onnx::Swish", kOnnxElementwise, "(x): 5*E; sigmoid, product", OnnxPerOutput<kOnnxElementwise, 5>},
    {"onnx::Tan", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::TensorScatter", OpClass::kGather, "(cache, update, ..): 0 flop", OnnxPerOutput<OpClass::kGather, 0>},
    {"onnx::ThresholdedRelu", kOnnxElementwise, "(x): 2*E; comparison, selection", OnnxPerOutput<kOnnxElementwise, 2>},
    {"onnx::Tile", kOnnxCopy, "(x, repeats): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::TopK", kOnnxReduction, "(x, k): elements of x", OnnxPerInput<kOnnxReduction, 1>},
    {"onnx::Trilu", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Upsample", kOnnxCopy, "(x): 0 flop, as for the nearest neighbour", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Where", kOnnxElementwise, "(c, a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Xor", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
};

}  // namespace

OpWork EinsumWork(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const std::vector<std::string> terms = SplitEinsum(view.Text("equation")).inputs;
  std::map<EinsumLabel, double> sizes;
  for (std::size_t input = 0; input < terms.size(); ++input) {
    const ShapeView shape = view.in(input);
    const auto labels = EinsumLabels(terms[input], shape.size());
    view.Expect(labels.has_value(), "attr equation has a letter for each dimension");
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      double& size = sizes[(*labels)[dim]];
      size = std::max(size, static_cast<double>(shape[dim]));
    }
  }
  view.Expect(view.num_inputs() > 0, "it has an input");
  double products = static_cast<double>(view.num_inputs());
  for (const auto& [label, size] : sizes) products *= size;
  view.out(0);
  return MakeWork(OpClass::kMatrixProduct, products, view.AllBytes());
}

std::span<const OpKind> OnnxKinds() { return kOnnxKinds; }

}  // namespace emplace
