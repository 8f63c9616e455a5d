#include <algorithm>

#include "profiler/torch/op_runner_parts.h"

namespace emplace::profiler {
namespace {

// Not in any attr of the networks; those of TensorFlow's layers.
constexpr double kBatchNormEpsilon = 1e-3;
constexpr double kLayerNormEpsilon = 1e-5;
constexpr double kClipNorm = 5;

// A reduction of `x` to `y` over attr `axes`, all of them if absent. The axes disappear or stay with size 1.
struct Reduction {
  Dims x;
  Dims axes;
  Dims kept;  // y's shape with the axes, of size 1
  bool keep = false;
  double count = 1;  // elements that become one
};

Reduction ReductionOf(const RecipeView& recipe, const Dims& x, const Dims& y) {
  Reduction reduction = {.x = x, .axes = {}, .kept = x};
  const auto rank = static_cast<std::int64_t>(x.size());
  const std::optional<Dims> given = recipe.Integers("axes");
  for (std::int64_t i = 0; given ? i < static_cast<std::int64_t>(given->size()) : i < rank; ++i) {
    const std::int64_t axis = given ? (*given)[static_cast<std::size_t>(i)] : i;
    recipe.Expect(axis >= -rank && axis < rank, "attr axes are dimensions of the input");
    reduction.axes.push_back(axis < 0 ? axis + rank : axis);
  }
  std::sort(reduction.axes.begin(), reduction.axes.end());
  recipe.Expect(std::adjacent_find(reduction.axes.begin(), reduction.axes.end()) == reduction.axes.end(),
                "attr axes are distinct");
  Dims without = x;
  for (auto axis = reduction.axes.rbegin(); axis != reduction.axes.rend(); ++axis) {
    reduction.count *= static_cast<double>(x[static_cast<std::size_t>(*axis)]);
    reduction.kept[static_cast<std::size_t>(*axis)] = 1;
    without.erase(without.begin() + *axis);
  }
  reduction.keep = y == reduction.kept;
  recipe.Expect(reduction.keep || y == without,
                "without its axes (or with size 1 there) the input has the output's shape");
  return reduction;
}

// kCall(x, reduction, dtype). ATen takes no axes for all axes; here nothing is reduced then.
template <auto kCall>
OpFunction Reduce(const RecipeView& recipe) {
  const Reduction reduction = ReductionOf(recipe, recipe.in(0), recipe.out(0));
  if (reduction.axes.empty()) return [](TensorSpan in, auto* out) { out->push_back(Copied(in[0])); };
  return [reduction, type = recipe.out_type(0)](TensorSpan in, auto* out) {
    out->push_back(kCall(in[0], reduction, type));
  };
}

at::Tensor Sum(const at::Tensor& x, const Reduction& over, c10::ScalarType type) {
  return at::sum(x, over.axes, over.keep, type);
}
at::Tensor Mean(const at::Tensor& x, const Reduction& over, c10::ScalarType type) {
  return at::mean(x, over.axes, over.keep, type);
}
at::Tensor Max(const at::Tensor& x, const Reduction& over, c10::ScalarType) {
  return at::amax(x, over.axes, over.keep);
}

// The small gradient, divided for a mean, is copied along what was reduced.
template <bool kMean>
OpFunction ReduceGrad(const RecipeView& recipe) {
  const Reduction over = ReductionOf(recipe, recipe.out(0), recipe.in(0));
  return [over](TensorSpan in, auto* out) {
    const at::Tensor dy = kMean ? at::div(in[0], over.count) : in[0];
    out->push_back(Copied(dy.reshape(over.kept).expand(over.x)));
  };
}

OpFunction ReduceMaxGrad(const RecipeView& recipe) {
  const Reduction over = ReductionOf(recipe, recipe.in(1), recipe.in(0));
  recipe.ExpectSame(recipe.in(0), recipe.in(2), "dy and y have one shape");
  recipe.ExpectSame(recipe.in(1), recipe.out(0), "x and dx have one shape");
  return [kept = over.kept](TensorSpan in, auto* out) {
    const at::Tensor largest = at::eq(in[1], in[2].reshape(kept));
    out->push_back(at::where(largest, in[0].reshape(kept), at::zeros({}, in[0].options())));
  };
}

OpFunction BroadcastGrad(const RecipeView& recipe) {
  const Dims& dy = recipe.in(0);
  const Dims& dx = recipe.out(0);
  recipe.Expect(dx.size() <= dy.size(), "the gradient had fewer dimensions before it was broadcast");
  const std::size_t extra = dy.size() - dx.size();
  Dims axes;
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const bool summed = i < extra || (dx[i - extra] == 1 && dy[i] != 1);
    if (summed) axes.push_back(static_cast<std::int64_t>(i));
    recipe.Expect(summed || dx[i - extra] == dy[i], "each dimension, aligned at the end, stays or was 1");
  }
  if (axes.empty()) return [](TensorSpan in, auto* out) { out->push_back(Copied(in[0])); };
  return [axes, dx](TensorSpan in, auto* out) { out->push_back(at::sum(in[0], axes, true).view(dx)); };
}

OpFunction L2Loss(const RecipeView& recipe) {
  recipe.Expect(recipe.out(0).empty(), "the loss is a scalar");
  return [type = recipe.out_type(0)](TensorSpan in, auto* out) {
    const at::Tensor x = in[0].reshape({-1});
    out->push_back(at::dot(x, x).to(type).mul_(0.5));
  };
}

OpFunction L2LossGrad(const RecipeView& recipe) {
  recipe.Expect(recipe.in(0).empty(), "the gradient of the loss is a scalar");
  recipe.ExpectSame(recipe.in(1), recipe.out(0), "x and dx have one shape");
  return [](TensorSpan in, auto* out) { out->push_back(at::mul(in[1], in[0])); };
}

// Attr `threshold`, kClipNorm if absent.
OpFunction GlobalNormScale(const RecipeView& recipe) {
  for (const TensorSpec& input : recipe.op().inputs)
    recipe.Expect(input.shape.empty(), "half squared norms are scalars");
  recipe.Expect(recipe.out(0).empty(), "the factor is a scalar");
  return [threshold = recipe.Number("threshold").value_or(kClipNorm)](TensorSpan in, auto* out) {
    const at::Tensor norm = at::sum(at::stack(at::TensorList(in.data(), in.size()))).mul_(2).sqrt_();
    out->push_back(at::reciprocal(norm).mul_(threshold).clamp_max_(1));
  };
}

OpFunction Softmax(const RecipeView& recipe) {
  recipe.ExpectSame(recipe.in(0), recipe.out(0), "input and output have one shape");
  return [](TensorSpan in, auto* out) { out->push_back(at::_softmax(in[0], -1, false)); };
}

OpFunction SoftmaxGrad(const RecipeView& recipe) {
  for (const std::size_t i : {0U, 1U}) recipe.ExpectSame(recipe.in(i), recipe.out(0), "dy, y and dx have one shape");
  return [](TensorSpan in, auto* out) {
    out->push_back(at::_softmax_backward_data(in[0], in[1], -1, in[1].scalar_type()));
  };
}

// Labels are class numbers [N] or distributions [N, C].
bool LabelsAreClasses(const RecipeView& recipe, const Dims& probabilities, std::size_t labels) {
  recipe.Expect(probabilities.size() == 2, "class scores have rank 2");
  const bool classes = recipe.in_is_integer(labels);
  recipe.Expect(recipe.in(labels) == (classes ? Dims{probabilities[0]} : probabilities),
                "labels are one class number or one distribution a row");
  return classes;
}

OpFunction CrossEntropy(const RecipeView& recipe) {
  const Dims& logits = recipe.in(0);
  const bool classes = LabelsAreClasses(recipe, logits, 1);
  recipe.Expect(recipe.out(0) == Dims{logits[0]}, "one loss a row");
  recipe.ExpectSame(recipe.out(1), logits, "probabilities and logits have one shape");
  return [classes, type = recipe.out_type(0)](TensorSpan in, auto* out) {
    at::Tensor probabilities = at::_softmax(in[0], 1, false);
    if (classes) {
      out->push_back(at::gather(probabilities, 1, in[1].to(c10::kLong).unsqueeze(1)).squeeze(1).to(type).log_().neg_());
    } else {
      out->push_back(at::sum(at::xlogy(in[1], probabilities), 1).to(type).neg_());
    }
    out->push_back(std::move(probabilities));
  };
}

OpFunction CrossEntropyGrad(const RecipeView& recipe) {
  const Dims& probabilities = recipe.in(1);
  const bool classes = LabelsAreClasses(recipe, probabilities, 2);
  recipe.Expect(recipe.in(0) == Dims{probabilities[0]}, "one loss gradient a row");
  recipe.ExpectSame(recipe.out(0), probabilities, "probabilities and logit gradients have one shape");
  return [classes](TensorSpan in, auto* out) {
    const at::Tensor dloss = in[0].unsqueeze(1).to(in[1].scalar_type());
    if (classes) {
      at::Tensor gradient = at::mul(in[1], dloss);
      gradient.scatter_add_(1, in[2].to(c10::kLong).unsqueeze(1), at::neg(dloss));
      out->push_back(std::move(gradient));
    } else {
      out->push_back(at::sub(in[1], in[2]).mul_(dloss));
    }
  };
}

OpFunction BatchNorm(const RecipeView& recipe) {
  const Dims& x = recipe.in(0);
  const bool scaled = recipe.num_inputs() == 3;
  recipe.Expect(x.size() >= 2, "the input is [N,C,..]");
  recipe.ExpectSame(x, recipe.out(0), "input and output have one shape");
  const Dims channels = {x[1]};
  for (std::size_t i = 1; i < recipe.num_inputs(); ++i) recipe.ExpectSame(recipe.in(i), channels, "one a channel");
  for (const std::size_t i : {1U, 2U}) recipe.ExpectSame(recipe.out(i), channels, "one a channel");
  return [scaled](TensorSpan in, auto* out) {
    auto [y, mean, inverse_deviation] =
        at::native_batch_norm(in[0], scaled ? in[1] : at::Tensor(), in[scaled ? 2 : 1], {}, {}, /*training=*/true,
                              /*momentum=*/0, kBatchNormEpsilon);
    at::Tensor variance = at::pow(inverse_deviation, -2).sub_(kBatchNormEpsilon).clamp_min_(0);
    *out = {std::move(y), std::move(mean), std::move(variance)};
  };
}

OpFunction BatchNormGrad(const RecipeView& recipe) {
  const Dims& dy = recipe.in(0);
  const bool scaled = recipe.num_inputs() == 5;
  recipe.Expect(dy.size() >= 2 && recipe.num_outputs() == (scaled ? 3 : 2), "as many gradients as inputs");
  recipe.ExpectSame(dy, recipe.in(1), "dy and x have one shape");
  recipe.ExpectSame(dy, recipe.out(0), "dy and dx have one shape");
  const Dims channels = {dy[1]};
  for (std::size_t i = 2; i < recipe.num_inputs(); ++i) recipe.ExpectSame(recipe.in(i), channels, "one a channel");
  for (std::size_t i = 1; i < recipe.num_outputs(); ++i) recipe.ExpectSame(recipe.out(i), channels, "one a channel");
  return [scaled](TensorSpan in, auto* out) {
    const at::Tensor inverse_deviation = at::add(in[3], kBatchNormEpsilon).rsqrt_();
    auto [dx, dscale, doffset] =
        at::native_batch_norm_backward(in[0], in[1], scaled ? in[4] : at::Tensor(), {}, {}, in[2], inverse_deviation,
                                       /*train=*/true, kBatchNormEpsilon, {true, scaled, true});
    out->push_back(std::move(dx));
    if (scaled) out->push_back(std::move(dscale));
    out->push_back(std::move(doffset));
  };
}

Dims RowsOf(const RecipeView& recipe, const Dims& x) {
  recipe.Expect(!x.empty(), "the input has a last dimension");
  return {x.begin(), x.end() - 1};
}

// The deviation is sqrt(variance + epsilon).
OpFunction LayerNorm(const RecipeView& recipe) {
  const Dims& x = recipe.in(0);
  const Dims rows = RowsOf(recipe, x);
  recipe.ExpectSame(x, recipe.out(0), "input and output have one shape");
  for (const std::size_t i : {1U, 2U}) {
    recipe.Expect(recipe.in(i) == Dims{x.back()}, "scale and offset are as long as a row");
    recipe.ExpectSame(recipe.out(i), rows, "mean and deviation are one a row");
  }
  return [rows, width = x.back(), type = recipe.out_type(1)](TensorSpan in, auto* out) {
    auto [y, mean, inverse_deviation] = at::native_layer_norm(in[0], {width}, in[1], in[2], kLayerNormEpsilon);
    *out = {std::move(y), mean.view(rows).to(type), inverse_deviation.reciprocal_().view(rows).to(type)};
  };
}

OpFunction LayerNormGrad(const RecipeView& recipe) {
  const Dims& dy = recipe.in(0);
  Dims rows = RowsOf(recipe, dy);
  recipe.ExpectSame(dy, recipe.in(1), "dy and x have one shape");
  recipe.ExpectSame(dy, recipe.out(0), "dy and dx have one shape");
  for (const std::size_t i : {2U, 3U}) recipe.ExpectSame(recipe.in(i), rows, "mean and deviation are one a row");
  recipe.Expect(recipe.in(4) == Dims{dy.back()}, "the scale is as long as a row");
  for (const std::size_t i : {1U, 2U}) recipe.ExpectSame(recipe.out(i), recipe.in(4), "as long as a row");
  rows.push_back(1);  // as in ATen
  return [rows, width = dy.back()](TensorSpan in, auto* out) {
    // Statistics of 16-bit rows are f32 on GPUs, and as wide as x on CPUs. Only the shape of the offset matters.
    const c10::ScalarType type = in[0].is_cuda() ? in[2].scalar_type() : in[0].scalar_type();
    auto [dx, dscale, doffset] =
        at::native_layer_norm_backward(in[0], in[1], {width}, in[2].reshape(rows).to(type),
                                       at::reciprocal(in[3]).view(rows).to(type), in[4], in[4], {true, true, true});
    *out = {std::move(dx), std::move(dscale), std::move(doffset)};
  };
}

Sliding PoolingOf(const RecipeView& recipe, const Dims& x, const Dims& y) {
  recipe.Expect(x.size() == 4 && y.size() == 4 && x[0] == y[0] && x[1] == y[1], "batch and channels stay");
  return SlidingOf(recipe, x, recipe.Pair("window", {0, 0}), y, /*pooling=*/true);
}

constexpr double kBelowAll = -std::numeric_limits<double>::infinity();

OpFunction MaxPool(const RecipeView& recipe) {
  const Sliding pool = PoolingOf(recipe, recipe.in(0), recipe.out(0));
  return [pool](TensorSpan in, auto* out) {
    out->push_back(std::get<0>(at::max_pool2d_with_indices(pool.Padded(in[0], kBelowAll), pool.window, pool.stride,
                                                           pool.padding(), pool.dilation, false)));
  };
}

// Where the largest were is found again.
OpFunction MaxPoolGrad(const RecipeView& recipe) {
  const Dims& x = recipe.in(1);
  const Sliding pool = PoolingOf(recipe, x, recipe.in(0));
  recipe.ExpectSame(recipe.in(0), recipe.in(2), "dy and y have one shape");
  recipe.ExpectSame(x, recipe.out(0), "x and dx have one shape");
  return [pool, shape = x](TensorSpan in, auto* out) {
    const at::Tensor padded = pool.Padded(in[1], kBelowAll);
    const at::Tensor places = std::get<1>(
        at::max_pool2d_with_indices(padded, pool.window, pool.stride, pool.padding(), pool.dilation, false));
    out->push_back(pool.Cut(at::max_pool2d_with_indices_backward(in[0], padded, pool.window, pool.stride,
                                                                 pool.padding(), pool.dilation, false, places),
                            shape));
  };
}

Sliding AveragingOf(const RecipeView& recipe, const Dims& x, const Dims& y) {
  const Sliding pool = PoolingOf(recipe, x, y);
  recipe.Expect(pool.dilation == std::array<std::int64_t, 2>{1, 1}, "average pooling has no dilation");
  return pool;
}

// Every sum is divided by the whole window: zeros around the image count.
OpFunction AvgPool(const RecipeView& recipe) {
  const Sliding pool = AveragingOf(recipe, recipe.in(0), recipe.out(0));
  return [pool](TensorSpan in, auto* out) {
    out->push_back(at::avg_pool2d(pool.Padded(in[0], 0), pool.window, pool.stride, pool.padding(),
                                  /*ceil_mode=*/false, /*count_include_pad=*/true));
  };
}

OpFunction AvgPoolGrad(const RecipeView& recipe) {
  const Dims& x = recipe.out(0);
  const Sliding pool = AveragingOf(recipe, x, recipe.in(0));
  return [pool, x](TensorSpan in, auto* out) {
    const at::Tensor image = Placeholder(pool.PaddedShape(x), in[0]);
    out->push_back(pool.Cut(at::avg_pool2d_backward(in[0], image, pool.window, pool.stride, pool.padding(),
                                                    /*ceil_mode=*/false, /*count_include_pad=*/true, {}),
                            x));
  };
}

constexpr TorchOpKind kTorchReductionKinds[] = {
    {"reduce_sum", {1, 1}, {1, 1}, Reduce<Sum>},
    {"reduce_sum_grad", {1, 1}, {1, 1}, ReduceGrad<false>},
    {"reduce_mean", {1, 1}, {1, 1}, Reduce<Mean>},
    {"reduce_mean_grad", {1, 1}, {1, 1}, ReduceGrad<true>},
    {"reduce_max", {1, 1}, {1, 1}, Reduce<Max>},
    {"reduce_max_grad", {3, 3}, {1, 1}, ReduceMaxGrad},
    {"broadcast_grad", {1, 1}, {1, 1}, BroadcastGrad},
    {"l2_loss", {1, 1}, {1, 1}, L2Loss},
    {"l2_loss_grad", {2, 2}, {1, 1}, L2LossGrad},
    {"global_norm_scale", {1, kAnyNumber}, {1, 1}, GlobalNormScale},
    {"softmax", {1, 1}, {1, 1}, Softmax},
    {"softmax_grad", {2, 2}, {1, 1}, SoftmaxGrad},
    {"softmax_cross_entropy", {2, 2}, {2, 2}, CrossEntropy},
    {"softmax_cross_entropy_grad", {3, 3}, {1, 1}, CrossEntropyGrad},
    {"batch_norm", {2, 3}, {3, 3}, BatchNorm},
    {"batch_norm_grad", {4, 5}, {2, 3}, BatchNormGrad},
    {"layer_norm", {3, 3}, {3, 3}, LayerNorm},
    {"layer_norm_grad", {5, 5}, {3, 3}, LayerNormGrad},
    {"max_pool", {1, 1}, {1, 1}, MaxPool},
    {"max_pool_grad", {3, 3}, {1, 1}, MaxPoolGrad},
    {"avg_pool", {1, 1}, {1, 1}, AvgPool},
    {"avg_pool_grad", {1, 1}, {1, 1}, AvgPoolGrad},
};

}  // namespace

std::span<const TorchOpKind> ReductionTorchOps() { return kTorchReductionKinds; }

}  // namespace emplace::profiler
