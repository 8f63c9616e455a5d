#ifndef EMPLACE_AGENTS_RL_READ_OPTIONS_H_
#define EMPLACE_AGENTS_RL_READ_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/options.h"

namespace emplace::agents {

// Options of types that OptionReader does not support.

inline void ReadCount(OptionReader& reader, std::string_view key, std::size_t* value, std::int64_t low,
                      std::int64_t high, std::string_view help) {
  auto number = static_cast<std::int64_t>(*value);
  reader.Read(key, &number, low, high, help);
  *value = static_cast<std::size_t>(number);
}

// Reads one of several words, each of which represents a value.
template <typename T>
void ReadWord(OptionReader& reader, std::string_view key, T* value,
              const std::vector<std::pair<std::string_view, T>>& words, std::string_view help) {
  std::vector<std::string_view> allowed;
  std::string word;
  for (const auto& [name, meaning] : words) {
    allowed.push_back(name);
    if (meaning == *value) word = name;
  }
  reader.Read(key, &word, allowed, help);
  for (const auto& [name, meaning] : words) {
    if (name == word) *value = meaning;
  }
}

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_READ_OPTIONS_H_
