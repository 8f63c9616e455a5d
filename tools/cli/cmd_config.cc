// emplace config: the defaults of options, and the files that they are from.

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/exit_status.h"
#include "sim/base/printable.h"
#include "sim/base/table.h"
#include "tools/cli/commands.h"
#include "tools/cli/defaults.h"

namespace emplace::tools {
namespace {

struct ConfigRow {
  std::string option;
  std::string value;
  std::string from;  // a file; "": built in
};

std::vector<ConfigRow> ConfigRows(const Defaults& defaults) {
  const auto row = [](const std::string& option, const auto& given, const std::string& built_in) -> ConfigRow {
    return given ? ConfigRow{option, fmt::format("{}", given->value), given->file} : ConfigRow{option, built_in, ""};
  };
  return {row("cluster", defaults.cluster, "none: --cluster is required"),
          row("costs", defaults.costs,
              "measured where every op has a time, else curves where all accelerators have them, else roofline"),
          row("threads", defaults.threads, "one for each core")};
}

int Run(bool json) {
  const std::vector<ConfigRow> rows = ConfigRows(LoadDefaults());
  if (json) {
    nlohmann::ordered_json document = {{"schema", "emplace.config"}, {"version", 1}, {"files", DefaultsFiles()}};
    for (const ConfigRow& row : rows) {
      document[row.option] = {
          {"value", row.from.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(row.value)},
          {"file", row.from.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(row.from)}};
    }
    std::cout << document.dump(1) << '\n';
    return kSuccess;
  }
  Table table({"option", "default", "from"});
  for (const ConfigRow& row : rows) {
    table.Add({"--" + row.option, Printable(row.value), row.from.empty() ? "built in" : Printable(row.from)});
  }
  table.PrintText(std::cout);
  std::cout << "\nfiles, the first before the second:\n";
  for (const std::string& file : DefaultsFiles()) {
    std::error_code ignored;
    const bool is_there = std::filesystem::is_regular_file(file, ignored);
    std::cout << fmt::format("  {}{}\n", Printable(file), is_there ? "" : " (not there)");
  }
  return kSuccess;
}

}  // namespace

Command AddConfig(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("config", "Show the defaults of cluster, costs and threads that emplace.yaml sets");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print as JSON (emplace.config)");
  return {command, [json] { return Run(*json); }};
}

}  // namespace emplace::tools
