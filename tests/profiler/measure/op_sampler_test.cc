#include "profiler/measure/op_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/testing/fake_hardware.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::FakeLog;
using ::emplace::testing::FakeOp;
using ::emplace::testing::TwoFakeCores;

std::vector<std::string> Names(const FakeLog& log) {
  std::vector<std::string> names;
  for (const FakeLog::Run& run : log.runs()) names.push_back(run.op + " on " + run.device);
  return names;
}

// "a_v" is a variable. "b" and "c" have one signature, "d" is a tanh, and "e" is like "b" but on the other device. If a
// signature occurs more than once on a device, another op of it runs before each sample.
TEST(OpSamplerTest, OpsOfOneSignatureAreRunOnceOnEachDeviceTheyAreOn) {
  TwoFakeCores cores;
  const Graph graph = Build({FakeOp("a_v", {}, "variable"), FakeOp("b", {"a_v"}), FakeOp("c", {"b"}),
                             FakeOp("d", {"c"}, "tanh"), FakeOp("e", {"d"})});
  const std::vector<profiler::OpRecipe> recipes = profiler::RecipesOf(graph);
  Placement placement(5);
  placement[MakeId<OpId>(4)] = MakeId<DeviceId>(1);
  // The duration of an op depends on its name.
  const auto wait = [](const std::string& op) {
    std::this_thread::sleep_for(std::chrono::milliseconds(op == "d" ? 8 : 2));
  };
  cores.first.on_run = cores.second.on_run = wait;
  profiler::OpSampler sampler(graph, recipes, placement, cores.devices, 1);
  for (const std::size_t device : {std::size_t{0}, std::size_t{1}}) {
    sampler.Prepare(device);
    sampler.Sample(device, /*alone=*/true);
  }
  EXPECT_THAT(Names(cores.log), ::testing::ElementsAre("b on cpu:0", "b on cpu:0", "d on cpu:0",  // preparation
                                                       "b on cpu:0", "b on cpu:0", "d on cpu:0",  // sampled
                                                       "e on cpu:1", "e on cpu:1"));
  EXPECT_TRUE(sampler.Last().beside.empty());
  const std::vector<double> times = sampler.Last().alone;
  ASSERT_EQ(times.size(), 5U);
  EXPECT_EQ(times[0], 0);
  EXPECT_GE(times[1], 2000);
  EXPECT_EQ(times[2], times[1]);
  EXPECT_GE(times[3], 8000);
  EXPECT_NE(times[4], times[1]);
  EXPECT_GE(times[4], 2000);
}

// "a" and "b" have one signature. Two of kOften * 2 ops are frequent; with one more op in total they are rare.
TEST(OpSamplerTest, WhatRunsSeldomIsSampledWithColdCode) {
  for (const std::size_t others : {2 * profiler::OpSampler::kOften - 2, 2 * profiler::OpSampler::kOften - 1}) {
    TwoFakeCores cores;
    std::vector<OpSpec> ops = {FakeOp("a"), FakeOp("b")};
    for (std::size_t i = 0; i < others; ++i) {
      const std::string number = std::to_string(i);
      ops.push_back(FakeOp("c" + number, {}, "kind" + number));
    }
    const Graph graph = Build(ops);
    const std::vector<profiler::OpRecipe> recipes = profiler::RecipesOf(graph);
    profiler::OpSampler sampler(graph, recipes, Placement(graph.num_ops()), cores.devices, 1);
    sampler.Prepare(0);
    const std::size_t ready = cores.log.runs().size();
    sampler.Sample(0, /*alone=*/true);
    const std::size_t distinct = others + 1;
    EXPECT_EQ(cores.log.runs().size() - ready, distinct + (others == 2 * profiler::OpSampler::kOften - 2 ? 1 : 0));
  }
}

// "a" runs twice as often as "b". Beside busy devices ops are sampled by themselves, and those times are kept apart.
TEST(OpSamplerTest, WhatKeepsADeviceBusyIsItsPartOfTheGraph) {
  TwoFakeCores cores;
  const Graph graph = Build({FakeOp("v", {}, "variable"), FakeOp("a", {"v"}), FakeOp("b", {"a"}, "tanh"),
                             FakeOp("c", {"b"}), FakeOp("other", {"v"}, "sigmoid")});
  const std::vector<profiler::OpRecipe> recipes = profiler::RecipesOf(graph);
  Placement placement(graph.num_ops());
  placement[*graph.FindOp("other")] = MakeId<DeviceId>(1);
  profiler::OpSampler sampler(graph, recipes, placement, cores.devices, 1);
  for (const std::size_t device : {std::size_t{0}, std::size_t{1}}) sampler.Prepare(device);
  const std::size_t ready = cores.log.runs().size();
  std::atomic<bool> stop = false;
  std::atomic<bool> is_busy = false;
  int runs = 0;
  cores.first.on_run = [&](const std::string&) { stop = ++runs == 5; };
  sampler.KeepBusy(0, stop, &is_busy);
  EXPECT_TRUE(is_busy);
  std::vector<std::string> names = Names(cores.log);
  names.erase(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(ready));
  EXPECT_THAT(names, ::testing::ElementsAre("a on cpu:0", "b on cpu:0", "a on cpu:0", "a on cpu:0", "b on cpu:0"));
  cores.second.on_run = [](const std::string&) { std::this_thread::sleep_for(std::chrono::milliseconds(4)); };
  sampler.Sample(1, /*alone=*/false);
  cores.second.on_run = nullptr;
  sampler.Sample(1, /*alone=*/true);
  sampler.Sample(0, /*alone=*/true);
  const profiler::OpSampler::Times times = sampler.Last();
  ASSERT_EQ(times.beside.size(), 5U);
  EXPECT_GE(times.beside[4], 4000);
  EXPECT_LT(times.alone[4], times.beside[4]);
  EXPECT_EQ(times.beside[1], times.alone[1]);  // not sampled beside: that alone stands for it
}

TEST(OpSamplerTest, OfSeveralRoundsTheMedianOfEachOpCounts) {
  const std::vector<profiler::OpSampler::Times> rounds = {{.alone = {1, 0, 9}, .beside = {2, 0, 8}},
                                                          {.alone = {5, 0, 3}, .beside = {6, 0, 4}},
                                                          {.alone = {2, 0, 4}, .beside = {3, 0, 9}}};
  const profiler::OpSampler::Times medians = profiler::OpSampler::MedianTimes(rounds);
  EXPECT_EQ(medians.alone, (std::vector<double>{2, 0, 4}));
  EXPECT_EQ(medians.beside, (std::vector<double>{3, 0, 8}));
}

}  // namespace
}  // namespace emplace
