#include "profiler/contention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/fake_hardware.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::FakeLog;
using ::emplace::testing::FakeOp;
using ::emplace::testing::TwoFakeCores;

Profile Known(const std::vector<std::pair<std::string, double>>& times) {
  Profile profile;
  for (const auto& [signature, micros] : times) {
    Profile::OpEntry& entry = profile.ops.emplace_back();
    entry.signature = signature;
    entry.device = "cpu-core";
    entry.median_micros = micros;
  }
  return profile;
}

TEST(ContentionTest, TheLongestOpsOfEachClassAreAsked) {
  const Graph graph =
      Build({FakeOp("a", {}, "relu", 10), FakeOp("b", {"a"}, "tanh", 10), FakeOp("c", {"b"}, "sigmoid", 10),
             FakeOp("d", {"c"}, "softmax", 10), FakeOp("e", {"d"}, "reshape", 10), FakeOp("f", {"e"}, "mystery", 10)});
  const Profile profile =
      Known({{"relu()", 50}, {"tanh(f32[10])", 200}, {"sigmoid(f32[10])", 100}, {"softmax(f32[10])", 20}});
  const auto tasks = ContentionTasks(graph, profile, "cpu-core", {.ops_per_class = 2});
  ASSERT_EQ(tasks.size(), 2U);  // a view takes nothing, and nobody knows a mystery
  ASSERT_EQ(tasks.at("elementwise").size(), 2U);
  EXPECT_EQ(tasks.at("elementwise")[0].recipe.name, "b");
  EXPECT_EQ(tasks.at("elementwise")[1].recipe.name, "c");
  EXPECT_EQ(tasks.at("reduction")[0].recipe.name, "d");
  EXPECT_TRUE(ContentionTasks(graph, profile, "h200", {}).empty());
  EXPECT_EQ(ContentionTasks(graph, profile, "cpu-core", {.least_micros = 21}).count("reduction"), 0U);
}

TEST(ContentionTest, EveryOpOfAClassRunsAloneAndBesideANeighbourThatRunsAll) {
  TwoFakeCores cores;
  const Graph graph = Build({FakeOp("a", {}, "relu", 10), FakeOp("b", {"a"}, "softmax", 10)});
  const auto tasks = ContentionTasks(graph, Known({{"relu()", 50}, {"softmax(f32[10])", 50}}), "cpu-core", {});
  const auto factors = MeasureContention(tasks, {"elementwise"}, cores.first, cores.second, {.samples = 3});
  ASSERT_EQ(factors.size(), 1U);
  EXPECT_GT(factors.at("elementwise"), 0);
  std::map<std::string, std::size_t> runs;
  for (const FakeLog::Run& run : cores.log.runs()) ++runs[run.op + " on " + run.device];
  EXPECT_EQ(runs["a on cpu:0"], 1 + 3 * 2U);  // to begin with; three samples each way
  EXPECT_EQ(runs["b on cpu:0"], 1U);
  EXPECT_GE(runs["a on cpu:1"], 1 + 1U);
  EXPECT_GE(runs["b on cpu:1"], 1 + 1U);
}

}  // namespace
}  // namespace emplace
