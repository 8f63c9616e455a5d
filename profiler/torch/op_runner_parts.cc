#include "profiler/torch/op_runner_parts.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/check.h"

namespace emplace::profiler {
namespace {

constexpr std::int64_t kLargestAttr = std::int64_t{1} << 40;  // sums and products of a few fit in 64 bits

// The attr's value, or null where there is none.
nlohmann::json Attr(const RecipeView& recipe, std::string_view key) {
  if (recipe.op().attrs.empty()) return nullptr;
  const nlohmann::json parsed = nlohmann::json::parse(recipe.op().attrs, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) recipe.Refuse("attrs is not a JSON object");
  const auto found = parsed.find(key);
  return found == parsed.end() ? nlohmann::json(nullptr) : *found;
}

}  // namespace

std::int64_t ElementsOf(const Dims& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : shape) elements *= dim;
  return elements;
}

c10::ScalarType ScalarTypeOf(DType dtype) {
  constexpr std::array<std::pair<DType, c10::ScalarType>, 10> kTypes = {{{DType::kBool, c10::kBool},
                                                                         {DType::kI8, c10::kChar},
                                                                         {DType::kU8, c10::kByte},
                                                                         {DType::kI16, c10::kShort},
                                                                         {DType::kF16, c10::kHalf},
                                                                         {DType::kBf16, c10::kBFloat16},
                                                                         {DType::kI32, c10::kInt},
                                                                         {DType::kF32, c10::kFloat},
                                                                         {DType::kI64, c10::kLong},
                                                                         {DType::kF64, c10::kDouble}}};
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  return c10::ScalarType::Undefined;
}

void RecipeView::Expect(bool holds, std::string_view what) const {
  if (!holds) Refuse("its shapes or attrs do not fit together (" + std::string(what) + ")");
}

void RecipeView::Refuse(const std::string& problem) const {
  throw InputError(op_.name, "as an op of kind " + op_.kind + ", " + problem);
}

bool RecipeView::Flag(std::string_view key) const {
  const nlohmann::json value = Attr(*this, key);
  if (value.is_null()) return false;
  if (!value.is_boolean()) Refuse("attr " + std::string(key) + " is not true or false");
  return value.get<bool>();
}

std::optional<double> RecipeView::Number(std::string_view key) const {
  const nlohmann::json value = Attr(*this, key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_number()) Refuse("attr " + std::string(key) + " is not a number");
  return value.get<double>();
}

std::optional<std::string> RecipeView::Word(std::string_view key) const {
  const nlohmann::json value = Attr(*this, key);
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

std::optional<Dims> RecipeView::Integers(std::string_view key) const {
  const nlohmann::json value = Attr(*this, key);
  if (value.is_null()) return std::nullopt;
  const auto fits = [](const nlohmann::json& entry) {
    return entry.is_number_integer() && std::abs(entry.get<double>()) <= static_cast<double>(kLargestAttr);
  };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), fits)) {
    Refuse("attr " + std::string(key) + " is not a list of integers up to 2^40");
  }
  return value.get<Dims>();
}

std::array<std::int64_t, 2> RecipeView::Pair(std::string_view key, std::array<std::int64_t, 2> absent) const {
  const std::optional<Dims> list = Integers(key);
  if (!list) return absent;
  if (list->size() != 2) Refuse("attr " + std::string(key) + " is not a pair of integers");
  return {(*list)[0], (*list)[1]};
}

std::int64_t RecipeView::Axis(std::size_t rank) const {
  const std::optional<double> value = Number("axis");
  const auto size = static_cast<std::int64_t>(rank);
  const double given = value.value_or(0);
  for (std::int64_t axis = -size; axis < size; ++axis) {
    if (static_cast<double>(axis) == given) return axis < 0 ? axis + size : axis;
  }
  Refuse("attr axis is not one of " + std::to_string(rank) + " dimensions");
}

Dims Sliding::PaddedShape(const Dims& x) const {
  if (pads_itself) return x;
  return {x[0], x[1], before[0] + x[2] + after[0], before[1] + x[3] + after[1]};
}

at::Tensor Sliding::Padded(const at::Tensor& x, double value) const {
  if (pads_itself) return x;
  return at::constant_pad_nd(x, {before[1], after[1], before[0], after[0]}, value);
}

at::Tensor Sliding::Cut(const at::Tensor& gradient, const Dims& x) const {
  if (pads_itself) return gradient;
  return gradient.narrow(2, before[0], x[2]).narrow(3, before[1], x[3]).contiguous();
}

Sliding SlidingOf(const RecipeView& recipe, const Dims& x, const std::array<std::int64_t, 2>& window, const Dims& y,
                  bool pooling) {
  recipe.Expect(x.size() == 4 && y.size() == 4, "images have rank 4");
  Sliding sliding = {.window = window,
                     .stride = recipe.Pair("stride", {1, 1}),
                     .dilation = recipe.Pair("dilation", {1, 1}),
                     .before = {},
                     .after = {}};
  const std::optional<std::string> word = recipe.Word("padding");
  if (word && *word != "same" && *word != "valid") {
    recipe.Refuse("attr padding is not \"same\", \"valid\" or a pair of integers");
  }
  const std::array<std::int64_t, 2> given = word ? std::array<std::int64_t, 2>{} : recipe.Pair("padding", {0, 0});
  sliding.pads_itself = true;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t stride = sliding.stride[i];
    const std::int64_t size = x[2 + i];
    recipe.Expect(window[i] >= 1 && stride >= 1 && sliding.dilation[i] >= 1 && given[i] >= 0,
                  "window, stride and dilation are at least 1, padding at least 0");
    const std::int64_t reach = (window[i] - 1) * sliding.dilation[i] + 1;
    const std::int64_t same = std::max((y[2 + i] - 1) * stride + reach - size, std::int64_t{0});
    const std::int64_t total = word == "same" ? same : 2 * given[i];
    sliding.before[i] = total / 2;
    sliding.after[i] = total - total / 2;
    const std::int64_t room = size + total - reach;
    const std::int64_t steps = word == "same" ? (size + stride - 1) / stride : room / stride + 1;
    recipe.Expect(room >= 0 && steps == y[2 + i], "window, stride, padding and dilation give the output's size");
    // ATen's pooling takes no padding beyond half a window.
    if (total % 2 != 0 || (pooling && sliding.before[i] > window[i] / 2)) sliding.pads_itself = false;
  }
  return sliding;
}

at::Tensor Placeholder(const Dims& shape, const at::Tensor& donor) {
  const std::int64_t elements = ElementsOf(shape);
  if (donor.numel() < elements || !donor.is_contiguous()) return at::empty(shape, donor.options());
  return donor.view({-1}).narrow(0, 0, elements).view(shape);
}

at::Tensor Fit(at::Tensor y, c10::ScalarType type, const Dims& shape) {
  if (y.scalar_type() != type) y = y.to(type);
  if (y.sizes() != at::IntArrayRef(shape)) y = y.expand(shape).contiguous();
  return y;
}

}  // namespace emplace::profiler
