#include "experiments/report/metrics.h"

#include <gmock/gmock.h>

#include <set>

#include "sim/base/json_text.h"
#include "tests/testing/errors.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace report_metrics_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

double Score(const experiments::TrialRecord& trial, std::string_view metric) {
  const auto scores = experiments::FindMetric(metric, "").scores(trial);
  EXPECT_EQ(scores.size(), 1U) << metric;
  EXPECT_EQ(scores.at(0).graph, trial.graphs[0].graph);
  return scores.at(0).score.value / scores.at(0).score.per;
}

TEST(ReportMetricsTest, EveryMetricIsReadFromItsPlace) {
  // 1000 to 800 us is 20 %; 2 s an episode; the lower bound is 400 us; entropies .9 and .5 of the training episodes.
  // The last episode, an argmax one, ends at 850 us.
  const experiments::TrialRecord trial =
      MakeRecord({.episodes = {{0, true, 0.1, {}}, {1, false, 0.9, {}}, {2, false, 0.5, {}}, {3, true, 0.5, 850}}});
  EXPECT_EQ(Score(trial, "step_time"), 800);
  EXPECT_EQ(Score(trial, "improvement"), 20);
  EXPECT_EQ(Score(trial, "policy_seconds"), 2);
  EXPECT_EQ(Score(trial, "pc_ratio"), 10);
  EXPECT_EQ(Score(trial, "evaluations"), 10);
  EXPECT_DOUBLE_EQ(Score(trial, "entropy"), 0.7);
  EXPECT_EQ(Score(trial, "initial_entropy"), 0.1);
  EXPECT_EQ(Score(trial, "final_improvement"), 15);
  EXPECT_EQ(Score(trial, "lower_bound_ratio"), 2);
  EXPECT_EQ(Score(trial, "simulator_seconds"), 1.5);
  EXPECT_EQ(Score(trial, "wall_seconds"), 50);
}

TEST(ReportMetricsTest, EpisodesLeftOutCountInTheMeanEntropy) {
  experiments::TrialRecord trial = MakeRecord({});
  trial.graphs[0].episodes = {{.episode = 0, .entropy = 1},
                              {.episode = 4,
                               .argmax = true,
                               .entropy = 0.1,
                               .left_out = experiments::LeftOutTrace{.episodes = 3, .entropy = 0.2}}};
  EXPECT_DOUBLE_EQ(Score(trial, "entropy"), 0.4);
}

TEST(ReportMetricsTest, ASearchLastsUntilItIsNearItsEnd) {
  experiments::TrialRecord trial = MakeRecord({.best = 500, .trace = {{1, 1000}, {4, 530}, {8, 520}, {10, 500}}});
  trial.timing->policy_seconds = 3;
  trial.timing->simulator_seconds = 1;
  EXPECT_DOUBLE_EQ(Score(trial, "search_seconds"), 4 * 8.0 / 10);  // 520 is within 525
}

TEST(ReportMetricsTest, ABudgetsPrefixIsWhatTheRunHadFoundByThen) {
  const experiments::TrialRecord trial =
      MakeRecord({.best = 500, .trace = {{1, 1000}, {60, 900}, {100, 800}, {101, 600}, {2000, 500}}});
  EXPECT_EQ(Score(trial, "lower_bound_ratio_100"), 2);
  EXPECT_EQ(Score(trial, "lower_bound_ratio_1000"), 1.5);
  // 59 evaluations at 1000, 40 at 900, one at 800, 1899 at 600, one at 500: divided by 2000 of them, and by a bound of
  // 400.
  EXPECT_DOUBLE_EQ(Score(trial, "curve_area"), (59 * 1000.0 + 40 * 900 + 800 + 1899 * 600.0 + 500) / 2000 / 400);
}

TEST(ReportMetricsTest, AnInstanceHasABestKnownStepTime) {
  experiments::TrialRecord trial = MakeRecord({});
  EXPECT_TRUE(experiments::FindMetric("best_known_ratio", "").scores(trial).empty());  // no instance
  trial.spec = ParseJson(R"({"graph": {"instance": "planted-20-equal-4"}})");
  trial.graphs[0].best_micros = 450;  // best known: 300 us
  EXPECT_DOUBLE_EQ(Score(trial, "best_known_ratio"), 1.5);
  trial.graphs[0].best_micros = 30'000;
  EXPECT_EQ(Score(trial, "best_known_ratio"), 10);
  trial.graphs[0].best_micros.reset();
  EXPECT_EQ(Score(trial, "best_known_ratio"), 10);
}

TEST(ReportMetricsTest, EachGraphOfATrialIsAnObservation) {
  experiments::TrialRecord trial = MakeRecord({});
  trial.graphs.push_back(MakeRecord({.index = 1, .best = 500}).graphs[0]);
  trial.transfers.push_back({.graph = "t", .single_device_micros = 200, .best_micros = 180, .final_micros = 190});
  EXPECT_EQ(experiments::FindMetric("improvement", "").scores(trial).size(), 2U);
  EXPECT_EQ(experiments::FindMetric("improvement", "").scores(trial)[1].score.value, 50);
  EXPECT_EQ(experiments::FindMetric("transfer_improvement", "").scores(trial)[0].graph, "t");
  EXPECT_EQ(experiments::FindMetric("transfer_final", "").scores(trial)[0].score.value, 5);
  EXPECT_EQ(experiments::FindMetric("transfer_improvement", "").scores(trial)[0].score.value, 10);
  EXPECT_EQ(experiments::FindMetric("wall_seconds", "").scores(trial).size(), 1U);
}

