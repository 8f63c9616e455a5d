#include "datasets/importers/tensorflow_tracer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>

#include "datasets/importers/tensorflow_body.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace tf_trace {
namespace {

using tensorflow::NodeDef;

constexpr std::size_t kMostOps = 4'000'000;        // of a step
constexpr std::size_t kMostUnrolledOps = 200'000;  // of a loop
constexpr std::size_t kMostIterations = 100'000;
constexpr int kDeepestCall = 64;
constexpr std::size_t kMostElements = 1'000'000;  // of a list of tensors

// What a node left behind.
struct State {
  std::vector<TfValue> outputs;
  std::vector<std::int32_t> anchors;  // ops that a node which waits for this one waits for
  std::int32_t op = TfValue::kNoOp;
};

// Where nodes are run: in the graph, in a call, or in an iteration.
struct Scope {
  std::string prefix;                 // "" or ends in '/'
  std::string suffix;                 // "[3]", or those of all loops around
  std::vector<std::int32_t> anchors;  // ops that end before any of its nodes begins
  std::size_t first_op = 0;
  int depth = 0;
};

bool Is(const std::string& op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

bool IsPassedOn(const std::string& op) {
  return Is(op, {"Identity", "RefIdentity", "IdentityN", "StopGradient", "PreventGradient", "Snapshot",
                 "PlaceholderWithDefault", "ReadVariableOp", "LoopCond", "CheckNumerics", "Enter", "RefEnter", "Exit",
                 "RefExit", "NextIteration", "Print", "PrintV2Input", "OptimizationBarrier", "EnsureShape"});
}

bool IsUpdate(const std::string& op) {
  for (const std::string_view prefix :
       {"Apply", "ResourceApply", "SparseApply", "ResourceSparseApply", "ResourceScatter", "Assign"}) {
    if (op.starts_with(prefix)) return true;
  }
  return Is(op, {"ScatterAdd", "ScatterSub", "ScatterUpdate", "ScatterNdUpdate", "ScatterNdAdd"});
}

bool IsLoop(const std::string& op) { return Is(op, {"While", "StatelessWhile"}); }
bool IsBranch(const std::string& op) { return Is(op, {"If", "StatelessIf", "Case", "StatelessCase"}); }
bool IsSource(const std::string& op) {
  return Is(op, {"Placeholder", "PlaceholderV2", "IteratorGetNext", "IteratorGetNextSync", "_Arg", "QueueDequeueV2",
                 "QueueDequeueManyV2", "ReaderReadV2"});
}

std::int64_t BytesOf(const TfType& type) {
  constexpr double kMost = 0x1p61;
  if (!type.HasShape()) return 0;
  double width = 4;
  if (Is(tensorflow::DataType_Name(type.dtype), {"DT_DOUBLE", "DT_INT64", "DT_UINT64", "DT_COMPLEX64"})) width = 8;
  if (Is(tensorflow::DataType_Name(type.dtype), {"DT_HALF", "DT_BFLOAT16", "DT_INT16", "DT_UINT16"})) width = 2;
  if (Is(tensorflow::DataType_Name(type.dtype), {"DT_INT8", "DT_UINT8", "DT_BOOL"})) width = 1;
  return static_cast<std::int64_t>(std::min(kMost, width * type.Elements()));
}

TfValue Known(tensorflow::DataType dtype, std::vector<std::int64_t> integers, bool is_scalar) {
  TfValue value;
  value.type.dtype = dtype;
  value.type.dims = is_scalar ? std::vector<std::int64_t>{} : std::vector{static_cast<std::int64_t>(integers.size())};
  auto content = std::make_shared<TfContent>();
  content->integers = std::move(integers);
  value.content = std::move(content);
  return value;
}

std::optional<std::int64_t> ScalarIn(const TfValue& value) {
  if (value.content == nullptr || value.content->is_real || value.content->size() != 1) return std::nullopt;
  return value.content->integers[0];
}

class Tracer {
 public:
  Tracer(const TensorFlowFile& file, const std::vector<InputShape>& inputs,
         const std::map<std::string, TfType>& learned)
      : file_(file), inputs_(inputs), learned_(learned) {
    for (const auto& function : file.graph.library().function()) {
      functions_[function.signature().name()] = &function;
    }
  }

  TfProgram Run() {
    const TfBody body = BodyOfGraph(file_);
    RunBody(body, {}, {});
    for (const InputShape& input : inputs_) {
      if (!used_inputs_.contains(input.name)) {
        throw InputError("--input", fmt::format("{} is none of the placeholders ({})", Quoted(input.name),
                                                fmt::join(placeholders_, ", ")));
      }
    }
    FinishVariables();
    return std::move(program_);
  }

  // Shapes of variables that followed from what is assigned to them.
  std::map<std::string, TfType> Learned() const { return newly_learned_; }

 private:
  // ---- Bodies

  std::vector<TfValue> RunBody(const TfBody& body, const std::vector<TfValue>& arguments, Scope scope) {
    scope.first_op = program_.ops.size();
    std::vector<State> states(body.nodes.size());
    for (std::size_t i = 0; i < body.nodes.size(); ++i) {
      const TfBody::Node& node = body.nodes[i];
      std::vector<TfValue> inputs;
      inputs.reserve(node.inputs.size());
      for (const TfBody::Edge& edge : node.inputs) inputs.push_back(ValueOf(edge, arguments, &states, *node.def));
      std::vector<std::int32_t> anchors;
      for (const std::int32_t control : node.controls) {
        const auto& before = states[static_cast<std::size_t>(control)].anchors;
        anchors.insert(anchors.end(), before.begin(), before.end());
      }
      std::sort(anchors.begin(), anchors.end());
      anchors.erase(std::unique(anchors.begin(), anchors.end()), anchors.end());
      states[i] =
          WithPlace(*node.def, scope, [&] { return RunNode(node, std::move(inputs), std::move(anchors), scope); });
    }
    std::vector<TfValue> results;
    for (const TfBody::Edge& edge : body.results) {
      results.push_back(
          ValueOf(edge, arguments, &states, body.nodes.empty() ? NodeDef::default_instance() : *body.nodes.back().def));
    }
    return results;
  }

  template <typename Function>
  State WithPlace(const NodeDef& node, const Scope& scope, const Function& run) {
    try {
      return run();
    } catch (const InputError& error) {
      // Inner nodes have said where.
      if (std::string_view(error.what()).starts_with("node ") ||
          std::string_view(error.what()).starts_with("function ") || std::string_view(error.what()).starts_with("--"))
        throw;
      throw InputError("node " + Quoted(scope.prefix + node.name() + scope.suffix), error.what());
    }
  }

  TfValue ValueOf(const TfBody::Edge& edge, const std::vector<TfValue>& arguments, std::vector<State>* states,
                  const NodeDef& reader) {
    if (edge.node < 0) {
      const auto argument = static_cast<std::size_t>(-1 - edge.node);
      if (argument >= arguments.size())
        throw InputError("node " + Quoted(reader.name()), "reads an argument that its function is not given");
      return arguments[argument];
    }
    State& state = (*states)[static_cast<std::size_t>(edge.node)];
    const auto output = static_cast<std::size_t>(edge.output);
    constexpr std::size_t kMostOutputs = 65'536;
    while (output >= state.outputs.size() && state.op != TfValue::kNoOp && output < kMostOutputs) {
      TfOp& op = program_.ops[static_cast<std::size_t>(state.op)];
      TfValue value;
      value.op = state.op;
      value.output = static_cast<std::int32_t>(state.outputs.size());
      if (value.output == 0) value.type.dtype = TfDataType(*op.node, "T");
      op.outputs.push_back(value.type);
      state.outputs.push_back(value);
    }
    if (output >= state.outputs.size()) {
      throw InputError("node " + Quoted(reader.name()),
                       fmt::format("reads output {} of a node that has {}", output, state.outputs.size()));
    }
    return state.outputs[output];
  }

  State RunNode(const TfBody::Node& node, std::vector<TfValue> inputs, std::vector<std::int32_t> anchors,
                const Scope& scope) {
    const NodeDef& def = *node.def;
    const std::string& op = def.op();
    if (node.loop != nullptr) {
      return RunLoop(def, node.loop->condition, node.loop->body, std::move(inputs), node.loop->variables, anchors,
                     scope, "");
    }
    if (op == "Merge" || op == "RefMerge") return Merge(inputs);
    const bool is_dead = std::any_of(inputs.begin(), inputs.end(), [](const TfValue& value) { return value.is_dead; });
    if (is_dead) return Dead();
    if (op == "Switch" || op == "RefSwitch") return Switch(inputs);
    if (op == "Const" || op == "HostConst") return Constant(def, scope);
    if (Is(op, {"VarHandleOp", "VariableV2", "Variable", "TemporaryVariable"}))
      return {{Variable(def, scope, {})}, {}, TfValue::kNoOp};
    if (IsSource(op)) return Source(def, scope);
    if (Is(op, {"NoOp", "Assert", "ControlTrigger", "DisableCopyOnRead", "DestroyResourceOp"}))
      return Group(def, std::move(anchors), scope);
    if (IsPassedOn(op)) return PassOn(def, std::move(inputs), std::move(anchors), scope);
    if (IsLoop(op)) return RunWhile(def, std::move(inputs), anchors, scope);
    if (IsBranch(op)) return RunBranch(def, inputs, anchors, scope);
    if (const auto* const function = FunctionOf(def)) return RunCall(def, *function, inputs, anchors, scope);
    if (IsUpdate(op)) return Update(def, std::move(inputs), std::move(anchors), scope);
    if (auto state = OnLists(def, inputs, anchors, scope)) return std::move(*state);
    if (auto state = OnArrays(def, inputs, anchors, scope)) return std::move(*state);
    return Compute(def, std::move(inputs), std::move(anchors), scope);
  }

  // ---- Ops

  std::int32_t Emit(TfOp op, const Scope& scope) {
    if (program_.ops.size() >= kMostOps) throw InputError("", fmt::format("the step has more than {} ops", kMostOps));
    bool has_own_input = false;
    for (TfValue& input : op.inputs) {
      if (input.variable >= 0 && op.role != TfOp::Role::kVariable) Resolve(&input);
      has_own_input = has_own_input ||
                      (input.op >= 0 && static_cast<std::size_t>(input.op) >= scope.first_op && !IsSourceOp(input.op));
    }
    if (!has_own_input) op.controls.insert(op.controls.end(), scope.anchors.begin(), scope.anchors.end());
    std::sort(op.controls.begin(), op.controls.end());
    op.controls.erase(std::unique(op.controls.begin(), op.controls.end()), op.controls.end());
    std::erase_if(op.controls, [&](std::int32_t control) { return IsSourceOp(control); });
    program_.ops.push_back(std::move(op));
    return static_cast<std::int32_t>(program_.ops.size() - 1);
  }

  bool IsSourceOp(std::int32_t op) const {
    const TfOp::Role role = program_.ops[static_cast<std::size_t>(op)].role;
    return role == TfOp::Role::kInput || role == TfOp::Role::kVariable;
  }

  // Makes a value of a variable that of the op which holds it.
  void Resolve(TfValue* value) {
    TfVariable& variable = program_.variables[static_cast<std::size_t>(value->variable)];
    if (variable.op == TfValue::kNoOp) {
      TfOp op;
      op.role = TfOp::Role::kVariable;
      op.name = variable.name;
      op.node = variable.node;
      op.op = variable.node->op();
      op.outputs = {variable.type};
      program_.ops.push_back(std::move(op));
      variable.op = static_cast<std::int32_t>(program_.ops.size() - 1);
    }
    value->op = variable.op;
    value->output = 0;
    value->type = variable.type;
  }

  TfOp Begin(const NodeDef& node, const Scope& scope) {
    TfOp op;
    op.node = &node;
    op.op = node.op();
    op.name = scope.prefix + node.name() + scope.suffix;
    const std::string first = scope.prefix + node.name() + FirstIteration(scope.suffix);
    if (first != op.name) {
      op.colocate_with = first;
    } else if (const auto* const classes = FindTfAttr(node, "_class")) {
      constexpr std::string_view kPrefix = "loc:@";
      for (const std::string& text : classes->list().s()) {
        if (text.starts_with(kPrefix)) op.colocate_with = scope.prefix + text.substr(kPrefix.size()) + scope.suffix;
      }
    }
    return op;
  }

  // "[3][2]" becomes "[0][0]".
  static std::string FirstIteration(const std::string& suffix) {
    std::string first;
    for (const char c : suffix) {
      if (c == '[') first += "[0]";
    }
    return first;
  }

  static std::vector<TfValue> OutputsOf(std::int32_t op, const std::vector<TfType>& types) {
    std::vector<TfValue> values;
    for (std::size_t i = 0; i < types.size(); ++i) {
      TfValue value;
      value.type = types[i];
      value.op = op;
      value.output = static_cast<std::int32_t>(i);
      values.push_back(std::move(value));
    }
    return values;
  }

  State EmitNode(TfOp op, std::vector<TfValue> inputs, std::vector<std::int32_t> anchors, const Scope& scope) {
    op.inputs = std::move(inputs);
    op.controls = std::move(anchors);
    std::vector<TfType> types = op.outputs;
    const std::int32_t id = Emit(std::move(op), scope);
    return {OutputsOf(id, types), {id}, id};
  }

  // An op of tensors that stands for what an operator of lists does.
  std::vector<TfValue> EmitAs(const NodeDef& node, std::string_view name, std::vector<TfValue> inputs,
                              std::vector<TfType> outputs, const std::vector<std::int32_t>& anchors,
                              const Scope& scope) {
    TfOp op = Begin(node, scope);
    op.op = name;
    op.outputs = std::move(outputs);
    return EmitNode(std::move(op), std::move(inputs), anchors, scope).outputs;
  }

  State Compute(const NodeDef& node, std::vector<TfValue> inputs, std::vector<std::int32_t> anchors,
                const Scope& scope) {
    for (TfValue& input : inputs) {
      if (input.variable >= 0) input.type = program_.variables[static_cast<std::size_t>(input.variable)].type;
    }
    std::vector<TfType> types = InferTfTypes(node, inputs);
    auto contents = FoldTf(node, inputs, types);
    for (std::size_t i = 0; i < types.size(); ++i) {
      // A vector's length that no shape function gives.
      const bool is_free = types[i].dims && types[i].dims->size() == 1 && (*types[i].dims)[0] == TfType::kFree;
      if (is_free && contents[i] != nullptr) (*types[i].dims)[0] = static_cast<std::int64_t>(contents[i]->size());
      if (contents[i] != nullptr &&
          (!types[i].HasShape() || types[i].Elements() != static_cast<double>(contents[i]->size())))
        contents[i] = nullptr;
    }
    const bool is_of_weights =
        std::any_of(inputs.begin(), inputs.end(), [](const TfValue& input) { return input.variable >= 0; }) &&
        !types.empty() && IsRealTfType(types[0].dtype);
    const bool is_known = !types.empty() && std::all_of(contents.begin(), contents.end(),
                                                        [](const auto& content) { return content != nullptr; });
    if (is_known && !is_of_weights) {
      State state;
      for (std::size_t i = 0; i < types.size(); ++i) {
        TfValue value;
        value.type = types[i];
        value.content = contents[i];
        state.outputs.push_back(std::move(value));
      }
      state.anchors = std::move(anchors);
      return state;
    }
    TfOp op = Begin(node, scope);
    op.outputs = std::move(types);
    State state = EmitNode(std::move(op), std::move(inputs), std::move(anchors), scope);
    for (std::size_t i = 0; i < contents.size(); ++i) state.outputs[i].content = contents[i];
    return state;
  }

  // ---- Values that nothing computes

  static State Dead() {
    TfValue dead;
    dead.is_dead = true;
    return {std::vector<TfValue>(16, dead), {}, TfValue::kNoOp};
  }

  State Merge(const std::vector<TfValue>& inputs) {
    const auto alive = std::find_if(inputs.begin(), inputs.end(), [](const TfValue& value) { return !value.is_dead; });
    if (alive == inputs.end()) return Dead();
    State state;
    state.outputs = {*alive, Known(tensorflow::DT_INT32, {alive - inputs.begin()}, true)};
    if (alive->op >= 0) state.anchors = {alive->op};
    return state;
  }

  State Switch(const std::vector<TfValue>& inputs) {
    if (inputs.size() != 2)
      throw InputError("", fmt::format("Switch has {} inputs (2: data and condition)", inputs.size()));
    State state;
    state.outputs = {inputs[0], inputs[0]};
    if (const auto taken = ScalarIn(inputs[1])) state.outputs[*taken != 0 ? 0 : 1].is_dead = true;
    if (inputs[0].op >= 0) state.anchors.push_back(inputs[0].op);
    if (inputs[1].op >= 0) state.anchors.push_back(inputs[1].op);
    return state;
  }

  State Constant(const NodeDef& node, const Scope& scope) {
    const auto* const attr = FindTfAttr(node, "value");
    if (attr == nullptr) throw InputError("", "has no attribute value, which a Const has");
    TfValue value;
    value.type.dtype = WithoutReference(attr->tensor().dtype());
    value.type.dims = TfDims(attr->tensor().tensor_shape());
    value.content = ContentOfTensor(attr->tensor(), value.type);
    const bool is_weight = IsRealTfType(value.type.dtype) && value.type.dims && !value.type.dims->empty();
    if (is_weight || value.content == nullptr)
      value.variable = AddVariable(node, scope.prefix + node.name(), value.type);
    return {{value}, {}, TfValue::kNoOp};
  }

  std::int32_t AddVariable(const NodeDef& node, const std::string& name, const TfType& type) {
    const auto [found, is_new] = variable_ids_.emplace(name, program_.variables.size());
    if (is_new) program_.variables.push_back({.name = name, .type = type, .node = &node, .op = TfValue::kNoOp});
    return static_cast<std::int32_t>(found->second);
  }

  const InputShape* GivenShape(const std::string& name) {
    const auto found =
        std::find_if(inputs_.begin(), inputs_.end(), [&](const InputShape& input) { return input.name == name; });
    if (found == inputs_.end()) return nullptr;
    used_inputs_.insert(name);
    return &*found;
  }

  // A handle, or a reference. `type`: given for resources that come in from outside.
  TfValue Variable(const NodeDef& node, const Scope& scope, TfType type) {
    const std::string name = scope.prefix + node.name();
    if (type.dtype == tensorflow::DT_INVALID) {
      type.dtype = TfDataType(node, "dtype");
      if (const auto* const shape = FindTfAttr(node, "shape")) type.dims = TfDims(shape->shape());
    }
    if (const auto found = learned_.find(name); found != learned_.end()) type = found->second;
    TfValue value;
    value.variable = AddVariable(node, name, type);
    value.type = type;
    return value;
  }

  State Source(const NodeDef& node, const Scope& scope) {
    const std::string name = scope.prefix + node.name();
    placeholders_.push_back(name);
    const InputShape* const given = GivenShape(name);
    if (TfDataType(node, "dtype") == tensorflow::DT_RESOURCE) {
      TfType type{tensorflow::DT_FLOAT, std::nullopt};
      if (given != nullptr) type.dims = given->dims;
      return {{Variable(node, scope, type)}, {}, TfValue::kNoOp};
    }
    std::vector<TfType> types;
    const auto* const shapes = FindTfAttr(node, "output_shapes");
    const auto* const output_types = FindTfAttr(node, "output_types");
    if (shapes != nullptr && output_types != nullptr) {
      for (int i = 0; i < output_types->list().type_size(); ++i) {
        types.push_back({output_types->list().type(i),
                         i < shapes->list().shape_size() ? TfDims(shapes->list().shape(i)) : std::nullopt});
      }
    } else {
      const auto* const shape = FindTfAttr(node, "shape");
      types.push_back({TfDataType(node, "dtype"), shape == nullptr ? std::nullopt : TfDims(shape->shape())});
    }
    if (given != nullptr && !types.empty()) types[0].dims = given->dims;
    TfOp op = Begin(node, scope);
    op.role = TfOp::Role::kInput;
    op.outputs = types;
    return EmitNode(std::move(op), {}, {}, scope);
  }

  // What only waits. Where many wait for many, an op keeps the number of edges small.
  State Group(const NodeDef& node, std::vector<std::int32_t> anchors, const Scope& scope) {
    constexpr std::size_t kFew = 8;
    if (anchors.size() <= kFew || node.op() != "NoOp") return {{}, std::move(anchors), TfValue::kNoOp};
    TfOp op = Begin(node, scope);
    return EmitNode(std::move(op), {}, std::move(anchors), scope);
  }

  State PassOn(const NodeDef& node, std::vector<TfValue> inputs, std::vector<std::int32_t> anchors,
               const Scope& scope) {
    if (inputs.empty()) throw InputError("", fmt::format("{} has no input", node.op()));
    if (node.op() != "IdentityN") inputs.resize(1);
    for (TfValue& input : inputs) {
      if (node.op() == "ReadVariableOp" && input.variable < 0 && input.list == nullptr) {
        throw InputError("", "ReadVariableOp reads what is not a variable");
      }
      if (input.variable >= 0) input.type = program_.variables[static_cast<std::size_t>(input.variable)].type;
      if (node.op() == "ReadVariableOp" && input.type.dtype == tensorflow::DT_INVALID)
        input.type.dtype = TfDataType(node, "dtype");
      if (input.op >= 0) std::erase(anchors, input.op);
    }
    const bool is_known = inputs[0].op == TfValue::kNoOp && inputs[0].variable < 0;
    std::erase_if(anchors, [&](std::int32_t anchor) { return IsSourceOp(anchor); });
    if (anchors.empty() || is_known || inputs[0].list != nullptr || inputs.size() > 1) {
      for (const TfValue& input : inputs) {
        if (input.op >= 0) anchors.push_back(input.op);
      }
      return {std::move(inputs), std::move(anchors), TfValue::kNoOp};
    }
    // It waits for something else: a value that is read after an update, for example.
    TfOp op = Begin(node, scope);
    op.op = "Identity";
    op.outputs = {inputs[0].type};
    const auto content = inputs[0].content;
    State state = EmitNode(std::move(op), std::move(inputs), std::move(anchors), scope);
    state.outputs[0].content = content;
    return state;
  }

  // ---- Variables

  State Update(const NodeDef& node, std::vector<TfValue> inputs, std::vector<std::int32_t> anchors,
               const Scope& scope) {
    if (inputs.empty()) throw InputError("", fmt::format("{} has no input", node.op()));
    if (inputs[0].variable < 0) return Compute(node, std::move(inputs), std::move(anchors), scope);
    const std::int32_t variable = inputs[0].variable;
    TfOp op = Begin(node, scope);
    op.role = TfOp::Role::kUpdate;
    std::vector<TfValue> read{inputs[0]};
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      const bool is_slot = inputs[i].variable >= 0 && op.op.find("Apply") != std::string::npos &&
                           program_.variables[static_cast<std::size_t>(inputs[i].variable)].node->op() != "Const";
      if (is_slot) {
        op.slots.push_back(static_cast<std::size_t>(inputs[i].variable));
      } else {
        read.push_back(inputs[i]);
        Learn(variable, inputs[i].type);
      }
    }
    op.outputs = {};
    if (op.colocate_with.empty()) op.colocate_with = program_.variables[static_cast<std::size_t>(variable)].name;
    State state = EmitNode(std::move(op), std::move(read), std::move(anchors), scope);
    state.op = TfValue::kNoOp;
    TfValue after = inputs[0];
    Resolve(&after);
    state.outputs = {after};
    return state;
  }

  // A dense update has the variable's shape.
  void Learn(std::int32_t id, const TfType& type) {
    TfVariable& variable = program_.variables[static_cast<std::size_t>(id)];
    if (variable.type.HasShape() || !type.HasShape() || type.dims->empty()) return;
    newly_learned_.emplace(variable.name, type);
  }

  void FinishVariables() {
    for (TfOp& op : program_.ops) {
      for (const std::size_t slot : op.slots) {
        const TfVariable& variable = program_.variables[slot];
        if (variable.op == TfValue::kNoOp) op.slot_bytes += BytesOf(variable.type);
      }
    }
    for (const TfVariable& variable : program_.variables) {
      if (variable.op != TfValue::kNoOp && !variable.type.HasShape())
        program_.unshaped_variables.push_back(variable.name);
    }
  }

  // ---- Functions

  const TfBody& BodyOf(const tensorflow::FunctionDef& function) {
    auto& body = bodies_[function.signature().name()];
    if (body == nullptr) body = std::make_unique<TfBody>(BodyOfFunction(file_, function));
    return *body;
  }

  const tensorflow::FunctionDef* FindFunction(const std::string& name) const {
    const auto found = functions_.find(name);
    return found == functions_.end() ? nullptr : found->second;
  }
  const tensorflow::FunctionDef& NamedFunction(const NodeDef& node, const std::string& attr) const {
    const auto* const named = FindTfAttr(node, attr);
    const tensorflow::FunctionDef* const function = named == nullptr ? nullptr : FindFunction(named->func().name());
    if (function == nullptr) {
      throw InputError("", fmt::format("{} {} is not in the library", attr,
                                       named == nullptr ? "that it calls" : Quoted(named->func().name())));
    }
    return *function;
  }
  const tensorflow::FunctionDef* FunctionOf(const NodeDef& node) const {
    if (Is(node.op(), {"PartitionedCall", "StatefulPartitionedCall", "TPUPartitionedCall", "RemoteCall"})) {
      return &NamedFunction(node, "f");
    }
    return FindFunction(node.op());
  }

  static Scope Inside(const Scope& scope, const NodeDef& node, const std::vector<std::int32_t>& anchors) {
    if (scope.depth >= kDeepestCall)
      throw InputError("", fmt::format("calls functions more than {} deep", kDeepestCall));
    Scope inner = scope;
    inner.prefix = scope.prefix + node.name() + "/";
    inner.anchors.insert(inner.anchors.end(), anchors.begin(), anchors.end());
    ++inner.depth;
    return inner;
  }

  // What waits for a call waits for its results and its effects.
  State Returned(std::vector<TfValue> results, std::size_t first_op, const std::vector<std::int32_t>& anchors) const {
    State state{std::move(results), anchors, TfValue::kNoOp};
    for (const TfValue& value : state.outputs) {
      if (value.op >= 0) state.anchors.push_back(value.op);
    }
    for (std::size_t i = first_op; i < program_.ops.size(); ++i) {
      if (program_.ops[i].role == TfOp::Role::kUpdate) state.anchors.push_back(static_cast<std::int32_t>(i));
    }
    return state;
  }

  State RunCall(const NodeDef& node, const tensorflow::FunctionDef& function, const std::vector<TfValue>& inputs,
                const std::vector<std::int32_t>& anchors, const Scope& scope) {
    const std::size_t first_op = program_.ops.size();
    if (inputs.size() != static_cast<std::size_t>(function.signature().input_arg_size())) {
      throw InputError("", fmt::format("calls {} with {} inputs (it has {})", Quoted(function.signature().name()),
                                       inputs.size(), function.signature().input_arg_size()));
    }
    std::vector<TfValue> results = RunBody(BodyOf(function), inputs, Inside(scope, node, anchors));
    return Returned(std::move(results), first_op, anchors);
  }

  // ---- Branches

  State RunBranch(const NodeDef& node, const std::vector<TfValue>& inputs, const std::vector<std::int32_t>& anchors,
                  const Scope& scope) {
    if (inputs.empty()) throw InputError("", fmt::format("{} has no condition", node.op()));
    std::vector<const tensorflow::FunctionDef*> branches;
    if (node.op().ends_with("If")) {
      branches = {&NamedFunction(node, "then_branch"), &NamedFunction(node, "else_branch")};
    } else if (const auto* const list = FindTfAttr(node, "branches")) {
      for (const auto& named : list->list().func()) {
        const auto* const function = FindFunction(named.name());
        if (function == nullptr)
          throw InputError("", fmt::format("branch {} is not in the library", Quoted(named.name())));
        branches.push_back(function);
      }
    }
    if (branches.empty()) throw InputError("", fmt::format("{} has no branches", node.op()));
    const std::vector<TfValue> arguments(inputs.begin() + 1, inputs.end());
    std::size_t taken = 0;
    if (const auto condition = ScalarIn(inputs[0])) {
      taken = node.op().ends_with("If") ? (*condition != 0 ? 0 : 1)
                                        : static_cast<std::size_t>(std::clamp<std::int64_t>(
                                              *condition, 0, static_cast<std::int64_t>(branches.size()) - 1));
    } else {
      std::size_t most = 0;
      for (std::size_t i = 0; i < branches.size(); ++i) {
        const Saved saved = Save();
        const std::size_t before = program_.ops.size();
        RunCall(node, *branches[i], arguments, anchors, scope);
        const std::size_t count = program_.ops.size() - before;
        Restore(saved);
        if (count > most) {
          most = count;
          taken = i;
        }
      }
      program_.assumed.push_back(fmt::format("{} {}: {}", node.op(), Quoted(scope.prefix + node.name() + scope.suffix),
                                             Quoted(branches[taken]->signature().name())));
    }
    std::vector<std::int32_t> waits = anchors;
    if (inputs[0].op >= 0) waits.push_back(inputs[0].op);
    return RunCall(node, *branches[taken], arguments, waits, scope);
  }

  // ---- Loops

  // What has to be undone where a loop turns out to be too long, or a branch is not the one. Ops are only appended.
  struct Saved {
    std::size_t ops = 0;
    std::size_t loops = 0;
    std::size_t assumed = 0;
    std::size_t kept = 0;
    std::map<std::int32_t, std::vector<TfValue>> arrays;
    std::map<std::pair<std::int32_t, std::string>, std::int32_t> gradients;
  };
  Saved Save() const {
    return {program_.ops.size(), program_.loops.size(), program_.assumed.size(), program_.kept.size(), arrays_,
            gradients_};
  }
  void Restore(const Saved& saved) {
    Forget(saved.ops);
    program_.loops.resize(saved.loops);
    program_.assumed.resize(saved.assumed);
    program_.kept.resize(saved.kept);
    arrays_ = saved.arrays;
    gradients_ = saved.gradients;
  }

  State RunWhile(const NodeDef& node, std::vector<TfValue> inputs, const std::vector<std::int32_t>& anchors,
                 const Scope& scope) {
    const auto& condition = NamedFunction(node, "cond");
    const auto& body = NamedFunction(node, "body");
    for (const auto* const function : {&condition, &body}) {
      if (static_cast<std::size_t>(function->signature().input_arg_size()) == inputs.size()) continue;
      throw InputError("", fmt::format("loops over {} with {} inputs (it has {})", Quoted(function->signature().name()),
                                       inputs.size(), function->signature().input_arg_size()));
    }
    const std::size_t variables = inputs.size();
    return RunLoop(node, BodyOf(condition), BodyOf(body), std::move(inputs), variables, anchors, scope,
                   node.name() + "/");
  }

  // `values`: variables of the loop, then constants.
  State RunLoop(const NodeDef& node, const TfBody& condition, const TfBody& body, std::vector<TfValue> values,
                std::size_t variables, const std::vector<std::int32_t>& anchors, const Scope& scope,
                const std::string& prefix) {
    if (scope.depth >= kDeepestCall)
      throw InputError("", fmt::format("loops are nested more than {} deep", kDeepestCall));
    if (std::any_of(values.begin(), values.end(), [](const TfValue& value) { return value.is_dead; })) return Dead();
    const std::string frame = TfText(node, "frame_name");  // of a loop of control-flow nodes
    const std::string name = scope.prefix + (frame.empty() ? node.name() : frame) + scope.suffix;
    const Saved saved = Save();
    const std::vector<TfValue> initial = values;
    const std::size_t first_op = program_.ops.size();
    std::size_t iterations = 0;
    bool is_assumed = false;
    Scope inner = scope;
    inner.prefix = scope.prefix + prefix;
    inner.anchors.insert(inner.anchors.end(), anchors.begin(), anchors.end());
    ++inner.depth;
    for (;; ++iterations) {
      inner.suffix = scope.suffix + fmt::format("[{}]", iterations);
      // The condition's own ops are scalars beside the loop's work.
      const std::size_t before = program_.ops.size();
      const std::vector<TfValue> results = RunBody(condition, values, inner);
      Forget(before);
      const auto goes_on = results.empty() ? std::nullopt : ScalarIn(results[0]);
      if (goes_on && *goes_on == 0) break;
      is_assumed = is_assumed || !goes_on;
      if (iterations >= kMostIterations || program_.ops.size() - first_op > kMostUnrolledOps) {
        Restore(saved);
        return KeepLoop(node, name, initial, variables, anchors, scope);
      }
      std::vector<TfValue> next = RunBody(body, values, inner);
      if (next.size() != variables)
        throw InputError("", fmt::format("an iteration gives {} values for {} variables", next.size(), variables));
      // An iteration that changes nothing never ends by what is known.
      if (!goes_on && !ChangesContent(values, next)) {
        Restore(saved);
        return KeepLoop(node, name, initial, variables, anchors, scope);
      }
      std::move(next.begin(), next.end(), values.begin());
    }
    program_.loops.emplace_back(name, iterations);
    if (is_assumed) program_.assumed.push_back(fmt::format("loop {}: {} iterations", Quoted(name), iterations));
    values.resize(variables);
    return Returned(std::move(values), first_op, anchors);
  }

  // Takes back the ops from this one on.
  void Forget(std::size_t first_op) {
    for (TfVariable& variable : program_.variables) {
      if (variable.op >= 0 && static_cast<std::size_t>(variable.op) >= first_op) variable.op = TfValue::kNoOp;
    }
    program_.ops.erase(program_.ops.begin() + static_cast<std::ptrdiff_t>(first_op), program_.ops.end());
  }

  static bool ChangesContent(const std::vector<TfValue>& before, const std::vector<TfValue>& after) {
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (after[i].content != nullptr && before[i].content != nullptr &&
          (after[i].content->integers != before[i].content->integers ||
           after[i].content->numbers != before[i].content->numbers)) {
        return true;
      }
    }
    return false;
  }

