#include "experiments/report/results.h"

#include <gmock/gmock.h>

#include <sstream>

#include "sim/base/json_text.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace report_results_test {

using ::testing::HasSubstr;

std::string Markdown(const std::vector<std::string>& metrics,
                     const experiments::PublishedFigures* published = nullptr) {
  // b: 700, 710, 720, 730 us are 30, 29, 28, 27 %: 28.5.
  std::vector<SampleTrial> trials;
  for (int index = 0; index < 4; ++index) {
    trials.push_back({.label = "a", .index = index, .best = 900});
    trials.push_back({.label = "b", .index = index, .best = 700.0 + 10 * index});
  }
  experiments::ExperimentRuns runs{.name = "demo", .metrics = metrics};
  runs.trials = MakeRecords(trials);
  std::ostringstream out;
  experiments::WriteMarkdown(
      out,
      {.title = "t", .blocks = experiments::ResultBlocks(runs, experiments::MakeReportGrid(runs.trials), published)});
  return out.str();
}

TEST(ReportResultsTest, TablesShowMeansAndTheBestInBold) {
  const std::string text = Markdown({"improvement", "entropy"});
  EXPECT_THAT(text, HasSubstr("**Improvement over everything on the fastest device, %**"));
  EXPECT_THAT(text, HasSubstr("| b | **28.5** \\[27.5, 29.5\\] | 4 |\n| a | 10.00 \\[10.00, 10.00\\] | 4 |"));
  EXPECT_THAT(text, HasSubstr("of the largest possible: no trial has any."));
}

TEST(ReportResultsTest, PolicyCostIsGivenInThreeWays) {
  // 28.5 % in 2 s.
  EXPECT_THAT(Markdown({"pc_ratio"}), HasSubstr("| b | 14.25 | 14.25 | 14.25 |"));
}

TEST(ReportResultsTest, PublishedFiguresStandBesideOurs) {
  const experiments::PublishedFigures published{
      .name = "p",
      .source = "A. Uthor 2020",
      .figures = {{.match = {{"agent.label", "b"}}, .metric = "improvement", .value = 33}}};
  const std::string text = Markdown({"improvement"}, &published);
  EXPECT_THAT(text, HasSubstr("Published figures: A. Uthor 2020."));
  EXPECT_THAT(text, HasSubstr("(published 33)"));
}

TEST(ReportResultsTest, WholeModulesAreSetBesideSingleOps) {
  experiments::ExperimentRuns runs{.name = "demo", .metrics = {"improvement"}};
  runs.trials = MakeRecords({{.best = 900}, {.index = 1, .best = 800}, {.index = 2, .best = 600}, {.index = 3}});
  for (experiments::TrialRecord& trial : runs.trials) trial.spec = ParseJson(R"({"grouping": {"name": "layers"}})");
  EXPECT_TRUE(experiments::SingleOpsNotes(runs.trials).empty());
  for (std::size_t i = 0; i < 3; ++i) runs.trials[i].graphs[0].single_ops_micros = 600;
  // 1.5, 1.33 and 1.
  const std::string note =
      "grouping layers: steps take 1.33 times as long as where single ops move, which frameworks do not (median of 3 "
      "trials)";
  EXPECT_THAT(experiments::SingleOpsNotes(runs.trials), ::testing::ElementsAre(note));
  runs.trials[0].spec = ParseJson(R"({"grouping": {"name": "modules"}})");
  const std::vector<std::string> notes = experiments::SingleOpsNotes(runs.trials);
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_THAT(notes[0], HasSubstr("layers: steps take 1.17 times"));
  EXPECT_THAT(notes[1], HasSubstr("modules: steps take 1.50 times"));
}

TEST(ReportResultsTest, ATableMarksWhatIsMissingAndPrintsIt) {
  experiments::ExperimentRuns runs{.name = "demo"};
  runs.trials = MakeRecords({{.label = "a"}, {.label = "a", .index = 1}, {.label = "b", .best = 100}});
  experiments::UnfinishedTrial failed{.id = "x", .error = "too large"};
  failed.spec = MakeRecord({.label = "b", .index = 1}).spec;
  runs.unfinished.push_back(failed);
  runs.unfinished.push_back({.id = "y"});  // without a readable spec
  EXPECT_EQ(experiments::WithMissingTrials(runs).size(), 4U);
  const experiments::TableBlock table = experiments::ImprovementTable(runs);
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0][0].text, "a");
  EXPECT_TRUE(table.rows[0][1].strong);
  EXPECT_EQ(table.rows[1][0].text, "b");
  EXPECT_FALSE(table.rows[1][1].strong);
  EXPECT_EQ(table.rows[1][1].details.back(), "(1 of 2)");
  EXPECT_TRUE(experiments::CellText(table.rows[1][1]).ends_with(" (1 of 2)"));
  // The same function, whatever shows it.
  const std::vector<experiments::TrialRecord> trials = experiments::WithMissingTrials(runs);
  const experiments::TableBlock shown = experiments::ShowTable(experiments::MakeMetricTable(
      trials, experiments::MakeReportGrid(trials), experiments::FindMetric("improvement", ""), nullptr));
  std::ostringstream one;
  std::ostringstream other;
  experiments::PrintText(one, table);
  experiments::PrintText(other, shown);
  EXPECT_EQ(one.str(), other.str());
  EXPECT_NE(one.str().find("(1 of 2)"), std::string::npos) << one.str();
}

}  // namespace report_results_test
}  // namespace emplace::testing
