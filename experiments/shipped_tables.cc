#include "experiments/shipped_tables.h"

#include <fmt/format.h>

#include "sim/base/check.h"
#include "sim/base/json_fields.h"

namespace emplace {
namespace {

struct Shipped {
  std::string_view name;
  std::string_view yaml;
};
constexpr Shipped kShipped[] = {
#include "shipped_tables.inc"
};

}  // namespace

std::optional<std::string_view> FindShippedTable(std::string_view name) {
  for (const Shipped& shipped : kShipped) {
    if (shipped.name == name) return shipped.yaml;
  }
  return std::nullopt;
}

std::string_view ShippedTable(std::string_view name) {
  const std::optional<std::string_view> found = FindShippedTable(name);
  EMPLACE_CHECK(found.has_value());
  return *found;
}

OptionMap OptionsFromFields(const JsonValue& value, const std::string& place) {
  const auto* members = value.As<JsonObject>();
  if (members == nullptr) throw InputError(place, "is no object (option: value)");
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
      throw InputError(place + "." + member.key, "is no plain value (a string, a number, true or false)");
    }
    options.emplace(member.key, std::move(text));
  }
  return options;
}

}  // namespace emplace
