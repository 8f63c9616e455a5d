#include "datasets/importers/onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <istream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "datasets/importers/importers.h"
#include "datasets/importers/kineto.h"
#include "datasets/importers/onnx_kinds.h"
#include "datasets/importers/onnx_wire.h"
#include "sim/base/check.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"
#include "sim/base/plugin.h"
#include "sim/base/printable.h"
#include "sim/ops/op_catalog.h"

namespace emplace::datasets {
namespace {

const OnnxExports& OnnxPart() {
  static const auto* const part =
      static_cast<const OnnxExports*>(LoadPlugin({.file = EMPLACE_ONNX_FILE,
                                                  .built = EMPLACE_ONNX_PATH,
                                                  .symbol = kOnnxName,
                                                  .what = "the library that reads ONNX models"}));
  return *part;
}

// Element types of ONNX in the terms of graph.json: wide unsigned integers as signed ones of the same width, and types
// that graph.json cannot name as integers of 8 bits. 0 bits: the size is not fixed.
struct OnnxElement {
  DType dtype = DType::kNone;
  int bits = 0;
};
OnnxElement ElementOf(std::int32_t element) {
  static constexpr OnnxElement kElements[] = {
      {},  // 0: undefined
      {DType::kF32, 32},
      {DType::kU8, 8},  // float, uint8
      {DType::kI8, 8},
      {DType::kI16, 16},  // int8, uint16
      {DType::kI16, 16},
      {DType::kI32, 32},  // int16, int32
      {DType::kI64, 64},
      {},  // int64, string
      {DType::kBool, 8},
      {DType::kF16, 16},  // bool, float16
      {DType::kF64, 64},
      {DType::kI32, 32},  // double, uint32
      {DType::kI64, 64},
      {DType::kNone, 64},  // uint64, complex64
      {DType::kNone, 128},
      {DType::kBf16, 16},  // complex128, bfloat16
      {DType::kF8E4M3, 8},
      {DType::kF8E4M3, 8},  // float8e4m3fn, float8e4m3fnuz
      {DType::kF8E5M2, 8},
      {DType::kF8E5M2, 8},  // float8e5m2, float8e5m2fnuz
      {DType::kU4, 4},
      {DType::kI4, 4},  // uint4, int4
      {DType::kI8, 4},
      {DType::kI8, 8},  // float4e2m1, float8e8m0
      {DType::kU8, 2},
      {DType::kI8, 2},  // uint2, int2
  };
  return element < 0 || element >= static_cast<std::int32_t>(std::size(kElements))
             ? OnnxElement{}
             : kElements[static_cast<std::size_t>(element)];
}

bool HasSize(const OnnxType& type) { return type.IsWhole() && ElementOf(type.element).bits != 0; }

OutputSpec OutputOf(const OnnxType& type, const std::string& place) {
  if (!HasSize(type)) return {.size = Bytes{0}, .dtype = DType::kNone, .shape = {}};
  const OnnxElement element = ElementOf(type.element);
  if (element.dtype != DType::kNone) {
    const std::int64_t bytes = TensorBytes(element.dtype, *type.dims, place).count;
    constexpr int kByte = 8;
    if (element.bits == ElementBits(element.dtype))
      return {.size = std::nullopt, .dtype = element.dtype, .shape = *type.dims};
    const std::int64_t in_a_byte = kByte / element.bits;
    return {.size = Bytes{bytes / in_a_byte + (bytes % in_a_byte != 0 ? 1 : 0)},
            .dtype = element.dtype,
            .shape = *type.dims};
  }
  std::vector<std::int64_t> dims = *type.dims;
  dims.push_back(element.bits / 8);
  return {.size = TensorBytes(DType::kI8, dims, place), .dtype = DType::kNone, .shape = {}};
}

// The scope of a node as PyTorch's exporter names it: "/layer1/conv/Conv" is in layer1/conv.
std::string LayerOf(const std::string& name) {
  const std::size_t end = name.rfind('/');
  if (end == std::string::npos || end == 0) return "";
  return name.substr(name[0] == '/' ? 1 : 0, end - (name[0] == '/' ? 1 : 0));
}

// "first (3), second, ... and 4 more"
std::string Counted(const std::map<std::string, std::size_t>& counts) {
  constexpr std::size_t kMost = 8;
  std::string text;
  std::size_t shown = 0;
  for (const auto& [name, count] : counts) {
    if (shown == kMost) return fmt::format("{} and {} more", text, counts.size() - shown);
    text += (shown == 0 ? "" : ", ") + name + (count > 1 ? fmt::format(" ({})", count) : "");
    ++shown;
  }
  return text;
}

void CheckNames(const OnnxModel& model) {
  const auto check = [](const std::string& name, const std::string& place) {
    if (!IsValidUtf8(name)) throw InputError(place, "has a name that is not valid UTF-8");
  };
  check(model.graph_name, "graph");
  check(model.producer, "producer_name");
  for (const auto& input : model.inputs) {
    check(input.name, "input");
    for (const std::string& symbol : input.symbols) check(symbol, "input");
  }
  for (const OnnxTensor& tensor : model.initializers) check(tensor.name, "initializer");
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const OnnxNode& node = model.nodes[i];
    const std::string place = fmt::format("node {}", i);
    check(node.name, place);
    check(node.op, place);
    check(node.domain, place);
    if (node.op.empty()) throw InputError(place, "has no op_type");
    for (const std::string& name : node.outputs) check(name, place);
  }
}

// Without their sizes nothing behind them has one.
void CheckInputs(const OnnxModel& model) {
  for (const auto& input : model.inputs) {
    if (!input.type.is_tensor || input.type.IsWhole() || input.type.element == kOnnxUnknown) continue;
    if (!input.type.dims) {
      throw InputError(fmt::format("input \"{}\"", input.name),
                       fmt::format("has no shape in the file: set it, as --input {}=1x3x224x224", input.name));
    }
    std::string example;
    std::vector<std::string> free;
    for (std::size_t i = 0; i < input.type.dims->size(); ++i) {
      const std::int64_t dim = (*input.type.dims)[i];
      example += (i == 0 ? "" : "x") + std::to_string(dim == OnnxType::kFree ? 1 : dim);
      if (dim != OnnxType::kFree) continue;
      const std::string symbol = i < input.symbols.size() ? input.symbols[i] : "";
      free.push_back(symbol.empty() ? std::to_string(i) : fmt::format("{} (\"{}\")", i, symbol));
    }
    throw InputError(fmt::format("input \"{}\"", input.name),
                     fmt::format("has free dimensions: {}; set its shape, as --input {}={}", fmt::join(free, ", "),
                                 input.name, example));
  }
}

// The model's own information about its values.
OnnxValues ValuesOf(const OnnxModel& model) {
  OnnxValues values;
  for (const auto& [name, type] : model.types) values.types[name] = type;
  for (const auto& input : model.inputs) values.types[input.name] = input.type;
  for (const OnnxTensor& tensor : model.initializers) {
    values.types[tensor.name] = {.is_tensor = !tensor.bytes, .element = tensor.element, .dims = tensor.dims};
  }
  values.constants = &model.constants;
  return values;
}

// Whether nothing need run for its outputs: they are stored with the model, or follow from shapes.
bool IsConstant(const OnnxModel& model, const OnnxValues& values, const OnnxNode& node) {
  if (!node.domain.empty() || node.outputs.empty() || node.outputs[0].empty()) return false;
  if (node.op == "Constant") return true;
  if (node.op == "ConstantOfShape") return !node.inputs.empty() && model.constants.contains(node.inputs[0]);
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& output) {
    const OnnxType* const type = values.Find(output);
    return model.known.contains(output) && type != nullptr && type->IsWhole();
  });
}

