#ifndef EMPLACE_TOOLS_CLI_HARDWARE_H_
#define EMPLACE_TOOLS_CLI_HARDWARE_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/validation/periodic_validation.h"
#include "profiler/hardware.h"
#include "profiler/measure/machine_cluster.h"
#include "sim/profile.h"
#include "tools/cli/problem.h"

namespace emplace::tools {

// Opens the devices of --devices, in that order.
class OpenDevices {
 public:
  // `names`: comma-separated. Throws InputError on an empty or repeated name and on a device that does not exist.
  explicit OpenDevices(const std::string& names);

  const std::vector<profiler::HardwareDevice*>& devices() const { return devices_; }
  std::vector<profiler::NamedDevice> Named() const;

 private:
  std::vector<std::unique_ptr<profiler::HardwareDevice>> owned_;
  std::vector<profiler::HardwareDevice*> devices_;
};

// --max-error of commands with --validate-every, in percent.
void AddMaxErrorOption(CLI::App& app, std::optional<double>* percent);
// Throws InputError on --max-error without --validate-every.
void CheckMaxError(const ProblemOptions& problem, const std::optional<double>& percent);
// 1 if the median error of the corrected simulator is over the limit, or nothing that was measured fits, with a message
// that says so; else 0.
int StatusOfValidation(const experiments::PeriodicValidation& validation, const std::optional<double>& percent,
                       const std::string& graph_file);
nlohmann::ordered_json ValidationJson(const experiments::PeriodicValidation& validation, double simulator_seconds);

// Reads a profile.json. The path of an InputError is the file.
Profile LoadProfile(const std::string& path);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_HARDWARE_H_
