#include "experiments/report/reproduced_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>

#include "experiments/report/comparison_document.h"
#include "experiments/report/published.h"
#include "experiments/report/published_rows.h"
#include "experiments/report/reproduction.h"
#include "experiments/report/reproduction_tables.h"
#include "experiments/run/planned_sweep.h"
#include "experiments/run/run_folder.h"
#include "experiments/run/run_reader.h"
#include "experiments/run/sweep_estimate.h"
#include "experiments/run/sweep_run.h"
#include "experiments/run/sweep_view.h"
#include "experiments/shipped_tables.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/printable.h"
#include "sim/base/table.h"

namespace emplace::experiments {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultRuns = "runs";

struct Outputs {
  std::string runs = kDefaultRuns;
  std::vector<std::string> tables = {};
};

// A folder's name may not look like that of a file, so that a mistyped table does not become a folder.
Outputs SplitOutputs(const std::vector<std::string>& outputs) {
  Outputs split;
  bool has_runs = false;
  for (const std::string& path : outputs) {
    if (IsTableFile(path)) {
      split.tables.push_back(path);
      continue;
    }
    if (fs::path(path).has_extension() && !fs::is_directory(path)) {
      throw InputError(path, "is neither a table (a name that ends in .csv, .md or .tex) nor a folder of runs");
    }
    if (has_runs) throw InputError(path, fmt::format("is a second folder of runs, beside {} (one)", split.runs));
    split.runs = path;
    has_runs = true;
  }
  return split;
}

// A row and its trials: numbers in the plan of the whole experiment.
struct RowTrials {
  PublishedRow row;
  std::vector<std::size_t> trials;
};

bool HasInterval(const ReproducedTable& table) {
  return std::ranges::any_of(table.methods,
                             [](const auto& method) { return method.ours && method.ours->interval.has_value(); });
}

class Reproduction {
 public:
  explicit Reproduction(const RowsOptions& options)
      : options_(options), outputs_(SplitOutputs(options.outputs)), sweep_(Plan()), published_(Published()) {
    CheckJobs(options.jobs, sweep_);
    CheckSeeds();
    for (PublishedRow& row : RowsOf(published_)) rows_.push_back(WithTrials(std::move(row)));
    CheckRunsFolder();
    if (!options.row.empty()) KeepRow();
  }

  int List() const {
    SweepEstimator estimator(sweep_.experiment);
    const auto processes = static_cast<double>(ProcessesOf(options_.jobs, sweep_));
    Table table({"row", "in the paper", "trials", "finished", "time left"});
    for (const RowTrials& of : rows_) {
      std::size_t finished = 0;
      double low = 0;
      double high = 0;
      for (const std::size_t trial : of.trials) {
        if (IsFinished(sweep_.folders[trial])) {
          ++finished;
          continue;
        }
        const TrialEstimate estimate = estimator.Estimate(sweep_.plan.trials[trial]);
        low += estimate.low_seconds;
        high += estimate.high_seconds;
      }
      const bool any_left = finished < of.trials.size();
      table.Add(
          {of.row.name, fmt::format("{}: {}", fmt::join(of.row.tables, ", "), of.row.title),
           std::to_string(of.trials.size()), std::to_string(finished),
           any_left ? HumanReadableSeconds(low / processes) + " to " + HumanReadableSeconds(high / processes) : "-"});
    }
    ComparisonDocument document;
    document.sections.push_back({.table = std::move(table)});
    document.notes.push_back(fmt::format("Times are with {}. Averages are of trials of other rows.",
                                         Counted(ProcessesOf(options_.jobs, sweep_), "process")));
    WriteComparison(document, outputs_.tables);
    return kSuccess;
  }

  int Run() const {
    std::set<std::size_t> trials;
    for (const RowTrials& of : rows_) trials.insert(of.trials.begin(), of.trials.end());
    if (trials.empty()) throw InputError(Name(), "has no trial in any row of its table of published figures");
    const PlannedSweep part = PartOf(sweep_, {trials.begin(), trials.end()});
    WritePlannedSweep(sweep_, part);
    const SweepOutcome outcome = RunSweep(part, options_.jobs);
    if (!outcome.has_ended) return outcome.status;
    WriteComparison(MakeDocument(), outputs_.tables);
    std::cout.flush();
    PrintFailedTrials(part, outcome.failed);
    return outcome.status;
  }

 private:
  std::string Name() const { return options_.file.empty() ? options_.experiment + ".yaml" : options_.file; }

  PlannedSweep Plan() const {
    CheckFiles({options_.file}, outputs_.tables);
    if (!options_.file.empty()) return PlanSweep(options_.file, outputs_.runs);
    const auto shipped = FindReproducedExperiment(options_.experiment);
    EMPLACE_CHECK(shipped.has_value());
    std::istringstream in{std::string(*shipped)};
    return PlanSweep(in, Name(), outputs_.runs);
  }

