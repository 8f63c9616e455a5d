#include "experiments/validation/calibration.h"

#include <gmock/gmock.h>

#include <cmath>
#include <sstream>
#include <string>

#include "experiments/shipped_tables.h"
#include "sim/base/check.h"
#include "sim/device_catalog.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

experiments::CalibrationSpec Read(const std::string& text) {
  std::istringstream in(text);
  return experiments::ReadCalibration(in, "c.yaml");
}

std::string ErrorOfFigure(const std::string& figure) {
  try {
    Read("schema: emplace.calibration\nversion: 1\nfigures:\n  - {" + figure + "}\n");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

constexpr const char* kSmall = R"(
schema: emplace.calibration
version: 1
figures:
  - {figure: a, model: rnnlm, set: {hidden: 64, steps: 2}, cluster: post-8k80, device: "gpu:0", published_s: 0.5, use: fit}
  - {figure: b, model: rnnlm, set: {hidden: 64, steps: 2}, cluster: post-8k80, device: "gpu:0", published_s: 0.25, use: held_out}
  - {figure: c, model: rnnlm, set: {hidden: 64, steps: 2}, cluster: post-8k80, device: "gpu:0", published: oom}
  - {figure: d, model: rnnlm, cluster: post-8k80, set: {layers: 8}, device: "gpu:1", published: oom}
  - {figure: e, model: rnnlm, set: {hidden: 64, steps: 2}, cluster: post-8k80, agent: round_robin, gpus: 2, published: oom}
)";

TEST(CalibrationTest, RatiosAreSimulatedByPublished) {
  const experiments::CalibrationSpec spec = Read(kSmall);
  const experiments::CalibrationResult result = experiments::RunCalibration(spec);
  ASSERT_EQ(result.rows.size(), 5U);
  EXPECT_EQ(result.rows[0].device_kind, "k80");
  EXPECT_GT(result.rows[0].seconds, 0);
  EXPECT_EQ(result.rows[0].seconds, result.rows[1].seconds);
  EXPECT_DOUBLE_EQ(result.rows[0].ratio.value(), result.rows[0].seconds / 0.5);
  EXPECT_DOUBLE_EQ(result.rows[1].ratio.value(), result.rows[0].seconds / 0.25);
  // With one held-out time, the median is its error.
  EXPECT_DOUBLE_EQ(result.median_held_out_error.value(), std::abs(result.rows[1].ratio.value() - 1));
}

TEST(CalibrationTest, OutOfMemoryIsAgreedOnOrNot) {
  const experiments::CalibrationSpec spec = Read(kSmall);
  const experiments::CalibrationResult result = experiments::RunCalibration(spec);
  EXPECT_FALSE(result.rows[2].ratio);
  EXPECT_TRUE(result.rows[2].fits);   // 64 units
  EXPECT_FALSE(result.rows[3].fits);  // 8 layers of 2048 units need more than the card's 10.24 GiB
  EXPECT_GT(result.rows[3].peak_bytes, result.rows[3].capacity_bytes);
  EXPECT_NEAR(result.rows[3].capacity_bytes / (1 << 30), 10.24, 1e-6);
  EXPECT_TRUE(result.rows[4].fits);
  EXPECT_EQ(result.oom_cells, 3U);
  EXPECT_EQ(result.oom_agreed, 1U);
}

TEST(CalibrationTest, AScaleIsFittedToWhatIsLeftBetweenTheGaps) {
  const experiments::CalibrationSpec spec = Read(kSmall);
  const experiments::CalibrationResult result = experiments::RunCalibration(spec);
  // 0.5 s = gaps + factor * busy. With that factor in the catalogue, the simulated time would be the published one.
  const double scale = result.fitted_scales.at("k80");
  const double now = FindDeviceKind("k80")->time_scale;
  const double simulated = result.rows[0].seconds;
  // Gaps of 5.7 us for each op of non-zero time are less than a tenth of these steps; the rest grows with the scale.
  EXPECT_GT(scale / now, 0.5 / simulated);
  EXPECT_LT(scale / now, 0.5 / (0.4 * simulated));
}

TEST(CalibrationTest, TheCatalogueHoldsTheFittedScales) {
  std::istringstream in{std::string(experiments::ShippedTable("calibration"))};
  experiments::CalibrationSpec spec = experiments::ReadCalibration(in, "calibration.yaml");
  std::erase_if(spec.figures,
                [](const auto& figure) { return figure.use != experiments::CalibrationFigure::Use::kFit; });
  ASSERT_FALSE(spec.figures.empty());
  const experiments::CalibrationResult result = experiments::RunCalibration(spec);
  ASSERT_EQ(result.fitted_scales.size(), 3U);
  for (const auto& [kind, scale] : result.fitted_scales) {
    EXPECT_NEAR(FindDeviceKind(kind)->time_scale, scale, 0.001 * scale) << kind;
  }
}

TEST(CalibrationTest, TheShippedFiguresAreAllOfThePapers) {
  std::istringstream in{std::string(experiments::ShippedTable("calibration"))};
  const experiments::CalibrationSpec spec = experiments::ReadCalibration(in, "calibration.yaml");
  std::size_t times = 0;
  std::size_t out_of_memory = 0;
  for (const experiments::CalibrationFigure& figure : spec.figures)
    ++(figure.published_seconds ? times : out_of_memory);
  // Table 1 of HDP: 3 GPU and 5 CPU times; table 1 of Post: 8 single-GPU times. Out of memory: 3, 3, and 8 of SGDP's
  // METIS.
  EXPECT_EQ(times, 3U + 5 + 8);
  EXPECT_EQ(out_of_memory, 3U + 3 + 8);
}

TEST(CalibrationTest, BadFilesAreRefusedWithTheirPlace) {
  const std::string good = "figure: a, model: rnnlm, cluster: c, device: d, ";
  EXPECT_EQ(ErrorOfFigure(good + "published_s: 1, use: maybe"),
            "c.yaml: figures[0].use: is the text \"maybe\" (fit, held_out or excluded)");
  EXPECT_THAT(ErrorOfFigure(good + "published: never"), HasSubstr("figures[0].published"));
  EXPECT_THAT(ErrorOfFigure(good + "use: fit"), HasSubstr("figures[0].published_s: is missing"));
  EXPECT_THAT(ErrorOfFigure(good + "published_s: 0, use: fit"), HasSubstr("figures[0].published_s"));
  EXPECT_THAT(ErrorOfFigure("figure: a, model: rnnlm, cluster: c, agent: metis, published: oom"),
              HasSubstr("figures[0].gpus: is missing"));
  EXPECT_THAT(ErrorOfFigure(good + "published: oom, published_s: 1"),
              HasSubstr("figures[0].published_s: cannot be used together with"));
  EXPECT_THAT(ErrorOfFigure(good + "published: oom, gpus: 1"), HasSubstr("figures[0].gpus: is for agents only"));
  EXPECT_THAT(ErrorOfFigure("figure: a, model: rnnlm, cluster: c, agent: metis, gpus: 2, published_s: 1, use: fit"),
              HasSubstr("figures[0].published_s: cannot be used together with agent"));
  EXPECT_THAT(ErrorOfFigure(good + "published: oom, set: [1]"), HasSubstr("figures[0].set: is not an object"));
  EXPECT_THAT(ErrorOfFigure(good + "published: oom, colour: red"), HasSubstr("figures[0].colour: unknown key"));
}

TEST(CalibrationTest, WhatCannotBeRunIsNamedByItsFigure) {
  const auto run = [](const std::string& figure) -> std::string {
    try {
      experiments::RunCalibration(Read(
          "schema: emplace.calibration\nversion: 1\nfigures:\n  - {figure: here, published: oom, " + figure + "}\n"));
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(run("model: lenet, cluster: post-8k80, device: \"gpu:0\""), HasSubstr("here"));
  EXPECT_THAT(run("model: rnnlm, set: {layers: 0}, cluster: post-8k80, device: \"gpu:0\""),
              HasSubstr("rnnlm: layers must be 1..64, got 0"));
  EXPECT_THAT(run("model: rnnlm, cluster: post-8k80, device: \"tpu:0\""), HasSubstr("tpu:0"));
  EXPECT_THROW(experiments::RunCalibration(
                   Read("schema: emplace.calibration\nversion: 1\nfigures:\n  - {figure: a, model: rnnlm, set: "
                        "{hidden: 64, steps: 2}, cluster: post-8k80, device: \"gpu:0\", published_s: 1e-6, "
                        "use: fit}\n")),
               InputError);
}

}  // namespace
}  // namespace emplace::testing
