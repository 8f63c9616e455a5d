#include "datasets/inference/inference_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "datasets/importers/gguf.h"
#include "datasets/importers/importers.h"
#include "sim/cost_model.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/gguf_file.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace inference_model_test {

using ::testing::HasSubstr;

std::string Refused(const GgufFile& file) {
  return Refusal([&] {
    std::vector<std::string> notes;
    datasets::ReadInferenceModel(ReadGgufBytes(file.Bytes()), &notes);
  });
}

TEST(InferenceModelTest, TensorsArePartsOfLayers) {
  const datasets::InferenceModel model = MakeInferenceModel({});
  EXPECT_EQ(model.architecture, "llama");
  EXPECT_EQ(model.width, 256);
  EXPECT_EQ(model.vocabulary, 1024);
  EXPECT_EQ(model.context_length, 8192);
  EXPECT_EQ(model.query_width, 256);
  ASSERT_EQ(model.layers.size(), 2U);
  const datasets::InferenceLayer& layer = model.layers[1];
  // q4_0 stores 32 weights in 18 bytes; norms are f32.
  const std::int64_t products = 256 * (256 + 128 + 128 + 256);
  EXPECT_EQ(layer.attention.bytes(), products * 18 / 32 + 256 * 4);
  EXPECT_EQ(layer.attention.elements(), products + 256);
  EXPECT_EQ(layer.feed_forward.bytes(), 3 * 256 * 512 * 18 / 32 + 256 * 4);
  EXPECT_EQ(layer.experts.bytes(), 0);
  EXPECT_EQ(layer.key_width, 128);
  EXPECT_EQ(layer.value_width, 128);
  EXPECT_FALSE(model.is_tied);
  EXPECT_EQ(model.expert_share(), 1);
  EXPECT_EQ(model.logits().bytes(), 1024 * 256 * 18 / 32 + 256 * 4);
  EXPECT_TRUE(MakeInferenceModel({.is_tied = true}).is_tied);
}

TEST(InferenceModelTest, ExpertsAndWindows) {
  const datasets::InferenceModel experts = MakeInferenceModel({.experts = 8, .used_experts = 2, .expert_width = 512});
  EXPECT_EQ(experts.layers[0].experts.bytes(), 8 * 3 * 256 * 512 * 18 / 32);
  EXPECT_EQ(experts.layers[0].feed_forward.bytes(), (256 * 8 + 256) * 4);
  EXPECT_EQ(experts.expert_share(), 0.25);
  // gpt-oss: every second layer sees all tokens.
  const datasets::InferenceModel windows = MakeInferenceModel({.architecture = "gpt-oss", .layers = 4, .window = 128});
  EXPECT_EQ(windows.layers[0].window, 128);
  EXPECT_EQ(windows.layers[1].window, 0);
  EXPECT_EQ(windows.layers[2].window, 128);
  EXPECT_EQ(windows.layers[3].window, 0);
  EXPECT_EQ(MakeInferenceModel({.window = 128}).layers[0].window, 0);  // llama has none
}

TEST(InferenceModelTest, NamesSayWhereATensorIs) {
  EXPECT_EQ(datasets::GgufLayerOf("blk.12.attn_q.weight"), 12);
  EXPECT_EQ(datasets::GgufLayerOf("output.weight"), std::nullopt);
  EXPECT_TRUE(datasets::IsOfOutput("output_norm.weight"));
  EXPECT_FALSE(datasets::IsOfOutput("token_embd.weight"));
  EXPECT_FALSE(datasets::IsOfOutput("blk.0.attn_output.weight"));
  EXPECT_TRUE(datasets::IsOfExperts("blk.3.ffn_up_exps.weight"));
  EXPECT_TRUE(datasets::IsOfExperts("blk.3.ffn_up.7.weight"));  // a tensor for each expert, as older files have them
  EXPECT_FALSE(datasets::IsOfExperts("blk.3.ffn_up_shexp.weight"));
}

