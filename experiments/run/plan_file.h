#ifndef EMPLACE_EXPERIMENTS_RUN_PLAN_FILE_H_
#define EMPLACE_EXPERIMENTS_RUN_PLAN_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/plan/trial_plan.h"

namespace emplace::experiments {

// RUNS/EXPERIMENT/plan.jsonl: what workers run. The first line describes the plan (`emplace.plan`); each other line is
// a trial: its folder, its estimated work and its spec.
class PlanFile {
 public:
  struct Trial {
    std::string folder = {};     // relative to the experiment's: ID, or SHARD/ID
    double work = 0;             // PlannedTrial::work
    std::string_view spec = {};  // the content of spec.json, without the newline

    std::string id() const;
  };

  // Throws InputError, its place the file, if it is missing or damaged.
  explicit PlanFile(const std::string& experiment_folder);
  PlanFile(PlanFile&&) = default;  // the text is long, so that views of it stay valid
  PlanFile& operator=(PlanFile&&) = default;
  PlanFile(const PlanFile&) = delete;
  PlanFile& operator=(const PlanFile&) = delete;
  ~PlanFile() = default;

  const std::string& folder() const { return folder_; }  // the experiment's
  const std::string& experiment() const { return experiment_; }
  const std::string& version() const { return version_; }  // version of the program that wrote the plan
  bool hardware() const { return hardware_; }              // trials run on real devices
  const std::vector<Trial>& trials() const { return trials_; }
  std::string FolderOf(const Trial& trial) const { return folder_ + "/" + trial.folder; }

 private:
  std::string folder_;
  std::string text_;
  std::string experiment_;
  std::string version_;
  bool hardware_ = false;
  std::vector<Trial> trials_;
};

// Version and revision of this program, as in a plan.
std::string ProgramVersion();

bool HasPlan(const std::string& experiment_folder);

// Up to this many trials have their folders in the experiment's. More are spread over folders named after the first
// digits of their IDs, so that none holds more, because servers of shared file systems are slow in large folders.
inline constexpr std::size_t kMostTrialsInAFolder = 100;

// The output of workers, next to the trials in the experiment's folder.
inline constexpr std::string_view kWorkersFolder = "workers";

// The folders of trials in an experiment's folder, relative to it, sorted: ID or SHARD/ID.
std::vector<std::string> ListTrialFolders(const std::string& experiment_folder);

// The folder of each trial of a plan, relative to the experiment's: where it already is, or where it belongs.
std::vector<std::string> ChooseTrialFolders(const std::string& experiment_folder, const TrialPlan& plan);

// Writes the plan. `folders` is what ChooseTrialFolders said.
void WritePlanFile(const std::string& experiment_folder, const std::string& experiment, const TrialPlan& plan,
                   const std::vector<std::string>& folders, bool hardware);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_PLAN_FILE_H_
