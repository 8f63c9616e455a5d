#include "datasets/importers/torch_export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "datasets/gradients.h"
#include "datasets/importers/export_call.h"
#include "datasets/importers/importers.h"
#include "datasets/training.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/ops/aten_call.h"
#include "sim/ops/aten_work.h"
#include "sim/ops/op_catalog.h"

namespace emplace::datasets {
namespace {

constexpr int kMaxNesting = 16;  // levels of graphs in graphs

std::string_view TensorName(const ExportArgument& argument) {
  if (argument.tag != "as_tensor") return "";
  const JsonValue* const name = FindMember(*argument.value, "name");
  const auto* const text = name == nullptr ? nullptr : name->As<std::string>();
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

// A subgraph that an operator is given; null if it is given none.
const JsonValue* GraphIn(const ExportNode& node) {
  for (const ExportArgument& argument : node.inputs) {
    if (argument.tag == "as_graph") return FindMember(*argument.value, "graph");
  }
  return nullptr;
}

// Operators whose result is a view of their first argument.
bool IsView(std::string_view name) {
  static const std::set<std::string_view> views = {"aten::view",
                                                   "aten::_unsafe_view",
                                                   "aten::view_as",
                                                   "aten::unsqueeze",
                                                   "aten::squeeze",
                                                   "aten::unflatten",
                                                   "aten::permute",
                                                   "aten::transpose",
                                                   "aten::t",
                                                   "aten::numpy_T",
                                                   "aten::mT",
                                                   "aten::movedim",
                                                   "aten::swapaxes",
                                                   "aten::alias",
                                                   "aten::detach",
                                                   "aten::expand",
                                                   "aten::slice",
                                                   "aten::select",
                                                   "aten::narrow",
                                                   "aten::split",
                                                   "aten::chunk",
                                                   "aten::unbind",
                                                   "aten::split_with_sizes",
                                                   "aten::reshape",
                                                   "aten::flatten",
                                                   "aten::contiguous",
                                                   "aten::expand_as",
                                                   "aten::diagonal",
                                                   "aten::unfold",
                                                   "aten::as_strided",
                                                   "aten::view_as_real",
                                                   "aten::view_as_complex",
                                                   "aten::moveaxis",
                                                   "aten::swapdims",
                                                   "aten::tensor_split",
                                                   "aten::broadcast_to",
                                                   "aten::real",
                                                   "aten::imag",
                                                   "aten::H",
                                                   "aten::T",
                                                   "aten::mH",
                                                   "aten::reshape_as",
                                                   "aten::ravel"};
  return views.contains(name);
}

// The values of names, and the memory that names share, as views do.
class ExportMemory {
 public:
  struct Bound {
    Value value;
    std::size_t storage = 0;
    std::size_t version = 0;     // the storage's, when this name was written
    std::vector<Value> written;  // to parts of it, by names of views, since it was read last
  };
  using Scope = std::unordered_map<std::string_view, Bound>;

  bool Has(std::string_view name) const { return scope_.contains(name); }
  // Null if nothing has written the name.
  const Bound* Find(std::string_view name) const {
    const auto found = scope_.find(name);
    return found == scope_.end() ? nullptr : &found->second;
  }
  void SetValue(std::string_view name, Value value) { scope_.at(name).value = value; }
  std::size_t NewStorage() {
    storages_.emplace_back();
    return storages_.size() - 1;
  }
  void Bind(std::string_view name, Value value, std::size_t storage) {
    scope_[name] = {.value = value, .storage = storage, .version = storages_[storage].version, .written = {}};
    storages_[storage].names.push_back(name);
  }
  // The current binding of `name`, for a nested scope.
  Bound Shared(std::string_view name, Value value) const {
    const std::size_t storage = scope_.at(name).storage;
    return {.value = value, .storage = storage, .version = storages_[storage].version, .written = {}};
  }
  // Puts another scope in place, and gives back the one that was.
  Scope Enter(Scope scope) { return std::exchange(scope_, std::move(scope)); }

  // Ops that wrote in place to what `node` reads through another name.
  std::vector<std::string> WritersBefore(const ExportNode& node) const {
    std::vector<std::string> writers;
    for (const ExportArgument& argument : node.inputs) {
      const auto bound = scope_.find(TensorName(argument));
      if (bound == scope_.end()) continue;
      const Storage& storage = storages_[bound->second.storage];
      if (storage.version == bound->second.version || storage.writer.empty()) continue;
      if (std::find(writers.begin(), writers.end(), storage.writer) == writers.end()) writers.push_back(storage.writer);
    }
    return writers;
  }

  // All names of the same value have the new one, and the name of the whole gathers what is written to its parts; other
  // views of the memory stay behind.
  void WriteInPlace(Value old, Value written, const std::string& writer, std::size_t storage) {
    Storage& memory = storages_[storage];
    ++memory.version;
    memory.writer = writer;
    if (const auto whole = scope_.find(memory.names.front()); whole != scope_.end() && !(whole->second.value == old)) {
      whole->second.written.push_back(written);
    }
    for (const std::string_view name : memory.names) {
      const auto bound = scope_.find(name);
      if (bound == scope_.end() || !(bound->second.value == old)) continue;
      bound->second.value = written;
      bound->second.version = memory.version;
      bound->second.written.clear();
    }
  }
  // The whole with all that was written to its parts.
  void Gather(std::string_view name, Value gathered) {
    const Bound before = scope_.at(name);
    for (const std::string_view other : storages_[before.storage].names) {
      const auto bound = scope_.find(other);
      if (bound == scope_.end() || !(bound->second.value == before.value)) continue;
      bound->second.value = gathered;
      bound->second.version = storages_[before.storage].version;
      bound->second.written.clear();
    }
  }

 private:
  struct Storage {
    std::size_t version = 0;
    std::string writer;  // the op that wrote to it in place last
    std::vector<std::string_view> names;
  };

  Scope scope_;
  std::vector<Storage> storages_;
};

// Notes about a program.
struct ExportCounts {
  std::map<std::string, std::size_t> kept;  // kinds that the catalogue does not have
  std::size_t nodes = 0;
  std::size_t parameters = 0;
  std::size_t buffers = 0;
  double parameter_elements = 0;
  double parameter_bytes = 0;
  double buffer_bytes = 0;
  std::size_t unread = 0;     // parameters and buffers that no operator reads
  std::size_t backward = 0;   // operators of a backward pass that the program has
  std::size_t gradients = 0;  // of parameters, in such a program
};

// Calls `use` with the names of the tensors in an argument.
template <typename Use>
void ForEachTensor(const ExportArgument& argument, Use use) {
  if (const std::string_view name = TensorName(argument); !name.empty()) use(name);
  const auto* const list = argument.value->As<JsonList>();
  if (list == nullptr || !argument.tag.ends_with("tensors")) return;
  for (const JsonValue& element : *list) {
    const JsonValue* const tensor = FindMember(element, "as_tensor");
    const ExportArgument inner = {.name = {}, .tag = "as_tensor", .value = tensor == nullptr ? &element : tensor};
    if (const std::string_view name = TensorName(inner); !name.empty()) use(name);
  }
}

// Whether each node of a program with its backward pass belongs to that. Forward is what the outputs and the mutated
// buffers depend on, and what stands before the last of the former; PyTorch traces the forward pass first.
std::vector<bool> BackwardNodes(const ExportProgram& program) {
  const std::vector<ExportNode>& nodes = program.graph.nodes;
  std::unordered_map<std::string_view, std::size_t> writers;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const ExportArgument& output : nodes[i].outputs) {
      ForEachTensor(output, [&](std::string_view name) { writers.emplace(name, i); });
    }
  }
  const auto ancestors = [&](const std::vector<std::string_view>& names) {
    std::vector<bool> reached(nodes.size(), false);
    const auto reach = [&](std::string_view name) {
      const auto writer = writers.find(name);
      if (writer != writers.end()) reached[writer->second] = true;
    };
    for (const std::string_view name : names) reach(name);
    for (std::size_t i = nodes.size(); i-- > 0;) {
      if (!reached[i]) continue;
      for (const ExportArgument& input : nodes[i].inputs) ForEachTensor(input, reach);
    }
    return reached;
  };
  const std::vector<bool> outputs = ancestors(program.outputs);
  const std::vector<bool> mutated = ancestors(program.mutated);
  const auto last = std::find(outputs.rbegin(), outputs.rend(), true);
  const auto num_forward = static_cast<std::size_t>(outputs.rend() - last);
  std::vector<bool> backward(nodes.size(), false);
  for (std::size_t i = num_forward; i < nodes.size(); ++i) backward[i] = !mutated[i];
  return backward;
}

// Whether an operator writes to its first argument, as aten::add_ does. `name`: its kind, which loses the "_".
bool TakeInPlace(std::string* name) {
  if (name->size() <= 7 || !name->ends_with('_') || name->ends_with("__")) return false;
  name->pop_back();
  return true;
}

// The operands of a call with a graph: the tensors behind the graph.
std::vector<std::string_view> OperandsOf(const ExportNode& node) {
  std::vector<std::string_view> operands;
  bool after = false;
  for (const ExportArgument& argument : node.inputs) {
    if (after && argument.tag == "as_tensor") operands.push_back(TensorName(argument));
    after = after || argument.tag == "as_graph";
  }
  return operands;
}

std::vector<std::string_view> TensorNames(std::span<const ExportArgument> arguments) {
  std::vector<std::string_view> names;
  for (const ExportArgument& argument : arguments) {
    if (argument.tag == "as_tensor") names.push_back(TensorName(argument));
  }
  return names;
}

// Whether gradients pass through a graph that a call runs. Throws InputError on one that runs it under conditions.
bool PassesGradients(const ExportNode& node, const std::string& place) {
  const std::string kind = ExportKind(node.target, false);
  if (kind == "higher_order::wrap_with_autocast") return true;
  if (kind != "higher_order::wrap_with_set_grad_enabled") {
    throw InputError(place, fmt::format("calls {}, which runs a graph inside of the graph (conditions and loops are "
                                        "not read)",
                                        Quoted(node.target)));
  }
  const bool* const enabled =
      node.inputs.empty() || node.inputs[0].tag != "as_bool" ? nullptr : node.inputs[0].value->As<bool>();
  return enabled != nullptr && *enabled;
}

// Attributes of an input: row numbers of an embedding stay below its rows.
std::string BoundOf(const ExportGraph& graph, std::string_view input) {
  for (const ExportNode& node : graph.nodes) {
    if (node.target != "torch.ops.aten.embedding.default" || node.inputs.size() < 2) continue;
    if (TensorName(node.inputs[1]) != input) continue;
    const auto table = graph.tensors.find(TensorName(node.inputs[0]));
    if (table == graph.tensors.end() || table->second.shape.empty()) continue;
    return fmt::format(R"({{"bound":{}}})", std::max<std::int64_t>(table->second.shape[0], 1));
  }
  return "";
}

// Makes a network of the operators of a program.
class ProgramConverter : private ExportNames {
 public:
  ProgramConverter(const ExportProgram& program, std::string name, bool training)
      : program_(program), net_(std::move(name)), training_(training) {
    if (!program.gradients.empty()) backward_ = BackwardNodes(program);
  }