  State KeepLoop(const NodeDef& node, const std::string& name, std::vector<TfValue> values, std::size_t variables,
                 const std::vector<std::int32_t>& anchors, const Scope& scope) {
    program_.kept.push_back(name);
    TfOp op = Begin(node, scope);
    op.op = "While";
    for (std::size_t i = 0; i < variables; ++i) op.outputs.push_back(values[i].type);
    for (TfValue& value : values) value.list = nullptr;
    return EmitNode(std::move(op), std::move(values), anchors, scope);
  }

  // ---- Lists of tensors

  static TfValue ListOf(std::vector<TfValue> elements) {
    TfValue value;
    value.type = {tensorflow::DT_VARIANT, std::vector<std::int64_t>{}};
    value.list = std::make_shared<const std::vector<TfValue>>(std::move(elements));
    return value;
  }
  // An element that nothing was put into: zeros.
  static TfValue Zeros(const NodeDef& node, const std::string& dtype,
                       const std::optional<std::vector<std::int64_t>>& dims) {
    TfValue value;
    value.type = {TfDataType(node, dtype), dims};
    return value;
  }
  static std::optional<std::vector<std::int64_t>> ShapeIn(const TfValue& value) {
    if (value.content == nullptr || value.content->is_real) return std::nullopt;
    if (value.type.dims && value.type.dims->empty()) return std::nullopt;  // -1: any shape
    return value.content->integers;
  }
  static bool IsZeros(const TfValue& value) {
    return value.op == TfValue::kNoOp && value.variable < 0 && value.content == nullptr;
  }

