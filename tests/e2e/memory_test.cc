// emplace memory.

#include <gtest/gtest.h>

#include <algorithm>
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

// One truth for graphs: what simulate says, by class.
TEST_F(MemoryTest, AGraphHasThePeaksOfItsSimulatedStep) {
  ASSERT_EQ(
      Emplace("generate gpt --set layers=2 --set d_model=512 --set heads=8 --set precision=bf16 -o n.json").status, 0);
  const std::string on = " --cluster dgx-h100 --gpus 2 ";
  ASSERT_EQ(Emplace("place n.json" + on + "--agent expert -o n.p.json").status, 0);
  const Ran simulated = Emplace("simulate n.json" + on + "--placement n.p.json --json");
  const Ran ran = Emplace("memory n.json" + on + "--placement n.p.json --json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json.at("schema"), "emplace.memory");
  EXPECT_EQ(json.at("costs"), "curves");
  std::size_t found = 0;
  const auto result = nlohmann::json::parse(simulated.out);
  for (const auto& device : result.at("devices")) {
    for (const auto& rank : json.at("ranks")) {
      if (rank.at("device") != device.at("name")) continue;
      ++found;
      EXPECT_EQ(rank.at("simulated_peak_bytes"), device.at("peak_bytes"));
      std::int64_t sum = 0;
      for (const auto& [name, bytes] : rank.at("classes").items()) sum += bytes.get<std::int64_t>();
      EXPECT_EQ(sum, rank.at("peak_allocated_bytes").get<std::int64_t>());
      EXPECT_NEAR(static_cast<double>(sum), rank.at("simulated_peak_bytes").get<double>(),
                  0.02 * static_cast<double>(sum));
      EXPECT_TRUE(rank.at("fits"));
    }
  }
  EXPECT_EQ(found, json.at("ranks").size());
  EXPECT_GE(found, 2U);
  const Ran text = Emplace("memory n.json" + on + "--timeline step.svg");
  EXPECT_NE(text.out.find("The fullest device, gpu:0, is fullest in the "), std::string::npos) << text.out << text.err;
  EXPECT_NE(Shell("head -c 4 step.svg").out, "");
  ExpectRefused(Emplace("memory n.json --plan dp=2" + on), "--plan: is not for a graph (a network's name takes it)");
  ExpectRefused(Emplace("memory n.json"), "--cluster: is missing: a graph runs on its devices");
  ExpectRefused(Emplace("memory llama-3-8b --plan dp=8 --placement n.p.json"),
                "--placement: is for a graph, whose devices it names");
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
  EXPECT_EQ(nlohmann::json::parse(titan.out).at("unmodelled").size(), 0U) << "torchtitan's own habits";
  const Ran other = Emplace("memory mixtral-8x7b --from torchtitan titan.json --json");
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_NE(other.err.find("taken for those of Megatron-LM"), std::string::npos) << other.err;
  Write("plan.json", R"({"schema": "emplace.plan", "version": 1, "network": "llama-3-8b", "dp": 2, "tp": 4})");
  const auto json = nlohmann::json::parse(Emplace("memory --plan plan.json --set layers=2 --json").out);
  EXPECT_EQ(json.at("ranks").size(), 8U);
}

TEST_F(MemoryTest, ATimelineShowsBytesByClass) {
  const std::string plan = "memory llama-3-8b --set layers=4 --plan pp=2,grad_accumulation=4 --sequence 1024 ";
  const Ran ran = Emplace(plan + "--json --timeline step.json.gz");
  ASSERT_EQ(ran.status, 0) << ran.err;
  ASSERT_EQ(Emplace(plan + "--timeline step.json").status, 0);
  const auto events = nlohmann::json::parse(Read("step.json")).at("traceEvents");
  std::int64_t most = 0;
  std::size_t passes = 0;
  for (const auto& event : events) {
    if (event.at("ph") == "X") ++passes;
    if (event.at("ph") != "C") continue;
    ASSERT_EQ(event.at("args").size(), 7U);
    std::int64_t sum = 0;
    for (const auto& [name, bytes] : event.at("args").items()) sum += bytes.get<std::int64_t>();
    most = std::max(most, sum);
  }
  EXPECT_EQ(passes, 9U) << "four forward and backward passes, and the step of the optimizer";
  const auto ranks = nlohmann::json::parse(ran.out).at("ranks");
  const auto peak = std::max(ranks[0].at("peak_allocated_bytes"), ranks[1].at("peak_allocated_bytes"));
  EXPECT_NEAR(static_cast<double>(most) / peak.get<double>(), 1, 1e-3) << "before the allocator rounds";

  ASSERT_EQ(Emplace(plan + "--timeline step.svg").status, 0);
  const std::string svg = Read("step.svg");
  EXPECT_NE(svg.find("llama-3-8b, pipeline rank "), std::string::npos);
  EXPECT_NE(svg.find("backward pass of micro-batch 3"), std::string::npos);
  EXPECT_LT(svg.size(), 150'000U);
  EXPECT_EQ(Emplace(plan + "--json --timeline -").status, 2);
  EXPECT_EQ(Emplace(plan + "--timeline step.png").status, 2);
}

TEST_F(MemoryTest, NanotronHasItsOwnHabits) {
  const auto reserved = [&](const std::string& options) {
    const Ran ran =
        Emplace("memory llama-3-8b --plan tp=4,dp=2,sequence_parallel=true,grad_accumulation=4 --json" + options);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return nlohmann::json::parse(ran.out).at("ranks")[0].at("peak_reserved_bytes").get<std::int64_t>();
  };
  EXPECT_GT(reserved(" --framework nanotron"), reserved(" --framework megatron"));
  const Ran refused = Emplace("memory llama-3-8b --framework nanotron --plan pp=4");
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("grad_accumulation: is 1"), std::string::npos) << refused.err;
  EXPECT_EQ(Emplace("memory llama-3-8b --framework deepspeed --plan dp=1").status, 2);
  EXPECT_EQ(Emplace("memory --from megatron args.json --framework nanotron").status, 2);
}

TEST_F(MemoryTest, TheSmallestChangeThatFitsHasNoChangeTooMany) {
  const auto json =
      nlohmann::json::parse(Emplace("memory llama-3-8b --plan tp=2,dp=4,micro_batch=8 --cluster dgx-h100 --json").out);
  EXPECT_EQ(json.at("ranks")[0].at("fits"), false);
  EXPECT_EQ(json.at("smallest_change").at("text"), "sequence parallelism and micro-batches of one sequence");
  const auto changed = nlohmann::json::parse(
      Emplace("memory llama-3-8b --plan tp=2,dp=4,micro_batch=1,grad_accumulation=8,sequence_parallel=true --json")
          .out);
  EXPECT_EQ(json.at("smallest_change").at("peak_reserved_bytes"), changed.at("ranks")[0].at("peak_reserved_bytes"));
}

TEST_F(MemoryTest, AConfigOfHuggingFaceIsItsNetwork) {
  Write("config.json",
        R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
    "rope_theta": 500000.0, "tie_word_embeddings": false})");
  const auto ranks = [&](const std::string& network) {
    const Ran ran = Emplace("memory " + network + " --plan tp=8 --json");
    EXPECT_EQ(ran.status, 0) << ran.err;
    return nlohmann::json::parse(ran.out).at("ranks");
  };
  EXPECT_EQ(ranks("config.json"), ranks("llama-3-8b"));
}

