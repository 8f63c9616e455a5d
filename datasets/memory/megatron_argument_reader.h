#ifndef EMPLACE_DATASETS_MEMORY_MEGATRON_ARGUMENT_READER_H_
#define EMPLACE_DATASETS_MEMORY_MEGATRON_ARGUMENT_READER_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json_fields.h"
#include "sim/base/json_value.h"

namespace emplace::datasets {

constexpr std::int64_t kMostOfAnyArgument = std::int64_t{1} << 30;

// Reads Megatron-LM's arguments by key, and records which ones were read. Throws InputError on values of other types
// and on numbers out of range; an argument that is absent or null has the value `otherwise`.
class MegatronArgumentReader {
 public:
  explicit MegatronArgumentReader(const JsonValue& root);

  bool Has(std::string_view key);
  bool Flag(std::string_view key) { return Has(key) && Node(key).Flag(); }
  // A number, which may be written as a string.
  std::int64_t Integer(std::string_view key, std::int64_t otherwise, std::int64_t low = 0,
                       std::int64_t high = kMostOfAnyArgument);
  std::int64_t Needed(std::string_view key, std::int64_t high = kMostOfAnyArgument);
  double Number(std::string_view key, double otherwise);
  std::string Text(std::string_view key, const std::string& otherwise);
  // One of the words.
  std::string Word(std::string_view key, const std::string& otherwise, std::initializer_list<std::string_view> words);
  // The words of a list, or of a string such as "[layernorm mlp]".
  std::set<std::string> Words(std::string_view key);

  // A line for each argument that is set, was not read, and may change the memory: with the reason if the argument is
  // one that the model leaves out.
  std::vector<std::string> Unmodelled() const;

 private:
  JsonNode Node(std::string_view key) const;

  JsonNode root_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_MEGATRON_ARGUMENT_READER_H_
