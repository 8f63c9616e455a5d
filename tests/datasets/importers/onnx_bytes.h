#ifndef EMPLACE_TESTS_DATASETS_IMPORTERS_ONNX_BYTES_H_
#define EMPLACE_TESTS_DATASETS_IMPORTERS_ONNX_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

// ONNX models, message by message as onnx.proto has them.
namespace emplace::testing {

inline std::string VarintBytes(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes.push_back(static_cast<char>((value & 127) | 128));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
inline std::string IntegerField(std::uint32_t number, std::int64_t value) {
  return VarintBytes(number << 3) + VarintBytes(static_cast<std::uint64_t>(value));
}
inline std::string BytesField(std::uint32_t number, const std::string& bytes) {
  return VarintBytes(number << 3 | 2) + VarintBytes(bytes.size()) + bytes;
}
inline std::string FloatField(std::uint32_t number, float value) {
  std::string bytes(sizeof(value), '\0');
  __builtin_memcpy(bytes.data(), &value, sizeof(value));
  return VarintBytes(number << 3 | 5) + bytes;
}

// TensorProto. `content`: further fields, such as raw_data.
inline std::string OnnxTensorBytes(const std::string& name, std::int32_t element, const std::vector<std::int64_t>& dims,
                                   const std::string& content = "") {
  std::string bytes;
  for (const std::int64_t dim : dims) bytes += IntegerField(1, dim);
  return bytes + IntegerField(2, element) + content + BytesField(8, name);
}
// int64_data of a TensorProto.
inline std::string Int64Content(const std::vector<std::int64_t>& values) {
  std::string packed;
  for (const std::int64_t value : values) packed += VarintBytes(static_cast<std::uint64_t>(value));
  return BytesField(7, packed);
}

// ValueInfoProto of a tensor; a dimension is a number, or the name of a free one.
inline std::string OnnxValueBytes(const std::string& name, std::int32_t element, const std::vector<std::string>& dims) {
  std::string shape;
  for (const std::string& dim : dims) {
    const bool is_number = dim.find_first_not_of("-0123456789") == std::string::npos;
    shape += BytesField(1, is_number ? IntegerField(1, std::stoll(dim)) : BytesField(2, dim));
  }
  return BytesField(1, name) + BytesField(2, BytesField(1, IntegerField(1, element) + BytesField(2, shape)));
}

// AttributeProto.
inline std::string OnnxIntBytes(const std::string& name, std::int64_t value) {
  return BytesField(1, name) + IntegerField(3, value) + IntegerField(20, 2);
}
inline std::string OnnxIntsBytes(const std::string& name, const std::vector<std::int64_t>& values) {
  std::string bytes = BytesField(1, name);
  for (const std::int64_t value : values) bytes += IntegerField(8, value);
  return bytes + IntegerField(20, 7);
}
inline std::string OnnxGraphAttrBytes(const std::string& name, const std::string& graph) {
  return BytesField(1, name) + BytesField(6, graph) + IntegerField(20, 5);
}

// NodeProto.
inline std::string OnnxNodeBytes(const std::string& op, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs, const std::vector<std::string>& attrs = {},
                                 const std::string& name = "", const std::string& domain = "") {
  std::string bytes;
  for (const std::string& input : inputs) bytes += BytesField(1, input);
  for (const std::string& output : outputs) bytes += BytesField(2, output);
  if (!name.empty()) bytes += BytesField(3, name);
  bytes += BytesField(4, op);
  for (const std::string& attr : attrs) bytes += BytesField(5, attr);
  return domain.empty() ? bytes : bytes + BytesField(7, domain);
}

// GraphProto.
struct OnnxGraphParts {
  std::vector<std::string> nodes;
  std::vector<std::string> initializers;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};
inline std::string OnnxGraphBytes(const OnnxGraphParts& parts) {
  std::string bytes;
  for (const std::string& node : parts.nodes) bytes += BytesField(1, node);
  bytes += BytesField(2, "net");
  for (const std::string& tensor : parts.initializers) bytes += BytesField(5, tensor);
  for (const std::string& value : parts.inputs) bytes += BytesField(11, value);
  for (const std::string& value : parts.outputs) bytes += BytesField(12, value);
  return bytes;
}
// ModelProto. `more`: further fields.
inline std::string OnnxModelBytes(const OnnxGraphParts& parts, std::int64_t opset = 13, const std::string& more = "") {
  return IntegerField(1, 8) + BytesField(2, "test") + BytesField(7, OnnxGraphBytes(parts)) +
         BytesField(8, IntegerField(2, opset)) + more;
}

constexpr std::int32_t kOnnxF32 = 1;
constexpr std::int32_t kOnnxI64 = 7;
constexpr std::int32_t kOnnxBool = 9;

// relu(x w), x [2,3] and w [3,4].
inline const std::string kOnnxSample = OnnxModelBytes({
    .nodes = {OnnxNodeBytes("MatMul", {"x", "w"}, {"h"}, {}, "dense"), OnnxNodeBytes("Relu", {"h"}, {"y"})},
    .initializers = {OnnxTensorBytes("w", kOnnxF32, {3, 4})},
    .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "3"})},
    .outputs = {OnnxValueBytes("y", kOnnxF32, {"2", "4"})},
});

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_DATASETS_IMPORTERS_ONNX_BYTES_H_
