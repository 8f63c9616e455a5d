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

// Elements of ONNX as graph.json has them: unsigned integers as signed ones of the same width, and what is smaller than
// a byte, or a byte that is no integer, as integers of 8 bits. 0 bits: of no fixed size.
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
      {DType::kI8, 8},
      {DType::kI8, 8},  // float8e4m3fn, float8e4m3fnuz
      {DType::kI8, 8},
      {DType::kI8, 8},  // float8e5m2, float8e5m2fnuz
      {DType::kU8, 4},
      {DType::kI8, 4},  // uint4, int4
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
    if (element.bits >= kByte) return {.size = std::nullopt, .dtype = element.dtype, .shape = *type.dims};
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

class OnnxGraphMaker {
 public:
  explicit OnnxGraphMaker(const OnnxModel& model) : model_(model) {}

  Imported Make() {
    CheckNames();
    CheckInputs();
    AddTypes();
    std::vector<std::vector<OnnxPlannedOp>> plans = Plans();
    const Graph first = BuildFrom(plans, nullptr);
    // The catalogue says whether shapes and attributes fit its kinds; a node with an op that does not stays as it is.
    std::vector<double> flop = FlopOf(first);
    if (!refused_.empty()) {
      for (const std::size_t node : refused_) plans[node] = {PlanAsItIs(model_.nodes[node], values_)};
      flop = FlopOf(BuildFrom(plans, nullptr));
    }
    Imported imported{.graph = BuildFrom(plans, &flop), .cluster = std::nullopt, .notes = {}};
    AddNotes(&imported, plans);
    return imported;
  }

 private:
  static constexpr std::size_t kNoNode = ~std::size_t{0};

  // By position. Fills without_flop_ with the nodes that have an op whose FLOP are not known, and refused_ with those
  // among them that do not fit their kinds.
  std::vector<double> FlopOf(const Graph& graph) {
    std::vector<double> flop(graph.num_ops());
    without_flop_.clear();
    refused_.clear();
    why_.clear();
    for (std::size_t position = 0; position < graph.num_ops(); ++position) {
      const OpId id = graph.file_order()[position];
      const std::size_t node = node_of_[position];
      const OpKind* const kind = FindOpKind(graph.op(id).kind);
      bool has_flop = kind != nullptr && AllTyped(graph, id);
      try {
        if (has_flop) flop[position] = kind->work(graph, id).flop;
      } catch (const InputError& error) {
        has_flop = false;
        if (node != kNoNode) {
          refused_.insert(node);
          why_ = error.what();
        }
      }
      if (!has_flop && node != kNoNode) without_flop_.insert(node);
    }
    return flop;
  }

  static bool AllTyped(const Graph& graph, OpId id) {
    for (const TensorId input : graph.inputs(id)) {
      if (graph.tensor(input).dtype == DType::kNone) return false;
    }
    for (std::size_t i = 0; i < graph.num_outputs(id); ++i) {
      if (graph.tensor(MakeId<TensorId>(Index(graph.first_output(id)) + i)).dtype == DType::kNone) return false;
    }
    return true;
  }