  void Convert() {
    AddInputs();
    ConvertGraph(program_.graph, program_.entry + ": graph_module.graph", 0);
  }

  NetworkBuilder& net() { return net_; }
  ExportCounts Counts() const {
    ExportCounts counts = counts_;
    for (const auto& [name, input] : paths_) {
      const ExportMemory::Bound* const bound = memory_.Find(name);
      counts.unread += bound != nullptr && !bound->value.exists() ? 1 : 0;
    }
    return counts;
  }
  // The gradients of parameters that the program computes itself, each tied to its parameter.
  std::vector<VariableGradient> TieGradients() {
    std::vector<VariableGradient> gradients;
    for (const ExportGradient& gradient : program_.gradients) {
      const auto input = std::find_if(program_.inputs.begin(), program_.inputs.end(), [&](const ExportInput& each) {
        return each.role == ExportInput::Role::kParameter && each.path == gradient.path;
      });
      if (input == program_.inputs.end()) continue;
      const Value variable = ValueOf(input->name, program_.entry);
      const Value value = ValueOf(gradient.name, program_.entry);
      if (net_.shape(value) != net_.shape(variable)) {
        throw InputError(program_.entry, fmt::format("{} is the gradient of {}, which has another shape",
                                                     Quoted(gradient.name), Quoted(gradient.path)));
      }
      net_.TieGradient(value, variable);
      gradients.push_back({.variable = variable, .gradient = {.values = value, .rows = {}}});
    }
    counts_.gradients = gradients.size();
    return gradients;
  }
  // The outputs of the program that depend on parameters.
  std::vector<Value> TrainedOutputs() {
    std::vector<Value> trained;
    for (const std::string_view output : program_.outputs) {
      const Value value = ValueOf(output, program_.entry);
      const Shape& shape = net_.shape(value);
      const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();  // its sum is a constant
      if (net_.trained(value) && !is_empty) trained.push_back(value);
    }
    return trained;
  }
  // Names of ops hold no ':' and begin with no '^'.
  std::string UniqueName(const std::string& name) override {
    std::string base = name.empty() ? "op" : name;
    std::replace(base.begin(), base.end(), ':', '_');
    if (base[0] == '^') base[0] = '_';
    std::string unique = base;
    for (std::size_t* count = &name_counts_[base]; !names_.insert(unique).second;) {
      unique = fmt::format("{}_{}", base, ++*count + 1);
    }
    return unique;
  }

