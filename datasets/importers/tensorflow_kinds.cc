#include "datasets/importers/tensorflow_kinds.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "sim/base/json_build.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

std::vector<std::size_t> ComputedInputs(const TfOp& op) {
  std::vector<std::size_t> inputs;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i].op >= 0) inputs.push_back(i);
  }
  return inputs;
}

JsonValue TfListOf(const std::vector<std::int64_t>& values) {
  JsonList list;
  for (const std::int64_t value : values) list.push_back(ToJson(value));
  return ToJson(std::move(list));
}

std::string TfAttrText(JsonObject attrs) { return attrs.empty() ? "" : JsonText(ToJson(std::move(attrs))); }

std::optional<std::int64_t> KnownScalar(const TfOp& op, std::size_t input) {
  if (input >= op.inputs.size() || op.inputs[input].content == nullptr || op.inputs[input].content->is_real ||
      op.inputs[input].content->size() != 1) {
    return std::nullopt;
  }
  return op.inputs[input].content->integers[0];
}

std::int64_t FromFront(std::int64_t axis, const TfType& type) {
  return axis < 0 && type.dims ? axis + static_cast<std::int64_t>(type.dims->size()) : axis;
}

struct TfRow {
  std::string_view kind;
  std::size_t inputs;        // that it computes with; 0: any number
  bool is_reversed = false;  // the kind has the two inputs in the other order
  void (*attrs)(const TfOp& op, JsonObject* attrs) = nullptr;
};

void ProductAttrs(const TfOp& op, JsonObject* attrs) {
  const bool is_batched = op.op.starts_with("Batch");
  for (const auto& [name, flag] : {std::pair("transpose_a", is_batched ? "adj_x" : "transpose_a"),
                                   std::pair("transpose_b", is_batched ? "adj_y" : "transpose_b")}) {
    if (TfFlag(*op.node, flag)) AddMember(attrs, name, true);
  }
}
void AxisOfNode(const TfOp& op, JsonObject* attrs) {
  const TfType& whole = op.op == "Pack" ? op.outputs[0] : op.inputs[0].type;
  AddMember(attrs, "axis", FromFront(TfInteger(*op.node, "axis", 0), whole));
}
void LastIsAxis(const TfOp& op, JsonObject* attrs) {
  if (const auto axis = KnownScalar(op, op.inputs.size() - 1))
    AddMember(attrs, "axis", FromFront(*axis, op.outputs[0]));
}
void FirstIsAxis(const TfOp& op, JsonObject* attrs) {
  if (const auto axis = KnownScalar(op, 0)) AddMember(attrs, "axis", FromFront(*axis, op.outputs[0]));
}
void OrderOfAxes(const TfOp& op, JsonObject* attrs) {
  if (op.inputs.size() > 1 && op.inputs[1].content != nullptr)
    AddMember(attrs, "order", TfListOf(op.inputs[1].content->integers));
}
void ReducedAxes(const TfOp& op, JsonObject* attrs) {
  if (op.inputs.size() < 2 || op.inputs[1].content == nullptr) return;
  std::vector<std::int64_t> axes = op.inputs[1].content->integers;
  for (std::int64_t& axis : axes) axis = FromFront(axis, op.inputs[0].type);
  AddMember(attrs, "axes", TfListOf(axes));
}

const TfRow* FindTfRow(const std::string& op) {
  static const std::unordered_map<std::string_view, TfRow> rows = {
      {"Add", {"add", 2}},
      {"AddN", {"add_n", 0}},
      {"AddV2", {"add", 2}},
      {"ApplyAdam", {"adam", 2}},
      {"ApplyGradientDescent", {"sgd", 2}},
      {"ApplyMomentum", {"momentum", 2}},
      {"ApplyRMSProp", {"rmsprop", 2}},
      {"AssignSub", {"assign_sub", 2}},
      {"AssignSubVariableOp", {"assign_sub", 2}},
      {"BatchMatMul", {"batch_matmul", 2, false, ProductAttrs}},
      {"BatchMatMulV2", {"batch_matmul", 2, false, ProductAttrs}},
      {"BatchMatMulV3", {"batch_matmul", 2, false, ProductAttrs}},
      {"BiasAdd", {"bias_add", 2}},
      {"BiasAddGrad", {"bias_add_grad", 1}},
      {"ConcatV2", {"concat", 0, false, LastIsAxis}},
      {"Div", {"div", 2}},
      {"ExpandDims", {"reshape", 1}},
      {"Gather", {"gather", 2}},
      {"GatherV2", {"gather", 2}},
      {"L2Loss", {"l2_loss", 1}},
      {"MatMul", {"matmul", 2, false, ProductAttrs}},
      {"Max", {"reduce_max", 1, false, ReducedAxes}},
      {"Mean", {"reduce_mean", 1, false, ReducedAxes}},
      {"Mul", {"mul", 2}},
      {"Pack", {"stack", 0, false, AxisOfNode}},
      {"Pad", {"pad", 1}},
      {"RealDiv", {"div", 2}},
      {"Relu", {"relu", 1}},
      {"ReluGrad", {"relu_grad", 2}},
      {"Reshape", {"reshape", 1}},
      {"ResourceApplyAdam", {"adam", 2}},
      {"ResourceApplyGradientDescent", {"sgd", 2}},
      {"ResourceApplyKerasMomentum", {"momentum", 2}},
      {"ResourceApplyMomentum", {"momentum", 2}},
      {"ResourceApplyRMSProp", {"rmsprop", 2}},
      {"ResourceGather", {"gather", 2}},
      {"Sigmoid", {"sigmoid", 1}},
      {"SigmoidGrad", {"sigmoid_grad", 2, true}},
      {"Slice", {"slice", 1}},
      {"Softmax", {"softmax", 1}},
      {"Split", {"split", 1, false, FirstIsAxis}},
      {"Squeeze", {"reshape", 1}},
      {"StridedSlice", {"slice", 1}},
      {"Sub", {"sub", 2}},
      {"Sum", {"reduce_sum", 1, false, ReducedAxes}},
      {"Tanh", {"tanh", 1}},
      {"TanhGrad", {"tanh_grad", 2, true}},
      {"Transpose", {"transpose", 1, false, OrderOfAxes}},
      {"Unpack", {"unstack", 1, false, AxisOfNode}},
  };
  const auto found = rows.find(op);
  return found == rows.end() ? nullptr : &found->second;
}

