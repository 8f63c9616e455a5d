#include "datasets/models/transformer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

// sum(p.numel() for p in model.parameters()) of transformers 5.24.0, which has no modules that predict further tokens.
const std::map<std::string, std::int64_t, std::less<>> kPublished = {
    {"llama-2-7b", 6738415616},
    {"llama-2-13b", 13015864320},
    {"llama-2-70b", 68976648192},
    {"llama-3-8b", 8030261248},
    {"llama-3.1-8b", 8030261248},
    {"llama-3-70b", 70553706496},
    {"llama-3.1-70b", 70553706496},
    {"llama-3.1-405b", 405853388800},
    {"llama-3.2-1b", 1235814400},
    {"llama-3.2-3b", 3212749824},
    {"nanotron-1b", 1342244864},
    {"nanotron-3b", 3573722112},
    {"nanotron-8b", 8858636288},
    {"nanotron-80b", 79995084800},
    {"mistral-7b", 7241732096},
    {"mixtral-8x7b", 46702792704},
    {"mixtral-8x22b", 140620634112},
    {"qwen2.5-0.5b", 494032768},
    {"qwen2.5-1.5b", 1543714304},
    {"qwen2.5-3b", 3085938688},
    {"qwen2.5-7b", 7615616512},
    {"qwen2.5-14b", 14770033664},
    {"qwen2.5-32b", 32763876352},
    {"qwen2.5-72b", 72706203648},
    {"qwen3-0.6b", 596049920},
    {"qwen3-1.7b", 1720574976},
    {"qwen3-4b", 4022468096},
    {"qwen3-8b", 8190735360},
    {"qwen3-14b", 14768307200},
    {"qwen3-32b", 32762123264},
    {"qwen3-30b-a3b", 30532122624},
    {"qwen3-235b-a22b", 235093634560},
    {"deepseek-v2", 235741434880},
    {"deepseek-v2-lite", 15706484224},
    {"deepseek-v3", 671026404352},
    {"gpt-oss-20b", 20914757184},
    {"gpt-oss-120b", 116829156672},
    // n_params of GGUF files without what balances the experts, 128 numbers in each of their layers, without the module
    // of 3616573440 that predicts further, and without 64 frequencies of the rotary embedding.
    {"glm-4.5-air", 110468824832 - 46 * 128 - 3616573440},
    {"dots.llm1", 142774381696 - 61 * 128},
    {"hunyuan-a13b", 80393183232},
    {"llama-4-scout", 107769861184 - 64},
    {"nemotron-h-8b", 8100852736},
    {"nemotron-h-47b", 46791554816},
    {"nemotron-h-56b", 56324350464},
    {"nemotron-nano-9b-v2", 8888227328},
    {"nemotron-nano-12b-v2", 12310001152},
    {"nemotron-3-nano-30b-a3b", 31577937344},
    {"nemotron-3.5-lightning-30b-a3b", 31577937344},
    {"nemotron-3-super-120b-a12b", 120668687360},
    {"nemotron-3-ultra-550b-a55b", 549308968960},
    {"gemma-2-2b", 2614341888},
    {"gemma-2-9b", 9241705984},
    {"gemma-2-27b", 27227128320},
    {"gemma-3-1b", 999885952},
    {"gemma-3-4b", 3880263168},
    {"gemma-3-12b", 11766034176},
    {"gemma-3-27b", 27009346304},
    {"gpt-2", 124439808},
    {"gpt-2-medium", 354823168},
    {"gpt-2-large", 774030080},
    {"gpt-2-xl", 1557611200},
    {"gpt-3-125m", 125226240},
    {"gpt-3-350m", 355871744},
    {"gpt-3-760m", 760300032},
    {"gpt-3-1.3b", 1315723264},
    {"gpt-3-2.7b", 2651553280},
    {"gpt-3-6.7b", 6658404352},
    {"gpt-3-13b", 12853386240},
    {"gpt-3-175b", 174604259328},
    {"mpt-7b", 6649286656},
    {"mpt-30b", 29957200896},
    {"t5-small", 60506624},
    {"t5-base", 222903552},
    {"t5-large", 737668096},
    {"t5-3b", 2851598336},
    {"t5-11b", 11307321344},
};

TransformerNetwork Preset(std::string_view name) {
  const TransformerNetwork* const network = FindTransformer(name);
  EXPECT_NE(network, nullptr) << name;
  return network == nullptr ? TransformerNetwork{} : *network;
}

