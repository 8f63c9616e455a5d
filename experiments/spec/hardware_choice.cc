#include "experiments/spec/hardware_choice.h"

#include <array>
#include <utility>

#include "sim/base/check.h"

namespace emplace {
namespace {

constexpr std::array<std::pair<RewardSource, std::string_view>, 3> kNames = {
    {{RewardSource::kSimulator, "simulator"}, {RewardSource::kHardware, "hardware"}, {RewardSource::kMixed, "mixed"}}};

}  // namespace

std::string_view Name(RewardSource source) {
  for (const auto& [value, name] : kNames) {
    if (value == source) return name;
  }
  return "";
}

std::optional<RewardSource> RewardSourceFromName(std::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

void RefuseSeveralGraphs(bool together, bool transfer) {
  if (!together && !transfer) return;
  throw InputError(together ? "graphs.together" : "transfer", "does not go with real devices (one graph at a time)");
}

}  // namespace emplace
