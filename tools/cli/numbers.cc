#include "tools/cli/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <string>
#include <system_error>

#include "sim/base/json_text.h"

namespace emplace::tools {
namespace {

// Parses the whole of `text` as a number from low to high.
template <typename T>
bool IsNumberFrom(const std::string& text, T low, T high, T* number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && rest == end && *number >= low && *number <= high;
}

}  // namespace

CLI::Validator IntegerFrom(std::uint64_t low, std::uint64_t high) {
  const auto check = [low, high](std::string& text) -> std::string {
    std::uint64_t number = 0;
    if (!IsNumberFrom(text, low, high, &number)) {
      const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
      if (!is_number && high == std::numeric_limits<std::uint64_t>::max()) {
        return fmt::format("is {} (an integer of {} or more)", Quoted(text), low);
      }
      return fmt::format("is {} (an integer from {} to {})", Quoted(text), low, high);
    }
    text = std::to_string(number);
    return "";
  };
  return CLI::Validator(check, "", "integer");
}

CLI::Validator NumberFrom(double low, double high) {
  const auto check = [low, high](std::string& text) -> std::string {
    double number = 0;
    if (IsNumberFrom(text, low, high, &number)) return "";
    return fmt::format("is {} (a number from {} to {})", Quoted(text), NumberText(low), NumberText(high));
  };
  return CLI::Validator(check, "", "number");
}

CLI::Validator NotEmpty() {
  const auto check = [](std::string& text) -> std::string { return text.empty() ? "is empty (a value)" : ""; };
  return CLI::Validator(check, "", "not empty");
}

}  // namespace emplace::tools
