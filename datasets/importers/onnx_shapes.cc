// The libonnx part of onnx_model.h, in a separate library: parses the message and infers shapes.

#define ONNX_NAMESPACE onnx
#define ONNX_ML 1

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/unknown_field_set.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "datasets/importers/onnx_content.h"
#include "datasets/importers/onnx_model.h"
#include "datasets/importers/onnx_rules.h"
#include "datasets/importers/onnx_values.h"

namespace emplace::datasets {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;
using onnx::TypeProto;

constexpr std::size_t kMostNodes = 4'000'000;
constexpr int kDeepestCall = 32;
constexpr std::size_t kMostUnrolledBytes = std::size_t{64} << 20;  // of the messages of iterations
constexpr std::size_t kMostUnrolled = 20'000;  // nodes that subgraphs become, beyond those of the file
constexpr std::int64_t kLargestWindow = std::int64_t{1} << 31;
constexpr int kDeepestGraph = 32;

// A refusal, for OnnxParsed::problem.
struct Refused {
  std::string problem;
};

[[noreturn]] void RefuseModel(std::string problem) { throw Refused{std::move(problem)}; }

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
  for (const std::int64_t dim : dims) {
    auto* const proto = shape->add_dim();
    if (dim >= 0) proto->set_dim_value(dim);
  }
  return type;
}
TypeProto ProtoOf(const OnnxType& type) {
  if (!type.is_tensor) return {};
  if (type.dims) return ProtoOf(type.element, *type.dims);
  TypeProto proto;
  proto.mutable_tensor_type()->set_elem_type(type.element);
  return proto;
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
  int depth = 0;  // calls of functions, and subgraphs that were inlined, around it
};

// The nodes of the model, with calls of its own functions replaced by their bodies.
class Expander {
 public:
  explicit Expander(const onnx::ModelProto& model) {
    for (const auto& function : model.functions()) {
      functions_[{DomainOf(function.domain()), function.name()}] = &function;
      opsets_[&function] = OpsetsOf(function.opset_import());
      Attrs& defaults = defaults_[&function];
      for (const AttributeProto& attr : kept_attrs_.emplace_back(DefaultsOf(function))) defaults[attr.name()] = &attr;
    }
  }

