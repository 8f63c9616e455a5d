#include "agents/features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/simulator.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

// a (10 us, sends 4000 bytes) -> b (40 us, sends 1000) -> c (20 us).
agents::Observation Chain() {
  return testing::MakeObservation(
      testing::Build({testing::MakeOp("a", 10, {}, {4000}), testing::MakeOp("b", 40, {"a"}, {1000}),
                      testing::MakeOp("c", 20, {"b"}, {0})}),
      testing::TwoDevices());
}

agents::PlacementState State() {
  return {.placement = Placement({MakeId<DeviceId>(0), MakeId<DeviceId>(1), MakeId<DeviceId>(1)}),
          .done = {2, 1, 0},
          .starts = {0, 14, 60},
          .peaks = {300, 500},
          .step_micros = 80};
}

std::vector<std::vector<float>> Rows(const agents::Observation& seen, const agents::FeatureOptions& options,
                                     const agents::PlacementState& state, std::size_t current) {
  const agents::FeatureBuilder builder(seen, options);
  std::vector<std::vector<float>> rows(seen.num_groups(), std::vector<float>(builder.num_features()));
  builder.Fill(state, current, [&](std::size_t n) { return rows[n].data(); });
  return rows;
}

TEST(FeaturesTest, EachColumnIsWhatItsNumberSays) {
  const auto rows = Rows(Chain(), {.start = agents::StartFeature::kStartTime}, State(), 1);
  // time / 40, bytes / 4000, done, current, (start - 14) / 80, device.
  EXPECT_THAT(rows[0], ElementsAre(FloatEq(0.25F), 1, 2, 0, FloatEq(-14.0F / 80), 1, 0));
  EXPECT_THAT(rows[1], ElementsAre(1, FloatEq(0.25F), 1, 1, 0, 0, 1));
  EXPECT_THAT(rows[2], ElementsAre(FloatEq(0.5F), 0, 0, 0, FloatEq(46.0F / 80), 0, 1));
}

TEST(FeaturesTest, TheMemoryColumnHoldsPersistentAndOutputBytes) {
  const auto rows = Rows(Chain(), {.start = agents::StartFeature::kNone, .memory = true}, State(), 0);
  EXPECT_THAT(rows[1], ElementsAre(1, FloatEq(0.25F), 1, 0, 0, FloatEq(0.25F), 0, 1));
}

TEST(FeaturesTest, RawStartsAreDividedByTheLargestUnlessThatIsZero) {
  const agents::FeatureOptions options{.start = agents::StartFeature::kRawStart};
  // From the first: 0, 14, 60, divided by 60. From the last: -60, -46, 0: the largest is 0, so they stay in us.
  EXPECT_FLOAT_EQ(Rows(Chain(), options, State(), 0)[1][4], 14.0F / 60);
  EXPECT_FLOAT_EQ(Rows(Chain(), options, State(), 2)[0][4], -60);
}

TEST(FeaturesTest, TheThesissStartTimeIsThePeakMemoryOfADevice) {
  const agents::FeatureOptions options{.start = agents::StartFeature::kPeakMemory};
  // Current on device 0 (300): 0, 200, 200, divided by 200. Current on device 1 (500), the largest: raw -200.
  EXPECT_FLOAT_EQ(Rows(Chain(), options, State(), 0)[2][4], 1);
  EXPECT_FLOAT_EQ(Rows(Chain(), options, State(), 2)[0][4], -200);
}

TEST(FeaturesTest, AGroupStartsWithItsFirstOp) {
  const Graph graph = testing::MakeChain(4, 10, 0);
  const std::vector<std::size_t> labels = {0, 1, 1, 0};
  const Grouping grouping(graph, labels);
  StepResult result;
  result.start_micros = {5, 20, 30, 40};
  EXPECT_THAT(agents::GroupStarts(grouping, result), ElementsAre(5, 20));
}

TEST(FeaturesTest, TimeIsThatOnAcceleratorsUnlessTheGroupMayNotGoThere) {
  OpSpec op = testing::MakeOp("a", 0);
  op.time_micros = std::nullopt;
  op.kind_times = {{"test-cpu", 30}, {"test-gpu", 10}};
  OpSpec cpu_only = testing::MakeOp("b", 0);
  cpu_only.time_micros = std::nullopt;
  cpu_only.kind_times = {{"test-cpu", 40}};
  const agents::Observation seen =
      testing::MakeObservation(testing::Build({op, cpu_only}), testing::MakeMixedCluster(1));
  agents::PlacementState state{
      .placement = Placement(2), .done = {0, 0}, .starts = {0, 0}, .peaks = {}, .step_micros = 1};
  const auto rows = Rows(seen, {}, state, 0);
  EXPECT_FLOAT_EQ(rows[0][0], 0.25F);  // 10 of 40: the CPU's 30 do not count
  EXPECT_FLOAT_EQ(rows[1][0], 1);
}

}  // namespace
}  // namespace emplace
