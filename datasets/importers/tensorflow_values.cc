#include "datasets/importers/tensorflow_values.h"

#include <algorithm>
#include <cstring>

namespace emplace::datasets {

using tensorflow::DataType;
using tensorflow::NodeDef;

bool TfType::HasShape() const {
  if (!dims) return false;
  for (const std::int64_t dim : *dims) {
    if (dim < 0) return false;
  }
  return true;
}

double TfType::Elements() const {
  double elements = 1;
  for (const std::int64_t dim : *dims) elements *= static_cast<double>(dim);
  return elements;
}

const tensorflow::AttrValue* FindTfAttr(const NodeDef& node, const std::string& name) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? nullptr : &found->second;
}

std::int64_t TfInteger(const NodeDef& node, const std::string& name, std::int64_t absent) {
  const auto* const attr = FindTfAttr(node, name);
  return attr == nullptr ? absent : attr->i();
}

bool TfFlag(const NodeDef& node, const std::string& name) {
  const auto* const attr = FindTfAttr(node, name);
  return attr != nullptr && attr->b();
}

std::string TfText(const NodeDef& node, const std::string& name) {
  const auto* const attr = FindTfAttr(node, name);
  return attr == nullptr ? std::string() : attr->s();
}

std::vector<std::int64_t> TfIntegers(const NodeDef& node, const std::string& name) {
  const auto* const attr = FindTfAttr(node, name);
  if (attr == nullptr) return {};
  return {attr->list().i().begin(), attr->list().i().end()};
}

DataType TfDataType(const NodeDef& node, const std::string& name) {
  const auto* const attr = FindTfAttr(node, name);
  return attr == nullptr ? tensorflow::DT_INVALID : WithoutReference(attr->type());
}

std::optional<std::vector<std::int64_t>> TfDims(const tensorflow::TensorShapeProto& shape) {
  if (shape.unknown_rank()) return std::nullopt;
  std::vector<std::int64_t> dims;
  for (const auto& dim : shape.dim()) dims.push_back(dim.size() < 0 ? TfType::kFree : dim.size());
  return dims;
}

DataType WithoutReference(DataType type) {
  constexpr int kReference = 100;
  const int number = static_cast<int>(type);
  return number > kReference ? static_cast<DataType>(number - kReference) : type;
}

bool IsRealTfType(DataType type) {
  switch (type) {
    case tensorflow::DT_FLOAT:
    case tensorflow::DT_DOUBLE:
    case tensorflow::DT_HALF:
    case tensorflow::DT_BFLOAT16:
      return true;
    default:
      return false;
  }
}

bool IsIntegerTfType(DataType type) {
  switch (type) {
    case tensorflow::DT_INT32:
    case tensorflow::DT_INT64:
    case tensorflow::DT_INT16:
    case tensorflow::DT_INT8:
    case tensorflow::DT_UINT8:
    case tensorflow::DT_UINT16:
    case tensorflow::DT_UINT32:
    case tensorflow::DT_UINT64:
    case tensorflow::DT_BOOL:
      return true;
    default:
      return false;
  }
}

namespace {

template <typename Number, typename Add>
bool ReadPacked(const std::string& bytes, std::size_t count, const Add& add) {
  if (bytes.size() != count * sizeof(Number)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    Number number{};
    std::memcpy(&number, bytes.data() + i * sizeof(Number), sizeof(Number));
    add(number);
  }
  return true;
}

// The elements of a list of the message; the last one stands for all after it, and none for zeros.
template <typename List>
bool ReadRepeated(const List& list, std::size_t count, TfContent* content) {
  if (static_cast<std::size_t>(list.size()) > count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<int>(std::min<std::size_t>(i, static_cast<std::size_t>(std::max(list.size() - 1, 0))));
    if (content->is_real) {
      content->numbers.push_back(list.empty() ? 0 : static_cast<double>(list[at]));
    } else {
      content->integers.push_back(list.empty() ? 0 : static_cast<std::int64_t>(list[at]));
    }
  }
  return true;
}

}  // namespace

std::shared_ptr<const TfContent> ContentOfTensor(const tensorflow::TensorProto& tensor, const TfType& type) {
  if (!type.HasShape() || type.Elements() > static_cast<double>(kMostTfContent)) return nullptr;
  const auto count = static_cast<std::size_t>(type.Elements());
  auto content = std::make_shared<TfContent>();
  const auto integer = [&](auto number) { content->integers.push_back(static_cast<std::int64_t>(number)); };
  const auto real = [&](auto number) { content->numbers.push_back(static_cast<double>(number)); };
  const std::string& bytes = tensor.tensor_content();
  const bool is_packed = !bytes.empty();
  bool is_read = false;
  switch (type.dtype) {
    case tensorflow::DT_FLOAT:
      content->is_real = true;
      is_read =
          is_packed ? ReadPacked<float>(bytes, count, real) : ReadRepeated(tensor.float_val(), count, content.get());
      break;
    case tensorflow::DT_DOUBLE:
      content->is_real = true;
      is_read =
          is_packed ? ReadPacked<double>(bytes, count, real) : ReadRepeated(tensor.double_val(), count, content.get());
      break;
    case tensorflow::DT_INT32:
      is_read = is_packed ? ReadPacked<std::int32_t>(bytes, count, integer)
                          : ReadRepeated(tensor.int_val(), count, content.get());
      break;
    case tensorflow::DT_INT64:
      is_read = is_packed ? ReadPacked<std::int64_t>(bytes, count, integer)
                          : ReadRepeated(tensor.int64_val(), count, content.get());
      break;
    case tensorflow::DT_BOOL:
      is_read = is_packed ? ReadPacked<std::uint8_t>(bytes, count, integer)
                          : ReadRepeated(tensor.bool_val(), count, content.get());
      break;
    default:
      break;
  }
  return is_read ? content : nullptr;
}

}  // namespace emplace::datasets
