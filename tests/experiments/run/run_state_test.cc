#include "experiments/run/run_state.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "experiments/plan/checked_json.h"
#include "experiments/run/plan_file.h"
#include "experiments/run/run_folder.h"
#include "experiments/run/run_reader.h"
#include "experiments/run/trial_crashes.h"
#include "sim/base/json_text.h"
#include "tests/testing/errors.h"
#include "tests/testing/experiments.h"

namespace emplace::testing {
namespace run_state_test {

namespace fs = std::filesystem;
using experiments::PlanFile;
using experiments::TrialState;
using ::testing::HasSubstr;

// A planned experiment of 5 trials.
class RunStateTest : public ::testing::Test {
 protected:
  RunStateTest() {
    std::string made = ::testing::TempDir() + "run_state_XXXXXX";
    runs_ = mkdtemp(made.data());
    folder_ = runs_ + "/small";
    WritePlan("seeds: [1, 2, 3, 4, 5]");
  }
  ~RunStateTest() override { fs::remove_all(runs_); }

  void WritePlan(const std::string& seeds) {
    const experiments::ExperimentSpec experiment = ReadText(WithLine(seeds));
    experiments::WriteExperimentFile(folder_, experiment);
    plan_ = experiments::PlanTrials(experiment, /*set_up=*/false);
    folders_ = experiments::ChooseTrialFolders(folder_, plan_);
    experiments::WritePlanFile(folder_, "small", plan_, folders_, /*hardware=*/false);
  }
  std::string Prepare(std::size_t trial) const {
    std::string folder = folder_ + "/" + folders_[trial];
    experiments::PrepareTrialFolder(folder, JsonText(plan_.trials[trial].spec));
    return folder;
  }

