#include <algorithm>

#include "sim/ops/op_catalog_parts.h"
#include "sim/ops/op_view.h"

namespace emplace {
namespace {

constexpr OpClass kReductionClass = OpClass::kReduction;

// Many elements summed (or compared) to few: one operation for each input element that is not the first of its output.
OpWork Reduce(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 1);
  const double in = Elements(view.in(0));
  const double out = Elements(view.out(0));
  view.Expect(out <= in, "a reduction's output is no larger than its input");
  return MakeWork(kReductionClass, in - out, view.AllBytes());
}

OpWork ReduceMean(const Graph& graph, OpId op) {
  OpWork work = Reduce(graph, op);
  work.flop += Elements(OpView(graph, op).out(0));  // the division
  return work;
}

template <int kFlopPerGradient>
OpWork ReduceGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 1);
  view.Expect(Elements(view.in(0)) <= Elements(view.out(0)), "the gradient grows to the input of the reduction");
  return MakeWork(OpClass::kElementwise, kFlopPerGradient * Elements(view.in(0)), view.AllBytes());
}

OpWork ReduceMaxGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(3, 1);
  view.ExpectSame(view.in(0), view.in(2), "dy and y");
  view.ExpectSame(view.in(1), view.out(0), "x and dx");
  return MakeWork(OpClass::kElementwise, 2 * Elements(view.out(0)), view.AllBytes());
}

OpWork BiasAddGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectRank(view.out(0), 1, "the bias gradient");
  const ShapeView dy = view.in(0);
  view.Expect(std::find(dy.begin(), dy.end(), view.out(0)[0]) != dy.end(), "the bias is as long as one dimension");
  return Reduce(graph, op);
}

OpWork L2Loss(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 1);
  view.ExpectRank(view.out(0), 0, "the loss");
  return MakeWork(kReductionClass, 2 * Elements(view.in(0)), view.AllBytes());
}

OpWork L2LossGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 1);
  view.ExpectRank(view.in(0), 0, "the gradient of the loss");
  view.ExpectSame(view.in(1), view.out(0), "x and dx");
  return MakeWork(OpClass::kElementwise, Elements(view.out(0)), view.AllBytes());
}

OpWork GlobalNormScale(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 1, /*at_least=*/true);
  for (std::size_t i = 0; i < view.num_inputs(); ++i) view.ExpectRank(view.in(i), 0, "each half squared norm");
  view.ExpectRank(view.out(0), 0, "the factor");
  return MakeWork(kReductionClass, static_cast<double>(view.num_inputs() - 1) + 4, view.AllBytes());
}

// A row is what lies along the last dimension; it is read once and kept on the chip.
OpWork Softmax(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 1);
  view.ExpectSame(view.in(0), view.out(0), "input and output");
  return MakeWork(kReductionClass, 5 * Elements(view.out(0)), view.AllBytes());
}

OpWork SoftmaxGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 1);
  view.ExpectSame(view.in(0), view.out(0), "dy and dx");
  view.ExpectSame(view.in(1), view.out(0), "y and dx");
  return MakeWork(kReductionClass, 4 * Elements(view.out(0)), view.AllBytes());
}

// Labels are class numbers [N] or distributions [N, C].
bool LabelsAreClasses(const OpView& view, ShapeView probabilities, std::size_t labels) {
  view.ExpectRank(probabilities, 2, "the class scores");
  if (view.input_is_integer(labels)) {
    view.ExpectSame(view.in(labels), probabilities.first(1), "labels are one class number a row");
    return true;
  }
  view.ExpectSame(view.in(labels), probabilities, "labels are one distribution a row");
  return false;
}

OpWork CrossEntropy(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 2);
  const ShapeView logits = view.in(0);
  const bool classes = LabelsAreClasses(view, logits, 1);
  view.ExpectSame(view.out(0), logits.first(1), "one loss a row");
  view.ExpectSame(view.out(1), logits, "probabilities and logits");
  const double losses = classes ? 2 * Elements(view.out(0)) : 3 * Elements(logits);
  return MakeWork(kReductionClass, 5 * Elements(logits) + losses, view.AllBytes());
}

OpWork CrossEntropyGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(3, 1);
  const ShapeView probabilities = view.in(1);
  const bool classes = LabelsAreClasses(view, probabilities, 2);
  view.ExpectSame(view.in(0), probabilities.first(1), "one loss gradient a row");
  view.ExpectSame(view.out(0), probabilities, "probabilities and logit gradients");
  const double differences = classes ? Elements(view.in(0)) : Elements(probabilities);
  return MakeWork(kReductionClass, Elements(probabilities) + differences, view.AllBytes());
}

