// emplace place and memory of a GGUF model.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"
#include "tests/testing/gguf_file.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

class InferenceCommandTest : public EmplaceTest {
 protected:
  void SetUp() override {
    EmplaceTest::SetUp();
    Write("m.gguf",
          MakeGguf({.layers = 8, .width = 1024, .heads = 8, .head_width = 128, .feed_forward = 4096}).Bytes());
    Write("home.yaml",
          "schema: emplace.cluster\nversion: 1\nname: home\ndevices:\n"
          "  - {name: 'cpu:0', kind: cpu-core, memory_gib: 8}\n  - {name: 'gpu:0', kind: rtx-4090, memory_gib: 0.53}\n"
          "link: {bandwidth_gb_per_s: 20, latency_us: 8}\n");
  }
};

TEST_F(InferenceCommandTest, FromAFileToACommandLineAndBack) {
  const Ran script =
      Emplace("place m.gguf --cluster home.yaml --objective decode --context 512 --to llama.cpp -o run.sh");
  ASSERT_EQ(script.status, 0) << script.err;
  EXPECT_THAT(script.out, HasSubstr("proved: no split is faster by this model\n"));
  EXPECT_THAT(Read("run.sh"), HasSubstr("exec llama-server -m m.gguf -c 512 -ub 512 -dev CUDA0 -ngl "));
  ASSERT_EQ(Emplace("import m.gguf -o g.json").status, 0);
  ASSERT_EQ(Emplace("place m.gguf --cluster home.yaml --context 512 -o p.json").status, 0);
  const Ran back = Emplace("import run.sh --from llama.cpp --graph g.json --cluster home.yaml -o q.json");
  ASSERT_EQ(back.status, 0) << back.err;
  EXPECT_EQ(Read("p.json"), Read("q.json"));
  const Ran memory = Emplace("memory m.gguf --from llama.cpp run.sh --cluster home.yaml --json");
  ASSERT_EQ(memory.status, 0) << memory.err;
  const auto json = nlohmann::json::parse(memory.out);
  EXPECT_EQ(json.at("schema"), "emplace.inference_memory");
  EXPECT_EQ(json.at("devices").size(), 2U);
  EXPECT_THAT(Emplace("memory m.gguf --from llama.cpp run.sh --cluster home.yaml").out, HasSubstr("CUDA0"));
  // The placement is one of the graph, which the simulator runs.
  EXPECT_EQ(Emplace("simulate --graph g.json --cluster home.yaml --placement p.json --costs roofline").status, 0);
}

TEST_F(InferenceCommandTest, TheAnswerAsJson) {
  const Ran ran = Emplace("place m.gguf --cluster home.yaml --objective prefill --context 512 --json -o p.json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json.at("schema"), "emplace.inference");
  EXPECT_EQ(json.at("objective"), "prefill");
  EXPECT_TRUE(json.at("proved"));
  EXPECT_GT(json.at("tokens_per_s"), 0);
}

TEST_F(InferenceCommandTest, ANetworkByNameIsQuantised) {
  const Ran ran = Emplace(
      "place llama-3.2-1b --quantise q4_k_m --cluster home-3090-3060 --objective decode --to llama.cpp -o r.sh");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("llama-3.2-1b q4_k_m (llama, 16 layers, "));
  EXPECT_THAT(Read("r.sh"), HasSubstr("# on desktop:\nexec llama-server -m llama-3.2-1b-q4_k_m.gguf "));
  EXPECT_THAT(Emplace("place llama-3.2-1b --quantise q4 --cluster home-3090-3060 -o r.sh").err,
              HasSubstr("--quantise: unknown quantisation \"q4\""));
}

// The shape of m.gguf, as Hugging Face has it.
constexpr const char* kConfig = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024,
  "intermediate_size": 4096, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128,
  "vocab_size": 1024, "max_position_embeddings": 8192, "tie_word_embeddings": false})";

