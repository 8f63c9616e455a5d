// emplace report: the results of runs as Markdown, CSV and one HTML page.

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/plan/problem.h"
#include "experiments/plan/trial_choice.h"
#include "experiments/report/csv.h"
#include "experiments/report/html.h"
#include "experiments/report/improvement.h"
#include "experiments/report/plan_sweep.h"
#include "experiments/report/report.h"
#include "experiments/report/trial_filter.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/printable.h"
#include "sim/base/progress.h"
#include "sim/base/terminal.h"
#include "tools/cli/commands.h"
#include "tools/cli/problem.h"

namespace emplace::tools {
namespace {

struct ReportOptions {
  std::string runs;
  std::string output;              // "": report.html in the run folder
  std::vector<std::string> where;  // KEY=VALUE
  std::vector<std::string> of;     // experiment files
};

bool IsLatex(const ReportOptions& options) { return options.output.ends_with(".tex"); }

// The prefix of the other files' names: the page's name without .html.
std::string Stem(const ReportOptions& options) {
  if (options.output.empty()) return (std::filesystem::path(options.runs) / "report").string();
  constexpr std::string_view kEnd = ".html";
  if (!options.output.ends_with(kEnd) || options.output.size() == kEnd.size()) {
    throw InputError(options.output, "is neither a page nor tables of LaTeX (a name that ends in .html or .tex)");
  }
  return options.output.substr(0, options.output.size() - kEnd.size());
}

// Rebuilds the problem of a trial; of several graphs, the first.
std::optional<experiments::PictureInputs> ProblemOf(const JsonValue& spec) {
  const experiments::TrialChoice choice = experiments::ReadTrialChoice(spec);
  agents::SearchProblem problem = experiments::LoadProblem(choice.graphs().front(), choice);
  return experiments::PictureInputs{.graph = std::move(problem.graph),
                                    .cluster = std::move(problem.cluster),
                                    .costs = std::move(problem.costs),
                                    .engine = choice.engine};
}

// The report of an experiment whose cells are plans.
int ReportPlans(const ReportOptions& options, const experiments::SweepOfPlans& sweep) {
  if (!options.where.empty() || !options.of.empty()) {
    throw InputError(options.where.empty() ? "--experiment" : "--where", "does not go with plans (trials)");
  }
  const experiments::ReportDocument document =
      experiments::PlanSweepReport(sweep, experiments::ReadPlanResults(sweep, options.runs));
  if (IsLatex(options)) {
    WriteFiles({{options.output, [&](std::ostream& out) { experiments::WriteLatexTables(out, document); }}});
    return kSuccess;
  }
  const std::string stem = Stem(options);
  WriteFiles({{stem + ".md", [&](std::ostream& out) { experiments::WriteMarkdown(out, document); }},
              {stem + ".html", [&](std::ostream& out) { experiments::WriteHtml(out, document); }}});
  return kSuccess;
}

int Run(const ReportOptions& options) {
  if (const auto plans = experiments::FindPlanSweep(options.runs)) return ReportPlans(options, *plans);
  const BusyLine busy("report");
  const std::string stem = IsLatex(options) ? "" : Stem(options);
  experiments::CheckIsRunsFolder(options.runs);  // the report's default place is in it
  if (IsLatex(options)) {
    CheckFiles({}, {options.output});
  } else {
    for (const char* const end : {".html", ".md", ".csv", "_table.csv", "_tests.csv"}) CheckFiles({}, {stem + end});
  }
  const std::vector<experiments::TrialCondition> conditions = experiments::ParseConditions(options.where, "--where");
  std::vector<experiments::ExperimentRuns> experiments = experiments::ReadRuns(options.runs);
  for (const std::string& file : options.of) experiments::LeaveOutAbandoned(file, &experiments);
  for (experiments::ExperimentRuns& runs : experiments) experiments::FillSingleDeviceTimes(&runs.trials);
  experiments::KeepTrials(conditions, "--where", &experiments);
  for (const experiments::ExperimentRuns& runs : experiments) {
    if (runs.unfinished.empty()) continue;
    PrintMessage(fmt::format("{}: {} of {} trials are not finished or failed: the report covers the others",
                             Printable(runs.name), runs.unfinished.size(),
                             runs.unfinished.size() + runs.trials.size()));
  }
  // Everything is made before the first file is written, and all files are written before the first one is renamed into
  // place.
  const experiments::ReportDocument document = experiments::MakeReport(experiments, ProblemOf);
  if (IsLatex(options)) {
    WriteFile(options.output, [&](std::ostream& out) { experiments::WriteLatexTables(out, document); });
    return kSuccess;
  }
  WriteFiles({{stem + ".md", [&](std::ostream& out) { experiments::WriteMarkdown(out, document); }},
              {stem + ".csv", [&](std::ostream& out) { experiments::WriteTrialsCsv(out, experiments); }},
              {stem + "_table.csv", [&](std::ostream& out) { experiments::WriteTableCsv(out, experiments); }},
              {stem + "_tests.csv", [&](std::ostream& out) { experiments::WriteTestsCsv(out, experiments); }},
              {stem + ".html", [&](std::ostream& out) { experiments::WriteHtml(out, document); }}});
  return kSuccess;
}

}  // namespace

Command AddReport(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("report", "Turn runs into tables and charts: Markdown, CSV and one HTML page");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("RUNS", options->runs, "Folder written by `emplace sweep`, or the folder of one experiment in it")
      ->required();
  command
      ->add_option(
          "-o,--output", options->output,
          "Page to write, NAME.html, together with NAME.md, NAME.csv (trials), NAME_table.csv and NAME_tests.csv "
          "(default: RUNS/report.html); or NAME.tex, only the tables as LaTeX with the package booktabs")
      ->type_name("FILE");
  command
      ->add_option("--where", options->where,
                   "Only trials with this value, such as budget.evaluations=1000 or agent.label=annealing; KEY is a "
                   "key path of spec.json, or num_devices. If a key is repeated, any of its values matches")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--experiment", options->of,
                   "Leave out abandoned trials, which the experiment FILE no longer contains; the report states their "
                   "number. Give one file for each experiment in RUNS")
      ->type_name("FILE")
      ->allow_extra_args(false);
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
