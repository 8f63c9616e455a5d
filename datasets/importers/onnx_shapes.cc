// The libonnx part of onnx_model.h, in a separate library: parses the message and infers shapes.

#define ONNX_NAMESPACE onnx
#define ONNX_ML 1

#include <fmt/format.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <set>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "datasets/importers/onnx_model.h"
#include "sim/ops/einsum.h"

namespace emplace::datasets {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;
using onnx::TypeProto;

constexpr std::size_t kMostNodes = 4'000'000;
constexpr int kDeepestCall = 32;
constexpr std::size_t kMostKnown = 4096;  // elements of a value that is known
constexpr std::int64_t kLargestWindow = std::int64_t{1} << 31;
constexpr int kDeepestGraph = 32;

// A refusal, for OnnxParsed::problem.
struct Refused {
  std::string problem;
};

[[noreturn]] void RefuseModel(std::string problem) { throw Refused{std::move(problem)}; }

// Elements of a tensor; negative if that is no number of elements.
std::int64_t CountOf(const TensorProto& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t dim : tensor.dims()) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return -1;
  }
  return count;
}

// Whether the tensor's content is in the message, and is as long as its shape says.
bool HasContent(const TensorProto& tensor) {
  if (tensor.data_location() == TensorProto::EXTERNAL || tensor.has_segment()) return false;
  const std::int64_t count = CountOf(tensor);
  if (count < 0 || count > static_cast<std::int64_t>(kMostKnown)) return false;
  const auto holds = [&](std::int64_t width, int listed) {
    if (!tensor.has_raw_data()) return listed == count;
    return listed == 0 && static_cast<std::int64_t>(tensor.raw_data().size()) == width * count;
  };
  switch (tensor.data_type()) {
    case TensorProto::INT64:
      return holds(8, tensor.int64_data_size());
    case TensorProto::INT32:
      return holds(4, tensor.int32_data_size());
    case TensorProto::BOOL:
      return holds(1, tensor.int32_data_size());
    case TensorProto::FLOAT:
      return holds(4, tensor.float_data_size());
    case TensorProto::DOUBLE:
      return holds(8, tensor.double_data_size());
    default:
      return false;
  }
}

// The content of a tensor of integers. Requires HasContent.
std::optional<std::vector<std::int64_t>> IntegersOf(const TensorProto& tensor) {
  const auto raw = [&](auto number) {
    std::vector<std::int64_t> values;
    for (std::size_t at = 0; at < tensor.raw_data().size(); at += sizeof(number)) {
      tensor.raw_data().copy(reinterpret_cast<char*>(&number), sizeof(number), at);
      values.push_back(number);
    }
    return values;
  };
  switch (tensor.data_type()) {
    case TensorProto::INT64:
      if (tensor.has_raw_data()) return raw(std::int64_t{});
      return std::vector<std::int64_t>(tensor.int64_data().begin(), tensor.int64_data().end());
    case TensorProto::INT32:
      if (tensor.has_raw_data()) return raw(std::int32_t{});
      return std::vector<std::int64_t>(tensor.int32_data().begin(), tensor.int32_data().end());
    case TensorProto::BOOL:
      if (tensor.has_raw_data()) return raw(std::int8_t{});
      return std::vector<std::int64_t>(tensor.int32_data().begin(), tensor.int32_data().end());
    default:
      return std::nullopt;
  }
}

OnnxType TypeOf(const TypeProto& type) {
  OnnxType plain;
  if (type.value_case() == TypeProto::kSparseTensorType) {
    plain.is_tensor = false;
    return plain;
  }
  if (type.value_case() != TypeProto::kTensorType) {
    plain.is_tensor = type.value_case() == TypeProto::VALUE_NOT_SET;
    return plain;
  }
  plain.element = type.tensor_type().elem_type();
  if (!type.tensor_type().has_shape()) return plain;
  plain.dims.emplace();
  for (const auto& dim : type.tensor_type().shape().dim()) {
    plain.dims->push_back(dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value() : OnnxType::kFree);
  }
  return plain;
}

TypeProto ProtoOf(std::int32_t element, const std::vector<std::int64_t>& dims) {
  TypeProto type;
  type.mutable_tensor_type()->set_elem_type(element);
  auto* const shape = type.mutable_tensor_type()->mutable_shape();
  for (const std::int64_t dim : dims) shape->add_dim()->set_dim_value(dim);
  return type;
}

// What two sources say of a value: `better` where it is whole, else what the other knows more.
TypeProto Merged(const TypeProto& better, const TypeProto& other) {
  if (better.value_case() != TypeProto::kTensorType || other.value_case() != TypeProto::kTensorType) {
    return better.value_case() == TypeProto::VALUE_NOT_SET ? other : better;
  }
  TypeProto merged = better;
  auto* const tensor = merged.mutable_tensor_type();
  if (tensor->elem_type() == kOnnxUnknown) tensor->set_elem_type(other.tensor_type().elem_type());
  if (!other.tensor_type().has_shape()) return merged;
  if (!tensor->has_shape()) {
    *tensor->mutable_shape() = other.tensor_type().shape();
    return merged;
  }
  if (tensor->shape().dim_size() != other.tensor_type().shape().dim_size()) return merged;
  for (int i = 0; i < tensor->shape().dim_size(); ++i) {
    const auto& dim = other.tensor_type().shape().dim(i);
    if (!tensor->shape().dim(i).has_dim_value() && dim.has_dim_value()) *tensor->mutable_shape()->mutable_dim(i) = dim;
  }
  return merged;
}

const std::string& DomainOf(const std::string& domain) {
  static const std::string own_domain;
  return domain == "ai.onnx" ? own_domain : domain;
}

using Opsets = std::unordered_map<std::string, int>;

template <typename Imports>
Opsets OpsetsOf(const Imports& imports) {
  Opsets opsets;
  for (const auto& import : imports) {
    constexpr std::int64_t kMost = 1'000'000;
    opsets[DomainOf(import.domain())] = static_cast<int>(std::clamp<std::int64_t>(import.version(), 0, kMost));
  }
  return opsets;
}

struct Step {
  NodeProto node;
  const Opsets* opsets;
};

