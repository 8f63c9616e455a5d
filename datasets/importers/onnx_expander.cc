#include "datasets/importers/onnx_expander.h"

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <cstdint>

namespace emplace::datasets {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;

constexpr std::size_t kMostNodes = 4'000'000;

template <typename Imports>
OnnxOpsets OpsetsOf(const Imports& imports) {
  OnnxOpsets opsets;
  for (const auto& import : imports) {
    constexpr std::int64_t kMost = 1'000'000;
    opsets[DomainOf(import.domain())] = static_cast<int>(std::clamp<std::int64_t>(import.version(), 0, kMost));
  }
  return opsets;
}

// The values of attributes where a call leaves them out: a field of IR version 9, which libonnx 1.12 keeps among those
// that it does not know.
template <typename Function>
std::vector<AttributeProto> DefaultsOf(const Function& function) {
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

using AttrsByName = std::unordered_map<std::string, const AttributeProto*>;

void RenameGraph(const std::string& prefix, const AttrsByName& attrs, OnnxNames* names, GraphProto* graph, int depth);

// Gives the values of a node new names. An attribute that refers to one of a function gets its value from `attrs`.
void RenameNode(const std::string& prefix, const AttrsByName& attrs, OnnxNames* names, NodeProto* node, int depth) {
  if (depth > kDeepestOnnxGraph) RefuseOnnx("its subgraphs are nested too deep");
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

void RenameGraph(const std::string& prefix, const AttrsByName& attrs, OnnxNames* names, GraphProto* graph, int depth) {
  for (auto& value : *graph->mutable_input()) value.set_name(Renamed(prefix, value.name(), names));
  for (auto& tensor : *graph->mutable_initializer()) tensor.set_name(Renamed(prefix, tensor.name(), names));
  for (NodeProto& node : *graph->mutable_node()) RenameNode(prefix, attrs, names, &node, depth);
  for (auto& value : *graph->mutable_output()) value.set_name(Renamed(prefix, value.name(), names));
  graph->clear_value_info();
}

// The node of the body of a function.
NodeProto BodyNode(const std::string& prefix, const AttrsByName& attrs, const NodeProto& node, OnnxNames* names) {
  NodeProto renamed = node;
  RenameNode(prefix, attrs, names, &renamed, 0);
  renamed.set_name(prefix + (node.name().empty() ? node.op_type() : node.name()));
  return renamed;
}

}  // namespace

OnnxExpander::OnnxExpander(const onnx::ModelProto& model) : model_opsets_(OpsetsOf(model.opset_import())) {
  if (model_opsets_.empty()) model_opsets_[""] = 1;
  for (const auto& function : model.functions()) {
    functions_[{DomainOf(function.domain()), function.name()}] = &function;
    opsets_[&function] = OpsetsOf(function.opset_import());
    Attrs& defaults = defaults_[&function];
    for (const AttributeProto& attr : kept_attrs_.emplace_back(DefaultsOf(function))) defaults[attr.name()] = &attr;
  }
  for (const NodeProto& node : model.graph().node()) Add(node, model_opsets_);
}

void OnnxExpander::Add(NodeProto node, const OnnxOpsets& opsets, int depth) {
  const auto found = functions_.find({DomainOf(node.domain()), node.op_type()});
  if (found != functions_.end()) return AddCall(node, *found->second, opsets, depth);
  if (steps_.size() >= kMostNodes) RefuseOnnx(fmt::format("has more than {} nodes", kMostNodes));
  steps_.push_back({std::move(node), &opsets, depth});
}

void OnnxExpander::AddCall(const NodeProto& call, const onnx::FunctionProto& function, const OnnxOpsets& opsets,
                           int depth) {
  if (depth >= kDeepestOnnxCall) {
    RefuseOnnx(fmt::format("function \"{}\" calls itself, or calls are nested more than {} deep", function.name(),
                           kDeepestOnnxCall));
  }
  OnnxNames names = {{"", ""}};
  for (int i = 0; i < function.input_size(); ++i) {
    names[function.input(i)] = i < call.input_size() ? call.input(i) : "";
  }
  for (int i = 0; i < function.output_size(); ++i) {
    if (i < call.output_size() && !call.output(i).empty()) names[function.output(i)] = call.output(i);
  }
  const std::string prefix = Prefix(call);
  Attrs attrs = defaults_.at(&function);
  for (const auto& attr : call.attribute()) attrs[attr.name()] = &attr;
  const OnnxOpsets& own = opsets_.at(&function);
  for (const NodeProto& inner : function.node()) {
    Add(BodyNode(prefix, attrs, inner, &names), own.empty() ? opsets : own, depth + 1);
  }
}

std::string OnnxExpander::Prefix(const NodeProto& node) {
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

std::string Renamed(const std::string& prefix, const std::string& name, OnnxNames* names) {
  return names->try_emplace(name, prefix + name).first->second;
}

NodeProto RenamedNode(const std::string& prefix, const NodeProto& node, OnnxNames* names) {
  return BodyNode(prefix, {}, node, names);
}

}  // namespace emplace::datasets
