#include "datasets/inference/split_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/datasets/importers/samples.h"
#include "tests/testing/gguf_file.h"

namespace emplace::testing {
namespace split_changes_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr Link kPcie = {.bandwidth_gb_per_s = 20, .latency_micros = 8};
constexpr Link kLan = {.bandwidth_gb_per_s = 0.3, .latency_micros = 200};

// A desktop with a CPU and a GPU, and a server with a GPU.
Cluster Home() {
  const std::vector<Device> devices = {
      {.name = "cpu:0", .kind = "cpu-core", .memory = Bytes{16384 * kMiB}, .is_cpu = true, .host = "desktop"},
      {.name = "gpu:0", .kind = "rtx-3060", .memory = Bytes{520 * kMiB}, .host = "desktop"},
      {.name = "far:0", .kind = "rtx-4090", .memory = Bytes{520 * kMiB}, .host = "server"}};
  return {"home", "", devices, {{}, kPcie, kLan, kPcie, {}, kLan, kLan, kLan, {}}, Channels::kPerDevice};
}

datasets::InferenceModel Model() {
  return MakeInferenceModel({.layers = 12, .width = 1024, .heads = 8, .head_width = 128, .feed_forward = 4096});
}

TEST(SplitChangesTest, OneMoreDeviceIsJoinedAsTheOneBesideIt) {
  const Cluster more = datasets::WithOneMore(Home(), "rtx-3090", "desktop");
  ASSERT_EQ(more.num_devices(), 4U);
  EXPECT_EQ(more.devices()[3].name, "rtx-3090");
  EXPECT_EQ(more.devices()[3].memory, FindDeviceKind("rtx-3090")->memory);
  EXPECT_THAT(datasets::MachinesOf(more), ElementsAre("desktop", "desktop", "server", "desktop"));
  const auto link = [&](std::size_t from, std::size_t to) {
    return more.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to));
  };
  EXPECT_EQ(link(3, 0), kPcie);
  EXPECT_EQ(link(1, 3), kPcie);
  EXPECT_EQ(link(3, 2), kLan);
  EXPECT_EQ(link(0, 1), kPcie);
  EXPECT_EQ(link(1, 2), kLan);
  // A second one has a name of its own, and a machine with one device gets a slot beside it.
  const Cluster two = datasets::WithOneMore(more, "rtx-3090", "server");
  EXPECT_EQ(two.devices()[4].name, "rtx-3090:1");
  const Link slot = two.link(MakeId<DeviceId>(4), MakeId<DeviceId>(2));
  EXPECT_GT(slot.bandwidth_gb_per_s, kLan.bandwidth_gb_per_s);
  EXPECT_EQ(two.link(MakeId<DeviceId>(4), MakeId<DeviceId>(0)), kLan);
}

TEST(SplitChangesTest, ANetworkIsFasterWithinNoMachine) {
  const Cluster faster = datasets::WithNetworkTimes(Home(), 10);
  EXPECT_DOUBLE_EQ(faster.link(MakeId<DeviceId>(0), MakeId<DeviceId>(2)).bandwidth_gb_per_s, 3);
  EXPECT_EQ(faster.link(MakeId<DeviceId>(0), MakeId<DeviceId>(1)), kPcie);
  EXPECT_THAT(Refusal([] { datasets::WithNetworkTimes(Home(), 0); }), HasSubstr("expected a factor above 0"));
}

TEST(SplitChangesTest, AnswersAreThePlansOfTheChangedClusters) {
  const datasets::InferenceOptions options = {.context = 1024};
  const auto before = datasets::PlanInference(Model(), Home(), options);
  ASSERT_TRUE(before.has_value());
  const auto answers =
      datasets::AnswerChanges({"rtx-4090", "memory=8", "network=10", "latency=2", "bandwidth=0.5", "rtx-3060=rtx-3090"},
                              Model(), Home(), options, "desktop");
  ASSERT_EQ(answers.size(), 6U);
  for (const datasets::SplitChange& answer : answers) ASSERT_TRUE(answer.plan.has_value()) << answer.name;
  const auto more = datasets::PlanInference(Model(), datasets::WithOneMore(Home(), "rtx-4090", "desktop"), options);
  EXPECT_EQ(answers[0].plan->pass_micros, more->pass_micros);
  EXPECT_LT(answers[0].plan->pass_micros, before->pass_micros);
  EXPECT_LT(answers[1].plan->pass_micros, before->pass_micros);
  EXPECT_GT(answers[1].longest_context, 1024);
  EXPECT_LE(answers[2].plan->pass_micros, before->pass_micros);
  EXPECT_GE(answers[3].plan->pass_micros, before->pass_micros);
  EXPECT_GE(answers[4].plan->pass_micros, before->pass_micros);
  EXPECT_LT(answers[5].plan->pass_micros, before->pass_micros);
}

TEST(SplitChangesTest, AllKindsComeFastestFirst) {
  const auto answers = datasets::AnswerChanges({"all"}, Model(), Home(), {.context = 1024}, "desktop");
  EXPECT_GT(answers.size(), 50U);
  for (std::size_t i = 1; i < answers.size(); ++i) {
    EXPECT_GE(answers[i - 1].plan->tokens_per_s, answers[i].plan->tokens_per_s);
  }
}

TEST(SplitChangesTest, WhatIsNoChangeIsRefused) {
  const auto refusal = [](const std::string& change) {
    return Refusal([&] { datasets::AnswerChanges({change}, Model(), Home(), {}, "desktop"); });
  };
  EXPECT_THAT(refusal("rtx-3091"), HasSubstr("--what-if: rtx-3091: expected a kind of `emplace list devices`"));
  EXPECT_THAT(refusal("cpu-ddr4-2ch"), HasSubstr("cpu-ddr4-2ch: "));
  EXPECT_THAT(refusal("network=fast"), HasSubstr("--what-if: fast: expected a factor above 0"));
  EXPECT_THAT(refusal("memory=-1"), HasSubstr("expected a factor above 0"));
  EXPECT_THAT(refusal("speed=2"), HasSubstr("--what-if"));
}

}  // namespace split_changes_test
}  // namespace emplace::testing
