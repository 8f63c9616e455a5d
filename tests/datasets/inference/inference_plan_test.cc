#include "datasets/inference/inference_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/datasets/importers/samples.h"
#include "tests/testing/gguf_file.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace inference_plan_test {

using datasets::InferenceObjective;
using datasets::InferenceOptions;
using datasets::InferencePlan;
using datasets::PlanInference;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

datasets::InferenceModel Model() {
  return MakeInferenceModel({.layers = 12, .width = 1024, .heads = 8, .head_width = 128, .feed_forward = 4096});
}

Device Gpu(const std::string& name, const std::string& kind, std::int64_t mib) {
  return {.name = name, .kind = kind, .memory = Bytes{mib * kMiB}};
}
Device Cpu(const std::string& name) {
  return {.name = name, .kind = "cpu-core", .memory = Bytes{std::int64_t{16384} * kMiB}, .is_cpu = true};
}
constexpr Link kPcie = {.bandwidth_gb_per_s = 20, .latency_micros = 8};
constexpr Link kLan = {.bandwidth_gb_per_s = 0.3, .latency_micros = 200};

TEST(InferencePlanTest, MachinesAreJoinedByFastLinks) {
  const Cluster one = Cluster::Uniform("one", {Cpu("cpu:0"), Gpu("gpu:0", "a100", 1), Gpu("gpu:1", "a100", 1)}, kPcie);
  EXPECT_THAT(datasets::MachinesOf(one), ElementsAre("cpu:0", "cpu:0", "cpu:0"));
  const Cluster three = Cluster::Uniform("three", {Cpu("cpu:0"), Gpu("a", "a100", 1), Gpu("b", "a100", 1)}, kLan);
  EXPECT_THAT(datasets::MachinesOf(three), ElementsAre("cpu:0", "a", "b"));
  std::vector<Device> named = {Cpu("cpu:0"), Gpu("a", "a100", 1), Gpu("b", "a100", 1)};
  named[1].host = named[2].host = "attic";
  EXPECT_THAT(datasets::MachinesOf(Cluster::Uniform("named", named, kPcie)), ElementsAre("cpu:0", "attic", "attic"));
  EXPECT_THAT(datasets::LlamaCppNames(one), ElementsAre("CPU", "CUDA0", "CUDA1"));
  EXPECT_THAT(datasets::LlamaCppNames(three), ElementsAre("CPU", "CUDA0", "CUDA0"));
}

TEST(InferencePlanTest, OneDeviceIsFasterThanTwoWhereTheModelFits) {
  const Cluster cluster =
      Cluster::Uniform("home", {Cpu("cpu:0"), Gpu("gpu:0", "a100", 8192), Gpu("gpu:1", "h100", 8192)}, kPcie);
  const auto plan = PlanInference(Model(), cluster, {});
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->stages.size(), 1U);
  EXPECT_EQ(cluster.device(plan->stages[0].device).name, "gpu:1");
  EXPECT_TRUE(plan->stages[0].has_output);
  EXPECT_TRUE(plan->is_proved());
  EXPECT_NEAR(plan->tokens_per_s, 1e6 / plan->pass_micros, 1e-9);
  EXPECT_EQ(plan->client, "cpu:0");
}

TEST(InferencePlanTest, WhatDoesNotFitGoesElsewhereAndNoDeviceIsOverfull) {
  for (const std::int64_t mib : {490, 505, 520, 640}) {
    const Cluster cluster = Cluster::Uniform("home", {Cpu("cpu:0"), Gpu("gpu:0", "a100", mib)}, kPcie);
    const auto plan = PlanInference(Model(), cluster, {.context = 1024});
    ASSERT_TRUE(plan.has_value()) << mib;
    std::size_t layers = 0;
    for (const datasets::InferenceStage& stage : plan->stages) {
      layers += stage.end - stage.first;
      EXPECT_LE(stage.bytes(), cluster.device(stage.device).memory->count) << mib;
    }
    EXPECT_EQ(layers, 12U);
    // The CPU comes first: llama.cpp leaves it the first layers.
    EXPECT_EQ(plan->stages.size(), mib < 640 ? 2U : 1U) << mib;
    if (mib < 640) {
      EXPECT_EQ(plan->stages[0].device, *plan->client_cpu);
    }
  }
}

TEST(InferencePlanTest, ExpertsGoToTheHostOneLayerAfterTheOther) {
  const datasets::InferenceModel model = MakeInferenceModel({.layers = 12,
                                                             .width = 1024,
                                                             .heads = 8,
                                                             .head_width = 128,
                                                             .experts = 16,
                                                             .used_experts = 2,
                                                             .expert_width = 2048});
  const Cluster cluster = Cluster::Uniform("home", {Cpu("cpu:0"), Gpu("gpu:0", "a100", 900)}, kPcie);
  const InferenceOptions options = {.context = 1024};
  const auto plan = PlanInference(model, cluster, options);
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->stages.size(), 1U);
  const std::size_t hosted = plan->stages[0].hosted;
  EXPECT_GT(hosted, 0U);
  EXPECT_LT(hosted, 12U);
  const std::string script = datasets::LlamaCppScript(*plan, model, cluster, options, "m.gguf");
  EXPECT_THAT(script, HasSubstr(" -dev CUDA0 -ngl 13 --n-cpu-moe " + std::to_string(hosted) + "\n"));
}