// The nodes of the model, with calls of its own functions replaced by their bodies.
class Expander {
 public:
  explicit Expander(const onnx::ModelProto& model) {
    for (const auto& function : model.functions()) {
      functions_[{DomainOf(function.domain()), function.name()}] = &function;
      opsets_[&function] = OpsetsOf(function.opset_import());
    }
  }

  void Add(NodeProto node, const Opsets& opsets, int depth = 0) {
    const auto found = functions_.find({DomainOf(node.domain()), node.op_type()});
    if (found == functions_.end()) {
      if (steps_.size() >= kMostNodes) RefuseModel(fmt::format("has more than {} nodes", kMostNodes));
      steps_.push_back({std::move(node), &opsets});
      return;
    }
    const onnx::FunctionProto& function = *found->second;
    if (depth >= kDeepestCall) {
      RefuseModel(fmt::format("function \"{}\" calls itself, or calls are nested more than {} deep", function.name(),
                              kDeepestCall));
    }
    std::unordered_map<std::string, std::string> names = {{"", ""}};
    for (int i = 0; i < function.input_size(); ++i) {
      names[function.input(i)] = i < node.input_size() ? node.input(i) : "";
    }
    for (int i = 0; i < function.output_size(); ++i) {
      if (i < node.output_size() && !node.output(i).empty()) names[function.output(i)] = node.output(i);
    }
    const std::string prefix = fmt::format("{}#{}/", node.name().empty() ? node.op_type() : node.name(), calls_++);
    std::unordered_map<std::string, const AttributeProto*> attrs;
    for (const auto& attr : node.attribute()) attrs[attr.name()] = &attr;
    const Opsets& own = opsets_.at(&function);
    for (const NodeProto& inner : function.node()) {
      NodeProto body = inner;
      Rename(prefix, attrs, &names, &body, 0);
      body.set_name(prefix + (inner.name().empty() ? inner.op_type() : inner.name()));
      Add(std::move(body), own.empty() ? opsets : own, depth + 1);
    }
  }

  std::deque<Step>& steps() { return steps_; }

 private:
  using Names = std::unordered_map<std::string, std::string>;
  using Attrs = std::unordered_map<std::string, const AttributeProto*>;

  static std::string Renamed(const std::string& prefix, const std::string& name, Names* names) {
    return names->try_emplace(name, prefix + name).first->second;
  }
  void Rename(const std::string& prefix, const Attrs& attrs, Names* names, NodeProto* node, int depth) {
    if (depth > kDeepestGraph) RefuseModel("its subgraphs are nested too deep");
    for (std::string& name : *node->mutable_input()) name = Renamed(prefix, name, names);
    for (std::string& name : *node->mutable_output()) name = Renamed(prefix, name, names);
    for (int i = 0; i < node->attribute_size();) {
      AttributeProto& attr = *node->mutable_attribute(i);
      if (!attr.ref_attr_name().empty()) {
        const auto given = attrs.find(attr.ref_attr_name());
        if (given == attrs.end()) {
          node->mutable_attribute()->DeleteSubrange(i, 1);
          continue;
        }
        const std::string name = attr.name();
        attr = *given->second;
        attr.set_name(name);
      } else {
        if (attr.has_g()) RenameGraph(prefix, attrs, names, attr.mutable_g(), depth + 1);
        for (GraphProto& graph : *attr.mutable_graphs()) RenameGraph(prefix, attrs, names, &graph, depth + 1);
      }
      ++i;
    }
  }
  void RenameGraph(const std::string& prefix, const Attrs& attrs, Names* names, GraphProto* graph, int depth) {
    for (auto& value : *graph->mutable_input()) value.set_name(Renamed(prefix, value.name(), names));
    for (auto& tensor : *graph->mutable_initializer()) tensor.set_name(Renamed(prefix, tensor.name(), names));
    for (NodeProto& node : *graph->mutable_node()) Rename(prefix, attrs, names, &node, depth);
    for (auto& value : *graph->mutable_output()) value.set_name(Renamed(prefix, value.name(), names));
    graph->clear_value_info();
  }

  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> functions_;
  std::unordered_map<const onnx::FunctionProto*, Opsets> opsets_;
  std::size_t calls_ = 0;
  std::deque<Step> steps_;
};

double ElementWidth(std::int32_t element) {
  switch (element) {
    case TensorProto::DOUBLE:
    case TensorProto::INT64:
    case TensorProto::UINT64:
    case TensorProto::COMPLEX64:
      return 8;
    case TensorProto::COMPLEX128:
      return 16;
    case TensorProto::FLOAT:
    case TensorProto::INT32:
    case TensorProto::UINT32:
      return 4;
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
    case TensorProto::INT16:
    case TensorProto::UINT16:
      return 2;
    default:
      return 1;
  }
}

double BytesOf(const TensorProto& tensor) {
  double bytes = ElementWidth(tensor.data_type());
  for (const std::int64_t dim : tensor.dims()) bytes *= static_cast<double>(std::max<std::int64_t>(dim, 0));
  return bytes;
}

// What subgraphs of a node hold, and which values from outside they read.
struct Outside {
  std::vector<std::string> names;
  double bytes = 0;
  std::size_t nodes = 0;
};

void LookInto(const GraphProto& graph, std::unordered_set<std::string> known, int depth, Outside* outside) {
  if (depth > kDeepestGraph) RefuseModel("its subgraphs are nested too deep");
  for (const auto& value : graph.input()) known.insert(value.name());
  for (const auto& tensor : graph.initializer()) {
    known.insert(tensor.name());
    outside->bytes += BytesOf(tensor);
  }
  for (const auto& tensor : graph.sparse_initializer()) {
    known.insert(tensor.values().name());
    outside->bytes += BytesOf(tensor.values()) + BytesOf(tensor.indices());
  }
  for (const NodeProto& node : graph.node()) {
    for (const std::string& name : node.output()) known.insert(name);
  }
  const auto read = [&](const std::string& name) {
    if (name.empty() || known.contains(name)) return;
    if (std::find(outside->names.begin(), outside->names.end(), name) == outside->names.end()) {
      outside->names.push_back(name);
    }
  };
  for (const NodeProto& node : graph.node()) {
    ++outside->nodes;
    for (const std::string& name : node.input()) read(name);
    for (const AttributeProto& attr : node.attribute()) {
      if (attr.has_g()) LookInto(attr.g(), known, depth + 1, outside);
      for (const GraphProto& inner : attr.graphs()) LookInto(inner, known, depth + 1, outside);
    }
  }
  for (const auto& value : graph.output()) read(value.name());
}

