#ifndef EMPLACE_SIM_BASE_JSON_STRUCT_H_
#define EMPLACE_SIM_BASE_JSON_STRUCT_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_build.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_options.h"
#include "sim/base/json_value.h"
#include "sim/base/options.h"

namespace emplace {

// A struct that is an object in a JSON file lists its fields once, in the order of the file. The list both writes the
// struct (FieldsToJson) and reads it (ReadFields):
//   struct Point {
//     double x = 0;
//     std::optional<double> y;  // null in the file if there is none
//     static void Fields(auto& visit, auto& self) {
//       visit("x", self.x, {.low = -5, .high = 5});
//       visit("y", self.y);
//     }
//   };
// A field is a number, a text, a flag, an enum with EnumNames, a struct with such a list, an OptionMap, any JsonValue,
// or a vector, a pair or an optional of these. A reader has filled the fields before when it comes to the next, so that
// rules may depend on them.
struct FieldRule {
  bool optional = false;          // the reader accepts a file without it
  bool written = true;            // false: the writer leaves it out
  std::string_view needed = {};   // the hint where it is missing
  std::string_view allowed = {};  // the hint where the value is wrong; "": made from the bounds
  double low = 0;                 // bounds of a number
  double high = 1e18;
  std::int64_t most = std::int64_t{1} << 62;  // largest value of an integer; the smallest is 0
  bool null_if_empty = false;                 // an empty text is null in the file
  bool not_empty = false;                     // a text or list that is empty is refused
  bool integers = false;                      // options that are integers are written as such
  std::string_view word = {};                 // a flag is this text in the file, or missing
  std::string_view unless = {};               // not needed beside this key
  std::string_view own_place = {};            // errors are said to be in this object, of which the field is the root
};

// The names of an enum in files. A specialisation has `kNames`, an array of pairs of value and name, and `kAllowed`,
// all names in one text.
template <typename Enum>
struct EnumNames;

template <typename Enum>
constexpr std::string_view NameOf(Enum value) {
  for (const auto& [known, name] : EnumNames<Enum>::kNames) {
    if (known == value) return name;
  }
  return {};
}

template <typename Enum>
std::optional<Enum> EnumOfName(std::string_view text) {
  for (const auto& [value, name] : EnumNames<Enum>::kNames) {
    if (text == name) return value;
  }
  return std::nullopt;
}

template <typename Enum>
Enum ReadEnum(const JsonNode& node) {
  const std::optional<Enum> value = EnumOfName<Enum>(node.Text());
  if (!value) node.Refuse(EnumNames<Enum>::kAllowed);
  return *value;
}

namespace internal {

struct AnyVisitor {
  void operator()(std::string_view, const auto&, const FieldRule& = {}) {}
};
template <typename T>
concept HasFields = requires(T& value, AnyVisitor& visit) {
  T::Fields(visit, value);
};
template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <typename T>
inline constexpr bool kIsPair = false;
template <typename A, typename B>
inline constexpr bool kIsPair<std::pair<A, B>> = true;
template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

struct FieldWriter {
  JsonObject* out;

  template <typename T>
  void operator()(std::string_view key, const T& value, const FieldRule& rule = {}) {
    if (rule.written) AddMember(out, key, Value(value, rule));
  }

  template <typename T>
  static JsonValue Value(const T& value, const FieldRule& rule) {
    if constexpr (HasFields<const T>) {
      JsonObject object;
      FieldWriter writer{&object};
      T::Fields(writer, value);
      return {std::move(object)};
    } else if constexpr (kIsVector<T>) {
      JsonList list;
      for (const auto& element : value) list.push_back(Value(element, rule));
      return {std::move(list)};
    } else if constexpr (kIsPair<T>) {
      return {JsonList{Value(value.first, rule), Value(value.second, rule)}};
    } else if constexpr (kIsOptional<T>) {
      return value ? Value(*value, rule) : JsonValue{};
    } else if constexpr (std::is_enum_v<T>) {
      return ToJson(NameOf(value));
    } else if constexpr (std::same_as<T, OptionMap>) {
      return {OptionsToJson(value, rule.integers)};
    } else if constexpr (std::same_as<T, std::string>) {
      return rule.null_if_empty && value.empty() ? JsonValue{} : ToJson(value);
    } else if constexpr (std::same_as<T, bool>) {
      return rule.word.empty() ? ToJson(value) : ToJson(rule.word);
    } else {
      return ToJson(value);
    }
  }
};

struct FieldCollector {
  std::vector<std::string_view> keys;
  void operator()(std::string_view key, const auto&, const FieldRule& = {}) { keys.push_back(key); }
};

template <typename T>
void ReadField(const JsonNode& node, const FieldRule& rule, T* value);

struct FieldReader {
  const JsonNode& object;
  const JsonFields& fields;