TEST(InferenceModelTest, PersistentBytesAreThoseOfTheTensors) {
  for (const GgufShape& shape :
       {GgufShape{}, GgufShape{.experts = 4, .used_experts = 2, .expert_width = 96, .type = "q8_0"},
        GgufShape{.architecture = "qwen3", .type = "bf16", .is_tied = true}}) {
    const datasets::ImportSource source("m.gguf", MakeGguf(shape).Bytes());
    const Graph graph = datasets::ImportGguf(std::vector{source}, {}).graph;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < graph.num_ops(); ++i) bytes += graph.op(MakeId<OpId>(i)).persistent.count;
    std::int64_t expected = 0;
    for (const datasets::GgufTensor& tensor : ReadGgufBytes(MakeGguf(shape).Bytes()).tensors) expected += tensor.bytes;
    EXPECT_EQ(bytes, expected);
    EXPECT_EQ(MakeInferenceModel(shape).weight_bytes(), expected);
    EXPECT_TRUE(graph.FindOp("blk.1.attn").has_value());
    EXPECT_EQ(graph.FindOp("blk.1.exps").has_value(), shape.experts > 0);
  }
}

TEST(InferenceModelTest, ATokenReadsTheExpertsThatItUses) {
  const datasets::ImportSource source("m.gguf",
                                      MakeGguf({.experts = 8, .used_experts = 2, .expert_width = 512}).Bytes());
  const Graph graph = datasets::ImportGguf(std::vector{source}, {}).graph;
  const std::int64_t elements = 2 * 3 * 256 * 512;
  EXPECT_EQ(FindOp(graph, "blk.0.exps").attrs, "{\"flop\":" + std::to_string(2 * elements) +
                                                   ",\"read_bytes\":" + std::to_string(elements * 18 / 32) + "}");
}

TEST(InferenceModelTest, WhatIsNotKnownIsSaid) {
  GgufFile file = MakeGguf({});
  file.Tensor("blk.0.attn_wonder.weight", "f32", {4});
  file.Tensor("wonder.weight", "f32", {4});
  std::vector<std::string> notes;
  datasets::ReadInferenceModel(ReadGgufBytes(file.Bytes()), &notes);
  EXPECT_THAT(notes, ::testing::ElementsAre(
                         "tensor blk.0.attn_wonder.weight is not known: taken as read with the layer's attention",
                         "tensor wonder.weight is not known: taken as read with the embedding"));
  EXPECT_THAT(Refused(GgufFile("mamba")),
              HasSubstr("general.architecture: mamba: what its layers read of a token is not known (known: llama, "));
  EXPECT_EQ(Refused(GgufFile("llama")), "llama.block_count: is missing: expected the number that llama needs");
}

TEST(InferenceModelTest, LayersThatCannotBeAreRefused) {
  const auto without = [](std::uint32_t layers, std::uint32_t experts) {
    GgufFile file("llama");
    for (const auto& [key, value] :
         {std::pair("block_count", layers), std::pair("embedding_length", 64U), std::pair("attention.head_count", 1U),
          std::pair("vocab_size", 10U), std::pair("expert_count", experts), std::pair("expert_used_count", 3U)}) {
      file.Integer(std::string("llama.") + key, value);
    }
    return file;
  };
  EXPECT_EQ(Refused(without(0, 0)), "llama.block_count: 0: expected 1 to 10000");
  EXPECT_EQ(Refused(without(1, 2)), "llama.expert_used_count: 3: expected 1 to 2, the number of experts");
  EXPECT_EQ(Refused(without(1, 0)), "blk.0: has no tensor of attention: expected attn_q or attn_qkv");
  GgufFile far = without(1, 0);
  far.Tensor("blk.7.attn_q.weight", "f32", {4});
  EXPECT_EQ(Refused(far), "blk.7.attn_q.weight: is of layer 7: expected 0 to 0");
}

}  // namespace inference_model_test
}  // namespace emplace::testing
