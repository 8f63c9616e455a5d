#include "datasets/importers/onnx_wire.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <cstdint>
#include <istream>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

using google::protobuf::io::CodedInputStream;

// Content of tensors up to this size is kept: shapes, axes and scalars. Texts and lists up to the other.
constexpr std::size_t kKeptContent = 4096;
constexpr std::uint32_t kKeptField = 1 << 20;
constexpr int kDeepest = 64;

// Messages of onnx.proto that hold tensors somewhere inside.
enum class OnnxMessage : std::uint8_t { kOther, kModel, kGraph, kNode, kAttribute, kTensor, kSparse, kFunction };

OnnxMessage Inside(OnnxMessage message, std::uint32_t field) {
  switch (message) {
    case OnnxMessage::kModel:
      return field == 7 ? OnnxMessage::kGraph : field == 25 ? OnnxMessage::kFunction : OnnxMessage::kOther;
    case OnnxMessage::kGraph:
      return field == 1    ? OnnxMessage::kNode
             : field == 5  ? OnnxMessage::kTensor
             : field == 15 ? OnnxMessage::kSparse
                           : OnnxMessage::kOther;
    case OnnxMessage::kNode:
      return field == 5 ? OnnxMessage::kAttribute : OnnxMessage::kOther;
    case OnnxMessage::kAttribute:
      return field == 5 || field == 10    ? OnnxMessage::kTensor
             : field == 6 || field == 11  ? OnnxMessage::kGraph
             : field == 22 || field == 23 ? OnnxMessage::kSparse
                                          : OnnxMessage::kOther;
    case OnnxMessage::kSparse:
      return field == 1 || field == 2 ? OnnxMessage::kTensor : OnnxMessage::kOther;
    case OnnxMessage::kFunction:
      return field == 7 ? OnnxMessage::kNode : OnnxMessage::kOther;
    default:
      return OnnxMessage::kOther;
  }
}

// Fields that are never read: documentation, and information about training.
bool IsLeftOut(OnnxMessage message, std::uint32_t field) {
  return (message == OnnxMessage::kModel && (field == 6 || field == 14 || field == 20)) ||
         (message == OnnxMessage::kGraph && (field == 10 || field == 14)) ||
         (message == OnnxMessage::kNode && field == 6) || (message == OnnxMessage::kTensor && field == 12);
}

// float_data to raw_data, double_data and uint64_data.
bool IsContent(OnnxMessage message, std::uint32_t field) {
  return message == OnnxMessage::kTensor && ((field >= 4 && field <= 11 && field != 8));
}

class IstreamOfOnnx : public google::protobuf::io::CopyingInputStream {
 public:
  explicit IstreamOfOnnx(std::istream* in) : in_(in) {}
  int Read(void* buffer, int size) override {
    in_->read(static_cast<char*>(buffer), size);
    return static_cast<int>(in_->gcount());
  }

 private:
  std::istream* in_;
};

