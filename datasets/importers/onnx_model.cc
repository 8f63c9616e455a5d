#include "datasets/importers/onnx_model.h"

#include <algorithm>

namespace emplace::datasets {

bool OnnxType::HasShape() const {
  return is_tensor && dims && std::all_of(dims->begin(), dims->end(), [](std::int64_t dim) { return dim >= 0; });
}

bool OnnxType::IsWhole() const { return element != kOnnxUnknown && HasShape(); }

const OnnxAttr* OnnxNode::Find(const std::string& attr) const {
  const auto found =
      std::find_if(attrs.begin(), attrs.end(), [&](const OnnxAttr& other) { return other.name == attr; });
  return found == attrs.end() ? nullptr : &*found;
}

std::int64_t OnnxNode::Integer(const std::string& attr, std::int64_t absent) const {
  const OnnxAttr* const found = Find(attr);
  return found == nullptr || found->integers.empty() ? absent : found->integers.front();
}

std::vector<std::int64_t> OnnxNode::Integers(const std::string& attr) const {
  const OnnxAttr* const found = Find(attr);
  return found == nullptr ? std::vector<std::int64_t>() : found->integers;
}

double OnnxNode::Number(const std::string& attr, double absent) const {
  const OnnxAttr* const found = Find(attr);
  return found == nullptr || found->numbers.empty() ? absent : found->numbers.front();
}

std::string OnnxNode::Text(const std::string& attr, const std::string& absent) const {
  const OnnxAttr* const found = Find(attr);
  return found == nullptr || found->texts.empty() ? absent : found->texts.front();
}

}  // namespace emplace::datasets
