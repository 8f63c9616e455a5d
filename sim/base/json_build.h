#ifndef EMPLACE_SIM_BASE_JSON_BUILD_H_
#define EMPLACE_SIM_BASE_JSON_BUILD_H_

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/json_value.h"

namespace emplace {

// Helpers to build JSON files of results. Integers are int64 where they fit, as readers have them.
inline JsonValue ToJson(std::string_view text) { return {std::string(text)}; }
inline JsonValue ToJson(const char* text) { return {std::string(text)}; }
inline JsonValue ToJson(bool flag) { return {flag}; }
inline JsonValue ToJson(double number) { return {number}; }
template <std::integral Integer>
requires(!std::same_as<Integer, bool>) JsonValue ToJson(Integer number) {
  if (std::in_range<std::int64_t>(number)) return {static_cast<std::int64_t>(number)};
  return {static_cast<std::uint64_t>(number)};
}
// null where there is none.
inline JsonValue ToJson(const std::optional<double>& number) {
  return number ? ToJson(*number) : JsonValue{std::monostate()};
}
inline JsonValue ToJson(JsonObject object) { return {std::move(object)}; }
inline JsonValue ToJson(JsonList list) { return {std::move(list)}; }
inline JsonValue ToJson(JsonValue value) { return value; }

template <typename T>
void AddMember(JsonObject* object, std::string_view key, T&& value) {
  object->push_back({std::string(key), ToJson(std::forward<T>(value))});
}

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_JSON_BUILD_H_
