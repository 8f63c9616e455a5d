#include "datasets/inference/split_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>

#include "tests/testing/gguf_file.h"

namespace emplace::testing {
namespace split_picture_test {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TEST(SplitPictureTest, EachDeviceHasItsLayersTimeAndMemory) {
  const Cluster cluster =
      Cluster::Uniform("home",
                       {{.name = "cpu:0", .kind = "cpu-core", .memory = Bytes{8192 * kMiB}, .is_cpu = true},
                        {.name = "gpu:0", .kind = "rtx-3060", .memory = Bytes{505 * kMiB}},
                        {.name = "gpu:1", .kind = "k80", .memory = Bytes{405 * kMiB}}},
                       {.bandwidth_gb_per_s = 20, .latency_micros = 8});
  const datasets::InferenceModel model =
      MakeInferenceModel({.layers = 12, .width = 1024, .heads = 8, .head_width = 128, .feed_forward = 4096});
  const auto plan = datasets::PlanInference(model, cluster, {.context = 1024});
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->stages.size(), 2U);
  EXPECT_EQ(datasets::MemoryOf(cluster, MakeId<DeviceId>(1)), Bytes{505 * kMiB});
  std::ostringstream out;
  datasets::WriteSplitSvg(out, *plan, cluster, "a model & more");
  const std::string svg = out.str();
  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_THAT(svg, HasSubstr("a model &amp; more"));
  for (const datasets::InferenceStage& stage : plan->stages) {
    EXPECT_THAT(svg, HasSubstr("layers " + stage.LayersText() + ", ")) << stage.LayersText();
  }
  EXPECT_THAT(plan->stages[1].LayersText(), ::testing::EndsWith(" to 11, output"));
  EXPECT_THAT(svg, HasSubstr("MiB of 505.00 MiB"));
  EXPECT_THAT(svg, HasSubstr(">no layers<"));  // of the second GPU
  EXPECT_THAT(svg, HasSubstr("embedding, experts: "));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace split_picture_test
}  // namespace emplace::testing
