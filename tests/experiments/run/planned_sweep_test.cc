#include "experiments/run/planned_sweep.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "experiments/run/runs_folder.h"
#include "experiments/run/sweep_run.h"
#include "experiments/run/sweep_view.h"
#include "tests/testing/errors.h"
#include "tests/testing/experiments.h"

namespace emplace::testing {
namespace planned_sweep_test {

namespace fs = std::filesystem;
using experiments::PartOf;
using experiments::PlannedSweep;
using experiments::PlanSweep;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PlannedSweepTest : public ::testing::Test {
 protected:
  PlannedSweepTest() {
    std::string made = ::testing::TempDir() + "planned_sweep_XXXXXX";
    runs_ = mkdtemp(made.data());
  }
  ~PlannedSweepTest() override { fs::remove_all(runs_); }

  PlannedSweep Plan() const {
    std::istringstream experiment(WithLine("seeds: [1, 2, 3]"));
    return PlanSweep(experiment, "x.yaml", runs_);
  }

  std::string runs_;
};

TEST_F(PlannedSweepTest, APartKeepsTheFoldersOfTheWhole) {
  const PlannedSweep sweep = Plan();
  const PlannedSweep part = PartOf(sweep, {2});
  ASSERT_EQ(part.plan.trials.size(), 1U);
  EXPECT_EQ(part.plan.trials[0].id, sweep.plan.trials[2].id);
  EXPECT_THAT(part.folders, ElementsAre(sweep.folders[2]));
  EXPECT_THAT(SizeText(part), HasSubstr("1 of 3 trials"));
}

TEST_F(PlannedSweepTest, APlanThatIsWrittenIsFoundAndHasNoResults) {
  const PlannedSweep sweep = Plan();
  EXPECT_NE(ErrorOf([&] { experiments::PlannedFolders(runs_); }), "");
  experiments::WritePlannedSweep(sweep);
  EXPECT_THAT(experiments::PlannedFolders(runs_), ElementsAre(fs::canonical(sweep.folder).string()));
  EXPECT_THAT(experiments::DescribeTrial(sweep.experiment, sweep.plan.trials[1]), HasSubstr("seed 2"));
  EXPECT_EQ(experiments::RunsOf(sweep).unfinished.size(), 3U);
}

TEST_F(PlannedSweepTest, EachCoreRunsATrialUnlessTheUserSaysHowMany) {
  const PlannedSweep sweep = Plan();
  EXPECT_EQ(experiments::ProcessesOf(7, sweep), 7U);
  EXPECT_GE(experiments::ProcessesOf(0, sweep), 1U);
  experiments::CheckJobs(7, sweep);  // these trials are simulated
}

TEST(SweepViewTest, ProgressSaysWhatIsLeft) {
  experiments::RunState state{.experiment = "thesis", .trials = 6, .finished = 3};
  state.left_seconds = 120;
  EXPECT_EQ(experiments::ProgressText(state),
            "3 of 6 trials finished, 0 running, 0 waiting, 0 failed; about 2 min left");
  EXPECT_EQ(experiments::EvaluationsText({.evaluations = 120, .budget = 1000}), "120 of 1000");
  EXPECT_EQ(experiments::EvaluationsText({}), "-");
}

}  // namespace planned_sweep_test
}  // namespace emplace::testing
