#include "experiments/report/learning_curves.h"

#include <gtest/gtest.h>

#include "sim/base/json_text.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace {

double CentreAt(const experiments::Curve& curve, double x) {
  for (const experiments::CurvePoint& point : curve.points) {
    if (point.x == x) return point.centre;
  }
  return -1;
}

TEST(LearningCurvesTest, ImprovementIsThatOfTheBestSoFar) {
  // From 1000 us: 900 after 2 evaluations (10 %), 500 after 4 (50 %), no change until 8. Steps of equal ratio from 1 to
  // 8 include every whole number.
  const auto records = MakeRecords({{.label = "a", .best = 500, .trace = {{1, 1000}, {2, 900}, {4, 500}, {8, 500}}}});
  const auto curves = experiments::ImprovementCurves(records, experiments::MakeReportGrid(records), {0});
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(curves[0].label, "a");
  EXPECT_EQ(curves[0].points.front().x, 1);
  EXPECT_EQ(curves[0].points.back().x, 8);
  EXPECT_EQ(CentreAt(curves[0], 1), 0);
  EXPECT_EQ(CentreAt(curves[0], 2), 10);
  EXPECT_EQ(CentreAt(curves[0], 3), 10);
  EXPECT_EQ(CentreAt(curves[0], 4), 50);
  EXPECT_EQ(CentreAt(curves[0], 7), 50);
  for (const experiments::CurvePoint& point : curves[0].points) EXPECT_EQ(point.low, point.centre);
}

TEST(LearningCurvesTest, OverOneDeviceAgentsCompareWhereverTheyBegin) {
  // One device takes 500 us. The first search begins at twice that (-100 %) and ends 20 % below; the second begins at
  // 500 us and does not improve.
  auto records = MakeRecords({{.label = "far", .best = 400, .trace = {{1, 1000}, {8, 400}}},
                              {.label = "near", .best = 500, .trace = {{2, 500}, {8, 500}}}});
  for (auto& record : records) record.graphs[0].single_device_micros = 500;
  const auto curves = experiments::ImprovementCurves(records, experiments::MakeReportGrid(records), {0});
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_EQ(CentreAt(curves[0], 1), -100);
  EXPECT_EQ(CentreAt(curves[0], 8), 20);
  EXPECT_EQ(curves[1].points.front().x, 2);  // nothing was found before
  EXPECT_EQ(CentreAt(curves[1], 8), 0);
}

TEST(LearningCurvesTest, GraphsWeighAlikeWhateverTheirSeeds) {
  // Graph 0: 10 % and 30 % by two seeds, mean 20; graph 1: 40 %. The mean is 30, the band from 20 to 40.
  const auto with = [](int index, int seed, double best) {
    return SampleTrial{.index = index, .seed = seed, .best = best, .trace = {{1, 1000}, {10, best}}};
  };
  const auto records = MakeRecords({with(0, 1, 900), with(0, 2, 700), with(1, 1, 600)});
  const auto curves = experiments::ImprovementCurves(records, experiments::MakeReportGrid(records), {0});
  ASSERT_EQ(curves.size(), 1U);
  const experiments::CurvePoint& last = curves[0].points.back();
  EXPECT_EQ(last.centre, 30);
  EXPECT_EQ(last.low, 20);
  EXPECT_EQ(last.high, 40);
}

TEST(LearningCurvesTest, AnAgentOfOneEvaluationIsDrawnAllTheWay) {
  const auto records = MakeRecords(
      {{.label = "long", .trace = {{1, 1000}, {500, 800}}}, {.label = "once", .best = 1000, .trace = {{1, 1000}}}});
  const auto curves = experiments::ImprovementCurves(records, experiments::MakeReportGrid(records), {0});
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_EQ(curves[1].label, "once");
  EXPECT_EQ(curves[1].points.back().x, 500);
  EXPECT_LE(curves[0].points.size(), 61U);
}

