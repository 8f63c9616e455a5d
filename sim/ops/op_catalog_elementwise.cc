#include <algorithm>

#include "sim/ops/op_catalog_parts.h"
#include "sim/ops/op_view.h"

namespace emplace {
namespace {

// All inputs and the output have one shape.
template <int kNumInputs, int kFlopPerElement>
OpWork SameShape(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(kNumInputs, 1);
  for (std::size_t i = 0; i < kNumInputs; ++i) view.ExpectSame(view.in(i), view.out(0), "inputs and output");
  return MakeWork(OpClass::kElementwise, kFlopPerElement * Elements(view.out(0)), view.AllBytes());
}

// Dimensions are aligned at the end; each is the output's, 1 or missing.
void ExpectBroadcasts(const OpView& view, ShapeView from, ShapeView to) {
  bool fits = from.size() <= to.size();
  for (std::size_t i = 1; fits && i <= from.size(); ++i) {
    fits = from[from.size() - i] == to[to.size() - i] || from[from.size() - i] == 1;
  }
  view.Expect(fits, "each input's dimension, aligned at the end, is the output's or 1");
}

template <int kNumInputs, int kFlopPerElement>
OpWork Broadcasting(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(kNumInputs, 1);
  for (std::size_t i = 0; i < kNumInputs; ++i) ExpectBroadcasts(view, view.in(i), view.out(0));
  return MakeWork(OpClass::kElementwise, kFlopPerElement * Elements(view.out(0)), view.AllBytes());
}

OpWork BiasAdd(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 1);
  view.ExpectSame(view.in(0), view.out(0), "input and output");
  view.ExpectRank(view.in(1), 1, "the bias");
  const ShapeView x = view.in(0);
  view.Expect(std::find(x.begin(), x.end(), view.in(1)[0]) != x.end(), "the bias is as long as one dimension");
  return MakeWork(OpClass::kElementwise, Elements(x), view.AllBytes());
}

OpWork AddN(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 1, /*at_least=*/true);
  for (std::size_t i = 0; i < view.num_inputs(); ++i) view.ExpectSame(view.in(i), view.out(0), "inputs and output");
  return MakeWork(OpClass::kElementwise, static_cast<double>(view.num_inputs() - 1) * Elements(view.out(0)),
                  view.AllBytes());
}

// The factor is attr `factor`, or a second input with one element.
OpWork Scale(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(view.num_inputs() > 1 ? 2 : 1, 1);
  view.ExpectSame(view.in(0), view.out(0), "input and output");
  if (view.num_inputs() == 2) view.Expect(view.in(1).empty(), "the factor is a scalar");
  return MakeWork(OpClass::kElementwise, Elements(view.out(0)), view.AllBytes());
}

OpWork Dropout(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 2);
  view.ExpectSame(view.in(0), view.out(0), "input and output");
  view.ExpectSame(view.in(0), view.out(1), "input and mask");
  return MakeWork(OpClass::kElementwise, 3 * Elements(view.out(0)), view.AllBytes());
}

constexpr OpClass kElementwiseClass = OpClass::kElementwise;
constexpr OpKind kElementwiseKinds[] = {
    {"relu", kElementwiseClass, "(x) -> max(x, 0): E", SameShape<1, 1>},
    {"relu_grad", kElementwiseClass, "(dy, y) -> dy where y > 0: E", SameShape<2, 1>},
    {"sigmoid", kElementwiseClass, "(x) -> 1 / (1 + exp(-x)): 4*E", SameShape<1, 4>},
    {"sigmoid_grad", kElementwiseClass, "(dy, y) -> dy * y * (1 - y): 3*E", SameShape<2, 3>},
    {"tanh", kElementwiseClass, "(x) -> tanh(x): E", SameShape<1, 1>},
    {"tanh_grad", kElementwiseClass, "(dy, y) -> dy * (1 - y*y): 3*E", SameShape<2, 3>},
    {"gelu", kElementwiseClass,
     "(x) -> 0.5*x*(1 + tanh(c*(x + 0.044715*x^3))): 9*E; x^3 2, its factor 1, + x 1, * c 1, tanh 1, + 1 1, * x 1, "
     "* 0.5 1",
     SameShape<1, 9>},
    {"gelu_grad", kElementwiseClass,
     "(dy, x) -> dy * gelu'(x): 17*E; u = c*(x + 0.044715*x^3) 5, t = tanh(u) 1, 0.5*(1 + t) 2, 1 - t*t 2, "
     "u' = c + c'*x*x with x*x known 2, 0.5*x*(1 - t*t)*u' 3, the sum 1, * dy 1",
     SameShape<2, 17>},
    {"add", kElementwiseClass, "(a, b) -> a + b, broadcast: E", Broadcasting<2, 1>},
    {"sub", kElementwiseClass, "(a, b) -> a - b, broadcast: E", Broadcasting<2, 1>},
    {"sub_grad", kElementwiseClass, "(dy) -> -dy, for b of a - b: E", SameShape<1, 1>},
    {"mul", kElementwiseClass, "(a, b) -> a * b, broadcast: E", Broadcasting<2, 1>},
    {"mul_grad", kElementwiseClass, "(dy, other factor) -> dy * other, broadcast: E", Broadcasting<2, 1>},
    {"div", kElementwiseClass, "(a, b) -> a / b, broadcast: E", Broadcasting<2, 1>},
    {"div_grad_a", kElementwiseClass, "(dy, b) -> dy / b, broadcast: E", Broadcasting<2, 1>},
    {"div_grad_b", kElementwiseClass, "(dy, y, b) -> -dy * y / b, broadcast: 3*E", Broadcasting<3, 3>},
    {"bias_add", kElementwiseClass, "(x, b[C]) -> x + b along the channels: E", BiasAdd},
    {"add_n", kElementwiseClass, "(n tensors of one shape) -> their sum: (n - 1)*E", AddN},
    {"scale", kElementwiseClass, "(x) with attr factor, or (x, scalar) -> x * factor: E", Scale},
    {"scale_grad", kElementwiseClass, "(dy) with attr factor -> dy * factor: E", SameShape<1, 1>},
    {"dropout", kElementwiseClass, "(x) -> y, mask: 3*E; compare a random number, scale, select", Dropout},
    {"dropout_grad", kElementwiseClass, "(dy, mask) -> dx: 2*E; scale, select", SameShape<2, 2>},
};

}  // namespace

std::span<const OpKind> ElementwiseKinds() { return kElementwiseKinds; }

}  // namespace emplace
