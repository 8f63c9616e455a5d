#include "experiments/report/published_rows.h"

#include <gmock/gmock.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "experiments/plan/experiment.h"
#include "experiments/plan/trial_plan.h"
#include "experiments/shipped_tables.h"
#include "tests/testing/errors.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace published_rows_test {

using ::testing::ElementsAre;

experiments::PublishedFigure Figure(const std::map<std::string, std::string>& match, const std::string& place) {
  return {.match = match, .metric = "step_time", .value = 1, .place = place};
}

std::vector<std::string> Names(const std::vector<experiments::PublishedRow>& rows) {
  std::vector<std::string> names;
  names.reserve(rows.size());
  for (const experiments::PublishedRow& row : rows) names.push_back(row.name);
  return names;
}

// Two networks with two methods each, in two tables.
experiments::PublishedFigures Table() {
  return {.name = "t",
          .source = "someone",
          .figures = {
              Figure({{"graph.dataset", "nmt"}, {"agent.label", "a"}}, "table 1, NMT, 2 GPUs, A"),
              Figure({{"graph.dataset", "ptb"}, {"agent.label", "a"}}, "table 1, PTB (large), 4 GPUs, A"),
              Figure({{"graph.dataset", "nmt"}, {"agent.name", "b"}}, "table 1, NMT, 2 GPUs, B"),
              Figure({{"graph.dataset", "nmt"}, {"agent.label", "a"}}, "table 2, NMT, 2 GPUs, seconds"),
              Figure({{"graph.dataset", "ptb"}, {"agent.label", "b"}}, "table 1, PTB (large), 4 GPUs, B"),
          }};
}

TEST(PublishedRowsTest, ARowHasTheFiguresThatDifferInTheAgentOnly) {
  const std::vector<experiments::PublishedRow> rows = experiments::RowsOf(Table());
  EXPECT_THAT(Names(rows), ElementsAre("nmt-2-gpus", "ptb-large-4-gpus"));
  EXPECT_EQ(rows[0].title, "NMT, 2 GPUs");
  EXPECT_EQ(rows[0].figures.size(), 3U);
  EXPECT_THAT(rows[0].tables, ElementsAre("table 1", "table 2"));
  EXPECT_EQ(experiments::TableOf(rows[0].figures[2]), "table 2");
  EXPECT_EQ(rows[0].match, (std::map<std::string, std::string>{{"graph.dataset", "nmt"}}));
  EXPECT_EQ(rows[1].figures.size(), 2U);
}

TEST(PublishedRowsTest, ARowWithoutANameOfItsOwnIsNamedByItsConditions) {
  experiments::PublishedFigures published;
  for (const std::string dataset : {"nmt", "ptb"}) {
    published.figures.push_back(Figure({{"graph.dataset", dataset}, {"agent.label", "a"}}, "table 1, 2 GPUs, A"));
    published.figures.push_back(Figure({{"graph.dataset", dataset}, {"agent.label", "b"}}, "table 1, 2 GPUs, B"));
  }
  published.figures.push_back(Figure({{"agent.label", "a"}}, "table 3"));
  published.figures.push_back(Figure({{"agent.label", "a"}}, "table 4"));
  published.figures.back().over = {{"num_devices", {"2", "3"}}};
  EXPECT_THAT(Names(experiments::RowsOf(published)),
              ElementsAre("graph-dataset-nmt", "graph-dataset-ptb", "all", "num-devices-2-3"));
}

TEST(PublishedRowsTest, ARowIsFoundByNameOrTitle) {
  const std::vector<experiments::PublishedRow> rows = experiments::RowsOf(Table());
  EXPECT_EQ(&experiments::FindRow(rows, "nmt-2-gpus", "t"), &rows[0]);
  EXPECT_EQ(&experiments::FindRow(rows, "PTB (large), 4 GPUs", "t"), &rows[1]);
  EXPECT_EQ(ErrorOf([&] { experiments::FindRow(rows, "nmt", "t"); }),
            "t: unknown row \"nmt\" (nmt-2-gpus, ptb-large-4-gpus); did you mean nmt-2-gpus?");
}

TEST(PublishedRowsTest, TrialsBelongToARowByTheirSpec) {
  experiments::PublishedRow row = experiments::RowsOf(Table())[0];
  const JsonValue spec = MakeRecord({.label = "other", .dataset = "nmt", .devices = 3}).spec;
  EXPECT_TRUE(experiments::IsInRow(row, spec));
  EXPECT_FALSE(experiments::IsInRow(row, MakeRecord({.dataset = "ptb"}).spec));
  row.over = {{"num_devices", {"2", "3"}}};
  EXPECT_TRUE(experiments::IsInRow(row, spec));
  EXPECT_FALSE(experiments::IsInRow(row, MakeRecord({.dataset = "nmt", .devices = 4}).spec));
  row.match["num_devices"] = "2";
  EXPECT_FALSE(experiments::IsInRow(row, spec));
}

// The experiment of each table has trials in all of its rows, but for those that say what cannot be compared.
TEST(PublishedRowsTest, ShippedExperimentsHaveTrialsInTheRowsOfTheirTablesLengthy) {
  std::set<std::string> without;
  for (const std::string_view name : experiments::PublishedTableNames()) {
    const auto yaml = experiments::FindReproducedExperiment(name);
    ASSERT_TRUE(yaml) << name;
    std::istringstream in{std::string(*yaml)};
    const experiments::ExperimentSpec experiment = experiments::ReadExperiment(in, std::string(name));
    EXPECT_EQ(experiment.name, name);
    EXPECT_EQ(experiment.published, name);
    const experiments::TrialPlan plan = experiments::PlanTrials(experiment, /*set_up=*/false);
    for (const experiments::PublishedRow& row : experiments::RowsOf(experiments::LoadPublished(experiment.published))) {
      EXPECT_EQ(row.title.find("graph."), std::string::npos) << row.title;
      const bool has_trial = std::any_of(plan.trials.begin(), plan.trials.end(),
                                         [&row](const auto& trial) { return experiments::IsInRow(row, trial.spec); });
      if (!has_trial) without.insert(row.name);
    }
  }
  EXPECT_THAT(without, ElementsAre("rnn-based-approach"));
  EXPECT_FALSE(experiments::FindReproducedExperiment("calibration"));  // names no table
  EXPECT_THAT(experiments::ReproducedExperimentNames(), ::testing::Contains("thesis_quick"));
}

}  // namespace published_rows_test
}  // namespace emplace::testing
