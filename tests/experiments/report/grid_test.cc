#include "experiments/report/grid.h"

#include <gmock/gmock.h>

#include "sim/base/json_build.h"
#include "sim/base/json_text.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Titles(const experiments::ReportGrid& grid) {
  std::vector<std::string> titles;
  for (const auto& column : grid.columns) titles.push_back(experiments::ColumnTitle(grid, column));
  return titles;
}

TEST(ReportGridTest, ColumnsAreDatasetsAndNumbersOfDevices) {
  // Numeric order: 10 after 3. The budget varies with the graph, the device list with the number of devices.
  std::vector<SampleTrial> trials;
  for (const char* const dataset : {"nmt", "cifar10"}) {
    for (const int devices : {10, 3}) {
      for (const int index : {0, 1}) trials.push_back({.dataset = dataset, .index = index, .devices = devices});
    }
  }
  const experiments::ReportGrid grid = experiments::MakeReportGrid(MakeRecords(trials));
  EXPECT_THAT(grid.axes, ElementsAre("graph.dataset", "num_devices"));
  EXPECT_THAT(Titles(grid), ElementsAre("cifar10, 3 GPUs", "cifar10, 10 GPUs", "nmt, 3 GPUs", "nmt, 10 GPUs"));
  EXPECT_THAT(grid.column_of, ElementsAre(3, 3, 2, 2, 1, 1, 0, 0));
  EXPECT_THAT(experiments::ColumnsByDataset(grid), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(ReportGridTest, WhatVariesForOneAgentIsAnAxisAndWhatFollowsFromItIsNone) {
  const auto records = MakeRecords({{.label = "a", .engine = "fifo"},
                                    {.label = "a", .engine = "placeto-reference"},
                                    {.label = "b", .name = "x", .engine = "fifo"}});
  const experiments::ReportGrid grid = experiments::MakeReportGrid(records);
  EXPECT_THAT(grid.axes, ElementsAre("engine"));
  EXPECT_THAT(grid.labels, ElementsAre("a", "b"));
  EXPECT_THAT(Titles(grid), ElementsAre("engine fifo", "engine placeto-reference"));
  // Engines are other problems, even if each agent has its own.
  const experiments::ReportGrid own =
      experiments::MakeReportGrid(MakeRecords({{.label = "a"}, {.label = "b", .engine = "placeto-reference"}}));
  EXPECT_THAT(own.axes, ElementsAre("engine"));
  // Settings of agents follow from the label.
  EXPECT_THAT(experiments::MakeReportGrid(MakeRecords({{.label = "a"}, {.label = "b", .name = "x"}})).axes,
              ElementsAre());
}

experiments::TrialRecord WithGraph(const std::string& graph) {
  experiments::TrialRecord trial = MakeRecord({});
  std::get<JsonObject>(trial.spec.data)[3].value = ParseJson(graph);
  return trial;
}

TEST(ReportGridTest, GraphsOfOneNameAndOtherContentAreToldApart) {
  EXPECT_THAT(Titles(experiments::MakeReportGrid({WithGraph(R"({"file": "/x/a/small.json", "fingerprint": "1"})"),
                                                  WithGraph(R"({"file": "/x/b/small.json", "fingerprint": "2"})")})),
              ElementsAre("small (a/small.json)", "small (b/small.json)"));
  EXPECT_THAT(Titles(experiments::MakeReportGrid(
                  {WithGraph(R"({"model": "gpt", "set": {}})"),
                   WithGraph(R"({"model": "gpt", "set": {}, "transform": {"recompute": "all"}})")})),
              ElementsAre("gpt", "gpt (transform {\"recompute\":\"all\"})"));
  EXPECT_THAT(Titles(experiments::MakeReportGrid({WithGraph(R"({"dataset": "nmt", "seed": 1, "index": 0})"),
                                                  WithGraph(R"({"dataset": "nmt", "seed": 2, "index": 0})")})),
              ElementsAre("nmt (seed 1)", "nmt (seed 2)"));
}

TEST(ReportGridTest, TitlesHoldNoFoldersThatAllFilesShare) {
  std::vector<experiments::TrialRecord> records = MakeRecords({{}, {}});
  for (std::size_t i = 0; i < 2; ++i) {
    auto& members = std::get<JsonObject>(records[i].spec.data);
    for (JsonMember& member : members) {
      if (member.key == "costs")
        member.value = ToJson("profile: /home/me/" + std::string(i == 0 ? "a" : "b") + "/p.json");
    }
  }
  EXPECT_THAT(Titles(experiments::MakeReportGrid(records)),
              ElementsAre("costs profile: a/p.json", "costs profile: b/p.json"));
}

TEST(ReportGridTest, GraphsAndSeedsAreRepetitions) {
  const experiments::ReportGrid grid =
      experiments::MakeReportGrid(MakeRecords({{.index = 0, .seed = 1}, {.index = 0, .seed = 2}, {.index = 5}}));
  EXPECT_THAT(grid.axes, ElementsAre());
  EXPECT_THAT(grid.column_of, ElementsAre(0, 0, 0));
  EXPECT_THAT(experiments::ColumnsByDataset(grid), ElementsAre(ElementsAre(0)));
}

TEST(ReportGridTest, GraphsWithoutADatasetStandUnderTheirOwnNames) {
  experiments::TrialRecord trial = MakeRecord({});
  auto& graph = std::get<JsonObject>(trial.spec.data)[3].value;
  graph = ParseJson(R"({"file": "/somewhere/small.json"})");
  EXPECT_EQ(experiments::GraphGroup(trial), "small");
  graph = ParseJson(R"({"model": "nmt", "set": {}})");
  EXPECT_EQ(experiments::GraphGroup(trial), "nmt");
  graph = ParseJson(R"({"model": "nmt", "set": {"layers": 2}})");
  EXPECT_EQ(experiments::GraphGroup(trial), "nmt {\"layers\":2}");
  graph = ParseJson(R"({"instance": "chain-8-equal-2", "fingerprint": "88e6e1e72da6747e"})");
  EXPECT_EQ(experiments::GraphGroup(trial), "library");
}

TEST(ReportGridTest, TrainingTogetherIsAnAxis) {
  auto records = MakeRecords({{}, {.index = 1}});
  auto& members = std::get<JsonObject>(records[1].spec.data);
  members[3] = {"together", ParseJson(R"([{"dataset": "cifar10", "index": 0}, {"dataset": "cifar10", "index": 1}])")};
  EXPECT_EQ(experiments::AxisText(records[1], "together"), "2");
  EXPECT_EQ(experiments::AxisText(records[0], "together"), "");
  EXPECT_EQ(experiments::GraphGroup(records[1]), "cifar10");
  EXPECT_THAT(Titles(experiments::MakeReportGrid(records)), ElementsAre("together 2 graphs", "one by one"));
}

TEST(ReportGridTest, NumbersAscendAsNumbersBeforeText) {
  EXPECT_TRUE(experiments::NaturallyLess("3", "10"));
  EXPECT_FALSE(experiments::NaturallyLess("10", "3"));
  EXPECT_TRUE(experiments::NaturallyLess("0.5", "a"));
  EXPECT_TRUE(experiments::NaturallyLess("a", "b"));
  EXPECT_FALSE(experiments::NaturallyLess("3", "3"));
  EXPECT_THAT(experiments::NaturallySorted({"10", "3", "a"}), ElementsAre("3", "10", "a"));
}

TEST(ReportGridTest, TheKeyOfAGraphIsItsContentWhateverSearchesIt) {
  const auto records = MakeRecords({{.label = "a", .seed = 1}, {.label = "b", .seed = 2}, {.label = "a", .index = 1}});
  EXPECT_EQ(experiments::GraphKey(records[0]), experiments::GraphKey(records[1]));
  EXPECT_NE(experiments::GraphKey(records[0]), experiments::GraphKey(records[2]));
}

TEST(ReportGridTest, TextsThatBeginWithNumbersAreSortedByThem) {
  EXPECT_THAT(experiments::NaturallySorted({"10 GPUs", "9 GPUs", "b", "a"}),
              ElementsAre("9 GPUs", "10 GPUs", "a", "b"));
}

TEST(ReportGridTest, AGraphIsKnownByItsContent) {
  const auto records =
      MakeRecords({{.label = "a", .index = 0}, {.label = "b", .index = 0}, {.label = "a", .index = 1}});
  EXPECT_EQ(experiments::GraphKey(records[0]), experiments::GraphKey(records[1]));
  EXPECT_NE(experiments::GraphKey(records[0]), experiments::GraphKey(records[2]));
}

}  // namespace
}  // namespace emplace::testing
