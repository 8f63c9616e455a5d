#include "experiments/report/tables.h"

#include <gmock/gmock.h>

#include "tests/testing/runs.h"

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Titles(const experiments::MetricTable& table) {
  std::vector<std::string> titles;
  for (const experiments::TableColumn& column : table.columns) titles.push_back(column.title);
  return titles;
}

std::vector<double> Means(const experiments::TableRow& row) {
  std::vector<double> means;
  for (const experiments::TableCell& cell : row.cells) means.push_back(cell.estimate ? cell.estimate->mean : -1);
  return means;
}

experiments::MetricTable Table(const std::vector<experiments::TrialRecord>& trials, std::string_view metric,
                               const experiments::PublishedFigures* published = nullptr) {
  return experiments::MakeMetricTable(trials, experiments::MakeReportGrid(trials), experiments::FindMetric(metric, ""),
                                      published);
}

// Improvements in percent, relative to 1000 us on one device.
SampleTrial Improved(const std::string& dataset, int devices, double percent, const std::string& label = "a") {
  return {.label = label, .dataset = dataset, .devices = devices, .best = 1000 - 10 * percent};
}

TEST(ReportTablesTest, AveragesArePlainMeansOfCellsThenOfDatasets) {
  // Three graphs in one cell have the same weight as one graph in another. d1: 20 (of 10, 20, 30) and 40, mean 30; d2:
  // 50, 70, mean 60; overall 45.
  std::vector<SampleTrial> trials = {Improved("d1", 3, 10), Improved("d1", 3, 20), Improved("d1", 3, 30),
                                     Improved("d1", 5, 40), Improved("d2", 3, 50), Improved("d2", 5, 70)};
  trials[1].index = 1;
  trials[2].index = 2;
  const experiments::MetricTable table = Table(MakeRecords(trials), "improvement");
  EXPECT_THAT(Titles(table), ElementsAre("d1, 3 GPUs", "d1, 5 GPUs", "d1, average", "d2, 3 GPUs", "d2, 5 GPUs",
                                         "d2, average", "overall"));
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_THAT(Means(table.rows[0]), ElementsAre(20, 40, 30, 50, 70, 60, 45));
  EXPECT_EQ(table.rows[0].cells[0].estimate->observations, 3U);
}

TEST(ReportTablesTest, AnAverageWithAnEmptyCellIsNone) {
  const experiments::MetricTable table =
      Table(MakeRecords({Improved("d1", 3, 10), Improved("d1", 5, 20), Improved("d1", 3, 30, "b")}), "improvement");
  EXPECT_THAT(Titles(table), ElementsAre("3 GPUs", "5 GPUs", "average"));
  EXPECT_THAT(Means(table.rows[0]), ElementsAre(10, 20, 15));
  EXPECT_THAT(Means(table.rows[1]), ElementsAre(30, -1, -1));
}

// A trial that is planned, and failed or has not run.
experiments::TrialRecord Missing(const SampleTrial& trial) {
  experiments::TrialRecord record = MakeRecord(trial);
  record.graphs.clear();
  record.timing.reset();
  return record;
}

TEST(ReportTablesTest, AnAgentThatLacksATrialIsMarkedAndNeverFirst) {
  // b gains more on the graph that it solved, but failed on the other, where a gains little: 30 against (20 + 10) / 2.
  std::vector<SampleTrial> trials = {Improved("d1", 3, 20), Improved("d1", 3, 10), Improved("d1", 3, 30, "b"),
                                     Improved("d1", 3, 0, "b")};
  trials[1].index = trials[3].index = 1;
  std::vector<experiments::TrialRecord> records = MakeRecords({trials[0], trials[1], trials[2]});
  records.push_back(Missing(trials[3]));
  const experiments::MetricTable table = Table(records, "improvement");
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0].label, "a");
  EXPECT_TRUE(table.rows[0].cells[0].IsRanked());
  EXPECT_EQ(table.rows[1].label, "b");
  EXPECT_FALSE(table.rows[1].cells[0].IsRanked());
  EXPECT_EQ(table.rows[1].cells[0].trials.found, 1U);
  EXPECT_EQ(table.rows[1].cells[0].trials.wanted, 2U);
  // Ranks are over the graph that both solved.
  const experiments::MetricTable ranks = Table(records, "rank");
  EXPECT_EQ(ranks.rows[0].label, "b");
  EXPECT_EQ(ranks.rows[0].cells[0].estimate->observations, 1U);
}

TEST(ReportTablesTest, AnAgentThatNeverTriedAGraphOfItsColumnIsMarkedToo) {
  std::vector<SampleTrial> trials = {Improved("d1", 3, 20), Improved("d1", 3, 10), Improved("d1", 3, 30, "b")};
  trials[1].index = 1;
  const experiments::MetricTable table = Table(MakeRecords(trials), "improvement");
  EXPECT_EQ(table.rows[0].label, "a");
  EXPECT_EQ(table.rows[1].cells[0].trials.found, 1U);
  EXPECT_EQ(table.rows[1].cells[0].trials.wanted, 2U);
  // Fewer seeds of each graph are not a gap: an agent without chance has one.
  std::vector<SampleTrial> seeds = {Improved("d1", 3, 20), Improved("d1", 3, 10), Improved("d1", 3, 30, "b")};
  seeds[1].seed = 2;
  EXPECT_TRUE(Table(MakeRecords(seeds), "improvement").rows[0].cells[0].IsRanked());
}