// The ops of each node; none of what becomes a variable.
using OnnxPlans = std::vector<std::vector<OnnxPlannedOp>>;

OnnxPlans PlanNodes(const OnnxModel& model, const OnnxValues& values) {
  OnnxPlans plans;
  for (const OnnxNode& node : model.nodes) {
    std::vector<OnnxPlannedOp>& plan = plans.emplace_back();
    if (IsConstant(model, values, node)) continue;
    plan = PlanOnnxNode(node, values);
    if (plan.empty()) plan.push_back(PlanAsItIs(node, values));
  }
  return plans;
}

// Names for ops.
class OnnxOpNames {
 public:
  // A name for an op: `wanted`, changed where graphs do not allow it, or where another op has it.
  std::string NameFor(const std::string& wanted, std::string_view otherwise) {
    constexpr std::size_t kLongest = 200;
    std::string shown = wanted.substr(0, kLongest);
    while (!IsValidUtf8(shown)) shown.pop_back();
    std::string name = WithoutColons(shown);
    while (!name.empty() && (name[0] == '^' || name[0] == '/')) name.erase(0, 1);
    for (char& c : name) {
      if (c == '\n') c = ' ';
    }
    if (name.empty()) name = otherwise;
    if (names_.insert(name).second) return name;
    for (std::size_t& count = repeats_[name];;) {
      std::string numbered = fmt::format("{}#{}", name, ++count + 1);
      if (names_.insert(numbered).second) return numbered;
    }
  }

