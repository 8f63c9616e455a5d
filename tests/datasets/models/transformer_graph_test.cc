#include "datasets/models/transformer_graph.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "tests/testing/rank_graphs.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;
using Dims = std::vector<std::int64_t>;

// d = 8, 4 heads of width 2, 2 of keys, MLPs 16 wide, 2 sequences of 4 tokens.
Graph TinyLlama(const OptionMap& more = {}) {
  OptionMap options = {{"layers", "2"}, {"d_model", "8"},     {"heads", "4"},    {"kv_heads", "2"},
                       {"d_ff", "16"},  {"vocabulary", "12"}, {"sequence", "4"}, {"batch", "2"}};
  for (const auto& [key, value] : more) options[key] = value;
  return datasets::MakeModel("llama", options);
}

// Shapes of the variables by name.
std::map<std::string, Dims> VariablesOf(const Graph& graph) {
  std::map<std::string, Dims> shapes;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    if (graph.op(op).kind != "variable") continue;
    const auto shape = graph.tensor(graph.first_output(op)).shape;
    shapes[std::string(graph.op(op).name)] = {shape.begin(), shape.end()};
  }
  return shapes;
}

std::int64_t ElementsOf(const Dims& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  return elements;
}

TEST(TransformerGraphTest, EveryPresetHasTheParametersOfItsDescription) {
  for (datasets::TransformerNetwork network : datasets::TransformerPresets()) {
    // Two kinds of layers at most, the second of which has experts where there are any.
    network.layers = std::min<std::int64_t>(2, network.layers);
    if (!network.pattern.empty()) {
      network.pattern = network.experts.count > 0 ? "M*E" : "M*-";
      network.layers = 3;
    }
    network.encoder_layers = std::min<std::int64_t>(2, network.encoder_layers);
    network.experts.dense_first_layers = std::min<std::int64_t>(1, network.experts.dense_first_layers);
    const Graph graph = datasets::BuildTransformer(network, {.sequence = 16});
    CheckTrainingGraph(graph);
    EXPECT_EQ(TotalsOf(graph).parameters, static_cast<double>(Parameters(network).total)) << network.name;
    std::int64_t elements = 0;
    for (const auto& [name, shape] : VariablesOf(graph)) elements += ElementsOf(shape);
    EXPECT_EQ(elements, Parameters(network).total) << network.name;
  }
}

TEST(TransformerGraphTest, VariablesAreTheWeightsOfTheDescription) {
  const auto variables = VariablesOf(TinyLlama({{"tied", "true"}}));
  datasets::TransformerNetwork network = *datasets::FindTransformer("llama-3-8b");
  network.layers = 2;
  network.d_model = 8;
  network.heads = 4;
  network.kv_heads = 2;
  network.head_width = 2;
  network.d_ff = 16;
  for (const datasets::TransformerWeight& weight : datasets::LayerWeights(network, 1)) {
    std::string name = "model.layers.1." + weight.name;
    name.replace(name.rfind('.'), 1, "/");
    ASSERT_TRUE(variables.contains(name)) << name;
    const Dims shape = weight.columns > 1 ? Dims{weight.rows, weight.columns} : Dims{weight.rows};
    EXPECT_EQ(variables.at(name), shape) << name;
  }
  EXPECT_TRUE(variables.contains("model.embed_tokens/weight"));
  EXPECT_FALSE(variables.contains("lm_head/weight"));
}

TEST(TransformerGraphTest, ModulesAreNamedAsHuggingFaceDoes) {
  const Graph graph = TinyLlama();
  const auto layers = TotalsOf(graph).layers;
  for (const char* const name :
       {"model.embed_tokens", "model.layers.0.input_layernorm", "model.layers.0.self_attn",
        "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.o_proj", "model.layers.1.post_attention_layernorm",
        "model.layers.1.mlp", "model.layers.1.mlp.gate_proj", "model.layers.1.mlp.down_proj", "model.norm",
        "lm_head"}) {
    EXPECT_TRUE(layers.contains(name)) << name;
  }
}

