#include "experiments/validation/validation_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/testing/graphs.h"

namespace emplace {
namespace {

TEST(ValidationJsonTest, HoldsSummaryOpsAndEveryPlacement) {
  experiments::ValidationCase fits;
  fits.label = "random 0";
  fits.simulated = {.micros = 12, .busy = {10, 2}, .start = {}};
  fits.measured.result.step_time_micros = 10;
  fits.measured.step_micros = {9.5, 10, 11};
  fits.measured_busy = {8, 1};
  experiments::ValidationCase does_not;
  does_not.label = "random 1";
  does_not.measured.result.fits_memory = false;
  does_not.measured.failure = "no room";
  experiments::ValidationSummary summary;
  summary.placements = 2;
  summary.compared = 1;
  summary.simulated.step.median = 0.2;
  summary.interleaved = {
      .step = {.median = 0.1, .spearman = 0.5, .pearson = 0.4}, .median_busy = 0.05, .p90_start = 0.3};
  fits.interleaved = experiments::PredictedStep{.micros = 11, .busy = {9, 2}, .start = {}};
  summary.ops = {
      {.signature = "relu(f32[1])", .device_kind = "cpu-core", .runs = 3, .simulated_micros = 1, .measured_micros = 2}};
  std::ostringstream out;
  experiments::WriteValidation(out, testing::MakeChain(2, 1, 0), testing::TwoDevices(), std::vector{fits, does_not},
                               summary);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["schema"], "emplace.validation");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["devices"], nlohmann::json({"gpu:0", "gpu:1"}));
  EXPECT_EQ(json["summary"]["median_step_error"], 0.2);
  EXPECT_TRUE(json["summary"]["spearman"].is_null());
  EXPECT_EQ(json["summary"]["interleaved"]["median_step_error"], 0.1);
  EXPECT_EQ(json["summary"]["interleaved"]["spearman"], 0.5);
  EXPECT_EQ(json["summary"]["interleaved"]["median_busy_error"], 0.05);
  EXPECT_EQ(json["summary"]["interleaved"]["p90_start_error"], 0.3);
  EXPECT_EQ(json["cases"][0]["interleaved_us"], 11.0);
  EXPECT_EQ(json["ops"][0]["measured_us"], 2.0);
  EXPECT_EQ(json["cases"][0]["measured_steps_us"], nlohmann::json({9.5, 10.0, 11.0}));
  EXPECT_EQ(json["cases"][1]["failure"], "no room");
  EXPECT_FALSE(json["cases"][1].contains("measured_us"));
}

}  // namespace
}  // namespace emplace