 private:
  Value ValueOf(std::string_view name, const std::string& place) override {
    const ExportMemory::Bound* const found = memory_.Find(name);
    if (found == nullptr) {
      const auto later = writers_.find(name);
      if (later != writers_.end()) {
        throw InputError(place,
                         fmt::format("reads {}, which only nodes[{}] writes (each node before those that read its "
                                     "results, so that there is no cycle)",
                                     Quoted(name), later->second));
      }
      throw InputError(place, "reads " + Quoted(name) + ", which nothing writes");
    }
    if (!found->value.exists()) AddVariable(name);
    return found->written.empty() ? found->value : GatherParts(name, *found);
  }

  // One op reads the tensor and all that was written to its parts, and takes no time: the writers took it.
  Value GatherParts(std::string_view name, const ExportMemory::Bound& bound) {
    NetworkBuilder::Node node;
    node.name = UniqueName(std::string(name) + "/written");
    node.kind = "aten::slice_scatter";
    node.attrs = R"({"is_view":true})";
    node.layer = net_.nodes()[net_.producer(bound.written.back())].layer;
    node.pass = is_backward_ ? Pass::kBackward : Pass::kForward;
    node.inputs = bound.written;
    node.inputs.insert(node.inputs.begin(), bound.value);
    const Value value =
        net_.Add(std::move(node), {{.dtype = net_.dtype(bound.value), .shape = net_.shape(bound.value)}}).front();
    memory_.Gather(name, value);
    return value;
  }