OnnxAttr AttrOf(const AttributeProto& attr) {
  OnnxAttr plain;
  plain.name = attr.name();
  plain.is_list =
      attr.ints_size() + attr.floats_size() + attr.strings_size() > 0 || attr.type() == AttributeProto::INTS;
  if (attr.has_i()) plain.integers.push_back(attr.i());
  if (attr.has_f() && std::isfinite(attr.f())) plain.numbers.push_back(static_cast<double>(attr.f()));
  if (attr.has_s()) plain.texts.push_back(attr.s());
  plain.integers.insert(plain.integers.end(), attr.ints().begin(), attr.ints().end());
  for (const float number : attr.floats()) {
    if (std::isfinite(number)) plain.numbers.push_back(static_cast<double>(number));
  }
  plain.texts.insert(plain.texts.end(), attr.strings().begin(), attr.strings().end());
  return plain;
}

AttributeProto* FindAttr(NodeProto* node, std::string_view name) {
  for (AttributeProto& attr : *node->mutable_attribute()) {
    if (attr.name() == name) return &attr;
  }
  return nullptr;
}

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
    if (is_window) {
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

std::int64_t NewestOpset() { return onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at("").second; }

class Inference {
 public:
  explicit Inference(const onnx::ModelProto& proto) : proto_(proto), graph_(proto.graph()), expander_(proto) {}

  OnnxModel Run(const std::vector<InputShape>& shapes) {
    model_.producer = proto_.producer_name();
    model_.ir_version = proto_.ir_version();
    model_.graph_name = graph_.name();
    opsets_ = OpsetsOf(proto_.opset_import());
    if (opsets_.empty()) opsets_[""] = 1;
    const auto own = opsets_.find("");
    model_.opset = own == opsets_.end() ? 0 : own->second;
    for (const NodeProto& node : graph_.node()) expander_.Add(node, opsets_);
    AddInitializers();
    AddInputs(shapes);
    for (const auto& value : graph_.output()) {
      model_.outputs.push_back(value.name());
      AddStated(value);
    }
    for (const auto& value : graph_.value_info()) AddStated(value);
    AddNodes();
    for (const std::size_t i : Order()) Infer(expander_.steps()[i], &model_.nodes[i]);
    for (const auto& [name, type] : types_) {
      if (writers_.contains(name)) model_.types[name] = TypeOf(*type);
    }
    for (const auto& [name, tensor] : content_) {
      if (auto integers = IntegersOf(*tensor)) model_.constants[name] = std::move(*integers);
    }
    return std::move(model_);
  }

 private:
  TypeProto* Keep(TypeProto type) { return &kept_types_.emplace_back(std::move(type)); }
  const TensorProto* Keep(TensorProto tensor) { return &kept_tensors_.emplace_back(std::move(tensor)); }

  void AddInitializers() {
    const auto add = [&](const TensorProto& tensor, OnnxTensor plain) {
      for (const std::int64_t dim : plain.dims) {
        if (dim < 0) RefuseModel(fmt::format("initializer \"{}\": its dimension is {}", plain.name, dim));
      }
      if (plain.name.empty()) RefuseModel("has an initializer without a name");
      if (!initializers_.insert(plain.name).second) {
        RefuseModel(fmt::format("initializer \"{}\": there is another of that name", plain.name));
      }
      types_[plain.name] = Keep(ProtoOf(plain.element, plain.dims));
      if (!plain.bytes && HasContent(tensor)) content_[plain.name] = &tensor;
      model_.initializers.push_back(std::move(plain));
    };
    for (const TensorProto& tensor : graph_.initializer()) {
      add(tensor, {.name = tensor.name(),
                   .element = tensor.data_type(),
                   .dims = {tensor.dims().begin(), tensor.dims().end()},
                   .bytes = std::nullopt});
    }
    for (const auto& tensor : graph_.sparse_initializer()) {
      add(tensor.values(), {.name = tensor.values().name(),
                            .element = tensor.values().data_type(),
                            .dims = {tensor.dims().begin(), tensor.dims().end()},
                            .bytes = BytesOf(tensor.values()) + BytesOf(tensor.indices())});
    }
  }

  // The dimensions that the user set: of the inputs named, and all others with the same symbol.
  void AddInputs(const std::vector<InputShape>& shapes) {
    std::vector<const onnx::ValueInfoProto*> inputs;
    for (const auto& value : graph_.input()) {
      if (value.name().empty()) RefuseModel("has an input without a name");
      if (initializers_.contains(value.name())) continue;
      if (!inputs_.insert(value.name()).second) {
        RefuseModel(fmt::format("input \"{}\": there is another of that name", value.name()));
      }
      inputs.push_back(&value);
    }
    std::unordered_map<std::string, const InputShape*> given;
    for (const InputShape& shape : shapes) {
      if (!inputs_.contains(shape.name)) {
        std::vector<std::string> known(inputs_.begin(), inputs_.end());
        std::sort(known.begin(), known.end());
        RefuseModel(fmt::format("has no input \"{}\" for --input ({})", shape.name, fmt::join(known, ", ")));
      }
      given[shape.name] = &shape;
    }
    for (const auto* const value : inputs) {
      const auto found = given.find(value->name());
      if (found != given.end()) Bind(*value, *found->second);
    }
    for (const auto* const value : inputs) {
      const auto found = given.find(value->name());
      TypeProto type = value->type();
      OnnxModel::Input input{.name = value->name(), .type = {}, .symbols = {}};
      if (type.value_case() == TypeProto::kTensorType) {
        auto* const shape = type.mutable_tensor_type()->mutable_shape();
        if (!value->type().tensor_type().has_shape() && found != given.end()) {
          for (const std::int64_t dim : found->second->dims) shape->add_dim()->set_dim_value(dim);
        } else if (!value->type().tensor_type().has_shape()) {
          type.mutable_tensor_type()->clear_shape();
        }
        for (int i = 0; type.tensor_type().has_shape() && i < shape->dim_size(); ++i) {
          input.symbols.push_back(shape->dim(i).has_dim_param() ? shape->dim(i).dim_param() : "");
          if (found != given.end())
            shape->mutable_dim(i)->set_dim_value(found->second->dims[static_cast<std::size_t>(i)]);
        }
        Substitute(&type);
      }
      input.type = TypeOf(type);
      types_[value->name()] = Keep(std::move(type));
      model_.inputs.push_back(std::move(input));
    }
  }

  void Bind(const onnx::ValueInfoProto& value, const InputShape& shape) {
    const auto place = [&] { return fmt::format("input \"{}\"", value.name()); };
    if (value.type().value_case() != TypeProto::kTensorType) {
      RefuseModel(place() + ": is no tensor, so --input sets no shape of it");
    }
    if (!value.type().tensor_type().has_shape()) return;
    const auto& dims = value.type().tensor_type().shape().dim();
    if (dims.size() != static_cast<int>(shape.dims.size())) {
      RefuseModel(fmt::format("{}: has {} dimensions, and {} from --input", place(), dims.size(), shape.dims.size()));
    }
    for (int i = 0; i < dims.size(); ++i) {
      const std::int64_t given = shape.dims[static_cast<std::size_t>(i)];
      if (dims[i].has_dim_value() && dims[i].dim_value() >= 0 && dims[i].dim_value() != given) {
        RefuseModel(fmt::format("{}: its dimension {} is {} in the file, and {} in --input (only free ones can be set)",
                                place(), i, dims[i].dim_value(), given));
      }
      if (!dims[i].has_dim_param() || dims[i].dim_param().empty()) continue;
      const auto [bound, is_new] = symbols_.try_emplace(dims[i].dim_param(), given);
      if (!is_new && bound->second != given) {
        RefuseModel(fmt::format("{}: its dimension {} (\"{}\") is {} in --input, and {} elsewhere", place(), i,
                                dims[i].dim_param(), given, bound->second));
      }
    }
  }

  // Symbols that are bound.
  void Substitute(TypeProto* type) const {
    if (type->value_case() != TypeProto::kTensorType || !type->tensor_type().has_shape()) return;
    for (auto& dim : *type->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
      if (dim.has_dim_value() && dim.dim_value() < 0) dim.clear_value();
      if (!dim.has_dim_param()) continue;
      const auto bound = symbols_.find(dim.dim_param());
      if (bound != symbols_.end()) dim.set_dim_value(bound->second);
    }
  }

  // What the file itself says of a value.
  void AddStated(const onnx::ValueInfoProto& value) {
    TypeProto type = value.type();
    Substitute(&type);
    const auto [found, is_new] = stated_.try_emplace(value.name(), type);
    if (!is_new) found->second = Merged(found->second, type);
  }

  // Outputs that nobody reads, such as the mask of a dropout that does not train, are left out.
  void AddNodes() {
    read_.insert(model_.outputs.begin(), model_.outputs.end());
    for (const Step& step : expander_.steps()) {
      read_.insert(step.node.input().begin(), step.node.input().end());
      Outside outside;
      for (const AttributeProto& attr : step.node.attribute()) {
        if (attr.has_g()) LookInto(attr.g(), {}, 0, &outside);
        for (const GraphProto& inner : attr.graphs()) LookInto(inner, {}, 0, &outside);
      }
      read_.insert(outside.names.begin(), outside.names.end());
    }
    for (Step& step : expander_.steps()) {
      NodeProto& node = step.node;
      OnnxNode plain;
      plain.name = node.name();
      plain.op = node.op_type();
      plain.domain = DomainOf(node.domain());
      const auto opset = step.opsets->find(plain.domain);
      plain.opset = opset == step.opsets->end() ? 0 : opset->second;
      plain.inputs.assign(node.input().begin(), node.input().end());
      plain.outputs.assign(node.output().begin(), node.output().end());
      Outside outside;
      for (const AttributeProto& attr : node.attribute()) {
        plain.attrs.push_back(AttrOf(attr));
        if (attr.has_g()) LookInto(attr.g(), {}, 0, &outside);
        for (const GraphProto& inner : attr.graphs()) LookInto(inner, {}, 0, &outside);
      }
      plain.captured = std::move(outside.names);
      plain.subgraph_bytes = outside.bytes;
      plain.subgraph_nodes = outside.nodes;
      const std::size_t position = model_.nodes.size();
      for (std::size_t i = 1; i < plain.outputs.size(); ++i) {
        if (!read_.contains(plain.outputs[i])) plain.outputs[i].clear();
      }
      while (plain.outputs.size() > 1 && plain.outputs.back().empty()) plain.outputs.pop_back();
      for (const std::string& output : plain.outputs) {
        if (output.empty()) continue;
        if (initializers_.contains(output) || inputs_.contains(output) || !writers_.emplace(output, position).second) {
          RefuseModel(fmt::format("{}: its output \"{}\" is written elsewhere too (each name once)",
                                  Place(plain, position), output));
        }
      }
      model_.nodes.push_back(std::move(plain));
    }
  }

  static std::string Place(const OnnxNode& node, std::size_t position) {
    return fmt::format("node {} ({} \"{}\")", position, node.op, node.name);
  }

  // Every node after those whose outputs it reads. Nodes on cycles are left out.
  std::vector<std::size_t> Order() const {
    std::vector<std::size_t> waits(model_.nodes.size());
    std::vector<std::vector<std::size_t>> readers(model_.nodes.size());
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
      const OnnxNode& node = model_.nodes[i];
      for (const auto* const names : {&node.inputs, &node.captured}) {
        for (const std::string& name : *names) {
          if (name.empty()) continue;
          const auto writer = writers_.find(name);
          if (writer != writers_.end()) {
            readers[writer->second].push_back(i);
            ++waits[i];
          } else if (!types_.contains(name)) {
            RefuseModel(
                fmt::format("{}: its input \"{}\" is nowhere (no node writes it, and it is no input or initializer)",
                            Place(node, i), name));
          }
        }
      }
    }
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (waits[i] == 0) order.push_back(i);
    }
    for (std::size_t next = 0; next < order.size(); ++next) {
      for (const std::size_t reader : readers[order[next]]) {
        if (--waits[reader] == 0) order.push_back(reader);
      }
    }
    return order;
  }

  void Infer(Step& step, OnnxNode* plain) {
    std::vector<TypeProto> inferred(static_cast<std::size_t>(step.node.output_size()));
    try {
      inferred = TypesFrom(step, *plain);
    } catch (const std::exception& error) {
      plain->failure = error.what();
    }
    for (std::size_t i = 0; i < plain->outputs.size(); ++i) {
      const std::string& name = plain->outputs[i];
      if (name.empty()) continue;
      const auto stated = stated_.find(name);
      TypeProto type = stated == stated_.end() ? inferred[i] : Merged(inferred[i], stated->second);
      Substitute(&type);
      types_[name] = Keep(std::move(type));
    }
    if (!plain->failure.empty()) return;
    try {
      Propagate(step, *plain);
    } catch (const std::exception&) {
      // What the value is stays unknown.
    }
  }

  // The types of the outputs, as its schema infers them.
  std::vector<TypeProto> TypesFrom(Step& step, const OnnxNode& plain) {
    NodeProto node = step.node;
    CheckAttrs(&node);
    std::vector<TypeProto> outputs(static_cast<std::size_t>(node.output_size()));
    if (plain.subgraph_nodes > 0) return TypesOfBranches(node);
    if (plain.domain.empty() && plain.op == "Einsum") {
      if (outputs.empty()) throw std::runtime_error("has no output");
      outputs.front() = TypeOfEinsum(plain);
      return outputs;
    }
    if (plain.domain.empty() && InferOfNewerOpset(plain, &node, &outputs)) return outputs;
    const onnx::OpSchema* const schema =
        onnx::OpSchemaRegistry::Schema(plain.op, static_cast<int>(plain.opset), plain.domain);
    if (schema == nullptr) {
      throw std::runtime_error(fmt::format("libonnx has no operator {} of version {} in domain \"{}\"", plain.op,
                                           plain.opset, plain.domain));
    }
    Verify(*schema, &node);
    CheckRanks(plain);
    auto context = ContextOf<onnx::shape_inference::InferenceContextImpl>(&node);
    if (schema->has_type_and_shape_inference_function()) {
      schema->GetTypeAndShapeInferenceFunction()(context);
    } else {
      throw std::runtime_error(fmt::format("libonnx has no rule for the shapes of {}", plain.op));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = context.allOutputTypes_.at(i);
    return outputs;
  }

  const std::vector<std::int64_t>* Known(const NodeProto& node, int input) {
    if (input >= node.input_size()) return nullptr;
    const auto found = content_.find(node.input(input));
    if (found == content_.end()) return nullptr;
    auto integers = IntegersOf(*found->second);
    return integers ? &kept_integers_.emplace_back(std::move(*integers)) : nullptr;
  }

  // What changed after the opset that libonnx 1.12 knows (17). True if the types of the outputs are found; false if
  // its own rule is to be asked, of the node as changed. Source: the operator changelog of ONNX, versions 18 to 23.
  bool InferOfNewerOpset(const OnnxNode& plain, NodeProto* node, std::vector<TypeProto>* outputs) {
    if (plain.opset <= NewestOpset()) return false;
    static const std::set<std::string> reductions = {"ReduceMean",   "ReduceMax",       "ReduceMin",
                                                     "ReduceProd",   "ReduceL1",        "ReduceL2",
                                                     "ReduceLogSum", "ReduceSumSquare", "ReduceLogSumExp"};
    static const std::set<std::string> same_as_input = {"Gelu",  "GroupNormalization", "RMSNormalization", "Mish",
                                                        "Swish", "BitwiseNot",         "RotaryEmbedding"};
    if (same_as_input.contains(plain.op)) {
      if (node->input_size() == 0 || outputs->empty()) throw std::runtime_error("has no input or no output");
      const auto input = types_.find(node->input(0));
      if (input != types_.end()) outputs->front() = *input->second;
      return true;
    }
    constexpr std::int64_t kAxesAreInputs = 18;
    if (NewestOpset() >= kAxesAreInputs) return false;
    if (reductions.contains(plain.op) && node->input_size() == 2 && !node->input(1).empty()) {
      const auto* const axes = Known(*node, 1);
      if (axes == nullptr) throw std::runtime_error("its axes are not constant");
      if (!axes->empty()) SetIntegers(node, "axes", *axes);
      if (axes->empty() && plain.Integer("noop_with_empty_axes", 0) != 0) {
        outputs->at(0) = *types_.at(node->input(0));
        return true;
      }
      node->mutable_input()->RemoveLast();
      return false;
    }
    if (reductions.contains(plain.op) && plain.Integer("noop_with_empty_axes", 0) != 0) {
      outputs->at(0) = *types_.at(plain.inputs.at(0));
      return true;
    }
    if (plain.op == "Split" && plain.Find("num_outputs") != nullptr && node->input_size() == 1) {
      return SplitEvenly(plain, outputs);
    }
    if (plain.op == "Pad" && node->input_size() == 4 && !node->input(3).empty()) {
      return PadAxes(*node, outputs);
    }
    if (plain.op == "AveragePool" && plain.Find("dilations") != nullptr) {
      const std::vector<std::int64_t> dilations = plain.Integers("dilations");
      if (std::any_of(dilations.begin(), dilations.end(), [](std::int64_t dilation) { return dilation != 1; })) {
        node->set_op_type("MaxPool");  // the same arithmetic
      }
      return false;
    }
    if ((plain.op == "Resize" && plain.Find("axes") != nullptr) || plain.op == "DFT") {
      throw std::runtime_error("libonnx knows only an older version of it");
    }
    return false;
  }

  // Libraries after 1.12 want options too.
  template <typename Context>
  Context ContextOf(NodeProto* node) {
    using Known = std::unordered_map<std::string, onnx::TensorShapeProto>;
    // Asked this way round: a pointer would become such options, as it becomes a bool.
    if constexpr (std::is_constructible_v<Context, NodeProto&, decltype(types_)&, decltype(content_)&,
                                          decltype(sparse_)&, onnx::ShapeInferenceOptions, Known*>) {
      return Context(*node, types_, content_, sparse_, onnx::ShapeInferenceOptions(), &known_);
    } else {
      return Context(*node, types_, content_, sparse_, &known_);
    }
  }

  // libonnx relies on what this checks: on numbers of inputs and outputs, and on attributes.
  static void Verify(const onnx::OpSchema& schema, NodeProto* node) {
    for (int i = 0; i < node->attribute_size();) {
      AttributeProto& attr = *node->mutable_attribute(i);
      // Of newer opsets.
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
  void CheckRanks(const OnnxNode& plain) const {
    // It makes a dimension for each number of a shape, also of one that is not known.
    static const std::set<std::string> take_shapes = {"ConstantOfShape", "Expand", "Reshape",
                                                      "Resize",          "Tile",   "Upsample"};
    for (std::size_t i = plain.op == "ConstantOfShape" ? 0 : 1; i < plain.inputs.size(); ++i) {
      const auto type = take_shapes.contains(plain.op) ? types_.find(plain.inputs[i]) : types_.end();
      if (type == types_.end()) continue;
      const OnnxType shape = TypeOf(*type->second);
      if (shape.dims && shape.dims->size() == 1 && (*shape.dims)[0] > static_cast<std::int64_t>(kMostKnown)) {
        throw std::runtime_error("its shape has too many dimensions");
      }
    }
    if (plain.op != "Conv" && plain.op != "ConvTranspose" && plain.op != "ConvInteger" && plain.op != "QLinearConv")
      return;
    const std::size_t filter = plain.op == "QLinearConv" ? 3 : 1;
    const OnnxType x = TypeOf(WholeInput(plain.inputs.at(0)));
    const OnnxType w = TypeOf(WholeInput(plain.inputs.at(filter)));
    if (x.dims->size() < 3 || x.dims->size() != w.dims->size()) {
      throw std::runtime_error("its image and its filter have no common rank of 3 or more");
    }
  }

  // Integers of a value that is known.
  struct Integers {
    std::vector<std::int64_t> dims;
    std::vector<std::int64_t> values;
  };
  std::optional<Integers> KnownIntegers(const NodeProto& node, int input) const {
    if (input >= node.input_size()) return std::nullopt;
    const auto found = content_.find(node.input(input));
    if (found == content_.end()) return std::nullopt;
    auto values = IntegersOf(*found->second);
    if (!values) return std::nullopt;
    return Integers{{found->second->dims().begin(), found->second->dims().end()}, std::move(*values)};
  }

  // What an operator of shape arithmetic gives, where libonnx propagates nothing. `type`: of its output.
  std::optional<std::vector<std::int64_t>> Evaluate(const NodeProto& node, const OnnxNode& plain,
                                                    const OnnxType& type) const {
    const std::string& op = node.op_type();
    if (op == "Shape" && plain.attrs.empty()) return TypeOf(WholeInput(node.input(0))).dims;
    if (op == "ConstantOfShape") {
      const OnnxAttr* const value = plain.Find("value");
      if (value == nullptr || !KnownIntegers(node, 0)) return std::nullopt;
      for (const AttributeProto& attr : node.attribute()) {
        if (attr.name() != "value" || !HasContent(attr.t())) continue;
        const auto one = IntegersOf(attr.t());
        if (one && one->size() == 1) return std::vector<std::int64_t>(ElementsOf(type), one->front());
      }
      return std::nullopt;
    }
    if (op == "Concat") {
      std::vector<std::int64_t> all;
      for (int i = 0; i < node.input_size(); ++i) {
        const auto part = KnownIntegers(node, i);
        if (!part || part->dims.size() != 1 || all.size() + part->values.size() > kMostKnown) return std::nullopt;
        all.insert(all.end(), part->values.begin(), part->values.end());
      }
      return all;
    }
    const auto x = KnownIntegers(node, 0);
    if (!x) return std::nullopt;
    if (op == "Cast" || op == "Identity" || op == "Squeeze" || op == "Unsqueeze" || op == "Reshape" ||
        op == "Flatten") {
      return x->values;
    }
    if (op == "Neg")
      return Each(x->values, {0}, [](std::int64_t a, std::int64_t) { return 0 - static_cast<std::uint64_t>(a); });
    if (op == "Gather") return Gathered(node, plain, *x);
    if (op == "Slice") return Sliced(node, *x);
    if (op == "Transpose" && x->dims.size() == 2 && plain.Integers("perm") != std::vector<std::int64_t>{0, 1}) {
      std::vector<std::int64_t> turned;
      for (std::int64_t column = 0; column < x->dims[1]; ++column) {
        for (std::int64_t row = 0; row < x->dims[0]; ++row) {
          turned.push_back(x->values[static_cast<std::size_t>(row * x->dims[1] + column)]);
        }
      }
      return turned;
    }
    const auto y = KnownIntegers(node, 1);
    if (!y) return std::nullopt;
    const auto wide = [](std::int64_t a) { return static_cast<std::uint64_t>(a); };
    if (op == "Add") return Each(x->values, y->values, [&](auto a, auto b) { return wide(a) + wide(b); });
    if (op == "Sub") return Each(x->values, y->values, [&](auto a, auto b) { return wide(a) - wide(b); });
    if (op == "Mul") return Each(x->values, y->values, [&](auto a, auto b) { return wide(a) * wide(b); });
    if (op == "Equal") return Each(x->values, y->values, [&](auto a, auto b) { return wide(a == b ? 1 : 0); });
    if (op == "Where") return Selected(*x, *y, KnownIntegers(node, 2));
    const auto is_divisor = [](std::int64_t b) { return b != 0 && b != -1; };
    if ((op == "Div" || op == "Mod") && std::all_of(y->values.begin(), y->values.end(), is_divisor)) {
      if (op == "Div") return Each(x->values, y->values, [&](auto a, auto b) { return wide(a / b); });
      return Each(x->values, y->values, [&](auto a, auto b) { return wide((a % b + b) % b); });
    }
    return std::nullopt;
  }
  static std::size_t ElementsOf(const OnnxType& type) {
    std::size_t elements = 1;
    for (const std::int64_t dim : *type.dims) {
      if (dim > static_cast<std::int64_t>(kMostKnown)) throw std::runtime_error("it is too large");
      elements *= static_cast<std::size_t>(dim);
      if (elements > kMostKnown) throw std::runtime_error("it is too large");
    }
    return elements;
  }
  // For lists of one length, or one of a single number. Wraps around, as the operators do.
  template <typename Function>
  static std::optional<std::vector<std::int64_t>> Each(const std::vector<std::int64_t>& a,
                                                       const std::vector<std::int64_t>& b, Function function) {
    if (a.size() != b.size() && a.size() != 1 && b.size() != 1) return std::nullopt;
    std::vector<std::int64_t> result;
    const std::size_t size = a.empty() || b.empty() ? 0 : std::max(a.size(), b.size());
    for (std::size_t i = 0; i < size; ++i) {
      result.push_back(static_cast<std::int64_t>(function(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i])));
    }
    return result;
  }
  static std::optional<std::vector<std::int64_t>> Selected(const Integers& condition, const Integers& a,
                                                           const std::optional<Integers>& b) {
    const std::size_t size = condition.values.size();
    if (!b || a.values.size() != size || b->values.size() != size) return std::nullopt;
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < size; ++i) values.push_back(condition.values[i] != 0 ? a.values[i] : b->values[i]);
    return values;
  }
  std::optional<std::vector<std::int64_t>> Gathered(const NodeProto& node, const OnnxNode& plain,
                                                    const Integers& x) const {
    const auto rows = KnownIntegers(node, 1);
    if (!rows || x.dims.size() != 1 || plain.Integer("axis", 0) != 0) return std::nullopt;
    std::vector<std::int64_t> values;
    const auto length = static_cast<std::int64_t>(x.values.size());
    for (const std::int64_t row : rows->values) {
      if (row < -length || row >= length) return std::nullopt;
      values.push_back(x.values[static_cast<std::size_t>(row < 0 ? row + length : row)]);
    }
    return values;
  }
  // Along the first dimension.
  std::optional<std::vector<std::int64_t>> Sliced(const NodeProto& node, const Integers& x) const {
    const auto starts = KnownIntegers(node, 1);
    const auto ends = KnownIntegers(node, 2);
    const auto axes = KnownIntegers(node, 3);
    const auto steps = KnownIntegers(node, 4);
    if (!starts || !ends || starts->values.size() != 1 || ends->values.size() != 1 || x.dims.empty())
      return std::nullopt;
    if (axes && (axes->values.size() != 1 || axes->values[0] != 0)) return std::nullopt;
    const std::int64_t step = steps && steps->values.size() == 1 ? steps->values[0] : 1;
    const std::int64_t length = x.dims[0];
    if (step == 0 || length == 0) return std::nullopt;
    const auto at = [&](std::int64_t index, std::int64_t least, std::int64_t most) {
      return std::clamp(index < 0 ? std::max(index, -length - 1) + length : index, least, most);
    };
    const std::int64_t width = static_cast<std::int64_t>(x.values.size()) / length;
    const std::int64_t begin = at(starts->values[0], 0, step > 0 ? length : length - 1);
    const std::int64_t end = at(ends->values[0], step > 0 ? 0 : -1, length);
    std::vector<std::int64_t> values;
    const std::int64_t stride = std::clamp(step, -length, length);
    for (std::int64_t row = begin; step > 0 ? row < end : row > end; row += stride) {
      for (std::int64_t i = 0; i < width; ++i) values.push_back(x.values[static_cast<std::size_t>(row * width + i)]);
    }
    return values;
  }

  // The branches of If say the types of their outputs. Those of a loop depend on how often it runs.
  static std::vector<TypeProto> TypesOfBranches(const NodeProto& node) {
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

  // libonnx 1.12 knows only the rank of the output, and 1.17 crashes on some equations that do not fit.
  TypeProto TypeOfEinsum(const OnnxNode& plain) const {
    std::vector<std::vector<std::int64_t>> shapes;
    for (const std::string& input : plain.inputs) shapes.push_back(*TypeOf(WholeInput(input)).dims);
    const auto shape = EinsumShape(plain.Text("equation", ""), shapes);
    if (!shape) throw std::runtime_error("its equation does not fit its inputs");
    return ProtoOf(TypeOf(WholeInput(plain.inputs.at(0))).element, *shape);
  }

  static void SetIntegers(NodeProto* node, const std::string& name, const std::vector<std::int64_t>& values) {
    AttributeProto* attr = FindAttr(node, name);
    if (attr == nullptr) attr = node->add_attribute();
    attr->Clear();
    attr->set_name(name);
    attr->set_type(AttributeProto::INTS);
    for (const std::int64_t value : values) attr->add_ints(value);
  }

  const TypeProto& WholeInput(const std::string& name) const {
    const auto found = types_.find(name);
    if (found == types_.end() || !TypeOf(*found->second).IsWhole()) throw std::runtime_error("its input has no shape");
    return *found->second;
  }

  // Pieces of ceil(length / count), the last one smaller.
  bool SplitEvenly(const OnnxNode& plain, std::vector<TypeProto>* outputs) const {
    const TypeProto& input = WholeInput(plain.inputs.at(0));
    const OnnxType type = TypeOf(input);
    const auto rank = static_cast<std::int64_t>(type.dims->size());
    std::int64_t axis = plain.Integer("axis", 0);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || outputs->empty()) throw std::runtime_error("its axis is none of its input's");
    const std::int64_t length = type.dims->at(static_cast<std::size_t>(axis));
    const auto count = static_cast<std::int64_t>(outputs->size());
    const std::int64_t piece = length / count + (length % count != 0 ? 1 : 0);
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<std::int64_t> dims = *type.dims;
      dims[static_cast<std::size_t>(axis)] = std::clamp<std::int64_t>(length - i * piece, 0, piece);
      outputs->at(static_cast<std::size_t>(i)) = ProtoOf(type.element, dims);
    }
    return true;
  }

  bool PadAxes(const NodeProto& node, std::vector<TypeProto>* outputs) {
    const OnnxType type = TypeOf(WholeInput(node.input(0)));
    const auto* const pads = Known(node, 1);
    const auto* const axes = Known(node, 3);
    if (pads == nullptr || axes == nullptr || pads->size() != 2 * axes->size()) {
      throw std::runtime_error("its pads and axes are not constant");
    }
    std::vector<std::int64_t> dims = *type.dims;
    for (std::size_t i = 0; i < axes->size(); ++i) {
      const auto rank = static_cast<std::int64_t>(dims.size());
      const std::int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + rank : (*axes)[i];
      if (axis < 0 || axis >= rank) throw std::runtime_error("its axes are none of its input's");
      std::int64_t& dim = dims[static_cast<std::size_t>(axis)];
      for (const std::size_t k : {i, i + axes->size()}) {
        if (__builtin_add_overflow(dim, (*pads)[k], &dim) || dim < 0) throw std::runtime_error("its pads do not fit");
      }
    }
    outputs->at(0) = ProtoOf(type.element, dims);
    return true;
  }

  // Values that are known without running anything: constants, and what follows from shapes.
  void Propagate(Step& step, const OnnxNode& plain) {
    NodeProto& node = step.node;
    if (node.output_size() == 0 || node.output(0).empty()) return;
    if (node.op_type() == "Constant" && DomainOf(node.domain()).empty()) return AddConstant(node);
    const auto opset = step.opsets->find(DomainOf(node.domain()));
    if (opset == step.opsets->end()) return;
    const OnnxType output = TypeOf(*types_.at(node.output(0)));
    const bool is_integer =
        output.element == kOnnxInt64 || output.element == kOnnxInt32 || output.element == TensorProto::BOOL;
    if (plain.domain.empty() && output.IsWhole() && is_integer && ElementsOf(output) <= kMostKnown) {
      const auto values = Evaluate(node, plain, output);
      if (values && values->size() == ElementsOf(output)) {
        TensorProto tensor;
        tensor.set_data_type(output.element);
        for (const std::int64_t dim : *output.dims) tensor.add_dims(dim);
        for (const std::int64_t value : *values) {
          if (output.element == kOnnxInt64) {
            tensor.add_int64_data(value);
          } else {
            tensor.add_int32_data(static_cast<std::int32_t>(value));
          }
        }
        content_[node.output(0)] = Keep(std::move(tensor));
        return;
      }
    }
    const onnx::OpSchema* const schema =
        onnx::OpSchemaRegistry::Schema(node.op_type(), opset->second, DomainOf(node.domain()));
    if (schema == nullptr || !schema->has_data_propagation_function()) return;
    CheckAttrs(&node);
    Verify(*schema, &node);
    onnx::shape_inference::DataPropagationContextImpl context(node, types_, content_, known_);
    schema->GetDataPropagationFunction()(context);
    const auto found = known_.find(node.output(0));
    if (found == known_.end()) return;
    if (static_cast<std::size_t>(found->second.dim_size()) > kMostKnown) {
      known_.erase(found);
      return;
    }
    TensorProto tensor;
    tensor.set_data_type(TensorProto::INT64);
    for (const auto& dim : found->second.dim()) {
      if (!dim.has_dim_value()) return;
      tensor.add_int64_data(dim.dim_value());
    }
    const OnnxType type = TypeOf(*types_.at(node.output(0)));
    if (!type.IsWhole() || type.element != kOnnxInt64 || type.dims->size() > 1) return;
    if (type.dims->empty() ? tensor.int64_data_size() != 1 : type.dims->front() != tensor.int64_data_size()) return;
    for (const std::int64_t dim : *type.dims) tensor.add_dims(dim);
    content_[node.output(0)] = Keep(std::move(tensor));
  }

  void AddConstant(const NodeProto& node) {
    for (const AttributeProto& attr : node.attribute()) {
      TensorProto tensor;
      if (attr.name() == "value" && attr.has_t()) {
        tensor = attr.t();
      } else if (attr.name() == "value_int" && attr.has_i()) {
        tensor.add_int64_data(attr.i());
        tensor.set_data_type(TensorProto::INT64);
      } else if (attr.name() == "value_ints") {
        for (const std::int64_t value : attr.ints()) tensor.add_int64_data(value);
        tensor.add_dims(attr.ints_size());
        tensor.set_data_type(TensorProto::INT64);
      }
      if (HasContent(tensor)) content_[node.output(0)] = Keep(std::move(tensor));
    }
  }

  const onnx::ModelProto& proto_;
  const GraphProto& graph_;
  Expander expander_;
  Opsets opsets_;
  OnnxModel model_;
  std::unordered_set<std::string> initializers_;
  std::unordered_set<std::string> inputs_;
  std::unordered_set<std::string> read_;                  // values that something reads
  std::unordered_map<std::string, std::size_t> writers_;  // of a value: the node
  std::unordered_map<std::string, std::int64_t> symbols_;
  std::unordered_map<std::string, TypeProto> stated_;
  // As libonnx wants them.
  std::deque<TypeProto> kept_types_;
  std::deque<TensorProto> kept_tensors_;
  std::deque<std::vector<std::int64_t>> kept_integers_;
  std::unordered_map<std::string, TypeProto*> types_;
  std::unordered_map<std::string, const TensorProto*> content_;
  std::unordered_map<std::string, const onnx::SparseTensorProto*> sparse_;
  std::unordered_map<std::string, onnx::TensorShapeProto> known_;
};

OnnxParsed ParseOnnx(const std::string& bytes, const std::vector<InputShape>& inputs) {
  OnnxParsed parsed;
  try {
    onnx::ModelProto proto;
    if (!proto.ParseFromString(bytes)) RefuseModel("is damaged or no ONNX model (a ModelProto expected)");
    if (!proto.has_graph() || proto.graph().node_size() == 0) RefuseModel("holds no graph with nodes");
    parsed.model = Inference(proto).Run(inputs);
  } catch (const Refused& refused) {
    parsed.problem = refused.problem;
  } catch (const std::exception& error) {
    parsed.problem = fmt::format("cannot be read (libonnx: {})", error.what());
  }
  return parsed;
}

}  // namespace
}  // namespace emplace::datasets

extern "C" __attribute__((visibility("default"))) const emplace::datasets::OnnxExports emplace_onnx_part;
const emplace::datasets::OnnxExports emplace_onnx_part = {emplace::datasets::ParseOnnx, emplace::datasets::NewestOpset};
