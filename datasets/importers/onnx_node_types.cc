#include "datasets/importers/onnx_node_types.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "datasets/importers/onnx_content.h"
#include "datasets/importers/onnx_rules.h"
#include "datasets/importers/onnx_values.h"

namespace emplace::datasets {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TypeProto;

constexpr std::int64_t kLargestWindow = std::int64_t{1} << 31;

// libonnx divides by these and multiplies them without a look.
void CheckAttrs(NodeProto* node) {
  for (const AttributeProto& attr : node->attribute()) {
    const std::string& name = attr.name();
    const bool is_window = name == "strides" || name == "dilations" || name == "kernel_shape";
    const bool is_count = name == "group" || name == "blocksize" || name == "num_outputs" || name == "hidden_size" ||
                          name == "num_scan_inputs" || name == "storage_order";
    const auto check = [&](std::int64_t value, std::int64_t least, std::int64_t most) {
      if (value < least || value > most) throw std::runtime_error(fmt::format("attribute {} is {}", name, value));
    };
    constexpr std::int64_t kMostDimensions = 1'000'000;
    if (name == "axis" && attr.has_i()) {
      check(attr.i(), -kMostDimensions, kMostDimensions);
    } else if (is_window) {
      for (const std::int64_t value : attr.ints()) check(value, 1, kLargestWindow);
      if (attr.has_i()) check(attr.i(), 1, kLargestWindow);
    } else if (is_count && attr.has_i()) {
      check(attr.i(), name == "storage_order" || name == "num_scan_inputs" ? 0 : 1,
            name == "blocksize" ? 4096 : kLargestWindow);
    } else if (name != "value" && name != "value_int" && name != "value_ints" && name != "starts" && name != "ends") {
      for (const std::int64_t value : attr.ints()) check(value, -kLargestWindow, kLargestWindow);
    }
  }
}

// libonnx relies on what this checks: on numbers of inputs and outputs, and on attributes.
void Verify(const onnx::OpSchema& schema, NodeProto* node) {
  for (int i = 0; i < node->attribute_size();) {
    AttributeProto& attr = *node->mutable_attribute(i);
    // Attributes of newer opsets.
    if (!schema.attributes().contains(attr.name())) {
      node->mutable_attribute()->DeleteSubrange(i, 1);
      continue;
    }
    // Files of IR version 1 do not say it.
    if (attr.type() == AttributeProto::UNDEFINED) attr.set_type(schema.attributes().at(attr.name()).type);
    ++i;
  }
  schema.Verify(*node);
}

// libonnx takes the ranks of images and filters for equal.
void CheckRanks(const OnnxNode& plain, const KnownOnnxValues& values) {
  // It makes a dimension for each number of a shape, also of one that is not known.
  const std::set<std::string> take_shapes = {"ConstantOfShape", "Expand", "Reshape", "Resize", "Tile", "Upsample"};
  for (std::size_t i = plain.op == "ConstantOfShape" ? 0 : 1; i < plain.inputs.size(); ++i) {
    const TypeProto* const type = take_shapes.contains(plain.op) ? values.FindType(plain.inputs[i]) : nullptr;
    if (type == nullptr) continue;
    const OnnxType shape = TypeOf(*type);
    if (shape.dims && shape.dims->size() == 1 && (*shape.dims)[0] > static_cast<std::int64_t>(kMostKnownIntegers)) {
      throw std::runtime_error("its shape has too many dimensions");
    }
  }
  if (plain.op != "Conv" && plain.op != "ConvTranspose" && plain.op != "ConvInteger" && plain.op != "QLinearConv")
    return;
  const std::size_t filter = plain.op == "QLinearConv" ? 3 : 1;
  const OnnxType x = TypeOf(values.WholeType(plain.inputs.at(0)));
  const OnnxType w = TypeOf(values.WholeType(plain.inputs.at(filter)));
  if (x.dims->size() < 3 || x.dims->size() != w.dims->size()) {
    throw std::runtime_error("its image and its filter have no common rank of 3 or more");
  }
}

// Libraries after 1.12 want options too.
template <typename Context>
Context ContextOf(NodeProto* node, KnownOnnxValues* values) {
  using Known = std::unordered_map<std::string, onnx::TensorShapeProto>;
  // Asked this way round: a pointer would become such options, as it becomes a bool.
  if constexpr (std::is_constructible_v<Context, NodeProto&, decltype(values->types)&, decltype(values->tensors)&,
                                        decltype(values->sparse_tensors)&, onnx::ShapeInferenceOptions, Known*>) {
    return Context(*node, values->types, values->tensors, values->sparse_tensors, onnx::ShapeInferenceOptions(),
                   &values->propagated);
  } else {
    return Context(*node, values->types, values->tensors, values->sparse_tensors, &values->propagated);
  }
}

std::vector<TypeProto> TypesFromLibrary(const OnnxStep& step, const OnnxNode& plain, KnownOnnxValues* values) {
  if (plain.subgraph_nodes > 0) throw std::runtime_error("its subgraphs say nothing of its outputs");
  NodeProto node = step.node;
  CheckAttrs(&node);
  std::vector<TypeProto> outputs(static_cast<std::size_t>(node.output_size()));
  const onnx::OpSchema* const schema =
      onnx::OpSchemaRegistry::Schema(plain.op, static_cast<int>(plain.opset), plain.domain);
  if (schema == nullptr) {
    throw std::runtime_error(
        fmt::format("libonnx has no operator {} of version {} in domain \"{}\"", plain.op, plain.opset, plain.domain));
  }
  Verify(*schema, &node);
  CheckRanks(plain, *values);
  auto context = ContextOf<onnx::shape_inference::InferenceContextImpl>(&node, values);
  if (schema->has_type_and_shape_inference_function()) {
    schema->GetTypeAndShapeInferenceFunction()(context);
  } else {
    throw std::runtime_error(fmt::format("libonnx has no rule for the shapes of {}", plain.op));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = context.allOutputTypes_.at(i);
  return outputs;
}

// Empty if there is no rule.
std::vector<TypeProto> TypesByRule(const NodeProto& node, const OnnxNode& plain, const KnownOnnxValues& values) {
  std::vector<TypeProto> types;
  const auto ruled = OnnxTypesByRule(plain, values.OperandsOf(plain).operands);
  if (!ruled) return types;
  for (const OnnxType& type : *ruled) types.push_back(ProtoOf(type));
  types.resize(std::max(types.size(), static_cast<std::size_t>(node.output_size())));
  return types;
}

// The branches of If say the types of their outputs. Those of a loop depend on how often it runs.
std::vector<TypeProto> TypesOfBodies(const NodeProto& node) {
  std::vector<TypeProto> outputs(static_cast<std::size_t>(node.output_size()));
  if (node.op_type() != "If") throw std::runtime_error(node.op_type() + " has the shapes that the file states");
  std::size_t branches = 0;
  for (const AttributeProto& attr : node.attribute()) {
    if (!attr.has_g()) continue;
    ++branches;
    for (std::size_t i = 0; i < outputs.size() && i < static_cast<std::size_t>(attr.g().output_size()); ++i) {
      const TypeProto& type = attr.g().output(static_cast<int>(i)).type();
      if (branches == 1) {
        outputs[i] = type;
      } else if (TypeOf(type).dims != TypeOf(outputs[i]).dims || TypeOf(type).element != TypeOf(outputs[i]).element) {
        outputs[i].Clear();
      }
    }
  }
  return outputs;
}

// A scan that is not unrolled: its state keeps its shape, and its body says what each iteration writes. Before opset 9
// the first input was the lengths, and the first dimension of all others a batch.
std::vector<TypeProto> TypesOfScan(const NodeProto& node, const OnnxNode& plain, const KnownOnnxValues& values) {
  constexpr std::int64_t kWithoutBatch = 9;
  const bool has_batch = plain.opset < kWithoutBatch;
  const GraphProto* const body = GraphOf(node, "body");
  const auto scanned = static_cast<int>(plain.Integer("num_scan_inputs", 0));
  const int first = has_batch ? 1 : 0;
  const int states = node.input_size() - first - scanned;
  if (body == nullptr || scanned < 1 || states < 0 || body->output_size() != node.output_size() ||
      node.output_size() < states) {
    throw std::runtime_error("its body does not fit it");
  }
  std::vector<TypeProto> outputs(static_cast<std::size_t>(node.output_size()));
  for (int k = 0; k < states; ++k) outputs[static_cast<std::size_t>(k)] = values.WholeType(node.input(first + k));
  const std::vector<std::int64_t> input = *TypeOf(values.WholeType(node.input(first + states))).dims;
  const std::vector<std::int64_t> input_axes = plain.Integers("scan_input_axes");
  const std::vector<std::int64_t> output_axes = plain.Integers("scan_output_axes");
  const auto place = [](std::int64_t axis, std::size_t rank) {
    if (axis < 0) axis += static_cast<std::int64_t>(rank);
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) throw std::runtime_error("its axis does not fit");
    return axis;
  };
  const std::int64_t from = has_batch ? 1 : input_axes.empty() ? 0 : input_axes.front();
  const std::int64_t length = input[static_cast<std::size_t>(place(from, input.size()))];
  for (int k = states; k < node.output_size(); ++k) {
    const OnnxType part = TypeOf(body->output(k).type());
    if (!part.dims) continue;
    std::vector<std::int64_t> dims = *part.dims;
    const auto position = static_cast<std::size_t>(k - states);
    const std::int64_t to = position < output_axes.size() ? output_axes[position] : 0;
    dims.insert(dims.begin() + (has_batch ? 0 : place(to, dims.size() + 1)), length);
    if (has_batch) dims.insert(dims.begin(), input[0]);
    outputs[static_cast<std::size_t>(k)] = ProtoOf(part.element, dims);
  }
  return outputs;
}

// The types of the outputs: by the rules here where they are newer, else as libonnx infers them, else by the rules.
std::vector<TypeProto> TypesFrom(const OnnxStep& step, const OnnxNode& plain, KnownOnnxValues* values) {
  if (plain.op == "Scan" && plain.domain.empty()) return TypesOfScan(step.node, plain, *values);
  if (plain.op == "If" || plain.op == "Loop") return TypesOfBodies(step.node);
  if (PrefersOnnxRule(plain)) return TypesByRule(step.node, plain, *values);
  std::vector<TypeProto> types;
  std::string failure;
  try {
    types = TypesFromLibrary(step, plain, values);
    const bool is_whole = std::all_of(types.begin(), types.end(), [](const TypeProto& type) {
      return type.value_case() != TypeProto::kTensorType || TypeOf(type).IsWhole();
    });
    if (is_whole && !types.empty() && types[0].value_case() != TypeProto::VALUE_NOT_SET) return types;
  } catch (const std::exception& error) {
    failure = error.what();
  }
  std::vector<TypeProto> ruled;
  try {
    ruled = TypesByRule(step.node, plain, *values);
  } catch (const std::exception& error) {
    if (!failure.empty() && plain.domain.empty()) throw std::runtime_error(failure);
    if (!failure.empty()) throw;
  }
  if (ruled.empty() && !failure.empty()) throw std::runtime_error(failure);
  for (std::size_t i = 0; i < ruled.size(); ++i) {
    if (i >= types.size()) {
      types.push_back(ruled[i]);
    } else {
      types[i] = Merged(types[i], ruled[i]);
    }
  }
  return types;
}

// Values that libonnx knows without running anything, where the evaluation here knows nothing.
void Propagate(const OnnxStep& step, const OnnxNode& plain, KnownOnnxValues* values) {
  NodeProto node = step.node;
  if (node.output_size() == 0 || node.output(0).empty()) return;
  const onnx::OpSchema* const schema =
      onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(plain.opset), plain.domain);
  if (schema == nullptr || !schema->has_data_propagation_function()) return;
  CheckAttrs(&node);
  Verify(*schema, &node);
  onnx::shape_inference::DataPropagationContextImpl context(node, values->types, values->tensors, values->propagated);
  schema->GetDataPropagationFunction()(context);
  const auto found = values->propagated.find(node.output(0));
  if (found == values->propagated.end()) return;
  if (static_cast<std::size_t>(found->second.dim_size()) > kMostKnownIntegers) {
    values->propagated.erase(found);
    return;
  }
  OnnxContent content{.element = kOnnxInt64, .dims = {}, .integers = {}, .numbers = {}};
  for (const auto& dim : found->second.dim()) {
    if (!dim.has_dim_value()) return;
    content.integers.push_back(dim.dim_value());
  }
  const OnnxType type = TypeOf(*values->types.at(node.output(0)));
  if (!type.IsWhole() || type.element != kOnnxInt64 || type.dims->size() > 1) return;
  const std::int64_t count = type.dims->empty() ? 1 : type.dims->front();
  if (count != static_cast<std::int64_t>(content.size())) return;
  content.dims = *type.dims;
  values->SetContent(node.output(0), std::move(content));
}