void AppendVarint(std::uint64_t value, std::string* out) {
  while (value >= 128) {
    out->push_back(static_cast<char>((value & 127) | 128));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

class Condenser {
 public:
  explicit Condenser(google::protobuf::io::ZeroCopyInputStream* in) : stream_(in) {}

  std::string Condensed() {
    std::string out;
    Message(OnnxMessage::kModel, 0, &out);
    if (!stream_.ConsumedEntireMessage()) Refuse();
    return out;
  }

 private:
  [[noreturn]] void Refuse() {
    throw InputError(fmt::format("byte {}", stream_.CurrentPosition()),
                     "the file is cut, damaged or no ONNX model (fields of a ModelProto expected)");
  }
  void Expect(bool holds) {
    if (!holds) Refuse();
  }

  // The fields up to the limit.
  void Message(OnnxMessage message, int depth, std::string* out) {
    Expect(depth <= kDeepest);
    std::string content;
    bool is_content_whole = true;
    while (const std::uint32_t tag = stream_.ReadTag()) {
      const std::uint32_t field = tag >> 3;
      Expect(field != 0);
      if (IsContent(message, field)) {
        if (!Field(message, tag, content.size() < kKeptContent ? kKeptContent - content.size() : 0, depth, &content)) {
          is_content_whole = false;
        }
      } else {
        Field(message, tag, IsLeftOut(message, field) ? 0 : kKeptField, depth, out);
      }
    }
    if (is_content_whole) *out += content;
  }

  // One field, the tag being read. False if it is larger than `most` bytes: it is skipped then.
  bool Field(OnnxMessage message, std::uint32_t tag, std::size_t most, int depth, std::string* out) {
    std::uint64_t value = 0;
    std::uint32_t length = 0;
    switch (tag & 7) {
      case 0:
        Expect(stream_.ReadVarint64(&value));
        if (most == 0) return false;
        AppendVarint(tag, out);
        AppendVarint(value, out);
        return true;
      case 1:
      case 5:
        length = (tag & 7) == 1 ? 8 : 4;
        Expect(stream_.ReadString(&text_, static_cast<int>(length)));
        if (most == 0) return false;
        AppendVarint(tag, out);
        *out += text_;
        return true;
      case 2:
        break;
      default:
        Refuse();
    }
    Expect(stream_.ReadVarint32(&length) && length <= kMostBytes);
    const OnnxMessage inside = Inside(message, tag >> 3);
    if (inside != OnnxMessage::kOther) {
      const std::int64_t end = std::int64_t{stream_.CurrentPosition()} + length;
      const int before = stream_.BytesUntilLimit();
      Expect(before < 0 || static_cast<std::int64_t>(length) <= before);
      const auto limit = stream_.PushLimit(static_cast<int>(length));
      std::string inner;
      Message(inside, depth + 1, &inner);
      Expect(stream_.ConsumedEntireMessage() && stream_.CurrentPosition() == end);
      stream_.PopLimit(limit);
      AppendVarint(tag, out);
      AppendVarint(inner.size(), out);
      *out += inner;
      return true;
    }
    if (length > most) {
      Expect(stream_.Skip(static_cast<int>(length)));
      return false;
    }
    Expect(stream_.ReadString(&text_, static_cast<int>(length)));
    AppendVarint(tag, out);
    AppendVarint(length, out);
    *out += text_;
    return true;
  }

  static constexpr std::uint32_t kMostBytes = 0x7fffffff;  // protobuf's own limit
  CodedInputStream stream_;
  std::string text_;
};

}  // namespace

std::string CondensedOnnx(std::istream& in) {
  IstreamOfOnnx bytes(&in);
  google::protobuf::io::CopyingInputStreamAdaptor buffer(&bytes, 1 << 16);
  return Condenser(&buffer).Condensed();
}

namespace {

// Fields of a ModelProto, as its text names them.
constexpr std::string_view kModelFields[] = {"doc_string",    "domain",           "functions",     "graph",
                                             "ir_version",    "metadata_props",   "model_version", "opset_import",
                                             "producer_name", "producer_version", "training_info"};
constexpr std::string_view kTextBlanks = " \t\r\n";

bool LooksLikeOnnxText(std::string_view head) {
  std::size_t at = head.find_first_not_of(kTextBlanks);
  while (at != std::string_view::npos && head[at] == '#') {
    at = head.find('\n', at);
    if (at != std::string_view::npos) at = head.find_first_not_of(kTextBlanks, at);
  }
  if (at == std::string_view::npos) return false;
  const std::string_view rest = head.substr(at);
  for (const std::string_view field : kModelFields) {
    if (!rest.starts_with(field)) continue;
    const std::size_t next = rest.find_first_not_of(kTextBlanks, field.size());
    if (next == std::string_view::npos || (rest[next] != ':' && rest[next] != '{')) continue;
    return rest.find("op_type") != std::string_view::npos;
  }
  return false;
}

}  // namespace

bool StartsOnnxText(int first) {
  if (first == '#' ||
      (first >= 0 && first < 128 && kTextBlanks.find(static_cast<char>(first)) != std::string_view::npos)) {
    return true;
  }
  for (const std::string_view field : kModelFields) {
    if (first == field[0]) return true;
  }
  return false;
}

bool LooksLikeOnnx(std::string_view head) {
  if (!head.empty() && StartsOnnxText(static_cast<unsigned char>(head[0])) && LooksLikeOnnxText(head)) return true;
  CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(head.data()), static_cast<int>(head.size()));
  bool has_version = false;
  bool has_graph = false;
  while (stream.CurrentPosition() < static_cast<int>(head.size()) && !has_graph) {
    const std::uint32_t tag = stream.ReadTag();
    const std::uint32_t field = tag >> 3;
    std::uint64_t value = 0;
    std::uint32_t length = 0;
    if (field == 1 || field == 5) {
      if ((tag & 7) != 0 || !stream.ReadVarint64(&value)) return false;
      constexpr std::uint64_t kNewest = 1000;
      if (field == 1 && (value == 0 || value > kNewest)) return false;
      has_version = has_version || field == 1;
      continue;
    }
    const bool known = (field >= 2 && field <= 8) || field == 14 || field == 20 || field == 25;
    if (!known || (tag & 7) != 2 || !stream.ReadVarint32(&length)) return false;
    if (field == 7) {
      // Its first field: node, name, initializer, input, output or value_info.
      const std::uint32_t first = length == 0 ? 0 : stream.ReadTag();
      constexpr std::uint32_t kBytes = 2;
      for (const std::uint32_t number : {1U, 2U, 5U, 10U, 11U, 12U, 13U, 14U, 15U}) {
        has_graph = has_graph || first == (number << 3 | kBytes);
      }
      if (!has_graph) return false;
    } else if (length > 0x7fffffff || !stream.Skip(static_cast<int>(length))) {
      break;  // the head ends here
    }
  }
  return has_version && has_graph;
}

}  // namespace emplace::datasets