 private:
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, std::size_t> repeats_;
};

OnnxType TypeOrNone(const OnnxValues& values, const std::string& name) {
  const OnnxType* const type = values.Find(name);
  return type == nullptr ? OnnxType{} : *type;
}

std::string FirstOutput(const OnnxNode& node) {
  const auto found =
      std::find_if(node.outputs.begin(), node.outputs.end(), [](const std::string& name) { return !name.empty(); });
  return found == node.outputs.end() ? node.op : *found;
}

constexpr std::size_t kInvalidNode = ~std::size_t{0};

// The ops of a graph before it is built.
struct OnnxOps {
  std::vector<OpSpec> specs;
  std::vector<std::size_t> node_of;  // indexed by op; kInvalidNode: it is an input or a variable
};

// Where the values of a model are in its graph.
struct OnnxPlaces {
  std::unordered_map<std::string, std::string> outputs;  // "op:index"
  std::unordered_map<std::string, std::string> writers;  // the op; none of inputs and variables
};

// Adds an input or a variable. `bytes`: of a sparse one.
void AddSource(const std::string& name, std::string_view kind, const OnnxType& type, std::optional<double> bytes,
               OnnxOpNames* names, OnnxPlaces* places, OnnxOps* ops) {
  OpSpec spec;
  spec.name = names->NameFor(name, kind);
  spec.kind = kind;
  const std::string place = fmt::format("{} \"{}\"", kind, name);
  spec.outputs.push_back(OutputOf(type, place));
  if (bytes) spec.outputs[0] = {.size = Bytes{static_cast<std::int64_t>(std::min(*bytes, 0x1p61))}, .shape = {}};
  if (kind == "variable") {
    spec.persistent =
        spec.outputs[0].size ? *spec.outputs[0].size : TensorBytes(spec.outputs[0].dtype, spec.outputs[0].shape, place);
  }
  spec.pass = Pass::kForward;
  places->outputs[name] = spec.name + ":0";
  ops->specs.push_back(std::move(spec));
  ops->node_of.push_back(kInvalidNode);
}

// Adds the inputs of the model, and the variables that its nodes read.
void AddSources(const OnnxModel& model, const OnnxValues& values, const OnnxPlans& plans, OnnxOpNames* names,
                OnnxPlaces* places, OnnxOps* ops) {
  std::unordered_set<std::string> read;
  for (const auto& plan : plans) {
    for (const OnnxPlannedOp& op : plan) read.insert(op.inputs.begin(), op.inputs.end());
  }
  for (const auto& input : model.inputs) AddSource(input.name, "input", input.type, std::nullopt, names, places, ops);
  for (const OnnxTensor& tensor : model.initializers) {
    if (!read.contains(tensor.name)) continue;
    AddSource(tensor.name, "variable", *values.Find(tensor.name), tensor.bytes, names, places, ops);
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (!plans[i].empty()) continue;
    for (const std::string& output : model.nodes[i].outputs) {
      if (!read.contains(output)) continue;
      AddSource(output, "variable", TypeOrNone(values, output), std::nullopt, names, places, ops);
    }
  }
}

// The names of the ops of each node. Nodes need not be in the order in which they read, so names are given first.
std::vector<std::vector<std::string>> NameOps(const OnnxModel& model, const OnnxPlans& plans, OnnxOpNames* names,
                                              OnnxPlaces* places) {
  std::vector<std::vector<std::string>> op_names(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const OnnxNode& node = model.nodes[i];
    const std::string base =
        plans[i].empty() ? "" : names->NameFor(node.name.empty() ? FirstOutput(node) : node.name, node.op);
    for (const OnnxPlannedOp& op : plans[i]) {
      op_names[i].push_back(op.suffix.empty() ? base : names->NameFor(base + "/" + op.suffix, op.kind));
      for (std::size_t k = 0; k < op.outputs.size(); ++k) {
        const std::string& value = op.outputs[k].first;
        if (value.empty()) continue;
        places->outputs[value] = fmt::format("{}:{}", op_names[i].back(), k);
        places->writers[value] = op_names[i].back();
      }
    }
  }
  return op_names;
}