  const ExportTensor& MetaOf(std::string_view name) const {
    const auto found = program_.graph.tensors.find(name);
    if (found == program_.graph.tensors.end()) {
      throw InputError(program_.entry, "input " + Quoted(name) + " has no shape");
    }
    return found->second;
  }

  void BindNew(std::string_view name, Value value, std::size_t storage, const std::string& place) {
    if (memory_.Has(name)) throw InputError(place, "writes " + Quoted(name) + ", which is there already");
    memory_.Bind(name, value, storage);
  }

  void AddInputs() {
    for (const ExportInput& input : program_.inputs) {
      if (memory_.Has(input.name)) throw InputError(program_.entry, "input " + Quoted(input.name) + " is there twice");
      if (input.role != ExportInput::Role::kUser) {
        paths_.emplace(input.name, input);
        memory_.Bind(input.name, {}, memory_.NewStorage());  // becomes an op when it is read
        continue;
      }
      const ExportTensor& tensor = MetaOf(input.name);
      NetworkBuilder::Node node;
      node.name = UniqueName(std::string(input.name));
      node.kind = "input";
      node.attrs = BoundOf(program_.graph, input.name);
      memory_.Bind(input.name, net_.Add(std::move(node), {{.dtype = tensor.dtype, .shape = tensor.shape}}).front(),
                   memory_.NewStorage());
    }
  }

