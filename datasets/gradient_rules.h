#ifndef EMPLACE_DATASETS_GRADIENT_RULES_H_
#define EMPLACE_DATASETS_GRADIENT_RULES_H_

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/builder.h"
#include "datasets/gradients.h"

// The rules of AddGradients(), one for each kind of op.
namespace emplace::datasets {

// The input of a gradient rule: one forward op, and the gradients of its outputs.
class Backward {
 public:
  Backward(NetworkBuilder& net, const NetworkBuilder::Node& op, std::vector<Value> output_gradients)
      : gradients(op.inputs.size()), net_(net), op_(op), output_gradients_(std::move(output_gradients)) {}

  std::vector<Gradient> gradients;  // gradients of the inputs, to be filled

  Value x(std::size_t i) const { return op_.inputs[i]; }
  Value y(std::size_t i) const { return op_.outputs[i]; }
  std::size_t num_inputs() const { return op_.inputs.size(); }
  std::size_t num_outputs() const { return op_.outputs.size(); }
  bool Wanted(std::size_t i) const { return net_.trained(x(i)); }
  const Shape& ShapeOf(Value value) const { return net_.shape(value); }
  DType TypeOf(Value value) const { return net_.dtype(value); }
  const NetworkBuilder::Node& op() const { return op_; }
  // Whether anything that the loss depends on reads output i.
  bool has_dy(std::size_t i) const { return output_gradients_[i].exists(); }
  // The gradient of output i: zeros if nothing depends on it.
  Value dy(std::size_t i) {
    if (output_gradients_[i].exists()) return output_gradients_[i];
    return Emit("fill", {}, {ShapeOf(y(i))}, fmt::format("fill{}", i), net_.dtype(y(i))).front();
  }

  // Adds an op of the backward pass, with the forward op's attrs. Its name ends in `suffix`, or else its kind. Its
  // outputs have `dtype`, or else that of the forward op's output.
  std::vector<Value> Emit(std::string_view kind, std::vector<Value> inputs, const std::vector<Shape>& shapes,
                          std::string_view suffix = {}, DType dtype = DType::kNone) {
    NetworkBuilder::Node node;
    node.name = fmt::format("gradients/{}/{}", op_.name, suffix.empty() ? kind : suffix);
    node.kind = kind;
    // Arguments of a framework's call are not attrs of the op catalogue.
    if (kind != "fill" && kind != "broadcast_grad" && !IsForeignKind(op_.kind)) node.attrs = op_.attrs;
    node.layer = op_.layer;
    node.pass = Pass::kBackward;
    node.inputs = std::move(inputs);
    if (dtype == DType::kNone) dtype = op_.outputs.empty() ? DType::kF32 : net_.dtype(op_.outputs.front());
    std::vector<NetworkBuilder::Output> outputs;
    outputs.reserve(shapes.size());
    for (const Shape& shape : shapes) outputs.push_back({.dtype = IsReal(dtype) ? dtype : DType::kF32, .shape = shape});
    return net_.Add(std::move(node), std::move(outputs));
  }
  // An op as a framework calls it.
  std::vector<Value> EmitCall(std::string_view kind, std::string attrs, double flop, std::vector<Value> inputs,
                              std::vector<NetworkBuilder::Output> outputs, std::string_view suffix = {}) {
    NetworkBuilder::Node node;
    node.name = fmt::format("gradients/{}/{}", op_.name, suffix.empty() ? kind.substr(kind.rfind(':') + 1) : suffix);
    node.kind = kind;
    node.attrs = std::move(attrs);
    node.layer = op_.layer;
    node.pass = Pass::kBackward;
    node.inputs = std::move(inputs);
    node.flop = flop;
    return net_.Add(std::move(node), std::move(outputs));
  }
  // The same for the gradient of input i, if it is wanted.
  void EmitFor(std::size_t i, std::string_view kind, std::vector<Value> inputs, std::string_view suffix = {}) {
    if (Wanted(i))
      gradients[i].values = Emit(kind, std::move(inputs), {ShapeOf(x(i))}, suffix, net_.dtype(x(i))).front();
  }
  // Gives `gradient`, of the output's shape, to input i, summed over what was broadcast.
  void EmitUnbroadcast(std::size_t i, Value gradient) {
    if (!Wanted(i)) return;
    const bool same = ShapeOf(x(i)) == ShapeOf(gradient);
    gradients[i].values =
        same ? gradient
             : Emit("broadcast_grad", {gradient}, {ShapeOf(x(i))}, fmt::format("broadcast_grad{}", i), net_.dtype(x(i)))
                   .front();
  }
  Gradient Sparse(std::string_view kind, std::vector<Value> inputs, std::int64_t count, std::int64_t width) {
    NetworkBuilder::Node node;
    node.name = fmt::format("gradients/{}/{}", op_.name, kind);
    node.kind = kind;
    node.layer = op_.layer;
    node.pass = Pass::kBackward;
    node.inputs = std::move(inputs);
    const std::vector<Value> outputs = net_.Add(std::move(node), {{.dtype = net_.dtype(y(0)), .shape = {count, width}},
                                                                  {.dtype = DType::kI32, .shape = {count}}});
    return {.values = outputs[0], .rows = outputs[1]};
  }

 private:
  NetworkBuilder& net_;
  const NetworkBuilder::Node& op_;
  std::vector<Value> output_gradients_;
};

struct GradientRule {
  std::string_view kind;  // without the overload: aten::silu
  void (*add)(Backward& b);
};

// Gradients of ops that no kind of the catalogue describes, as PyTorch calls them.
//
//   ops                                  gradient of each input
//   elementwise functions                `mul_grad` of dy and the saved tensor: the derivative is computed on the way
//   sums with a number, casts            dy, cast
//   expand                               `broadcast_grad`
//   convolutions                         aten::convolution_backward, both gradients in one op
//   attention                            its backward operator: three gradients of dy, q, k, v, output and row
//   statistics grouped products                     a grouped product for each factor norms dx by `mul_grad`, of scale
//   and offset by `bias_add_grad` flip, roll, repeat                   `slice_grad` where the result is smaller than
//   the input, else `broadcast_grad` all others                           one op for all inputs, NAME_backward: it
//   reads dy and what PyTorch saves
//
// Their costs are close to those of PyTorch's kernels: they read and write the same tensors. Their FLOP may differ.
std::span<const GradientRule> AtenGradientRules();

// The tensors that PyTorch saves for the gradient of an operator, "x0 x2 y1" being arguments 0 and 2 and result 1; "-"
// if it has no gradient, "0" if that is zero everywhere. nullopt if no table says. Source: the table of derivatives of
// PyTorch; operators that PyTorch composes of others save what those do.
std::optional<std::string_view> AtenSavedTensors(std::string_view name);

// The rule of operators without one of their own. What no table lists saves its inputs.
void AddAtenBackward(Backward& b);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_GRADIENT_RULES_H_
