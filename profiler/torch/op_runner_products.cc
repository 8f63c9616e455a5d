#include "profiler/torch/op_runner_parts.h"

namespace emplace::profiler {
namespace {

// A convolution as ATen sees it, from the shapes of image, filter and result.
struct Convolution {
  Sliding sliding;
  Dims image;
  Dims filter;        // the recipe's
  Dims atens_filter;  // [K, C / groups, R, S]
  std::int64_t groups = 1;

  at::Tensor Forward(const at::Tensor& x, const at::Tensor& w) const {
    return at::convolution(sliding.Padded(x, 0), w.reshape(atens_filter), {}, sliding.stride, sliding.padding(),
                           sliding.dilation, /*transposed=*/false, {0, 0}, groups)
        .contiguous();
  }
  std::tuple<at::Tensor, at::Tensor, at::Tensor> Backward(const at::Tensor& dy, const at::Tensor& x,
                                                          const at::Tensor& w, bool of_image) const {
    return at::convolution_backward(dy, x, w, {}, sliding.stride, sliding.padding(), sliding.dilation,
                                    /*transposed=*/false, {0, 0}, groups, {of_image, !of_image, false});
  }
  // The other operand counts only by its shape.
  at::Tensor GradInput(const at::Tensor& w, const at::Tensor& dy) const {
    const at::Tensor x = Placeholder(sliding.PaddedShape(image), dy);
    return sliding.Cut(std::get<0>(Backward(dy, x, w.reshape(atens_filter), true)), image);
  }
  at::Tensor GradFilter(const at::Tensor& x, const at::Tensor& dy) const {
    const at::Tensor w = Placeholder(atens_filter, dy);
    return std::get<1>(Backward(dy, sliding.Padded(x, 0), w, false)).reshape(filter);
  }
};

template <bool kDepthwise>
Convolution ConvolutionOf(const RecipeView& recipe, const Dims& x, const Dims& w, const Dims& y) {
  recipe.Expect(x.size() == 4 && w.size() == 4 && y.size() == 4, "images and filters have rank 4");
  if (kDepthwise) {
    recipe.Expect(w[0] == x[1] && w[0] * w[1] == y[1], "filter [C,M,R,S], image [N,C,H,W], output [N,C*M,P,Q]");
  } else {
    recipe.Expect(w[1] == x[1] && w[0] == y[1], "filter [K,C,R,S], image [N,C,H,W], output [N,K,P,Q]");
  }
  recipe.Expect(x[0] == y[0], "the batch stays");
  return {.sliding = SlidingOf(recipe, x, {w[2], w[3]}, y, /*pooling=*/false),
          .image = x,
          .filter = w,
          .atens_filter = kDepthwise ? Dims{w[0] * w[1], 1, w[2], w[3]} : w,
          .groups = kDepthwise ? w[0] : 1};
}

template <bool kDepthwise>
OpFunction Forward(const RecipeView& recipe) {
  const auto convolution = ConvolutionOf<kDepthwise>(recipe, recipe.in(0), recipe.in(1), recipe.out(0));
  return [convolution](TensorSpan in, auto* out) { out->push_back(convolution.Forward(in[0], in[1])); };
}

template <bool kDepthwise>
OpFunction GradInput(const RecipeView& recipe) {
  const auto convolution = ConvolutionOf<kDepthwise>(recipe, recipe.out(0), recipe.in(0), recipe.in(1));
  return [convolution](TensorSpan in, auto* out) { out->push_back(convolution.GradInput(in[0], in[1])); };
}

template <bool kDepthwise>
OpFunction GradFilter(const RecipeView& recipe) {
  const auto convolution = ConvolutionOf<kDepthwise>(recipe, recipe.in(0), recipe.out(0), recipe.in(1));
  return [convolution](TensorSpan in, auto* out) { out->push_back(convolution.GradFilter(in[0], in[1])); };
}

// y = a b, each transposed first if so wished: matrices, or as many of each as the leading dimensions have.
struct Product {
  bool transpose_a = false;
  bool transpose_b = false;
  bool batched = false;

  // The last two dimensions stay; those in front become one, or if not batched, rows.
  at::Tensor Matrices(const at::Tensor& x) const {
    const std::int64_t columns = x.size(-1);
    if (batched) {
      std::int64_t count = 1;
      for (std::int64_t i = 0; i + 2 < x.dim(); ++i) count *= x.size(i);
      return x.reshape({count, x.size(-2), columns});
    }
    std::int64_t rows = 1;
    for (std::int64_t i = 0; i + 1 < x.dim(); ++i) rows *= x.size(i);
    return x.reshape({rows, columns});
  }
  static at::Tensor Turned(const at::Tensor& x, bool turn) { return turn ? x.transpose(-1, -2) : x; }
  at::Tensor Times(const at::Tensor& a, const at::Tensor& b) const { return batched ? at::bmm(a, b) : at::mm(a, b); }

