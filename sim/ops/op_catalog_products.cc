#include "sim/ops/op_catalog_parts.h"
#include "sim/ops/op_view.h"

namespace emplace {
namespace {

// Checks that a window of filter `w` sliding over `x` gives `y`.
void ExpectSliding(const OpView& view, ShapeView x, ShapeView w, ShapeView y) {
  view.ExpectRank(x, 4, "the image");
  view.ExpectRank(w, 4, "the filter");
  view.ExpectRank(y, 4, "the convolved image");
  view.Expect(x[0] == y[0], "the batch stays");
  for (const std::size_t axis : {0U, 1U}) {
    view.Expect(view.SlidingSize(x[2 + axis], w[2 + axis], axis) == static_cast<double>(y[2 + axis]),
                "stride, padding and dilation give the output's height and width");
  }
}

// Forward and both gradients of a convolution do one multiply-add for each output element and filter tap: the gradient
// of an image spreads each output gradient over its window, the gradient of the filter correlates the two images.
OpWork Convolution(const OpView& view, ShapeView x, ShapeView w, ShapeView y) {
  ExpectSliding(view, x, w, y);
  view.Expect(w[1] == x[1] && w[0] == y[1], "filter [K,C,R,S], image [N,C,H,W], output [N,K,P,Q]");
  return MakeWork(OpClass::kConvolution, 2 * Elements(y) * Elements(w.subspan(1)), view.AllBytes());
}

OpWork Depthwise(const OpView& view, ShapeView x, ShapeView w, ShapeView y) {
  ExpectSliding(view, x, w, y);
  view.Expect(w[0] == x[1] && Elements(w.first(2)) == static_cast<double>(y[1]),
              "filter [C,M,R,S], image [N,C,H,W], output [N,C*M,P,Q]");
  return MakeWork(OpClass::kConvolution, 2 * Elements(y) * Elements(w.subspan(2)), view.AllBytes());
}

using ConvolutionRule = OpWork (*)(const OpView&, ShapeView, ShapeView, ShapeView);

template <ConvolutionRule kRule>
OpWork ConvolutionForward(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 1);
  return kRule(view, view.in(0), view.in(1), view.out(0));
}

template <ConvolutionRule kRule>
OpWork ConvolutionGradInput(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 1);
  return kRule(view, view.out(0), view.in(0), view.in(1));
}

template <ConvolutionRule kRule>
OpWork ConvolutionGradFilter(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 1);
  return kRule(view, view.in(0), view.out(0), view.in(1));
}

// a[..,M,K] times b[..,K,N] is y[..,M,N]: each of the M*N*K products is one multiply-add. da = dy b^T and db = a^T dy
// need the same M*N*K.
OpWork Product(const OpView& view, ShapeView a, ShapeView b, ShapeView y, bool batched) {
  const bool transpose_a = view.Flag("transpose_a", false);
  const bool transpose_b = view.Flag("transpose_b", false);
  view.Expect(a.size() >= 2 && b.size() >= 2 && y.size() >= 2, "operands and product have rank 2 or more");
  view.Expect(batched ? b.size() == a.size() : b.size() == 2, "matmul's b has rank 2, batch_matmul's the rank of a");
  view.Expect(batched || !transpose_a || a.size() == 2, "only an a of rank 2 can be transposed");
  view.ExpectSame(a.first(a.size() - 2), y.first(y.size() - 2), "leading dimensions of a and of the product");
  if (batched) view.ExpectSame(a.first(a.size() - 2), b.first(b.size() - 2), "leading dimensions of a and b");
  const auto last = [](ShapeView shape, bool other) { return shape[shape.size() - (other ? 2 : 1)]; };
  const std::int64_t k = last(a, transpose_a);
  view.Expect(
      last(b, !transpose_b) == k && last(a, !transpose_a) == last(y, true) && last(b, transpose_b) == last(y, false),
      "a [..,M,K] times b [..,K,N] is [..,M,N]");
  return MakeWork(OpClass::kMatrixProduct, 2 * Elements(y) * static_cast<double>(k), view.AllBytes());
}

template <bool kBatched>
OpWork MatMul(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 1);
  return Product(view, view.in(0), view.in(1), view.out(0), kBatched);
}

template <bool kBatched>
OpWork MatMulGradA(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 1);
  return Product(view, view.out(0), view.in(1), view.in(0), kBatched);
}

template <bool kBatched>
OpWork MatMulGradB(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 1);
  return Product(view, view.in(0), view.out(0), view.in(1), kBatched);
}

constexpr OpKind kProductKinds[] = {
    {"conv2d", OpClass::kConvolution,
     "(x, w) -> y: 2*N*K*P*Q * C*R*S; each output element sums C*R*S products, border taps included",
     ConvolutionForward<Convolution>},
    {"conv2d_grad_input", OpClass::kConvolution,
     "(w, dy) -> dx: 2*N*K*P*Q * C*R*S; each output gradient is spread over C*R*S inputs",
     ConvolutionGradInput<Convolution>},
    {"conv2d_grad_filter", OpClass::kConvolution,
     "(x, dy) -> dw: 2*N*K*P*Q * C*R*S; each output gradient is multiplied by the C*R*S inputs it came from",
     ConvolutionGradFilter<Convolution>},
    {"depthwise_conv2d", OpClass::kConvolution,
     "(x, w[C,M,R,S]) -> y: 2*N*C*M*P*Q * R*S; each output element uses one channel", ConvolutionForward<Depthwise>},
    {"depthwise_conv2d_grad_input", OpClass::kConvolution, "(w, dy) -> dx: 2*N*C*M*P*Q * R*S, as the forward op",
     ConvolutionGradInput<Depthwise>},
    {"depthwise_conv2d_grad_filter", OpClass::kConvolution, "(x, dy) -> dw: 2*N*C*M*P*Q * R*S, as the forward op",
     ConvolutionGradFilter<Depthwise>},
    {"matmul", OpClass::kMatrixProduct, "(a[..,M,K], b[K,N]) -> [..,M,N]: 2*M*N*K for all rows M of a", MatMul<false>},
    {"matmul_grad_a", OpClass::kMatrixProduct, "(dy, b) -> da = dy b^T: 2*M*N*K, N products for each element of a",
     MatMulGradA<false>},
    {"matmul_grad_b", OpClass::kMatrixProduct, "(a, dy) -> db = a^T dy: 2*M*N*K, M products for each element of b",
     MatMulGradB<false>},
    {"batch_matmul", OpClass::kMatrixProduct, "(a[B,M,K], b[B,K,N]) -> [B,M,N]: 2*B*M*N*K", MatMul<true>},
    {"batch_matmul_grad_a", OpClass::kMatrixProduct, "(dy, b) -> da: 2*B*M*N*K", MatMulGradA<true>},
    {"batch_matmul_grad_b", OpClass::kMatrixProduct, "(a, dy) -> db: 2*B*M*N*K", MatMulGradB<true>},
};

}  // namespace

std::span<const OpKind> ProductKinds() { return kProductKinds; }

}  // namespace emplace