  template <typename T>
  void operator()(std::string_view key, T& value, const FieldRule& rule = {}) {
    if (const auto node = fields.Find(key)) return ReadField(*node, rule, &value);
    if (rule.optional || (!rule.unless.empty() && fields.Find(rule.unless))) return;
    const std::string hint = rule.needed.empty() ? "" : " (" + std::string(rule.needed) + ")";
    throw InputError(PlaceOfKey(object.Place(), key), "is missing" + hint);
  }
};

template <typename T>
void ReadOptional(const JsonNode& node, const FieldRule& rule, std::optional<T>* value) {
  const bool is_null = std::same_as<T, double> && node.value().As<std::monostate>() != nullptr;
  if (!is_null) ReadField(node, rule, &value->emplace());
}
template <typename T>
void ReadList(const JsonNode& node, const FieldRule& rule, std::vector<T>* values) {
  const JsonList& list = node.List();
  if (rule.not_empty && list.empty()) node.Refuse(rule.allowed);
  for (std::size_t i = 0; i < list.size(); ++i) ReadField(JsonNode(node, i, list[i]), rule, &values->emplace_back());
}
template <typename A, typename B>
void ReadPair(const JsonNode& node, const FieldRule& rule, std::pair<A, B>* pair) {
  const JsonList& list = node.List(rule.allowed);
  if (list.size() != 2) node.Refuse(rule.allowed);
  ReadField(JsonNode(node, 0, list[0]), {}, &pair->first);
  ReadField(JsonNode(node, 1, list[1]), {}, &pair->second);
}

}  // namespace internal

template <typename T>
JsonObject FieldsToJson(const T& value) {
  return std::get<JsonObject>(internal::FieldWriter::Value(value, FieldRule{}).data);
}

// Refuses keys that are not in the list, and an object without one that it needs. `before` and `after` are further keys
// of the object, which the caller reads.
template <typename T>
T ReadFields(const JsonNode& node, const std::vector<std::string_view>& before = {},
             const std::vector<std::string_view>& after = {}) {
  T value;
  internal::FieldCollector collector{.keys = before};
  T::Fields(collector, value);
  collector.keys.insert(collector.keys.end(), after.begin(), after.end());
  const JsonFields fields(node, collector.keys);
  internal::FieldReader reader{node, fields};
  T::Fields(reader, value);
  return value;
}

namespace internal {

template <typename T>
void ReadField(const JsonNode& node, const FieldRule& rule, T* value) {
  if constexpr (HasFields<T>) {
    const auto read = [&] {
      return rule.own_place.empty() ? ReadFields<T>(node) : ReadFields<T>(JsonNode(node.value()));
    };
    *value = WithLocation(std::string(rule.own_place), read);
  } else if constexpr (kIsVector<T>) {
    ReadList(node, rule, value);
  } else if constexpr (kIsPair<T>) {
    ReadPair(node, rule, value);
  } else if constexpr (std::is_enum_v<T>) {
    *value = ReadEnum<T>(node);
  } else if constexpr (std::same_as<T, JsonValue>) {
    *value = node.value();
  } else if constexpr (std::same_as<T, std::string>) {
    const bool absent = rule.null_if_empty && node.value().template As<std::monostate>() != nullptr;
    *value = absent ? "" : rule.not_empty ? node.NonEmptyText() : node.Text();
  } else if constexpr (std::same_as<T, OptionMap>) {
    *value = OptionsFromFields(node.value(), node.Place());
  } else if constexpr (std::same_as<T, bool>) {
    *value = !rule.word.empty() || node.Flag();
  } else if constexpr (std::same_as<T, double>) {
    *value = node.Number(rule.low, rule.high, rule.allowed);
  } else if constexpr (std::integral<T>) {
    *value = static_cast<T>(node.Integer(0, rule.most, rule.allowed));
  } else {
    ReadOptional(node, rule, value);
  }
}

}  // namespace internal

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_JSON_STRUCT_H_