TEST(ReportMetricsTest, ImprovementIsOverOneDeviceWhereverTheSearchBegan) {
  // Ends at 800 us, begins at 800 us, and one device takes 1600 us.
  experiments::TrialRecord trial =
      MakeRecord({.single_device = 1600, .start = 800, .episodes = {{0, true, 0.1, 1200}}});
  for (const char* const metric : {"improvement", "single_device_improvement"}) EXPECT_EQ(Score(trial, metric), 50);
  EXPECT_EQ(Score(trial, "final_improvement"), 25);
  EXPECT_EQ(Score(trial, "thesis_improvement"), 0);
  EXPECT_EQ(Score(trial, "pc_ratio"), 0);  // the thesis's metric
  trial.graphs[0].single_device_micros.reset();
  EXPECT_TRUE(experiments::FindMetric("improvement", "").scores(trial).empty());
}

TEST(ReportMetricsTest, APublishedTableOfTheThesissImprovementGetsAColumnOfItsOwn) {
  const experiments::PublishedFigures thesis{.name = "t", .source = "t", .figures = {{.metric = "thesis_improvement"}}};
  const experiments::PublishedFigures other{.name = "o", .source = "o", .figures = {{.metric = "step_time"}}};
  experiments::ExperimentRuns runs{.metrics = {"improvement", "entropy"}};
  EXPECT_THAT(experiments::MetricsToReport(runs, &thesis), ElementsAre("improvement", "thesis_improvement", "entropy"));
  EXPECT_THAT(experiments::MetricsToReport(runs, &other), ElementsAre("improvement", "entropy"));
  runs.metrics = {"improvement", "single_device_improvement"};  // both have one definition, hence one table
  EXPECT_THAT(experiments::MetricsToReport(runs, nullptr), ElementsAre("improvement"));
  runs.metrics = {"single_device_improvement"};
  EXPECT_THAT(experiments::MetricsToReport(runs, nullptr), ElementsAre("single_device_improvement"));
}

TEST(ReportMetricsTest, ASearchWithoutEpisodesHasNoTimePerEpisode) {
  experiments::TrialRecord trial = MakeRecord({});
  trial.timing->policy_seconds_per_episode.reset();
  EXPECT_TRUE(experiments::FindMetric("policy_seconds", "").scores(trial).empty());
  EXPECT_TRUE(experiments::FindMetric("pc_ratio", "").scores(trial).empty());
  EXPECT_EQ(Score(trial, "policy_seconds_in_all"), 40);
}

TEST(ReportMetricsTest, OnlyAnArgmaxEpisodeShowsWhatThePolicyEndsWith) {
  const experiments::TrialRecord trial = MakeRecord({.episodes = {{0, true, 0.1, 700}, {1, false, 0.9, 850}}});
  EXPECT_TRUE(experiments::FindMetric("final_improvement", "").scores(trial).empty());
}

TEST(ReportMetricsTest, WhatIsNotThereIsLeftOut) {
  experiments::TrialRecord trial = MakeRecord({.best = std::nullopt});
  trial.timing.reset();
  for (const experiments::MetricEntry& metric : experiments::AllMetrics()) {
    if (metric.name == "rank") continue;  // rank is defined only among trials
    EXPECT_EQ(metric.scores(trial).size(), metric.name == "evaluations" || metric.name == "ops" ? 1U : 0U)
        << metric.name;
  }
}

TEST(ReportMetricsTest, NoImprovementGivesARatioOfZero) {
  experiments::TrialRecord trial = MakeRecord({.best = 1100});
  EXPECT_EQ(Score(trial, "improvement"), -10);
  EXPECT_EQ(Score(trial, "pc_ratio"), 0);
}

TEST(ReportMetricsTest, NamesAreDistinctAndUnknownOnesListThem) {
  std::set<std::string_view> names;
  for (const experiments::MetricEntry& metric : experiments::AllMetrics())
    EXPECT_TRUE(names.insert(metric.name).second);
  EXPECT_THAT(ErrorOf([] { experiments::FindMetric("beauty", "demo: metrics"); }),
              HasSubstr("demo: metrics: unknown metric \"beauty\" (step_time, step_time_best, step_time_median"));
  experiments::ExperimentRuns runs;
  EXPECT_THAT(experiments::MetricsToReport(runs, nullptr), ElementsAre("step_time", "improvement", "policy_seconds"));
  runs.metrics = {"entropy"};
  EXPECT_THAT(experiments::MetricsToReport(runs, nullptr), ElementsAre("entropy"));
}

}  // namespace report_metrics_test
}  // namespace emplace::testing