TEST_F(InferenceCommandTest, AConfigHasTheGraphOfItsFile) {
  Write("config.json", kConfig);
  Write("half.gguf",
        MakeGguf({.layers = 8, .width = 1024, .heads = 8, .head_width = 128, .feed_forward = 4096, .type = "f16"})
            .Bytes());
  ASSERT_EQ(Emplace("import half.gguf -o file.json").status, 0);
  const Ran ran = Emplace("import config.json --quantise f16 -o config_graph.json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("tensors of its f16 model"));
  auto file = nlohmann::json::parse(Read("file.json"));
  auto config = nlohmann::json::parse(Read("config_graph.json"));
  for (auto* graph : {&file, &config}) {
    EXPECT_GT(graph->at("ops").size(), 16U);
    graph->erase("name");
    graph->erase("metadata");
  }
  EXPECT_EQ(file, config);
  // A placement of the one is one of the other.
  ASSERT_EQ(Emplace("place config.json --quantise f16 --cluster home.yaml --context 512 -o p.json").status, 0);
  EXPECT_EQ(Emplace("simulate --graph file.json --cluster home.yaml --placement p.json --costs roofline").status, 0);
  ExpectRefused(Emplace("import m.gguf --quantise q4_k_m -o x.json"),
                "--quantise: is for a network's name or config.json, and m.gguf has its types");
  ExpectRefused(Emplace("import config.json --quantise q4_k_m --training -o x.json"),
                "--training: cannot be used (--quantise)");
}

// Rows of a model that this device reads at 400 GB/s and computes at 50 TFLOP/s, 0.5 ms a token aside.
std::string BenchOf(double bytes, double parameters) {
  std::string text;
  for (const int count : {256, 512, 1024}) {
    for (const bool is_prompt : {true, false}) {
      const double micros = is_prompt ? 2 * parameters / 50e6 : 500 + bytes / 400e3;
      text += fmt::format(
          R"({{"gpu_info": "a GPU", "model_type": "llama 8B", "model_size": {}, "model_n_params": {}, "n_ubatch": 512, )"
          R"("n_prompt": {}, "n_gen": {}, "avg_ts": {}}})"
          "\n",
          bytes, parameters, is_prompt ? count : 0, is_prompt ? 0 : count, 1e6 / micros);
    }
  }
  return text;
}

TEST_F(InferenceCommandTest, CalibratedRatesAreThoseOfTheBench) {
  Write("a.jsonl", BenchOf(4.9e9, 8e9));
  Write("b.jsonl", BenchOf(0.8e9, 1.2e9));
  Write("ab.jsonl", BenchOf(4.9e9, 8e9) + BenchOf(0.8e9, 1.2e9));
  Write("one.yaml",
        "schema: emplace.cluster\nversion: 1\nname: one\ndevices:\n  - {name: 'gpu:0', kind: rtx-3090, "
        "memory_gib: 24}\n");
  const Ran fitted = Emplace("calibrate a.jsonl b.jsonl --kind rtx-3090 -o device.yaml");
  ASSERT_EQ(fitted.status, 0) << fitted.err;
  EXPECT_THAT(fitted.out, HasSubstr("400 GB/s"));
  EXPECT_THAT(fitted.out, HasSubstr("for GGUF models alone"));
  for (const std::string objective : {"decode", "prefill"}) {
    const auto rate = [&](const std::string& more) {
      const Ran ran =
          Emplace("place m.gguf --cluster one.yaml --context 512 -o p.json --json --objective " + objective + more);
      EXPECT_EQ(ran.status, 0) << ran.err;
      return nlohmann::json::parse(ran.out).at("tokens_per_s").get<double>();
    };
    EXPECT_DOUBLE_EQ(rate(" --costs device.yaml"), rate(" --bench rtx-3090=ab.jsonl"));
    EXPECT_NE(rate(" --costs device.yaml"), rate(""));
  }
  EXPECT_THAT(Emplace("place m.gguf --cluster home.yaml --context 512 --costs device.yaml -o p.json").err,
              HasSubstr("device.yaml: no device of home is of kind rtx-3090\n"));
  ExpectRefused(Emplace("place m.gguf --cluster one.yaml --costs device.yaml --bench rtx-3090=a.jsonl -o p.json"),
                "--costs: has rates of rtx-3090, and so has --bench (one of them)");
  Write("k.csv", "kind,bytes,time_us\n");
  ExpectRefused(Emplace("calibrate a.jsonl k.csv --kind rtx-3090 -o x.yaml"),
                "k.csv: is not of llama-bench, which others are (all or none)");
}

TEST_F(InferenceCommandTest, WhatIfAndThePictureGoWithThePlan) {
  ASSERT_EQ(Shell("sed 's/0.53/0.48/; s/: home$/: tight/' home.yaml > tight.yaml").status, 0);
  const std::string place = "place m.gguf --cluster tight.yaml --context 512 -o p.json ";
  const Ran ran = Emplace(place + "--what-if rtx-3090,memory=2 --timeline split.svg");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("if        tokens/s  times as fast  longest context\n"));
  EXPECT_THAT(ran.out, HasSubstr("\nrtx-3090  "));
  EXPECT_EQ(Read("split.svg").rfind("<svg ", 0), 0U);
  EXPECT_THAT(Read("split.svg"), HasSubstr(" on tight: "));
  const auto json = nlohmann::json::parse(Emplace(place + "--what-if memory=2 --json").out);
  EXPECT_EQ(json.at("what_if").at(0).at("change"), "memory=2");
  EXPECT_GT(json.at("what_if").at(0).at("tokens_per_s"), json.at("tokens_per_s"));
  ExpectRefused(Emplace(place + "--what-if network=2"), "--what-if: network: tight is one machine");
  ExpectRefused(Emplace(place + "--timeline t.json"),
                "--timeline: t.json: expected a picture of a GGUF model's split, a name in .svg");
  ExpectRefused(Emplace("place g.json --cluster c.yaml --what-if all -o p.json"),
                "g.json: is no GGUF model, which --context, --depth, --prompt, --ubatch, --parallel, --client, "
                "--cache-type-k, --cache-type-v, --what-if and --to are for");
}