TEST(TransformerTest, PresetsHaveExactlyTheParametersOfTransformers) {
  std::size_t compared = 0;
  for (TransformerNetwork network : TransformerPresets()) {
    CheckTransformer(network);
    network.mtp_layers = 0;
    const auto published = kPublished.find(network.name);
    ASSERT_NE(published, kPublished.end()) << network.name;
    EXPECT_EQ(Parameters(network).total, published->second) << network.name;
    EXPECT_FALSE(network.source.empty()) << network.name;
    ++compared;
  }
  EXPECT_EQ(compared, kPublished.size());
}

TEST(TransformerTest, KnowsParametersOfATokenAndOfFurtherPredictions) {
  // Mixtral: "47B parameters, but only uses 13B active"; DeepSeek-V3: 671B, of which 37B, and 14B of the module that
  // predicts a second token, whose embedding and output projection (2 * 129,280 * 7,168) are the network's.
  EXPECT_EQ(Parameters(Preset("mixtral-8x7b")).active, 12879925248);
  TransformerNetwork deepseek = Preset("deepseek-v3");
  const std::int64_t with = Parameters(deepseek).total;
  deepseek.mtp_layers = 0;
  EXPECT_NEAR(static_cast<double>(Parameters(deepseek).active), 37e9, 1e9);
  EXPECT_EQ(with - Parameters(deepseek).total, 11610067968);
  EXPECT_EQ(Parameters(Preset("llama-3-8b")).active, Parameters(Preset("llama-3-8b")).total);
}

// 2 layers of Mamba, one of an MLP, one of attention, one of experts with a latent width.
TransformerNetwork SmallHybrid() {
  TransformerNetwork network = Preset("nemotron-3-super-120b-a12b");
  network.pattern = "M-M*E";
  network.layers = 5;
  network.d_model = 32;
  network.heads = 4;
  network.kv_heads = 2;
  network.head_width = 16;
  network.d_ff = 48;
  network.vocabulary = 96;
  network.mamba = MambaMixer{.heads = 8, .head_width = 4, .groups = 2, .state = 6};
  network.experts = {.count = 4, .top_k = 2, .d_expert = 10, .shared = 1, .d_shared = 14, .latent = 12};
  return network;
}

TEST(TransformerTest, ALayerOfAPatternHasOnePart) {
  TransformerNetwork network = SmallHybrid();
  CheckTransformer(network);
  EXPECT_EQ(network.mamba->inner(), 32);
  EXPECT_EQ(network.mamba->conv_width(), 32 + 2 * 2 * 6);
  EXPECT_EQ(network.mamba->projected_width(), 32 + 56 + 8);
  EXPECT_TRUE(network.PartsOf(0).mamba);
  EXPECT_TRUE(network.PartsOf(1).mlp);
  EXPECT_TRUE(network.PartsOf(3).attention);
  EXPECT_FALSE(network.PartsOf(3).mlp);
  EXPECT_TRUE(network.HasExperts(4));
  const auto elements = [&](std::int64_t layer) { return Parameters(network, LayerWeights(network, layer)).total; };
  // A norm, the first product, the convolution with its bias, three numbers a head, the norm of y, the second product.
  EXPECT_EQ(elements(0), 32 + 96 * 32 + 56 * 4 + 56 + 3 * 8 + 32 + 32 * 32);
  EXPECT_EQ(elements(1), 32 + 2 * 48 * 32);
  EXPECT_EQ(elements(3), 32 + 32 * (64 + 2 * 32 + 64));
  // The router, the routed experts at 12, the products to and from there, the shared expert.
  EXPECT_EQ(elements(4), 32 + 4 * 32 + 4 * 2 * 10 * 12 + 2 * 12 * 32 + 2 * 14 * 32);
  EXPECT_EQ(Parameters(network, LayerWeights(network, 4)).active, elements(4) - 2 * 2 * 10 * 12);
  // Two modules of attention and experts with the same weights: three norms, and a product of two states.
  const std::int64_t module = 3 * 32 + 2 * 32 * 32 + elements(3) + elements(4);
  EXPECT_EQ(Parameters(network, PredictionWeights(network)).total, module);
  const std::int64_t rest = 2 * elements(0) + elements(1) + elements(3) + elements(4) + 2 * 96 * 32 + 32;
  EXPECT_EQ(Parameters(network).total, rest + module);
  network.mtp_shared = false;
  EXPECT_EQ(Parameters(network).total, rest + 2 * module);
  network.mtp_layers = 0;
  EXPECT_EQ(Parameters(network).total, 27168);  // of transformers 5.24.0
}

