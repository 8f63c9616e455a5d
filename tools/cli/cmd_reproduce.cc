#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "datasets/families/families.h"
#include "experiments/report/comparison_document.h"
#include "experiments/report/reproduced_rows.h"
#include "experiments/shipped_tables.h"
#include "experiments/validation/calibration.h"
#include "experiments/validation/family_table.h"
#include "experiments/validation/network_table.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"
#include "sim/base/table.h"
#include "sim/device_catalog.h"
#include "tools/cli/commands.h"
#include "tools/cli/numbers.h"
#include "tools/cli/problem.h"

namespace emplace::tools {
namespace {

struct ReproduceOptions {
  std::string what;
  std::string row;
  std::string file;
  bool list = false;
  std::vector<std::uint64_t> seeds;
  std::size_t jobs = 0;
  std::vector<std::string> outputs;
};

std::unique_ptr<std::istream> Open(const ReproduceOptions& options, std::string_view shipped) {
  if (!options.file.empty()) return OpenForReading(options.file, InputKind::kPublished);
  return std::make_unique<std::istringstream>(std::string(experiments::ShippedTable(shipped)));
}

std::string NameOfFile(const ReproduceOptions& options, std::string_view shipped) {
  return options.file.empty() ? fmt::format("{}.yaml", shipped) : options.file;
}

std::string SettingsText(const OptionMap& settings) {
  std::string text;
  for (const auto& [key, value] : settings) text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  return text;
}

// Ours, published, and the difference in percent.
void AddPair(std::vector<std::string>* row, std::optional<double> ours, std::optional<double> published, double unit,
             int digits) {
  row->push_back(ours ? fmt::format("{:.{}f}", *ours / unit, digits) : "");
  row->push_back(published ? fmt::format("{:.{}f}", *published / unit, digits) : "");
  row->push_back(ours && published ? fmt::format("{:+.1f}", 100 * (*ours / *published - 1)) : "");
}

experiments::ComparisonDocument Models(const ReproduceOptions& options) {
  constexpr std::string_view kShipped = "networks";
  const auto in = Open(options, kShipped);
  const std::vector<experiments::PublishedNetwork> networks =
      experiments::ReadPublishedNetworks(*in, NameOfFile(options, kShipped));
  Table table({"model", "emplace generate", "ops", "published", "%", "parameters, M", "published", "%",
               "multiply-adds, G", "published", "%", "step, TFLOP", "source"});
  for (const experiments::PublishedNetwork& network : networks) {
    const experiments::NetworkRow row = experiments::MakeNetworkRow(network);
    std::vector<std::string> cells = {network.network,
                                      network.model + (network.set.empty() ? "" : " " + SettingsText(network.set))};
    AddPair(&cells, row.ours.ops, network.published.ops, 1, 0);
    AddPair(&cells, row.ours.parameters, network.published.parameters, 1e6, 1);
    // Multiply-adds of one example: shown where a number was published, for a batch of one.
    const bool has_multiply_adds = network.published.multiply_adds.has_value();
    AddPair(&cells, has_multiply_adds ? row.ours.multiply_adds : std::nullopt, network.published.multiply_adds, 1e9, 2);
    cells.push_back(fmt::format("{:.3g}", row.step_flop / 1e12));
    cells.push_back(network.source);
    table.Add(std::move(cells));
  }
  return {.sections = {{.table = std::move(table)}}};
}

std::string UseText(experiments::CalibrationFigure::Use use) {
  switch (use) {
    case experiments::CalibrationFigure::Use::kFit:
      return "fit";
    case experiments::CalibrationFigure::Use::kHeldOut:
      return "held out";
    case experiments::CalibrationFigure::Use::kExcluded:
      return "excluded";
  }
  return "";
}

experiments::ComparisonDocument Calibration(const ReproduceOptions& options) {
  constexpr std::string_view kShipped = "calibration";
  const auto in = Open(options, kShipped);
  const experiments::CalibrationSpec spec = experiments::ReadCalibration(*in, NameOfFile(options, kShipped));
  const experiments::CalibrationResult result = experiments::RunCalibration(spec);
  Table times({"figure", "device", "published, s", "simulated, s", "ratio", "use", "note"});
  Table memory({"out of memory in", "device", "capacity", "simulated peak", "agree", "note"});
  constexpr double kGib = 1024.0 * 1024 * 1024;
  for (const experiments::CalibrationRow& row : result.rows) {
    const experiments::CalibrationFigure& figure = *row.figure;
    if (row.ratio) {
      std::string note = figure.note;
      if (!row.fits)
        note += (note.empty() ? "" : "; ") + fmt::format("does not fit: {:.1f} GiB", row.peak_bytes / kGib);
      times.Add({figure.figure, row.device_kind, fmt::format("{:.2f}", *figure.published_seconds),
                 fmt::format("{:.3f}", row.seconds), fmt::format("{:.2f}", *row.ratio), UseText(figure.use), note});
    } else {
      memory.Add({figure.figure, row.device_kind, fmt::format("{:.2f} GiB", row.capacity_bytes / kGib),
                  row.peak_bytes > 0 ? fmt::format("{:.2f} GiB", row.peak_bytes / kGib) : "more",
                  row.fits ? "no" : "yes", figure.note});
    }
  }
  experiments::ComparisonDocument document;
  document.sections.push_back({.table = std::move(times)});
  document.sections.push_back({.table = std::move(memory)});
  for (const auto& [kind, scale] : result.fitted_scales) {
    const DeviceKind* known = FindDeviceKind(kind);
    document.notes.push_back(fmt::format("time_scale of {}: fitted {:.4f}, in the catalogue {}", kind, scale,
                                         known != nullptr ? known->time_scale : 1));
  }
  if (result.median_held_out_error) {
    document.notes.push_back(
        fmt::format("median error of the held-out ratios: {:.0f} %", 100 * *result.median_held_out_error));
  }
  document.notes.push_back(fmt::format("out of memory: we agree in {} of {}", result.oom_agreed, result.oom_cells));
  return document;
}

experiments::ComparisonDocument Families(const ReproduceOptions& options) {
  constexpr const char* kCluster = "post-8k80";
  const std::uint64_t seed = options.seeds.empty() ? 1 : options.seeds.front();
  experiments::ComparisonDocument document;
  for (const datasets::FamilyEntry& family : datasets::AllFamilies()) {
    Table table({std::string(family.name), "least", "mean", "sd", "most"});
    for (const experiments::FamilyRow& row :
         experiments::MakeFamilyTable(datasets::MakeFamily(family, seed), kCluster, {3, 5, 8})) {
      const auto number = [](double value) {
        return std::abs(value) >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
      };
      table.Add({row.quantity, number(row.spread.least), number(row.spread.mean), number(row.spread.sd),
                 number(row.spread.most)});
    }
    document.sections.push_back({.table = std::move(table)});
  }
  document.notes.push_back(fmt::format(
      "seed {}; K80s of {}, roofline costs, engine fifo; gap: 100 (1 - lower bound / step on one)", seed, kCluster));
  return document;
}

struct Comparison {
  const char* name;
  const char* summary;
  bool takes_file;  // otherwise a seed
  experiments::ComparisonDocument (*make)(const ReproduceOptions&);
};
constexpr Comparison kComparisons[] = {
    {"models", "our models' sizes and the published ones", true, Models},
    {"calibration", "simulated and published step times on one device, and what runs out of memory", true, Calibration},
    {"families", "statistics of the graphs of each family (--seed)", false, Families},
};

const Comparison& FindComparison(const std::string& what) {
  for (const Comparison& comparison : kComparisons) {
    if (comparison.name == what) return comparison;
  }
  throw InputError("", fmt::format("unknown comparison {} ({}, {})", Quoted(what), Listed(kComparisons),
                                   fmt::join(experiments::ReproducedExperimentNames(), ", ")));
}

// Refuses the options that are only for runs, as a comparison runs nothing.
void RefuseOptionsOfRows(const ReproduceOptions& options) {
  const std::string is_not = "is not for " + options.what;
  if (!options.row.empty()) throw InputError(options.row, is_not);
  if (options.list) throw InputError("--list", is_not);
  if (options.jobs != 0) throw InputError("--jobs", is_not);
}

int Run(ReproduceOptions options) {
  if (options.what == "networks") options.what = "models";  // its earlier name
  if (experiments::FindReproducedExperiment(options.what)) {
    return experiments::ReproduceRows({.experiment = options.what,
                                       .file = options.file,
                                       .row = options.row,
                                       .list = options.list,
                                       .seeds = options.seeds,
                                       .jobs = options.jobs,
                                       .outputs = options.outputs});
  }
  CheckFiles({options.file}, options.outputs);
  experiments::CheckTableFiles(options.outputs);
  const Comparison& comparison = FindComparison(options.what);
  RefuseOptionsOfRows(options);
  if (!options.file.empty() && !comparison.takes_file) throw InputError("--from", "is not for " + options.what);
  if (!options.seeds.empty() && comparison.takes_file) throw InputError("--seed", "is not for " + options.what);
  if (options.seeds.size() > 1)
    throw InputError("--seed", fmt::format("is given {} times (once)", options.seeds.size()));
  experiments::WriteComparison(comparison.make(options), options.outputs);
  return kSuccess;
}

}  // namespace

Command AddReproduce(CLI::App& app) {
  std::string names = "What to compare: ";
  for (const Comparison& comparison : kComparisons)
    names += fmt::format("{} ({}), ", comparison.name, comparison.summary);
  names += fmt::format("or the table of a paper with our runs of its experiment: {}",
                       fmt::join(experiments::ReproducedExperimentNames(), ", "));
  CLI::App* const command = app.add_subcommand("reproduce", "Compare our numbers with published ones");
  auto options = std::make_shared<ReproduceOptions>();
  command->add_option("comparison", options->what, names)->required()->type_name("WHAT");
  command
      ->add_option("row", options->row,
                   "Row of a paper's table, by its name in --list (default: all rows, which can take an hour)")
      ->type_name("ROW");
  command->add_flag(
      "--list", options->list,
      "List the rows of a paper's table with estimated times, which takes up to a minute, without running anything");
  command
      ->add_option("--from", options->file,
                   "YAML file to use instead of the built-in one; an experiment's key `published` names its table")
      ->type_name("FILE");
  command
      ->add_option("--seed", options->seeds,
                   "Random seed of the families (default: 1); for an experiment, run only the trials with these seeds")
      ->type_name("S")
      ->transform(IntegerFrom(0));
  command
      ->add_option("--jobs", options->jobs,
                   "Number of trials to run at once, each on one core (default: one for each core)")
      ->type_name("N")
      ->transform(IntegerFrom(1, 1024));
  command
      ->add_option("-o,--output", options->outputs,
                   "Also write the tables to files: .md, .csv or .tex (LaTeX, with the package booktabs). Any other "
                   "name is the folder of runs of an experiment, as in `emplace sweep` (default: runs)")
      ->type_name("FILE");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
