#include "datasets/builder.h"

#include <algorithm>

#include "sim/base/check.h"
#include "sim/ops/op_catalog.h"

namespace emplace::datasets {

bool IsForeignKind(std::string_view kind) { return kind.find("::") != std::string_view::npos; }

bool IsReal(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBf16 || dtype == DType::kF32 || dtype == DType::kF64;
}

NetworkBuilder::Scope::Scope(NetworkBuilder& builder, std::string path, std::string layer)
    : builder_(builder),
      outer_path_(std::exchange(builder.path_, std::move(path))),
      outer_layer_(std::exchange(builder.layer_, std::move(layer))) {}

NetworkBuilder::Scope::~Scope() {
  builder_.path_ = std::move(outer_path_);
  builder_.layer_ = std::move(outer_layer_);
}

std::vector<Value> NetworkBuilder::Add(Node node, std::vector<Output> outputs) {
  EMPLACE_CHECK(FindOpKind(node.kind) != nullptr || IsForeignKind(node.kind));
  const bool trained = node.trainable || (node.kind != "stop_gradient" &&
                                          std::any_of(node.inputs.begin(), node.inputs.end(),
                                                      [this](Value input) { return values_[input.id].trained; }));
  node.outputs.clear();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    node.outputs.push_back({static_cast<std::uint32_t>(values_.size())});
    const bool has_gradient = trained && IsReal(outputs[i].dtype);
    values_.push_back(
        {.producer = nodes_.size(), .output_index = i, .output = std::move(outputs[i]), .trained = has_gradient});
  }
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs;
}

std::vector<Value> NetworkBuilder::Forward(std::string_view name, std::string_view kind, std::vector<Value> inputs,
                                           std::vector<Output> outputs, std::string attrs) {
  Node node;
  node.name = path_ + std::string(name);
  node.kind = kind;
  node.attrs = std::move(attrs);
  node.layer = layer_;
  node.inputs = std::move(inputs);
  return Add(std::move(node), std::move(outputs));
}

Value NetworkBuilder::Input(std::string_view name, DType dtype, Shape shape) {
  return Forward(name, "input", {}, {{.dtype = dtype, .shape = std::move(shape)}}).front();
}

Value NetworkBuilder::Variable(std::string_view name, Shape shape, bool trainable) {
  Node node;
  node.name = path_ + std::string(name);
  node.kind = "variable";
  node.layer = layer_;
  node.persistent = TensorBytes(precision_, shape, node.name);
  node.trainable = trainable;
  if (trainable) num_parameters_ += node.persistent.count / ElementBytes(precision_);
  return Add(std::move(node), {{.dtype = precision_, .shape = std::move(shape)}}).front();
}

void NetworkBuilder::TieGradient(Value gradient, Value variable) {
  const Node& owner = nodes_[producer(variable)];
  for (Value value = gradient;;) {
    Node& node = nodes_[producer(value)];
    if (node.kind == "variable" || node.kind == "input" || !node.colocate_with.empty()) return;
    node.colocate_with = owner.name;
    node.layer = owner.layer;
    if (node.kind != "reshape") return;
    value = node.inputs.front();
  }
}

Graph NetworkBuilder::Build() const {
  std::vector<OpSpec> specs;
  specs.reserve(nodes_.size());
  for (const Node& node : nodes_) {
    OpSpec spec;
    spec.name = node.name;
    spec.kind = node.kind;
    for (const Value input : node.inputs) {
      spec.inputs.push_back(nodes_[producer(input)].name + ":" + std::to_string(output_index(input)));
    }
    spec.control_inputs = node.control_inputs;
    for (const Value output : node.outputs) {
      spec.outputs.push_back({.size = std::nullopt, .dtype = dtype(output), .shape = shape(output)});
    }
    spec.attrs = node.attrs;
    spec.persistent = node.persistent;
    spec.pass = node.pass;
    spec.layer = node.layer;
    spec.colocate_with = node.colocate_with;
    specs.push_back(std::move(spec));
  }
  // The catalogue's formulas read a graph, so build it once without FLOP.
  GraphBuilder without_flop(name_);
  for (const OpSpec& spec : specs) without_flop.Add(spec);
  const Graph graph = without_flop.Build();
  GraphBuilder builder(name_);
  for (std::size_t position = 0; position < specs.size(); ++position) {
    const OpId id = graph.file_order()[position];
    specs[position].flop = IsForeignKind(specs[position].kind)
                               ? nodes_[position].flop
                               : CountedFlop(*FindOpKind(specs[position].kind), graph, id);
    builder.Add(specs[position]);
  }
  return builder.Build();
}

}  // namespace emplace::datasets
