#ifndef EMPLACE_EXPERIMENTS_RUN_SWEEP_VIEW_H_
#define EMPLACE_EXPERIMENTS_RUN_SWEEP_VIEW_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "experiments/plan/experiment.h"
#include "experiments/plan/trial_plan.h"
#include "experiments/run/planned_sweep.h"
#include "experiments/run/run_folder.h"
#include "experiments/run/run_reader.h"
#include "experiments/run/run_state.h"
#include "sim/base/progress.h"

namespace emplace::experiments {

// Describes a trial: "annealing, graphs.dataset ptb, ptb_04, seed 2".
std::string DescribeTrial(const ExperimentSpec& experiment, const PlannedTrial& trial);

// "3 of 6 trials finished, 1 running, 2 waiting, 0 failed; about 2 min left".
std::string ProgressText(const RunState& state);
// "120 of 1000"; "-" if nothing is known yet.
std::string EvaluationsText(const RunningTrial& trial);

// Shows the progress of a sweep on standard error: a line for each trial that ended, and a bar on a terminal, otherwise
// an occasional line. The time left is extrapolated from the trials that ended in this run, by evaluations times ops.
class SweepView {
 public:
  SweepView(const ExperimentSpec& experiment, const TrialPlan& plan, std::size_t processes);

  void SkipFinished(const PlannedTrial& trial);
  void Finish(const PlannedTrial& trial, const TrialSummary& summary);
  void Fail(const PlannedTrial& trial, const std::string& error);
  void Print(const std::string& lines);
  void Draw(std::size_t running);

  std::size_t finished() const { return finished_; }
  std::size_t failed() const { return failed_; }

 private:
  std::optional<double> SecondsLeft() const;

  const ExperimentSpec& experiment_;
  std::size_t num_trials_;
  std::size_t processes_;
  Progress progress_;
  std::size_t finished_ = 0;  // finished in this run or before
  std::size_t failed_ = 0;
  double work_left_ = 0;
  double work_done_ = 0;  // work done in this run
  double seconds_ = 0;    // time that it took
};

// The trials of a sweep, finished or not, as a report reads them.
ExperimentRuns RunsOf(const PlannedSweep& sweep);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_SWEEP_VIEW_H_