TEST(LearningCurvesTest, EntropyIsOfAgentsThatHaveIt) {
  const auto records = MakeRecords({{.label = "a", .index = 0, .episodes = {{0, true, 1.0}, {1, false, 0.5}}},
                                    {.label = "a", .index = 1, .episodes = {{0, true, 0.8}, {1, false, {}}}},
                                    {.label = "b"}});
  const auto curves = experiments::EpisodeCurves(records, experiments::MakeReportGrid(records), {0},
                                                 &experiments::EpisodeTrace::entropy);
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_DOUBLE_EQ(CentreAt(curves[0], 0), 0.9);
  EXPECT_DOUBLE_EQ(CentreAt(curves[0], 1), 0.5);  // only graph 0 has an entropy here
}

TEST(LearningCurvesTest, GradientsAreOfAgentsThatRecordThem) {
  auto records = MakeRecords({{.label = "a", .index = 0}, {.label = "a", .index = 1}, {.label = "b"}});
  records[0].graphs[0].episodes = {{.episode = 0, .gradient_norm = 3}, {.episode = 1, .argmax = true}};
  records[1].graphs[0].episodes = {{.episode = 0, .gradient_norm = 5}};
  records[2].graphs[0].episodes = {{.episode = 0, .entropy = 1}};
  const auto curves = experiments::EpisodeCurves(records, experiments::MakeReportGrid(records), {0},
                                                 &experiments::EpisodeTrace::gradient_norm);
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_DOUBLE_EQ(CentreAt(curves[0], 0), 4);
  EXPECT_EQ(curves[0].points.size(), 1U);
}

TEST(LearningCurvesTest, SamplesAreOfTheSingleDevicesStepTime) {
  auto records = MakeRecords({{.label = "a", .index = 0}, {.label = "a", .index = 1}, {.label = "b"}});
  records[0].graphs[0].single_device_micros = 100;
  records[0].graphs[0].episodes = {{.evaluations = 12, .mean_micros = 300}, {.evaluations = 24, .mean_micros = 50}};
  records[1].graphs[0].single_device_micros = 10;
  records[1].graphs[0].episodes = {{.evaluations = 12, .mean_micros = 10}, {.argmax = true, .evaluations = 24}};
  const auto curves = experiments::SampleCurves(records, experiments::MakeReportGrid(records), {0});
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_DOUBLE_EQ(CentreAt(curves[0], 12), 2);
  EXPECT_DOUBLE_EQ(CentreAt(curves[0], 24), 0.5);  // only graph 0 has a mean here
  EXPECT_EQ(curves[0].points.size(), 2U);
}

TEST(LearningCurvesTest, ARecordStandsForTheEpisodesLeftOutBeforeIt) {
  auto records = MakeRecords({{.label = "a", .index = 0}, {.label = "a", .index = 1}});
  const experiments::LeftOutTrace one{.episodes = 1};
  for (experiments::TrialRecord& record : records) record.graphs[0].single_device_micros = 100;
  records[0].graphs[0].episodes = {
      {.episode = 0, .entropy = 1, .evaluations = 4, .mean_micros = 100},
      {.episode = 2, .entropy = 0.5, .evaluations = 12, .mean_micros = 50, .left_out = one}};
  records[1].graphs[0].episodes = {{.episode = 0, .entropy = 1, .evaluations = 4, .mean_micros = 300},
                                   {.episode = 1, .entropy = 0.9, .evaluations = 8, .mean_micros = 150}};
  const auto grid = experiments::MakeReportGrid(records);
  const auto entropies = experiments::EpisodeCurves(records, grid, {0}, &experiments::EpisodeTrace::entropy);
  ASSERT_EQ(entropies.size(), 1U);
  EXPECT_DOUBLE_EQ(CentreAt(entropies[0], 1), 0.7);
  EXPECT_DOUBLE_EQ(CentreAt(entropies[0], 2), 0.5);  // the other search has ended
  const auto samples = experiments::SampleCurves(records, grid, {0});
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_DOUBLE_EQ(CentreAt(samples[0], 8), 1);
  EXPECT_EQ(samples[0].points.size(), 3U);
}

TEST(LearningCurvesTest, OnlyTheColumnsAskedForCount) {
  const auto records = MakeRecords({{.devices = 2, .best = 900, .trace = {{1, 1000}, {5, 900}}},
                                    {.devices = 3, .best = 100, .trace = {{1, 1000}, {5, 100}}}});
  const auto curves = experiments::ImprovementCurves(records, experiments::MakeReportGrid(records), {0});
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(curves[0].points.back().centre, 10);
}

