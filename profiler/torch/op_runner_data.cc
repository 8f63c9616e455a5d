#include <numeric>

#include "profiler/torch/op_runner_parts.h"

namespace emplace::profiler {
namespace {

// Another view of the same bytes.
OpFunction View(const RecipeView& recipe) {
  recipe.Expect(ElementsOf(recipe.in(0)) == ElementsOf(recipe.out(0)), "as many elements out as in");
  return [shape = recipe.out(0)](TensorSpan in, auto* out) { out->push_back(in[0].reshape(shape)); };
}

// Attr `value`. Without one a scalar is 1, as the gradient of a loss is, and anything larger 0, as states begin.
OpFunction Fill(const RecipeView& recipe) {
  const Dims& shape = recipe.out(0);
  const double value = recipe.Number("value").value_or(shape.empty() ? 1 : 0);
  const auto options = at::TensorOptions().dtype(recipe.out_type(0)).device(recipe.device());
  return [shape, value, options](TensorSpan, auto* out) { out->push_back(at::full(shape, value, options)); };
}

// Checks that `parts`, joined along `axis`, are `whole`.
void ExpectPieces(const RecipeView& recipe, const std::vector<TensorSpec>& parts, const Dims& whole,
                  std::int64_t axis) {
  const auto position = static_cast<std::size_t>(axis);
  std::int64_t length = 0;
  for (const TensorSpec& part : parts) {
    Dims shape = part.shape;
    recipe.Expect(shape.size() == whole.size(), "pieces have the rank of the whole");
    length += shape[position];
    shape[position] = whole[position];
    recipe.ExpectSame(shape, whole, "pieces differ from the whole only along attr axis");
  }
  recipe.Expect(length == whole[position], "along attr axis the pieces add up to the whole");
}

// The same for pieces that lack the axis.
void ExpectLayers(const RecipeView& recipe, const std::vector<TensorSpec>& parts, Dims whole, std::int64_t axis) {
  recipe.Expect(whole[static_cast<std::size_t>(axis)] == static_cast<std::int64_t>(parts.size()),
                "along attr axis the whole is as long as there are pieces");
  whole.erase(whole.begin() + axis);
  for (const TensorSpec& part : parts) {
    recipe.ExpectSame(part.shape, whole, "pieces are the whole without attr axis");
  }
}

OpFunction Join(const RecipeView& recipe) {
  const std::int64_t axis = recipe.Axis(recipe.out(0).size());
  ExpectPieces(recipe, recipe.op().inputs, recipe.out(0), axis);
  return [axis](TensorSpan in, auto* out) { out->push_back(at::cat(at::TensorList(in.data(), in.size()), axis)); };
}

OpFunction Cut(const RecipeView& recipe) {
  const std::int64_t axis = recipe.Axis(recipe.in(0).size());
  ExpectPieces(recipe, recipe.op().outputs, recipe.in(0), axis);
  Dims lengths;
  for (const TensorSpec& part : recipe.op().outputs) lengths.push_back(part.shape[static_cast<std::size_t>(axis)]);
  return [axis, lengths](TensorSpan in, auto* out) {
    std::int64_t begin = 0;
    for (const std::int64_t length : lengths) {
      out->push_back(Copied(in[0].narrow(axis, begin, length)));
      begin += length;
    }
  };
}

OpFunction Stack(const RecipeView& recipe) {
  const std::int64_t axis = recipe.Axis(recipe.out(0).size());
  ExpectLayers(recipe, recipe.op().inputs, recipe.out(0), axis);
  return [axis](TensorSpan in, auto* out) { out->push_back(at::stack(at::TensorList(in.data(), in.size()), axis)); };
}

OpFunction Unstack(const RecipeView& recipe) {
  const std::int64_t axis = recipe.Axis(recipe.in(0).size());
  ExpectLayers(recipe, recipe.op().outputs, recipe.in(0), axis);
  return [axis](TensorSpan in, auto* out) {
    for (std::int64_t i = 0; i < in[0].size(axis); ++i) out->push_back(Copied(in[0].select(axis, i)));
  };
}

// Attr `order` (output dimension i is input dimension order[i]; all reversed if absent) from `x` to `y`.
Dims OrderOf(const RecipeView& recipe, const Dims& x, const Dims& y) {
  Dims reversed(x.size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  Dims order = recipe.Integers("order").value_or(reversed);
  recipe.Expect(order.size() == x.size() && y.size() == x.size(), "attr order has every dimension");
  std::vector<bool> seen(x.size(), false);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int64_t axis = order[i];
    recipe.Expect(axis >= 0 && axis < static_cast<std::int64_t>(x.size()) && !seen[static_cast<std::size_t>(axis)],
                  "attr order has every dimension once");
    seen[static_cast<std::size_t>(axis)] = true;
    recipe.Expect(y[i] == x[static_cast<std::size_t>(axis)], "attr order gives the output's shape");
  }
  return order;
}

OpFunction Transpose(const RecipeView& recipe) {
  const Dims order = OrderOf(recipe, recipe.in(0), recipe.out(0));
  return [order](TensorSpan in, auto* out) { out->push_back(Copied(in[0].permute(order))); };
}

OpFunction TransposeGrad(const RecipeView& recipe) {
  const Dims order = OrderOf(recipe, recipe.out(0), recipe.in(0));
  Dims back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return [back](TensorSpan in, auto* out) { out->push_back(Copied(in[0].permute(back))); };
}

// Where `part` lies in `whole`: attr `key`, the corner if absent.
Dims CornerOf(const RecipeView& recipe, std::string_view key, const Dims& part, const Dims& whole) {
  Dims corner = recipe.Integers(key).value_or(Dims(whole.size(), 0));
  recipe.Expect(part.size() == whole.size() && corner.size() == whole.size(), "both shapes and the attr have one rank");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    recipe.Expect(corner[i] >= 0 && corner[i] + part[i] <= whole[i], "the smaller lies inside the larger");
  }
  return corner;
}

// The part of the shape given, cut out. Slice and the gradient of pad.
OpFunction CutOut(const RecipeView& recipe, std::string_view key) {
  const Dims& shape = recipe.out(0);
  const Dims corner = CornerOf(recipe, key, shape, recipe.in(0));
  return [shape, corner](TensorSpan in, auto* out) {
    at::Tensor part = in[0];
    for (std::size_t i = 0; i < shape.size(); ++i)
      part = part.narrow(static_cast<std::int64_t>(i), corner[i], shape[i]);
    out->push_back(Copied(part));
  };
}

// Zeros around. Pad and the gradient of slice.
OpFunction Surround(const RecipeView& recipe, std::string_view key) {
  const Dims& part = recipe.in(0);
  const Dims corner = CornerOf(recipe, key, part, recipe.out(0));
  Dims amounts;  // the last dimension first, in front and behind
  for (std::size_t i = part.size(); i-- > 0;) {
    amounts.push_back(corner[i]);
    amounts.push_back(recipe.out(0)[i] - corner[i] - part[i]);
  }
  return [amounts](TensorSpan in, auto* out) { out->push_back(at::constant_pad_nd(in[0], amounts, 0)); };
}

// Row numbers in a type that ATen takes.
at::Tensor Rows(const at::Tensor& numbers) {
  const at::Tensor flat = numbers.reshape({-1});
  return flat.scalar_type() == c10::kInt || flat.scalar_type() == c10::kLong ? flat : flat.to(c10::kLong);
}

OpFunction Gather(const RecipeView& recipe) {
  const Dims& table = recipe.in(0);
  recipe.Expect(table.size() == 2, "the table has rank 2");
  recipe.Expect(recipe.in_is_integer(1), "row numbers are integers");
  recipe.Expect(ElementsOf(recipe.out(0)) == ElementsOf(recipe.in(1)) * table[1], "one table row an index");
  return [shape = recipe.out(0)](TensorSpan in, auto* out) {
    out->push_back(at::index_select(in[0], 0, Rows(in[1])).view(shape));
  };
}

// Sorting brings equal row numbers together. The k-th distinct number gets row k of the gradients, the sum of its rows.
// Rows of zeros follow, under numbers that occur, so that nothing here waits for the number of distinct ones.
OpFunction GatherGrad(const RecipeView& recipe) {
  const Dims& shape = recipe.out(0);
  recipe.Expect(shape.size() == 2, "the row gradients have rank 2");
  recipe.Expect(recipe.in_is_integer(1), "row numbers are integers");
  recipe.Expect(recipe.out(1) == Dims{shape[0]}, "one row number a row");
  recipe.Expect(ElementsOf(shape) == ElementsOf(recipe.in(0)) && shape[0] == ElementsOf(recipe.in(1)),
                "one row an index");
  return [shape, type = recipe.out_type(1)](TensorSpan in, auto* out) {
    const at::Tensor numbers = in[1].reshape({-1}).to(c10::kLong);
    at::Tensor gradients = at::zeros(shape, in[0].options());
    if (shape[0] == 0) {
      *out = {gradients, numbers.to(type)};
      return;
    }
    const auto [sorted, order] = at::sort(numbers);
    at::Tensor place = at::zeros_like(sorted);
    const std::int64_t rest = shape[0] - 1;
    place.narrow(0, 1, rest).copy_(at::ne(sorted.narrow(0, 1, rest), sorted.narrow(0, 0, rest)));
    place = at::cumsum(place, 0);
    gradients.index_add_(0, at::empty_like(place).scatter_(0, order, place), in[0].reshape(shape));
    *out = {gradients, sorted.scatter(0, place, sorted).to(type)};
  };
}

OpFunction ScatterAdd(const RecipeView& recipe) {
  const Dims& table = recipe.in(0);
  const Dims& rows = recipe.in(1);
  recipe.Expect(table.size() == 2 && rows.size() == 2 && table[1] == rows[1], "rows are as wide as the table");
  recipe.Expect(recipe.in_is_integer(2), "row numbers are integers");
  recipe.Expect(recipe.in(2) == Dims{rows[0]}, "one row number a row");
  recipe.ExpectSame(table, recipe.out(0), "tables in and out have one shape");
  return [](TensorSpan in, auto* out) { out->push_back(at::index_add(in[0], 0, Rows(in[2]), in[1])); };
}

constexpr TorchOpKind kTorchDataKinds[] = {
    {"reshape", {1, 1}, {1, 1}, View},
    {"reshape_grad", {1, 1}, {1, 1}, View},
    {"stop_gradient", {1, 1}, {1, 1}, View},
    {"fill", {0, 0}, {1, 1}, Fill},
    {"concat", {1, kAnyNumber}, {1, 1}, Join},
    {"concat_grad", {1, 1}, {1, kAnyNumber}, Cut},
    {"split", {1, 1}, {1, kAnyNumber}, Cut},
    {"split_grad", {1, kAnyNumber}, {1, 1}, Join},
    {"stack", {1, kAnyNumber}, {1, 1}, Stack},
    {"stack_grad", {1, 1}, {1, kAnyNumber}, Unstack},
    {"unstack", {1, 1}, {1, kAnyNumber}, Unstack},
    {"unstack_grad", {1, kAnyNumber}, {1, 1}, Stack},
    {"transpose", {1, 1}, {1, 1}, Transpose},
    {"transpose_grad", {1, 1}, {1, 1}, TransposeGrad},
    {"slice", {1, 1}, {1, 1}, [](const RecipeView& recipe) { return CutOut(recipe, "begin"); }},
    {"slice_grad", {1, 1}, {1, 1}, [](const RecipeView& recipe) { return Surround(recipe, "begin"); }},
    {"pad", {1, 1}, {1, 1}, [](const RecipeView& recipe) { return Surround(recipe, "before"); }},
    {"pad_grad", {1, 1}, {1, 1}, [](const RecipeView& recipe) { return CutOut(recipe, "before"); }},
    {"gather", {2, 2}, {1, 1}, Gather},
    {"gather_grad", {2, 2}, {2, 2}, GatherGrad},
    {"scatter_add", {3, 3}, {1, 1}, ScatterAdd},
};

}  // namespace

std::span<const TorchOpKind> DataTorchOps() { return kTorchDataKinds; }

}  // namespace emplace::profiler
