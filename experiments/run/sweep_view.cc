#include "experiments/run/sweep_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "experiments/run/run_reader.h"
#include "sim/base/human_readable.h"
#include "sim/base/printable.h"
#include "sim/base/terminal.h"

namespace emplace::experiments {
namespace {

constexpr std::chrono::seconds kSweepLineEvery(30);

bool IsOfAgent(const SweepCell::Setting& setting) {
  return setting.path == "agent" || setting.path.starts_with("agent.");
}

// The swept values other than the agent.
std::string ColumnOf(const ExperimentCell& cell) {
  std::string text;
  for (const SweepCell::Setting& setting : cell.values.settings) {
    if (IsOfAgent(setting)) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", setting.path, setting.text);
  }
  return text;
}

}  // namespace

std::string DescribeTrial(const ExperimentSpec& experiment, const PlannedTrial& trial) {
  const ExperimentCell& cell = experiment.cells[trial.cell];
  const std::string column = ColumnOf(cell);
  return Shortened(Printable(
      fmt::format("{}, {}{}{}, seed {}", cell.label, column, column.empty() ? "" : ", ", trial.graph, trial.seed)));
}

std::string ProgressText(const RunState& state) {
  std::string left;
  if (state.left_seconds) {
    left = fmt::format("; about {} left", HumanReadableSeconds(*state.left_seconds));
  } else if (state.work_left_seconds && state.num_waiting() > 0) {
    left = fmt::format("; about {} left for one process", HumanReadableSeconds(*state.work_left_seconds));
  }
  return fmt::format("{} of {} finished, {} running, {} waiting, {} failed{}", state.finished,
                     Counted(state.trials, "trial"), state.running.size(), state.num_waiting(), state.failed.size(),
                     left);
}

std::string EvaluationsText(const RunningTrial& trial) {
  return trial.budget == 0 ? "-" : fmt::format("{} of {}", trial.evaluations, trial.budget);
}

SweepView::SweepView(const ExperimentSpec& experiment, const TrialPlan& plan, std::size_t processes)
    : experiment_(experiment),
      num_trials_(plan.trials.size()),
      processes_(processes),
      progress_(experiment.name, kSweepLineEvery) {
  for (const PlannedTrial& trial : plan.trials) work_left_ += trial.work;
}

void SweepView::Print(const std::string& lines) { PrintMessages(lines); }

void SweepView::SkipFinished(const PlannedTrial& trial) {
  ++finished_;
  work_left_ -= trial.work;
}

void SweepView::Finish(const PlannedTrial& trial, const TrialSummary& summary) {
  ++finished_;
  work_left_ -= trial.work;
  work_done_ += trial.work;
  seconds_ += summary.wall_seconds;
  std::string found = "nothing that fits";
  if (summary.best_micros) found = HumanReadableMicros(*summary.best_micros);
  if (summary.improvement_percent) found += fmt::format(", {:.1f} % better", *summary.improvement_percent);
  if (summary.worse_than_one_device) found += ", worse than one device";
  PrintMessage(fmt::format("[{}/{}] {}: {} ({:.1f} s)", finished_ + failed_, num_trials_,
                           DescribeTrial(experiment_, trial), found, summary.wall_seconds));
}

void SweepView::Fail(const PlannedTrial& trial, const std::string& error) {
  ++failed_;
  work_left_ -= trial.work;
  PrintMessage(fmt::format("[{}/{}] {}: FAILED: {}", finished_ + failed_, num_trials_,
                           DescribeTrial(experiment_, trial), error));
}

std::optional<double> SweepView::SecondsLeft() const {
  if (!(work_done_ > 0)) return std::nullopt;
  return seconds_ * work_left_ / work_done_ / static_cast<double>(processes_);
}

void SweepView::Draw(std::size_t running) {
  const std::string failed = failed_ == 0 ? "" : fmt::format(", {} failed", failed_);
  progress_.ShowWithoutRate({.done = finished_ + failed_,
                             .total = num_trials_,
                             .things = "trials",
                             .seconds_left = SecondsLeft(),
                             .note = fmt::format("{} running{}", running, failed)});
}

ExperimentRuns RunsOf(const PlannedSweep& sweep) {
  ExperimentRuns runs{.name = sweep.experiment.name, .question = sweep.experiment.question};
  for (std::size_t i = 0; i < sweep.plan.trials.size(); ++i) {
    const PlannedTrial& trial = sweep.plan.trials[i];
    if (IsFinished(sweep.folders[i])) {
      runs.trials.push_back(ReadFinishedTrial(sweep.folders[i]));
    } else {
      runs.unfinished.push_back({.id = trial.id, .what = {}, .error = {}, .spec = trial.spec});
    }
  }
  return runs;
}

}  // namespace emplace::experiments
