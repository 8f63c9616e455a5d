#include "profiler/recipe.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

#include "sim/base/check.h"

namespace emplace::profiler {
namespace {

constexpr std::int64_t kAnyRow = std::numeric_limits<std::int32_t>::max();

bool IsInteger(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kI16 || dtype == DType::kI32 ||
         dtype == DType::kI64;
}

// How many rows or classes there are for the numbers that `op` reads as its input `i`; none if it only hands them on.
std::optional<std::int64_t> RowsBehind(const Graph& graph, OpId op, std::size_t i) {
  const std::string_view kind = graph.op(op).kind;
  const auto dim = [&](std::size_t input, std::size_t axis) -> std::optional<std::int64_t> {
    const auto inputs = graph.inputs(op);
    if (input >= inputs.size() || graph.tensor(inputs[input]).shape.size() <= axis) return std::nullopt;
    return graph.tensor(inputs[input]).shape[axis];
  };
  if (kind == "gather" && i == 1) return dim(0, 0);
  if ((kind == "scatter_add" || kind.starts_with("sparse_")) && i == 2) return dim(0, 0);
  if (kind == "softmax_cross_entropy" && i == 1) return dim(0, 1);
  if (kind == "softmax_cross_entropy_grad" && i == 2) return dim(1, 1);
  if (kind == "aten::embedding" && i == 1) return dim(0, 0);
  if (kind == "aten::embedding_dense_backward" && i == 1 && graph.num_outputs(op) == 1) {
    const auto table = graph.tensor(graph.first_output(op)).shape;
    if (!table.empty()) return table[0];
  }
  // Positions in a plane of what was pooled.
  if (kind == "aten::max_pool2d_with_indices_backward" && i == 2 && dim(1, 2)) {
    const auto shape = graph.tensor(graph.inputs(op)[1]).shape;
    return shape[shape.size() - 2] * shape.back();
  }
  // What other ATen operators do with these values is unknown, so only 0 is safe. Operators with integer results pass
  // the values on.
  if (!kind.starts_with("aten::")) return std::nullopt;
  for (std::size_t o = 0; o < graph.num_outputs(op); ++o) {
    if (IsInteger(graph.tensor(MakeId<TensorId>(Index(graph.first_output(op)) + o)).dtype)) return std::nullopt;
  }
  return 1;
}

// By TensorId; ids are a topological order, so readers are done before what they read.
std::vector<std::int64_t> IndexBounds(const Graph& graph) {
  std::vector<std::int64_t> bounds(graph.num_tensors(), kAnyRow);
  for (std::size_t n = graph.num_ops(); n-- > 0;) {
    const OpId op = MakeId<OpId>(n);
    std::int64_t handed_on = kAnyRow;
    for (std::size_t o = 0; o < graph.num_outputs(op); ++o) {
      const std::size_t tensor = Index(graph.first_output(op)) + o;
      if (IsInteger(graph.tensor(MakeId<TensorId>(tensor)).dtype)) handed_on = std::min(handed_on, bounds[tensor]);
    }
    const auto inputs = graph.inputs(op);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::int64_t& bound = bounds[Index(inputs[i])];
      bound = std::min(bound, RowsBehind(graph, op, i).value_or(handed_on));
    }
  }
  return bounds;
}

TensorSpec SpecOf(const Graph& graph, TensorId id, std::int64_t bound, const Op& reader, const std::string& role) {
  const Tensor& tensor = graph.tensor(id);
  if (tensor.dtype == DType::kNone) {
    throw InputError(std::string(reader.name), role + " has no dtype and shape (what has only a size cannot be run)");
  }
  TensorSpec spec{.dtype = tensor.dtype, .shape = {tensor.shape.begin(), tensor.shape.end()}, .size = tensor.size};
  if (IsInteger(tensor.dtype)) spec.index_bound = std::max<std::int64_t>(bound, 1);
  return spec;
}

}  // namespace

std::vector<OpRecipe> RecipesOf(const Graph& graph) {
  const std::vector<std::int64_t> bounds = IndexBounds(graph);
  std::vector<OpRecipe> recipes;
  recipes.reserve(graph.num_ops());
  for (std::size_t n = 0; n < graph.num_ops(); ++n) {
    const OpId id = MakeId<OpId>(n);
    const Op& op = graph.op(id);
    OpRecipe& recipe = recipes.emplace_back();
    recipe.name = op.name;
    recipe.kind = op.kind;
    recipe.attrs = op.attrs;
    const auto inputs = graph.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      recipe.inputs.push_back(SpecOf(graph, inputs[i], bounds[Index(inputs[i])], op, "input " + std::to_string(i)));
    }
    for (std::size_t o = 0; o < graph.num_outputs(id); ++o) {
      const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(id)) + o);
      recipe.outputs.push_back(SpecOf(graph, tensor, bounds[Index(tensor)], op, "output " + std::to_string(o)));
    }
  }
  return recipes;
}

}  // namespace emplace::profiler