TEST(TransformerGraphTest, ProductsAreThoseWrittenOut) {
  // Each of 8 tokens takes: queries and output 2 * 8 * 8, keys and values 2 * 8 * 4, the MLP 3 * 8 * 16, twice; logits
  // 12 * 8. Attention as PyTorch counts: each of 4 heads of 2 sequences 4 * 4 pairs of 2 + 2, twice; the gradient has
  // five products for two.
  const double linear = 2.0 * 8 * (2 * (2 * 64 + 2 * 32 + 3 * 128) + 96);
  const double attention = 2.0 * 2 * (2 * 4 * 16) * (2 + 2);
  const GraphTotals totals = TotalsOf(TinyLlama());
  EXPECT_EQ(totals.forward_product_flop, linear + attention);
  EXPECT_EQ(totals.backward_product_flop, 2 * linear + 2.5 * attention);
}

TEST(TransformerGraphTest, FusedAttentionKeepsNoScores) {
  const Graph fused = TinyLlama();
  const Graph unfused = TinyLlama({{"attention", "unfused"}});
  CheckTrainingGraph(unfused);
  EXPECT_EQ(TotalsOf(fused).kinds.at("attention"), 2U);
  EXPECT_EQ(TotalsOf(fused).kinds.at("attention_grad"), 2U);
  EXPECT_FALSE(TotalsOf(unfused).kinds.contains("attention"));
  EXPECT_EQ(ShapeOf(unfused, "model.layers.0.self_attn/scores"), (Dims{2, 4, 4, 4}));
  EXPECT_EQ(ShapeOf(fused, "model.layers.0.self_attn/attention"), (Dims{2, 4, 4, 2}));
  EXPECT_EQ(fused.tensor(fused.first_output(*fused.FindOp("loss/cast"))).dtype, DType::kF32);
  EXPECT_EQ(TotalsOf(unfused).parameters, TotalsOf(fused).parameters);
  // The old models have both forms too.
  EXPECT_EQ(TotalsOf(TinyGpt({{"attention", "fused"}})).kinds.at("attention"), 2U);
  EXPECT_FALSE(TotalsOf(TinyGpt()).kinds.contains("attention"));
  EXPECT_EQ(TotalsOf(TinyBert({{"attention", "fused"}})).kinds.at("attention"), 2U);
}

TEST(TransformerGraphTest, ExpertsTakeTheTokensThatChooseThem) {
  const Graph graph = TinyLlama(
      {{"experts", "4"}, {"top_k", "2"}, {"d_expert", "6"}, {"shared_experts", "1"}, {"dense_first_layers", "1"}});
  CheckTrainingGraph(graph);
  EXPECT_TRUE(graph.FindOp("model.layers.0.mlp.up_proj/weight"));
  EXPECT_EQ(ShapeOf(graph, "model.layers.1.mlp/dispatch/embedding"), (Dims{4, 4, 8}));  // 2 * 8 tokens, 4 experts
  EXPECT_EQ(ShapeOf(graph, "model.layers.1.mlp.experts/gate_up_proj_weight"), (Dims{4, 12, 8}));
  EXPECT_EQ(ShapeOf(graph, "model.layers.1.mlp.experts/swiglu"), (Dims{4, 4, 6}));
  EXPECT_EQ(ShapeOf(graph, "model.layers.1.mlp.shared_experts.up_proj/weight"), (Dims{6, 8}));
  // An expert that gets half as much again as the average needs room for it.
  const Graph uneven = TinyLlama({{"experts", "4"}, {"top_k", "2"}, {"load_imbalance", "1.5"}});
  EXPECT_EQ(ShapeOf(uneven, "model.layers.1.mlp/dispatch/embedding"), (Dims{4, 6, 8}));
}

