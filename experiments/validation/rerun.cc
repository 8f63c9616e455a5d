#include "experiments/validation/rerun.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"

namespace emplace::experiments {
namespace {

constexpr double kMostStepMicros = 1e12;

}  // namespace

std::map<std::string, EarlierCase> ReadValidation(std::istream& in) {
  const JsonValue root = ParseJson(in, {}, JsonLimitsOf(InputKind::kMeasurement));
  const JsonNode node(root);
  CheckSchema(node, "emplace.validation");
  const JsonNode list = NeedMember(node, "cases", "a list of placements");
  const JsonList& cases = list.List();
  std::map<std::string, EarlierCase> earlier;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const JsonNode one(list, i, cases[i]);
    one.Object();
    if (FindMember(one.value(), "measured_us") == nullptr) continue;  // it did not fit
    const auto micros = [&](std::string_view key) {
      return NeedMember(one, key, "us").Number(0, kMostStepMicros, "us, 0 to 1e12");
    };
    const std::string& label = NeedMember(one, "label", "a name").Text();
    earlier[label] = {.simulated_micros = micros("simulated_us"), .measured_micros = micros("measured_us")};
  }
  return earlier;
}

std::optional<StepErrors> CompareWithEarlier(const std::map<std::string, EarlierCase>& earlier,
                                             std::span<const ValidationCase> cases) {
  std::vector<double> before;
  std::vector<double> now;
  for (const ValidationCase& one : cases) {
    const auto found = earlier.find(one.label);
    if (found == earlier.end() || !one.measured.result.fits_memory) continue;
    constexpr double kSame = 1e-9;
    if (std::abs(found->second.simulated_micros - one.simulated.micros) > kSame * one.simulated.micros) {
      throw InputError("cases", fmt::format("{} took {} us in the simulator, now {} us (the same placements, simulated "
                                            "with the same profile)",
                                            one.label, NumberText(found->second.simulated_micros),
                                            NumberText(one.simulated.micros)));
    }
    before.push_back(found->second.measured_micros);
    now.push_back(one.measured.result.step_time_micros);
  }
  if (now.empty()) return std::nullopt;
  return CompareSteps(before, now);
}

}  // namespace emplace::experiments