  Value AddVariable(std::string_view name) {
    const ExportInput& input = paths_.at(name);
    const ExportTensor& tensor = MetaOf(name);
    NetworkBuilder::Node node;
    node.name = UniqueName(std::string(input.path));
    node.kind = "variable";
    node.layer = ModuleOf(input.path);
    node.persistent = TensorBytes(tensor.dtype, tensor.shape, node.name);
    node.trainable =
        training_ && input.role == ExportInput::Role::kParameter && tensor.requires_grad && IsReal(tensor.dtype);
    const bool is_parameter = input.role == ExportInput::Role::kParameter;
    ++(is_parameter ? counts_.parameters : counts_.buffers);
    (is_parameter ? counts_.parameter_bytes : counts_.buffer_bytes) += static_cast<double>(node.persistent.count);
    const std::int64_t element_bytes = ElementBytes(tensor.dtype);
    if (is_parameter && element_bytes > 0) {
      counts_.parameter_elements += static_cast<double>(node.persistent.count) / static_cast<double>(element_bytes);
    }
    const Value value = net_.Add(std::move(node), {{.dtype = tensor.dtype, .shape = tensor.shape}}).front();
    memory_.SetValue(name, value);
    return value;
  }

  void ConvertGraph(const ExportGraph& graph, const std::string& place, int depth) {
    if (depth > kMaxNesting) throw InputError(place, "graphs are nested too deeply");
    auto writers = std::exchange(writers_, {});
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ExportArgument& output : graph.nodes[i].outputs) {
        if (!TensorName(output).empty()) writers_.emplace(TensorName(output), i);
      }
    }
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (depth == 0 && !backward_.empty()) is_backward_ = backward_[i];
      ConvertNode(graph, graph.nodes[i], fmt::format("{}.nodes[{}]", place, i), depth);
    }
    writers_ = std::move(writers);
  }

  void ConvertNode(const ExportGraph& graph, const ExportNode& node, const std::string& place, int depth) {
    if (node.target == "torch.ops.higher_order.with_effects") {
      ConvertEffect(graph, node, place, depth);
      return;
    }
    ExportCall call(net_, *this, graph, node, place, training_);
    const JsonValue* const subgraph = GraphIn(node);
    if (subgraph != nullptr) {
      Inline(node, *subgraph, call, place, depth);
      return;
    }
    if (call.num_outputs() == 0) return;  // checks, and arithmetic of sizes
    ++counts_.nodes;
    counts_.backward += is_backward_ ? 1 : 0;
    if (is_backward_) call.SetPass(Pass::kBackward);
    std::string name = ExportKind(node.target, false);
    if (node.layer.empty() && !backward_.empty()) call.SetLayer(LayerByParameter(node, name));
    const bool in_place = TakeInPlace(&name);
    call.SetControls(memory_.WritersBefore(node));
    const std::size_t num_before = net_.nodes().size();
    if (!LowerExportCall(call)) call.EmitAsItIs(ExportFlop(call));
    for (std::size_t i = num_before; i < net_.nodes().size(); ++i) {
      if (!IsForeignKind(net_.nodes()[i].kind)) continue;
      ++counts_.kept[net_.nodes()[i].kind];  // at most one for each operator
      break;
    }
    const std::string_view first = node.inputs.empty() ? std::string_view() : TensorName(node.inputs[0]);
    const ExportMemory::Bound* const source = in_place || IsView(name) ? memory_.Find(first) : nullptr;
    const auto shared = source == nullptr ? std::nullopt : std::optional(*source);
    for (std::size_t i = 0; i < call.num_outputs(); ++i) {
      const std::string_view output = call.output_name(i);
      if (memory_.Has(output)) throw InputError(place, "writes " + Quoted(output) + ", which is there already");
      if (!call.results()[i]) {
        throw InputError(place, fmt::format("{} has {} results", Quoted(node.target), call.num_outputs()));
      }
      const std::size_t storage = shared ? shared->storage : memory_.NewStorage();
      if (in_place && shared && i == 0) {
        const Value written = *call.results()[i];
        memory_.WriteInPlace(shared->value, written, net_.nodes()[net_.producer(written)].name, storage);
      }
      memory_.Bind(output, *call.results()[i], storage);
    }
  }

  // with_effects(token, operator, ..) gives a token, which keeps the order of such calls, and the operator's results.
  void ConvertEffect(const ExportGraph& graph, const ExportNode& node, const std::string& place, int depth) {
    const auto* const target = node.inputs.size() < 2 ? nullptr : node.inputs[1].value->As<std::string>();
    if (target == nullptr || node.outputs.empty()) throw InputError(place, "calls no operator (as_operator)");
    ExportNode inner = node;
    inner.target = *target;
    inner.inputs.erase(inner.inputs.begin(), inner.inputs.begin() + 2);
    inner.outputs.erase(inner.outputs.begin());
    ConvertNode(graph, inner, place, depth);
  }

  // Programs with a backward pass say no modules: that of the first parameter that a node reads, itself or a view of
  // it; else that of what it reads first.
  std::string LayerByParameter(const ExportNode& node, std::string_view name) {
    std::string layer;
    bool is_parameters = false;
    const auto look = [&](std::string_view input) {
      if (is_parameters) return;
      const auto parameter = paths_.find(input);
      const auto known = layers_.find(input);
      if (parameter != paths_.end()) {
        layer = ModuleOf(parameter->second.path);
        is_parameters = true;
      } else if (known != layers_.end() && (known->second.is_parameter || layer.empty())) {
        layer = known->second.layer;
        is_parameters = known->second.is_parameter;
      }
    };
    for (const ExportArgument& input : node.inputs) ForEachTensor(input, look);
    for (const ExportArgument& output : node.outputs) {
      ForEachTensor(output, [&](std::string_view result) {
        layers_[result] = {.layer = layer, .is_parameter = is_parameters && IsView(name)};
      });
    }
    return layer;
  }

  static std::string_view ModuleOf(std::string_view path) {
    const std::size_t dot = path.rfind('.');
    return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
  }

  // torch.no_grad() and autocast around a part of the network: its ops, in place of the call.
  void Inline(const ExportNode& node, const JsonValue& subgraph, ExportCall& call, const std::string& place,
              int depth) {
    const bool passes_gradients = PassesGradients(node, place);
    const std::vector<std::string_view> operands = OperandsOf(node);
    subgraphs_.push_back(std::make_unique<ExportGraph>(ReadExportSubgraph(program_, subgraph, place)));
    const ExportGraph& inner = *subgraphs_.back();
    const std::vector<std::string_view> formal = TensorNames(inner.inputs);
    const std::vector<std::string_view> given = TensorNames(inner.outputs);
    if (formal.size() != operands.size() || given.size() != call.num_outputs()) {
      throw InputError(place, "the graph inside has other inputs or outputs than the call");
    }
    ExportMemory::Scope scope;
    for (std::size_t i = 0; i < formal.size(); ++i) {
      const Value value = ValueOf(operands[i], place);
      scope[formal[i]] = memory_.Shared(operands[i], value);
    }
    ExportMemory::Scope outer = memory_.Enter(std::move(scope));
    ConvertGraph(inner, place, depth + 1);
    std::vector<Value> values;
    values.reserve(given.size());
    for (const std::string_view output : given) values.push_back(ValueOf(output, place));
    memory_.Enter(std::move(outer));
    for (std::size_t i = 0; i < values.size(); ++i) {
      Value value = values[i];
      if (training_ && !passes_gradients && net_.trained(value)) {
        value = call.Emit("stop_gradient", {value}, {{.dtype = net_.dtype(value), .shape = net_.shape(value)}}).front();
      }
      BindNew(call.output_name(i), value, memory_.NewStorage(), place);
    }
  }

  const ExportProgram& program_;
  NetworkBuilder net_;
  bool training_;
  std::vector<bool> backward_;  // of the nodes of a program with its backward pass
  bool is_backward_ = false;    // of the node at hand
  struct Origin {
    std::string layer;
    bool is_parameter = false;  // a view of one
  };
  std::unordered_map<std::string_view, Origin> layers_;  // of tensors in such a program
  ExportMemory memory_;
  std::unordered_map<std::string_view, ExportInput> paths_;    // parameters and buffers, by name
  std::unordered_map<std::string_view, std::size_t> writers_;  // nodes of the graph at hand, by what they write
  std::vector<std::unique_ptr<ExportGraph>> subgraphs_;        // names point into their document
  std::set<std::string> names_;
  std::map<std::string, std::size_t> name_counts_;
  ExportCounts counts_;
};