TEST(ReportTablesTest, TheBestMedianAndWorstSeedOfAGraph) {
  std::vector<SampleTrial> trials;
  for (const double best : {700, 200, 400, 900}) {
    trials.push_back(
        {.label = "a", .dataset = "d1", .devices = 3, .seed = static_cast<int>(trials.size()), .best = best});
  }
  const auto records = MakeRecords(trials);
  EXPECT_THAT(Means(Table(records, "step_time_best").rows[0]), ElementsAre(200));
  EXPECT_THAT(Means(Table(records, "step_time_median").rows[0]), ElementsAre(550));
  EXPECT_THAT(Means(Table(records, "step_time_worst").rows[0]), ElementsAre(900));
  EXPECT_THAT(Means(Table(records, "step_time").rows[0]), ElementsAre(550));
}

TEST(ReportTablesTest, RowsAreSortedBestFirst) {
  const auto labels = [](const experiments::MetricTable& table) {
    std::vector<std::string> all;
    for (const experiments::TableRow& row : table.rows) all.push_back(row.label);
    return all;
  };
  const auto records = MakeRecords({Improved("d", 3, 10, "a"),
                                    Improved("d", 3, 30, "b"),
                                    Improved("d", 3, 30, "c"),
                                    {.label = "none", .dataset = "d", .devices = 3, .best = std::nullopt}});
  EXPECT_THAT(labels(Table(records, "improvement")), ElementsAre("b", "c", "a", "none"));
  EXPECT_THAT(labels(Table(records, "step_time")), ElementsAre("b", "c", "a", "none"));
  EXPECT_THAT(labels(Table(records, "lower_bound_ratio")), ElementsAre("b", "c", "a", "none"));
}

TEST(ReportTablesTest, PublishedFiguresStandBesideWhatTheyAreAbout) {
  experiments::PublishedFigures published;
  const auto add = [&published](const experiments::PublishedFigure& figure) { published.figures.push_back(figure); };
  add({.match = {{"graph.dataset", "d1"}}, .metric = "improvement", .value = 1});
  add({.match = {{"graph.dataset", "d1"}, {"num_devices", "3"}}, .metric = "improvement", .value = 2});
  add({.match = {{"graph.dataset", "d1"}}, .over = {{"num_devices", {"3", "5"}}}, .metric = "improvement", .value = 3});
  add({.match = {}, .over = {{"num_devices", {"3", "8"}}}, .metric = "improvement", .value = 4});
  add({.match = {{"agent.name", "other"}}, .metric = "improvement", .value = 5});
  const experiments::MetricTable table =
      Table(MakeRecords({Improved("d1", 3, 10), Improved("d1", 5, 20), Improved("d2", 3, 10), Improved("d2", 5, 20)}),
            "improvement", &published);
  std::vector<double> values;
  for (const experiments::TableCell& cell : table.rows[0].cells)
    values.push_back(cell.published ? *cell.published->value : 0);
  // d1: the figure with more conditions, the one without a number of devices, the average over 3 and 5. d2 has none,
  // and the average over 3 and 8 is of other device counts.
  EXPECT_THAT(values, ElementsAre(2, 1, 3, 0, 0, 0, 0));
}

TEST(ReportTablesTest, PublishedThesisFiguresMeetOurThreeAverages) {
  std::vector<SampleTrial> trials;
  for (const char* const dataset : {"cifar10", "nmt", "ptb"}) {
    for (const int devices : {3, 5, 8}) {
      trials.push_back({.label = "placeto, right sign", .name = "placeto", .dataset = dataset, .devices = devices});
    }
  }
  const experiments::PublishedFigures thesis = experiments::LoadPublished("thesis");
  const experiments::MetricTable table = Table(MakeRecords(trials), "pc_ratio", &thesis);
  ASSERT_EQ(table.columns.size(), 13U);
  const auto& cells = table.rows[0].cells;
  EXPECT_FALSE(cells[0].published);  // the thesis prints no cells of its table 4.11
  EXPECT_EQ(cells[3].published->value, 0.264);
  EXPECT_EQ(cells[12].published->value, 0.339);
}

TEST(ReportTablesTest, PolicyCostIsOfLabelsWithEveryCell) {
  // Cells 20 % in 2 s and 40 % in 1 s: ratios 10 and 40, mean 25; means 30 and 1.5: 20.
  SampleTrial first = Improved("d", 3, 20);
  SampleTrial second = Improved("d", 5, 40);
  second.policy_seconds = 1;
  const auto records = MakeRecords({first, second, Improved("d", 3, 10, "b")});
  const auto rows = experiments::MakePolicyCostRows(records, experiments::MakeReportGrid(records));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].label, "a");
  EXPECT_EQ(rows[0].cost.mean_of_cells, 25);
  EXPECT_EQ(rows[0].cost.ratio_of_means, 20);
}

}  // namespace
}  // namespace emplace::testing
