#include "experiments/run/sweep_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "experiments/plan/trial_plan.h"
#include "experiments/run/run_folder.h"
#include "experiments/run/run_reader.h"
#include "experiments/run/sweep_view.h"
#include "experiments/run/trial_claim.h"
#include "experiments/run/trial_pool.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"
#include "sim/base/terminal.h"

namespace emplace::experiments {
namespace {

// One worker and its view.
class SweepRun {
 public:
  SweepRun(const PlannedSweep& sweep, std::size_t jobs, const std::string& note)
      : sweep_(sweep), processes_(ProcessesOf(jobs, sweep)), note_(note) {}

  SweepOutcome Run() {
    PoolResult result{};
    std::size_t failed = 0;
    std::size_t finished = 0;
    {
      SweepView view(sweep_.experiment, sweep_.plan, processes_);
      result = RunTrials(&view);
      failed = view.failed();
      finished = view.finished();
    }
    const std::size_t trials = sweep_.plan.trials.size();
    if (result == PoolResult::kStopped) {
      PrintMessage(
          fmt::format("{}: stopped, {} of {} trials are finished; the same command resumes", name(), finished, trials));
      return {.status = SignalStatus(stopped_by_)};
    }
    if (!differing_.empty()) {
      PrintMessage(DifferenceText(differing_));
      return {.status = kBug};
    }
    if (result == PoolResult::kKeepsFailing) {
      PrintMessage(fmt::format("{}: stopped, because trials keep crashing at once: {} of {} are finished, {} failed",
                               name(), finished, trials, failed));
      return {.status = kNotFound};
    }
    return {.status = failed == 0 ? kSuccess : kNotFound, .has_ended = true, .failed = failed};
  }

 private:
  const std::string& name() const { return sweep_.experiment.name; }

  PoolResult RunTrials(SweepView* view) {
    std::vector<TrialJob> jobs = Unfinished(view);
    view->Print(fmt::format("{}; {} finished already, {} to run in {}", SizeText(sweep_), view->finished(), jobs.size(),
                            Counted(std::min(processes_, std::max<std::size_t>(jobs.size(), 1)), "process")));
    if (!note_.empty()) view->Print(note_);
    TrialPool pool({.processes = processes_});
    const PoolResult result =
        pool.Run(std::move(jobs), {.before_start =
                                       [&](const TrialJob& job) {
                                         PrepareTrialFolder(job.folder, JsonText(sweep_.plan.trials[job.number].spec));
                                       },
                                   .on_end = [&](const TrialEnd& end) { Ended(end, view); },
                                   .on_note = [&](const std::string& note) { view->Print(note); },
                                   .on_wait = [&](std::size_t running) { view->Draw(running); }});
    stopped_by_ = pool.stopped_by();
    return result;
  }

  std::vector<TrialJob> Unfinished(SweepView* view) const {
    std::vector<TrialJob> jobs;
    for (std::size_t i = 0; i < sweep_.folders.size(); ++i) {
      const std::string& folder = sweep_.folders[i];
      if (IsFinished(folder)) {
        ReadFinishedTrial(folder);  // reports a broken trial now, not after all others
        RemoveLeftClaims(folder);
        view->SkipFinished(sweep_.plan.trials[i]);
      } else {
        jobs.push_back({.number = i, .folder = folder});
      }
    }
    // A machine can be slow for minutes. IDs are hashes, so this order spreads each agent's trials over the whole run.
    if (sweep_.RunsOnHardware()) {
      std::sort(jobs.begin(), jobs.end(), [&](const TrialJob& a, const TrialJob& b) {
        return sweep_.plan.trials[a.number].id < sweep_.plan.trials[b.number].id;
      });
    }
    return jobs;
  }

  void Ended(const TrialEnd& end, SweepView* view) {
    const PlannedTrial& trial = sweep_.plan.trials[end.number];
    const std::string& folder = sweep_.folders[end.number];
    if (end.failed) {
      view->Fail(trial, ReadTrialError(folder));
      return;
    }
    if (end.differs) differing_.push_back(folder);
    if (!end.said.empty()) view->Print(end.said.substr(0, end.said.find_last_not_of('\n') + 1));
    view->Finish(trial, SummariseTrial(folder));
  }

  const PlannedSweep& sweep_;
  std::size_t processes_;
  const std::string& note_;
  int stopped_by_ = 0;
  std::vector<std::string> differing_;
};

}  // namespace

std::size_t ProcessesOf(std::size_t jobs, const PlannedSweep& sweep) {
  if (sweep.RunsOnHardware()) return 1;
  return jobs > 0 ? jobs : std::max(1U, std::thread::hardware_concurrency());
}

void CheckJobs(std::size_t jobs, const PlannedSweep& sweep) {
  if (jobs > 1 && sweep.RunsOnHardware()) {
    throw InputError("jobs",
                     fmt::format("is {}, but trials of {} run on real devices (1)", jobs, sweep.experiment.name));
  }
}

SweepOutcome RunSweep(const PlannedSweep& sweep, std::size_t jobs, const std::string& note) {
  return SweepRun(sweep, jobs, note).Run();
}

void PrintFailedTrials(const PlannedSweep& sweep, std::size_t failed) {
  if (failed == 0) return;
  PrintMessage(
      fmt::format("{}: {} of {} failed (error.txt in its folder of {} gives the reason); the same command retries",
                  sweep.experiment.name, failed, Counted(sweep.plan.trials.size(), "trial"), sweep.folder));
}

}  // namespace emplace::experiments
