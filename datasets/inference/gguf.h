#ifndef EMPLACE_DATASETS_INFERENCE_GGUF_H_
#define EMPLACE_DATASETS_INFERENCE_GGUF_H_

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace emplace::datasets {

// A type of GGUF's tensors: elements are stored in blocks, each of `block_bytes` (its library ggml,
// github.com/ggml-org/ggml).
struct GgmlType {
  std::uint32_t number = 0;  // in a file
  std::string_view name;     // in small letters, such as q4_k
  std::int64_t block = 1;    // elements
  std::int64_t block_bytes = 0;
};
// Null if there is no such type.
const GgmlType* FindGgmlType(std::uint32_t number);
const GgmlType* FindGgmlType(std::string_view name);

struct GgufTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // as in the file: the first dimension is the one that is contiguous
  const GgmlType* type = nullptr;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;  // of its blocks, without padding behind it
};

// A list of metadata: its length and, of numbers, the values. Texts are not kept: a vocabulary has 10^5 of them.
struct GgufList {
  std::int64_t length = 0;
  std::vector<double> numbers = {};
};

// What the header of a GGUF file says: metadata and tensors, without their data.
struct GgufHeader {
  std::map<std::string, std::variant<std::int64_t, double, bool, std::string, GgufList>, std::less<>> metadata;
  std::vector<GgufTensor> tensors;

  // Each throws InputError(key) if the value has another type; none: there is no such key.
  std::optional<std::int64_t> Integer(std::string_view key) const;
  std::optional<double> Number(std::string_view key) const;
  std::optional<std::string> Text(std::string_view key) const;
  const GgufList* List(std::string_view key) const;  // null: there is none, or it is one value
};

// Whether a file begins as GGUF does.
bool LooksLikeGguf(std::string_view head);

// The header of a GGUF file, version 2 or 3, little-endian. `open_part` opens part N (from 1) of a model that is split
// over several files, whose metadata count them (`split.count`); it is called for parts beyond the first, and the
// parts' tensors are joined in order. Throws InputError where the file ends early, says what cannot be, or has a type
// that is not known. Reads no tensor's data, which need not be there. Source: the description in
// github.com/ggml-org/ggml.
GgufHeader ReadGguf(
    std::istream& in,
    const std::function<std::unique_ptr<std::istream>(std::int64_t part, std::int64_t parts)>& open_part);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_INFERENCE_GGUF_H_