Value AddLossOp(std::string_view kind, std::vector<Value> inputs, ProgramConverter* converter) {
  NetworkBuilder::Node node;
  node.name = converter->UniqueName(fmt::format("loss/{}", kind));
  node.kind = kind;
  node.layer = "loss";
  node.inputs = std::move(inputs);
  const DType dtype = converter->net().dtype(node.inputs.front());
  return converter->net().Add(std::move(node), {{.dtype = dtype, .shape = {}}}).front();
}

// The scalar whose gradients are computed: the sum of all that depends on parameters.
Value AddLoss(const std::string& entry, ProgramConverter* converter) {
  std::vector<Value> parts = converter->TrainedOutputs();
  if (parts.empty()) {
    throw InputError(entry, "no output depends on a parameter that requires a gradient (--training)");
  }
  for (Value& part : parts) {
    if (!converter->net().shape(part).empty()) part = AddLossOp("reduce_sum", {part}, converter);
  }
  Value loss = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) loss = AddLossOp("add", {loss, parts[i]}, converter);
  return loss;
}

std::vector<std::string> NotesOf(const ExportProgram& program, const ExportCounts& counts) {
  std::vector<std::string> notes;
  std::size_t kept = 0;
  std::string kinds;
  for (const auto& [kind, count] : counts.kept) {
    kept += count;
    kinds += fmt::format("{}{}{}", kinds.empty() ? "" : ", ", kind, count == 1 ? "" : fmt::format(" ({})", count));
  }
  notes.push_back(fmt::format("{} of {} operators are kinds of the op catalogue{}", counts.nodes - kept, counts.nodes,
                              kept == 0 ? "" : "; others keep their own: " + kinds));
  notes.push_back(fmt::format("{} parameters with {} numbers ({} bytes), {} buffers ({} bytes)", counts.parameters,
                              counts.parameter_elements, counts.parameter_bytes, counts.buffers, counts.buffer_bytes));
  if (!program.gradients.empty()) {
    notes.push_back(fmt::format("has its backward pass: {} operators of {}, with the gradients of {} parameters",
                                counts.backward, counts.nodes, counts.gradients));
  }
  std::vector<std::string> unknown;
  for (const auto& [kind, count] : counts.kept) {
    if (!AtenClass(AtenNameOf(kind, nullptr))) unknown.push_back(kind);
  }
  if (!unknown.empty()) {
    notes.push_back(
        fmt::format("the cost of {} is unknown: 0 FLOP, and no time by --costs roofline (profiles have times)",
                    fmt::join(unknown, ", ")));
  }
  if (counts.unread > 0)
    notes.push_back(fmt::format("{} parameters and buffers that no operator reads are left out", counts.unread));
  const auto values = [&](const std::vector<std::string>& symbols) {
    std::string text;
    for (const std::string& symbol : symbols) {
      text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", symbol, program.symbols.at(symbol));
    }
    return text;
  };
  if (!program.hinted.empty()) {
    notes.push_back("open sizes are those of the exported example: " + values(program.hinted) + " (--input sets them)");
  }
  if (!program.bounded.empty()) {
    notes.push_back("sizes that depend on data are the largest that the program allows: " + values(program.bounded));
  }
  return notes;
}

