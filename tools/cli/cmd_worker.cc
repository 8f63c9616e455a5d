// emplace worker.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "experiments/run/plan_file.h"
#include "experiments/run/run_folder.h"
#include "experiments/run/runs_folder.h"
#include "experiments/run/trial_claim.h"
#include "experiments/run/trial_pool.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/fingerprint.h"
#include "sim/base/printable.h"
#include "sim/base/terminal.h"
#include "tools/cli/commands.h"
#include "tools/cli/numbers.h"

namespace emplace::tools {
namespace {

constexpr std::chrono::seconds kSayEvery(60);
constexpr std::chrono::seconds kGrace(20);  // Slurm kills 30 s after SIGTERM, by default

struct WorkerOptions {
  std::string runs;
  std::size_t jobs = 0;  // 0: one per core
  double lease_seconds = std::chrono::duration<double>(experiments::kDefaultLease).count();
};

// Results of different programs are not to be mixed, nor compared.
experiments::PlanFile ReadPlan(const std::string& folder) {
  experiments::PlanFile plan(folder);
  if (plan.version() != experiments::ProgramVersion()) {
    throw InputError(folder, fmt::format("was planned by emplace {}, and this is {} (plan again: sweep or submit)",
                                         plan.version(), experiments::ProgramVersion()));
  }
  if (plan.hardware()) {
    throw InputError(folder, "has trials that run on real devices, one at a time (emplace sweep)");
  }
  return plan;
}

class Worker {
 public:
  Worker(const WorkerOptions& options, std::vector<experiments::PlanFile> plans)
      : options_(options), plans_(std::move(plans)), self_(experiments::ThisProcess(Lease())) {
    for (std::size_t p = 0; p < plans_.size(); ++p) {
      for (std::size_t t = 0; t < plans_[p].trials().size(); ++t) trials_.push_back({p, t});
    }
  }

  int Run() {
    PrintMessage(fmt::format("worker {}:{}: {} of {}, {} at a time", self_.host, self_.process,
                             Counted(trials_.size(), "trial"), Names(), Processes()));
    const experiments::PoolResult result = RunTrials();
    const std::string ran = fmt::format("worker {}:{}: ran {} here, {} failed", self_.host, self_.process,
                                        Counted(done_ + failed_, "trial"), failed_);
    if (!differing_.empty()) {
      PrintMessage(experiments::DifferenceText(differing_));
      return kBug;
    }
    if (result == experiments::PoolResult::kStopped) {
      PrintMessage(ran + "; stopped: checkpoints are saved, and other workers go on");
      return SignalStatus(stopped_by_);
    }
    if (result == experiments::PoolResult::kKeepsFailing) {
      PrintMessage(ran + "; stopped, because they keep failing at once: something may be wrong with this machine");
      return kNotFound;
    }
    PrintMessage(ran + "; all trials have ended");
    return failed_ + failed_elsewhere_ == 0 ? kSuccess : kNotFound;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Place {
    std::size_t plan;
    std::size_t trial;
  };

  std::chrono::milliseconds Lease() const {
    return std::chrono::milliseconds(static_cast<std::int64_t>(options_.lease_seconds * 1000));
  }
  std::size_t Processes() const {
    return options_.jobs > 0 ? options_.jobs : std::max(1U, std::thread::hardware_concurrency());
  }
  std::string Names() const {
    std::string names;
    for (const experiments::PlanFile& plan : plans_) names.append(names.empty() ? "" : ", ").append(plan.experiment());
    return names;
  }
  const experiments::PlanFile& PlanOf(std::size_t number) const { return plans_[trials_[number].plan]; }
  const experiments::PlanFile::Trial& TrialOf(std::size_t number) const {
    return PlanOf(number).trials()[trials_[number].trial];
  }
  std::string FolderOf(std::size_t number) const { return PlanOf(number).FolderOf(TrialOf(number)); }

  experiments::PoolResult RunTrials() {
    std::vector<experiments::TrialJob> jobs;
    // Each worker begins elsewhere, so that they seldom ask for the same trial.
    const std::size_t first = trials_.empty() ? 0 : FingerprintOf(self_.instance) % trials_.size();
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      const std::size_t number = (first + i) % trials_.size();
      jobs.push_back({.number = number, .folder = FolderOf(number)});
    }
    experiments::TrialPool pool(
        {.processes = Processes(), .lease = Lease(), .grace = kGrace, .stop_if_first_fail = true});
    const experiments::PoolResult result =
        pool.Run(std::move(jobs), {.before_start =
                                       [this](const experiments::TrialJob& job) {
                                         experiments::PrepareTrialFolder(job.folder, TrialOf(job.number).spec);
                                       },
                                   .on_end = [this](const experiments::TrialEnd& end) { Ended(end); },
                                   .on_note = [](const std::string& note) { PrintMessage(note); },
                                   .on_wait = [this](std::size_t running) { PrintPeriodically(running); }});
    stopped_by_ = pool.stopped_by();
    return result;
  }

  void Ended(const experiments::TrialEnd& end) {
    ++ended_;
    if (end.elsewhere) {
      failed_elsewhere_ += end.failed ? 1 : 0;
      return;
    }
    if (!end.said.empty()) PrintMessages(end.said);
    ++(end.failed ? failed_ : done_);
    if (end.failed) PrintMessage(fmt::format("{}: FAILED: {}", FolderOf(end.number), ErrorOf(end.number)));
    if (end.differs) differing_.push_back(FolderOf(end.number));
  }
  std::string ErrorOf(std::size_t number) const { return experiments::ReadTrialError(FolderOf(number)); }

  void PrintPeriodically(std::size_t running) {
    if (Clock::now() < next_) return;
    next_ = Clock::now() + kSayEvery;
    PrintMessage(fmt::format("worker {}:{}: {} of {} trials have ended, {} running here", self_.host, self_.process,
                             ended_, trials_.size(), running));
  }

  const WorkerOptions& options_;
  std::vector<experiments::PlanFile> plans_;
  experiments::ClaimHolder self_;
  std::vector<Place> trials_;
  std::size_t ended_ = 0;
  std::size_t done_ = 0;
  std::size_t failed_ = 0;
  std::size_t failed_elsewhere_ = 0;
  std::vector<std::string> differing_;
  int stopped_by_ = 0;
  Clock::time_point next_ = Clock::now() + kSayEvery;
};

int Run(const WorkerOptions& options) {
  std::vector<experiments::PlanFile> plans;
  for (const std::string& folder : experiments::PlannedFolders(options.runs)) plans.push_back(ReadPlan(folder));
  return Worker(options, std::move(plans)).Run();
}

}  // namespace

Command AddWorker(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("worker", "Run trials of a planned sweep together with workers on other machines");
  auto options = std::make_shared<WorkerOptions>();
  command
      ->add_option("RUNS", options->runs,
                   "Folder of runs planned by `emplace sweep` or `emplace submit`, shared by the machines, or the "
                   "folder of one experiment in it")
      ->required();
  command
      ->add_option("--jobs", options->jobs,
                   "Number of trials to run at once, each on one core (default: one for each core)")
      ->type_name("N")
      ->transform(IntegerFrom(1, 1024));
  command
      ->add_option("--lease", options->lease_seconds,
                   "Seconds without a heartbeat after which other machines take over a trial; must exceed the time for "
                   "which a network file system caches attributes (default: 180)")
      ->type_name("SECONDS")
      ->transform(NumberFrom(1, 86400));
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