  std::vector<TfValue> Unstack(const NodeDef& node, const TfValue& tensor, const std::vector<std::int32_t>& anchors,
                               const Scope& scope) {
    TfType type = tensor.type;
    if (tensor.variable >= 0) type = program_.variables[static_cast<std::size_t>(tensor.variable)].type;
    const auto count = static_cast<std::size_t>((*type.dims)[0]);
    type.dims->erase(type.dims->begin());
    std::vector<TfType> types(count, type);
    if (count == 0) return {};
    if (IsZeros(tensor)) {
      TfValue zeros;
      zeros.type = type;
      return std::vector<TfValue>(count, zeros);
    }
    return EmitAs(node, "Unpack", {tensor}, types, anchors, scope);
  }

  TfValue Stack(const NodeDef& node, const std::vector<TfValue>& elements,
                const std::optional<std::vector<std::int64_t>>& element_dims, const std::vector<std::int32_t>& anchors,
                const Scope& scope) {
    TfType type{TfDataType(node, FindTfAttr(node, "element_dtype") != nullptr ? "element_dtype" : "dtype"),
                element_dims};
    for (const TfValue& element : elements) {
      if (element.type.HasShape()) type.dims = element.type.dims;
    }
    if (type.dims) type.dims->insert(type.dims->begin(), static_cast<std::int64_t>(elements.size()));
    return EmitAs(node, "Pack", elements, {type}, anchors, scope)[0];
  }