  void Add(NodeProto node, const Opsets& opsets, int depth = 0) {
    const auto found = functions_.find({DomainOf(node.domain()), node.op_type()});
    if (found == functions_.end()) {
      if (steps_.size() >= kMostNodes) RefuseModel(fmt::format("has more than {} nodes", kMostNodes));
      steps_.push_back({std::move(node), &opsets, depth});
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
    const std::string prefix = Prefix(node);
    Attrs attrs = defaults_.at(&function);
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

  using Names = std::unordered_map<std::string, std::string>;

  // A prefix that no other call has, and no other subgraph that is inlined.
  std::string Prefix(const NodeProto& node) {
    constexpr std::size_t kLongest = 200;
    std::string name = node.name().empty() ? node.op_type() : node.name();
    if (name.size() > kLongest) {
      // Not within a character of UTF-8.
      std::size_t end = kLongest;
      while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
      name.resize(end);
    }
    return fmt::format("{}#{}/", name, calls_++);
  }
  // The node with the names that `names` has for its values, and others with `prefix`.
  static void Rename(const std::string& prefix, Names* names, NodeProto* node) { Rename(prefix, {}, names, node, 0); }
  static std::string Renamed(const std::string& prefix, const std::string& name, Names* names) {
    return names->try_emplace(name, prefix + name).first->second;
  }

 private:
  using Attrs = std::unordered_map<std::string, const AttributeProto*>;

  // What attributes of a function are where a call leaves them out: a field of IR version 9, which libonnx 1.12 keeps
  // among those that it does not know.
  template <typename Function>
  static std::vector<AttributeProto> DefaultsOf(const Function& function) {
    std::vector<AttributeProto> defaults;
    if constexpr (requires { function.attribute_proto(); }) {
      defaults.assign(function.attribute_proto().begin(), function.attribute_proto().end());
    }
    constexpr int kAttributeProtos = 11;
    const auto& fields = function.GetReflection()->GetUnknownFields(function);
    for (int i = 0; i < fields.field_count(); ++i) {
      if (fields.field(i).number() != kAttributeProtos ||
          fields.field(i).type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
        continue;
      }
      AttributeProto attr;
      if (attr.ParseFromString(fields.field(i).length_delimited())) defaults.push_back(std::move(attr));
    }
    return defaults;
  }

  static void Rename(const std::string& prefix, const Attrs& attrs, Names* names, NodeProto* node, int depth) {
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
  static void RenameGraph(const std::string& prefix, const Attrs& attrs, Names* names, GraphProto* graph, int depth) {
    for (auto& value : *graph->mutable_input()) value.set_name(Renamed(prefix, value.name(), names));
    for (auto& tensor : *graph->mutable_initializer()) tensor.set_name(Renamed(prefix, tensor.name(), names));
    for (NodeProto& node : *graph->mutable_node()) Rename(prefix, attrs, names, &node, depth);
    for (auto& value : *graph->mutable_output()) value.set_name(Renamed(prefix, value.name(), names));
    graph->clear_value_info();
  }

  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> functions_;
  std::unordered_map<const onnx::FunctionProto*, Opsets> opsets_;
  std::unordered_map<const onnx::FunctionProto*, Attrs> defaults_;
  std::deque<std::vector<AttributeProto>> kept_attrs_;
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
  if (attr.has_t()) {
    if (auto content = OnnxContentOf(attr.t())) plain.tensors.push_back(std::move(*content));
  }
  return plain;
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
    AddInitializers(graph_, nullptr);
    AddInputs(shapes);
    for (const auto& value : graph_.output()) {
      model_.outputs.push_back(value.name());
      AddStated(value, value.name());
    }
    for (const auto& value : graph_.value_info()) AddStated(value, value.name());
    read_.insert(model_.outputs.begin(), model_.outputs.end());
    AddNodes();
    for (const std::size_t i : Order(0)) InferNode(i);
    for (std::size_t i = 0; i < num_own_; ++i) Emit(i, false);
    for (const auto& [name, type] : types_) {
      if (writers_.contains(name)) model_.types[name] = TypeOf(*type);
    }
    for (const auto& [name, content] : known_content_) {
      model_.known.insert(name);
      if (!content->is_number()) model_.constants[name] = content->integers;
    }
    return std::move(model_);
  }

 private:
  TypeProto* Keep(TypeProto type) { return &kept_types_.emplace_back(std::move(type)); }

  void SetContent(const std::string& name, OnnxContent content) {
    if (auto tensor = ProtoOf(content)) content_[name] = &kept_tensors_.emplace_back(std::move(*tensor));
    known_content_[name] = &kept_content_.emplace_back(std::move(content));
  }

  // Adds those of the model, or of a subgraph that is inlined, whose names are changed then.
  void AddInitializers(const GraphProto& graph, const Expander::Names* names) {
    const auto add = [&](const TensorProto& tensor, OnnxTensor plain) {
      for (const std::int64_t dim : plain.dims) {
        if (dim < 0) RefuseModel(fmt::format("initializer \"{}\": its dimension is {}", plain.name, dim));
      }
      if (plain.name.empty()) RefuseModel("has an initializer without a name");
      if (names != nullptr) plain.name = names->at(plain.name);
      if (!initializers_.insert(plain.name).second) {
        // The iterations of a loop share what its body stores.
        if (names != nullptr) return;
        RefuseModel(fmt::format("initializer \"{}\": there is another of that name", plain.name));
      }
      types_[plain.name] = Keep(ProtoOf(plain.element, plain.dims));
      if (!plain.bytes) {
        if (auto content = OnnxContentOf(tensor)) SetContent(plain.name, std::move(*content));
      }
      model_.initializers.push_back(std::move(plain));
    };
    for (const TensorProto& tensor : graph.initializer()) {
      add(tensor, {.name = tensor.name(),
                   .element = tensor.data_type(),
                   .dims = {tensor.dims().begin(), tensor.dims().end()},
                   .bytes = std::nullopt});
    }
    for (const auto& tensor : graph.sparse_initializer()) {
      add(tensor.values(), {.name = tensor.values().name(),
                            .element = tensor.values().data_type(),
                            .dims = {tensor.dims().begin(), tensor.dims().end()},
                            .bytes = BytesOf(tensor.values()) + BytesOf(tensor.indices())});
    }
  }
  void AddScalar(const std::string& name, std::int32_t element, std::int64_t value) {
    initializers_.insert(name);
    types_[name] = Keep(ProtoOf(element, {}));
    model_.initializers.push_back({.name = name, .element = element, .dims = {}, .bytes = std::nullopt});
    SetContent(name, {.element = element, .dims = {}, .integers = {value}, .numbers = {}});
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
    is_resized_ = !shapes.empty();
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
  void AddStated(const onnx::ValueInfoProto& value, const std::string& name) {
    TypeProto type = value.type();
    Substitute(&type);
    const auto [found, is_new] = stated_.try_emplace(name, type);
    if (!is_new) found->second = Merged(found->second, type);
  }

  static Outside LookIntoNode(const NodeProto& node) {
    Outside outside;
    for (const AttributeProto& attr : node.attribute()) {
      if (attr.has_g()) LookInto(attr.g(), {}, 0, &outside);
      for (const GraphProto& inner : attr.graphs()) LookInto(inner, {}, 0, &outside);
    }
    return outside;
  }

  // Those of the expander that are not there yet. Outputs that nobody reads, such as the mask of a dropout that does
  // not train, are left out.
  void AddNodes() {
    const std::size_t first = nodes_.size();
    std::deque<Step>& steps = expander_.steps();
    std::vector<Outside> outsides;
    for (std::size_t i = first; i < steps.size(); ++i) {
      read_.insert(steps[i].node.input().begin(), steps[i].node.input().end());
      const Outside& outside = outsides.emplace_back(LookIntoNode(steps[i].node));
      read_.insert(outside.names.begin(), outside.names.end());
    }
    for (std::size_t i = first; i < steps.size(); ++i) {
      const NodeProto& node = steps[i].node;
      OnnxNode plain;
      plain.name = node.name();
      plain.op = node.op_type();
      plain.domain = DomainOf(node.domain());
      const auto opset = steps[i].opsets->find(plain.domain);
      plain.opset = opset == steps[i].opsets->end() ? 0 : opset->second;
      plain.inputs.assign(node.input().begin(), node.input().end());
      plain.outputs.assign(node.output().begin(), node.output().end());
      Outside& outside = outsides[i - first];
      for (const AttributeProto& attr : node.attribute()) plain.attrs.push_back(AttrOf(attr));
      plain.captured = std::move(outside.names);
      plain.subgraph_bytes = outside.bytes;
      plain.subgraph_nodes = outside.nodes;
      for (std::size_t k = 1; k < plain.outputs.size(); ++k) {
        if (!read_.contains(plain.outputs[k])) plain.outputs[k].clear();
      }
      while (plain.outputs.size() > 1 && plain.outputs.back().empty()) plain.outputs.pop_back();
      for (const std::string& output : plain.outputs) {
        if (output.empty()) continue;
        if (initializers_.contains(output) || inputs_.contains(output) || !writers_.emplace(output, i).second) {
          RefuseModel(
              fmt::format("{}: its output \"{}\" is written elsewhere too (each name once)", Place(plain, i), output));
        }
      }
      nodes_.push_back(std::move(plain));
    }
    if (first == 0) num_own_ = nodes_.size();
    parts_.resize(nodes_.size());
  }

  static std::string Place(const OnnxNode& node, std::size_t position) {
    return fmt::format("node {} ({} \"{}\")", position, node.op, node.name);
  }

  // The nodes from `first` on, every one after those whose outputs it reads. Nodes on cycles are left out.
  std::vector<std::size_t> Order(std::size_t first) const {
    std::vector<std::size_t> waits(nodes_.size() - first);
    std::vector<std::vector<std::size_t>> readers(nodes_.size() - first);
    for (std::size_t i = first; i < nodes_.size(); ++i) {
      const OnnxNode& node = nodes_[i];
      for (const auto* const names : {&node.inputs, &node.captured}) {
        for (const std::string& name : *names) {
          if (name.empty()) continue;
          const auto writer = writers_.find(name);
          if (writer != writers_.end()) {
            if (writer->second < first) continue;
            readers[writer->second - first].push_back(i);
            ++waits[i - first];
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
      if (waits[i] == 0) order.push_back(i + first);
    }
    for (std::size_t next = 0; next < order.size(); ++next) {
      for (const std::size_t reader : readers[order[next] - first]) {
        if (--waits[reader - first] == 0) order.push_back(reader);
      }
    }
    return order;
  }

  void InferNode(std::size_t i) {
    if (InlineSequence(i) || InlineSubgraph(i)) return;
    Infer(expander_.steps()[i], &nodes_[i]);
  }

  void Infer(Step& step, OnnxNode* plain) {
    std::vector<TypeProto> inferred(static_cast<std::size_t>(step.node.output_size()));
    try {
      inferred = TypesFrom(step, *plain);
    } catch (const std::exception& error) {
      plain->failure = error.what();
    }
    std::vector<OnnxType> types;
    for (std::size_t i = 0; i < plain->outputs.size(); ++i) {
      const std::string& name = plain->outputs[i];
      TypeProto type = inferred[i];
      const auto stated = name.empty() ? stated_.end() : stated_.find(name);
      if (stated != stated_.end()) {
        if (!is_resized_) NoteContradiction(name, type, stated->second);
        type = Merged(type, stated->second);
      }
      Substitute(&type);
      types.push_back(TypeOf(type));
      if (!name.empty()) types_[name] = Keep(std::move(type));
    }
    // What follows from content has no other shape.
    const auto contents = EvaluateOnnx(*plain, OperandsOf(*plain), types);
    for (std::size_t i = 0; i < contents.size() && i < plain->outputs.size(); ++i) {
      const std::string& name = plain->outputs[i];
      if (!contents[i] || name.empty() || !AgreesWith(types[i], *contents[i])) continue;
      types_[name] = Keep(ProtoOf(contents[i]->element, contents[i]->dims));
      SetContent(name, *contents[i]);
      plain->failure.clear();
    }
    if (step.node.op_type() == "Constant" && plain->domain.empty()) return AddConstant(step.node);
    if (!contents.empty() || !plain->failure.empty()) return;
    try {
      Propagate(step, *plain);
    } catch (const std::exception&) {
      // What the value is stays unknown.
    }
  }
  void NoteContradiction(const std::string& name, const TypeProto& inferred, const TypeProto& stated) {
    const OnnxType own = TypeOf(inferred);
    const OnnxType other = TypeOf(stated);
    if (!own.dims || !other.dims) return;
    if (other.dims->empty()) return;  // written where an exporter does not know
    const auto differs = [](std::int64_t a, std::int64_t b) { return a >= 0 && b >= 0 && a != b; };
    const bool has_rank = own.dims->size() == other.dims->size();
    if (has_rank && std::equal(own.dims->begin(), own.dims->end(), other.dims->begin(), std::not_fn(differs))) return;
    if (model_.contradictions++ > 0) return;
    model_.first_contradiction = fmt::format("\"{}\": {}, not {}", name, Shown(*own.dims), Shown(*other.dims));
  }
  // "[2,?,3]", cut where it is long.
  static std::string Shown(const std::vector<std::int64_t>& dims) {
    constexpr std::size_t kMost = 8;
    std::string text;
    for (std::size_t i = 0; i < std::min(dims.size(), kMost); ++i) {
      text += (i == 0 ? "" : ",") + (dims[i] < 0 ? "?" : std::to_string(dims[i]));
    }
    return fmt::format("[{}{}]", text, dims.size() > kMost ? ",.." : "");
  }

  static bool AgreesWith(const OnnxType& type, const OnnxContent& content) {
    if (type.element != kOnnxUnknown && type.element != content.element) return false;
    return !type.HasShape() || *type.dims == content.dims;
  }

  // What is known of the inputs; valid until the next node is inferred.
  const OnnxOperands& OperandsOf(const OnnxNode& node) {
    operand_types_.clear();
    operands_ = {};
    for (const std::string& name : node.inputs) {
      const auto type = name.empty() ? types_.end() : types_.find(name);
      operands_.types.push_back(type == types_.end() ? nullptr : &operand_types_.emplace_back(TypeOf(*type->second)));
      const auto content = name.empty() ? known_content_.end() : known_content_.find(name);
      operands_.contents.push_back(content == known_content_.end() ? nullptr : content->second);
    }
    return operands_;
  }

  // The types of the outputs: by the rules here where they are newer, else as libonnx infers them, else by the rules.
  std::vector<TypeProto> TypesFrom(Step& step, const OnnxNode& plain) {
    if (plain.op == "Scan" && plain.domain.empty()) return TypesOfScan(step.node, plain);
    if (plain.op == "If" || plain.op == "Loop") return TypesOfBodies(step.node);
    if (PrefersOnnxRule(plain)) return TypesByRule(step.node, plain);
    std::vector<TypeProto> types;
    std::string failure;
    try {
      types = TypesFromLibrary(step, plain);
      const bool is_whole = std::all_of(types.begin(), types.end(), [](const TypeProto& type) {
        return type.value_case() != TypeProto::kTensorType || TypeOf(type).IsWhole();
      });
      if (is_whole && !types.empty() && types[0].value_case() != TypeProto::VALUE_NOT_SET) return types;
    } catch (const std::exception& error) {
      failure = error.what();
    }
    std::vector<TypeProto> ruled;
    try {
      ruled = TypesByRule(step.node, plain);
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

  // Empty if there is no rule.
  std::vector<TypeProto> TypesByRule(const NodeProto& node, const OnnxNode& plain) {
    std::vector<TypeProto> types;
    const auto ruled = OnnxTypesByRule(plain, OperandsOf(plain));
    if (!ruled) return types;
    for (const OnnxType& type : *ruled) types.push_back(ProtoOf(type));
    types.resize(std::max(types.size(), static_cast<std::size_t>(node.output_size())));
    return types;
  }

  std::vector<TypeProto> TypesFromLibrary(Step& step, const OnnxNode& plain) {
    if (plain.subgraph_nodes > 0) throw std::runtime_error("its subgraphs say nothing of its outputs");
    NodeProto node = step.node;
    CheckAttrs(&node);
    std::vector<TypeProto> outputs(static_cast<std::size_t>(node.output_size()));
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
      if (shape.dims && shape.dims->size() == 1 && (*shape.dims)[0] > static_cast<std::int64_t>(kMostKnownIntegers)) {
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

  // The branches of If say the types of their outputs. Those of a loop depend on how often it runs.
  static std::vector<TypeProto> TypesOfBodies(const NodeProto& node) {
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

  // A scan that stays: what it carries on keeps its shape, and its body says what each iteration writes. Before opset 9
  // the first input was lengths, and the first dimension of all others a batch.
  std::vector<TypeProto> TypesOfScan(const NodeProto& node, const OnnxNode& plain) const {
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
    for (int k = 0; k < states; ++k) outputs[static_cast<std::size_t>(k)] = WholeInput(node.input(first + k));
    const std::vector<std::int64_t> input = *TypeOf(WholeInput(node.input(first + states))).dims;
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

  const TypeProto& WholeInput(const std::string& name) const {
    const auto found = types_.find(name);
    if (found == types_.end() || !TypeOf(*found->second).IsWhole()) throw std::runtime_error("its input has no shape");
    return *found->second;
  }

  // Values that libonnx knows without running anything, where the evaluation here knows nothing.
  void Propagate(Step& step, const OnnxNode& plain) {
    NodeProto& node = step.node;
    if (node.output_size() == 0 || node.output(0).empty()) return;
    const onnx::OpSchema* const schema =
        onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(plain.opset), plain.domain);
    if (schema == nullptr || !schema->has_data_propagation_function()) return;
    CheckAttrs(&node);
    Verify(*schema, &node);
    onnx::shape_inference::DataPropagationContextImpl context(node, types_, content_, known_);
    schema->GetDataPropagationFunction()(context);
    const auto found = known_.find(node.output(0));
    if (found == known_.end()) return;
    if (static_cast<std::size_t>(found->second.dim_size()) > kMostKnownIntegers) {
      known_.erase(found);
      return;
    }
    OnnxContent content{.element = kOnnxInt64, .dims = {}, .integers = {}, .numbers = {}};
    for (const auto& dim : found->second.dim()) {
      if (!dim.has_dim_value()) return;
      content.integers.push_back(dim.dim_value());
    }
    const OnnxType type = TypeOf(*types_.at(node.output(0)));
    if (!type.IsWhole() || type.element != kOnnxInt64 || type.dims->size() > 1) return;
    const std::int64_t count = type.dims->empty() ? 1 : type.dims->front();
    if (count != static_cast<std::int64_t>(content.size())) return;
    content.dims = *type.dims;
    SetContent(node.output(0), std::move(content));
  }

  void AddConstant(const NodeProto& node) {
    for (const AttributeProto& attr : node.attribute()) {
      OnnxContent content;
      if (attr.name() == "value" && attr.has_t()) {
        auto stored = OnnxContentOf(attr.t());
        if (!stored) continue;
        content = std::move(*stored);
      } else if (attr.name() == "value_int" && attr.has_i()) {
        content = {.element = kOnnxInt64, .dims = {}, .integers = {attr.i()}, .numbers = {}};
      } else if (attr.name() == "value_ints" && attr.ints_size() <= static_cast<int>(kMostKnownIntegers)) {
        content = {.element = kOnnxInt64,
                   .dims = {attr.ints_size()},
                   .integers = {attr.ints().begin(), attr.ints().end()},
                   .numbers = {}};
      } else if (attr.name() == "value_float" && attr.has_f()) {
        content = {.element = kOnnxFloat, .dims = {}, .integers = {}, .numbers = {static_cast<double>(attr.f())}};
      } else if (attr.name() == "value_floats" && attr.floats_size() <= static_cast<int>(kMostKnownNumbers)) {
        content = {.element = kOnnxFloat,
                   .dims = {attr.floats_size()},
                   .integers = {},
                   .numbers = {attr.floats().begin(), attr.floats().end()}};
      } else {
        continue;
      }
      SetContent(node.output(0), std::move(content));
    }
  }

  // ---- Subgraphs: what runs takes the place of the node.

  static const GraphProto* GraphOf(const NodeProto& node, std::string_view name) {
    for (const AttributeProto& attr : node.attribute()) {
      if (attr.name() == name && attr.has_g()) return &attr.g();
    }
    return nullptr;
  }
  static std::size_t NodesIn(const GraphProto& graph) {
    Outside outside;
    LookInto(graph, {}, 0, &outside);
    return outside.nodes;
  }
  // The only element of a value that is known.
  std::optional<std::int64_t> KnownInteger(const std::string& name) const {
    const auto found = known_content_.find(name);
    if (found == known_content_.end() || found->second->is_number() || found->second->size() != 1) return std::nullopt;
    return found->second->integers[0];
  }
  static std::string Shown(const NodeProto& node) {
    for (const std::string& output : node.output()) {
      if (node.name().empty() && !output.empty()) return fmt::format("{} \"{}\"", node.op_type(), output);
    }
    return fmt::format("{} \"{}\"", node.op_type(), node.name());
  }

  bool InlineSubgraph(std::size_t i) {
    const OnnxNode& plain = nodes_[i];
    if (plain.subgraph_nodes == 0 && plain.op != "If" && plain.op != "Loop" && plain.op != "Scan") return false;
    if (!plain.domain.empty() || expander_.steps()[i].depth >= kDeepestCall) return false;
    if (plain.op == "If") return InlineIf(i);
    if (plain.op == "Loop") return InlineLoop(i);
    if (plain.op == "Scan") return InlineScan(i);
    return false;
  }

  // The node's outputs, "" where nobody reads them.
  std::vector<std::string> TargetsOf(std::size_t i) {
    std::vector<std::string> targets;
    for (const std::string& output : expander_.steps()[i].node.output()) {
      targets.push_back(read_.contains(output) ? output : "");
    }
    return targets;
  }

  void Guess(std::size_t i, std::string what) {
    guessed_.insert(i);
    model_.guesses.push_back(std::move(what));
  }

  bool InlineIf(std::size_t i) {
    const NodeProto& node = expander_.steps()[i].node;
    const GraphProto* const then_branch = GraphOf(node, "then_branch");
    const GraphProto* const else_branch = GraphOf(node, "else_branch");
    if (then_branch == nullptr || else_branch == nullptr || node.input_size() != 1) return false;
    if (node.output_size() != then_branch->output_size() || node.output_size() != else_branch->output_size()) {
      return false;
    }
    const auto condition = KnownInteger(node.input(0));
    // Which one runs is not known: the one that does more.
    const bool takes_then = condition ? *condition != 0 : NodesIn(*then_branch) >= NodesIn(*else_branch);
    if (!condition) Guess(i, fmt::format("{}: {}", Shown(node), takes_then ? "then" : "else"));
    Release(i);
    const std::string prefix = expander_.Prefix(node);
    Inline(i, takes_then ? *then_branch : *else_branch, prefix, prefix, {}, TargetsOf(i));
    return true;
  }

  // The node no longer writes its outputs: what takes its place does.
  void Release(std::size_t i) {
    for (const std::string& output : nodes_[i].outputs) writers_.erase(output);
    is_replaced_.insert(i);
  }

  // Adds the nodes of a subgraph in place of node i. `inputs`: the values that its inputs are; `targets`: the names
  // that its outputs get, "" for none. `stored`: the prefix of its initializers.
  void Inline(std::size_t i, const GraphProto& graph, const std::string& prefix, const std::string& stored,
              const std::vector<std::string>& inputs, const std::vector<std::string>& targets) {
    unrolled_bytes_ += graph.ByteSizeLong();
    Expander::Names names = {{"", ""}};
    Outside outside;
    LookInto(graph, {}, 0, &outside);
    for (const std::string& name : outside.names) names[name] = name;
    for (int k = 0; k < graph.input_size() && k < static_cast<int>(inputs.size()); ++k) {
      names[graph.input(k).name()] = inputs[static_cast<std::size_t>(k)];
    }
    for (const TensorProto& tensor : graph.initializer()) names[tensor.name()] = stored + tensor.name();
    for (const auto& tensor : graph.sparse_initializer())
      names[tensor.values().name()] = stored + tensor.values().name();
    std::unordered_set<std::string> written;
    for (const NodeProto& node : graph.node()) written.insert(node.output().begin(), node.output().end());
    std::vector<std::pair<std::string, std::string>> copies;
    for (int k = 0; k < graph.output_size() && k < static_cast<int>(targets.size()); ++k) {
      const std::string& target = targets[static_cast<std::size_t>(k)];
      const std::string& name = graph.output(k).name();
      if (target.empty()) continue;
      if (written.contains(name) && names.try_emplace(name, target).second) continue;
      copies.emplace_back(name, target);
    }
    AddInitializers(graph, &names);
    const Opsets& opsets = *expander_.steps()[i].opsets;
    const int depth = expander_.steps()[i].depth + 1;
    for (const NodeProto& inner : graph.node()) {
      NodeProto body = inner;
      Expander::Rename(prefix, &names, &body);
      body.set_name(prefix + (inner.name().empty() ? inner.op_type() : inner.name()));
      expander_.Add(std::move(body), opsets, depth);
    }
    for (const auto& [name, target] : copies) {
      AddGlue("Identity", {Expander::Renamed(prefix, name, &names)}, {target}, {}, prefix, depth);
    }
    for (const auto& value : graph.output()) AddStated(value, Expander::Renamed(prefix, value.name(), &names));
    for (const auto& value : graph.value_info()) AddStated(value, Expander::Renamed(prefix, value.name(), &names));
    for (const std::string& target : targets) read_.insert(target);
    InferAdded(i);
  }

  // The nodes that the expander has beyond those that are known take the place of node i.
  void InferAdded(std::size_t i) {
    const std::size_t first = nodes_.size();
    AddNodes();
    for (std::size_t k = first; k < nodes_.size(); ++k) parts_[i].push_back(k);
    for (const std::size_t k : Order(first)) InferNode(k);
  }

  // A node of our own, of opset 11.
  void AddGlue(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
               const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& attrs, const std::string& prefix,
               int depth) {
    static const auto* const opsets = new Opsets{{"", 11}};
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
    for (const std::string& output : outputs) read_.insert(output);
    expander_.Add(std::move(node), *opsets, depth);
  }

  // What iterations write to one output, behind each other along `axis`.
  void AddStack(const std::vector<std::string>& parts, std::int64_t axis, bool is_new_axis, const std::string& output,
                const std::string& prefix, int depth) {
    std::vector<std::string> joined;
    for (const std::string& part : parts) {
      joined.push_back(part);
      if (!is_new_axis) continue;
      joined.back() = fmt::format("{}{}/unsqueeze{}", prefix, output, joined.size());
      AddGlue("Unsqueeze", {part}, {joined.back()}, {{"axes", {axis}}}, "", depth);
    }
    AddGlue("Concat", joined, {output}, {{"axis", {axis}}}, prefix, depth);
  }

  std::size_t NodesLeft() {
    const std::size_t added = expander_.steps().size() - num_own_;
    return unrolled_bytes_ >= kMostUnrolledBytes ? 0 : kMostUnrolled - std::min(kMostUnrolled, added);
  }

  // Forgets the iterations of a loop whose end turns out not to be known.
  bool GiveUp(std::size_t i, std::size_t guesses) {
    parts_[i].clear();
    is_replaced_.erase(i);
    for (const std::string& output : nodes_[i].outputs) {
      if (!output.empty()) writers_[output] = i;
    }
    model_.guesses.resize(guesses);
    return false;
  }

  // The shapes that an iteration does not change are those of the loop's outputs, however often it runs.
  void StateLoop(const NodeProto& node, const std::vector<std::string>& carried,
                 const std::vector<std::vector<std::string>>& scanned) {
    const auto type_of = [&](const std::string& name) {
      const auto found = types_.find(name);
      return found == types_.end() ? TypeProto() : *found->second;
    };
    for (std::size_t k = 0; k < static_cast<std::size_t>(node.output_size()); ++k) {
      const bool is_state = k < carried.size();
      if (!is_state && scanned[k - carried.size()].empty()) continue;
      TypeProto type = type_of(is_state ? carried[k] : scanned[k - carried.size()].front());
      const OnnxType plain = TypeOf(type);
      if (!plain.IsWhole()) continue;
      if (is_state && TypeOf(type_of(node.input(static_cast<int>(k) + 2))).dims != plain.dims) continue;
      if (!is_state) {
        std::vector<std::int64_t> dims = {OnnxType::kFree};
        dims.insert(dims.end(), plain.dims->begin(), plain.dims->end());
        type = ProtoOf(plain.element, dims);
      }
      const auto [found, is_new] = stated_.try_emplace(node.output(static_cast<int>(k)), type);
      if (!is_new) found->second = Merged(found->second, type);
    }
  }

  // A loop whose number of iterations is known, or whose condition is, from one iteration to the next. Where only the
  // condition is not known, it is taken to run to its last iteration.
  bool InlineLoop(std::size_t i) {
    const NodeProto node = expander_.steps()[i].node;
    const GraphProto* const body = GraphOf(node, "body");
    if (body == nullptr || node.input_size() < 2) return false;
    const auto states = static_cast<std::size_t>(node.input_size()) - 2;
    if (body->input_size() != static_cast<int>(states) + 2 || body->output_size() < static_cast<int>(states) + 1 ||
        node.output_size() != body->output_size() - 1) {
      return false;
    }
    const bool is_endless = node.input(0).empty();
    const auto trips = is_endless ? std::nullopt : KnownInteger(node.input(0));
    const auto most = static_cast<std::int64_t>(NodesLeft() / std::max<std::size_t>(NodesIn(*body), 1));
    const std::size_t guesses = model_.guesses.size();
    const std::string prefix = expander_.Prefix(node);
    const int depth = expander_.steps()[i].depth + 1;
    std::string condition = node.input(1);
    if (condition.empty()) AddScalar(condition = prefix + "condition", kOnnxBool, 1);
    std::vector<std::string> carried(node.input().begin() + 2, node.input().end());
    const auto scans = static_cast<std::size_t>(node.output_size()) - states;
    std::vector<std::vector<std::string>> scanned(scans);
    Release(i);
    std::int64_t trip = 0;
    const auto iterate = [&] {
      const std::string turn = fmt::format("{}{}/", prefix, trip);
      std::vector<std::string> inputs = {turn + "i", condition};
      AddScalar(inputs[0], kOnnxInt64, trip);
      inputs.insert(inputs.end(), carried.begin(), carried.end());
      std::vector<std::string> targets = {turn + "condition"};
      for (std::size_t k = 0; k < states; ++k) targets.push_back(fmt::format("{}state{}", turn, k));
      for (std::size_t k = 0; k < scans; ++k) {
        targets.push_back(fmt::format("{}scan{}", turn, k));
        scanned[k].push_back(targets.back());
      }
      Inline(i, *body, turn, prefix, inputs, targets);
      condition = targets[0];
      carried.assign(targets.begin() + 1, targets.begin() + 1 + static_cast<std::ptrdiff_t>(states));
      ++trip;
    };
    bool is_guess = false;
    while (!trips || trip < *trips) {
      const auto goes_on = KnownInteger(condition);
      if (goes_on && *goes_on == 0) break;
      // A count beyond all bounds is that of a loop that ends by its condition.
      const bool has_end = goes_on ? is_endless || trips : trips && *trips <= most;
      if (!has_end || trip >= most || NodesLeft() == 0) {
        if (trip == 0 && most > 0) iterate();
        StateLoop(node, carried, scanned);
        return GiveUp(i, guesses);
      }
      is_guess = is_guess || !goes_on;
      iterate();
    }
    const std::vector<std::string> outputs = TargetsOf(i);
    for (std::size_t k = 0; k < scans; ++k) {
      // What no iteration wrote has no shape.
      if (trip == 0 && !outputs[states + k].empty()) return GiveUp(i, guesses);
    }
    for (std::size_t k = 0; k < states; ++k) {
      if (!outputs[k].empty()) AddGlue("Identity", {carried[k]}, {outputs[k]}, {}, prefix, depth);
    }
    for (std::size_t k = 0; k < scans; ++k) {
      if (!outputs[states + k].empty()) AddStack(scanned[k], 0, true, outputs[states + k], prefix, depth);
    }
    if (is_guess) Guess(i, fmt::format("{}: {} iterations", Shown(node), trip));
    InferAdded(i);
    return true;
  }

  // Scan since opset 9: as many iterations as its inputs are long.
  bool InlineScan(std::size_t i) {
    const NodeProto node = expander_.steps()[i].node;
    const OnnxNode& plain = nodes_[i];
    const GraphProto* const body = GraphOf(node, "body");
    constexpr std::int64_t kWithoutBatch = 9;
    const std::int64_t count = plain.Integer("num_scan_inputs", 0);
    if (body == nullptr || plain.opset < kWithoutBatch || count < 1 || count > node.input_size()) return false;
    const auto states = static_cast<std::size_t>(node.input_size() - count);
    if (body->input_size() != node.input_size() || body->output_size() != node.output_size() ||
        body->output_size() < static_cast<int>(states)) {
      return false;
    }
    const auto attr = [&](const char* name, std::size_t k) {
      const std::vector<std::int64_t> values = plain.Integers(name);
      return k < values.size() ? values[k] : 0;
    };
    std::vector<std::int64_t> axes;
    std::int64_t length = -1;
    for (std::size_t k = 0; k < static_cast<std::size_t>(count); ++k) {
      const auto type = types_.find(node.input(static_cast<int>(states + k)));
      if (type == types_.end() || !TypeOf(*type->second).HasShape()) return false;
      const std::vector<std::int64_t> dims = *TypeOf(*type->second).dims;
      std::int64_t axis = attr("scan_input_axes", k);
      if (axis < 0) axis += static_cast<std::int64_t>(dims.size());
      if (axis < 0 || axis >= static_cast<std::int64_t>(dims.size())) return false;
      if (length >= 0 && dims[static_cast<std::size_t>(axis)] != length) return false;
      length = dims[static_cast<std::size_t>(axis)];
      axes.push_back(axis);
    }
    const std::size_t turn_nodes = NodesIn(*body) + static_cast<std::size_t>(count);
    if (length < 1 || static_cast<std::size_t>(length) > NodesLeft() / turn_nodes) return false;
    const std::size_t guesses = model_.guesses.size();
    const std::string prefix = expander_.Prefix(node);
    const int depth = expander_.steps()[i].depth + 1;
    std::vector<std::string> carried(node.input().begin(), node.input().begin() + static_cast<int>(states));
    const auto scans = static_cast<std::size_t>(node.output_size()) - states;
    std::vector<std::vector<std::string>> scanned(scans);
    Release(i);
    for (std::int64_t trip = 0; trip < length; ++trip) {
      if (NodesLeft() == 0) return GiveUp(i, guesses);
      const std::string turn = fmt::format("{}{}/", prefix, trip);
      std::vector<std::string> inputs = carried;
      for (std::size_t k = 0; k < static_cast<std::size_t>(count); ++k) {
        const std::string index = fmt::format("{}i{}", turn, k);
        AddScalar(index, kOnnxInt64, attr("scan_input_directions", k) != 0 ? length - 1 - trip : trip);
        inputs.push_back(fmt::format("{}in{}", turn, k));
        AddGlue("Gather", {node.input(static_cast<int>(states + k)), index}, {inputs.back()}, {{"axis", {axes[k]}}}, "",
                depth);
      }
      InferAdded(i);
      std::vector<std::string> targets;
      for (std::size_t k = 0; k < states; ++k) targets.push_back(fmt::format("{}state{}", turn, k));
      for (std::size_t k = 0; k < scans; ++k) {
        targets.push_back(fmt::format("{}scan{}", turn, k));
        scanned[k].push_back(targets.back());
      }
      Inline(i, *body, turn, prefix, inputs, targets);
      carried.assign(targets.begin(), targets.begin() + static_cast<std::ptrdiff_t>(states));
    }
    const std::vector<std::string> outputs = TargetsOf(i);
    for (std::size_t k = 0; k < states; ++k) {
      if (!outputs[k].empty()) AddGlue("Identity", {carried[k]}, {outputs[k]}, {}, prefix, depth);
    }
    for (std::size_t k = 0; k < scans; ++k) {
      if (outputs[states + k].empty()) continue;
      if (attr("scan_output_directions", k) != 0) std::reverse(scanned[k].begin(), scanned[k].end());
      AddStack(scanned[k], attr("scan_output_axes", k), true, outputs[states + k], prefix, depth);
    }
    InferAdded(i);
    return true;
  }

  // ---- Sequences and optional values: a list of tensors that is known is none of the graph's values.

  const std::vector<std::string>* SequenceOf(const std::string& name) const {
    const auto found = sequences_.find(name);
    return found == sequences_.end() ? nullptr : &found->second;
  }

  // Whether node i is gone: it makes a list whose tensors are known, or takes one from such a list.
  bool InlineSequence(std::size_t i) {
    const OnnxNode& plain = nodes_[i];
    if (!plain.domain.empty() || plain.outputs.empty() || plain.outputs[0].empty()) return false;
    const std::string output = plain.outputs[0];
    const auto* const list = plain.inputs.empty() ? nullptr : SequenceOf(plain.inputs[0]);
    const auto made = [&](std::vector<std::string> tensors) {
      Release(i);
      writers_[output] = i;  // for the order of what reads it
      types_[output] = Keep(TypeProto());
      sequences_[output] = std::move(tensors);
      return true;
    };
    if (plain.op == "SequenceEmpty") return made({});
    if (plain.op == "SequenceConstruct") return made(plain.inputs);
    if (plain.op == "SplitToSequence") return SplitToSequence(i, made);
    if (plain.op == "OptionalHasElement" && !plain.inputs.empty()) {
      const auto type = types_.find(plain.inputs[0]);
      if (list == nullptr && (type == types_.end() || type->second->value_case() != TypeProto::kTensorType))
        return false;
      types_[output] = Keep(ProtoOf(kOnnxBool, {}));
      SetContent(output, {.element = kOnnxBool, .dims = {}, .integers = {1}, .numbers = {}});
      return true;
    }
    if (list == nullptr) return false;
    if (plain.op == "Identity" || plain.op == "Optional" || plain.op == "OptionalGetElement") return made(*list);
    if (plain.op == "SequenceLength") {
      types_[output] = Keep(ProtoOf(kOnnxInt64, {}));
      SetContent(
          output,
          {.element = kOnnxInt64, .dims = {}, .integers = {static_cast<std::int64_t>(list->size())}, .numbers = {}});
      return true;
    }
    const auto size = static_cast<std::int64_t>(list->size());
    const std::size_t place = plain.op == "SequenceInsert" ? 2 : 1;
    const bool is_last = place >= plain.inputs.size() || plain.inputs[place].empty();
    const auto given =
        is_last ? std::optional(plain.op == "SequenceInsert" ? size : size - 1) : KnownInteger(plain.inputs[place]);
    const std::int64_t at = given && *given < 0 ? *given + size : given.value_or(-1);
    std::vector<std::string> tensors = *list;
    if (plain.op == "SequenceInsert" && plain.inputs.size() >= 2 && at >= 0 && at <= size) {
      tensors.insert(tensors.begin() + at, plain.inputs[1]);
      return made(std::move(tensors));
    }
    if (plain.op == "SequenceErase" && at >= 0 && at < size) {
      tensors.erase(tensors.begin() + at);
      return made(std::move(tensors));
    }
    const std::string prefix = plain.name.empty() ? output : plain.name;
    const int depth = expander_.steps()[i].depth;
    if (plain.op == "SequenceAt" && at >= 0 && at < size) {
      Release(i);
      AddGlue("Identity", {tensors[static_cast<std::size_t>(at)]}, {output}, {}, "", depth);
      InferAdded(i);
      return true;
    }
    if (plain.op == "ConcatFromSequence" && size > 0) {
      const std::int64_t axis = plain.Integer("axis", 0);
      const bool is_new = plain.Integer("new_axis", 0) != 0;
      Release(i);
      AddStack(tensors, axis, is_new, output, prefix + "/", depth);
      InferAdded(i);
      return true;
    }
    return false;
  }

  template <typename Made>
  bool SplitToSequence(std::size_t i, const Made& made) {
    const OnnxNode plain = nodes_[i];
    const auto type = types_.find(plain.inputs.empty() ? "" : plain.inputs[0]);
    if (type == types_.end() || !TypeOf(*type->second).HasShape()) return false;
    const std::vector<std::int64_t> dims = *TypeOf(*type->second).dims;
    const auto rank = static_cast<std::int64_t>(dims.size());
    std::int64_t axis = plain.Integer("axis", 0);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return false;
    const std::int64_t length = dims[static_cast<std::size_t>(axis)];
    std::vector<std::int64_t> sizes;
    const bool is_split = plain.inputs.size() > 1 && !plain.inputs[1].empty();
    if (is_split) {
      const auto split = known_content_.find(plain.inputs[1]);
      if (split == known_content_.end() || split->second->is_number()) return false;
      sizes = split->second->integers;
      if (split->second->dims.empty() && sizes.size() == 1) {
        const std::int64_t piece = sizes[0];
        sizes.clear();
        if (piece < 1 || length / piece > static_cast<std::int64_t>(kMostKnownIntegers)) return false;
        for (std::int64_t begin = 0; begin < length; begin += piece) sizes.push_back(std::min(piece, length - begin));
      }
    } else {
      if (length > static_cast<std::int64_t>(kMostKnownIntegers)) return false;
      sizes.assign(static_cast<std::size_t>(length), 1);
    }
    if (sizes.empty()) return false;
    const std::string prefix = expander_.Prefix(expander_.steps()[i].node);
    const int depth = expander_.steps()[i].depth;
    std::vector<std::string> pieces;
    for (std::size_t k = 0; k < sizes.size(); ++k) pieces.push_back(fmt::format("{}{}", prefix, k));
    AddGlue("Split", {plain.inputs[0]}, pieces, {{"axis", {axis}}, {"split", sizes}}, "", depth);
    if (!is_split && plain.Integer("keepdims", 1) == 0) {
      for (std::string& piece : pieces) {
        AddGlue("Squeeze", {piece}, {piece + "/squeeze"}, {{"axes", {axis}}}, "", depth);
        piece += "/squeeze";
      }
    }
    InferAdded(i);
    return made(std::move(pieces));
  }

  // Node i, or what takes its place, in the order of the file.
  void Emit(std::size_t i, bool is_guess) {
    if (is_replaced_.contains(i)) {
      for (const std::size_t part : parts_[i]) Emit(part, is_guess || guessed_.contains(i));
      return;
    }
    nodes_[i].is_guess = is_guess;
    // Who reads a list reads its tensors.
    for (auto* const names : {&nodes_[i].inputs, &nodes_[i].captured}) {
      std::vector<std::string> tensors;
      for (std::string& name : *names) {
        const auto* const list = SequenceOf(name);
        if (list == nullptr) {
          tensors.push_back(std::move(name));
        } else {
          tensors.insert(tensors.end(), list->begin(), list->end());
        }
      }
      *names = std::move(tensors);
    }
    model_.nodes.push_back(std::move(nodes_[i]));
  }

  const onnx::ModelProto& proto_;
  const GraphProto& graph_;
  Expander expander_;
  Opsets opsets_;
  OnnxModel model_;
  std::deque<OnnxNode> nodes_;                   // one for each step of the expander
  std::vector<std::vector<std::size_t>> parts_;  // of a node that is replaced: the nodes in its place
  std::unordered_set<std::size_t> is_replaced_;
  std::unordered_set<std::size_t> guessed_;  // nodes that are replaced, though it is not known by what
  std::size_t num_own_ = 0;                  // nodes of the file itself, which come first
  std::size_t unrolled_bytes_ = 0;
  std::unordered_map<std::string, std::vector<std::string>> sequences_;  // the tensors of a list
  std::unordered_set<std::string> initializers_;
  std::unordered_set<std::string> inputs_;
  bool is_resized_ = false;                               // the user set sizes of inputs, so those stated are others
  std::unordered_set<std::string> read_;                  // values that something reads
  std::unordered_map<std::string, std::size_t> writers_;  // of a value: the node
  std::unordered_map<std::string, std::int64_t> symbols_;
  std::unordered_map<std::string, TypeProto> stated_;
  // As libonnx wants them.
  std::deque<TypeProto> kept_types_;
  std::deque<TensorProto> kept_tensors_;
  std::unordered_map<std::string, TypeProto*> types_;
  std::unordered_map<std::string, const TensorProto*> content_;
  std::unordered_map<std::string, const onnx::SparseTensorProto*> sparse_;
  std::unordered_map<std::string, onnx::TensorShapeProto> known_;
  // As the rules here want them.
  std::deque<OnnxContent> kept_content_;
  std::unordered_map<std::string, const OnnxContent*> known_content_;
  std::deque<OnnxType> operand_types_;
  OnnxOperands operands_;
};

// A message of protobuf's text format.
class TextErrors : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (first_.empty()) first_ = fmt::format("line {}, column {}: {}", line + 1, column + 1, message);
  }
  const std::string& first() const { return first_; }

 private:
  std::string first_;
};

// The messages of onnx.proto with the default attributes of functions, which libonnx 1.12 does not have.
const google::protobuf::FileDescriptor* NewerMessages(google::protobuf::DescriptorPool* pool) {
  constexpr int kAttributeProtos = 11;
  google::protobuf::FileDescriptorProto file;
  onnx::ModelProto::descriptor()->file()->CopyTo(&file);
  const std::string name = onnx::FunctionProto::descriptor()->name();
  for (auto& message : *file.mutable_message_type()) {
    if (message.name() != name || onnx::FunctionProto::descriptor()->FindFieldByNumber(kAttributeProtos) != nullptr) {
      continue;
    }
    auto* const field = message.add_field();
    field->set_name("attribute_proto");
    field->set_number(kAttributeProtos);
    field->set_label(google::protobuf::FieldDescriptorProto::LABEL_REPEATED);
    field->set_type(google::protobuf::FieldDescriptorProto::TYPE_MESSAGE);
    field->set_type_name("." + onnx::AttributeProto::descriptor()->full_name());
  }
  return pool->BuildFile(file);
}

void ParseText(const std::string& text, onnx::ModelProto* proto) {
  google::protobuf::DescriptorPool pool;
  const auto* const file = NewerMessages(&pool);
  if (file == nullptr) throw std::runtime_error("its messages do not fit those that are expected");
  google::protobuf::DynamicMessageFactory messages;
  const auto* const model = file->FindMessageTypeByName(onnx::ModelProto::descriptor()->name());
  const std::unique_ptr<google::protobuf::Message> read(messages.GetPrototype(model)->New());
  TextErrors errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.AllowUnknownField(true);
  constexpr int kDeepestText = 100;
  parser.SetRecursionLimit(kDeepestText);
  if (!parser.ParseFromString(text, read.get())) {
    RefuseModel(fmt::format("is no ONNX model in protobuf's text format ({})", errors.first()));
  }
  if (!proto->ParseFromString(read->SerializeAsString())) throw std::runtime_error("its messages are too long");
}

OnnxParsed ParseOnnx(const std::string& bytes, bool is_text, const std::vector<InputShape>& inputs,
                     const std::string& folder) {
  OnnxParsed parsed;
  try {
    onnx::ModelProto proto;
    if (is_text) {
      ParseText(bytes, &proto);
    } else if (!proto.ParseFromString(bytes)) {
      RefuseModel("is damaged or no ONNX model (a ModelProto expected)");
    }
    if (!proto.has_graph() || proto.graph().node_size() == 0) RefuseModel("holds no graph with nodes");
    UnreadOnnxFiles unread = ReadSmallOnnxFiles(folder, &proto);
    parsed.model = Inference(proto).Run(inputs);
    parsed.model.unread = unread.tensors;
    parsed.model.unread_file = std::move(unread.file);
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
