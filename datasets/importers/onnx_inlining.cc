#include "datasets/importers/onnx_inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "datasets/importers/onnx_values.h"

namespace emplace::datasets {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;
using onnx::TypeProto;

constexpr std::size_t kMostUnrolledBytes = std::size_t{64} << 20;  // size of the messages of iterations
constexpr std::size_t kMostUnrolled = 20'000;  // nodes that subgraphs become, beyond those of the file

// "Loop \"NAME\"", or its first output where it has no name.
std::string NodeText(const NodeProto& node) {
  for (const std::string& output : node.output()) {
    if (node.name().empty() && !output.empty()) return fmt::format("{} \"{}\"", node.op_type(), output);
  }
  return fmt::format("{} \"{}\"", node.op_type(), node.name());
}

// The node's outputs, "" where nobody reads them.
std::vector<std::string> TargetsOf(std::size_t i, const OnnxInference& inference) {
  std::vector<std::string> targets;
  for (const std::string& output : inference.expander.steps()[i].node.output()) {
    targets.push_back(inference.names.read.contains(output) ? output : "");
  }
  return targets;
}

void Guess(std::size_t i, std::string what, OnnxInference* inference) {
  inference->nodes.guessed.insert(i);
  inference->guesses.push_back(std::move(what));
}

// The node no longer writes its outputs: what takes its place does.
void Release(std::size_t i, OnnxInference* inference) {
  for (const std::string& output : inference->nodes.nodes[i].outputs) inference->names.writers.erase(output);
  inference->nodes.replaced.insert(i);
}

// Adds an initializer with one element.
void AddScalar(const std::string& name, std::int32_t element, std::int64_t value, OnnxInference* inference) {
  inference->names.initializers.insert(name);
  inference->initializers.push_back({.name = name, .element = element, .dims = {}, .bytes = std::nullopt});
  inference->values.SetValue(name, {.element = element, .dims = {}, .integers = {value}, .numbers = {}});
}

// Adds a node of our own, of opset 11.
void AddGlue(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
             const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& attrs, const std::string& prefix,
             int depth, OnnxInference* inference) {
  static const auto* const opsets = new OnnxOpsets{{"", 11}};  // nodes keep a reference
  NodeProto node;
  node.set_op_type(op);
  node.set_name(fmt::format("{}{}", prefix, outputs.front()));
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  for (const auto& [name, values] : attrs) {
    AttributeProto* const attr = node.add_attribute();
    attr->set_name(name);
    if (name == "axis") {
      attr->set_type(AttributeProto::INT);
      attr->set_i(values.at(0));
    } else {
      attr->set_type(AttributeProto::INTS);
      for (const std::int64_t value : values) attr->add_ints(value);
    }
  }
  for (const std::string& output : outputs) inference->names.read.insert(output);
  inference->expander.Add(std::move(node), *opsets, depth);
}

// Joins what iterations write to one output, behind each other along `axis`.
void AddStack(const std::vector<std::string>& parts, std::int64_t axis, bool is_new_axis, const std::string& output,
              const std::string& prefix, int depth, OnnxInference* inference) {
  std::vector<std::string> joined;
  for (const std::string& part : parts) {
    joined.push_back(part);
    if (!is_new_axis) continue;
    joined.back() = fmt::format("{}{}/unsqueeze{}", prefix, output, joined.size());
    AddGlue("Unsqueeze", {part}, {joined.back()}, {{"axes", {axis}}}, "", depth, inference);
  }
  AddGlue("Concat", joined, {output}, {{"axis", {axis}}}, prefix, depth, inference);
}

// The nodes that the expander has beyond those that are known take the place of node i.
void InferAdded(std::size_t i, OnnxInference* inference) {
  const std::size_t first = inference->nodes.nodes.size();
  const std::size_t end = inference->expander.steps().size();
  for (std::size_t k = first; k < end; ++k) inference->nodes.parts[i].push_back(k);
  AddAndInferNodes(inference);
}

// The names of the values of a subgraph that is inlined. An output that a node of it writes gets its target's name;
// `copies`: the other outputs that have one, with it.
OnnxNames NamesInside(const GraphProto& graph, const std::string& stored, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& targets,
                      std::vector<std::pair<std::string, std::string>>* copies) {
  OnnxNames names = {{"", ""}};
  for (const std::string& name : ContentsOf(graph).names) names[name] = name;
  for (int k = 0; k < graph.input_size() && k < static_cast<int>(inputs.size()); ++k) {
    names[graph.input(k).name()] = inputs[static_cast<std::size_t>(k)];
  }
  for (const TensorProto& tensor : graph.initializer()) names[tensor.name()] = stored + tensor.name();
  for (const auto& tensor : graph.sparse_initializer()) names[tensor.values().name()] = stored + tensor.values().name();
  std::unordered_set<std::string> written;
  for (const NodeProto& node : graph.node()) written.insert(node.output().begin(), node.output().end());
  for (int k = 0; k < graph.output_size() && k < static_cast<int>(targets.size()); ++k) {
    const std::string& target = targets[static_cast<std::size_t>(k)];
    const std::string& name = graph.output(k).name();
    if (target.empty()) continue;
    if (written.contains(name) && names.try_emplace(name, target).second) continue;
    copies->emplace_back(name, target);
  }
  return names;
}

// Adds the nodes of a subgraph in place of node i. `inputs`: the values that its inputs are; `targets`: the names
// that its outputs get, "" for none. `stored`: the prefix of its initializers.
void Inline(std::size_t i, const GraphProto& graph, const std::string& prefix, const std::string& stored,
            const std::vector<std::string>& inputs, const std::vector<std::string>& targets, OnnxInference* inference) {
  inference->nodes.unrolled_bytes += graph.ByteSizeLong();
  std::vector<std::pair<std::string, std::string>> copies;
  OnnxNames names = NamesInside(graph, stored, inputs, targets, &copies);
  AddInitializers(graph, &names, inference);
  const OnnxOpsets& opsets = *inference->expander.steps()[i].opsets;
  const int depth = inference->expander.steps()[i].depth + 1;
  for (const NodeProto& inner : graph.node()) {
    inference->expander.Add(RenamedNode(prefix, inner, &names), opsets, depth);
  }
  for (const auto& [name, target] : copies) {
    AddGlue("Identity", {Renamed(prefix, name, &names)}, {target}, {}, prefix, depth, inference);
  }
  for (const auto* const values : {&graph.output(), &graph.value_info()}) {
    for (const auto& value : *values) inference->stated.Add(value, Renamed(prefix, value.name(), &names));
  }
  for (const std::string& target : targets) inference->names.read.insert(target);
  InferAdded(i, inference);
}

bool InlineIf(std::size_t i, OnnxInference* inference) {
  const NodeProto& node = inference->expander.steps()[i].node;
  const GraphProto* const then_branch = GraphOf(node, "then_branch");
  const GraphProto* const else_branch = GraphOf(node, "else_branch");
  if (then_branch == nullptr || else_branch == nullptr || node.input_size() != 1) return false;
  if (node.output_size() != then_branch->output_size() || node.output_size() != else_branch->output_size()) {
    return false;
  }
  const auto condition = inference->values.FindInteger(node.input(0));
  // Which one runs is not known: the one that does more.
  const bool takes_then =
      condition ? *condition != 0 : ContentsOf(*then_branch).nodes >= ContentsOf(*else_branch).nodes;
  if (!condition) Guess(i, fmt::format("{}: {}", NodeText(node), takes_then ? "then" : "else"), inference);
  Release(i, inference);
  const std::string prefix = inference->expander.Prefix(node);
  Inline(i, takes_then ? *then_branch : *else_branch, prefix, prefix, {}, TargetsOf(i, *inference), inference);
  return true;
}

// How many nodes may yet be added.
std::size_t NodesLeft(const OnnxInference& inference) {
  const std::size_t added = inference.expander.steps().size() - inference.nodes.num_own;
  return inference.nodes.unrolled_bytes >= kMostUnrolledBytes ? 0 : kMostUnrolled - std::min(kMostUnrolled, added);
}

// Discards the iterations of a loop whose end turns out not to be known.
bool KeepAsOneOp(std::size_t i, std::size_t guesses, OnnxInference* inference) {
  inference->nodes.parts[i].clear();
  inference->nodes.replaced.erase(i);
  for (const std::string& output : inference->nodes.nodes[i].outputs) {
    if (!output.empty()) inference->names.writers[output] = i;
  }
  inference->guesses.resize(guesses);
  return false;
}

// The values that iterations of a loop or a scan hand on, and those that each of them writes.
struct Iterations {
  std::string prefix;  // prefix of the names of values inside
  std::vector<std::string> carried;
  std::vector<std::vector<std::string>> scanned;  // indexed by output, then by iteration
  std::int64_t trips = 0;                         // iterations so far
};

Iterations IterationsOf(const NodeProto& node, std::size_t first_state, std::size_t states, OnnxInference* inference) {
  Iterations iterations;
  iterations.prefix = inference->expander.Prefix(node);
  const auto begin = node.input().begin() + static_cast<std::ptrdiff_t>(first_state);
  iterations.carried.assign(begin, begin + static_cast<std::ptrdiff_t>(states));
  iterations.scanned.resize(static_cast<std::size_t>(node.output_size()) - states);
  return iterations;
}

// The names of what the next iteration writes: states, then scanned values. The latter are kept.
std::vector<std::string> NextTargets(Iterations* iterations) {
  const std::string turn = fmt::format("{}{}/", iterations->prefix, iterations->trips);
  std::vector<std::string> targets;
  for (std::size_t k = 0; k < iterations->carried.size(); ++k) targets.push_back(fmt::format("{}state{}", turn, k));
  for (std::size_t k = 0; k < iterations->scanned.size(); ++k) {
    targets.push_back(fmt::format("{}scan{}", turn, k));
    iterations->scanned[k].push_back(targets.back());
  }
  return targets;
}

// The shapes that an iteration does not change are those of the loop's outputs, however often it runs.
void StateLoop(const NodeProto& node, const Iterations& iterations, OnnxInference* inference) {
  const auto type_of = [&](const std::string& name) {
    const TypeProto* const type = inference->values.FindType(name);
    return type == nullptr ? TypeProto() : *type;
  };
  for (std::size_t k = 0; k < static_cast<std::size_t>(node.output_size()); ++k) {
    const bool is_state = k < iterations.carried.size();
    if (!is_state && iterations.scanned[k - iterations.carried.size()].empty()) continue;
    TypeProto type =
        type_of(is_state ? iterations.carried[k] : iterations.scanned[k - iterations.carried.size()].front());
    const OnnxType plain = TypeOf(type);
    if (!plain.IsWhole()) continue;
    if (is_state && TypeOf(type_of(node.input(static_cast<int>(k) + 2))).dims != plain.dims) continue;
    if (!is_state) {
      std::vector<std::int64_t> dims = {OnnxType::kFree};
      dims.insert(dims.end(), plain.dims->begin(), plain.dims->end());
      type = ProtoOf(plain.element, dims);
    }
    inference->stated.Add(node.output(static_cast<int>(k)), type);
  }
}

// Adds the next iteration of a loop. `condition`: whether it runs; then whether the one after it does.
void AddIteration(std::size_t i, const GraphProto& body, std::string* condition, Iterations* iterations,
                  OnnxInference* inference) {
  const std::string turn = fmt::format("{}{}/", iterations->prefix, iterations->trips);
  std::vector<std::string> inputs = {turn + "i", *condition};
  AddScalar(inputs[0], kOnnxInt64, iterations->trips, inference);
  inputs.insert(inputs.end(), iterations->carried.begin(), iterations->carried.end());
  std::vector<std::string> targets = NextTargets(iterations);
  targets.insert(targets.begin(), turn + "condition");
  Inline(i, body, turn, iterations->prefix, inputs, targets, inference);
  *condition = targets[0];
  iterations->carried.assign(targets.begin() + 1,
                             targets.begin() + 1 + static_cast<std::ptrdiff_t>(iterations->carried.size()));
  ++iterations->trips;
}

// How a loop ends.
enum class LoopEnd : std::uint8_t { kKnown, kGuessed, kUnknown };

// Adds iterations up to the end of a loop, as far as it is known.
LoopEnd Unroll(std::size_t i, const GraphProto& body, const NodeProto& node, Iterations* iterations,
               OnnxInference* inference) {
  const bool is_endless = node.input(0).empty();
  const auto trips = is_endless ? std::nullopt : inference->values.FindInteger(node.input(0));
  const auto most = static_cast<std::int64_t>(NodesLeft(*inference) / std::max<std::size_t>(ContentsOf(body).nodes, 1));
  std::string condition = node.input(1);
  if (condition.empty()) {
    condition = iterations->prefix + "condition";
    AddScalar(condition, kOnnxBool, 1, inference);
  }
  LoopEnd end = LoopEnd::kKnown;
  while (!trips || iterations->trips < *trips) {
    const auto goes_on = inference->values.FindInteger(condition);
    if (goes_on && *goes_on == 0) break;
    // A count beyond all bounds is that of a loop that ends by its condition.
    const bool has_end = goes_on ? is_endless || trips : trips && *trips <= most;
    if (!has_end || iterations->trips >= most || NodesLeft(*inference) == 0) {
      if (iterations->trips == 0 && most > 0) AddIteration(i, body, &condition, iterations, inference);
      StateLoop(node, *iterations, inference);
      return LoopEnd::kUnknown;
    }
    if (!goes_on) end = LoopEnd::kGuessed;
    AddIteration(i, body, &condition, iterations, inference);
  }
  return end;
}

// Unrolls a loop if its number of iterations is known, or its condition in each iteration. Where only the condition is
// unknown, the loop is assumed to run to its last iteration.
bool InlineLoop(std::size_t i, OnnxInference* inference) {
  const NodeProto node = inference->expander.steps()[i].node;
  const GraphProto* const body = GraphOf(node, "body");
  if (body == nullptr || node.input_size() < 2) return false;
  const auto states = static_cast<std::size_t>(node.input_size()) - 2;
  if (body->input_size() != static_cast<int>(states) + 2 || body->output_size() < static_cast<int>(states) + 1 ||
      node.output_size() != body->output_size() - 1) {
    return false;
  }
  const std::size_t guesses = inference->guesses.size();
  const int depth = inference->expander.steps()[i].depth + 1;
  Iterations iterations = IterationsOf(node, 2, states, inference);
  Release(i, inference);
  const LoopEnd end = Unroll(i, *body, node, &iterations, inference);
  if (end == LoopEnd::kUnknown) return KeepAsOneOp(i, guesses, inference);
  const std::vector<std::string> outputs = TargetsOf(i, *inference);
  // A value that no iteration wrote has no shape.
  const bool is_scan_read = std::any_of(outputs.begin() + static_cast<std::ptrdiff_t>(states), outputs.end(),
                                        [](const std::string& output) { return !output.empty(); });
  if (iterations.trips == 0 && is_scan_read) return KeepAsOneOp(i, guesses, inference);
  for (std::size_t k = 0; k < states; ++k) {
    if (!outputs[k].empty()) {
      AddGlue("Identity", {iterations.carried[k]}, {outputs[k]}, {}, iterations.prefix, depth, inference);
    }
  }
  for (std::size_t k = states; k < outputs.size(); ++k) {
    if (!outputs[k].empty()) {
      AddStack(iterations.scanned[k - states], 0, true, outputs[k], iterations.prefix, depth, inference);
    }
  }
  if (end == LoopEnd::kGuessed) {
    Guess(i, fmt::format("{}: {} iterations", NodeText(node), iterations.trips), inference);
  }
  InferAdded(i, inference);
  return true;
}

// A number of a scan's attribute for its k-th input or output.
std::int64_t ScanAttr(const OnnxNode& node, const char* name, std::size_t k) {
  const std::vector<std::int64_t> values = node.Integers(name);
  return k < values.size() ? values[k] : 0;
}

// The inputs that a scan goes through.
struct ScannedInputs {
  std::vector<std::string> names;
  std::vector<std::int64_t> axes;
  std::int64_t length = -1;
};

// None if the inputs have no common length that is known.
std::optional<ScannedInputs> ScannedInputsOf(const OnnxNode& node, std::size_t states, const KnownOnnxValues& values) {
  ScannedInputs scanned;
  for (std::size_t k = 0; states + k < node.inputs.size(); ++k) {
    const std::string& name = node.inputs[states + k];
    const auto dims = values.FindShape(name);
    if (!dims) return std::nullopt;
    std::int64_t axis = ScanAttr(node, "scan_input_axes", k);
    if (axis < 0) axis += static_cast<std::int64_t>(dims->size());
    if (axis < 0 || axis >= static_cast<std::int64_t>(dims->size())) return std::nullopt;
    const std::int64_t length = (*dims)[static_cast<std::size_t>(axis)];
    if (scanned.length >= 0 && length != scanned.length) return std::nullopt;
    scanned.names.push_back(name);
    scanned.axes.push_back(axis);
    scanned.length = length;
  }
  return scanned;
}

// Adds the nodes that take the parts of a scan's inputs for its next iteration. Returns the names of the parts.
std::vector<std::string> AddParts(std::size_t i, const OnnxNode& plain, const ScannedInputs& inputs,
                                  const Iterations& iterations, int depth, OnnxInference* inference) {
  const std::string turn = fmt::format("{}{}/", iterations.prefix, iterations.trips);
  std::vector<std::string> parts;
  for (std::size_t k = 0; k < inputs.names.size(); ++k) {
    const std::string index = fmt::format("{}i{}", turn, k);
    const bool is_backward = ScanAttr(plain, "scan_input_directions", k) != 0;
    AddScalar(index, kOnnxInt64, is_backward ? inputs.length - 1 - iterations.trips : iterations.trips, inference);
    parts.push_back(fmt::format("{}in{}", turn, k));
    AddGlue("Gather", {inputs.names[k], index}, {parts.back()}, {{"axis", {inputs.axes[k]}}}, "", depth, inference);
  }
  InferAdded(i, inference);
  return parts;
}

// A scan's node with its body; null where the two do not fit.
const GraphProto* BodyOfScan(const NodeProto& node, const OnnxNode& plain) {
  constexpr std::int64_t kWithoutBatch = 9;
  const GraphProto* const body = GraphOf(node, "body");
  const std::int64_t count = plain.Integer("num_scan_inputs", 0);
  if (body == nullptr || plain.opset < kWithoutBatch || count < 1 || count > node.input_size()) return nullptr;
  const bool fits = body->input_size() == node.input_size() && body->output_size() == node.output_size() &&
                    body->output_size() >= node.input_size() - static_cast<int>(count);
  return fits ? body : nullptr;
}

// Scan since opset 9: as many iterations as its inputs are long.
bool InlineScan(std::size_t i, OnnxInference* inference) {
  const NodeProto node = inference->expander.steps()[i].node;
  const OnnxNode& plain = inference->nodes.nodes[i];
  const GraphProto* const body = BodyOfScan(node, plain);
  if (body == nullptr) return false;
  const auto states = static_cast<std::size_t>(node.input_size() - plain.Integer("num_scan_inputs", 0));
  const auto inputs = ScannedInputsOf(plain, states, inference->values);
  if (!inputs || inputs->length < 1) return false;
  const std::size_t turn_nodes = ContentsOf(*body).nodes + inputs->names.size();
  if (static_cast<std::size_t>(inputs->length) > NodesLeft(*inference) / turn_nodes) return false;
  const std::size_t guesses = inference->guesses.size();
  const int depth = inference->expander.steps()[i].depth + 1;
  Iterations iterations = IterationsOf(node, 0, states, inference);
  Release(i, inference);
  for (; iterations.trips < inputs->length; ++iterations.trips) {
    if (NodesLeft(*inference) == 0) return KeepAsOneOp(i, guesses, inference);
    std::vector<std::string> values = iterations.carried;
    const std::vector<std::string> parts = AddParts(i, plain, *inputs, iterations, depth, inference);
    values.insert(values.end(), parts.begin(), parts.end());
    const std::vector<std::string> targets = NextTargets(&iterations);
    const std::string turn = fmt::format("{}{}/", iterations.prefix, iterations.trips);
    Inline(i, *body, turn, iterations.prefix, values, targets, inference);
    iterations.carried.assign(targets.begin(), targets.begin() + static_cast<std::ptrdiff_t>(states));
  }
  const std::vector<std::string> outputs = TargetsOf(i, *inference);
  for (std::size_t k = 0; k < states; ++k) {
    if (!outputs[k].empty()) {
      AddGlue("Identity", {iterations.carried[k]}, {outputs[k]}, {}, iterations.prefix, depth, inference);
    }
  }
  for (std::size_t k = 0; k < iterations.scanned.size(); ++k) {
    if (outputs[states + k].empty()) continue;
    std::vector<std::string>& scanned = iterations.scanned[k];
    if (ScanAttr(plain, "scan_output_directions", k) != 0) std::reverse(scanned.begin(), scanned.end());
    AddStack(scanned, ScanAttr(plain, "scan_output_axes", k), true, outputs[states + k], iterations.prefix, depth,
             inference);
  }
  InferAdded(i, inference);
  return true;
}

bool InlineSubgraph(std::size_t i, OnnxInference* inference) {
  const OnnxNode& plain = inference->nodes.nodes[i];
  if (plain.subgraph_nodes == 0 && plain.op != "If" && plain.op != "Loop" && plain.op != "Scan") return false;
  if (!plain.domain.empty() || inference->expander.steps()[i].depth >= kDeepestOnnxCall) return false;
  if (plain.op == "If") return InlineIf(i, inference);
  if (plain.op == "Loop") return InlineLoop(i, inference);
  if (plain.op == "Scan") return InlineScan(i, inference);
  return false;
}

// Makes the output of node i a list of tensors: it is none of the graph's values.
bool MakeSequence(std::size_t i, std::vector<std::string> tensors, OnnxInference* inference) {
  const std::string output = inference->nodes.nodes[i].outputs[0];
  Release(i, inference);
  inference->names.writers[output] = i;  // determines the order of its readers
  inference->values.SetType(output, TypeProto());
  inference->sequences[output] = std::move(tensors);
  return true;
}

// The sizes of the pieces that SplitToSequence makes of a dimension; empty if they are not known.
std::vector<std::int64_t> PieceSizes(const OnnxNode& node, std::int64_t length, const KnownOnnxValues& values) {
  constexpr auto kMostPieces = static_cast<std::int64_t>(kMostKnownIntegers);
  std::vector<std::int64_t> sizes;
  if (node.inputs.size() < 2 || node.inputs[1].empty()) {
    if (length <= kMostPieces) sizes.assign(static_cast<std::size_t>(length), 1);
    return sizes;
  }
  const OnnxContent* const split = values.FindContent(node.inputs[1]);
  if (split == nullptr || split->is_number()) return sizes;
  if (!split->dims.empty() || split->integers.size() != 1) return split->integers;
  const std::int64_t piece = split->integers[0];
  if (piece < 1 || length / piece > kMostPieces) return sizes;
  for (std::int64_t begin = 0; begin < length; begin += piece) sizes.push_back(std::min(piece, length - begin));
  return sizes;
}

bool SplitToSequence(std::size_t i, OnnxInference* inference) {
  const OnnxNode plain = inference->nodes.nodes[i];
  const auto dims = inference->values.FindShape(plain.inputs.empty() ? "" : plain.inputs[0]);
  if (!dims) return false;
  const auto rank = static_cast<std::int64_t>(dims->size());
  std::int64_t axis = plain.Integer("axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return false;
  const std::vector<std::int64_t> sizes = PieceSizes(plain, (*dims)[static_cast<std::size_t>(axis)], inference->values);
  if (sizes.empty()) return false;
  const std::string prefix = inference->expander.Prefix(inference->expander.steps()[i].node);
  const int depth = inference->expander.steps()[i].depth;
  std::vector<std::string> pieces;
  for (std::size_t k = 0; k < sizes.size(); ++k) pieces.push_back(fmt::format("{}{}", prefix, k));
  AddGlue("Split", {plain.inputs[0]}, pieces, {{"axis", {axis}}, {"split", sizes}}, "", depth, inference);
  const bool is_split = plain.inputs.size() > 1 && !plain.inputs[1].empty();
  if (!is_split && plain.Integer("keepdims", 1) == 0) {
    for (std::string& piece : pieces) {
      AddGlue("Squeeze", {piece}, {piece + "/squeeze"}, {{"axes", {axis}}}, "", depth, inference);
      piece += "/squeeze";
    }
  }
  InferAdded(i, inference);
  return MakeSequence(i, std::move(pieces), inference);
}

// The position that a node names in a list of `size` tensors; -1 if it is not known.
std::int64_t PositionIn(const OnnxNode& node, std::int64_t size, const KnownOnnxValues& values) {
  const bool inserts = node.op == "SequenceInsert";
  const std::size_t input = inserts ? 2 : 1;
  if (input >= node.inputs.size() || node.inputs[input].empty()) return inserts ? size : size - 1;
  const auto given = values.FindInteger(node.inputs[input]);
  return given && *given < 0 ? *given + size : given.value_or(-1);
}

// Replaces a node that reads or changes the list `tensors`.
bool InlineListOp(std::size_t i, std::vector<std::string> tensors, OnnxInference* inference) {
  const OnnxNode& plain = inference->nodes.nodes[i];
  const std::string& output = plain.outputs[0];
  if (plain.op == "Identity" || plain.op == "Optional" || plain.op == "OptionalGetElement") {
    return MakeSequence(i, std::move(tensors), inference);
  }
  const auto size = static_cast<std::int64_t>(tensors.size());
  if (plain.op == "SequenceLength") {
    inference->values.SetValue(output, {.element = kOnnxInt64, .dims = {}, .integers = {size}, .numbers = {}});
    return true;
  }
  const std::int64_t at = PositionIn(plain, size, inference->values);
  if (plain.op == "SequenceInsert" && plain.inputs.size() >= 2 && at >= 0 && at <= size) {
    tensors.insert(tensors.begin() + at, plain.inputs[1]);
    return MakeSequence(i, std::move(tensors), inference);
  }
  if (plain.op == "SequenceErase" && at >= 0 && at < size) {
    tensors.erase(tensors.begin() + at);
    return MakeSequence(i, std::move(tensors), inference);
  }
  const int depth = inference->expander.steps()[i].depth;
  if (plain.op == "SequenceAt" && at >= 0 && at < size) {
    Release(i, inference);
    AddGlue("Identity", {tensors[static_cast<std::size_t>(at)]}, {output}, {}, "", depth, inference);
  } else if (plain.op == "ConcatFromSequence" && size > 0) {
    const std::string prefix = plain.name.empty() ? output : plain.name;
    Release(i, inference);
    AddStack(tensors, plain.Integer("axis", 0), plain.Integer("new_axis", 0) != 0, output, prefix + "/", depth,
             inference);
  } else {
    return false;
  }
  InferAdded(i, inference);
  return true;
}

// Whether node i is gone: it makes a list whose tensors are known, or takes one from such a list.
bool InlineSequence(std::size_t i, OnnxInference* inference) {
  const OnnxNode& plain = inference->nodes.nodes[i];
  if (!plain.domain.empty() || plain.outputs.empty() || plain.outputs[0].empty()) return false;
  if (plain.op == "SequenceEmpty") return MakeSequence(i, {}, inference);
  if (plain.op == "SequenceConstruct") return MakeSequence(i, plain.inputs, inference);
  if (plain.op == "SplitToSequence") return SplitToSequence(i, inference);
  if (plain.inputs.empty()) return false;
  const auto list = inference->sequences.find(plain.inputs[0]);
  const bool is_list = list != inference->sequences.end();
  if (plain.op == "OptionalHasElement") {
    const TypeProto* const type = inference->values.FindType(plain.inputs[0]);
    if (!is_list && (type == nullptr || type->value_case() != TypeProto::kTensorType)) return false;
    inference->values.SetValue(plain.outputs[0], {.element = kOnnxBool, .dims = {}, .integers = {1}, .numbers = {}});
    return true;
  }
  return is_list && InlineListOp(i, list->second, inference);
}

}  // namespace

bool InlineNode(std::size_t i, OnnxInference* inference) {
  return InlineSequence(i, inference) || InlineSubgraph(i, inference);
}

}  // namespace emplace::datasets