  TfValue Sum(const NodeDef& node, const TfValue& a, const TfValue& b, const std::vector<std::int32_t>& anchors,
              const Scope& scope) {
    if (IsZeros(a)) return b;
    if (IsZeros(b)) return a;
    return EmitAs(node, "AddN", {a, b}, {a.type}, anchors, scope)[0];
  }

  std::optional<State> OnLists(const NodeDef& node, const std::vector<TfValue>& inputs,
                               const std::vector<std::int32_t>& anchors, const Scope& scope) {
    const std::string& op = node.op();
    const auto one = [&](TfValue value) {
      State state{{std::move(value)}, anchors, TfValue::kNoOp};
      if (state.outputs[0].op >= 0) state.anchors.push_back(state.outputs[0].op);
      return std::optional(std::move(state));
    };
    const auto has = [&](std::size_t count) { return inputs.size() >= count; };
    if (op == "EmptyTensorList" && has(1)) return one(ListOf({}));
    if (op == "TensorListReserve" && has(2)) {
      const auto count = ScalarIn(inputs[1]);
      if (!count || *count < 0 || static_cast<std::size_t>(*count) > kMostElements) return std::nullopt;
      return one(ListOf(
          std::vector<TfValue>(static_cast<std::size_t>(*count), Zeros(node, "element_dtype", ShapeIn(inputs[0])))));
    }
    if (op == "TensorListFromTensor" && has(1)) {
      TfType type = inputs[0].variable >= 0 ? program_.variables[static_cast<std::size_t>(inputs[0].variable)].type
                                            : inputs[0].type;
      if (!type.HasShape() || type.dims->empty() || static_cast<std::size_t>((*type.dims)[0]) > kMostElements)
        return std::nullopt;
      return one(ListOf(Unstack(node, inputs[0], anchors, scope)));
    }
    const bool of_list = has(1) && inputs[0].list != nullptr;
    if ((op == "AddN" || op == "AddV2") && of_list) return AddLists(node, inputs, anchors, scope);
    if (!of_list) return std::nullopt;
    std::vector<TfValue> elements = *inputs[0].list;
    const auto index_in = [&](std::size_t i) -> std::optional<std::size_t> {
      const auto index = has(i + 1) ? ScalarIn(inputs[i]) : std::nullopt;
      if (!index || *index < 0 || static_cast<std::size_t>(*index) > kMostElements) return std::nullopt;
      return static_cast<std::size_t>(*index);
    };
    if (op == "ZerosLike") {
      for (TfValue& element : elements) element = Zeros(node, "", element.type.dims);
      for (std::size_t i = 0; i < elements.size(); ++i) elements[i].type = (*inputs[0].list)[i].type;
      return one(ListOf(std::move(elements)));
    }
    if (op == "TensorListPushBack" && has(2)) {
      elements.push_back(inputs[1]);
      return one(ListOf(std::move(elements)));
    }
    if (op == "TensorListPopBack") {
      if (elements.empty()) throw InputError("", "takes an element from an empty list");
      const TfValue last = elements.back();
      elements.pop_back();
      State state{{ListOf(std::move(elements)), last}, anchors, TfValue::kNoOp};
      if (last.op >= 0) state.anchors.push_back(last.op);
      return state;
    }
    if (op == "TensorListGetItem") {
      const auto index = index_in(1);
      if (!index) return std::nullopt;
      if (*index >= elements.size())
        throw InputError("", fmt::format("reads element {} of a list of {}", *index, elements.size()));
      return one(elements[*index]);
    }
    if (op == "TensorListSetItem" && has(3)) {
      const auto index = index_in(1);
      if (!index) return std::nullopt;
      if (*index >= elements.size() && !TfFlag(node, "resize_if_index_out_of_bounds")) {
        throw InputError("", fmt::format("sets element {} of a list of {}", *index, elements.size()));
      }
      if (*index >= elements.size()) elements.resize(*index + 1);
      elements[*index] = inputs[2];
      return one(ListOf(std::move(elements)));
    }
    if (op == "TensorListLength")
      return one(Known(tensorflow::DT_INT32, {static_cast<std::int64_t>(elements.size())}, true));
    if (op == "TensorListElementShape") {
      for (const TfValue& element : elements) {
        if (element.type.HasShape()) return one(Known(TfDataType(node, "shape_type"), *element.type.dims, false));
      }
      return std::nullopt;
    }
    if (op == "TensorListResize") {
      const auto size = index_in(1);
      if (!size) return std::nullopt;
      elements.resize(*size);
      return one(ListOf(std::move(elements)));
    }
    if (op == "TensorListStack")
      return one(Stack(node, elements, has(2) ? ShapeIn(inputs[1]) : std::nullopt, anchors, scope));
    if (op == "TensorListGather" && has(2) && inputs[1].content != nullptr && !inputs[1].content->is_real) {
      std::vector<TfValue> chosen;
      for (const std::int64_t index : inputs[1].content->integers) {
        if (index < 0 || static_cast<std::size_t>(index) >= elements.size()) return std::nullopt;
        chosen.push_back(elements[static_cast<std::size_t>(index)]);
      }
      return one(Stack(node, chosen, has(3) ? ShapeIn(inputs[2]) : std::nullopt, anchors, scope));
    }
    return std::nullopt;
  }

