#include "experiments/report/trial_filter.h"

#include <gmock/gmock.h>

#include <sstream>
#include <string>
#include <vector>

#include "experiments/plan/trial_plan.h"
#include "sim/base/json_text.h"
#include "tests/testing/errors.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace trial_filter_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

experiments::UnfinishedTrial Unfinished(const SampleTrial& trial) {
  experiments::UnfinishedTrial unfinished;
  unfinished.id = SampleId(trial);
  unfinished.spec = MakeRecord(trial).spec;
  return unfinished;
}

class TrialFilterTest : public ::testing::Test {
 protected:
  TrialFilterTest() {
    experiments::ExperimentRuns first;
    first.name = "first";
    for (const char* const label : {"placeto", "random"}) {
      for (const int devices : {2, 3, 10}) first.trials.push_back(MakeRecord({.label = label, .devices = devices}));
    }
    first.unfinished = {Unfinished({.label = "placeto", .seed = 7}), Unfinished({.label = "random", .seed = 7}), {}};
    experiments::ExperimentRuns second;
    second.name = "second";
    second.trials = {MakeRecord({.label = "random", .dataset = "nmt"})};
    experiments_ = {first, second};
  }
  void Keep(const std::vector<std::string>& texts) {
    experiments::KeepTrials(experiments::ParseConditions(texts, "--where"), "--where", &experiments_);
  }
  std::string Error(const std::vector<std::string>& texts) {
    return ErrorOf([&] { Keep(texts); });
  }

  std::vector<experiments::ExperimentRuns> experiments_;
};

TEST_F(TrialFilterTest, WithoutConditionsAllStay) {
  Keep({});
  ASSERT_THAT(experiments_, SizeIs(2));
  EXPECT_THAT(experiments_[0].trials, SizeIs(6));
  EXPECT_THAT(experiments_[0].unfinished, SizeIs(3));
  EXPECT_THAT(experiments_[0].kept, IsEmpty());
}

TEST_F(TrialFilterTest, OneOfTheValuesOfEachKey) {
  Keep({"num_devices=2", "agent.label=placeto", "num_devices=10"});
  ASSERT_THAT(experiments_, SizeIs(1));  // the second has no such trial
  EXPECT_EQ(experiments_[0].name, "first");
  ASSERT_THAT(experiments_[0].trials, SizeIs(2));
  for (const experiments::TrialRecord& trial : experiments_[0].trials) {
    EXPECT_EQ(trial.label, "placeto");
    EXPECT_NE(trial.graphs[0].num_devices, 3);
  }
  EXPECT_THAT(experiments_[0].kept, ElementsAre("num_devices 2 or 10", "agent.label placeto"));
}

TEST_F(TrialFilterTest, UnfinishedTrialsGoByTheirSpec) {
  Keep({"agent.label=random", "num_devices=2"});
  // The other label is excluded, and so is the trial without a spec, whose number of devices is unknown.
  ASSERT_THAT(experiments_[0].unfinished, SizeIs(1));
  EXPECT_EQ(experiments_[0].unfinished[0].id, SampleId({.label = "random", .seed = 7}));
}

TEST_F(TrialFilterTest, ErrorsNameWhatThereIs) {
  EXPECT_EQ(Error({"num_devices=4"}), "--where num_devices=4: no finished trial has this value (2, 3, 10)");
  EXPECT_EQ(Error({"budget.minutes=4"}),
            "--where budget.minutes=4: no finished trial has the key budget.minutes (a key path of spec.json, or "
            "num_devices)");
  EXPECT_EQ(Error({"graph.dataset=nmt", "agent.label=placeto"}),
            "--where: no finished trial has graph.dataset nmt, agent.label placeto");
  for (const char* const text : {"seed", "=1", "seed=", ""}) {
    EXPECT_EQ(Error({text}), "--where " + std::string(text) + ": is not KEY=VALUE (such as budget.evaluations=1000)");
  }
}

}  // namespace trial_filter_test
}  // namespace emplace::testing

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
