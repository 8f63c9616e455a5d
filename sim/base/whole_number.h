#ifndef EMPLACE_SIM_BASE_WHOLE_NUMBER_H_
#define EMPLACE_SIM_BASE_WHOLE_NUMBER_H_

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace emplace {

// The number that the whole of `text` is, as our writers write it: nothing before or behind it, no plus sign, and no
// leading zeros. nullopt otherwise, and if the type does not hold it.
template <typename T>
std::optional<T> WholeNumber(std::string_view text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(number)) return std::nullopt;
  }
  if (text.front() == '-') text.remove_prefix(1);
  const bool has_leading_zero = text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
  return has_leading_zero ? std::nullopt : std::optional(number);
}

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_WHOLE_NUMBER_H_
