#include "datasets/importers/torch_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "datasets/gradients.h"
#include "datasets/importers/export_call.h"
#include "datasets/importers/importers.h"
#include "datasets/training.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/ops/op_catalog.h"

namespace emplace::datasets {
namespace {

constexpr int kMaxNesting = 16;  // of graphs in graphs

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
  static const std::set<std::string_view> views = {
      "aten::view",      "aten::_unsafe_view", "aten::view_as",          "aten::unsqueeze", "aten::squeeze",
      "aten::unflatten", "aten::permute",      "aten::transpose",        "aten::t",         "aten::numpy_T",
      "aten::mT",        "aten::movedim",      "aten::swapaxes",         "aten::alias",     "aten::detach",
      "aten::expand",    "aten::slice",        "aten::select",           "aten::narrow",    "aten::split",
      "aten::chunk",     "aten::unbind",       "aten::split_with_sizes", "aten::reshape",   "aten::flatten",
      "aten::contiguous"};
  return views.contains(name);
}

class Exporter : private ExportNames {
 public:
  Exporter(const ExportProgram& program, std::string name, bool training)
      : program_(program), net_(std::move(name)), training_(training) {}

  void Convert() {
    AddInputs();
    ConvertGraph(program_.graph, program_.entry + ": graph_module.graph", 0);
  }

  NetworkBuilder& net() { return net_; }
  // The scalar whose gradients are computed. Throws InputError if no output depends on a parameter.
  Value Loss() {
    std::vector<Value> parts;
    for (const std::string_view output : program_.outputs) {
      const Value value = ValueOf(output, program_.entry);
      if (!net_.trained(value)) continue;
      parts.push_back(value);
    }
    if (parts.empty()) {
      throw InputError(program_.entry, "no output depends on a parameter that requires a gradient (--training)");
    }
    for (Value& part : parts) {
      if (!net_.shape(part).empty()) part = AddLossOp("reduce_sum", {part});
    }
    Value loss = parts.front();
    for (std::size_t i = 1; i < parts.size(); ++i) loss = AddLossOp("add", {loss, parts[i]});
    return loss;
  }

  std::vector<std::string> Notes() const;
  void RefuseWithoutRule(Value loss) const;

 private:
  struct Bound {
    Value value;
    std::size_t storage = 0;
    std::size_t version = 0;  // of the storage, when this name was written
  };
  struct Storage {
    std::size_t version = 0;
    std::string writer;  // the op that wrote to it in place last
    std::vector<std::string_view> names;
  };
  using Scope = std::unordered_map<std::string_view, Bound>;

