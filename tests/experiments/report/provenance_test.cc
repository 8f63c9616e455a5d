#include "experiments/report/provenance.h"

#include <gmock/gmock.h>

#include <sstream>

#include "sim/base/json_build.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace report_ran_test {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Markdown(const experiments::ExperimentRuns& runs) {
  std::ostringstream out;
  experiments::WriteMarkdown(out, {.title = "t", .blocks = experiments::ProvenanceBlocks(runs)});
  return out.str();
}

TEST(ReportRanTest, SaysWhatRanAndWhatDidNot) {
  experiments::ExperimentRuns runs{.name = "demo"};
  runs.trials = MakeRecords({{.label = "a"}, {.label = "b"}, {.label = "c", .best = std::nullopt}});
  runs.unfinished = {{.id = "1", .what = "x", .error = "broke"}, {.id = "2", .what = ""}};
  const std::string text = Markdown(runs);
  EXPECT_THAT(text, HasSubstr("- 3 trials finished, 1 failed, 1 not finished."));
  EXPECT_THAT(text, HasSubstr("- Failed: x (1): broke"));
  EXPECT_THAT(text, HasSubstr("- Not finished: 1 trial: 2."));
  EXPECT_THAT(text, HasSubstr("- Agents: a; b; c."));
  EXPECT_THAT(text, HasSubstr("- Devices: 2 GPUs."));
  EXPECT_THAT(text, HasSubstr("| c | random | {} | runtime |"));
  EXPECT_THAT(text, HasSubstr("1 trial found nothing that fits"));
  EXPECT_THAT(text, HasSubstr("- emplace 0.1.0, revision abc.\n\n"));  // the last item
  EXPECT_THAT(text, Not(HasSubstr("Left out")));
}

TEST(ReportRanTest, PrintsTheSettingsByTheirList) {
  experiments::ExperimentRuns runs{.name = "demo"};
  runs.trials = MakeRecords({{.label = "a"}, {.label = "b"}});
  AddMember(&std::get<JsonObject>(runs.trials[1].spec.data), "hardware",
            JsonValue{JsonObject{{.key = "patience", .value = JsonValue{2.5}}}});
  const std::string text = Markdown(runs);
  EXPECT_THAT(text, HasSubstr("| engine | fifo |"));
  EXPECT_THAT(text, HasSubstr("| hardware.patience | 2.5 | seconds | Seconds to wait for a quiet machine"));
  EXPECT_THAT(text, Not(HasSubstr("| micro\\_batches")));  // no spec has it
  EXPECT_THAT(text, Not(HasSubstr("an objective")));
  AddMember(&std::get<JsonObject>(runs.trials[0].spec.data), "objective", JsonValue{std::string("throughput")});
  EXPECT_THAT(Markdown(runs), HasSubstr("- Trials with an objective report its value wherever a step time is named."));
}

TEST(ReportRanTest, SaysWhichTrialsAreWorseThanOneDevice) {
  experiments::ExperimentRuns runs{.name = "demo"};
  runs.trials = MakeRecords({{.label = "a"}, {.label = "b"}, {.label = "b"}});
  EXPECT_THAT(Markdown(runs), Not(HasSubstr("Worse than everything on one device")));
  runs.trials[2].graphs[0].beaten_by_one_device_micros = 3;
  EXPECT_THAT(Markdown(runs), HasSubstr("- Worse than everything on one device, which fits: 1 trial (b 1 of 2)."));
}

TEST(ReportRanTest, RepeatsTheWarningsOfTrials) {
  experiments::ExperimentRuns runs{.name = "demo"};
  runs.trials = MakeRecords({{.label = "a"}, {.label = "b"}});
  EXPECT_THAT(Markdown(runs), Not(HasSubstr("Warning")));
  runs.trials[1].graphs[0].warning = "9 of 10 evaluations";
  EXPECT_THAT(Markdown(runs), HasSubstr("- Warning: b on cifar10\\_00, seed 1: "));
  EXPECT_THAT(Markdown(runs), HasSubstr(": 9 of 10 evaluations.\n"));
}

TEST(ReportRanTest, SaysHowManyTrialsWereLeftOut) {
  experiments::ExperimentRuns runs{.name = "demo", .abandoned = 3, .kept = {"num_devices 2"}};
  const std::string text = Markdown(runs);
  EXPECT_THAT(text, HasSubstr("- Only trials with num\\_devices 2."));
  EXPECT_THAT(text, HasSubstr("- Left out: 3 trials that the experiment no longer has."));
  EXPECT_THAT(text, HasSubstr("- 0 trials finished, 0 failed, 0 not finished."));
}

}  // namespace report_ran_test
}  // namespace emplace::testing
