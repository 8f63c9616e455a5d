#include "sim/base/json_options.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "sim/base/check.h"

namespace emplace {
namespace {

JsonValue IntegerOrText(const std::string& text) {
  std::int64_t integer = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, integer);
  if (error == std::errc() && rest == end && std::to_string(integer) == text) return {integer};
  return {text};
}

}  // namespace

OptionMap OptionsFromFields(const JsonValue& value, const std::string& place) {
  const auto* members = value.As<JsonObject>();
  if (members == nullptr) throw InputError(place, "is not an object (option: value)");
  OptionMap options;
  for (const JsonMember& member : *members) {
    std::string text;
    if (const auto* string = member.value.As<std::string>()) {
      text = *string;
    } else if (const auto* integer = member.value.As<std::int64_t>()) {
      text = fmt::format("{}", *integer);
    } else if (const auto* real = member.value.As<double>()) {
      text = fmt::format("{}", *real);
    } else if (const auto* truth = member.value.As<bool>()) {
      text = *truth ? "true" : "false";
    } else {
      throw InputError(place + "." + member.key, "is not a plain value (a string, a number, true or false)");
    }
    options.emplace(member.key, std::move(text));
  }
  return options;
}

JsonObject OptionsToJson(const OptionMap& options, bool integers) {
  JsonObject object;
  for (const auto& [key, text] : options) object.push_back({key, integers ? IntegerOrText(text) : JsonValue{text}});
  return object;
}

}  // namespace emplace