  Value ValueOf(std::string_view name, const std::string& place) override {
    const auto found = scope_.find(name);
    if (found == scope_.end()) {
      const auto later = writers_.find(name);
      if (later != writers_.end()) {
        throw InputError(place,
                         fmt::format("reads {}, which only nodes[{}] writes (each node before those that read its "
                                     "results, so that there is no cycle)",
                                     Quoted(name), later->second));
      }
      throw InputError(place, "reads " + Quoted(name) + ", which nothing writes");
    }
    if (found->second.value.exists()) return found->second.value;
    return AddVariable(name);
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

  const ExportTensor& MetaOf(std::string_view name) const {
    const auto found = program_.graph.tensors.find(name);
    if (found == program_.graph.tensors.end()) {
      throw InputError(program_.entry, "input " + Quoted(name) + " has no shape");
    }
    return found->second;
  }

  void Bind(std::string_view name, Value value, std::size_t storage) {
    scope_[name] = {.value = value, .storage = storage, .version = storages_[storage].version};
    storages_[storage].names.push_back(name);
  }
  std::size_t NewStorage() {
    storages_.emplace_back();
    return storages_.size() - 1;
  }

  void AddInputs() {
    for (const ExportInput& input : program_.inputs) {
      if (scope_.contains(input.name))
        throw InputError(program_.entry, "input " + Quoted(input.name) + " is there twice");
      if (input.role != ExportInput::Role::kUser) {
        paths_.emplace(input.name, input);
        Bind(input.name, {}, NewStorage());  // becomes an op when it is read
        continue;
      }
      const ExportTensor& tensor = MetaOf(input.name);
      NetworkBuilder::Node node;
      node.name = UniqueName(std::string(input.name));
      node.kind = "input";
      node.attrs = BoundOf(input.name);
      Bind(input.name, net_.Add(std::move(node), {{.dtype = tensor.dtype, .shape = tensor.shape}}).front(),
           NewStorage());
    }
  }

  // Row numbers of an embedding stay below its rows.
  std::string BoundOf(std::string_view input) const {
    for (const ExportNode& node : program_.graph.nodes) {
      if (node.target != "torch.ops.aten.embedding.default" || node.inputs.size() < 2) continue;
      if (TensorName(node.inputs[1]) != input) continue;
      const auto table = program_.graph.tensors.find(TensorName(node.inputs[0]));
      if (table == program_.graph.tensors.end() || table->second.shape.empty()) continue;
      return fmt::format(R"({{"bound":{}}})", std::max<std::int64_t>(table->second.shape[0], 1));
    }
    return "";
  }

  Value AddVariable(std::string_view name) {
    const ExportInput& input = paths_.at(name);
    const ExportTensor& tensor = MetaOf(name);
    NetworkBuilder::Node node;
    node.name = UniqueName(std::string(input.path));
    node.kind = "variable";
    const std::size_t dot = input.path.rfind('.');
    if (dot != std::string_view::npos) node.layer = input.path.substr(0, dot);
    node.persistent = TensorBytes(tensor.dtype, tensor.shape, node.name);
    node.trainable =
        training_ && input.role == ExportInput::Role::kParameter && tensor.requires_grad && IsReal(tensor.dtype);
    const bool is_parameter = input.role == ExportInput::Role::kParameter;
    ++(is_parameter ? num_parameters_ : num_buffers_);
    (is_parameter ? parameter_bytes_ : buffer_bytes_) += static_cast<double>(node.persistent.count);
    const std::int64_t element_bytes = ElementBytes(tensor.dtype);
    if (is_parameter && element_bytes > 0) {
      parameter_elements_ += static_cast<double>(node.persistent.count) / static_cast<double>(element_bytes);
    }
    const Value value = net_.Add(std::move(node), {{.dtype = tensor.dtype, .shape = tensor.shape}}).front();
    scope_.at(name).value = value;
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
      ConvertNode(graph, graph.nodes[i], fmt::format("{}.nodes[{}]", place, i), depth);
    }
    writers_ = std::move(writers);
  }

  void ConvertNode(const ExportGraph& graph, const ExportNode& node, const std::string& place, int depth) {
    ExportCall call(net_, *this, graph, node, place, training_);
    const JsonValue* const subgraph = GraphIn(node);
    if (subgraph != nullptr) {
      Inline(node, *subgraph, call, place, depth);
      return;
    }
    if (call.num_outputs() == 0) return;  // checks, and arithmetic of sizes
    ++num_nodes_;
    std::string name = ExportKind(node.target, false);
    const bool in_place = name.size() > 7 && name.ends_with('_') && !name.ends_with("__");
    if (in_place) name.pop_back();
    call.SetControls(WritersBefore(node));
    if (!LowerExportCall(call)) {
      call.EmitAsItIs(ExportFlop(call));
      ++kept_[net_.nodes().back().kind];
    }
    const std::string_view first = node.inputs.empty() ? std::string_view() : TensorName(node.inputs[0]);
    const auto source = scope_.find(first);
    const std::optional<Bound> shared =
        source != scope_.end() && (in_place || IsView(name)) ? std::optional(source->second) : std::nullopt;
    for (std::size_t i = 0; i < call.num_outputs(); ++i) {
      const std::string_view output = call.output_name(i);
      if (scope_.contains(output)) throw InputError(place, "writes " + Quoted(output) + ", which is there already");
      if (!call.results()[i]) {
        throw InputError(place, fmt::format("{} has {} results", Quoted(node.target), call.num_outputs()));
      }
      const std::size_t storage = shared ? shared->storage : NewStorage();
      if (in_place && shared && i == 0) WriteInPlace(shared->value, *call.results()[i], storage);
      Bind(output, *call.results()[i], storage);
    }
  }

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

  // All names of the same value have the new one; other views of the memory stay behind.
  void WriteInPlace(Value old, Value written, std::size_t storage) {
    Storage& memory = storages_[storage];
    ++memory.version;
    memory.writer = net_.nodes()[net_.producer(written)].name;
    for (const std::string_view name : memory.names) {
      const auto bound = scope_.find(name);
      if (bound == scope_.end() || !(bound->second.value == old)) continue;
      bound->second.value = written;
      bound->second.version = memory.version;
    }
  }

