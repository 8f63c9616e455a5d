#ifndef EMPLACE_PROFILER_TORCH_OP_RUNNER_H_
#define EMPLACE_PROFILER_TORCH_OP_RUNNER_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "profiler/recipe.h"

namespace at {
class Tensor;
}
namespace c10 {
struct Device;
}

namespace emplace::profiler {

// One op as ATen calls, on any torch::Device. Part of the library with LibTorch.
class TorchOp {
 public:
  virtual ~TorchOp() = default;
  // `outputs` is empty. Gradients are those of the formulas in the op catalogue; no autograd graph is made.
  // Throws InputError(op name) where LibTorch refuses the tensors or the outputs are not the recipe's (which for ATen's
  // own operators is seen only here), and c10::Error where memory runs out.
  virtual void Run(std::span<const at::Tensor> inputs, std::vector<at::Tensor>* outputs) = 0;
};

// The op of a recipe, its state (optimiser slots) on `device`. All but `input` and `variable`, which are data, and
// the caller makes them. Throws InputError(op name) on a kind without an implementation, and where attrs and
// shapes do not fit it.
//
// Kinds of the op catalogue (sim/ops/op_catalog.h): what their formula says. The work that is counted there is done,
// and the outputs have the recipe's dtypes and shapes.
//
// Kinds "aten::NAME" and "aten::NAME.OVERLOAD": that operator of ATen's dispatcher. Its arguments in the order of its
// schema are in attr `args`:
//   "%I" the recipe's input I; ["%0", "%1", null] a list of tensors, null being none; null for None, and for a tensor
//   that is undefined; true, 7, 0.5 a bool, int, float (a Scalar is one of them); {"float": "-inf"} (inf, nan) what
//   JSON has no number for; [3, 3] a list of ints (of floats or bools);
//   {"dtype": "f32"} a dtype; {"str": "mean"} a string; {"device": true} the device that it runs on;
//   {"float": "-inf"} a float that JSON has not ("inf", "nan"); {"layout": 0} and {"memory_format": 1} by ATen's
//   numbers.
// A number where the schema has a tensor is one that does not widen the result's type. Attr `input_views` has, for each
// input, null or [shape, strides, offset] of the view of it that the operator is given. The attention of captured steps
// (docs/pytorch.md) runs the device's kernel (of LibTorch 2.2 or newer), and their updates of one parameter
// the operators of torch.optim. Those that follow may be in attr `kwargs`, an object, by their names in the schema.
// Missing ones take the schema's defaults. Outputs are the tensors that it returns, those in lists included, in order,
// as many as the recipe has (others are dropped). A gradient that the operator was told not to compute is none of them.
std::unique_ptr<TorchOp> MakeTorchOp(const OpRecipe& op, const c10::Device& device);

// The catalogue's kinds that have an implementation, sorted.
std::vector<std::string> TorchOpKinds();

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_TORCH_OP_RUNNER_H_
