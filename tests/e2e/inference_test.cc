// emplace place and memory of a GGUF model.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
                "--cache-type-k, --cache-type-v and "
                "--to are for");
  ExpectRefused(Emplace("place m.gguf --cluster home.yaml --cache-type-k q9 -o p.json"),
                "--cache-type-k: q9: expected one of f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1");
  ExpectRefused(Emplace("place m.gguf --cluster home.yaml --to vllm -o p.json"), "--to: vllm: expected llama.cpp");
  ExpectRefused(Emplace("place m.gguf --cluster home.yaml --agent annealing -o p.json"),
                "m.gguf: the split of a GGUF model is found exactly: it takes --objective decode, prefill or "
                "decode-throughput, and no agent, budget, schedule, costs, checkpoint, policy, order or timeline");
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
