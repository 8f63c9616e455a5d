#include "experiments/run/trial_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "experiments/plan/checked_json.h"
#include "sim/base/fingerprint.h"
#include "sim/base/json_text.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace {
namespace {

nlohmann::json Parsed(const JsonValue& value) {
  std::string text;
  AppendJson(&text, value);
  return nlohmann::json::parse(text);
}

// Two ops of 1 us each, on two devices; nothing is run, the results are made up.
agents::SearchSpec TwoOps() {
  return testing::MakeSearch(testing::MakeChain(2, 1, 8), testing::MakeCluster(2), "random");
}

agents::GraphResult Gained() {
  agents::GraphResult result;
  result.evaluations = 10;
  result.num_groups = 2;
  result.fitting = 7;
  result.best = Placement(2);
  result.start_micros = 8;
  result.final_micros = 6;
  result.trace = {{1, 8}, {4, 5}, {10, 5}};
  return result;
}

agents::SearchResult With(const agents::GraphResult& first) {
  agents::SearchResult result;
  static_cast<agents::GraphResult&>(result) = first;
  return result;
}

const JsonValue kNoSpec{JsonObject{}};

TEST(TrialJsonTest, GainsAreInPercentOfTheStart) {
  const nlohmann::json trial = Parsed(experiments::TrialToJson("id", kNoSpec, TwoOps(), With(Gained()), ""));
  EXPECT_EQ(trial.at("trial"), "id");
  EXPECT_FALSE(trial.contains("experiment"));
  EXPECT_FALSE(trial.contains("transfer"));
  const nlohmann::json& graph = trial.at("graphs").at(0);
  EXPECT_EQ(graph.at("improvement_percent"), 37.5);
  EXPECT_EQ(graph.at("lower_bound_us"), 2);
  EXPECT_EQ(graph.at("trace"), nlohmann::json::parse("[[1, 8], [4, 5], [10, 5]]"));
  EXPECT_FALSE(graph.contains("episodes"));
}

TEST(TrialJsonTest, EpisodesHaveSixDigitsAndTheMeansOfThoseLeftOut) {
  agents::GraphResult result = Gained();
  result.episodes = {{.episode = 0, .evaluations = 4, .final_micros = 1234567.8, .best_micros = 1, .entropy = 1.0 / 3},
                     {.episode = 9,
                      .evaluations = 10,
                      .argmax = true,
                      .left_out = agents::EpisodesLeftOut{.episodes = 7, .entropy = 0.2}}};
  result.num_episodes = 10;
  const nlohmann::json episodes =
      Parsed(experiments::TrialToJson("id", kNoSpec, TwoOps(), With(result), "")).at("graphs").at(0).at("episodes");
  EXPECT_EQ(episodes.at(0).at("step_time_us"), 1234570);
  EXPECT_EQ(episodes.at(0).at("entropy"), 0.333333);
  EXPECT_FALSE(episodes.at(0).contains("left_out"));
  EXPECT_EQ(episodes.at(1).at("left_out"), nlohmann::json::parse(R"({"episodes": 7, "entropy": 0.2})"));
}

TEST(TrialJsonTest, TimesAreWholeMicroseconds) {
  agents::SearchResult result = With(Gained());
  result.times = {.policy = 0.0800000004, .simulator = 1e-7, .wall = 2};
  const nlohmann::json timing = Parsed(experiments::TimingToJson(result, std::nullopt));
  EXPECT_EQ(timing.at("policy_seconds"), 0.08);
  EXPECT_EQ(timing.at("simulator_seconds"), 0);
}

TEST(TrialJsonTest, SaysWhereOneDeviceIsBetter) {
  const auto beaten_by = [](const agents::GraphResult& result) {
    const nlohmann::json graph =
        Parsed(experiments::TrialToJson("id", kNoSpec, TwoOps(), With(result), "")).at("graphs").at(0);
    return graph.contains("beaten_by_one_device_us") ? graph.at("beaten_by_one_device_us") : nlohmann::json();
  };
  agents::GraphResult result = Gained();
  result.best_result.step_time_micros = 5;
  EXPECT_TRUE(beaten_by(result).is_null());
  result.one_device_micros = 5;
  EXPECT_TRUE(beaten_by(result).is_null());
  result.one_device_micros = 4;
  EXPECT_EQ(beaten_by(result), 4);
  result.best.reset();  // nothing fits, but on one device
  result.trace.clear();
  EXPECT_EQ(beaten_by(result), 4);
}

TEST(TrialJsonTest, SaysWhatMovingSingleOpsGives) {
  agents::SearchResult result = With(Gained());
  const auto graph = [&] {
    return Parsed(experiments::TrialToJson("id", kNoSpec, TwoOps(), result, "")).at("graphs").at(0);
  };
  EXPECT_FALSE(graph().contains("single_ops_step_time_us"));
  result.single_ops_micros = 3;
  EXPECT_EQ(graph().at("single_ops_step_time_us"), 3);
}

TEST(TrialJsonTest, RewardsAtTheirFloorAreCounted) {
  const auto graph_of = [](const agents::GraphResult& result) {
    return Parsed(experiments::TrialToJson("id", kNoSpec, TwoOps(), With(result), "")).at("graphs").at(0);
  };
  agents::GraphResult result = Gained();
  EXPECT_FALSE(graph_of(result).contains("saturated"));
  result.saturated = 5;
  EXPECT_EQ(graph_of(result).at("saturated"), 5);
  EXPECT_FALSE(graph_of(result).contains("warning"));
  result.saturated = 6;
  EXPECT_THAT(graph_of(result).at("warning").get<std::string>(), ::testing::StartsWith("6 of 10 evaluations had"));
}

TEST(TrialJsonTest, BothFilesSayWhatTheyWereWrittenWith) {
  const auto text = [](const JsonValue& value) {
    std::string out;
    AppendJson(&out, value);
    return out;
  };
  const JsonValue trial = experiments::TrialToJson("id", kNoSpec, TwoOps(), With(Gained()), "{}");
  EXPECT_EQ(Parsed(trial).at("version"), 2);
  EXPECT_EQ(Parsed(trial).at("best_placement_fingerprint"), FingerprintText("{}"));
  EXPECT_TRUE(Parsed(experiments::TrialToJson("id", kNoSpec, TwoOps(), With(Gained()), ""))
                  .at("best_placement_fingerprint")
                  .is_null());
  for (const JsonValue& file : {trial, experiments::TimingToJson(With(Gained()), std::nullopt)}) {
    const std::string whole = text(file);
    EXPECT_EQ(testing::ErrorOf([&] { experiments::CheckChecksum(JsonNode(ParseJson(whole)), true, "again"); }),
              "(no error)");
    const std::string changed = testing::Replaced(whole, "\"version\":2", "\"version\":3");
    EXPECT_NE(testing::ErrorOf([&] { experiments::CheckChecksum(JsonNode(ParseJson(changed)), true, "again"); }),
              "(no error)");
  }
}

TEST(TrialJsonTest, WhereNothingFitsWhatThereIsNotIsNull) {
  agents::GraphResult nothing = Gained();
  nothing.best.reset();
  nothing.trace.clear();
  const nlohmann::json graph =
      Parsed(experiments::TrialToJson("id", kNoSpec, TwoOps(), With(nothing), "")).at("graphs").at(0);
  EXPECT_TRUE(graph.at("best_step_time_us").is_null());
  EXPECT_TRUE(graph.at("improvement_percent").is_null());
}

TEST(TrialJsonTest, GraphsTogetherAddTheirEvaluationsUpAndTransfersDoNot) {
  agents::SearchSpec spec = TwoOps();
  spec.also.push_back(spec.problem);
  spec.transfer.push_back(spec.problem);
  agents::SearchResult result = With(Gained());
  result.also = {Gained()};
  result.transfer = {Gained()};
  const nlohmann::json trial = Parsed(experiments::TrialToJson("id", kNoSpec, spec, result, ""));
  EXPECT_EQ(trial.at("evaluations"), 20);
  EXPECT_EQ(trial.at("graphs").size(), 2U);
  ASSERT_EQ(trial.at("transfer").size(), 1U);
  EXPECT_EQ(trial.at("transfer").at(0).at("step_time_us"), 6);  // the final step time of the policy
  EXPECT_EQ(trial.at("transfer").at(0).at("best_step_time_us"), 5);
}

TEST(TrialJsonTest, PolicySecondsAreSharedByTheEpisodesOfAllGraphs) {
  agents::SearchResult result = With(Gained());
  result.times = {.policy = 6, .simulator = 2, .wall = 9};
  EXPECT_TRUE(Parsed(experiments::TimingToJson(result, std::nullopt))
                  .at("policy_seconds_per_episode")
                  .is_null());  // no episodes
  result.episodes.resize(1);    // out of ten
  result.num_episodes = 10;
  result.also = {Gained()};
  result.also[0].num_episodes = 20;
  const nlohmann::json timing = Parsed(experiments::TimingToJson(result, std::nullopt));
  EXPECT_EQ(timing.at("episodes"), 30);
  EXPECT_EQ(timing.at("policy_seconds_per_episode"), 0.2);
  EXPECT_EQ(timing.at("simulator_seconds"), 2);
  EXPECT_FALSE(timing.contains("hardware"));
}

TEST(TrialJsonTest, WhatWasRunForRealIsInTheTiming) {
  experiments::MeasuredSteps measured;
  measured.checks = {{.evaluation = 3, .simulated_micros = 5, .measured_micros = 5.5},
                     {.evaluation = 9, .simulated_micros = 4, .measured_micros = std::nullopt}};
  measured.best_micros = 5.25;
  const nlohmann::json hardware = Parsed(experiments::TimingToJson(With(Gained()), measured)).at("hardware");
  EXPECT_EQ(hardware.at("best_step_time_us"), 5.25);
  EXPECT_EQ(hardware.at("checks").at(0).at("measured_us"), 5.5);
  EXPECT_TRUE(hardware.at("checks").at(1).at("measured_us").is_null());
  EXPECT_EQ(hardware.at("checks").at(1).at("evaluation"), 9);
}

}  // namespace
}  // namespace emplace