OpWork BatchNorm(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const bool scaled = view.num_inputs() == 3;
  view.ExpectCounts(scaled ? 3 : 2, 3);
  const ShapeView x = view.in(0);
  view.Expect(x.size() >= 2, "the input is [N,C,..]");
  view.ExpectSame(x, view.out(0), "input and output");
  for (std::size_t i = 1; i < view.num_inputs(); ++i) view.ExpectSame(view.in(i), x.subspan(1, 1), "one a channel");
  for (const std::size_t i : {1U, 2U}) view.ExpectSame(view.out(i), x.subspan(1, 1), "one a channel");
  return MakeWork(kReductionClass, (scaled ? 8 : 7) * Elements(x) + 4 * Elements(view.out(1)),
                  view.AllBytes() + view.in_bytes(0));
}

OpWork BatchNormGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const bool scaled = view.num_inputs() == 5;
  view.ExpectCounts(scaled ? 5 : 4, scaled ? 3 : 2);
  const ShapeView dy = view.in(0);
  view.Expect(dy.size() >= 2, "the gradient is [N,C,..]");
  view.ExpectSame(dy, view.in(1), "dy and x");
  view.ExpectSame(dy, view.out(0), "dy and dx");
  for (std::size_t i = 2; i < view.num_inputs(); ++i) view.ExpectSame(view.in(i), dy.subspan(1, 1), "one a channel");
  for (std::size_t i = 1; i < view.num_outputs(); ++i) view.ExpectSame(view.out(i), dy.subspan(1, 1), "one a channel");
  return MakeWork(kReductionClass, 9 * Elements(dy) + (scaled ? 3 : 2) * Elements(view.in(2)),
                  view.AllBytes() + view.in_bytes(0) + view.in_bytes(1));
}

OpWork LayerNorm(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(3, 3);
  const ShapeView x = view.in(0);
  view.Expect(!x.empty(), "the input has a last dimension");
  view.ExpectSame(x, view.out(0), "input and output");
  for (const std::size_t i : {1U, 2U}) {
    view.ExpectSame(view.in(i), x.last(1), "scale and offset are as long as a row");
    view.ExpectSame(view.out(i), x.first(x.size() - 1), "mean and deviation are one a row");
  }
  return MakeWork(kReductionClass, 8 * Elements(x) + 4 * Elements(view.out(1)), view.AllBytes());
}

OpWork LayerNormGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(5, 3);
  const ShapeView dy = view.in(0);
  view.Expect(!dy.empty(), "the gradient has a last dimension");
  view.ExpectSame(dy, view.in(1), "dy and x");
  view.ExpectSame(dy, view.out(0), "dy and dx");
  for (const std::size_t i : {2U, 3U}) view.ExpectSame(view.in(i), dy.first(dy.size() - 1), "one a row");
  view.ExpectSame(view.in(4), dy.last(1), "the scale is as long as a row");
  for (const std::size_t i : {1U, 2U}) view.ExpectSame(view.out(i), dy.last(1), "as long as a row");
  return MakeWork(kReductionClass, 13 * Elements(dy) + 2 * Elements(view.in(2)), view.AllBytes());
}

// Taps of the pooling window, after checking that it leads from x to y.
double PoolTaps(const OpView& view, ShapeView x, ShapeView y) {
  view.ExpectRank(x, 4, "the image");
  view.ExpectRank(y, 4, "the pooled image");
  view.Expect(x[0] == y[0] && x[1] == y[1], "batch and channels stay");
  const auto window = view.Pair("window", {0, 0});
  for (const std::size_t axis : {0U, 1U}) {
    view.Expect(view.SlidingSize(x[2 + axis], window[axis], axis) == static_cast<double>(y[2 + axis]),
                "window, stride and padding give the output's height and width");
  }
  return static_cast<double>(window[0]) * static_cast<double>(window[1]);
}

OpWork MaxPool(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 1);
  return MakeWork(kReductionClass, (PoolTaps(view, view.in(0), view.out(0)) - 1) * Elements(view.out(0)),
                  view.AllBytes());
}

OpWork MaxPoolGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(3, 1);
  view.ExpectSame(view.in(0), view.in(2), "dy and y");
  view.ExpectSame(view.in(1), view.out(0), "x and dx");
  return MakeWork(kReductionClass, PoolTaps(view, view.in(1), view.in(0)) * Elements(view.in(0)), view.AllBytes());
}

OpWork AvgPool(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 1);
  return MakeWork(kReductionClass, PoolTaps(view, view.in(0), view.out(0)) * Elements(view.out(0)), view.AllBytes());
}