TEST(TransformerTest, ListsTheWeightsOfEachPart) {
  const TransformerNetwork network = Preset("llama-3-8b");
  std::vector<std::string> names;
  for (const TransformerWeight& weight : LayerWeights(network, 0)) names.push_back(weight.name);
  EXPECT_EQ(names, (std::vector<std::string>{"input_layernorm.weight", "self_attn.q_proj.weight",
                                             "self_attn.k_proj.weight", "self_attn.v_proj.weight",
                                             "self_attn.o_proj.weight", "post_attention_layernorm.weight",
                                             "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"}));
  EXPECT_EQ(Parameters(network, LayerWeights(network, 0)).total, 218112000);
  EXPECT_EQ(Parameters(network, EmbeddingWeights(network)).total, 128256 * 4096);
  EXPECT_EQ(Parameters(network, OutputWeights(network)).total, 128256 * 4096 + 4096);
  EXPECT_EQ(OutputWeights(network).back().division, WeightDivision::kVocabulary);

  const TransformerNetwork experts = Preset("deepseek-v3");
  EXPECT_FALSE(experts.HasExperts(2));
  ASSERT_TRUE(experts.HasExperts(3));
  std::int64_t routed = 0;
  for (const TransformerWeight& weight : LayerWeights(experts, 3)) routed += weight.experts > 0 ? weight.elements() : 0;
  EXPECT_EQ(routed, std::int64_t{256} * 3 * 2048 * 7168);
  EXPECT_EQ(PredictionWeights(experts).size(), LayerWeights(experts, 3).size() + 4);

  const TransformerNetwork t5 = Preset("t5-small");
  EXPECT_EQ(EncoderLayerWeights(t5, 0).size(), EncoderLayerWeights(t5, 1).size() + 1);  // relative positions
  EXPECT_EQ(LayerWeights(t5, 1).size(), EncoderLayerWeights(t5, 1).size() + 5);         // attention to the encoder
}

TEST(TransformerTest, LayersHaveTheWindowsOfTheirPattern) {
  const TransformerNetwork gemma = Preset("gemma-3-1b");
  EXPECT_EQ(gemma.WindowOf(0), 512);
  EXPECT_EQ(gemma.WindowOf(5), 0);
  EXPECT_EQ(Preset("gpt-oss-20b").WindowOf(0), 128);
  EXPECT_EQ(Preset("gpt-oss-20b").WindowOf(1), 0);
  EXPECT_EQ(Preset("mistral-7b").WindowOf(31), 4096);
}

TEST(TransformerTest, IsWrittenAndReadByItsFields) {
  for (const TransformerNetwork& network : TransformerPresets()) {
    const JsonValue written{FieldsToJson(network)};
    const auto read = ReadFields<TransformerNetwork>(JsonNode(written));
    EXPECT_EQ(JsonText(JsonValue{FieldsToJson(read)}), JsonText(written));
    EXPECT_EQ(Parameters(read).total, Parameters(network).total);
  }
}

TEST(TransformerTest, RefusesFieldsThatDoNotGoTogether) {
  const auto message = [](void (*change)(TransformerNetwork&)) -> std::string {
    TransformerNetwork network = Preset("llama-3-8b");
    change(network);
    try {
      CheckTransformer(network);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([](TransformerNetwork& n) { n.kv_heads = 5; }),
            "llama-3-8b: kv_heads must divide heads, which is 32, got 5");
  EXPECT_EQ(message([](TransformerNetwork& n) { n.layers = 0; }), "llama-3-8b: layers is 0 (an integer from 1)");
  EXPECT_EQ(message([](TransformerNetwork& n) { n.experts = {.count = 4, .top_k = 5, .d_expert = 8}; }),
            "llama-3-8b: top_k must be 1..4, which is the number of experts, got 5");
  EXPECT_EQ(message([](TransformerNetwork& n) { n.pattern = "M"; }),
            "llama-3-8b: pattern has layers of Mamba, but mamba is missing");
  EXPECT_EQ(message([](TransformerNetwork& n) { n.pattern = "*x"; }),
            "llama-3-8b: pattern has \"x\" (M for Mamba, * for attention, - for an MLP, E for experts)");
  EXPECT_EQ(message([](TransformerNetwork& n) { n.pattern = "*-"; }),
            "llama-3-8b: layers must be the length of pattern, which is 2, got 32");
  EXPECT_EQ(message([](TransformerNetwork& n) { n.mtp_pattern = "*"; }), "llama-3-8b: mtp_pattern needs a pattern");
  EXPECT_EQ(message([](TransformerNetwork& n) { n.mtp_shared = true; }), "llama-3-8b: mtp_shared needs mtp_layers");
  EXPECT_EQ(message([](TransformerNetwork& n) {
              n = SmallHybrid();
              n.mamba->groups = 3;
            }),
            "nemotron-3-super-120b-a12b: groups of mamba must divide its heads, which are 8, got 3");
}

}  // namespace
}  // namespace emplace::datasets