OpSpec OpOf(const OnnxPlannedOp& op, const std::string& name, const OnnxPlaces& places, const OnnxNode& node,
            std::size_t position) {
  OpSpec spec;
  spec.name = name;
  spec.kind = op.kind;
  for (const std::string& input : op.inputs) spec.inputs.push_back(places.outputs.at(input));
  for (const std::string& wait : op.waits) {
    const auto found = places.writers.find(wait);
    if (found != places.writers.end()) spec.control_inputs.push_back(found->second);
  }
  for (const auto& [output, type] : op.outputs) {
    spec.outputs.push_back(OutputOf(type, fmt::format("node {} ({} \"{}\")", position, node.op, node.name)));
  }
  spec.attrs = op.attrs;
  spec.layer = LayerOf(node.name);
  if (!IsValidUtf8(spec.layer)) spec.layer.clear();
  if (op.suffix.empty()) {
    spec.persistent = Bytes{static_cast<std::int64_t>(std::min(node.subgraph_bytes, 0x1p61))};
  }
  spec.pass = Pass::kForward;
  return spec;
}

OnnxOps OpsOf(const OnnxModel& model, const OnnxValues& values, const OnnxPlans& plans) {
  OnnxOps ops;
  OnnxOpNames names;
  OnnxPlaces places;
  AddSources(model, values, plans, &names, &places, &ops);
  const std::vector<std::vector<std::string>> op_names = NameOps(model, plans, &names, &places);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    for (std::size_t k = 0; k < plans[i].size(); ++k) {
      ops.specs.push_back(OpOf(plans[i][k], op_names[i][k], places, model.nodes[i], i));
      ops.node_of.push_back(i);
    }
  }
  return ops;
}

Graph BuildGraph(const OnnxModel& model, const std::vector<OpSpec>& specs) {
  GraphBuilder builder(model.graph_name.empty() ? "onnx" : model.graph_name);
  for (const OpSpec& spec : specs) builder.Add(spec);
  JsonObject metadata;
  AddMember(&metadata, "source", "onnx");
  if (!model.producer.empty()) AddMember(&metadata, "producer", model.producer);
  AddMember(&metadata, "ir_version", model.ir_version);
  AddMember(&metadata, "opset", model.opset);
  builder.SetMetadata(JsonText(ToJson(std::move(metadata))));
  return builder.Build();
}

bool AllTyped(const Graph& graph, OpId id) {
  for (const TensorId input : graph.inputs(id)) {
    if (graph.tensor(input).dtype == DType::kNone) return false;
  }
  for (std::size_t i = 0; i < graph.num_outputs(id); ++i) {
    if (graph.tensor(MakeId<TensorId>(Index(graph.first_output(id)) + i)).dtype == DType::kNone) return false;
  }
  return true;
}

// The work of the ops of a graph, as the op catalogue knows it.
struct OnnxWork {
  std::vector<double> flop;            // indexed by op, as they were added
  std::set<std::size_t> without_flop;  // nodes with an op whose FLOP are not known
  std::set<std::size_t> refused;       // those among them with an op that does not fit its kind
  std::string why;                     // why the last one does not
};

OnnxWork WorkOf(const Graph& graph, const std::vector<std::size_t>& node_of) {
  OnnxWork work;
  work.flop.resize(graph.num_ops());
  for (std::size_t position = 0; position < graph.num_ops(); ++position) {
    const OpId id = graph.file_order()[position];
    const std::size_t node = node_of[position];
    const OpKind* const kind = FindOpKind(graph.op(id).kind);
    bool has_flop = kind != nullptr && AllTyped(graph, id);
    try {
      if (has_flop) work.flop[position] = CountedFlop(*kind, graph, id);
    } catch (const InputError& error) {
      has_flop = false;
      if (node != kInvalidNode) {
        work.refused.insert(node);
        work.why = error.what();
      }
    }
    if (!has_flop && node != kInvalidNode) work.without_flop.insert(node);
  }
  return work;
}

double ElementsOf(const Tensor& tensor) {
  double elements = 1;
  for (const std::int64_t dim : tensor.shape) elements *= static_cast<double>(dim);
  return elements;
}

std::string FirstLine(const std::string& text) {
  constexpr std::size_t kLongest = 160;
  std::string line = text.substr(0, std::min(text.find('\n'), kLongest));
  while (!IsValidUtf8(line)) line.pop_back();
  return line;
}

