#ifndef EMPLACE_PROFILER_RECIPE_H_
#define EMPLACE_PROFILER_RECIPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/graph.h"
#include "sim/op_kinds.h"

namespace emplace::profiler {

// A tensor as the hardware must make it.
struct TensorSpec {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  Bytes size;
  // Integer tensors: every element is in [0, index_bound), so that those that number rows number rows that exist.
  std::int64_t index_bound = 1;
  bool operator==(const TensorSpec&) const = default;
};

// All that the hardware must know of an op to run it: no ids, no names of others.
struct OpRecipe {
  std::string name;   // the op's, for messages
  std::string kind;   // kind in the op catalogue, or "aten::NAME.OVERLOAD" (torchscript.h)
  std::string attrs;  // a JSON object as text; "" if none
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
};

// Its outputs are there before a step begins: it takes no time.
inline bool IsData(const OpRecipe& recipe) { return IsSourceKind(recipe.kind); }

// For each op of the graph its recipe, by OpId. The bound of an integer tensor is the least that its readers, and the
// readers of what they make of it, allow: rows of the table for row numbers, classes for labels.
// Throws InputError(op name) where a tensor has no dtype and shape: what has only a size cannot be run.
std::vector<OpRecipe> RecipesOf(const Graph& graph);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_RECIPE_H_
