#include "tools/cli/importing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <variant>

#include "datasets/importers/kineto.h"
#include "experiments/validation/replay.h"
#include "sim/base/check.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_text.h"
#include "sim/base/json_value.h"
#include "sim/base/terminal.h"
#include "tools/cli/numbers.h"
#include "tools/cli/problem.h"

namespace emplace::tools {

namespace {

// A SavedModel of TensorFlow is a folder with the graph in a file of this name.
std::string FileOfModel(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return path;
  for (const char* const name : {"saved_model.pb", "saved_model.pbtxt"}) {
    const std::filesystem::path file = std::filesystem::path(path) / name;
    if (std::filesystem::exists(file, error)) return file.string();
  }
  throw InputError(path, "is a folder without saved_model.pb (a file, or the folder of a SavedModel)");
}

}  // namespace

ImportedFiles ImportFiles(const std::vector<std::string>& files, const std::string& format,
                          const datasets::ImportOptions& options) {
  for (auto file = files.begin(); file != files.end(); ++file) {
    if (std::find(files.begin(), file, *file) != file) throw InputError(*file, "is given twice (each file once)");
  }
  std::vector<datasets::ImportSource> sources;
  sources.reserve(files.size());
  for (const std::string& file : files) sources.emplace_back(FileOfModel(file));
  const auto find = [&] { return &datasets::FindImporter(format, sources.front().head(), files.front()); };
  const datasets::ImporterEntry& importer = *(format.empty() ? find() : WithLocation("--from", find));
  return {importer, datasets::Import(importer, sources, options)};
}

std::string UnexplainedText(double simulated_micros, double measured_micros) {
  const double percent = experiments::UnexplainedPercent(simulated_micros, measured_micros);
  return fmt::format("{}the simulated step takes {}, the measured one {}: {} of it is not explained",
                     datasets::UnexplainedWarning(percent), HumanReadableMicros(simulated_micros),
                     HumanReadableMicros(measured_micros), datasets::UnexplainedShare(percent));
}

void RepeatUnexplained(const Graph& graph, const std::string& file) {
  if (graph.metadata().find("\"unexplained_percent\"") == std::string::npos) return;
  const JsonValue metadata = ParseJson(graph.metadata());
  const JsonValue* const measured = FindMember(metadata, "measured");
  if (measured == nullptr) return;
  const auto number = [&](std::string_view key) -> std::optional<double> {
    const JsonValue* const value = FindMember(*measured, key);
    if (value == nullptr) return std::nullopt;
    if (const double* const real = std::get_if<double>(&value->data)) return *real;
    if (const std::int64_t* const whole = std::get_if<std::int64_t>(&value->data)) return static_cast<double>(*whole);
    return std::nullopt;
  };
  const auto simulated = number("simulated_step_time_us");
  const auto step = number("step_time_us");
  if (!simulated || !step) return;
  PrintMessage(fmt::format("{}: of the trace that it was imported from, {}", file, UnexplainedText(*simulated, *step)));
}

void AddStepOption(CLI::App& app, std::string* step, bool mean) {
  const auto check = [mean](const std::string& text) -> std::string {
    const bool is_number =
        !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
    if (is_number || text == "all" || (mean && text == "mean")) return "";
    return fmt::format("is {} (a number N of ProfilerStep#N, {})", Quoted(text), mean ? "all or mean" : "or all");
  };
  app.add_option("--step", *step,
                 mean ? "Step to use if a trace has several (ProfilerStep#N): its number, all as one, or the mean over "
                        "all (default: the median one)"
                      : "Step to use if a trace has several (ProfilerStep#N): its number, or all as one (default: the "
                        "median one)")
      ->type_name(mean ? "N|all|mean" : "N|all")
      ->check(CLI::Validator(check, "", "step"));
}

void AddMinAttributedOption(CLI::App& app, double* percent) {
  app.add_option("--min-attributed", *percent,
                 "Refuse a trace in which less than this percentage of the device time has a known cause")
      ->type_name("PERCENT")
      ->capture_default_str()
      ->transform(NumberFrom(0, 100));
}

}  // namespace emplace::tools
