#include "experiments/report/abandoned_trials.h"

#include <gmock/gmock.h>

#include <sstream>

#include "experiments/spec/trial_plan.h"
#include "tests/testing/errors.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace abandoned_trials_test {

using ::testing::HasSubstr;

constexpr const char* kExperiment =
    "# Which?\n"
    "schema: emplace.experiment\n"
    "version: 1\n"
    "name: demo\n"
    "graphs: {model: rnnlm}\n"
    "cluster: {name: p2.8xlarge, gpus: 2}\n"
    "agent: {name: random}\n"
    "budget: {evaluations: 10}\n"
    "seeds: [1, 2]\n";

class AbandonedTrialsTest : public ::testing::Test {
 protected:
  AbandonedTrialsTest() {
    WriteText(file_, kExperiment);
    std::istringstream text(kExperiment);
    const experiments::TrialPlan plan =
        experiments::PlanTrials(experiments::ReadExperiment(text, file_), /*set_up=*/false);
    runs_ = {{.name = "demo"}};
    for (const experiments::PlannedTrial& trial : plan.trials) Add(trial.id);
  }
  void Add(const std::string& id) {
    runs_[0].trials.push_back(MakeRecord({}));
    runs_[0].trials.back().id = id;
  }

  std::string file_ = ::testing::TempDir() + "abandoned_trials_test/demo.yaml";
  std::vector<experiments::ExperimentRuns> runs_;
};

TEST_F(AbandonedTrialsTest, TrialsThatTheExperimentNoLongerHasAreLeftOutAndCounted) {
  Add("0123456789abcdef");
  runs_[0].unfinished = {{.id = "1123456789abcdef"}, {.id = runs_[0].trials[0].id}};
  runs_.push_back({.name = "other", .trials = MakeRecords({{}})});
  experiments::LeaveOutAbandoned(file_, &runs_);
  EXPECT_EQ(runs_[0].trials.size(), 2U);
  EXPECT_EQ(runs_[0].unfinished.size(), 1U);
  EXPECT_EQ(runs_[0].abandoned, 2U);
  EXPECT_EQ(runs_[1].trials.size(), 1U);
  EXPECT_EQ(runs_[1].abandoned, 0U);
}

TEST_F(AbandonedTrialsTest, AnExperimentWithoutRunsIsRefused) {
  runs_[0].name = "other";
  EXPECT_THAT(ErrorOf([this] { experiments::LeaveOutAbandoned(file_, &runs_); }),
              HasSubstr("demo.yaml: is the experiment demo, of which there are no runs"));
  runs_[0].name = "demo";
  for (experiments::TrialRecord& trial : runs_[0].trials) trial.id = "0123456789abcdef";
  EXPECT_THAT(ErrorOf([this] { experiments::LeaveOutAbandoned(file_, &runs_); }),
              HasSubstr("demo.yaml: has none of the finished trials of demo"));
}

}  // namespace abandoned_trials_test
}  // namespace emplace::testing