// The value of a Constant node's attribute; none if it is not supported.
std::optional<OnnxContent> ConstantOf(const AttributeProto& attr) {
  if (attr.name() == "value" && attr.has_t()) return OnnxContentOf(attr.t());
  OnnxContent content{.element = kOnnxInt64, .dims = {}, .integers = {}, .numbers = {}};
  if (attr.name() == "value_int" && attr.has_i()) {
    content.integers = {attr.i()};
  } else if (attr.name() == "value_ints" && attr.ints_size() <= static_cast<int>(kMostKnownIntegers)) {
    content.dims = {attr.ints_size()};
    content.integers = {attr.ints().begin(), attr.ints().end()};
  } else if (attr.name() == "value_float" && attr.has_f()) {
    content.element = kOnnxFloat;
    content.numbers = {static_cast<double>(attr.f())};
  } else if (attr.name() == "value_floats" && attr.floats_size() <= static_cast<int>(kMostKnownNumbers)) {
    content.element = kOnnxFloat;
    content.dims = {attr.floats_size()};
    content.numbers = {attr.floats().begin(), attr.floats().end()};
  } else {
    return std::nullopt;
  }
  return content;
}

// "[2,?,3]", cut where it is long.
std::string ShownDims(const std::vector<std::int64_t>& dims) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(dims.size(), kMost); ++i) {
    text += (i == 0 ? "" : ",") + (dims[i] < 0 ? "?" : std::to_string(dims[i]));
  }
  return fmt::format("[{}{}]", text, dims.size() > kMost ? ",.." : "");
}