  std::optional<State> AddLists(const NodeDef& node, const std::vector<TfValue>& inputs,
                                const std::vector<std::int32_t>& anchors, const Scope& scope) {
    std::vector<TfValue> sums = *inputs[0].list;
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      if (inputs[i].list == nullptr || inputs[i].list->size() != sums.size()) return std::nullopt;
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] = Sum(node, sums[k], (*inputs[i].list)[k], anchors, scope);
    }
    return State{{ListOf(std::move(sums))}, anchors, TfValue::kNoOp};
  }

  // ---- TensorArrays and stacks, which have handles

  TfValue NewArray(std::vector<TfValue> elements) {
    TfValue value;
    value.type = {tensorflow::DT_RESOURCE, std::vector<std::int64_t>{}};
    value.array = static_cast<std::int32_t>(next_array_++);
    arrays_[value.array] = std::move(elements);
    return value;
  }
  static TfValue Flow() {
    TfValue value;
    value.type = {tensorflow::DT_FLOAT, std::vector<std::int64_t>{}};
    return value;
  }

  std::optional<State> OnArrays(const NodeDef& node, const std::vector<TfValue>& inputs,
                                const std::vector<std::int32_t>& anchors, const Scope& scope) {
    const std::string& op = node.op();
    const auto give = [&](std::vector<TfValue> values) {
      State state{std::move(values), anchors, TfValue::kNoOp};
      for (const TfValue& value : state.outputs) {
        if (value.op >= 0) state.anchors.push_back(value.op);
      }
      return std::optional(std::move(state));
    };
    if (op == "TensorArrayV3" && !inputs.empty()) {
      const auto size = ScalarIn(inputs[0]);
      if (!size || *size < 0 || static_cast<std::size_t>(*size) > kMostElements) return std::nullopt;
      const auto* const shape = FindTfAttr(node, "element_shape");
      return give({NewArray(std::vector<TfValue>(
                       static_cast<std::size_t>(*size),
                       Zeros(node, "dtype", shape == nullptr ? std::nullopt : TfDims(shape->shape())))),
                   Flow()});
    }
    if (op == "StackV2") return give({NewArray({})});
    if (inputs.empty() || inputs[0].array < 0) return std::nullopt;
    const std::int32_t id = inputs[0].array;
    std::vector<TfValue>& elements = arrays_[id];
    if (op == "StackPushV2" && inputs.size() == 2) {
      elements.push_back(inputs[1]);
      return give({inputs[1]});
    }
    if (op == "StackPopV2") {
      if (elements.empty()) throw InputError("", "takes an element from an empty stack");
      const TfValue last = elements.back();
      elements.pop_back();
      return give({last});
    }
    if (op == "StackCloseV2" || op == "TensorArrayCloseV3") return give({});
    if (op == "TensorArraySizeV3")
      return give({Known(tensorflow::DT_INT32, {static_cast<std::int64_t>(elements.size())}, true)});
    if (op == "TensorArrayGradV3") {
      const auto [found, is_new] =
          gradients_.emplace(std::pair(id, TfText(node, "source")), static_cast<std::int32_t>(next_array_));
      if (is_new) {
        std::vector<TfValue> zeros(elements.size());
        for (std::size_t i = 0; i < zeros.size(); ++i) zeros[i].type = elements[i].type;
        NewArray(std::move(zeros));
        accumulates_.insert(found->second);
      }
      TfValue handle;
      handle.type = {tensorflow::DT_RESOURCE, std::vector<std::int64_t>{}};
      handle.array = found->second;
      return give({handle, Flow()});
    }
    const auto put = [&](std::size_t index, const TfValue& value) {
      if (index >= elements.size()) elements.resize(index + 1);
      elements[index] = accumulates_.contains(id) ? Sum(node, elements[index], value, anchors, scope) : value;
    };
    if (op == "TensorArrayWriteV3" && inputs.size() >= 3) {
      const auto index = ScalarIn(inputs[1]);
      if (!index || *index < 0 || static_cast<std::size_t>(*index) > kMostElements) return std::nullopt;
      put(static_cast<std::size_t>(*index), inputs[2]);
      return give({Flow()});
    }
    if (op == "TensorArrayReadV3" && inputs.size() >= 2) {
      const auto index = ScalarIn(inputs[1]);
      if (!index || *index < 0 || static_cast<std::size_t>(*index) >= elements.size()) return std::nullopt;
      return give({elements[static_cast<std::size_t>(*index)]});
    }
    const bool has_indices = inputs.size() >= 2 && inputs[1].content != nullptr && !inputs[1].content->is_real;
    if (op == "TensorArrayScatterV3" && inputs.size() >= 3 && has_indices && inputs[2].type.HasShape() &&
        !inputs[2].type.dims->empty()) {
      const std::vector<TfValue> parts = Unstack(node, inputs[2], anchors, scope);
      for (std::size_t i = 0; i < parts.size() && i < inputs[1].content->size(); ++i) {
        const std::int64_t index = inputs[1].content->integers[i];
        if (index < 0 || static_cast<std::size_t>(index) > kMostElements) return std::nullopt;
        put(static_cast<std::size_t>(index), parts[i]);
      }
      return give({Flow()});
    }
    if (op == "TensorArrayGatherV3" && has_indices) {
      std::vector<TfValue> chosen;
      for (const std::int64_t index : inputs[1].content->integers) {
        if (index < 0 || static_cast<std::size_t>(index) >= elements.size()) return std::nullopt;
        chosen.push_back(elements[static_cast<std::size_t>(index)]);
      }
      const auto* const shape = FindTfAttr(node, "element_shape");
      return give({Stack(node, chosen, shape == nullptr ? std::nullopt : TfDims(shape->shape()), anchors, scope)});
    }
    return std::nullopt;
  }

  const TensorFlowFile& file_;
  const std::vector<InputShape>& inputs_;
  const std::map<std::string, TfType>& learned_;
  std::map<std::string, TfType> newly_learned_;
  std::unordered_map<std::string, const tensorflow::FunctionDef*> functions_;
  std::unordered_map<std::string, std::unique_ptr<TfBody>> bodies_;
  std::unordered_map<std::string, std::size_t> variable_ids_;
  std::map<std::int32_t, std::vector<TfValue>> arrays_;
  std::map<std::pair<std::int32_t, std::string>, std::int32_t> gradients_;  // of an array, by source
  std::set<std::int32_t> accumulates_;
  std::size_t next_array_ = 0;
  std::vector<std::string> placeholders_;
  std::set<std::string> used_inputs_;
  TfProgram program_;
};

}  // namespace
}  // namespace tf_trace

TfProgram TraceTensorFlow(const TensorFlowFile& file, const std::vector<InputShape>& inputs) {
  // A variable that comes in from outside has the shape of its updates, which may need the shape of another one.
  constexpr int kMostRounds = 4;
  std::map<std::string, TfType> learned;
  for (int round = 0;; ++round) {
    tf_trace::Tracer tracer(file, inputs, learned);
    TfProgram program = tracer.Run();
    const std::map<std::string, TfType> more = tracer.Learned();
    const std::size_t before = learned.size();
    learned.insert(more.begin(), more.end());
    if (learned.size() == before || round == kMostRounds) return program;
  }
}

}  // namespace emplace::datasets
