#include "sim/base/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"

namespace emplace {
namespace {

// The whole of `text` as a number.
template <typename T>
bool ParseNumber(const std::string& text, T* number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && rest == end;
}

}  // namespace

void AddSetting(std::string_view setting, const std::string& place, OptionMap* map) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw InputError(place, Quoted(setting) + " is not a setting (key=value)");
  }
  std::string key(setting.substr(0, equals));
  if (map->contains(key)) throw InputError(place, Quoted(key) + " is set twice (once)");
  map->emplace(std::move(key), setting.substr(equals + 1));
}

NamedOptions ParseNamedOptions(std::string_view text) {
  const std::size_t colon = text.find(':');
  NamedOptions named{.name = std::string(text.substr(0, colon)), .options = {}};
  for (std::size_t end = colon; end != std::string_view::npos;) {
    const std::size_t begin = end + 1;
    end = text.find(',', begin);
    AddSetting(text.substr(begin, end - begin), named.name, &named.options);
  }
  return named;
}

OptionReader::OptionReader(const OptionMap& values, std::string owner) : values_(values), owner_(std::move(owner)) {}

const std::string* OptionReader::Find(std::string_view key, std::string default_value, std::string_view help) {
  declared_.push_back({std::string(key), std::move(default_value), std::string(help)});
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void OptionReader::Refuse(std::string_view key, const std::string& value, const std::string& expected) const {
  throw InputError(owner_ + "." + std::string(key), "is " + Quoted(value) + " (" + expected + ")");
}

void OptionReader::RefuseRange(std::string_view key, const std::string& value, const std::string& low,
                               const std::string& high) const {
  throw InputError(owner_, std::string(key) + " must be " + low + ".." + high + ", got " + value);
}

void OptionReader::Read(std::string_view key, std::int64_t* value, std::int64_t low, std::int64_t high,
                        std::string_view help) {
  const std::string* text = Find(key, std::to_string(*value), help);
  if (text == nullptr) return;
  std::int64_t number = 0;
  if (!ParseNumber(*text, &number)) {
    Refuse(key, *text, "an integer from " + std::to_string(low) + " to " + std::to_string(high));
  }
  if (number < low || number > high) RefuseRange(key, *text, std::to_string(low), std::to_string(high));
  *value = number;
}

void OptionReader::Read(std::string_view key, double* value, double low, double high, std::string_view help) {
  const std::string* text = Find(key, NumberText(*value), help);
  if (text == nullptr) return;
  double number = 0;
  if (!ParseNumber(*text, &number) || !std::isfinite(number)) {
    Refuse(key, *text, "a number from " + NumberText(low) + " to " + NumberText(high));
  }
  if (number < low || number > high) RefuseRange(key, *text, NumberText(low), NumberText(high));
  *value = number;
}

void OptionReader::Read(std::string_view key, std::optional<double>* value, double low, double high,
                        std::string_view unset, std::string_view help) {
  const std::string* text = Find(key, *value ? NumberText(**value) : std::string(unset), help);
  if (text == nullptr) return;
  value->reset();
  if (*text == unset) return;
  double number = 0;
  if (!ParseNumber(*text, &number) || !std::isfinite(number)) {
    Refuse(key, *text, "a number from " + NumberText(low) + " to " + NumberText(high) + ", or " + std::string(unset));
  }
  if (number < low || number > high) RefuseRange(key, *text, NumberText(low), NumberText(high));
  *value = number;
}

void OptionReader::Read(std::string_view key, bool* value, std::string_view help) {
  const std::string* text = Find(key, *value ? "true" : "false", help);
  if (text == nullptr) return;
  if (*text != "true" && *text != "false") Refuse(key, *text, "true or false");
  *value = *text == "true";
}

void OptionReader::Read(std::string_view key, std::string* value, const std::vector<std::string_view>& allowed,
                        std::string_view help) {
  const std::string* text = Find(key, *value, help);
  if (text == nullptr) return;
  const bool known = allowed.empty() || std::find(allowed.begin(), allowed.end(), *text) != allowed.end();
  if (!known) Refuse(key, *text, Listed(allowed));
  *value = *text;
}

void OptionReader::Finish() const {
  for (const auto& [key, value] : values_) {
    std::vector<std::string> known;
    for (const Declared& option : declared_) known.emplace_back(option.key);
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw InputError(owner_ + "." + key, "unknown option (" + (known.empty() ? owner_ + " has none" : Listed(known)) +
                                             ")" + DidYouMean(key, known));
  }
}

}  // namespace emplace
