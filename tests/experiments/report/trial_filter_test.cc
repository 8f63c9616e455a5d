#include "experiments/report/trial_filter.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

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
  EXPECT_EQ(Error({"num_devices=4"}), "--where num_devices=4: is so of no finished trial (2, 3, 10)");
  EXPECT_EQ(Error({"budget.minutes=4"}), "--where budget.minutes=4: is so of no finished trial (no trial says it)");
  EXPECT_EQ(Error({"graph.dataset=nmt", "agent.label=placeto"}),
            "--where: no finished trial has graph.dataset nmt, agent.label placeto");
  for (const char* const text : {"seed", "=1", "seed=", ""}) {
    EXPECT_EQ(Error({text}), "--where " + std::string(text) + ": is no KEY=VALUE (such as budget.evaluations=1000)");
  }
}

}  // namespace trial_filter_test
}  // namespace emplace::testing