  void CheckNames() const {
    const auto check = [](const std::string& name, const std::string& place) {
      if (!IsValidUtf8(name)) throw InputError(place, "has a name that is not valid UTF-8");
    };
    check(model_.graph_name, "graph");
    check(model_.producer, "producer_name");
    for (const auto& input : model_.inputs) {
      check(input.name, "input");
      for (const std::string& symbol : input.symbols) check(symbol, "input");
    }
    for (const OnnxTensor& tensor : model_.initializers) check(tensor.name, "initializer");
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
      const OnnxNode& node = model_.nodes[i];
      const std::string place = fmt::format("node {}", i);
      check(node.name, place);
      check(node.op, place);
      check(node.domain, place);
      if (node.op.empty()) throw InputError(place, "has no op_type");
      for (const std::string& name : node.outputs) check(name, place);
    }
  }

  // Without their sizes nothing behind them has one.
  void CheckInputs() const {
    for (const auto& input : model_.inputs) {
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

  void AddTypes() {
    for (const auto& [name, type] : model_.types) values_.types[name] = type;
    for (const auto& input : model_.inputs) values_.types[input.name] = input.type;
    for (const OnnxTensor& tensor : model_.initializers) {
      values_.types[tensor.name] = {.is_tensor = !tensor.bytes, .element = tensor.element, .dims = tensor.dims};
      initializers_.insert(tensor.name);
    }
    values_.constants = &model_.constants;
  }

  // Whether nothing need run for its outputs: they are stored with the model, or follow from shapes.
  bool IsConstant(const OnnxNode& node) const {
    if (!node.domain.empty() || node.outputs.empty() || node.outputs[0].empty()) return false;
    if (node.op == "Constant") return true;
    if (node.op == "ConstantOfShape") return !node.inputs.empty() && model_.constants.contains(node.inputs[0]);
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& output) {
      const OnnxType* const type = values_.Find(output);
      return model_.known.contains(output) && type != nullptr && type->IsWhole();
    });
  }

  // Empty for what becomes a variable.
  std::vector<std::vector<OnnxPlannedOp>> Plans() {
    std::vector<std::vector<OnnxPlannedOp>> plans(model_.nodes.size());
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
      const OnnxNode& node = model_.nodes[i];
      if (IsConstant(node)) {
        for (const std::string& output : node.outputs) constant_outputs_.insert(output);
        continue;
      }
      plans[i] = PlanOnnxNode(node, values_);
      if (plans[i].empty()) plans[i] = {PlanAsItIs(node, values_)};
    }
    return plans;
  }

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

  void Source(GraphBuilder* builder, const std::string& name, std::string_view kind, const OnnxType& type,
              std::optional<double> bytes) {
    OpSpec spec;
    spec.name = NameFor(name, kind);
    spec.kind = kind;
    const std::string place = fmt::format("{} \"{}\"", kind, name);
    spec.outputs.push_back(OutputOf(type, place));
    if (bytes) spec.outputs[0] = {.size = Bytes{static_cast<std::int64_t>(std::min(*bytes, 0x1p61))}, .shape = {}};
    if (kind == "variable") {
      spec.persistent = spec.outputs[0].size ? *spec.outputs[0].size
                                             : TensorBytes(spec.outputs[0].dtype, spec.outputs[0].shape, place);
    }
    refs_[name] = spec.name + ":0";
    AddSpec(builder, std::move(spec), kNoNode);
  }

  void AddSpec(GraphBuilder* builder, OpSpec spec, std::size_t node) {
    if (flop_ != nullptr) spec.flop = (*flop_)[node_of_.size()];
    spec.pass = Pass::kForward;
    node_of_.push_back(node);
    builder->Add(spec);
  }

  Graph BuildFrom(const std::vector<std::vector<OnnxPlannedOp>>& plans, const std::vector<double>* flop) {
    flop_ = flop;
    names_.clear();
    repeats_.clear();
    refs_.clear();
    node_of_.clear();
    std::unordered_set<std::string> read;
    for (const auto& plan : plans) {
      for (const OnnxPlannedOp& op : plan) read.insert(op.inputs.begin(), op.inputs.end());
    }
    GraphBuilder builder(model_.graph_name.empty() ? "onnx" : model_.graph_name);
    for (const auto& input : model_.inputs) Source(&builder, input.name, "input", input.type, std::nullopt);
    for (const OnnxTensor& tensor : model_.initializers) {
      if (read.contains(tensor.name)) {
        Source(&builder, tensor.name, "variable", *values_.Find(tensor.name), tensor.bytes);
      }
    }
    for (const OnnxNode& node : model_.nodes) {
      for (const std::string& output : node.outputs) {
        if (constant_outputs_.contains(output) && read.contains(output)) {
          Source(&builder, output, "variable", TypeOrNone(output), std::nullopt);
        }
      }
    }
    // Names first: nodes need not be in the order in which they read.
    std::vector<std::vector<std::string>> op_names(plans.size());
    std::unordered_map<std::string, std::string> waits;  // of a value: the op that writes it
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const OnnxNode& node = model_.nodes[i];
      const std::string base =
          plans[i].empty() ? "" : NameFor(node.name.empty() ? FirstOutput(node) : node.name, node.op);
      for (const OnnxPlannedOp& op : plans[i]) {
        op_names[i].push_back(op.suffix.empty() ? base : NameFor(base + "/" + op.suffix, op.kind));
        for (std::size_t k = 0; k < op.outputs.size(); ++k) {
          const std::string& value = op.outputs[k].first;
          if (value.empty()) continue;
          refs_[value] = fmt::format("{}:{}", op_names[i].back(), k);
          waits[value] = op_names[i].back();
        }
      }
    }
    for (std::size_t i = 0; i < plans.size(); ++i) {
      for (std::size_t k = 0; k < plans[i].size(); ++k) {
        AddOp(&builder, plans[i][k], op_names[i][k], waits, i);
      }
    }
    JsonObject metadata;
    AddMember(&metadata, "source", "onnx");
    if (!model_.producer.empty()) AddMember(&metadata, "producer", model_.producer);
    AddMember(&metadata, "ir_version", model_.ir_version);
    AddMember(&metadata, "opset", model_.opset);
    builder.SetMetadata(JsonText(ToJson(std::move(metadata))));
    return builder.Build();
  }

  OnnxType TypeOrNone(const std::string& name) const {
    const OnnxType* const type = values_.Find(name);
    return type == nullptr ? OnnxType{} : *type;
  }
  static std::string FirstOutput(const OnnxNode& node) {
    const auto found =
        std::find_if(node.outputs.begin(), node.outputs.end(), [](const std::string& name) { return !name.empty(); });
    return found == node.outputs.end() ? node.op : *found;
  }

  void AddOp(GraphBuilder* builder, const OnnxPlannedOp& op, const std::string& name,
             const std::unordered_map<std::string, std::string>& waits, std::size_t node) {
    OpSpec spec;
    spec.name = name;
    spec.kind = op.kind;
    for (const std::string& input : op.inputs) spec.inputs.push_back(refs_.at(input));
    for (const std::string& wait : op.waits) {
      const auto found = waits.find(wait);
      if (found != waits.end()) spec.control_inputs.push_back(found->second);
    }
    for (const auto& [output, type] : op.outputs) {
      spec.outputs.push_back(
          OutputOf(type, fmt::format("node {} ({} \"{}\")", node, model_.nodes[node].op, model_.nodes[node].name)));
    }
    spec.attrs = op.attrs;
    spec.layer = LayerOf(model_.nodes[node].name);
    if (!IsValidUtf8(spec.layer)) spec.layer.clear();
    if (op.suffix.empty()) {
      spec.persistent = Bytes{static_cast<std::int64_t>(std::min(model_.nodes[node].subgraph_bytes, 0x1p61))};
    }
    AddSpec(builder, std::move(spec), node);
  }

  void AddNotes(Imported* imported, const std::vector<std::vector<OnnxPlannedOp>>& plans) const {
    const std::int64_t newest = OnnxPart().newest_opset();
    if (model_.opset > newest) {
      imported->notes.push_back(fmt::format(
          "opset {} is newer than libonnx's {}: operators are taken as they are there, where they did not change",
          model_.opset, newest));
    }
    std::map<std::string, std::size_t> unshaped;
    std::map<std::string, std::size_t> foreign;
    std::size_t num_foreign = 0;
    std::size_t num_guessed = 0;
    std::size_t num_kept = 0;
    std::map<std::string, std::size_t> subgraphs;
    std::size_t nodes = 0;
    std::size_t shaped = 0;
    std::size_t known = 0;
    std::string failure;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const OnnxNode& node = model_.nodes[i];
      if (plans[i].empty()) continue;
      ++nodes;
      num_guessed += node.is_guess ? 1 : 0;
      const auto have_sizes = [&](const std::vector<std::string>& names) {
        return std::all_of(names.begin(), names.end(),
                           [&](const std::string& name) { return name.empty() || HasSize(TypeOrNone(name)); });
      };
      const bool has_shapes = have_sizes(node.outputs);
      shaped += has_shapes ? 1 : 0;
      const bool is_known = !without_flop_.contains(i);
      known += is_known ? 1 : 0;
      if (!has_shapes) {
        ++unshaped[fmt::format("{} \"{}\"", node.op, node.name.empty() ? FirstOutput(node) : node.name)];
        if (failure.empty() && !node.failure.empty()) failure = node.failure;
      } else if (!is_known && node.subgraph_nodes == 0) {
        ++foreign[OnnxKind(node)];
        ++num_foreign;
      }
      num_kept += node.subgraph_nodes > 0 && !is_known ? 1 : 0;
      if (node.subgraph_nodes > 0 && !is_known) subgraphs[OnnxKind(node)] += node.subgraph_nodes;
    }
    const auto percent = [&](std::size_t part) {
      return nodes == 0 ? 100 : 100 * static_cast<double>(part) / static_cast<double>(nodes);
    };
    const auto share = [&](std::size_t part) {
      return fmt::format("{} of {} nodes ({:.1f} %)", part, nodes, percent(part));
    };
    if (!unshaped.empty()) {
      imported->notes.push_back(fmt::format("{} have no shape, and count 0 bytes and 0 FLOP: {}{}",
                                            share(nodes - shaped), Counted(unshaped),
                                            failure.empty() ? "" : fmt::format(" ({})", FirstLine(failure))));
    }
    if (!foreign.empty()) {
      imported->notes.push_back(fmt::format("{} have a shape, but count 0 FLOP, as roofline does not know them: {}{}",
                                            share(num_foreign), Counted(foreign),
                                            why_.empty() ? "" : fmt::format(" ({})", FirstLine(why_))));
    }
    if (!subgraphs.empty()) {
      imported->notes.push_back(
          fmt::format("{} have subgraphs that run an unknown number of times, or as more than 20,000 nodes: one op "
                      "each, of 0 FLOP; "
                      "nodes inside: {}",
                      share(num_kept), Counted(subgraphs)));
    }
    if (!model_.guesses.empty()) {
      constexpr std::size_t kShown = 8;
      const std::size_t shown = std::min(kShown, model_.guesses.size());
      const auto end = model_.guesses.begin() + static_cast<std::ptrdiff_t>(shown);
      const std::size_t more = model_.guesses.size() - shown;
      imported->notes.push_back(
          fmt::format("{} are of an If or a Loop whose condition could not be worked out from shapes and constants; "
                      "taken: the branch with more nodes, all iterations ({}{})",
                      share(num_guessed), fmt::join(model_.guesses.begin(), end, ", "),
                      more > 0 ? fmt::format(" and {} more", more) : ""));
    }
    if (model_.contradictions > 0) {
      const std::size_t more = model_.contradictions - 1;
      imported->notes.push_back(fmt::format(
          "warning: the file states another shape than follows from a node's inputs; the inferred one is taken: {}{}",
          Printable(model_.first_contradiction), more > 0 ? fmt::format(" and {} more", more) : ""));
    }
    if (model_.unread > 0 && !unshaped.empty()) {
      imported->notes.push_back(
          fmt::format("warning: the content of {} is in files that cannot be read ({}), so shapes that follow from it "
                      "are not known",
                      emplace::Counted(model_.unread, "small tensor"), Quoted(model_.unread_file)));
    }
    const Graph& graph = imported->graph;
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
    imported->notes.push_back(fmt::format("weights: {} variables, {:.0f} numbers, {:.3f} MB; {:.3f} GFLOP a run",
                                          variables, elements, weights / 1e6, flop / 1e9));
    imported->notes.push_back(
        fmt::format("attributed: {} of {} nodes have shapes ({:.1f} %), {} have a kind that roofline knows ({:.1f} %); "
                    "{:.3f} MB of tensors; the file has no times",
                    shaped, nodes, percent(shaped), known, percent(known), all / 1e6));
  }

  static double ElementsOf(const Tensor& tensor) {
    double elements = 1;
    for (const std::int64_t dim : tensor.shape) elements *= static_cast<double>(dim);
    return elements;
  }
  static std::string FirstLine(const std::string& text) {
    constexpr std::size_t kLongest = 160;
    std::string line = text.substr(0, std::min(text.find('\n'), kLongest));
    while (!IsValidUtf8(line)) line.pop_back();
    return line;
  }

  const OnnxModel& model_;
  OnnxValues values_;
  std::unordered_set<std::string> initializers_;
  std::unordered_set<std::string> constant_outputs_;
  std::set<std::size_t> without_flop_;
  std::set<std::size_t> refused_;
  std::string why_;  // of the last one
  // Of one build:
  const std::vector<double>* flop_ = nullptr;  // by position
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, std::size_t> repeats_;
  std::unordered_map<std::string, std::string> refs_;  // of a value: "op:index"
  std::vector<std::size_t> node_of_;                   // of an op, in the order of Add
};

}  // namespace

OnnxModel ReadOnnx(std::istream& in, const std::vector<InputShape>& inputs, const std::string& folder) {
  const bool is_text = StartsOnnxText(in.peek());
  OnnxParsed parsed = is_text ? OnnxPart().parse({std::istreambuf_iterator<char>(in), {}}, true, inputs, folder)
                              : OnnxPart().parse(CondensedOnnx(in), false, inputs, folder);
  if (!parsed.problem.empty()) throw InputError("", parsed.problem);
  return std::move(parsed.model);
}

Imported MakeOnnxGraph(const OnnxModel& model) { return OnnxGraphMaker(model).Make(); }

namespace {

// That of a file; "" of what is none, such as standard input.
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
  return AtPlace(source.name(), [&] {
    const auto in = source.Open(InputKind::kOnnx);
    return MakeOnnxGraph(ReadOnnx(*in, inputs, FolderOf(source.name())));
  });
}

}  // namespace emplace::datasets
