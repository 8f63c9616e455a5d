#include "experiments/report/report.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <sstream>

#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace report_test {

using ::testing::HasSubstr;
using ::testing::Not;

std::optional<PictureInputs> NoPicture(const JsonValue&) { return std::nullopt; }

std::optional<PictureInputs> APair(const JsonValue&) {
  const Graph graph = MakeChain(2, 4, 2000);
  const Cluster cluster = TwoDevices();
  return PictureInputs{graph, cluster, MeasuredCosts(graph, cluster), "fifo"};
}

std::string Markdown(const std::vector<ExperimentRuns>& runs, const RebuildProblem& rebuild = NoPicture) {
  std::ostringstream out;
  WriteMarkdown(out, MakeReport(runs, rebuild));
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

TEST(ReportTest, SaysWhatRanAndWhatDidNot) {
  ExperimentRuns runs{.name = "demo", .question = "Which one?"};
  runs.trials = MakeRecords(TwoAgents());
  runs.trials.push_back(MakeRecord({.label = "c", .best = std::nullopt}));
  runs.unfinished = {{.id = "1", .what = "x", .error = "broke"}, {.id = "2", .what = ""}};
  const std::string text = Markdown({runs});
  EXPECT_THAT(text, HasSubstr("Which one?"));
  EXPECT_THAT(text, HasSubstr("- 9 trials finished, 1 failed, 1 not finished."));
  EXPECT_THAT(text, HasSubstr("- Failed: x (1): broke"));
  EXPECT_THAT(text, HasSubstr("- Not finished: 1 trial: 2."));
  EXPECT_THAT(text, HasSubstr("- Agents: a; b; c."));
  EXPECT_THAT(text, HasSubstr("- Devices: 2."));
  EXPECT_THAT(text, HasSubstr("| c | random | {} | runtime |"));
  EXPECT_THAT(text, HasSubstr("- emplace 0.1.0, revision abc."));
  EXPECT_THAT(text, HasSubstr("1 trial found nothing that fits"));
}

TEST(ReportTest, TablesShowMeansAndTheBestInBold) {
  // b: 700, 710, 720, 730 us are 30, 29, 28, 27 %: 28.5.
  ExperimentRuns runs{.name = "demo", .metrics = {"improvement", "entropy"}};
  runs.trials = MakeRecords(TwoAgents());
  const std::string text = Markdown({runs});
  EXPECT_THAT(text, HasSubstr("**Improvement over the first placement, %**"));
  EXPECT_THAT(text, HasSubstr("| b | **28.5** \\[27.5, 29.5\\] | 4 |\n| a | 10.00 \\[10.00, 10.00\\] | 4 |"));
  EXPECT_THAT(text, HasSubstr("of the largest possible: no trial has any."));
  // Four of four in one direction: 2 / 16, one test.
  EXPECT_THAT(text, HasSubstr("| b | a | 18.5 \\[17.5, 19.5\\] | 4 | 0.12 | 4 | 0.12 |"));
}

TEST(ReportTest, PolicyCostIsGivenInThreeWays) {
  ExperimentRuns runs{.name = "demo", .metrics = {"pc_ratio"}};
  runs.trials = MakeRecords(TwoAgents());
  // 28.5 % in 2 s.
  EXPECT_THAT(Markdown({runs}), HasSubstr("| b | 14.25 | 14.25 | 14.25 |"));
}

TEST(ReportTest, AgentsWithDifferentStartsAreComparedByStepTimeToo) {
  ExperimentRuns runs{.name = "demo"};
  runs.trials = MakeRecords(TwoAgents());
  EXPECT_THAT(Markdown({runs}), Not(HasSubstr("start from different placements")));
  runs.trials[0].graphs[0].start_micros = 2000;
  EXPECT_THAT(Markdown({runs}), HasSubstr("start from different placements"));
}

TEST(ReportTest, TheBestPlacementIsDrawn) {
  const std::string folder = ::testing::TempDir() + "report_test/trial";
  WriteText(folder + "/best_placement.json",
            R"({"schema": "emplace.placement", "version": 1, "graph": "g", "cluster": "c",
                "devices": {"op0": "gpu:0", "op1": "gpu:1"}})");
  ExperimentRuns runs{.name = "demo"};
  runs.trials = MakeRecords(TwoAgents());
  EXPECT_THAT(Markdown({runs}, APair), Not(HasSubstr("Best placements")));
  runs.trials[1].folder = folder;  // b on graph 0: the best of all
  runs.trials[2].folder = folder;
  const std::string text = Markdown({runs}, APair);
  // 4 us, 2 us of transfer, 4 us.
  EXPECT_THAT(text, HasSubstr("b, cifar10 0, 2 devices, seed 1"));
  EXPECT_THAT(text, HasSubstr("0.01000 ms a step"));
  EXPECT_THAT(Markdown({runs}), HasSubstr("No picture of b, cifar10 0"));
  // A slower one that began much further away, of a graph where one device takes as long, is not better.
  for (auto& trial : runs.trials) trial.graphs[0].single_device_micros = 1000;
  runs.trials[2].graphs[0].start_micros = 5000;
  runs.trials[2].graphs[0].improvement = 82;
  EXPECT_THAT(Markdown({runs}), HasSubstr("No picture of b, cifar10 0"));
  WriteText(folder + "/best_placement.json", "{}");
  EXPECT_THAT(ErrorOf([&] { MakeReport({runs}, APair); }), HasSubstr("best_placement.json: "));
}

TEST(ReportTest, SameRunsSameReport) {
  ExperimentRuns runs{.name = "demo"};
  runs.trials = MakeRecords(TwoAgents());
  EXPECT_EQ(Markdown({runs}), Markdown({runs}));
}

TEST(ReportTest, ExperimentsStandOneAfterTheOther) {
  ExperimentRuns first{.name = "first"};
  first.trials = MakeRecords({{}});
  const ExperimentRuns empty{.name = "empty", .unfinished = {{.id = "1"}}};
  const std::string text = Markdown({empty, first});
  EXPECT_THAT(text, HasSubstr("# emplace report\n"));
  EXPECT_THAT(text, HasSubstr("## empty\n\n### What ran\n\n- 0 trials finished, 0 failed, 1 not finished."));
  EXPECT_THAT(text, HasSubstr("## first"));
}

TEST(ReportTest, UnknownWordsAreRefused) {
  ExperimentRuns runs{.name = "demo", .metrics = {"beauty"}};
  runs.trials = MakeRecords({{}});
  EXPECT_THAT(ErrorOf([&] { MakeReport({runs}, NoPicture); }), HasSubstr("demo: metrics: unknown metric \"beauty\""));
  runs.metrics.clear();
  runs.published = "nothing";
  EXPECT_THAT(ErrorOf([&] { MakeReport({runs}, NoPicture); }), HasSubstr("there is no table \"nothing\""));
}

}  // namespace report_test
}  // namespace emplace::testing