TEST(TransformerGraphTest, TensorParallelRanksHaveHalfOfTheHeads) {
  const Graph whole = TinyLlama({{"qk_norm", "true"}});
  const Graph graph = datasets::Transform(whole, {.tensor_parallel = 2});
  CheckRanks(graph, 2);
  EXPECT_EQ(ShapeOf(graph, "t1/model.layers.0.self_attn/attention"), (Dims{2, 2, 4, 2}));
  EXPECT_EQ(ShapeOf(graph, "t1/model.layers.0.self_attn.k_proj/weight"), (Dims{2, 8}));
  EXPECT_EQ(ShapeOf(graph, "t1/model.layers.0.mlp/swiglu"), (Dims{2, 4, 8}));
  EXPECT_EQ(ShapeOf(graph, "t1/model.layers.0.mlp.down_proj/weight"), (Dims{8, 8}));
  EXPECT_EQ(ShapeOf(graph, "t1/gradients/model.embed_tokens/tokens/embedding/embedding_grad"), (Dims{6, 8}));
  EXPECT_EQ(SumFlop(graph, Both(IsProduct, OfRank("t0/"))) * 2, SumFlop(whole, IsProduct));
  EXPECT_THAT(TransformRefusal(whole, {.tensor_parallel = 4}), HasSubstr("4 does not divide heads of keys"));
}

TEST(TransformerGraphTest, ExpertsAreDividedAndLayersRunAgain) {
  const Graph experts = TinyLlama({{"experts", "4"}, {"top_k", "2"}});
  const Graph divided = datasets::Transform(experts, {.expert_parallel = 2});
  CheckRanks(divided, 2);
  EXPECT_EQ(ShapeOf(divided, "t1/model.layers.0.mlp.experts/swiglu"), (Dims{2, 8, 16}));
  EXPECT_EQ(ShapeOf(divided, "t1/model.layers.0.mlp/dispatch/embedding/all_to_all"), (Dims{2, 8, 8}));

  const Graph whole = TinyLlama();
  const Graph full = datasets::Transform(whole, {.recompute = "full"});
  EXPECT_EQ(TotalsOf(full).kinds.at("attention"), 4U);
  EXPECT_EQ(TotalsOf(datasets::Transform(whole, {.recompute = "model.layers.1"})).kinds.at("attention"), 3U);
  const auto selective = TotalsOf(datasets::Transform(whole, {.recompute = "selective"})).kinds;
  EXPECT_EQ(selective.at("attention"), 4U);
  EXPECT_EQ(selective.at("swiglu"), 2U);
}

TEST(TransformerGraphTest, OptionsThatDoNotGoTogetherAreRefused) {
  const auto refusal = [](std::string_view model, const OptionMap& options) -> std::string {
    try {
      datasets::MakeModel(model, options);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("llama", {{"kv_heads", "5"}}), "llama: kv_heads must divide heads, which is 32, got 5");
  EXPECT_EQ(refusal("gpt-2", {{"sequence", "2048"}}),
            "gpt-2: sequence must be at most max_positions, which is 1024, got 2048");
  EXPECT_EQ(refusal("gpt-oss-20b", {{"attention", "unfused"}}),
            "gpt-oss-20b: attention=unfused goes neither with sinks nor with windows of some layers");
  EXPECT_THAT(refusal("llama-3-8", {}), HasSubstr("unknown model \"llama-3-8\""));
  EXPECT_THAT(refusal("llama-3-8", {}), HasSubstr("llama-3-8b"));
}

TEST(TransformerGraphTest, PresetsTakeOptionsByName) {
  const Graph graph = datasets::MakeModel("llama-3.2-1b", {{"layers", "1"}, {"sequence", "8"}, {"precision", "f32"}});
  EXPECT_EQ(graph.name(), "llama-3.2-1b");
  EXPECT_EQ(ShapeOf(graph, "model.layers.0.self_attn/attention"), (Dims{1, 32, 8, 64}));
  EXPECT_FALSE(graph.FindOp("loss/cast"));
  std::set<std::string> names;
  for (const datasets::ModelName& name : datasets::AllModelNames()) EXPECT_TRUE(names.insert(name.name).second);
  EXPECT_TRUE(names.contains("deepseek-v3"));
  EXPECT_EQ(datasets::FindModelName("gpt-oss-120b").name, "gpt-oss-120b");
  EXPECT_EQ(datasets::FindNetwork("llama")->layers, 32);
  EXPECT_FALSE(datasets::FindNetwork("bert"));
}

}  // namespace
}  // namespace emplace::testing