  PublishedFigures Published() const {
    if (sweep_.experiment.published.empty()) {
      throw InputError(Name(),
                       "names no table of published figures (published: a table of experiments/published, or "
                       "a file)");
    }
    return LoadPublished(sweep_.experiment.published);
  }

  void CheckSeeds() const {
    std::set<std::uint64_t> known;
    for (const PlannedTrial& trial : sweep_.plan.trials) known.insert(trial.seed);
    for (const std::uint64_t seed : options_.seeds) {
      if (known.contains(seed)) continue;
      throw InputError(fmt::format("seed {}", seed),
                       fmt::format("is not a seed of {} ({})", Name(), fmt::join(known, ", ")));
    }
  }

  // -o takes several names, so it would take a row that follows it.
  void CheckRunsFolder() const {
    for (const RowTrials& of : rows_) {
      if (of.row.name == outputs_.runs) {
        throw InputError(outputs_.runs, "is a row, not a folder of runs (rows go before -o)");
      }
    }
  }

  bool HasSeed(const PlannedTrial& trial) const {
    return options_.seeds.empty() || std::ranges::find(options_.seeds, trial.seed) != options_.seeds.end();
  }

  RowTrials WithTrials(PublishedRow row) const {
    RowTrials of{.row = std::move(row), .trials = {}};
    for (std::size_t i = 0; i < sweep_.plan.trials.size(); ++i) {
      const PlannedTrial& trial = sweep_.plan.trials[i];
      if (HasSeed(trial) && IsInRow(of.row, trial.spec)) of.trials.push_back(i);
    }
    return of;
  }

  void KeepRow() {
    std::vector<PublishedRow> rows;
    for (const RowTrials& of : rows_) rows.push_back(of.row);
    const std::string name = FindRow(rows, options_.row, options_.experiment).name;
    std::erase_if(rows_, [&name](const RowTrials& of) { return of.row.name != name; });
    if (!options_.list && rows_.front().trials.empty()) {
      throw InputError(fmt::format("{} {}", options_.experiment, name), fmt::format("{} has no trial of it", Name()));
    }
  }

  std::vector<ReproducedTable> TablesOf(const RowTrials& of) const {
    std::vector<JsonValue> specs;
    std::vector<TrialRecord> finished;
    for (const std::size_t trial : of.trials) {
      specs.push_back(sweep_.plan.trials[trial].spec);
      const std::string& folder = sweep_.folders[trial];
      if (IsFinished(folder)) finished.push_back(ReadFinishedTrial(folder));
    }
    return ReproduceRow(of.row, published_, specs, finished);
  }

  ComparisonDocument MakeDocument() const {
    ComparisonDocument document;
    std::vector<ReproducedTable> all;
    std::vector<std::string> without;
    for (const RowTrials& of : rows_) {
      if (of.trials.empty()) {
        without.push_back(fmt::format("{} ({})", of.row.title, fmt::join(of.row.tables, ", ")));
        continue;
      }
      for (ReproducedTable& table : TablesOf(of)) {
        document.sections.push_back(
            {.caption = CaptionOf(table), .table = MethodTable(table), .notes = OrderTexts(table)});
        all.push_back(std::move(table));
      }
    }
    const auto has_order = [](const ReproducedTable& table) { return !table.orders.empty(); };
    if (std::ranges::count_if(all, has_order) > 1) {
      document.sections.push_back({.caption = "Agreement of the orders", .table = AgreementTable(all)});
    }
    document.csv = ReproductionCsv(all);
    if (!without.empty()) {
      document.notes.push_back(fmt::format("Not in the experiment: {}.", fmt::join(without, "; ")));
    }
    document.notes.push_back(fmt::format("Published: {}.", published_.source));
    document.notes.emplace_back(
        "Ours are simulated, on networks and clusters that stand for the paper's: compare ratios and orders within a "
        "row, not absolute values.");
    if (std::ranges::any_of(all, HasInterval)) {
      document.notes.emplace_back("Square brackets are 95 % intervals over graphs and seeds.");
    }
    document.notes.push_back(
        fmt::format("emplace report {}", (fs::path(outputs_.runs) / sweep_.experiment.name).string()));
    return document;
  }

  const RowsOptions& options_;
  Outputs outputs_;
  PlannedSweep sweep_;
  PublishedFigures published_;
  std::vector<RowTrials> rows_ = {};
};

}  // namespace

int ReproduceRows(const RowsOptions& options) {
  const Reproduction reproduction(options);
  return options.list ? reproduction.List() : reproduction.Run();
}

}  // namespace emplace::experiments