  at::Tensor Forward(const at::Tensor& a, const at::Tensor& b) const {
    return Times(Turned(Matrices(a), transpose_a), Turned(Matrices(b), transpose_b));
  }
  // With A = a or its transpose, and B: dA = dy B^T, and da is dA or its transpose.
  at::Tensor GradA(const at::Tensor& dy_given, const at::Tensor& b_given) const {
    const at::Tensor dy = Matrices(dy_given);
    const at::Tensor b = Turned(Matrices(b_given), transpose_b);
    return transpose_a ? Times(b, Turned(dy, true)) : Times(dy, Turned(b, true));
  }
  // dB = A^T dy, and db is dB or its transpose.
  at::Tensor GradB(const at::Tensor& a_given, const at::Tensor& dy_given) const {
    const at::Tensor dy = Matrices(dy_given);
    const at::Tensor a = Turned(Matrices(a_given), transpose_a);
    return transpose_b ? Times(Turned(dy, true), a) : Times(Turned(a, true), dy);
  }
};

Product ProductOf(const RecipeView& recipe, const Dims& a, const Dims& b, const Dims& y, bool batched) {
  const Product product = {
      .transpose_a = recipe.Flag("transpose_a"), .transpose_b = recipe.Flag("transpose_b"), .batched = batched};
  recipe.Expect(a.size() >= 2 && y.size() == a.size(), "operands and product have rank 2 or more");
  recipe.Expect(b.size() == (batched ? a.size() : 2), "matmul's b has rank 2, batch_matmul's the rank of a");
  recipe.Expect(batched || !product.transpose_a || a.size() == 2, "only an a of rank 2 can be transposed");
  const auto leading = [](const Dims& shape) { return Dims(shape.begin(), shape.end() - 2); };
  recipe.ExpectSame(leading(a), leading(y), "leading dimensions of a are those of the product");
  recipe.Expect(!batched || leading(a) == leading(b), "leading dimensions of a are those of b");
  const auto last = [](const Dims& shape, bool other) { return shape[shape.size() - (other ? 2 : 1)]; };
  recipe.Expect(last(b, !product.transpose_b) == last(a, product.transpose_a) &&
                    last(a, !product.transpose_a) == last(y, true) && last(b, product.transpose_b) == last(y, false),
                "a [..,M,K] times b [..,K,N] is [..,M,N]");
  return product;
}

template <bool kBatched>
OpFunction MatMul(const RecipeView& recipe) {
  const Product product = ProductOf(recipe, recipe.in(0), recipe.in(1), recipe.out(0), kBatched);
  return [product, shape = recipe.out(0)](TensorSpan in, auto* out) {
    out->push_back(product.Forward(in[0], in[1]).view(shape));
  };
}

template <bool kBatched>
OpFunction MatMulGradA(const RecipeView& recipe) {
  const Product product = ProductOf(recipe, recipe.out(0), recipe.in(1), recipe.in(0), kBatched);
  return [product, shape = recipe.out(0)](TensorSpan in, auto* out) {
    out->push_back(product.GradA(in[0], in[1]).view(shape));
  };
}

template <bool kBatched>
OpFunction MatMulGradB(const RecipeView& recipe) {
  const Product product = ProductOf(recipe, recipe.in(0), recipe.out(0), recipe.in(1), kBatched);
  return [product, shape = recipe.out(0)](TensorSpan in, auto* out) {
    out->push_back(product.GradB(in[0], in[1]).view(shape));
  };
}

constexpr TorchOpKind kTorchProductKinds[] = {
    {"conv2d", {2, 2}, {1, 1}, Forward<false>},
    {"conv2d_grad_input", {2, 2}, {1, 1}, GradInput<false>},
    {"conv2d_grad_filter", {2, 2}, {1, 1}, GradFilter<false>},
    {"depthwise_conv2d", {2, 2}, {1, 1}, Forward<true>},
    {"depthwise_conv2d_grad_input", {2, 2}, {1, 1}, GradInput<true>},
    {"depthwise_conv2d_grad_filter", {2, 2}, {1, 1}, GradFilter<true>},
    {"matmul", {2, 2}, {1, 1}, MatMul<false>},
    {"matmul_grad_a", {2, 2}, {1, 1}, MatMulGradA<false>},
    {"matmul_grad_b", {2, 2}, {1, 1}, MatMulGradB<false>},
    {"batch_matmul", {2, 2}, {1, 1}, MatMul<true>},
    {"batch_matmul_grad_a", {2, 2}, {1, 1}, MatMulGradA<true>},
    {"batch_matmul_grad_b", {2, 2}, {1, 1}, MatMulGradB<true>},
};

}  // namespace

std::span<const TorchOpKind> ProductTorchOps() { return kTorchProductKinds; }

}  // namespace emplace::profiler
