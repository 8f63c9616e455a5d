#define ONNX_NAMESPACE onnx
#define ONNX_ML 1

#include "datasets/importers/onnx_content.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include "datasets/importers/onnx_values.h"

namespace emplace::datasets {
namespace {

using onnx::TensorProto;

// Bytes of an element whose content is looked at; 0 of others.
std::size_t ContentBytes(std::int32_t element) {
  switch (element) {
    case TensorProto::INT8:
    case TensorProto::UINT8:
    case TensorProto::BOOL:
      return 1;
    case TensorProto::INT16:
    case TensorProto::UINT16:
      return 2;
    case TensorProto::INT32:
    case TensorProto::UINT32:
    case TensorProto::FLOAT:
      return 4;
    case TensorProto::INT64:
    case TensorProto::UINT64:
    case TensorProto::DOUBLE:
      return 8;
    default:
      return 0;
  }
}

// Reads the content of a small tensor that is in another file, below `folder`; false if that cannot be done. Source:
// onnx.proto, external_data: location, offset, length.
bool ReadExternal(const std::string& folder, std::size_t bytes, TensorProto* tensor) {
  namespace fs = std::filesystem;
  fs::path location;
  std::uint64_t offset = 0;
  for (const auto& entry : tensor->external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() != "offset") continue;
    const char* const end = entry.value().data() + entry.value().size();
    if (std::from_chars(entry.value().data(), end, offset).ptr != end) return false;
  }
  const bool leaves = std::any_of(location.begin(), location.end(), [](const fs::path& part) { return part == ".."; });
  std::error_code error;
  const fs::path file = fs::path(folder) / location;
  if (location.empty() || location.is_absolute() || leaves || !fs::is_regular_file(file, error)) return false;
  std::ifstream in(file, std::ios::binary);
  std::string content(bytes, '\0');
  if (offset > static_cast<std::uint64_t>(std::numeric_limits<std::streamoff>::max())) return false;
  in.seekg(static_cast<std::streamoff>(offset));
  if (!in.read(content.data(), static_cast<std::streamsize>(bytes))) return false;
  tensor->set_raw_data(std::move(content));
  tensor->clear_external_data();
  tensor->set_data_location(TensorProto::DEFAULT);
  return true;
}

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
  const auto read = [&](auto number, const auto& listed) {
    const auto add = [&](auto value) {
      if (IsOnnxNumber(element)) {
        content.numbers.push_back(static_cast<double>(value));
      } else {
        content.integers.push_back(static_cast<std::int64_t>(value));
      }
    };
    if (!tensor.has_raw_data()) {
      for (const auto value : listed) add(static_cast<decltype(number)>(value));
      return listed.size() == count;
    }
    if (tensor.raw_data().size() != sizeof(number) * static_cast<std::size_t>(count)) return false;
    for (std::size_t at = 0; at < tensor.raw_data().size(); at += sizeof(number)) {
      tensor.raw_data().copy(reinterpret_cast<char*>(&number), sizeof(number), at);
      add(number);
    }
    return listed.empty();
  };
  const auto is_read = [&] {
    switch (element) {
      case TensorProto::INT64:
        return read(std::int64_t{}, tensor.int64_data());
      case TensorProto::UINT64:
        return read(std::uint64_t{}, tensor.uint64_data());
      case TensorProto::UINT32:
        return read(std::uint32_t{}, tensor.uint64_data());
      case TensorProto::INT32:
        return read(std::int32_t{}, tensor.int32_data());
      case TensorProto::INT16:
        return read(std::int16_t{}, tensor.int32_data());
      case TensorProto::UINT16:
        return read(std::uint16_t{}, tensor.int32_data());
      case TensorProto::INT8:
      case TensorProto::BOOL:
        return read(std::int8_t{}, tensor.int32_data());
      case TensorProto::UINT8:
        return read(std::uint8_t{}, tensor.int32_data());
      case TensorProto::FLOAT:
        return read(float{}, tensor.float_data());
      case TensorProto::DOUBLE:
        return read(double{}, tensor.double_data());
      default:
        return false;
    }
  };
  return is_read() ? std::optional(std::move(content)) : std::nullopt;
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

std::map<std::string, std::size_t> ReadSmallOnnxFiles(const std::string& folder, onnx::GraphProto* graph) {
  std::map<std::string, std::size_t> missing;
  for (TensorProto& tensor : *graph->mutable_initializer()) {
    if (tensor.data_location() != TensorProto::EXTERNAL) continue;
    const std::size_t size = ContentBytes(tensor.data_type());
    const std::int64_t count = OnnxCountOf(tensor);
    const std::size_t most = IsOnnxNumber(tensor.data_type()) ? kMostKnownNumbers : kMostKnownIntegers;
    if (size == 0 || count < 0 || count > static_cast<std::int64_t>(most)) continue;
    if (ReadExternal(folder, size * static_cast<std::size_t>(count), &tensor)) continue;
    if (IsOnnxNumber(tensor.data_type())) continue;  // a weight
    const auto location = std::find_if(tensor.external_data().begin(), tensor.external_data().end(),
                                       [](const auto& entry) { return entry.key() == "location"; });
    ++missing[location == tensor.external_data().end() ? "" : location->value()];
  }
  return missing;
}

}  // namespace emplace::datasets
