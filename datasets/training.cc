#include "datasets/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

using Output = NetworkBuilder::Output;
using Node = NetworkBuilder::Node;

// Tensors of state that each optimiser keeps, as large as the variable.
struct Optimizer {
  std::string_view name;
  int slots;
};
constexpr std::array<Optimizer, 4> kOptimizers = {{{"sgd", 0}, {"momentum", 1}, {"rmsprop", 2}, {"adam", 2}}};

// An op of the update pass in the layer of `owner`.
std::vector<Value> Emit(NetworkBuilder& net, const Node& owner, std::string name, std::string_view kind,
                        std::vector<Value> inputs, std::vector<Output> outputs) {
  Node node;
  node.name = std::move(name);
  node.kind = kind;
  node.layer = owner.layer;
  node.pass = Pass::kUpdate;
  node.inputs = std::move(inputs);
  return net.Add(std::move(node), std::move(outputs));
}

void ClipGradients(NetworkBuilder& net, Value loss, std::vector<VariableGradient>& gradients) {
  const auto name = [&net](Value variable) { return "update/" + net.nodes()[net.producer(variable)].name; };
  std::vector<Value> norms;
  for (const auto& [variable, gradient] : gradients) {
    const Node& owner = net.nodes()[net.producer(variable)];
    norms.push_back(
        Emit(net, owner, name(variable) + "/l2_loss", "l2_loss", {gradient.values}, {{.shape = {}}}).front());
  }
  const Node& last = net.nodes()[net.producer(loss)];
  const Value factor = Emit(net, last, "update/global_norm_scale", "global_norm_scale", norms, {{.shape = {}}}).front();
  for (auto& [variable, gradient] : gradients) {
    const Node& owner = net.nodes()[net.producer(variable)];
    gradient.values = Emit(net, owner, name(variable) + "/clip", "scale", {gradient.values, factor},
                           {{.dtype = net.dtype(gradient.values), .shape = net.shape(gradient.values)}})
                          .front();
  }
}

std::string Update(NetworkBuilder& net, const VariableGradient& entry, const Optimizer& optimizer, bool f32_masters) {
  const Node& variable = net.nodes()[net.producer(entry.variable)];
  const bool sparse = entry.gradient.rows.exists();
  Node node;
  node.kind = sparse ? fmt::format("sparse_{}", optimizer.name) : std::string(optimizer.name);
  node.name = fmt::format("update/{}/{}", variable.name, node.kind);
  node.layer = variable.layer;
  node.pass = Pass::kUpdate;
  node.inputs = {entry.variable, entry.gradient.values};
  if (sparse) node.inputs.push_back(entry.gradient.rows);
  node.colocate_with = variable.name;
  if (f32_masters) {
    const std::int64_t elements = variable.persistent.count / ElementBytes(net.dtype(entry.variable));
    node.attrs = R"({"f32_master":true})";
    node.persistent = Bytes{(1 + optimizer.slots) * elements * ElementBytes(DType::kF32)};
  } else {
    node.persistent = Bytes{optimizer.slots * variable.persistent.count};
  }
  const std::size_t position = net.nodes().size();
  net.Add(std::move(node), {});
  return net.nodes()[position].name;
}

// The average is a variable of its own beside the trained one.
void AverageVariable(NetworkBuilder& net, Value value, const std::string& after) {
  const Node& variable = net.nodes()[net.producer(value)];
  const Shape& shape = net.shape(value);
  const auto emit = [&](std::string_view name, std::string_view kind, std::vector<Value> inputs,
                        std::vector<Output> outputs, const std::string& control, Bytes persistent) {
    Node node;
    node.name = fmt::format("{}{}/{}", kind == "variable" ? "" : "update/", variable.name, name);
    node.kind = kind;
    if (kind == "scale") node.attrs = R"({"factor":0.0001})";
    node.layer = variable.layer;
    node.pass = kind == "variable" ? Pass::kForward : Pass::kUpdate;
    node.inputs = std::move(inputs);
    if (!control.empty()) node.control_inputs = {control};
    node.colocate_with = variable.name;
    node.persistent = persistent;
    return net.Add(std::move(node), std::move(outputs));
  };
  const Value average = emit("average", "variable", {}, {{.shape = shape}}, "", variable.persistent).front();
  const Value difference = emit("average/sub", "sub", {average, value}, {{.shape = shape}}, after, {}).front();
  const Value step = emit("average/scale", "scale", {difference}, {{.shape = shape}}, "", {}).front();
  emit("average/assign_sub", "assign_sub", {average, step}, {}, "", {});
}

}  // namespace

const std::vector<std::string_view>& OptimizerNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    all.reserve(kOptimizers.size());
    for (const Optimizer& optimizer : kOptimizers) all.push_back(optimizer.name);
    return all;
  }();
  return names;
}

DType ReadPrecision(OptionReader& reader, DType precision) {
  std::string name(Name(precision));
  reader.Read("precision", &name, {"f32", "f16", "bf16"}, "type of weights and activations; updates keep f32 copies");
  return *DTypeFromName(name);
}

void ReadTrainingOptions(OptionReader& reader, TrainingOptions* options) {
  reader.Read("optimizer", &options->optimizer, OptimizerNames(), "optimiser of the variables");
  if (options->clip_gradients) {
    reader.Read("clip_gradients", &options->clip_gradients, "clip gradients by their global norm");
  }
  if (options->average_variables) {
    reader.Read("average_variables", &options->average_variables, "maintain moving averages of the variables");
  }
}

Graph BuildUpdatedGraph(NetworkBuilder& net, const std::vector<VariableGradient>& gradients,
                        const TrainingOptions& options) {
  const auto optimizer = std::find_if(kOptimizers.begin(), kOptimizers.end(),
                                      [&options](const Optimizer& row) { return row.name == options.optimizer; });
  EMPLACE_CHECK(optimizer != kOptimizers.end());
  for (const VariableGradient& entry : gradients) {
    const std::string update = Update(net, entry, *optimizer, options.f32_masters);
    if (options.average_variables) AverageVariable(net, entry.variable, update);
  }
  return net.Build();
}

Graph BuildTrainingGraph(NetworkBuilder& net, Value loss, const TrainingOptions& options,
                         std::vector<Value>* unreached) {
  std::vector<Value> trainable;
  for (const Node& node : net.nodes()) {
    if (node.trainable) trainable.push_back(node.outputs.front());
  }
  std::vector<VariableGradient> gradients = AddGradients(net, loss);
  if (unreached == nullptr) {
    EMPLACE_CHECK_EQ(gradients.size(), trainable.size());
  } else {  // both are in the order of the variables
    auto reached = gradients.begin();
    for (const Value variable : trainable) {
      if (reached != gradients.end() && reached->variable == variable) {
        ++reached;
      } else {
        unreached->push_back(variable);
      }
    }
  }
  if (options.clip_gradients) ClipGradients(net, loss, gradients);
  return BuildUpdatedGraph(net, gradients, options);
}

}  // namespace emplace::datasets