void NoteContradiction(const std::string& name, const TypeProto& inferred, const TypeProto& stated,
                       OnnxContradictions* contradictions) {
  const OnnxType own = TypeOf(inferred);
  const OnnxType other = TypeOf(stated);
  if (!own.dims || !other.dims) return;
  if (other.dims->empty()) return;  // written where an exporter does not know
  const auto differs = [](std::int64_t a, std::int64_t b) { return a >= 0 && b >= 0 && a != b; };
  const bool has_rank = own.dims->size() == other.dims->size();
  if (has_rank && std::equal(own.dims->begin(), own.dims->end(), other.dims->begin(), std::not_fn(differs))) return;
  if (contradictions->count++ > 0) return;
  contradictions->first = fmt::format("\"{}\": {}, not {}", name, ShownDims(*own.dims), ShownDims(*other.dims));
}

bool AgreesWith(const OnnxType& type, const OnnxContent& content) {
  if (type.element != kOnnxUnknown && type.element != content.element) return false;
  return !type.HasShape() || *type.dims == content.dims;
}

// Follows what libonnx knows of an output's content, where the evaluation here knows nothing.
void PropagateIfPossible(const OnnxStep& step, const OnnxNode& plain, KnownOnnxValues* values) {
  try {
    Propagate(step, plain, values);
  } catch (const std::exception&) {
    // The value remains unknown.
  }
}