TEST_F(InferenceCommandTest, NothingFits) {
  Write("tiny.yaml",
        "schema: emplace.cluster\nversion: 1\nname: tiny\ndevices:\n  - {name: 'gpu:0', kind: rtx-4090, memory_gib: "
        "0.51}\n");
  const Ran ran = Emplace("place m.gguf --cluster tiny.yaml --context 8192 -o none.json");
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, HasSubstr("m.gguf: no split fits tiny with a context of 8192: "));
  EXPECT_EQ(Shell("ls none.json").status, 2);
}

TEST_F(InferenceCommandTest, BadInputIsOneLine) {
  ExpectRefused(Emplace("place m.gguf --cluster home.yaml --objective throughput -o p.json"),
                "--objective: unknown objective of a GGUF model \"throughput\" (decode, prefill, decode-throughput)");
  ExpectRefused(Emplace("place g.json --cluster home.yaml --objective decode -o p.json"),
                "--objective: decode is for a GGUF model, and g.json is none (--quantise makes one of a network)");
  ExpectRefused(Emplace("place g.json --cluster c.yaml --context 5 -o p.json"),
                "g.json: is no GGUF model, which --context, --depth, --prompt, --ubatch, --parallel, --client, "
                "--cache-type-k, --cache-type-v, --what-if and --to are for");
  ExpectRefused(Emplace("place m.gguf --cluster home.yaml --cache-type-k q9 -o p.json"),
                "--cache-type-k: q9: expected one of f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1");
  ExpectRefused(Emplace("place m.gguf --cluster home.yaml --to vllm -o p.json"), "--to: vllm: expected llama.cpp");
  ExpectRefused(Emplace("place m.gguf --cluster home.yaml --agent annealing -o p.json"),
                "m.gguf: the split of a GGUF model is found exactly: it takes --objective decode, prefill or "
                "decode-throughput, and no agent, budget, schedule, costs but a file's, checkpoint, policy or order");
  ASSERT_EQ(Shell("sed 's/rtx-4090/rtx-4091/' home.yaml > odd.yaml").status, 0);
  EXPECT_THAT(Emplace("place m.gguf --cluster odd.yaml -o p.json").err, HasSubstr("did you mean rtx-4090?"));
  EXPECT_THAT(Emplace("place m.gguf --cluster home.yaml --context 9000 --client cpu:0 -o p.json").err,
              HasSubstr("was trained for 8192 tokens, fewer than the context of 9000"));
  ASSERT_EQ(Shell("head -c 300 m.gguf > short.gguf").status, 0);
  const Ran cut = Emplace("place short.gguf --cluster home.yaml -o p.json");
  EXPECT_EQ(cut.status, 2);
  EXPECT_THAT(cut.err, HasSubstr("short.gguf: byte "));
  ExpectRefused(Emplace("memory m.gguf --from llama.cpp none.sh --cluster home.yaml"),
                "none.sh: cannot be read (No such file or directory)");
}

}  // namespace
}  // namespace emplace::testing
