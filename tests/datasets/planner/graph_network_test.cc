#include "datasets/planner/graph_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "datasets/memory/transformer_setup.h"
#include "datasets/models/named_network.h"
#include "datasets/models/registry.h"
#include "datasets/planner/plan_json.h"
#include "datasets/planner/plan_search.h"
#include "datasets/shipped_clusters.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/formats/graph_json.h"

namespace emplace::datasets {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const OptionMap kSmallLlama = {{"layers", "8"}};

PlanQuestion OfTwoNodes() {
  PlanQuestion question;
  question.machine = MakePlanMachine(LoadCluster("dgx-h100"), 2);
  question.framework = FindFrameworkHabits("pytorch");
  question.global_batch = 64;
  return question;
}

PlanQuestion AboutGraph(const Graph& graph) {
  PlanQuestion question = OfTwoNodes();
  SetNetwork(graph, 0, &question);
  return question;
}

std::string TextOf(const Graph& graph) {
  std::ostringstream text;
  WriteGraph(text, graph);
  return std::move(text).str();
}

Graph ParsedGraph(const std::string& text) {
  std::istringstream in(text);
  return ReadGraph(in, "graph");
}

// The step with one weight more, which no Transformer has.
Graph WithAnotherWeight(const Graph& graph) {
  std::string text = TextOf(graph);
  const std::size_t place = text.find(R"({"name": "model.layers.0.self_attn.q_proj/weight")");
  EXPECT_NE(place, std::string::npos);
  const std::string path = R"("pass": "forward", "layer": "model.layers.0.scale")";
  text.insert(
      place,
      R"({"name": "w", "kind": "variable", "outputs": [{"dtype": "bf16", "shape": [8]}], )" + path +
          R"(}, {"name": "r", "kind": "relu", "inputs": ["w"], "outputs": [{"dtype": "bf16", "shape": [8]}], )" + path +
          R"(}, {"name": "u", "kind": "identity", "inputs": ["w"], "outputs": [{"dtype": "bf16", "shape": [8]}], )" +
          R"("pass": "update", "layer": "model.layers.0.scale"},)");
  return ParsedGraph(text);
}

TEST(GraphNetworkTest, AStepOfATransformerIsReadAsThatTransformer) {
  for (const char* const name : {"llama-3-8b", "qwen3-0.6b", "gpt-2", "qwen2.5-0.5b", "gpt-3-125m"}) {
    SCOPED_TRACE(name);
    const TransformerNetwork network = NamedNetwork(name, kSmallLlama, "set");
    const GraphNetwork read = ReadGraphNetwork(MakeModel(name, {{"layers", "8"}, {"batch", "2"}, {"sequence", "512"}}));
    EXPECT_EQ(read.why_modules, "");
    EXPECT_EQ(read.batch, 2);
    EXPECT_EQ(read.sequence, 512);
    EXPECT_EQ(Parameters(read.network).total, Parameters(network).total);
    const auto fields = [](const TransformerNetwork& of) {
      return std::vector<std::int64_t>{of.layers,
                                       of.d_model,
                                       of.heads,
                                       of.kv_heads,
                                       of.head_width,
                                       of.d_ff,
                                       of.vocabulary,
                                       of.gated,
                                       of.qk_norm,
                                       of.tied,
                                       of.qkv_bias,
                                       of.output_bias,
                                       of.mlp_bias,
                                       static_cast<std::int64_t>(of.norm),
                                       static_cast<std::int64_t>(of.positions),
                                       static_cast<std::int64_t>(of.activation)};
    };
    EXPECT_EQ(fields(read.network), fields(network));
  }
}

TEST(GraphNetworkTest, ItsPlansAreThoseOfTheNetworkByName) {
  PlanQuestion by_name = OfTwoNodes();
  SetNetwork("llama-3-8b", kSmallLlama, 4096, &by_name);
  const PlanQuestion by_graph = AboutGraph(MakeModel("llama-3-8b", kSmallLlama));
  EXPECT_EQ(by_graph.sequence, 4096);
  const PlanAnswer expected = SearchPlans(by_name);
  const PlanAnswer answer = SearchPlans(by_graph);
  EXPECT_EQ(answer.legal, expected.legal);
  EXPECT_EQ(answer.refused, expected.refused);
  ASSERT_EQ(answer.plans.size(), expected.plans.size());
  for (std::size_t i = 0; i < answer.plans.size(); ++i) {
    EXPECT_EQ(answer.plans[i].time.micros, expected.plans[i].time.micros);
    EXPECT_EQ(answer.plans[i].needed_bytes, expected.plans[i].needed_bytes);
  }
}

TEST(GraphNetworkTest, ModulesTakeAboutTheTimeAndTheMemoryOfTheFormulas) {
  const Graph graph = MakeModel("llama-3-8b", kSmallLlama);
  PlanQuestion by_formulas = AboutGraph(graph);
  PlanQuestion by_modules = AboutGraph(WithAnotherWeight(graph));
  ASSERT_NE(by_modules.graph->modules, nullptr);
  EXPECT_THAT(by_modules.graph->why_modules, HasSubstr("weights, and a Transformer of its sizes has"));
  for (const char* const only : {"tp", "pp"}) {
    by_formulas.only[only] = by_modules.only[only] = "1";
  }
  for (const auto& [key, value] : OptionMap{{"cp", "1"}, {"micro_batch", "1"}, {"recompute", "none"}}) {
    by_formulas.only[key] = by_modules.only[key] = value;
  }
  const PlanAnswer expected = SearchPlans(by_formulas);
  const PlanAnswer answer = SearchPlans(by_modules);
  ASSERT_FALSE(answer.plans.empty());
  const ScoredPlan& best = answer.plans[0];
  EXPECT_EQ(best.plan.zero, expected.plans[0].plan.zero);
  EXPECT_NEAR(best.time.micros, expected.plans[0].time.micros, 0.1 * expected.plans[0].time.micros);
  EXPECT_NEAR(static_cast<double>(best.needed_bytes), static_cast<double>(expected.plans[0].needed_bytes),
              0.15 * static_cast<double>(expected.plans[0].needed_bytes));
  EXPECT_NEAR(answer.ideal_micros, expected.ideal_micros, 0.02 * expected.ideal_micros);
}

TEST(GraphNetworkTest, RanksOfTensorParallelismHavePartsOfModulesThatAddUp) {
  const PlanQuestion question = AboutGraph(WithAnotherWeight(MakeModel("llama-3-8b", kSmallLlama)));
  const ModuleNetwork& modules = *question.graph->modules;
  ASSERT_EQ(modules.layers.size(), 8U);
  const ModulePiece& layer = modules.layers[1];
  EXPECT_EQ(layer.path, "model.layers.1");
  std::int64_t divided = 0;
  std::int64_t whole = 0;
  for (const ModuleWeight& weight : layer.weights) (weight.is_divided ? divided : whole) += weight.elements;
  EXPECT_EQ(divided, 4096 * (4096 + 1024) * 2 + 3 * 4096 * 14336);
  EXPECT_EQ(whole, 2 * 4096);  // norms
  // Shoeybi et al. 2019, section 3: two sums of the hidden state forward, and two backward.
  const double hidden = 2.0 * 4096 * 4096;
  EXPECT_THAT(layer.forward_sums, ElementsAre(hidden, hidden));
  EXPECT_THAT(layer.backward_sums, ElementsAre(hidden, hidden));
  EXPECT_EQ(layer.output_bytes, static_cast<std::int64_t>(hidden));
  for (const ModuleKernel& kernel : layer.kernels) {
    if (!std::holds_alternative<ProductShape>(kernel.shape)) continue;
    EXPECT_TRUE(kernel.is_divided);
    EXPECT_NE(kernel.grows, ProductSize::kNone);
    EXPECT_NE(kernel.divided_size, kernel.grows);
  }
  EXPECT_EQ(question.network.heads, 8);  // as many parts as there are heads of keys
}

TEST(GraphNetworkTest, ADeeperBatchOrAPartOfItTakesItsShareOfTheTime) {
  const PlanQuestion question = AboutGraph(WithAnotherWeight(MakeModel("llama-3-8b", kSmallLlama)));
  StepTimer timer(question.machine, *question.framework);
  const auto products = [&](std::int64_t micro_batch) {
    ParallelPlan plan;
    plan.dp = 16;
    plan.micro_batch = micro_batch;
    return timer.Time(SetupOf(question, plan)).passes.products;
  };
  EXPECT_NEAR(products(4), 4 * products(1), 0.03 * products(4));
}

TEST(GraphNetworkTest, AConvolutionalNetworkIsDividedByModulesAndNotByTensors) {
  const PlanQuestion question = AboutGraph(MakeModel("resnet", {{"batch", "8"}}));
  ASSERT_NE(question.graph->modules, nullptr);
  EXPECT_EQ(question.graph->batch, 8);
  const PlanAnswer answer = SearchPlans(question);
  ASSERT_FALSE(answer.plans.empty());
  EXPECT_EQ(answer.plans[0].plan.tp, 1);
  EXPECT_EQ(answer.refused.count("tp needs pairs of linear modules, one behind the other, whose widths it divides"),
            1U);
  // ResNet-50 has 25,557,032 weights.
  std::int64_t weights = 0;
  const ModuleNetwork& modules = *question.graph->modules;
  for (const ModuleWeight& weight : modules.before.weights) weights += weight.elements;
  for (const ModuleWeight& weight : modules.after.weights) weights += weight.elements;
  for (const ModulePiece& layer : modules.layers) {
    for (const ModuleWeight& weight : layer.weights) weights += weight.elements;
  }
  EXPECT_EQ(weights, 25557032);
  // Pipelines cut it between modules.
  PlanQuestion pipeline = question;
  pipeline.only = {{"pp", "2"}};
  const PlanAnswer cut = SearchPlans(pipeline);
  const ParallelPlan plan = WithNetwork(pipeline, cut.plans.at(0).plan, "resnet.json", {});
  ASSERT_EQ(plan.stages.size(), static_cast<std::size_t>(2 * plan.vpp));
  std::vector<std::string> paths;
  for (const auto& stage : plan.stages) {
    for (const JsonValue& part : stage) paths.push_back(*part.As<std::string>());
  }
  const GraphNetwork& read = *pipeline.graph;
  EXPECT_EQ(paths.size(), read.before.size() + read.layers.size() + read.after.size());
  EXPECT_EQ(SetupOf(pipeline, plan).stages.size(), plan.stages.size());
}

TEST(GraphNetworkTest, StagesNameModulesAndComeBackToNumbers) {
  const PlanQuestion question = AboutGraph(MakeModel("llama-3-8b", {{"layers", "2"}}));
  ParallelPlan plan;
  plan.pp = 2;
  plan.stages = {{ToJson(std::int64_t{0})}, {ToJson(std::int64_t{1})}};
  const ParallelPlan paths = WithPaths(*question.graph, plan);
  const auto texts = [](const std::vector<JsonValue>& stage) {
    std::vector<std::string> found;
    for (const JsonValue& part : stage) found.push_back(JsonText(part));
    return found;
  };
  EXPECT_THAT(texts(paths.stages[0]),
              ElementsAre(R"("model.embed_tokens")", R"("model.rotary_emb")", R"("model.layers.0")"));
  EXPECT_EQ(texts(paths.stages[1])[0], R"("model.layers.1")");
  EXPECT_EQ(texts(WithNumbers(*question.graph, paths).stages[0]), texts(plan.stages[0]));
  EXPECT_EQ(texts(WithNumbers(*question.graph, paths).stages[1]), texts(plan.stages[1]));
}

TEST(GraphNetworkTest, FilesOfGraphsAreFoundAmongOtherNames) {
  const std::string folder = ::testing::TempDir();
  EXPECT_FALSE(FindGraphFile("llama-3-8b"));
  std::ofstream(folder + "graph_network_config.json") << "{}";
  EXPECT_FALSE(FindGraphFile(folder + "graph_network_config.json"));
  std::ofstream(folder + "graph_network_step.json") << TextOf(MakeModel("llama-3-8b", {{"layers", "1"}}));
  const auto graph = FindGraphFile(folder + "graph_network_step.json");
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->name(), "llama-3-8b");
}

