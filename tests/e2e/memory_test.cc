// emplace memory.

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

class MemoryTest : public EmplaceTest {
 protected:
  void SetUp() override {
    EmplaceTest::SetUp();
    Write("args.json", R"({"model": "gpt", "num-layers": 4, "hidden-size": 512, "num-attention-heads": 8,
      "seq-length": 1024, "max-position-embeddings": 1024, "micro-batch-size": 4, "global-batch-size": 32, "bf16": true,
      "pipeline-model-parallel-size": 2, "cuda-graph-impl": "local"})");
  }
};

TEST_F(MemoryTest, EveryRankHasItsPeakByClass) {
  const Ran ran = Emplace("memory --from megatron args.json --world-size 4 --json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json.at("schema"), "emplace.memory");
  EXPECT_EQ(json.at("version"), 1);
  ASSERT_EQ(json.at("ranks").size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& rank = json.at("ranks")[i];
    EXPECT_EQ(rank.at("rank"), i);
    EXPECT_EQ(rank.at("pipeline_rank"), i / 2);
    std::int64_t sum = 0;
    for (const auto& [name, bytes] : rank.at("classes").items()) sum += bytes.get<std::int64_t>();
    EXPECT_EQ(sum, rank.at("peak_allocated_bytes").get<std::int64_t>());
    EXPECT_GE(rank.at("peak_reserved_bytes"), rank.at("peak_allocated_bytes"));
  }
  EXPECT_EQ(json.at("ranks")[0].at("classes").at("logits"), 0);
  EXPECT_EQ(json.at("holders").size(), 2U);
  EXPECT_EQ(json.at("unmodelled").size(), 1U);
  EXPECT_NE(ran.err.find("cuda-graph-impl"), std::string::npos) << ran.err;
}

TEST_F(MemoryTest, APlanOfANetworkFitsOrDoesNot) {
  Write("plan8.json", R"({"schema": "emplace.plan", "version": 1, "dp": 8, "zero": 3, "micro_batch": 2})");
  const Ran ran = Emplace("memory llama-3-8b --plan dp=2,tp=4,zero=1,recompute=full --cluster dgx-h100");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("llama-3-8b on 8 ranks"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("are left"), std::string::npos) << ran.out;
  const Ran large = Emplace("memory llama-3-70b --plan dp=8 --cluster dgx-h100");
  ASSERT_EQ(large.status, 0) << large.err;
  EXPECT_NE(large.out.find("too few\nIt "), std::string::npos) << large.out;
  ASSERT_EQ(Emplace("export --plan plan8.json --to torchtitan -o titan.json").status, 0);
  const Ran titan = Emplace("memory llama-3-8b --from torchtitan titan.json --json");
  ASSERT_EQ(titan.status, 0) << titan.err;
  EXPECT_EQ(nlohmann::json::parse(titan.out).at("ranks").size(), 8U);
  Write("plan.json", R"({"schema": "emplace.plan", "version": 1, "network": "llama-3-8b", "dp": 2, "tp": 4})");
  const auto json = nlohmann::json::parse(Emplace("memory --plan plan.json --set layers=2 --json").out);
  EXPECT_EQ(json.at("ranks").size(), 8U);
}

TEST_F(MemoryTest, BadInputIsOneLine) {
  const auto error = [&](const std::string& command) {
    const Ran ran = Emplace("memory " + command);
    EXPECT_EQ(ran.status, 2) << command << ran.out;
    return ran.err;
  };
  Write("bad.json", R"({"model": "gpt", "num-layers": "many"})");
  EXPECT_NE(error("--from megatron bad.json").find("bad.json: hidden-size: is missing (an integer from 1)"),
            std::string::npos);
  EXPECT_NE(error("llama-3-8b").find("--plan: is missing"), std::string::npos);
  EXPECT_NE(error("llama-3-8b --plan tp=3").find("--plan: tp: is 3"), std::string::npos);
  EXPECT_NE(error("llama-3-8b --plan tp").find("tp"), std::string::npos);
  EXPECT_NE(error("no-such-network --plan tp=2").find("no-such-network: is no network"), std::string::npos);
  EXPECT_NE(error("--from caffe args.json").find("--from: is \"caffe\" (megatron"), std::string::npos);
}

}  // namespace
}  // namespace emplace::testing