OpWork AvgPoolGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 1);
  return MakeWork(kReductionClass, (PoolTaps(view, view.out(0), view.in(0)) + 1) * Elements(view.in(0)),
                  view.AllBytes());
}

constexpr OpKind kReductionKinds[] = {
    {"reduce_sum", kReductionClass, "(x) -> sums: elements of x - E", Reduce},
    {"reduce_sum_grad", OpClass::kElementwise, "(dy) -> dx: 0; copies dy along what was summed", ReduceGrad<0>},
    {"reduce_mean", kReductionClass, "(x) -> means: elements of x; sums and one division each", ReduceMean},
    {"reduce_mean_grad", OpClass::kElementwise, "(dy) -> dx: elements of dy; divides, then copies", ReduceGrad<1>},
    {"reduce_max", kReductionClass, "(x) -> largest: elements of x - E comparisons", Reduce},
    {"reduce_max_grad", OpClass::kElementwise, "(dy, x, y) -> dx: 2*E; compare with the largest, select",
     ReduceMaxGrad},
    {"broadcast_grad", kReductionClass, "(dy) -> dx: elements of dy - E; sums over what was broadcast", Reduce},
    {"bias_add_grad", kReductionClass, "(dy) -> db[C]: elements of dy - C; sums over all but the channels",
     BiasAddGrad},
    {"l2_loss", kReductionClass, "(x) -> sum(x*x) / 2: 2 * elements of x; squares, their sum, one halving", L2Loss},
    {"l2_loss_grad", OpClass::kElementwise, "(dloss, x) -> dloss * x: E", L2LossGrad},
    {"global_norm_scale", kReductionClass,
     "(n half squared norms) -> min(1, threshold / norm): n - 1 sums, doubling, root, division, comparison",
     GlobalNormScale},
    {"softmax", kReductionClass, "(x) -> y along the last dimension: 5*E; maximum, difference, exp, sum, division",
     Softmax},
    {"softmax_grad", kReductionClass, "(dy, y) -> y * (dy - sum(dy * y)): 4*E; product, sum, difference, product",
     SoftmaxGrad},
    {"softmax_cross_entropy", kReductionClass,
     "(logits[N,C], labels) -> loss[N], probabilities: softmax 5*N*C, and log and sign of one a row 2*N, or for "
     "labels that are distributions log, product and sum 3*N*C",
     CrossEntropy},
    {"softmax_cross_entropy_grad", kReductionClass,
     "(dloss[N], probabilities[N,C], labels) -> dlogits = (probabilities - labels) * dloss: N*C products, and N "
     "differences, or N*C for labels that are distributions",
     CrossEntropyGrad},
    {"batch_norm", kReductionClass,
     "(x, [scale,] offset) -> y, mean[C], variance[C]: 8*E + 4*C; mean 1, variance 3 (difference, square, sum), "
     "normalise 2, scale 1 (left out without one), offset 1; each channel 2 divisions, epsilon, root. x is read "
     "twice: a channel does not fit on the chip",
     BatchNorm},
    {"batch_norm_grad", kReductionClass,
     "(dy, x, mean, variance[, scale]) -> dx[, dscale], doffset: 9*E + 3*C; normalised x 2, sum of dy 1, sum of dy * "
     "normalised x 2, dx 4; each channel 2 divisions and a factor (left out without scale). dy and x are read twice",
     BatchNormGrad},
    {"layer_norm", kReductionClass,
     "(x, scale, offset) -> y, mean, deviation: 8*E + 4 a row; as batch_norm, along the last dimension. A row is read "
     "once",
     LayerNorm},
    {"layer_norm_grad", kReductionClass,
     "(dy, x, mean, deviation, scale) -> dx, dscale, doffset: 13*E + 2 a row; normalised x 2, dscale 2, doffset 1, "
     "g = dy * scale 1, sums of g and of g * normalised x 3, dx 4; each row 2 divisions",
     LayerNormGrad},
    {"max_pool", kReductionClass, "(x) -> y: (window - 1)*E comparisons, border windows counted whole", MaxPool},
    {"max_pool_grad", kReductionClass,
     "(dy, x, y) -> dx: window * elements of dy; finds each maximum again, adds dy there", MaxPoolGrad},
    {"avg_pool", kReductionClass, "(x) -> y: window*E; window - 1 sums and a division", AvgPool},
    {"avg_pool_grad", kReductionClass, "(dy) -> dx: (window + 1) * elements of dy; one division, added to each tap",
     AvgPoolGrad},
};

}  // namespace

std::span<const OpKind> ReductionKinds() { return kReductionKinds; }

}  // namespace emplace