TEST(LearningCurvesTest, EachGraphOnEachClusterIsAQuestionOfItsOwn) {
  const auto records = MakeRecords({{.label = "a", .index = 10, .devices = 3},
                                    {.label = "a", .index = 2, .devices = 3},
                                    {.label = "b", .index = 2, .devices = 3},
                                    {.label = "a", .dataset = "ptb", .index = 2, .devices = 3}});
  const auto questions = experiments::FindQuestions(records, experiments::MakeReportGrid(records));
  ASSERT_EQ(questions.size(), 3U);
  EXPECT_EQ(questions[0].title, "cifar10: " + records[1].graphs[0].graph);
  EXPECT_EQ(questions[0].trials, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(questions[1].title, "cifar10: " + records[0].graphs[0].graph);
  EXPECT_EQ(questions[1].trials, std::vector<std::size_t>{0});
  EXPECT_EQ(questions[2].title, "ptb");  // its only graph
  EXPECT_EQ(questions[2].trials, std::vector<std::size_t>{3});
  // Before there are results, the specs name the graphs.
  auto planned = records;
  for (experiments::TrialRecord& record : planned) record.graphs.clear();
  const auto open = experiments::FindQuestions(planned, experiments::MakeReportGrid(planned));
  ASSERT_EQ(open.size(), 3U);
  EXPECT_EQ(open[0].title, "cifar10: cifar10 2");
  EXPECT_EQ(open[1].title, "cifar10: cifar10 10");
}

TEST(LearningCurvesTest, GraphsThatAreTrainedTogetherAreQuestionsEach) {
  auto records = MakeRecords({{}});
  std::get<JsonObject>(records[0].spec.data)[3] = {
      "together", ParseJson(R"([{"dataset": "cifar10", "index": 0}, {"dataset": "cifar10", "index": 7}])")};
  records[0].graphs.clear();
  const auto questions = experiments::FindQuestions(records, experiments::MakeReportGrid(records));
  ASSERT_EQ(questions.size(), 2U);
  EXPECT_EQ(questions[1].title, "cifar10 7");
  EXPECT_EQ(questions[1].graph, 1U);
  EXPECT_TRUE(experiments::StepTimeCurves(records, questions[1]).empty());
}

TEST(LearningCurvesTest, StepTimesAreTheMedianOfSeedsWithItsBand) {
  const auto with = [](int seed, double best) {
    return SampleTrial{.label = "a", .seed = seed, .best = best, .trace = {{1, 1000}, {10, best}}};
  };
  const auto records = MakeRecords({with(1, 900), with(2, 300), with(3, 800)});
  const auto questions = experiments::FindQuestions(records, experiments::MakeReportGrid(records));
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_EQ(questions[0].title, records[0].graphs[0].graph);
  const auto curves = experiments::StepTimeCurves(records, questions[0]);
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(CentreAt(curves[0], 9), 1000);
  const experiments::CurvePoint& last = curves[0].points.back();
  EXPECT_EQ(last.centre, 800);
  EXPECT_EQ(last.low, 300);
  EXPECT_EQ(last.high, 900);
}

TEST(LearningCurvesTest, ASearchThatGoesOnCountsAsFarAsItHasGot) {
  auto records = MakeRecords({{.label = "a", .seed = 1, .best = 400, .trace = {{1, 1000}, {4, 400}}},
                              {.label = "a", .seed = 2, .best = 200, .trace = {{1, 600}, {2, 200}}},
                              {.label = "a", .seed = 3}});
  records[0].graphs[0].evaluations = 8;
  records[1].graphs[0].evaluations = 3;
  records[1].graphs[0].finished = false;
  records[2].graphs.clear();  // nothing is known of it
  const auto questions = experiments::FindQuestions(records, experiments::MakeReportGrid(records));
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_EQ(questions[0].trials.size(), 3U);
  const auto curves = experiments::StepTimeCurves(records, questions[0]);
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(CentreAt(curves[0], 1), 800);
  EXPECT_EQ(CentreAt(curves[0], 3), 600);
  EXPECT_EQ(CentreAt(curves[0], 4), 400);
  EXPECT_EQ(curves[0].points.back().x, 8);
  EXPECT_EQ(curves[0].points.back().centre, 400);
}

}  // namespace
}  // namespace emplace::testing
