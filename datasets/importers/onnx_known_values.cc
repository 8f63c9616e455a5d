#include "datasets/importers/onnx_known_values.h"

#include <stdexcept>
#include <utility>
#include <vector>

#include "datasets/importers/onnx_content.h"

namespace emplace::datasets {

using onnx::TypeProto;

void KnownOnnxValues::SetType(const std::string& name, TypeProto type) {
  types[name] = &kept_types_.emplace_back(std::move(type));
}

void KnownOnnxValues::SetContent(const std::string& name, OnnxContent content) {
  if (auto tensor = ProtoOf(content)) tensors[name] = &kept_tensors_.emplace_back(std::move(*tensor));
  contents[name] = &kept_contents_.emplace_back(std::move(content));
}

void KnownOnnxValues::SetValue(const std::string& name, OnnxContent content) {
  SetType(name, ProtoOf(content.element, content.dims));
  SetContent(name, std::move(content));
}

const TypeProto* KnownOnnxValues::FindType(const std::string& name) const {
  const auto found = types.find(name);
  return found == types.end() ? nullptr : found->second;
}

const OnnxContent* KnownOnnxValues::FindContent(const std::string& name) const {
  const auto found = contents.find(name);
  return found == contents.end() ? nullptr : found->second;
}

std::optional<std::vector<std::int64_t>> KnownOnnxValues::FindShape(const std::string& name) const {
  const TypeProto* const type = FindType(name);
  if (type == nullptr) return std::nullopt;
  const OnnxType plain = TypeOf(*type);
  return plain.HasShape() ? plain.dims : std::nullopt;
}

const TypeProto& KnownOnnxValues::WholeType(const std::string& name) const {
  const TypeProto* const type = FindType(name);
  if (type == nullptr || !TypeOf(*type).IsWhole()) throw std::runtime_error("its input has no shape");
  return *type;
}

std::optional<std::int64_t> KnownOnnxValues::FindInteger(const std::string& name) const {
  const OnnxContent* const content = FindContent(name);
  if (content == nullptr || content->is_number() || content->size() != 1) return std::nullopt;
  return content->integers[0];
}

KnownOnnxOperands KnownOnnxValues::OperandsOf(const OnnxNode& node) const {
  KnownOnnxOperands known;
  for (const std::string& name : node.inputs) {
    const TypeProto* const type = name.empty() ? nullptr : FindType(name);
    known.operands.types.push_back(type == nullptr ? nullptr : &known.types.emplace_back(TypeOf(*type)));
    known.operands.contents.push_back(name.empty() ? nullptr : FindContent(name));
  }
  return known;
}

void StatedOnnxTypes::Substitute(TypeProto* type) const {
  if (type->value_case() != TypeProto::kTensorType || !type->tensor_type().has_shape()) return;
  for (auto& dim : *type->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
    if (dim.has_dim_value() && dim.dim_value() < 0) dim.clear_value();
    if (!dim.has_dim_param()) continue;
    const auto bound = symbols.find(dim.dim_param());
    if (bound != symbols.end()) dim.set_dim_value(bound->second);
  }
}

void StatedOnnxTypes::Add(const onnx::ValueInfoProto& value, const std::string& name) {
  TypeProto type = value.type();
  Substitute(&type);
  Add(name, type);
}

void StatedOnnxTypes::Add(const std::string& name, const TypeProto& type) {
  const auto [found, is_new] = types.try_emplace(name, type);
  if (!is_new) found->second = Merged(found->second, type);
}

}  // namespace emplace::datasets