  // torch.no_grad() and autocast around a part of the network: its ops, in place of the call.
  void Inline(const ExportNode& node, const JsonValue& subgraph, ExportCall& call, const std::string& place,
              int depth) {
    const std::string kind = ExportKind(node.target, false);
    const bool no_grad = kind == "higher_order::wrap_with_set_grad_enabled";
    if (!no_grad && kind != "higher_order::wrap_with_autocast") {
      throw InputError(place, fmt::format("calls {}, which runs a graph inside of the graph (conditions and loops are "
                                          "not read)",
                                          Quoted(node.target)));
    }
    const bool enabled = !no_grad || (!node.inputs.empty() && node.inputs[0].tag == "as_bool" &&
                                      node.inputs[0].value->As<bool>() != nullptr && *node.inputs[0].value->As<bool>());
    std::vector<std::string_view> operands;
    bool after = false;
    for (const ExportArgument& argument : node.inputs) {
      if (after && argument.tag == "as_tensor") operands.push_back(TensorName(argument));
      after = after || argument.tag == "as_graph";
    }
    subgraphs_.push_back(std::make_unique<ExportGraph>(ReadExportSubgraph(program_, subgraph, place)));
    const ExportGraph& inner = *subgraphs_.back();
    std::vector<std::string_view> formal;
    for (const ExportArgument& input : inner.inputs) {
      if (input.tag == "as_tensor") formal.push_back(TensorName(input));
    }
    std::vector<std::string_view> given;
    for (const ExportArgument& output : inner.outputs) {
      if (output.tag == "as_tensor") given.push_back(TensorName(output));
    }
    if (formal.size() != operands.size() || given.size() != call.num_outputs()) {
      throw InputError(place, "the graph inside has other inputs or outputs than the call");
    }
    Scope scope;
    for (std::size_t i = 0; i < formal.size(); ++i) {
      const Value value = ValueOf(operands[i], place);
      scope[formal[i]] = {.value = value, .storage = scope_.at(operands[i]).storage, .version = 0};
      scope[formal[i]].version = storages_[scope[formal[i]].storage].version;
    }
    std::swap(scope, scope_);
    ConvertGraph(inner, place, depth + 1);
    std::vector<Value> values;
    values.reserve(given.size());
    for (const std::string_view output : given) values.push_back(ValueOf(output, place));
    std::swap(scope, scope_);
    for (std::size_t i = 0; i < values.size(); ++i) {
      Value value = values[i];
      if (training_ && !enabled && net_.trained(value)) {
        value = call.Emit("stop_gradient", {value}, {{.dtype = net_.dtype(value), .shape = net_.shape(value)}}).front();
      }
      if (scope_.contains(call.output_name(i))) {
        throw InputError(place, "writes " + Quoted(call.output_name(i)) + ", which is there already");
      }
      Bind(call.output_name(i), value, NewStorage());
    }
  }

  Value AddLossOp(std::string_view kind, std::vector<Value> inputs) {
    NetworkBuilder::Node node;
    node.name = UniqueName(fmt::format("loss/{}", kind));
    node.kind = kind;
    node.layer = "loss";
    node.inputs = std::move(inputs);
    const DType dtype = net_.dtype(node.inputs.front());
    return net_.Add(std::move(node), {{.dtype = dtype, .shape = {}}}).front();
  }

