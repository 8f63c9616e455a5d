#include "experiments/report/report.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/testing/errors.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace report_test {

using ::testing::HasSubstr;
using ::testing::Not;

std::optional<experiments::PictureInputs> NoPicture(const JsonValue&) { return std::nullopt; }

std::string Markdown(const std::vector<experiments::ExperimentRuns>& runs) {
  std::ostringstream out;
  experiments::WriteMarkdown(out, experiments::MakeReport(runs, NoPicture));
  return out.str();
}

std::vector<SampleTrial> TwoAgents() {
  std::vector<SampleTrial> trials;
  for (int index = 0; index < 4; ++index) {
    trials.push_back({.label = "a", .index = index, .best = 900});
    trials.push_back({.label = "b", .index = index, .best = 700.0 + 10 * index});
  }
  return trials;
}

TEST(ReportTest, TheAnswerComesFirstAndWhatRanLast) {
  experiments::ExperimentRuns runs{.name = "demo", .question = "Which one?"};
  runs.trials = MakeRecords(TwoAgents());
  const std::string text = Markdown({runs});
  EXPECT_THAT(text, HasSubstr("# emplace report: demo\n\n## demo\n\nWhich one?\n\n**b is ahead"));
  std::size_t at = 0;
  for (const char* const part :
       {"Which one?", "**b is ahead", "**Improvement over everything on the fastest device, %**", "### Results",
        "### Paired comparisons", "### Learning curves", "### What ran", "revision abc"}) {
    const std::size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << part;
    at = found;
  }
}

TEST(ReportTest, TestsTablesAndCurvesHaveOneImprovement) {
  // b begins where it ends. Relative to the 1000 us of one device it gains 28.5 %, in the sentence, the table and the
  // test.
  experiments::ExperimentRuns runs{.name = "demo", .metrics = {"improvement"}};
  runs.trials = MakeRecords(TwoAgents());
  for (auto& trial : runs.trials) trial.graphs[0].start_micros = trial.graphs[0].best_micros;
  const std::string text = Markdown({runs});
  EXPECT_THAT(text, HasSubstr("its step times are 28.5 % shorter"));
  EXPECT_THAT(text, HasSubstr("| b | **28.5** \\[27.5, 29.5\\] | 4 |"));
  EXPECT_THAT(text, HasSubstr("| b |  | +18.5 \\[17.5, 19.5\\] p 0.12 graphs: p 0.12 |"));
}

TEST(ReportTest, SameRunsSameReport) {
  experiments::ExperimentRuns runs{.name = "demo"};
  runs.trials = MakeRecords(TwoAgents());
  EXPECT_EQ(Markdown({runs}), Markdown({runs}));
}

TEST(ReportTest, SeveralExperimentsBeginWithTheirAnswers) {
  experiments::ExperimentRuns first{.name = "first"};
  first.trials = MakeRecords({{}});
  const experiments::ExperimentRuns empty{.name = "empty", .unfinished = {{.id = "1"}}};
  const std::string text = Markdown({empty, first});
  EXPECT_THAT(
      text, HasSubstr("# emplace report\n\n- empty: No trial is finished.\n- first: random is the only agent here: "));
  EXPECT_THAT(text,
              HasSubstr("## empty\n\n**No trial is finished.**\n\n### What ran\n\n- 0 trials finished, 0 failed, 1 "
                        "not finished."));
  EXPECT_THAT(text, HasSubstr("## first"));
  EXPECT_THAT(Markdown({first}), Not(HasSubstr("- first: ")));
}

TEST(ReportTest, UnknownWordsAreRefused) {
  experiments::ExperimentRuns runs{.name = "demo", .metrics = {"beauty"}};
  runs.trials = MakeRecords({{}});
  EXPECT_THAT(ErrorOf([&] { experiments::MakeReport({runs}, NoPicture); }),
              HasSubstr("demo: metrics: unknown metric \"beauty\""));
  runs.metrics.clear();
  runs.published = "nothing";
  EXPECT_THAT(ErrorOf([&] { experiments::MakeReport({runs}, NoPicture); }), HasSubstr("there is no table \"nothing\""));
}

}  // namespace report_test
}  // namespace emplace::testing
