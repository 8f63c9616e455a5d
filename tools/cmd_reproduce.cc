#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "datasets/families/families.h"
#include "experiments/shipped_tables.h"
#include "experiments/validation/calibration.h"
#include "experiments/validation/family_table.h"
#include "experiments/validation/network_table.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/markup.h"
#include "sim/base/printable.h"
#include "sim/base/registry.h"
#include "sim/base/table.h"
#include "sim/device_catalog.h"
#include "tools/commands.h"
#include "tools/problem.h"

namespace emplace::tools {
namespace {

struct ReproduceOptions {
  std::string what;
  std::string file;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> outputs;
};

// Tables, followed by notes.
struct Document {
  std::vector<Table> tables;
  std::vector<std::string> notes;
};

std::unique_ptr<std::istream> Open(const ReproduceOptions& options, std::string_view shipped) {
  if (!options.file.empty()) return OpenForReading(options.file);
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

Document Networks(const ReproduceOptions& options) {
  constexpr std::string_view kShipped = "networks";
  const auto in = Open(options, kShipped);
  const std::vector<experiments::PublishedNetwork> networks =
      experiments::ReadPublishedNetworks(*in, NameOfFile(options, kShipped));
  Table table({"network", "emplace generate", "ops", "published", "%", "parameters, M", "published", "%",
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
  return {.tables = {std::move(table)}, .notes = {}};
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

Document Calibration(const ReproduceOptions& options) {
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
  Document document;
  document.tables.push_back(std::move(times));
  document.tables.push_back(std::move(memory));
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

Document Families(const ReproduceOptions& options) {
  constexpr const char* kCluster = "post-8k80";
  const std::uint64_t seed = options.seed.value_or(1);
  Document document;
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
    document.tables.push_back(std::move(table));
  }
  document.notes.push_back(fmt::format(
      "seed {}; K80s of {}, roofline costs, engine fifo; gap: 100 (1 - lower bound / step on one)", seed, kCluster));
  return document;
}

struct Comparison {
  const char* name;
  const char* summary;
  bool takes_file;  // otherwise a seed
  Document (*make)(const ReproduceOptions&);
};
constexpr Comparison kComparisons[] = {
    {"networks", "sizes of our networks beside the published ones", true, Networks},
    {"calibration", "simulated step times on one device beside the published ones, and where memory runs out", true,
     Calibration},
    {"families", "how the graphs of each family are spread (--seed)", false, Families},
};

void Write(std::ostream& out, const Document& document, bool csv, bool markdown) {
  bool first = true;
  for (const Table& table : document.tables) {
    if (!first) out << '\n';
    first = false;
    csv ? table.PrintCsv(out) : markdown ? table.PrintMarkdown(out) : table.PrintText(out);
  }
  if (csv) return;
  for (const std::string& note : document.notes) {
    out << '\n' << (markdown ? MarkdownText(note) + "  " : Printable(note));
  }
  if (!document.notes.empty()) out << '\n';
}

int Run(const ReproduceOptions& options) {
  CheckFiles({options.file}, options.outputs);
  for (const std::string& path : options.outputs) {
    if (!path.ends_with(".csv") && !path.ends_with(".md")) {
      throw InputError(path, "does not say its format (a name that ends in .csv or .md)");
    }
  }
  const Comparison& comparison = FindByName(kComparisons, options.what, "comparison");
  if (!options.file.empty() && !comparison.takes_file) throw InputError("--from", "is not for " + options.what);
  if (options.seed && comparison.takes_file) throw InputError("--seed", "is not for " + options.what);
  const Document document = comparison.make(options);
  for (const std::string& path : options.outputs) {
    WriteFile(path, [&](std::ostream& out) { Write(out, document, path.ends_with(".csv"), path.ends_with(".md")); });
  }
  Write(std::cout, document, false, false);
  return kDone;
}

}  // namespace

Command AddReproduce(CLI::App& app) {
  std::string names = "What to put side by side: ";
  for (const Comparison& comparison : kComparisons) {
    names += fmt::format("{}{} ({})", &comparison == kComparisons ? "" : ", ", comparison.name, comparison.summary);
  }
  CLI::App* const command = app.add_subcommand("reproduce", "Print our numbers beside the published ones");
  auto options = std::make_shared<ReproduceOptions>();
  command->add_option("comparison", options->what, names)->required()->type_name("WHAT");
  command->add_option("--from", options->file, "Take this YAML file instead of the one that the program holds")
      ->type_name("FILE");
  AddSeedOption(*command, options->seed, "Seed of the families' draws (default: 1)");
  command->add_option("-o,--output", options->outputs, "Write the tables to a file too: .md or .csv")
      ->type_name("FILE");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