  const ExportProgram& program_;
  NetworkBuilder net_;
  bool training_;
  Scope scope_;
  std::vector<Storage> storages_;
  std::unordered_map<std::string_view, ExportInput> paths_;
  std::unordered_map<std::string_view, std::size_t> writers_;  // of the graph at hand
  std::vector<std::unique_ptr<ExportGraph>> subgraphs_;        // names point into their document
  std::set<std::string> names_;
  std::map<std::string, std::size_t> name_counts_;
  std::map<std::string, std::size_t> kept_;  // kinds that the catalogue does not have
  std::size_t num_nodes_ = 0;
  std::size_t num_parameters_ = 0;
  std::size_t num_buffers_ = 0;
  double parameter_elements_ = 0;
  double parameter_bytes_ = 0;
  double buffer_bytes_ = 0;
};

std::vector<std::string> Exporter::Notes() const {
  std::vector<std::string> notes;
  std::size_t kept = 0;
  std::string kinds;
  for (const auto& [kind, count] : kept_) {
    kept += count;
    kinds += fmt::format("{}{}{}", kinds.empty() ? "" : ", ", kind, count == 1 ? "" : fmt::format(" ({})", count));
  }
  notes.push_back(fmt::format("{} of {} operators are kinds of the op catalogue{}", num_nodes_ - kept, num_nodes_,
                              kept == 0 ? "" : "; others keep their own: " + kinds));
  notes.push_back(fmt::format("{} parameters with {} numbers ({} bytes), {} buffers ({} bytes)", num_parameters_,
                              parameter_elements_, parameter_bytes_, num_buffers_, buffer_bytes_));
  std::size_t unread = 0;
  for (const auto& [name, input] : paths_) {
    const auto bound = scope_.find(name);
    if (bound != scope_.end() && !bound->second.value.exists()) ++unread;
  }
  if (unread > 0) notes.push_back(fmt::format("{} parameters and buffers that no operator reads are left out", unread));
  std::string hinted;
  for (const std::string& symbol : program_.hinted) {
    hinted += fmt::format("{}{} = {}", hinted.empty() ? "" : ", ", symbol, program_.symbols.at(symbol));
  }
  if (!hinted.empty())
    notes.push_back("open sizes are those of the exported example: " + hinted + " (--input sets them)");
  return notes;
}

// What lies between parameters and loss: from the loss back over what has a gradient.
void Exporter::RefuseWithoutRule(Value loss) const {
  const std::deque<NetworkBuilder::Node>& nodes = net_.nodes();
  std::vector<bool> reached(nodes.size(), false);
  reached[net_.producer(loss)] = true;
  std::map<std::string, std::string> unknown;  // an op of each kind
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (!reached[i]) continue;
    bool any = false;
    for (const Value input : nodes[i].inputs) {
      if (!net_.trained(input)) continue;
      reached[net_.producer(input)] = true;
      any = true;
    }
    if (any && nodes[i].kind != "stop_gradient" && !HasGradientRule(nodes[i].kind)) {
      unknown.emplace(nodes[i].kind, nodes[i].name);
    }
  }
  if (unknown.empty()) return;
  std::string kinds;
  for (const auto& [kind, op] : unknown) kinds += fmt::format("{}{} ({})", kinds.empty() ? "" : ", ", kind, op);
  throw InputError("--training", "there is no rule for the gradient of " + kinds);
}

}  // namespace

bool LooksLikeTorchExport(std::string_view head) { return head.starts_with("PK\x03\x04"); }

Imported ImportTorchExport(std::span<const ImportSource> sources, const ImportOptions& options) {
  const ImportSource& source = sources.front();
  return AtPlace(source.name(), [&]() -> Imported {
    const ExportProgram program = ReadExportProgram(source, options.inputs);
    const bool training = !options.training.empty();
    Exporter exporter(program, "torch-export", training);
    exporter.Convert();
    if (!training) {
      Graph graph = exporter.net().Build();
      return {.graph = std::move(graph), .cluster = std::nullopt, .notes = exporter.Notes()};
    }
    const std::vector<std::string_view>& optimizers = OptimizerNames();
    if (std::find(optimizers.begin(), optimizers.end(), options.training) == optimizers.end()) {
      throw InputError("--optimizer", fmt::format("is {} ({})", Quoted(options.training), fmt::join(optimizers, ", ")));
    }
    const Value loss = exporter.Loss();
    exporter.RefuseWithoutRule(loss);
    static_cast<void>(exporter.net().Build());  // rules of gradients rely on shapes that fit
    std::vector<Value> unreached;
    TrainingOptions how;
    how.optimizer = options.training;
    Graph graph = BuildTrainingGraph(exporter.net(), loss, how, &unreached);
    std::vector<std::string> notes = exporter.Notes();
    if (!unreached.empty()) {
      notes.push_back(fmt::format("{} parameters do not reach the loss and are not updated", unreached.size()));
    }
    return {.graph = std::move(graph), .cluster = std::nullopt, .notes = std::move(notes)};
  });
}

}  // namespace emplace::datasets