// The input that is a shape, of operators that read it beside their data.
std::optional<std::size_t> ShapeOperand(const std::string& op) {
  static const std::unordered_map<std::string_view, std::size_t> operands = {{"AvgPoolGrad", 0},
                                                                             {"AvgPool3DGrad", 0},
                                                                             {"BroadcastTo", 1},
                                                                             {"Conv2DBackpropFilter", 1},
                                                                             {"Conv2DBackpropInput", 0},
                                                                             {"Conv3DBackpropFilterV2", 1},
                                                                             {"Conv3DBackpropInputV2", 0},
                                                                             {"DepthwiseConv2dNativeBackpropFilter", 1},
                                                                             {"DepthwiseConv2dNativeBackpropInput", 0},
                                                                             {"ExpandDims", 1},
                                                                             {"Fill", 0},
                                                                             {"Pad", 1},
                                                                             {"Reshape", 1},
                                                                             {"Tile", 1},
                                                                             {"Transpose", 1}};
  const auto found = operands.find(op);
  return found == operands.end() ? std::nullopt : std::optional(found->second);
}

void TakeOutShape(const TfOp& op, TfKind* kind) {
  const auto shape = ShapeOperand(op.op);
  if (!shape || std::erase(kind->inputs, *shape) == 0) return;
  kind->waits.push_back(*shape);
}

}  // namespace

TfKind CataloguedTfKind(const TfOp& op) {
  TfKind kind;
  const TfRow* const row = FindTfRow(op.op);
  kind.inputs = ComputedInputs(op);
  TakeOutShape(op, &kind);
  const bool has_outputs = op.role == TfOp::Role::kUpdate || !op.outputs.empty();
  if (row == nullptr || !has_outputs || kind.inputs.empty() || (row->inputs != 0 && kind.inputs.size() != row->inputs))
    return {};
  // A part that is known has no op, and would be missing in what is put together.
  const std::size_t known = op.op == "ConcatV2" ? 1 : 0;
  if (row->inputs == 0 && kind.inputs.size() + known < op.inputs.size()) return {};
  // A table of rows, along the first axis.
  if (row->kind == "gather" && KnownScalar(op, 2).value_or(0) != 0) return {};
  kind.kind = row->kind;
  if (row->is_reversed) std::swap(kind.inputs[0], kind.inputs[1]);
  JsonObject attrs;
  if (row->attrs != nullptr) row->attrs(op, &attrs);
  kind.attrs = TfAttrText(std::move(attrs));
  return kind;
}

TfKind TfKindAsItIs(const TfOp& op) {
  TfKind kind;
  kind.kind = "tf::" + op.op;
  kind.inputs = ComputedInputs(op);
  TakeOutShape(op, &kind);
  JsonObject attrs;
  if (op.op != op.node->op()) return kind;
  for (const char* const name : {"adj_x", "adj_y", "transpose_a", "transpose_b", "is_training"}) {
    if (TfFlag(*op.node, name)) AddMember(&attrs, name, true);
  }
  for (const char* const name : {"ksize", "strides", "dilations"}) {
    if (const auto values = TfIntegers(*op.node, name); !values.empty()) AddMember(&attrs, name, TfListOf(values));
  }
  for (const char* const name : {"equation", "padding", "data_format"}) {
    if (const std::string text = TfText(*op.node, name); !text.empty() && IsValidUtf8(text))
      AddMember(&attrs, name, text);
  }
  kind.attrs = TfAttrText(std::move(attrs));
  return kind;
}

}  // namespace emplace::datasets
