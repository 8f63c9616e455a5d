#ifndef EMPLACE_SIM_BASE_REGISTRY_H_
#define EMPLACE_SIM_BASE_REGISTRY_H_

#include <algorithm>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/suggestion.h"

namespace emplace {

// The names of `rows`, or the rows themselves if they are text.
template <typename Rows>
std::vector<std::string> NamesOf(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) {
    if constexpr (requires { row.name; }) {
      names.emplace_back(row.name);
    } else {
      names.emplace_back(row);
    }
  }
  return names;
}

// The same for messages: "a, b, c".
template <typename Rows>
std::string Listed(const Rows& rows) {
  std::string listed;
  for (const std::string& name : NamesOf(rows)) listed += (listed.empty() ? "" : ", ") + name;
  return listed;
}

// The row with this name. Throws InputError(place) that lists the known names; `what` is what a row is: "agent".
template <std::ranges::borrowed_range Rows>
const auto& FindByName(Rows&& rows, std::string_view name, const std::string& what, const std::string& place = "") {
  const auto found = std::ranges::find_if(rows, [name](const auto& row) { return row.name == name; });
  if (found != std::ranges::end(rows)) return *found;
  throw InputError(
      place, "unknown " + what + " " + Quoted(name) + " (" + Listed(rows) + ")" + DidYouMean(name, NamesOf(rows)));
}

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_REGISTRY_H_
