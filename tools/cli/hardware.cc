#include "tools/cli/hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/terminal.h"
#include "tools/cli/numbers.h"
#include "tools/cli/problem.h"

namespace emplace::tools {

OpenDevices::OpenDevices(const std::string& names) {
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    if (name.empty()) throw InputError("--devices", "\"" + names + "\" has an empty name (cpu:0,cpu:1)");
    for (const profiler::HardwareDevice* const device : devices_) {
      if (device->name() == name) throw InputError("--devices", "\"" + name + "\" is named twice (each device once)");
    }
    owned_.push_back(WithLocation("--devices", [&] { return profiler::TorchHardware().Open(name); }));
    devices_.push_back(owned_.back().get());
    begin = end + 1;
  }
}

std::vector<profiler::NamedDevice> OpenDevices::Named() const {
  std::vector<profiler::NamedDevice> named;
  for (const profiler::HardwareDevice* const device : devices_) named.push_back(profiler::NamedAfter(*device));
  return named;
}

void AddMaxErrorOption(CLI::App& app, std::optional<double>* percent) {
  app.add_option("--max-error", *percent,
                 "With --validate-every: exit with status 1 if the median error of the corrected step times is over "
                 "this percentage")
      ->type_name("PERCENT")
      ->transform(NumberFrom(0, 1e9));
}

void CheckMaxError(const ProblemOptions& problem, const std::optional<double>& percent) {
  if (percent && !problem.settings.Validates()) {
    throw InputError("--max-error", "is used without --validate-every (--validate-every N)");
  }
}

int StatusOfValidation(const experiments::PeriodicValidation& validation, const std::optional<double>& percent,
                       const std::string& graph_file) {
  const std::optional<double> error = validation.Summarise().error_after;
  if (!percent || (error && 100 * *error <= *percent)) return kSuccess;
  PrintMessage(fmt::format(
      "{}: the simulator cannot be believed here: after correction, the median error of its step "
      "times is {}, over --max-error {} %",
      graph_file, error ? fmt::format("{:.1f} %", 100 * *error) : "unknown (nothing measured fits)", *percent));
  return kNotFound;
}

nlohmann::ordered_json ValidationJson(const experiments::PeriodicValidation& validation, double simulator_seconds) {
  const experiments::ValidationSummaryOfSearch summary = validation.Summarise();
  nlohmann::ordered_json json = {{"measurements", summary.measurements},
                                 {"placements", summary.placements},
                                 {"hardware_s", summary.hardware_seconds},
                                 {"simulator_s", simulator_seconds}};
  if (summary.error_before) {
    json["median_error_before_percent"] = 100 * *summary.error_before;
    json["median_error_after_percent"] = 100 * *summary.error_after;
  }
  if (summary.best_measured_micros) json["measured_step_time_us"] = *summary.best_measured_micros;
  nlohmann::ordered_json factors = nlohmann::ordered_json::array();
  for (const auto& [what, factor, runs] : validation.Factors()) {
    factors.push_back({{"what", what}, {"factor", factor}, {"runs", runs}});
  }
  json["corrections"] = std::move(factors);
  return json;
}

Profile LoadProfile(const std::string& path) { return ReadProfile(*OpenForReading(path, InputKind::kProfile), path); }

}  // namespace emplace::tools
