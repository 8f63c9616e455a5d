#include "experiments/shipped_tables.h"

#include "sim/base/check.h"

namespace emplace::experiments {
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

}  // namespace emplace::experiments