// Notes about the nodes. Nodes that become variables do not count.
struct OnnxNodeCounts {
  std::size_t nodes = 0;
  std::size_t shaped = 0;  // nodes with the sizes of all outputs
  std::size_t known = 0;   // nodes with the FLOP of all ops
  std::size_t foreign = 0;
  std::size_t guessed = 0;
  std::size_t kept = 0;  // nodes with subgraphs that are not inlined
  // By what they are.
  std::map<std::string, std::size_t> unshaped_names;
  std::map<std::string, std::size_t> foreign_kinds;
  std::map<std::string, std::size_t> subgraph_nodes;
  std::string failure;  // why the first one has no shape

  double Percent(std::size_t part) const {
    return nodes == 0 ? 100 : 100 * static_cast<double>(part) / static_cast<double>(nodes);
  }
  std::string Share(std::size_t part) const {
    return fmt::format("{} of {} nodes ({:.1f} %)", part, nodes, Percent(part));
  }
};

OnnxNodeCounts CountNodes(const OnnxModel& model, const OnnxValues& values, const OnnxPlans& plans,
                          const std::set<std::size_t>& without_flop) {
  OnnxNodeCounts counts;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const OnnxNode& node = model.nodes[i];
    if (plans[i].empty()) continue;
    const bool is_known = !without_flop.contains(i);
    const bool has_shapes = std::ranges::all_of(
        node.outputs, [&](const std::string& name) { return name.empty() || HasSize(TypeOrNone(values, name)); });
    ++counts.nodes;
    counts.guessed += node.is_guess ? 1 : 0;
    counts.shaped += has_shapes ? 1 : 0;
    counts.known += is_known ? 1 : 0;
    if (!has_shapes) {
      ++counts.unshaped_names[fmt::format("{} \"{}\"", node.op, node.name.empty() ? FirstOutput(node) : node.name)];
      if (counts.failure.empty()) counts.failure = node.failure;
    } else if (!is_known && node.subgraph_nodes == 0) {
      ++counts.foreign_kinds[OnnxKind(node)];
      ++counts.foreign;
    }
    if (node.subgraph_nodes > 0 && !is_known) {
      ++counts.kept;
      counts.subgraph_nodes[OnnxKind(node)] += node.subgraph_nodes;
    }
  }
  return counts;
}

// Adds what is not known of nodes. `why`: an op of a kind in the catalogue does not fit it.
void AddNodeNotes(const OnnxNodeCounts& counts, const std::string& why, std::vector<std::string>* notes) {
  if (!counts.unshaped_names.empty()) {
    notes->push_back(fmt::format("{} have no shape, and count 0 bytes and 0 FLOP: {}{}",
                                 counts.Share(counts.nodes - counts.shaped), Counted(counts.unshaped_names),
                                 counts.failure.empty() ? "" : fmt::format(" ({})", FirstLine(counts.failure))));
  }
  if (!counts.foreign_kinds.empty()) {
    notes->push_back(fmt::format("{} have a shape, but count 0 FLOP, as roofline does not know them: {}{}",
                                 counts.Share(counts.foreign), Counted(counts.foreign_kinds),
                                 why.empty() ? "" : fmt::format(" ({})", FirstLine(why))));
  }
  if (!counts.subgraph_nodes.empty()) {
    notes->push_back(
        fmt::format("{} have subgraphs that run an unknown number of times, or as more than 20,000 nodes: one op "
                    "each, of 0 FLOP; "
                    "nodes inside: {}",
                    counts.Share(counts.kept), Counted(counts.subgraph_nodes)));
  }
}

