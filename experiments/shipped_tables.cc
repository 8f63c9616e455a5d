#include "experiments/shipped_tables.h"

#include <algorithm>
#include <span>

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
constexpr Shipped kExperiments[] = {
#include "shipped_experiments.inc"
};

std::optional<std::string_view> FindAmong(std::span<const Shipped> files, std::string_view name) {
  for (const Shipped& shipped : files) {
    if (shipped.name == name) return shipped.yaml;
  }
  return std::nullopt;
}

bool NamesATable(const Shipped& experiment) { return experiment.yaml.find("\npublished: ") != std::string_view::npos; }

}  // namespace

std::optional<std::string_view> FindShippedTable(std::string_view name) { return FindAmong(kShipped, name); }

std::string_view ShippedTable(std::string_view name) {
  const std::optional<std::string_view> found = FindShippedTable(name);
  EMPLACE_CHECK(found.has_value());
  return *found;
}

std::vector<std::string_view> PublishedTableNames() {
  std::vector<std::string_view> names;
  for (const Shipped& shipped : kShipped) {
    if (shipped.yaml.find("schema: emplace.published\n") != std::string_view::npos) names.push_back(shipped.name);
  }
  return names;
}

std::optional<std::string_view> FindReproducedExperiment(std::string_view name) {
  const std::vector<std::string_view> names = ReproducedExperimentNames();
  if (std::find(names.begin(), names.end(), name) == names.end()) return std::nullopt;
  return FindAmong(kExperiments, name);
}

std::vector<std::string_view> ReproducedExperimentNames() {
  std::vector<std::string_view> names;
  for (const Shipped& shipped : kExperiments) {
    if (NamesATable(shipped)) names.push_back(shipped.name);
  }
  return names;
}

}  // namespace emplace::experiments