// Kinds between parameters and loss of which no table says what their gradients read, in words; "" if there are none.
std::string KindsWithAssumedGradients(const NetworkBuilder& net, Value loss) {
  const std::deque<NetworkBuilder::Node>& nodes = net.nodes();
  std::vector<bool> reached(nodes.size(), false);
  reached[net.producer(loss)] = true;
  std::set<std::string> assumed;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (!reached[i] || nodes[i].kind == "stop_gradient") continue;
    bool any = false;
    for (const Value input : nodes[i].inputs) {
      if (!net.trained(input)) continue;
      reached[net.producer(input)] = true;
      any = true;
    }
    if (any && !HasOwnGradientRule(nodes[i].kind)) assumed.insert(nodes[i].kind);
  }
  return fmt::format("{}", fmt::join(assumed, ", "));
}

}  // namespace

bool LooksLikeTorchExport(std::string_view head) { return head.starts_with("PK\x03\x04"); }

Imported ImportTorchExport(std::span<const ImportSource> sources, const ImportOptions& options) {
  const ImportSource& source = sources.front();
  return WithLocation(source.name(), [&]() -> Imported {
    const ExportProgram program = ReadExportProgram(source, options.inputs);
    const bool is_step = !program.gradients.empty();
    const bool training = !options.training.empty();
    ProgramConverter converter(program, "torch-export", training && !is_step);
    converter.Convert();
    const std::vector<VariableGradient> own = converter.TieGradients();
    if (!training) {
      Graph graph = converter.net().Build();
      return {.graph = std::move(graph), .cluster = std::nullopt, .notes = NotesOf(program, converter.Counts())};
    }
    const std::vector<std::string_view>& optimizers = OptimizerNames();
    if (std::find(optimizers.begin(), optimizers.end(), options.training) == optimizers.end()) {
      throw InputError("--optimizer", fmt::format("is {} ({})", Quoted(options.training), fmt::join(optimizers, ", ")));
    }
    TrainingOptions how;
    how.optimizer = options.training;
    if (is_step) {
      Graph graph = BuildUpdatedGraph(converter.net(), own, how);
      std::vector<std::string> notes = NotesOf(program, converter.Counts());
      notes.push_back(fmt::format("is a training step already: --training keeps its backward pass and adds {} updates",
                                  own.size()));
      return {.graph = std::move(graph), .cluster = std::nullopt, .notes = std::move(notes)};
    }
    const Value loss = AddLoss(program.entry, &converter);
    const std::string assumed = KindsWithAssumedGradients(converter.net(), loss);
    static_cast<void>(converter.net().Build());  // rules of gradients rely on shapes that fit
    std::vector<Value> unreached;
    Graph graph = BuildTrainingGraph(converter.net(), loss, how, &unreached);
    std::vector<std::string> notes = NotesOf(program, converter.Counts());
    if (!assumed.empty()) {
      notes.push_back(fmt::format(
          "the gradients of {} are taken to be one op each, which reads the inputs: no rule is known", assumed));
    }
    if (!unreached.empty()) {
      notes.push_back(fmt::format("{} parameters do not reach the loss and are not updated", unreached.size()));
    }
    return {.graph = std::move(graph), .cluster = std::nullopt, .notes = std::move(notes)};
  });
}

}  // namespace emplace::datasets