// The types of the outputs, as far as they are inferred or stated. They are kept in `values`.
std::vector<OnnxType> SetTypes(const OnnxStep& step, const StatedOnnxTypes& stated, OnnxNode* node,
                               KnownOnnxValues* values, OnnxContradictions* contradictions) {
  std::vector<TypeProto> inferred(static_cast<std::size_t>(step.node.output_size()));
  try {
    inferred = TypesFrom(step, *node, values);
  } catch (const std::exception& error) {
    node->failure = error.what();
  }
  std::vector<OnnxType> types;
  for (std::size_t i = 0; i < node->outputs.size(); ++i) {
    const std::string& name = node->outputs[i];
    TypeProto type = inferred[i];
    const auto found = name.empty() ? stated.types.end() : stated.types.find(name);
    if (found != stated.types.end()) {
      if (!stated.is_resized) NoteContradiction(name, type, found->second, contradictions);
      type = Merged(type, found->second);
    }
    stated.Substitute(&type);
    types.push_back(TypeOf(type));
    if (!name.empty()) values->SetType(name, std::move(type));
  }
  return types;
}

}  // namespace

void InferOutputs(const OnnxStep& step, const StatedOnnxTypes& stated, OnnxNode* node, KnownOnnxValues* values,
                  OnnxContradictions* contradictions) {
  const std::vector<OnnxType> types = SetTypes(step, stated, node, values, contradictions);
  // A shape that follows from the content cannot differ.
  const auto contents = EvaluateOnnx(*node, values->OperandsOf(*node).operands, types);
  for (std::size_t i = 0; i < contents.size() && i < node->outputs.size(); ++i) {
    const std::string& name = node->outputs[i];
    if (!contents[i] || name.empty() || !AgreesWith(types[i], *contents[i])) continue;
    values->SetValue(name, *contents[i]);
    node->failure.clear();
  }
  if (step.node.op_type() == "Constant" && node->domain.empty()) {
    for (const AttributeProto& attr : step.node.attribute()) {
      if (auto content = ConstantOf(attr)) values->SetContent(step.node.output(0), std::move(*content));
    }
  } else if (contents.empty() && node->failure.empty()) {
    PropagateIfPossible(step, *node, values);
  }
}

}  // namespace emplace::datasets
