#include "experiments/report/improvement.h"

#include <gtest/gtest.h>

#include "tests/testing/runs.h"

namespace emplace::testing {
namespace {

// A trial with rewards measured on real devices.
experiments::TrialRecord Measured(const SampleTrial& sample) {
  experiments::TrialRecord trial = MakeRecord(sample);
  std::get<JsonObject>(trial.spec.data)
      .push_back({"hardware", {JsonObject{{"reward_source", {std::string("hardware")}}}}});
  return trial;
}

TEST(ReportImprovementTest, AnotherTrialOfTheProblemKnowsTheTimeOfOneDevice) {
  std::vector<experiments::TrialRecord> trials =
      MakeRecords({{.label = "old", .single_device = std::nullopt},
                   {.label = "new", .seed = 2, .single_device = 1500},
                   {.label = "old", .index = 1, .single_device = std::nullopt},
                   {.label = "old", .devices = 4, .single_device = std::nullopt}});
  experiments::FillSingleDeviceTimes(&trials);
  EXPECT_EQ(trials[0].graphs[0].single_device_micros, 1500);
  EXPECT_EQ(trials[2].graphs[0].single_device_micros, std::nullopt);  // another graph
  EXPECT_EQ(trials[3].graphs[0].single_device_micros, std::nullopt);  // other devices
}

TEST(ReportImprovementTest, TheAgentSingleDeviceKnowsItToo) {
  std::vector<experiments::TrialRecord> trials =
      MakeRecords({{.label = "old", .single_device = std::nullopt},
                   {.label = "gpu", .name = "single_device", .single_device = std::nullopt, .best = 1200}});
  experiments::FillSingleDeviceTimes(&trials);
  EXPECT_EQ(trials[0].graphs[0].single_device_micros, 1200);
}

TEST(ReportImprovementTest, WhatWasMeasuredIsNotComparedWithWhatWasSimulated) {
  std::vector<experiments::TrialRecord> trials = {Measured({.label = "a"}), MakeRecord({.label = "a", .seed = 2})};
  experiments::FillSingleDeviceTimes(&trials);
  EXPECT_EQ(trials[0].graphs[0].single_device_micros, std::nullopt);
  EXPECT_EQ(trials[1].graphs[0].single_device_micros, 1000);
  trials.push_back(Measured({.label = "gpu", .name = "single_device", .best = 1300}));
  experiments::FillSingleDeviceTimes(&trials);
  EXPECT_EQ(trials[0].graphs[0].single_device_micros, 1300);
}

TEST(ReportImprovementTest, APolicyWasAppliedFromOneDeviceOn) {
  std::vector<experiments::TrialRecord> trials = MakeRecords({{}});
  trials[0].transfers = {{.graph = "old", .start_micros = 200},
                         {.graph = "new", .single_device_micros = 300, .start_micros = 200}};
  experiments::FillSingleDeviceTimes(&trials);
  EXPECT_EQ(trials[0].transfers[0].single_device_micros, 200);
  EXPECT_EQ(trials[0].transfers[1].single_device_micros, 300);
}

}  // namespace
}  // namespace emplace::testing
