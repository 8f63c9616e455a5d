#include "datasets/importers/onnx_content.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "datasets/importers/onnx_values.h"

namespace emplace::datasets {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;

// Reads the elements of a tensor, which are stored as `Number` in its raw data or `listed` one by one. Returns whether
// there are as many as its shape has (`count`).
template <typename Number, typename List>
bool ReadElements(const TensorProto& tensor, const List& listed, std::int64_t count, OnnxContent* content) {
  const auto add = [&](auto value) {
    if (IsOnnxNumber(content->element)) {
      content->numbers.push_back(static_cast<double>(value));
    } else {
      content->integers.push_back(static_cast<std::int64_t>(value));
    }
  };
  if (!tensor.has_raw_data()) {
    for (const auto value : listed) add(static_cast<Number>(value));
    return listed.size() == count;
  }
  if (tensor.raw_data().size() != sizeof(Number) * static_cast<std::size_t>(count)) return false;
  Number number{};
  for (std::size_t at = 0; at < tensor.raw_data().size(); at += sizeof(number)) {
    tensor.raw_data().copy(reinterpret_cast<char*>(&number), sizeof(number), at);
    add(number);
  }
  return listed.empty();
}

// A type of elements whose content is looked at.
struct ContentType {
  std::int32_t element;
  std::size_t bytes;  // size of an element in raw data
  bool (*read)(const TensorProto& tensor, std::int64_t count, OnnxContent* content);
};

// `ListOf`: the field of a tensor that lists such elements one by one.
template <typename Number, typename ListOf>
constexpr ContentType TypeRow(std::int32_t element, ListOf) {
  return {element, sizeof(Number), [](const TensorProto& tensor, std::int64_t count, OnnxContent* content) {
            return ReadElements<Number>(tensor, ListOf()(tensor), count, content);
          }};
}

// Null for other types.
const ContentType* FindContentType(std::int32_t element) {
  constexpr auto kInt32s = [](const TensorProto& tensor) -> const auto& { return tensor.int32_data(); };
  constexpr auto kInt64s = [](const TensorProto& tensor) -> const auto& { return tensor.int64_data(); };
  constexpr auto kUint64s = [](const TensorProto& tensor) -> const auto& { return tensor.uint64_data(); };
  constexpr auto kFloats = [](const TensorProto& tensor) -> const auto& { return tensor.float_data(); };
  constexpr auto kDoubles = [](const TensorProto& tensor) -> const auto& { return tensor.double_data(); };
  static constexpr ContentType kTypes[] = {
      TypeRow<std::int64_t>(TensorProto::INT64, kInt64s),    TypeRow<std::uint64_t>(TensorProto::UINT64, kUint64s),
      TypeRow<std::uint32_t>(TensorProto::UINT32, kUint64s), TypeRow<std::int32_t>(TensorProto::INT32, kInt32s),
      TypeRow<std::int16_t>(TensorProto::INT16, kInt32s),    TypeRow<std::uint16_t>(TensorProto::UINT16, kInt32s),
      TypeRow<std::int8_t>(TensorProto::INT8, kInt32s),      TypeRow<std::int8_t>(TensorProto::BOOL, kInt32s),
      TypeRow<std::uint8_t>(TensorProto::UINT8, kInt32s),    TypeRow<float>(TensorProto::FLOAT, kFloats),
      TypeRow<double>(TensorProto::DOUBLE, kDoubles),
  };
  const auto* const found = std::ranges::find(kTypes, element, &ContentType::element);
  return found == std::end(kTypes) ? nullptr : found;
}

constexpr std::size_t kMostExternal = std::size_t{16} << 20;  // bytes of all small tensors in other files
constexpr int kDeepestBody = 64;

const std::string* ExternalEntry(const TensorProto& tensor, std::string_view key) {
  const auto& entries = tensor.external_data();
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.key() == key; });
  return found == entries.end() ? nullptr : &found->value();
}

// `text` as a number of bytes; `absent` without one; nullopt where it is not such a number.
std::optional<std::uint64_t> BytesFrom(const std::string* text, std::uint64_t absent) {
  if (text == nullptr) return absent;
  std::uint64_t bytes = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, bytes);
  const bool is_offset = bytes <= static_cast<std::uint64_t>(std::numeric_limits<std::streamoff>::max());
  return error == std::errc() && rest == end && is_offset ? std::optional(bytes) : std::nullopt;
}

