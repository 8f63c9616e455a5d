#include "experiments/run/trial_record.h"

#include <gtest/gtest.h>

#include <string>

#include "experiments/plan/checked_json.h"
#include "sim/base/json_text.h"

namespace emplace::testing {
namespace {

TEST(TrialRecordTest, TheImprovementIsInPercentOfTheTimeOfOneDevice) {
  EXPECT_EQ(experiments::ImprovementPercent(200, 150), 25);
  EXPECT_EQ(experiments::ImprovementPercent(200, 300), -50);
  EXPECT_EQ(experiments::ImprovementPercent(200, 200), 0);
  EXPECT_EQ(experiments::ImprovementPercent(std::nullopt, 150), std::nullopt);
  EXPECT_EQ(experiments::ImprovementPercent(200, std::nullopt), std::nullopt);
  EXPECT_EQ(experiments::ImprovementPercent(0, 150), std::nullopt);
}

TEST(TrialRecordTest, ATrialThatIsWrittenReadsTheSame) {
  experiments::TrialRecord trial;
  trial.spec = ParseJson(R"({"agent":{"label":"mine","name":"placeto"},"seed":7})");
  trial.id = experiments::TrialId(trial.spec);
  trial.experiment = {std::string("demo")};
  trial.version = "0.1.0";
  trial.graphs = {{.graph = "a", .num_ops = 3, .trace = {{1, 8}, {4, 5.5}}, .episodes = {{.argmax = true}}}, {}};
  trial.transfers = {{.graph = "b", .improvement = -2}};
  trial.placement_fingerprint = "ab";
  const std::string text = JsonText(experiments::TrialRecordToJson(trial));
  const JsonValue root = ParseJson(text);
  const experiments::TrialRecord read = experiments::ReadTrialRecord(JsonNode(root));
  EXPECT_EQ(JsonText(experiments::TrialRecordToJson(read)), text);
  EXPECT_EQ(read.label, "mine");
  EXPECT_EQ(read.seed, "7");
  EXPECT_EQ(read.transfers.at(0).improvement, -2);
  EXPECT_TRUE(read.graphs.at(0).episodes.at(0).argmax);
}

TEST(TrialRecordTest, WhatAnAgentDoesNotKnowOfAnEpisodeIsNotInTheFile) {
  experiments::TrialRecord trial;
  trial.spec = ParseJson(R"({"agent":{"label":"mine","name":"placeto"},"seed":7})");
  trial.id = experiments::TrialId(trial.spec);
  trial.graphs = {{.graph = "a", .episodes = {{.entropy = 0.5}}}};
  const std::string without = JsonText(experiments::TrialRecordToJson(trial));
  for (const char* const key : {"gradient_norm", "grouper_entropy", "tied"}) {
    EXPECT_EQ(without.find(key), std::string::npos) << key;
  }
  trial.graphs[0].episodes = {{.gradient_norm = 1.5, .grouper_entropy = 0.25, .tied = 3}};
  const JsonValue root = ParseJson(JsonText(experiments::TrialRecordToJson(trial)));
  const experiments::EpisodeTrace read = experiments::ReadTrialRecord(JsonNode(root)).graphs.at(0).episodes.at(0);
  EXPECT_EQ(read.gradient_norm, 1.5);
  EXPECT_EQ(read.grouper_entropy, 0.25);
  EXPECT_EQ(read.tied, 3);
}

TEST(TrialRecordTest, TimesThatAreWrittenReadTheSame) {
  const experiments::HardwareCheck check{.evaluation = 3, .simulated_micros = 5, .measured_micros = 5.5};
  experiments::TimingRecord timing{.policy_seconds = 6, .policy_seconds_per_episode = 2, .episodes = 3};
  timing.hardware = experiments::MeasuredSteps{.checks = {check, {}}, .best_micros = 4, .interleaved_micros = 4.5};
  const std::string text = JsonText(experiments::TimingRecordToJson(timing));
  const JsonValue root = ParseJson(text);
  EXPECT_EQ(JsonText(experiments::TimingRecordToJson(experiments::ReadTimingRecord(JsonNode(root)))), text);
}

}  // namespace
}  // namespace emplace::testing