TEST_F(MemoryTest, ArgumentsOfMegatronThatContradictEachOtherAreNamed) {
  const auto told = [&](const std::string& more) {
    Write("args.json", R"({"model": "gpt", "num-layers": 4, "hidden-size": 512, "num-attention-heads": 8,
      "seq-length": 1024, "max-position-embeddings": 1024, "micro-batch-size": 4, "global-batch-size": 32, )" +
                           more + "}");
    return Emplace("memory --from megatron args.json --world-size 8");
  };
  EXPECT_EQ(told(R"("bf16": true)").err, "");
  EXPECT_NE(told(R"("expert-model-parallel-size": 8)").err.find("is 8, but there is no num-experts"),
            std::string::npos);
  EXPECT_NE(told(R"("recompute-modules": ["bogus"])").err.find("\"bogus\" is not known (core_attn"), std::string::npos);
  EXPECT_NE(told(R"("tensor-model-parallel-size": 2, "micro-batch-size ": 3)").err.find("micro-batch-size "),
            std::string::npos);
  EXPECT_EQ(told(R"("bf16": true, "fp16": true)").err, "args.json: fp16: is set beside bf16 (one of them)\n");
}

TEST_F(MemoryTest, RanksAreHeldAgainstTheSmallestAcceleratorOfEnough) {
  Write("mixed.yaml", R"({"schema": "emplace.cluster", "version": 1, "name": "mixed", "devices": [
    {"name": "gpu:0", "kind": "h100", "memory_gib": 79}, {"name": "gpu:1", "kind": "k80", "memory_gib": 11}],
    "link": {"bandwidth_gb_per_s": 10}})");
  const Ran ran = Emplace("memory llama-3-8b --plan tp=8 --cluster mixed.yaml --json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.err.find("warning: 8 ranks on 2 accelerators of mixed.yaml (--nodes)"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("each rank is held against gpu:1, k80"), std::string::npos) << ran.err;
  EXPECT_EQ(nlohmann::json::parse(ran.out).at("device"), "k80");
  EXPECT_EQ(Emplace("memory llama-3-8b --plan tp=8,dp=2 --cluster dgx-h100 --nodes 2").err, "");
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
  EXPECT_NE(error("llama-3-8b --plan pp=4,schedule=eager").find("--plan: schedule: unknown schedule \"eager\""),
            std::string::npos);
  const auto plan_of = [&](const std::string& stages) {
    Write("stages.json", R"({"schema": "emplace.plan", "version": 1, "pp": 2, "stages": )" + stages + "}");
    return error("llama-3-8b --set layers=4 --plan stages.json");
  };
  EXPECT_NE(plan_of("[[0], [1, 3]]").find("stages: hold layer 2 nowhere (each of the 4 layers once)"),
            std::string::npos);
  EXPECT_NE(plan_of("[[0, 1, 1], [2, 3]]").find("stages: hold layer 1 more than once"), std::string::npos);
  EXPECT_NE(plan_of(R"([["model.layers.0", "model.layers.1.mlp"], ["model.layers.1.self_attn", "model.layers.2"]])")
                .find("stages: hold layer 1 more than once"),
            std::string::npos);
  EXPECT_NE(error("gpt-2-xl --plan tp=1 --sequence 4096").find("sequence: is 4096 (at most the 1024 positions"),
            std::string::npos);
  EXPECT_NE(error("llama-3-8b --plan tp=2 --world-size 64").find("--world-size: is for --from"), std::string::npos);
  EXPECT_NE(error("llama-3-8b --plan tp=2,lora=0").find("lora: is 0 (a rank from 1"), std::string::npos);
  EXPECT_NE(error("llama-3-8b --plan tp=2,lora_targets=attention").find("lora_targets: needs a rank"),
            std::string::npos);
  EXPECT_NE(error("llama-3-8b --plan tp=2 --lora 8 --framework nanotron").find("lora: is 8, which is not modelled"),
            std::string::npos);
  EXPECT_NE(error("--from megatron args.json --lora 8").find("--lora: is not for --from megatron"), std::string::npos);
  EXPECT_NE(error("llama-3-8b --plan tp=2 --nodes 2").find("--cluster: is missing"), std::string::npos);
  EXPECT_NE(error("--from megatron args.json --plan tp=2").find("--plan: is not for --from"), std::string::npos);
  EXPECT_NE(error("--from megatron args.json --set layers=2").find("--set: is not for --from megatron"),
            std::string::npos);
  EXPECT_NE(error("--from caffe args.json").find("--from: is \"caffe\" (megatron"), std::string::npos);
}

}  // namespace
}  // namespace emplace::testing
