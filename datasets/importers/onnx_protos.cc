#include "datasets/importers/onnx_protos.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "datasets/importers/onnx_content.h"

namespace emplace::datasets {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;
using onnx::TypeProto;

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

void FindOuterReads(const GraphProto& graph, std::unordered_set<std::string> known, int depth, OnnxSubgraphs* outside) {
  if (depth > kDeepestOnnxGraph) RefuseOnnx("its subgraphs are nested too deep");
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
      if (attr.has_g()) FindOuterReads(attr.g(), known, depth + 1, outside);
      for (const GraphProto& inner : attr.graphs()) FindOuterReads(inner, known, depth + 1, outside);
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

}  // namespace

void RefuseOnnx(std::string problem) { throw OnnxRefusal{std::move(problem)}; }

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

double BytesOf(const TensorProto& tensor) {
  double bytes = ElementWidth(tensor.data_type());
  for (const std::int64_t dim : tensor.dims()) bytes *= static_cast<double>(std::max<std::int64_t>(dim, 0));
  return bytes;
}

OnnxSubgraphs SubgraphsOf(const NodeProto& node) {
  OnnxSubgraphs outside;
  for (const AttributeProto& attr : node.attribute()) {
    if (attr.has_g()) FindOuterReads(attr.g(), {}, 0, &outside);
    for (const GraphProto& inner : attr.graphs()) FindOuterReads(inner, {}, 0, &outside);
  }
  return outside;
}

OnnxSubgraphs ContentsOf(const GraphProto& graph) {
  OnnxSubgraphs outside;
  FindOuterReads(graph, {}, 0, &outside);
  return outside;
}

const GraphProto* GraphOf(const NodeProto& node, std::string_view name) {
  for (const AttributeProto& attr : node.attribute()) {
    if (attr.name() == name && attr.has_g()) return &attr.g();
  }
  return nullptr;
}

OnnxNode PlainNode(const NodeProto& node, const OnnxOpsets& opsets) {
  OnnxNode plain;
  plain.name = node.name();
  plain.op = node.op_type();
  plain.domain = DomainOf(node.domain());
  const auto opset = opsets.find(plain.domain);
  plain.opset = opset == opsets.end() ? 0 : opset->second;
  plain.inputs.assign(node.input().begin(), node.input().end());
  plain.outputs.assign(node.output().begin(), node.output().end());
  for (const AttributeProto& attr : node.attribute()) plain.attrs.push_back(AttrOf(attr));
  OnnxSubgraphs subgraphs = SubgraphsOf(node);
  plain.captured = std::move(subgraphs.names);
  plain.subgraph_bytes = subgraphs.bytes;
  plain.subgraph_nodes = subgraphs.nodes;
  return plain;
}

}  // namespace emplace::datasets
