#include <algorithm>

#include "profiler/torch/op_runner_parts.h"

namespace emplace::profiler {
namespace {

// Calls kCall with the inputs, as many as it takes.
template <auto kCall>
at::Tensor Call(TensorSpan in) {
  if constexpr (std::is_invocable_v<decltype(kCall), at::Tensor>) {
    return kCall(in[0]);
  } else if constexpr (std::is_invocable_v<decltype(kCall), at::Tensor, at::Tensor>) {
    return kCall(in[0], in[1]);
  } else {
    return kCall(in[0], in[1], in[2]);
  }
}

// All inputs and the output have one shape.
template <auto kCall>
OpFunction SameShape(const RecipeView& recipe) {
  for (std::size_t i = 0; i < recipe.num_inputs(); ++i) {
    recipe.ExpectSame(recipe.in(i), recipe.out(0), "inputs and output have one shape");
  }
  return [](TensorSpan in, auto* out) { out->push_back(Call<kCall>(in)); };
}

template <auto kCall>
OpFunction Broadcasting(const RecipeView& recipe) {
  const Dims& shape = recipe.out(0);
  for (const TensorSpec& input : recipe.op().inputs) {
    bool fits = input.shape.size() <= shape.size();
    for (std::size_t i = 1; fits && i <= input.shape.size(); ++i) {
      const std::int64_t dim = input.shape[input.shape.size() - i];
      fits = dim == shape[shape.size() - i] || dim == 1;
    }
    recipe.Expect(fits, "each input's dimension, aligned at the end, is the output's or 1");
  }
  return [shape, type = recipe.out_type(0)](TensorSpan in, auto* out) {
    out->push_back(Fit(Call<kCall>(in), type, shape));
  };
}

using Array = at::Tensor;  // shorter lines in the table

// Channels are dimension 1 of an image and the last of anything else, unless only another is as long as the bias.
std::int64_t ChannelDimension(const RecipeView& recipe, const Dims& x, const Dims& bias) {
  recipe.Expect(bias.size() == 1, "the bias has rank 1");
  const std::size_t likely = x.size() == 4 ? 1 : x.size() - 1;
  if (!x.empty() && x[likely] == bias[0]) return static_cast<std::int64_t>(likely);
  const auto found = std::find(x.rbegin(), x.rend(), bias[0]);
  recipe.Expect(found != x.rend(), "the bias is as long as one dimension");
  return x.rend() - found - 1;
}

OpFunction BiasAdd(const RecipeView& recipe) {
  const Dims& x = recipe.in(0);
  recipe.ExpectSame(x, recipe.out(0), "input and output have one shape");
  const std::int64_t channels = ChannelDimension(recipe, x, recipe.in(1));
  Dims shape(x.size() - static_cast<std::size_t>(channels), 1);
  shape[0] = recipe.in(1)[0];
  return [shape](TensorSpan in, auto* out) { out->push_back(at::add(in[0], in[1].view(shape))); };
}

OpFunction BiasAddGrad(const RecipeView& recipe) {
  const Dims& dy = recipe.in(0);
  const std::int64_t channels = ChannelDimension(recipe, dy, recipe.out(0));
  Dims others;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(dy.size()); ++i) {
    if (i != channels) others.push_back(i);
  }
  return
      [others](TensorSpan in, auto* out) { out->push_back(others.empty() ? Copied(in[0]) : at::sum(in[0], others)); };
}

OpFunction AddN(const RecipeView& recipe) {
  for (std::size_t i = 0; i < recipe.num_inputs(); ++i) {
    recipe.ExpectSame(recipe.in(i), recipe.out(0), "inputs and output have one shape");
  }
  return [](TensorSpan in, auto* out) {
    Array sum = in.size() == 1 ? Copied(in[0]) : at::add(in[0], in[1]);
    for (std::size_t i = 2; i < in.size(); ++i) sum.add_(in[i]);
    out->push_back(std::move(sum));
  };
}

OpFunction Scale(const RecipeView& recipe) {
  recipe.ExpectSame(recipe.in(0), recipe.out(0), "input and output have one shape");
  if (recipe.num_inputs() == 2) {
    recipe.Expect(recipe.in(1).empty(), "the factor is a scalar");
    return [](TensorSpan in, auto* out) { out->push_back(at::mul(in[0], in[1])); };
  }
  const std::optional<double> factor = recipe.Number("factor");
  if (!factor) recipe.Refuse("has neither attr factor nor a second input");
  return [factor = *factor](TensorSpan in, auto* out) { out->push_back(at::mul(in[0], factor)); };
}

// Attr `rate`, the share that is dropped: in [0, 1), half if absent.
double DropoutRate(const RecipeView& recipe) {
  const double rate = recipe.Number("rate").value_or(0.5);
  recipe.Expect(rate >= 0 && rate < 1, "attr rate is in [0, 1)");
  return rate;
}

OpFunction Dropout(const RecipeView& recipe) {
  recipe.ExpectSame(recipe.in(0), recipe.out(0), "input and output have one shape");
  recipe.ExpectSame(recipe.in(0), recipe.out(1), "input and mask have one shape");
  return [rate = DropoutRate(recipe), type = recipe.out_type(1)](TensorSpan in, auto* out) {
    auto [y, mask] = at::native_dropout(in[0], rate, true);
    out->push_back(std::move(y));
    out->push_back(mask.to(type));
  };
}

OpFunction DropoutGrad(const RecipeView& recipe) {
  recipe.ExpectSame(recipe.in(0), recipe.out(0), "dy and dx have one shape");
  recipe.ExpectSame(recipe.in(1), recipe.out(0), "mask and dx have one shape");
  return [scale = 1 / (1 - DropoutRate(recipe))](TensorSpan in, auto* out) {
    out->push_back(at::native_dropout_backward(in[0], in[1].to(c10::kBool), scale));
  };
}

constexpr TorchOpKind kTorchElementwiseKinds[] = {
    {"relu", {1, 1}, {1, 1}, SameShape<[](const Array& x) { return at::relu(x); }>},
    {"relu_grad",
     {2, 2},
     {1, 1},
     SameShape<[](const Array& dy, const Array& y) { return at::threshold_backward(dy, y, 0); }>},
    {"sigmoid", {1, 1}, {1, 1}, SameShape<[](const Array& x) { return at::sigmoid(x); }>},
    {"sigmoid_grad",
     {2, 2},
     {1, 1},
     SameShape<[](const Array& dy, const Array& y) { return at::sigmoid_backward(dy, y); }>},
    {"tanh", {1, 1}, {1, 1}, SameShape<[](const Array& x) { return at::tanh(x); }>},
    {"tanh_grad", {2, 2}, {1, 1}, SameShape<[](const Array& dy, const Array& y) { return at::tanh_backward(dy, y); }>},
    {"gelu", {1, 1}, {1, 1}, SameShape<[](const Array& x) { return at::gelu(x, "tanh"); }>},
    {"gelu_grad",
     {2, 2},
     {1, 1},
     SameShape<[](const Array& dy, const Array& x) { return at::gelu_backward(dy, x, "tanh"); }>},
    {"add", {2, 2}, {1, 1}, Broadcasting<[](const Array& a, const Array& b) { return at::add(a, b); }>},
    {"sub", {2, 2}, {1, 1}, Broadcasting<[](const Array& a, const Array& b) { return at::sub(a, b); }>},
    {"sub_grad", {1, 1}, {1, 1}, SameShape<[](const Array& dy) { return at::neg(dy); }>},
    {"mul", {2, 2}, {1, 1}, Broadcasting<[](const Array& a, const Array& b) { return at::mul(a, b); }>},
    {"mul_grad", {2, 2}, {1, 1}, Broadcasting<[](const Array& dy, const Array& b) { return at::mul(dy, b); }>},
    {"div", {2, 2}, {1, 1}, Broadcasting<[](const Array& a, const Array& b) { return at::div(a, b); }>},
    {"div_grad_a", {2, 2}, {1, 1}, Broadcasting<[](const Array& dy, const Array& b) { return at::div(dy, b); }>},
    {"div_grad_b",
     {3, 3},
     {1, 1},
     Broadcasting<[](const Array& dy, const Array& y, const Array& b) { return at::div(at::mul(dy, y), b).neg_(); }>},
    {"bias_add", {2, 2}, {1, 1}, BiasAdd},
    {"bias_add_grad", {1, 1}, {1, 1}, BiasAddGrad},
    {"add_n", {1, kAnyNumber}, {1, 1}, AddN},
    {"scale", {1, 2}, {1, 1}, Scale},
    {"scale_grad", {1, 1}, {1, 1}, Scale},
    {"dropout", {1, 1}, {2, 2}, Dropout},
    {"dropout_grad", {2, 2}, {1, 1}, DropoutGrad},
};

}  // namespace

std::span<const TorchOpKind> ElementwiseTorchOps() { return kTorchElementwiseKinds; }

}  // namespace emplace::profiler