  std::string runs_;
  std::string folder_;
  experiments::TrialPlan plan_;
  std::vector<std::string> folders_;
};

TEST_F(RunStateTest, APlanIsReadAsItWasWritten) {
  EXPECT_TRUE(experiments::HasPlan(folder_));
  EXPECT_FALSE(experiments::HasPlan(runs_));
  const PlanFile plan(folder_);
  EXPECT_EQ(plan.folder(), folder_);
  EXPECT_EQ(plan.experiment(), "small");
  EXPECT_EQ(plan.version(), experiments::ProgramVersion());
  EXPECT_FALSE(plan.hardware());
  ASSERT_EQ(plan.trials().size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    const PlanFile::Trial& trial = plan.trials()[i];
    EXPECT_EQ(trial.id(), plan_.trials[i].id);
    EXPECT_EQ(trial.work, plan_.trials[i].work);
    EXPECT_EQ(experiments::TrialId(ParseJson(trial.spec)), trial.id());
    EXPECT_EQ(plan.FolderOf(trial), folder_ + "/" + trial.id());
  }
}

TEST_F(RunStateTest, ADamagedPlanIsRefused) {
  const std::string path = folder_ + "/plan.jsonl";
  std::ofstream(path, std::ios::app) << "{}\n";
  EXPECT_EQ(ErrorOf([&] { PlanFile plan(folder_); }),
            path + ": is damaged or was changed (the same sweep, or submit, writes it again)");
}

TEST_F(RunStateTest, APlanSaysHowManyTrialsFollow) {
  const std::string path = folder_ + "/plan.jsonl";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  for (const char* const number : {"4", "6", "5.0", "\"5\"", "-5"}) {
    std::ofstream(path) << Replaced(text.str(), "\"trials\":5,", std::string("\"trials\":") + number + ",");
    EXPECT_THAT(ErrorOf([&] { PlanFile plan(folder_); }), HasSubstr(path + ": trials: is ")) << number;
  }
}

TEST_F(RunStateTest, APipeInPlaceOfAFileIsSaid) {
  const std::string folder = Prepare(0);
  ASSERT_EQ(experiments::RunTrialFolder(folder), experiments::TrialOutcome::kDone);
  const std::string timing = folder + "/timing.json";
  fs::remove(timing);
  ASSERT_EQ(mkfifo(timing.c_str(), 0600), 0);
  const std::string refusal = timing + ": cannot be read (it is not a regular file)";
  EXPECT_EQ(ErrorOf([&] { experiments::ReadRunState(folder_); }), refusal);
  EXPECT_EQ(ErrorOf([&] { experiments::ReadFinishedTrial(folder); }), refusal);
}

TEST_F(RunStateTest, ManyTrialsAreSpreadAndThoseThatAreThereStay) {
  const std::string old = Prepare(2);
  std::string seeds = "seeds: [";
  for (int i = 1; i <= 1500; ++i) seeds += std::to_string(i) + ", ";
  WritePlan(seeds + "1501]");
  std::map<std::string, std::size_t> counts;
  for (const std::string& folder : folders_) ++counts[fs::path(folder).parent_path().string()];
  EXPECT_EQ(counts.erase(""), 1U);
  EXPECT_GT(counts.size(), 15U);
  for (const auto& [shard, count] : counts) {
    EXPECT_LE(count, experiments::kMostTrialsInAFolder) << shard;
    EXPECT_EQ(shard.size(), counts.begin()->first.size());
  }
  EXPECT_EQ(folder_ + "/" + folders_[2], old);
  // Readers find both.
  ASSERT_EQ(experiments::RunTrialFolder(Prepare(7)), experiments::TrialOutcome::kDone);
  fs::create_directories(folder_ + "/" + std::string(experiments::kWorkersFolder));
  const std::vector<std::string> found = experiments::ListTrialFolders(folder_);
  EXPECT_EQ(found.size(), 2U);
  EXPECT_EQ(std::count(found.begin(), found.end(), folders_[7]), 1);
  const auto runs = experiments::ReadRuns(folder_);
  ASSERT_EQ(runs.at(0).trials.size(), 1U);
  EXPECT_EQ(runs.at(0).trials[0].id, plan_.trials[7].id);
  EXPECT_EQ(runs.at(0).unfinished.size(), 1500U);
  EXPECT_NE(runs.at(0).unfinished[3].what, "");
}

TEST_F(RunStateTest, ItSaysWhatRunsWhatWaitsAndWhatFailed) {
  ASSERT_EQ(experiments::RunTrialFolder(Prepare(0)), experiments::TrialOutcome::kDone);
  const std::string failed = Prepare(1);
  experiments::RecordCrash(failed, {.host = "a", .how = "ended", .log = "the log"});
  experiments::WriteTrialError(failed, "it broke");
  const std::string running = Prepare(2);
  const auto claim = experiments::TrialClaim::Take(running, std::chrono::seconds(60));
  std::ofstream(running + "/progress.jsonl") << "{\"evaluations\":5,\"budget\":600}\n{\"evalu";
  const std::string lost = Prepare(3);
  std::ofstream(lost + "/lock") << R"({"host":"far","instance":"i","lease_s":60})";
  fs::last_write_time(lost + "/lock", fs::last_write_time(lost + "/lock") - std::chrono::seconds(61));
  fs::create_directories(folder_ + "/0123456789abcdef");

  EXPECT_EQ(experiments::InspectTrial(failed).state, TrialState::kFailed);
  EXPECT_EQ(experiments::InspectTrial(running).state, TrialState::kRunning);
  EXPECT_EQ(experiments::InspectTrial(lost).state, TrialState::kWaiting);
  EXPECT_EQ(experiments::InspectTrial(folder_ + "/" + folders_[0]).state, TrialState::kFinished);
  const experiments::RunState state = experiments::ReadRunState(folder_);
  EXPECT_EQ(state.trials, 5U);
  EXPECT_EQ(state.finished, 1U);
  ASSERT_EQ(state.failed.size(), 1U);
  EXPECT_EQ(state.failed[0].error, "it broke");
  EXPECT_EQ(state.failed[0].log, "the log");
  EXPECT_EQ(state.failed[0].folder, failed);
  ASSERT_EQ(state.running.size(), 1U);
  EXPECT_EQ(state.running[0].evaluations, 5U);
  EXPECT_EQ(state.running[0].budget, 600U);
  EXPECT_NE(state.running[0].what.find("annealing"), std::string::npos);
  EXPECT_EQ(state.num_waiting(), 2U);
  ASSERT_EQ(state.waiting.size(), 2U);
  EXPECT_EQ(state.waiting[0].reason, "not started");
  EXPECT_EQ(state.waiting[1].reason, "the process on far sent no heartbeat for longer than its lease of 60 s");
  EXPECT_EQ(state.others, 1U);
  EXPECT_TRUE(state.left_seconds);
  EXPECT_TRUE(state.differing.empty());
}

}  // namespace run_state_test
}  // namespace emplace::testing