TEST(GraphNetworkTest, GraphsThatHaveNoModulesOrNoBackwardPassAreRefused) {
  const auto error = [](const Graph& graph) {
    try {
      ReadGraphNetwork(graph);
    } catch (const InputError& refused) {
      return std::string(refused.what());
    }
    return std::string("none");
  };
  const std::string head = R"({"schema": "emplace.graph", "version": 1, "name": )";
  const std::string input =
      R"({"name": "x", "kind": "input", "outputs": [{"dtype": "f32", "shape": [2, 3]}], "pass": "forward"})";
  const std::string relu =
      R"({"name": "y", "kind": "relu", "inputs": ["x"], "outputs": [{"dtype": "f32", "shape": [2, 3]}], "pass": "forward")";
  EXPECT_THAT(error(ParsedGraph(head + R"("bare", "ops": [)" + input + ", " + relu + "}]}")),
              HasSubstr("bare: has no paths of modules"));
  EXPECT_THAT(error(ParsedGraph(head + R"("forward", "ops": [)" + input + ", " + relu + R"(, "layer": "act"}]})")),
              HasSubstr("forward: has no backward pass"));
  PlanQuestion question = OfTwoNodes();
  EXPECT_THROW(SetNetwork(MakeModel("resnet", {{"batch", "8"}}), 128, &question), InputError);
}

TEST(GraphNetworkTest, UseModulesMakesTheirNumbersThoseOfTheSetup) {
  const PlanQuestion question = AboutGraph(MakeModel("resnet", {{"batch", "8"}}));
  TrainingSetup setup = MakeTrainingSetup(question.network, {}, 1);
  UseModules(*question.graph, &setup);
  EXPECT_EQ(setup.number_bytes, 4);
  EXPECT_EQ(setup.network.layers.back().module, static_cast<std::int64_t>(setup.network.layers.size()) - 1);
}

}  // namespace
}  // namespace emplace::datasets
