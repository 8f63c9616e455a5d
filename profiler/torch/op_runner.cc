#include "profiler/torch/op_runner.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "profiler/torch/op_runner_parts.h"
#include "sim/base/check.h"

namespace emplace::profiler {
namespace {

constexpr std::string_view kAten = "aten::";

const std::vector<TorchOpKind>& AllKinds() {
  static const std::vector<TorchOpKind> kinds = [] {
    std::vector<TorchOpKind> all;
    for (const auto part :
         {ProductTorchOps(), ElementwiseTorchOps(), ReductionTorchOps(), DataTorchOps(), UpdateTorchOps()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end(), [](const TorchOpKind& a, const TorchOpKind& b) { return a.name < b.name; });
    return all;
  }();
  return kinds;
}

void CheckCount(const RecipeView& recipe, const Count& expected, std::size_t found, std::string_view what) {
  if (found >= expected.least && found <= expected.most) return;
  std::string wanted = std::to_string(expected.least);
  if (expected.most == kAnyNumber) {
    wanted = "at least " + wanted;
  } else if (expected.most != expected.least) {
    wanted += " to " + std::to_string(expected.most);
  }
  recipe.Refuse("has " + std::to_string(found) + " " + std::string(what) + " (" + wanted + " expected)");
}

OpFunction FunctionOf(const RecipeView& recipe) {
  const OpRecipe& op = recipe.op();
  if (op.kind.starts_with(kAten)) return MakeAtenOp(recipe);
  const std::vector<TorchOpKind>& kinds = AllKinds();
  const auto row =
      std::find_if(kinds.begin(), kinds.end(), [&op](const TorchOpKind& row) { return row.name == op.kind; });
  if (row == kinds.end()) throw InputError(op.name, "there is no implementation of kind " + op.kind);
  CheckCount(recipe, row->inputs, op.inputs.size(), "inputs");
  CheckCount(recipe, row->outputs, op.outputs.size(), "outputs");
  return row->make(recipe);
}

std::string Printed(c10::ScalarType type, at::IntArrayRef shape) {
  std::string text = c10::toString(type);
  text += " [";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  return text + "]";
}

class RecipeOp : public TorchOp {
 public:
  RecipeOp(const OpRecipe& op, const at::Device& device)
      : name_(op.name), kind_(op.kind), num_inputs_(op.inputs.size()), outputs_(op.outputs) {
    const RecipeView view(op, device);
    for (const std::vector<TensorSpec>* specs : {&op.inputs, &op.outputs}) {
      for (const TensorSpec& spec : *specs) {
        view.Expect(ScalarTypeOf(spec.dtype) != c10::ScalarType::Undefined, "every tensor has a dtype and shape");
      }
    }
    function_ = FunctionOf(view);
  }

  void Run(TensorSpan inputs, std::vector<at::Tensor>* outputs) override {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    Expect(inputs.size() == num_inputs_, "is given " + std::to_string(inputs.size()) + " inputs");
    try {
      function_(inputs, outputs);
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      // The device is full, the op is right.
      if (text.find("memory") != std::string::npos || text.find("ALLOC_FAILED") != std::string::npos) throw;
      Expect(false, text.substr(0, text.find('\n')));
    }
    CheckOutputs(outputs);
  }

 private:
  void Expect(bool holds, const std::string& problem) const {
    if (!holds) throw InputError(name_, "as an op of kind " + kind_ + ", " + problem);
  }

  // Outputs of the catalogue's kinds are in row-major order; ATen's own may be views.
  void CheckOutputs(std::vector<at::Tensor>* outputs) const {
    Expect(outputs->size() == outputs_.size(), "it gives " + std::to_string(outputs->size()) + " tensors");
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      at::Tensor& output = (*outputs)[i];
      const c10::ScalarType type = ScalarTypeOf(outputs_[i].dtype);
      if (output.scalar_type() != type || output.sizes() != at::IntArrayRef(outputs_[i].shape)) {
        Expect(false, "its output " + std::to_string(i) + " is " + Printed(output.scalar_type(), output.sizes()) +
                          ", where the graph has " + Printed(type, outputs_[i].shape));
      }
      if (!kind_.starts_with(kAten)) output = output.contiguous();
    }
  }

  std::string name_;
  std::string kind_;
  std::size_t num_inputs_;
  std::vector<TensorSpec> outputs_;
  OpFunction function_;
};

}  // namespace

std::unique_ptr<TorchOp> MakeTorchOp(const OpRecipe& op, const c10::Device& device) {
  return std::make_unique<RecipeOp>(op, device);
}

std::vector<std::string> TorchOpKinds() {
  std::vector<std::string> names;
  for (const TorchOpKind& kind : AllKinds()) names.emplace_back(kind.name);
  return names;
}

}  // namespace emplace::profiler