// Adds what the model left open, and what was taken instead.
void AddModelNotes(const OnnxModel& model, const OnnxNodeCounts& counts, std::vector<std::string>* notes) {
  if (!model.guesses.empty()) {
    constexpr std::size_t kShown = 8;
    const std::size_t shown = std::min(kShown, model.guesses.size());
    const auto end = model.guesses.begin() + static_cast<std::ptrdiff_t>(shown);
    const std::size_t more = model.guesses.size() - shown;
    notes->push_back(
        fmt::format("{} are of an If or a Loop whose condition could not be worked out from shapes and constants; "
                    "taken: the branch with more nodes, all iterations ({}{})",
                    counts.Share(counts.guessed), fmt::join(model.guesses.begin(), end, ", "),
                    more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  if (model.contradictions > 0) {
    const std::size_t more = model.contradictions - 1;
    notes->push_back(fmt::format(
        "warning: the file states another shape than follows from a node's inputs; the inferred one is taken: {}{}",
        Printable(model.first_contradiction), more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  if (model.unread > 0 && !counts.unshaped_names.empty()) {
    notes->push_back(
        fmt::format("warning: the content of {} is in files that cannot be read ({}), so shapes that follow from it "
                    "are not known",
                    emplace::Counted(model.unread, "small tensor"), Quoted(model.unread_file)));
  }
}

// Adds the sizes of weights and tensors, and the share of nodes whose work is known.
void AddSizeNotes(const Graph& graph, const OnnxNodeCounts& counts, std::vector<std::string>* notes) {
  double weights = 0;
  double elements = 0;
  double all = 0;
  std::size_t variables = 0;
  double flop = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    flop += graph.op(id).flop;
    for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
      const Tensor& tensor = graph.tensor(MakeId<TensorId>(Index(graph.first_output(id)) + k));
      all += static_cast<double>(tensor.size.count);
      if (graph.op(id).kind != "variable") continue;
      ++variables;
      weights += static_cast<double>(tensor.size.count);
      if (tensor.dtype != DType::kNone) elements += weights == 0 ? 0 : ElementsOf(tensor);
    }
  }
  notes->push_back(fmt::format("weights: {} variables, {:.0f} numbers, {:.3f} MB; {:.3f} GFLOP a run", variables,
                               elements, weights / 1e6, flop / 1e9));
  notes->push_back(
      fmt::format("attributed: {} of {} nodes have shapes ({:.1f} %), {} have a kind that roofline knows ({:.1f} %); "
                  "{:.3f} MB of tensors; the file has no times",
                  counts.shaped, counts.nodes, counts.Percent(counts.shaped), counts.known,
                  counts.Percent(counts.known), all / 1e6));
}

}  // namespace

OnnxModel ReadOnnx(std::istream& in, const std::vector<InputShape>& inputs, const std::string& folder) {
  const bool is_text = StartsOnnxText(in.peek());
  OnnxParsed parsed = is_text ? OnnxPart().parse({std::istreambuf_iterator<char>(in), {}}, true, inputs, folder)
                              : OnnxPart().parse(CondensedOnnx(in), false, inputs, folder);
  if (!parsed.problem.empty()) throw InputError("", parsed.problem);
  return std::move(parsed.model);
}

Imported MakeOnnxGraph(const OnnxModel& model) {
  CheckNames(model);
  CheckInputs(model);
  const OnnxValues values = ValuesOf(model);
  OnnxPlans plans = PlanNodes(model, values);
  OnnxOps ops = OpsOf(model, values, plans);
  OnnxWork work = WorkOf(BuildGraph(model, ops.specs), ops.node_of);
  // The catalogue says whether shapes and attributes fit its kinds; a node with an op that does not stays as it is.
  if (!work.refused.empty()) {
    for (const std::size_t node : work.refused) plans[node] = {PlanAsItIs(model.nodes[node], values)};
    ops = OpsOf(model, values, plans);
    work = WorkOf(BuildGraph(model, ops.specs), ops.node_of);
  }
  for (std::size_t i = 0; i < ops.specs.size(); ++i) ops.specs[i].flop = work.flop[i];
  Imported imported{.graph = BuildGraph(model, ops.specs), .cluster = std::nullopt, .notes = {}};
  const OnnxNodeCounts counts = CountNodes(model, values, plans, work.without_flop);
  const std::int64_t newest = OnnxPart().newest_opset();
  if (model.opset > newest) {
    imported.notes.push_back(fmt::format(
        "opset {} is newer than libonnx's {}: operators are taken as they are there, where they did not change",
        model.opset, newest));
  }
  AddNodeNotes(counts, work.why, &imported.notes);
  AddModelNotes(model, counts, &imported.notes);
  AddSizeNotes(imported.graph, counts, &imported.notes);
  return imported;
}

namespace {

// The folder of a file; "" for what is not a file, such as standard input.
std::string FolderOf(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return "";
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  return folder.empty() ? "." : folder.string();
}

}  // namespace

Imported ImportOnnx(std::span<const ImportSource> sources, const ImportOptions& options) {
  const std::vector<InputShape> inputs = ReadInputShapes(options.inputs);
  const ImportSource& source = sources.front();
  return WithLocation(source.name(), [&] {
    const auto in = source.Open(InputKind::kOnnx);
    return MakeOnnxGraph(ReadOnnx(*in, inputs, FolderOf(source.name())));
  });
}

}  // namespace emplace::datasets