TEST(InferencePlanTest, TheClientIsTheHubOfServers) {
  const Cluster cluster = Cluster::Uniform("lan", {Gpu("desk", "a100", 550), Gpu("attic", "h100", 550)}, kLan);
  InferenceOptions options = {.context = 512};
  const auto plan = PlanInference(Model(), cluster, options);
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->stages.size(), 2U);
  const std::string script = datasets::LlamaCppScript(*plan, Model(), cluster, options, "my model.gguf");
  const std::string other = plan->client == "desk" ? "attic" : "desk";
  EXPECT_THAT(script, HasSubstr("# on " + other + ": ggml-rpc-server -H 0.0.0.0 -p 50052 -d CUDA0\n"));
  EXPECT_THAT(script, HasSubstr("exec llama-server -m 'my model.gguf' -c 512 -ub 512 --rpc " + other + ":50052 -dev "));
  // Two transfers of a row of f32 a token, and one of the mask.
  options.client = "desk";
  const auto desk = PlanInference(Model(), cluster, options);
  ASSERT_TRUE(desk.has_value());
  EXPECT_EQ(desk->client, "desk");
  EXPECT_GE(desk->pass_micros, plan->pass_micros);
  options.client = "cellar";
  EXPECT_EQ(Refusal([&] { PlanInference(Model(), cluster, options); }),
            "--client: cellar: there is no such machine (known: desk, attic)");
}

TEST(InferencePlanTest, ObjectivesCountTokensOfAPass) {
  const Cluster cluster = Cluster::Uniform("home", {Cpu("cpu:0"), Gpu("gpu:0", "a100", 8192)}, kPcie);
  const auto decode = PlanInference(Model(), cluster, {.context = 2048});
  const auto prefill = PlanInference(Model(), cluster, {.objective = InferenceObjective::kPrefill, .context = 2048});
  const auto four = PlanInference(Model(), cluster,
                                  {.objective = InferenceObjective::kDecodeThroughput, .context = 2048, .parallel = 4});
  ASSERT_TRUE(decode && prefill && four);
  EXPECT_NEAR(prefill->tokens_per_s, 512e6 / prefill->pass_micros, 1e-6);
  EXPECT_NEAR(four->tokens_per_s, 4e6 / four->pass_micros, 1e-6);
  EXPECT_GT(four->tokens_per_s, 1.5 * decode->tokens_per_s);  // they share what is read of the weights
  EXPECT_GT(prefill->tokens_per_s, 10 * decode->tokens_per_s);
  EXPECT_EQ(datasets::AllInferenceObjectives().size(), 3U);
}

TEST(InferencePlanTest, CachesOfOtherTypesAreSmaller) {
  const Cluster cluster = Cluster::Uniform("home", {Cpu("cpu:0"), Gpu("gpu:0", "a100", 8192)}, kPcie);
  const datasets::GgmlType* const q8 = datasets::FindGgmlType("q8_0");
  const InferenceOptions small = {.context = 4096, .key_type = q8, .value_type = q8};
  const auto plan = PlanInference(Model(), cluster, small);
  const auto usual = PlanInference(Model(), cluster, {.context = 4096});
  ASSERT_TRUE(plan && usual);
  EXPECT_EQ(plan->stages[0].cache_bytes * 32, usual->stages[0].cache_bytes * 17);  // 34 bytes for 32 numbers
  EXPECT_THAT(datasets::LlamaCppScript(*plan, Model(), cluster, small, "m.gguf"),
              HasSubstr(" -ctk q8_0 -ctv q8_0 -fa on\n"));
}

TEST(InferencePlanTest, NothingFitsAndTheLongestContext) {
  const Cluster tiny = Cluster::Uniform("tiny", {Gpu("gpu:0", "a100", 440)}, kPcie);
  EXPECT_EQ(PlanInference(Model(), tiny, {}), std::nullopt);
  EXPECT_EQ(datasets::LongestContext(Model(), tiny, {}), 0);
  const Cluster small = Cluster::Uniform("small", {Gpu("gpu:0", "a100", 580)}, kPcie);
  const std::int64_t longest = datasets::LongestContext(Model(), small, {});
  EXPECT_GT(longest, 0);
  EXPECT_EQ(longest % 256, 0);
  EXPECT_TRUE(PlanInference(Model(), small, {.context = longest}).has_value());
  EXPECT_FALSE(PlanInference(Model(), small, {.context = longest + 256}).has_value());
}

TEST(InferencePlanTest, AKindWithoutRatesIsRefused) {
  const Cluster cluster = Cluster::Uniform("odd", {Gpu("gpu:0", "mystery", 8192)}, kPcie);
  EXPECT_THAT(Refusal([&] { PlanInference(Model(), cluster, {}); }),
              HasSubstr("device gpu:0: its kind mystery has no rates"));
  EXPECT_EQ(Refusal([&] { PlanInference(Model(), cluster, {.context = 0}); }), "--context: 0: expected at least 1");
}

}  // namespace inference_plan_test
}  // namespace emplace::testing
