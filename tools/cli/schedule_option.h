#ifndef EMPLACE_TOOLS_CLI_SCHEDULE_OPTION_H_
#define EMPLACE_TOOLS_CLI_SCHEDULE_OPTION_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <optional>
#include <string>

#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_evaluator.h"

namespace emplace::tools {

// --schedule and --micro-batches of simulate, place and compare.
struct ScheduleOptions {
  std::string name = "none";  // a schedule, or a file
  std::optional<std::size_t> micro_batches;
  mutable std::optional<ScheduleChoice> loaded;  // read once, as the file may be standard input

  bool any() const { return name != "none"; }
};
void AddScheduleOptions(CLI::App& app, ScheduleOptions* options);

// The file of --schedule; "" if it is a name.
std::string ScheduleFile(const ScheduleOptions& options);

// What is wrong is said before any file is read. `timeline`: of --timeline; "" if there is none.
void CheckScheduleOptions(const ScheduleOptions& options, const std::string& engine, const std::string& collectives,
                          const std::string& timeline);

// Requires: options.any(), and CheckScheduleOptions passed.
const ScheduleChoice& LoadScheduleChoice(const ScheduleOptions& options);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_SCHEDULE_OPTION_H_