// Reads the content of a tensor of this many bytes from its file below `folder`; false if that cannot be done. Source:
// onnx.proto, external_data: location, offset, length.
bool ReadExternal(const std::string& folder, std::size_t bytes, TensorProto* tensor) {
  namespace fs = std::filesystem;
  const std::string* const named = ExternalEntry(*tensor, "location");
  const fs::path location = named == nullptr ? "" : *named;
  const bool leaves = std::any_of(location.begin(), location.end(), [](const fs::path& part) { return part == ".."; });
  std::error_code error;
  const fs::path file = fs::path(folder) / location;
  if (folder.empty() || location.empty() || location.is_absolute() || leaves) return false;
  if (!fs::is_regular_file(file, error)) return false;
  const auto offset = BytesFrom(ExternalEntry(*tensor, "offset"), 0);
  if (!offset || BytesFrom(ExternalEntry(*tensor, "length"), bytes) != bytes) return false;
  std::ifstream in(file, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(*offset));
  std::string content(bytes, '\0');
  if (!in.read(content.data(), static_cast<std::streamsize>(bytes))) return false;
  tensor->set_raw_data(std::move(content));
  tensor->clear_external_data();
  tensor->set_data_location(TensorProto::DEFAULT);
  return true;
}

class ExternalReader {
 public:
  explicit ExternalReader(const std::string& folder) : folder_(folder) {}

  void Read(GraphProto* graph, int depth) {
    for (TensorProto& tensor : *graph->mutable_initializer()) Read(&tensor);
    for (NodeProto& node : *graph->mutable_node()) Read(&node, depth);
  }
  void Read(NodeProto* node, int depth) {
    if (depth > kDeepestBody) return;
    for (AttributeProto& attr : *node->mutable_attribute()) {
      if (attr.has_t()) Read(attr.mutable_t());
      if (attr.has_g()) Read(attr.mutable_g(), depth + 1);
      for (GraphProto& inner : *attr.mutable_graphs()) Read(&inner, depth + 1);
    }
  }
  UnreadOnnxFiles unread;

 private:
  void Read(TensorProto* tensor) {
    if (tensor->data_location() != TensorProto::EXTERNAL) return;
    const std::int32_t element = tensor->data_type();
    const std::int64_t count = OnnxCountOf(*tensor);
    const std::size_t most = IsOnnxNumber(element) ? kMostKnownNumbers : kMostKnownIntegers;
    const ContentType* const type = FindContentType(element);
    if (type == nullptr || count < 0 || count > static_cast<std::int64_t>(most)) return;
    const std::size_t bytes = type->bytes * static_cast<std::size_t>(count);
    if (bytes <= left_ && ReadExternal(folder_, bytes, tensor)) {
      left_ -= bytes;
      return;
    }
    // Shapes, axes and conditions; other small tensors are weights.
    if (element != TensorProto::INT64 && element != TensorProto::INT32 && element != TensorProto::BOOL) return;
    const std::string* const location = ExternalEntry(*tensor, "location");
    if (unread.tensors++ == 0 && location != nullptr) unread.file = *location;
  }

  const std::string& folder_;
  std::size_t left_ = kMostExternal;
};

}  // namespace

std::int64_t OnnxCountOf(const TensorProto& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t dim : tensor.dims()) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return -1;
  }
  return count;
}

std::optional<OnnxContent> OnnxContentOf(const TensorProto& tensor) {
  if (tensor.data_location() == TensorProto::EXTERNAL || tensor.has_segment()) return std::nullopt;
  const std::int32_t element = tensor.data_type();
  const std::int64_t count = OnnxCountOf(tensor);
  const std::size_t most = IsOnnxNumber(element) ? kMostKnownNumbers : kMostKnownIntegers;
  if (count < 0 || count > static_cast<std::int64_t>(most)) return std::nullopt;
  OnnxContent content{
      .element = element, .dims = {tensor.dims().begin(), tensor.dims().end()}, .integers = {}, .numbers = {}};
  const ContentType* const type = FindContentType(element);
  const bool is_read = type != nullptr && type->read(tensor, count, &content);
  return is_read ? std::optional(std::move(content)) : std::nullopt;
}

std::optional<TensorProto> ProtoOf(const OnnxContent& content) {
  TensorProto tensor;
  tensor.set_data_type(content.element);
  for (const std::int64_t dim : content.dims) tensor.add_dims(dim);
  switch (content.element) {
    case TensorProto::INT64:
      for (const std::int64_t value : content.integers) tensor.add_int64_data(value);
      return tensor;
    case TensorProto::INT32:
    case TensorProto::BOOL:
      for (const std::int64_t value : content.integers) tensor.add_int32_data(static_cast<std::int32_t>(value));
      return tensor;
    case TensorProto::FLOAT:
      for (const double value : content.numbers) tensor.add_float_data(static_cast<float>(value));
      return tensor;
    case TensorProto::DOUBLE:
      for (const double value : content.numbers) tensor.add_double_data(value);
      return tensor;
    default:
      return std::nullopt;
  }
}

UnreadOnnxFiles ReadSmallOnnxFiles(const std::string& folder, onnx::ModelProto* model) {
  ExternalReader reader(folder);
  reader.Read(model->mutable_graph(), 0);
  for (onnx::FunctionProto& function : *model->mutable_functions()) {
    for (NodeProto& node : *function.mutable_node()) reader.Read(&node, 0);
  }
  return reader.unread;
}

}  // namespace emplace::datasets
