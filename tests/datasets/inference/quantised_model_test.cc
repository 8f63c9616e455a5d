#include "datasets/inference/quantised_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "datasets/models/named_network.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace quantised_model_test {

std::int64_t BytesOf(const std::string& network, std::string_view quantisation) {
  return datasets::QuantisedModel(datasets::NamedNetwork(network, {}, "--set"), quantisation).weight_bytes();
}

// model_size of llama-bench: bytes of a model's tensors.
TEST(QuantisedModelTest, BytesAreThoseOfPublishedFiles) {
  // github.com/lhl/strix-halo-testing: llama 1B, 7B and 8B.
  EXPECT_EQ(BytesOf("llama-3.2-1b", "q4_k_m"), 799862912 - 128);  // rope_freqs, which change with the context
  EXPECT_EQ(BytesOf("llama-2-7b", "q4_0"), 3825065984);
}

TEST(QuantisedModelTest, EveryQuantisationHasBytes) {
  std::int64_t exact = BytesOf("llama-3.2-1b", "f32");
  for (const std::string_view quantisation : datasets::AllQuantisations()) {
    const std::int64_t bytes = BytesOf("llama-3.2-1b", quantisation);
    EXPECT_GT(bytes, exact / 16) << quantisation;
    EXPECT_LE(bytes, exact) << quantisation;
  }
  EXPECT_LT(BytesOf("llama-3.2-1b", "q3_k_s"), BytesOf("llama-3.2-1b", "q3_k_m"));
  EXPECT_LT(BytesOf("llama-3.2-1b", "q4_k_s"), BytesOf("llama-3.2-1b", "q4_k_m"));
}

TEST(QuantisedModelTest, WindowsAndExpertsAreThoseOfTheNetwork) {
  const auto oss = datasets::QuantisedModel(datasets::NamedNetwork("gpt-oss-20b", {}, "--set"), "mxfp4");
  EXPECT_EQ(oss.num_experts, 32);
  EXPECT_EQ(oss.used_experts, 4);
  EXPECT_EQ(oss.layers[0].window, 128);
  EXPECT_EQ(oss.layers[1].window, 0);
  EXPECT_EQ(oss.layers[0].experts.weights.front().type->name, "mxfp4");
  const auto deepseek = datasets::QuantisedModel(datasets::NamedNetwork("deepseek-v2-lite", {}, "--set"), "q8_0");
  EXPECT_EQ(deepseek.layers[3].key_width, 576);
  EXPECT_EQ(deepseek.layers[3].value_width, 0);
  EXPECT_EQ(deepseek.layers[0].experts.bytes(), 0);
}

TEST(QuantisedModelTest, TensorsHaveTheNamesAndTypesOfAFile) {
  const auto header = datasets::QuantisedHeader(datasets::NamedNetwork("mixtral-8x7b", {}, "--set"), "q4_k_m");
  std::map<std::string, std::string> types;
  for (const datasets::GgufTensor& tensor : header.tensors) types[tensor.name] = tensor.type->name;
  EXPECT_EQ(types.at("token_embd.weight"), "q4_k");
  EXPECT_EQ(types.at("output.weight"), "q6_k");
  EXPECT_EQ(types.at("blk.0.attn_norm.weight"), "f32");
  EXPECT_EQ(types.at("blk.5.attn_v.weight"), "q8_0");  // with eight experts
  EXPECT_EQ(types.at("blk.5.attn_output.weight"), "q5_k");
  EXPECT_EQ(types.at("blk.5.ffn_gate_inp.weight"), "f32");
  EXPECT_EQ(types.at("blk.5.ffn_up_exps.weight"), "q4_k");
  EXPECT_EQ(types.at("blk.0.ffn_down_exps.weight"), "q6_k");  // more bits in the first eighth of the layers
  EXPECT_EQ(types.at("blk.4.ffn_down_exps.weight"), "q4_k");
  EXPECT_EQ(header.Text("general.architecture"), "llama");
}

TEST(QuantisedModelTest, TheGraphHoldsAllWeights) {
  const auto model = datasets::QuantisedModel(datasets::NamedNetwork("llama-3.2-1b", {}, "--set"), "q4_k_m");
  const Graph graph = datasets::InferenceGraph(model);
  EXPECT_GE(graph.num_ops(), 2 * model.layers.size());
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) bytes += graph.op(MakeId<OpId>(i)).persistent.count;
  EXPECT_EQ(bytes, model.weight_bytes());
}

TEST(QuantisedModelTest, WhatCannotBeIsRefused) {
  EXPECT_THAT(Refusal([] { BytesOf("llama-3.2-1b", "q9"); }),
              ::testing::HasSubstr("--quantise: unknown quantisation \"q9\""));
  EXPECT_EQ(Refusal([] { BytesOf("t5-small", "q8_0"); }),
            "--quantise: t5-small is no stack of attention and feed-forward layers");
}

}  // namespace quantised_model_test
}  // namespace emplace::testing
