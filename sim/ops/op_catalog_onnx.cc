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

// So many FLOP for each element of the first output.
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

// A square, size - 1 sums, factor and bias, a power, a division.
OpWork OnnxLrn(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const auto size = static_cast<double>(view.Integer("size", 1));
  view.Expect(size >= 1, "attr size is at least 1");
  return MakeWork(kOnnxReduction, (size + 4) * Elements(view.out(0)), view.AllBytes());
}

// Filter [K, C / groups, ...] for any number of spatial dimensions; an output element sums the products of one row.
OpWork OnnxConv(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const ShapeView w = view.in(1);
  view.Expect(w.size() >= 3 && view.out(0).size() == w.size(), "filter and output have rank 3 or more");
  const double bias = view.num_inputs() > 2 ? Elements(view.out(0)) : 0;
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

// Alpha and beta are not counted.
OpWork OnnxGemm(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectRank(view.in(0), 2, "a");
  const double k = static_cast<double>(view.in(0)[view.Integer("transA", 0) != 0 ? 0 : 1]);
  const double bias = view.num_inputs() > 2 ? Elements(view.out(0)) : 0;
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

OpWork OnnxPool(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const std::vector<std::int64_t> sizes = view.Integers("kernel_shape");
  double window = 1;
  for (const std::int64_t size : sizes) window *= static_cast<double>(size);
  view.Expect(!sizes.empty() && window >= 1, "attr kernel_shape has sizes of at least 1");
  return MakeWork(kOnnxReduction, window * Elements(view.out(0)), view.AllBytes());
}

// For each combination of the letters a product of one number of each operand: n - 1 products and a sum.
OpWork OnnxEinsum(const Graph& graph, OpId op) {
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

OpWork OnnxGather(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  return MakeWork(OpClass::kGather, 0, view.in_bytes(1) + 2 * view.out_bytes(0));
}

OpWork OnnxSlice(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.in(0);
  return MakeWork(kOnnxCopy, 0, 2 * view.out_bytes(0));
}

// In the order of their names.
constexpr OpKind kOnnxKinds[] = {
    {"onnx::Abs", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Add", kOnnxElementwise, "(a, b), broadcast: E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::And", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::ArgMax", kOnnxReduction, "(x): elements of x", OnnxPerInput<kOnnxReduction, 1>},
    {"onnx::ArgMin", kOnnxReduction, "(x): elements of x", OnnxPerInput<kOnnxReduction, 1>},
    {"onnx::AveragePool", kOnnxReduction, "(x): window*E", OnnxPool},
    {"onnx::BatchNormalization", kOnnxElementwise, "(x, scale, offset, mean, variance) -> y: 2*E + 5*C", OnnxBatchNorm},
    {"onnx::Cast", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::CastLike", kOnnxCopy, "(x, type): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Ceil", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Celu", kOnnxElementwise, "(x): 4*E", OnnxPerOutput<kOnnxElementwise, 4>},
    {"onnx::Clip", kOnnxElementwise, "(x, min, max): 2*E", OnnxPerOutput<kOnnxElementwise, 2>},
    {"onnx::Concat", kOnnxCopy, "(tensors): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Conv", OpClass::kConvolution, "(x, w, b) of any rank, in groups: 2 * E * elements of w / K, E for b",
     OnnxConv},
    {"onnx::ConvTranspose", OpClass::kConvolution, "(x, w, b): 2 * elements of x * elements of w / C, E for b",
     OnnxConvTranspose},
    {"onnx::Cos", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::CumSum", kOnnxReduction, "(x): E", OnnxPerOutput<kOnnxReduction, 1>},
    {"onnx::DepthToSpace", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::DequantizeLinear", kOnnxElementwise, "(x, scale, zero): 2*E", OnnxPerOutput<kOnnxElementwise, 2>},
    {"onnx::Div", kOnnxElementwise, "(a, b), broadcast: E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Einsum", OpClass::kMatrixProduct, "(n tensors): n for each combination of the letters", OnnxEinsum},
    {"onnx::Elu", kOnnxElementwise, "(x): 4*E; exp, difference, product, selection",
     OnnxPerOutput<kOnnxElementwise, 4>},
    {"onnx::Equal", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Erf", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Exp", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Expand", kOnnxCopy, "(x, shape): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Floor", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::GRU", OpClass::kMatrixProduct, "(x, w, r, ..): 2 * time * batch * elements of w and r", OnnxRecurrent},
    {"onnx::Gather", OpClass::kGather, "(x, indices): 0 flop; reads what it writes", OnnxGather},
    {"onnx::GatherElements", OpClass::kGather, "(x, indices): 0 flop; reads what it writes", OnnxGather},
    {"onnx::GatherND", OpClass::kGather, "(x, indices): 0 flop; reads what it writes", OnnxGather},
    {"onnx::Gemm", OpClass::kMatrixProduct, "(a, b, c): 2*M*N*K, E for c", OnnxGemm},
    {"onnx::Greater", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::GreaterOrEqual", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::GroupNormalization", kOnnxReduction, "(x, scale, offset): 8*E", OnnxPerOutput<kOnnxReduction, 8>},
    {"onnx::HardSigmoid", kOnnxElementwise, "(x): 4*E", OnnxPerOutput<kOnnxElementwise, 4>},
    {"onnx::HardSwish", kOnnxElementwise, "(x): 5*E", OnnxPerOutput<kOnnxElementwise, 5>},
    {"onnx::InstanceNormalization", kOnnxReduction, "(x, scale, offset): 8*E", OnnxPerOutput<kOnnxReduction, 8>},
    {"onnx::IsNaN", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::LRN", kOnnxReduction, "(x): (size + 4)*E; square, size - 1 sums, factor, bias, power, division", OnnxLrn},
    {"onnx::LSTM", OpClass::kMatrixProduct, "(x, w, r, ..): 2 * time * batch * elements of w and r", OnnxRecurrent},
    {"onnx::LayerNormalization", kOnnxReduction, "(x, scale): 8*E", OnnxPerOutput<kOnnxReduction, 8>},
    {"onnx::LeakyRelu", kOnnxElementwise, "(x): 2*E; product, selection", OnnxPerOutput<kOnnxElementwise, 2>},
    {"onnx::Less", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::LessOrEqual", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Log", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::LogSoftmax", kOnnxReduction, "(x): 6*E; as softmax, with a log", OnnxPerOutput<kOnnxReduction, 6>},
    {"onnx::MatMul", OpClass::kMatrixProduct, "(a, b), broadcast: 2 * E * last dimension of a", OnnxMatMul},
    {"onnx::Max", kOnnxElementwise, "(n tensors): (n - 1)*E", OnnxVariadic},
    {"onnx::MaxPool", kOnnxReduction, "(x): window*E", OnnxPool},
    {"onnx::Min", kOnnxElementwise, "(n tensors): (n - 1)*E", OnnxVariadic},
    {"onnx::Mish", kOnnxElementwise, "(x): 5*E", OnnxPerOutput<kOnnxElementwise, 5>},
    {"onnx::Mod", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Mul", kOnnxElementwise, "(a, b), broadcast: E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Neg", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Not", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Or", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::PRelu", kOnnxElementwise, "(x, slope): 2*E", OnnxPerOutput<kOnnxElementwise, 2>},
    {"onnx::Pad", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Pow", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::QuantizeLinear", kOnnxElementwise, "(x, scale, zero): 3*E", OnnxPerOutput<kOnnxElementwise, 3>},
    {"onnx::RMSNormalization", kOnnxReduction, "(x, scale): 4*E", OnnxPerOutput<kOnnxReduction, 4>},
    {"onnx::RNN", OpClass::kMatrixProduct, "(x, w, r, ..): 2 * time * batch * elements of w and r", OnnxRecurrent},
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
    {"onnx::Round", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::ScatterElements", OpClass::kGather, "(x, indices, updates): 0 flop", OnnxPerOutput<OpClass::kGather, 0>},
    {"onnx::ScatterND", OpClass::kGather, "(x, indices, updates): 0 flop", OnnxPerOutput<OpClass::kGather, 0>},
    {"onnx::Selu", kOnnxElementwise, "(x): 5*E", OnnxPerOutput<kOnnxElementwise, 5>},
    {"onnx::Shape", OpClass::kNone, "(x): 0; it is known without a kernel", OnnxNothing},
    {"onnx::Sign", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Sin", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Size", OpClass::kNone, "(x): 0; it is known without a kernel", OnnxNothing},
    {"onnx::Slice", kOnnxCopy, "(x): 0 flop; reads only what it writes", OnnxSlice},
    {"onnx::Softmax", kOnnxReduction, "(x) along any axis: 5*E", OnnxPerOutput<kOnnxReduction, 5>},
    {"onnx::Softplus", kOnnxElementwise, "(x): 3*E; exp, sum, log", OnnxPerOutput<kOnnxElementwise, 3>},
    {"onnx::Softsign", kOnnxElementwise, "(x): 3*E", OnnxPerOutput<kOnnxElementwise, 3>},
    {"onnx::SpaceToDepth", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Split", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Sqrt", kOnnxElementwise, "(x): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Sub", kOnnxElementwise, "(a, b), broadcast: E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Sum", kOnnxElementwise, "(n tensors): (n - 1)*E", OnnxVariadic},
    {"onnx::Swish", kOnnxElementwise, "(x): 5*E; sigmoid, product", OnnxPerOutput<kOnnxElementwise, 5>},
    {"onnx::Tile", kOnnxCopy, "(x, repeats): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::TopK", kOnnxReduction, "(x, k): elements of x", OnnxPerInput<kOnnxReduction, 1>},
    {"onnx::Trilu", kOnnxCopy, "(x): 0 flop", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Upsample", kOnnxCopy, "(x): 0 flop, as for the nearest neighbour", OnnxPerOutput<kOnnxCopy, 0>},
    {"onnx::Where", kOnnxElementwise, "(c, a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
    {"onnx::Xor", kOnnxElementwise, "(a, b): E", OnnxPerOutput<kOnnxElementwise, 1>},
};

}  // namespace

std::span<const OpKind> OnnxKinds() { return kOnnxKinds; }

}  // namespace emplace
