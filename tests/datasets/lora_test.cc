#include "datasets/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "datasets/memory/layer_memory.h"
#include "datasets/memory/rank_state.h"
#include "datasets/memory/training_memory.h"
#include "datasets/memory/transformer_setup.h"
#include "datasets/models/named_network.h"
#include "datasets/planner/plan_json.h"
#include "datasets/planner/plan_search.h"
#include "datasets/shipped_clusters.h"
#include "tests/testing/errors.h"

namespace emplace::datasets {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

LoraAdapters Adapters(const std::string& targets, bool is_joined = false, bool has_gate = true) {
  return ReadLora(16, targets, is_joined, has_gate, "targets");
}

TEST(LoraTest, WordsMeanTheModulesOfTheFramework) {
  EXPECT_EQ(Adapters("attention").TargetNames(), "q_proj,k_proj,v_proj,o_proj");
  EXPECT_EQ(Adapters("attention", true).TargetNames(), "linear_qkv,linear_proj");
  EXPECT_EQ(Adapters("").TargetNames(), Adapters(kUsualLoraTargets).TargetNames());
  EXPECT_EQ(Adapters("all-linear").TargetNames(), "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj");
  EXPECT_EQ(Adapters("all-linear", false, false).TargetNames(), "q_proj,k_proj,v_proj,o_proj,up_proj,down_proj");
  EXPECT_EQ(Adapters("all-linear", true).TargetNames(), "linear_qkv,linear_proj,linear_fc1,linear_fc2");
  EXPECT_EQ(Adapters("linear_proj,linear_fc2").TargetNames(), "o_proj,down_proj");  // the same modules
  EXPECT_EQ(Adapters("v_proj,q_proj").Text(), "rank 16 at q_proj,v_proj");
}

TEST(LoraTest, AdaptersAddToTheOutputsOfTheirModules) {
  using enum AdaptedProduct;
  EXPECT_THAT(Adapters("q_proj,v_proj").ColumnsOf(kQueriesKeysValues, {8, 2, 3}), ElementsAre(8, 3));
  EXPECT_THAT(Adapters("linear_qkv").ColumnsOf(kQueriesKeysValues, {8, 2, 3}), ElementsAre(13));
  EXPECT_THAT(Adapters("gate_proj,up_proj").ColumnsOf(kFirstOfMlp, {5, 5}), ElementsAre(5, 5));
  EXPECT_THAT(Adapters("linear_fc1").ColumnsOf(kFirstOfMlp, {5, 5}), ElementsAre(10));
  EXPECT_THAT(Adapters("up_proj", false, false).ColumnsOf(kFirstOfMlp, {5}), ElementsAre(5));
  EXPECT_THAT(Adapters("down_proj").ColumnsOf(kFirstOfMlp, {5, 5}), IsEmpty());
  EXPECT_THAT(LoraAdapters().ColumnsOf(kSecondOfMlp, {5}), IsEmpty());
  EXPECT_TRUE(Adapters("down_proj").Has(kSecondOfMlp));
  EXPECT_FALSE(Adapters("down_proj").Has(kAttentionOutput));
  EXPECT_FALSE(LoraAdapters().exist());
}

TEST(LoraTest, WhatIsNoModuleIsNamed) {
  EXPECT_THAT(::emplace::testing::ErrorOf([] { Adapters("q_prj"); }),
              HasSubstr("targets: has \"q_prj\" (attention, all-linear, q_proj"));
  EXPECT_THAT(::emplace::testing::ErrorOf([] { Adapters("q_prj"); }), HasSubstr("did you mean q_proj?"));
  EXPECT_THAT(::emplace::testing::ErrorOf([] { Adapters("q_proj,"); }), HasSubstr("has \"\""));
  EXPECT_THAT(::emplace::testing::ErrorOf([] { Adapters("q_proj,q_proj"); }), HasSubstr("has q_proj twice"));
  EXPECT_THAT(::emplace::testing::ErrorOf([] { Adapters("q_proj,linear_qkv"); }),
              HasSubstr("has q_proj and linear_qkv (which holds it)"));
  EXPECT_THAT(::emplace::testing::ErrorOf([] { Adapters("gate_proj", false, false); }),
              HasSubstr("the network's MLPs have no gate"));
}

PlanQuestion Question(const char* network, const std::string& targets, const char* framework = "megatron",
                      std::int64_t rank = 16) {
  PlanQuestion question;
  SetNetwork(network, {}, 0, &question);
  question.machine = MakePlanMachine(LoadCluster("dgx-h100"), 1);
  question.framework = FindFrameworkHabits(framework);
  question.global_batch = 8;
  SetLora(rank, targets, &question);
  return question;
}

// Llama 2 70B has 80 layers of width 8,192, with 8,192 outputs of queries, 1,024 of keys and of values, and MLPs of
// width 28,672. An adapter of a module has rank times (inputs + outputs) weights.
TEST(LoraTest, TrainedParametersAreThoseOfTheAdapters) {
  const auto trained = [](const char* targets, const char* framework) {
    return TrainedParameters(Question("llama-2-70b", targets, framework));
  };
  // As MLPerf's reference prints them.
  EXPECT_EQ(trained("attention", "megatron"), 80 * 16 * ((8192 + 10240) + (8192 + 8192)));
  EXPECT_EQ(trained("attention", "megatron"), 44564480);
  EXPECT_EQ(trained("all-linear", "megatron"), 44564480 + 80 * 16 * ((8192 + 2 * 28672) + (28672 + 8192)));
  // PEFT's modules are apart.
  EXPECT_EQ(trained("all-linear", "fsdp"), 80 * 16 * (2 * (8192 + 8192) + 2 * (8192 + 1024) + 3 * (8192 + 28672)));
  EXPECT_EQ(trained("all-linear", "fsdp"), 207093760);
  // Each expert has adapters: Mixtral has 32 layers of width 4,096 with 8 experts of width 14,336.
  EXPECT_EQ(TrainedParameters(Question("mixtral-8x7b", "down_proj")), 32 * 8 * 16 * (14336 + 4096));
  PlanQuestion all = Question("llama-2-70b", "");
  SetLora(std::nullopt, "", &all);
  EXPECT_EQ(TrainedParameters(all), Parameters(all.network).total);
  EXPECT_EQ(AdaptersText(all), "");
  EXPECT_EQ(AdaptersText(Question("llama-2-70b", "attention")),
            "Trains 44,564,480 of 69,021,212,672 parameters: adapters of rank 16 at linear_qkv,linear_proj.");
}

TEST(LoraTest, WhatHasNoAdaptersIsToldInOneLine) {
  EXPECT_THAT(::emplace::testing::ErrorOf([] { Question("llama-3-8b", "", "megatron", 0); }),
              HasSubstr("lora: is 0 (a rank from 1"));
  EXPECT_THAT(::emplace::testing::ErrorOf([] { Question("llama-3-8b", "", "nanotron"); }),
              HasSubstr("whose adapters are not modelled"));
  EXPECT_THAT(::emplace::testing::ErrorOf([] { Question("t5-small", ""); }),
              HasSubstr("t5-small, which has an encoder"));
  EXPECT_THAT(::emplace::testing::ErrorOf([] { Question("deepseek-v3", "attention"); }), HasSubstr("latent attention"));
  EXPECT_EQ(::emplace::testing::ErrorOf([] { Question("deepseek-v3", "o_proj"); }), "(no error)");
  EXPECT_THAT(::emplace::testing::ErrorOf([] {
                PlanQuestion question = Question("llama-3-8b", "");
                SetLora(std::nullopt, "attention", &question);
              }),
              HasSubstr("lora_targets: needs a rank"));
  const TransformerNetwork& network = *FindTransformer("llama-3-8b");
  ParallelPlan plan;
  plan.lora = 4;
  EXPECT_THAT(
      ::emplace::testing::ErrorOf([&] { MakeTrainingSetup(network, plan, 4096, TrainingFramework::kTorchtitan); }),
      HasSubstr("lora: is 4, which is not modelled for torchtitan"));
  EXPECT_EQ(LoraOf(network, 4, "linear_fc2", true, "").TargetNames(), "down_proj");
}

// ---- Memory. Llama 3 8B's layers: width 4,096, queries of 4,096, keys and values of 1,024, MLPs of width 14,336, 32
// heads; sequences of 4,096 tokens.

constexpr std::int64_t kTokens = 4096;
constexpr std::int64_t kWidth = 4096;
constexpr std::int64_t kQueries = 4096;
constexpr std::int64_t kKeys = 1024;
constexpr std::int64_t kMlp = 14336;
constexpr std::int64_t kHeads = 32;
constexpr std::int64_t kRank = 16;
constexpr std::int64_t kWeightsOfLayer = kWidth * (2 * kQueries + 2 * kKeys) + 3 * kWidth * kMlp + 2 * kWidth;
constexpr std::int64_t kVocabulary = 128256;

TrainingSetup SetupWith(const std::string& targets, std::int64_t layers, const ParallelPlan& of = {}) {
  ParallelPlan plan = of;
  plan.lora = targets.empty() ? 0 : kRank;
  plan.lora_targets = targets;
  return MakeTrainingSetup(NamedNetwork("llama-3-8b", {{"layers", std::to_string(layers)}}, "set"), plan, kTokens);
}

std::int64_t ClassOf(const RankPeak& peak, MemoryClass of) { return peak.classes[static_cast<std::size_t>(of)]; }

TEST(LoraMemoryTest, FrozenWeightsHaveNoGradientsAndNoState) {
  const RankPeak peak = PipelinePeaks(SetupWith("linear_qkv,linear_proj", 2))[0];
  const std::int64_t frozen = 2 * kWeightsOfLayer + 2 * kVocabulary * kWidth + kWidth;
  const std::int64_t adapters = 2 * kRank * ((kWidth + kQueries + 2 * kKeys) + (kQueries + kWidth));
  EXPECT_EQ(ClassOf(peak, MemoryClass::kWeights), 2 * (frozen + adapters));
  EXPECT_EQ(ClassOf(peak, MemoryClass::kGradients), 4 * adapters);
  EXPECT_EQ(ClassOf(peak, MemoryClass::kOptimizer), 12 * adapters);
  // With a distributed optimizer the ranks share what is trained; with ZeRO 3 the weights too.
  ParallelPlan plan;
  plan.dp = 4;
  plan.zero = 1;
  const RankPeak shared = PipelinePeaks(SetupWith("linear_qkv,linear_proj", 2, plan))[0];
  EXPECT_EQ(ClassOf(shared, MemoryClass::kWeights), 2 * (frozen + adapters));
  EXPECT_EQ(ClassOf(shared, MemoryClass::kOptimizer), 3 * adapters);
  plan.zero = 3;
  const RankPeak sharded = PipelinePeaks(SetupWith("linear_qkv,linear_proj", 2, plan))[0];
  EXPECT_EQ(ClassOf(sharded, MemoryClass::kWeights), (frozen + adapters) / 2);
  EXPECT_EQ(ClassOf(sharded, MemoryClass::kGradients), adapters);
}

TEST(LoraMemoryTest, FrozenWeightsOfFewBitsHaveNoOtherCopy) {
  ParallelPlan plan;
  plan.precision = "mxfp8";
  const RankPeak peak = PipelinePeaks(SetupWith("linear_qkv", 2, plan))[0];
  // Each matrix twice, by rows and by columns, with a scale for 32 numbers; embedding, head and norms in bf16.
  const std::int64_t cast = 4 * (kWeightsOfLayer - 2 * kWidth) * 33 / 32;
  const std::int64_t whole = 2 * (2 * kVocabulary * kWidth + 5 * kWidth);
  const std::int64_t adapters = 2 * kRank * (kWidth + kQueries + 2 * kKeys);
  EXPECT_EQ(ClassOf(peak, MemoryClass::kWeights), cast + whole + 2 * adapters);
}

// What a layer keeps between its passes, the second of two: the first one's first norm leads to no adapter.
std::int64_t KeptByLayer(const std::string& targets) {
  const TrainingSetup setup = SetupWith(targets, 2);
  const LayerMemory layers(setup, kTokens);
  RankProgram program;
  Tape tape(&program);
  tape.trains_all = !setup.lora.exist();
  const Tape::Tensor input = tape.New("input", layers.HiddenBytes());
  const Tape::Tensor output = layers.Layer(tape, input, {});
  const std::int64_t bytes = PeakOf(program).end_bytes;
  tape.Drop(output);
  tape.Drop(input);
  return bytes - 2 * kTokens * kWidth;  // which the next layer keeps as its input
}

TEST(LoraMemoryTest, InputsOfFrozenProductsAreNotKept) {
  // Kept by both: the input and the sum behind attention, for their norms, with statistics; queries, keys, values, the
  // output of attention, with statistics; gate and up.
  const std::int64_t numbers = 2 * kWidth + kQueries + 2 * kKeys + kQueries + 2 * kMlp;
  const std::int64_t kept = kTokens * (2 * numbers + 4 * (2 + kHeads));
  // Training all weights: the outputs of both norms and of the activation.
  EXPECT_EQ(KeptByLayer(""), kept + 2 * kTokens * (2 * kWidth + kMlp));
  // The adapters' inputs, of which attention's output is kept anyway, and what A makes of them.
  EXPECT_EQ(KeptByLayer("linear_qkv,linear_proj"), kept + 2 * kTokens * (kWidth + 2 * kRank));
  EXPECT_EQ(KeptByLayer("linear_proj"), kept + 2 * kTokens * kRank);
  EXPECT_EQ(KeptByLayer("all-linear"), kept + 2 * kTokens * (2 * kWidth + kMlp + 4 * kRank));
  EXPECT_EQ(KeptByLayer("q_proj,v_proj"), kept + 2 * kTokens * (kWidth + 2 * kRank));
}

TEST(LoraMemoryTest, NothingIsKeptBelowTheFirstAdapter) {
  const auto activations = [](const std::string& targets, std::int64_t layers) {
    return PipelinePeaks(SetupWith(targets, layers))[0].end_bytes;
  };
  // Nothing but the state is left at the end, with recomputation too.
  for (const char* const recompute : {"none", "full"}) {
    ParallelPlan plan;
    plan.recompute = ToJson(recompute);
    RankProgram state;
    const TrainingSetup setup = SetupWith("linear_proj", 2, plan);
    AllocateState(setup, 0, &state);
    EXPECT_EQ(PipelinePeaks(setup)[0].end_bytes, PeakOf(state).end_bytes) << recompute;
  }
  EXPECT_GT(activations("linear_proj", 2), activations("linear_proj", 1));
  // A layer below the first adapter keeps nothing.
  RankProgram program;
  Tape tape(&program);
  tape.trains_all = false;
  const TrainingSetup setup = SetupWith("linear_fc2", 1);
  const LayerMemory layers(setup, kTokens);
  const Tape::Tensor embedded = layers.Embedding(tape);
  const Tape::Tensor normed = layers.Norm(tape, embedded);
  EXPECT_EQ(PeakOf(program).end_bytes, 4 * kTokens * kWidth);
  tape.Drop(normed);
  tape.Drop(embedded);
}

// ---- The step

// Each frozen weight has two multiplications for a token, in the forward pass and for the gradient of its input, each
// of an adapter three, and so have the products of attention. Below the first adapter there is no gradient.
TEST(LoraStepTest, FlopLeaveOutTheGradientsOfFrozenWeights) {
  constexpr std::int64_t kLayers = 3;
  const double layer = static_cast<double>(kWeightsOfLayer - 2 * kWidth);
  const double head = static_cast<double>(kVocabulary * kWidth);
  const double attention = 2.0 * kTokens * kQueries;
  const double qkv_in = kWidth;
  const double qkv_out = kQueries + 2 * kKeys;
  const double adapters = kRank * (qkv_in + qkv_out);
  double of_token = kLayers * (2 * layer + 3 * attention + 3 * adapters) + 2 * head;
  of_token -= qkv_in * qkv_out + kRank * qkv_in;  // of the first layer
  EXPECT_DOUBLE_EQ(ModelFlop(SetupWith("linear_qkv", kLayers)), 2 * kTokens * of_token);
  // At fc2 alone, the first layer has no gradient of attention, of its products and of fc1.
  const double fc2 = kRank * (kMlp + kWidth);
  double of_last = kLayers * (2 * layer + 3 * attention + 3 * fc2) + 2 * head;
  of_last -= layer + 2 * attention + kRank * kMlp;
  EXPECT_DOUBLE_EQ(ModelFlop(SetupWith("linear_fc2", kLayers)), 2 * kTokens * of_last);
}

TEST(LoraStepTest, TheBackwardPassTakesAboutAsLongAsTheForwardPass) {
  const PlanMachine machine = MakePlanMachine(LoadCluster("dgx-h100"), 1);
  const FrameworkHabits ideal = {.name = "ideal"};
  StepTimer timer(machine, ideal);
  ParallelPlan plan;
  plan.pp = 4;
  plan.grad_accumulation = 4;
  const std::vector<StageTime> frozen = timer.StageTimes(SetupWith("linear_qkv", 8, plan));
  const std::vector<StageTime> all = timer.StageTimes(SetupWith("", 8, plan));
  // The second of four stages: layers alone.
  EXPECT_NEAR(all[1].backward / all[1].forward, 2, 0.2);
  // As many products, and attention, whose backward pass has 2.5 times the FLOP of the forward pass.
  EXPECT_GT(frozen[1].backward, frozen[1].forward);
  EXPECT_LT(frozen[1].backward, 1.3 * frozen[1].forward);
  EXPECT_NEAR(frozen[1].backward, all[1].backward - all[1].weight_gradients, 0.1 * all[1].backward);
  EXPECT_LT(frozen[1].weight_gradients, 0.05 * frozen[1].backward);
  // The first stage has nothing to do below the first adapter, and less than the second in its backward pass.
  EXPECT_LT(frozen[0].backward, frozen[1].backward);
}

TEST(LoraStepTest, RanksExchangeGradientsOfAdaptersAlone) {
  PlanQuestion question = Question("llama-3-8b", "attention");
  const double adapters = static_cast<double>(TrainedParameters(question));
  ParallelPlan plan;
  plan.dp = 8;
  plan.zero = 1;
  plan.lora = question.lora.rank;
  plan.lora_targets = question.lora.TargetNames();
  StepTimer timer(question.machine, *question.framework);
  const auto bytes = [&](CollectiveKind kind) {
    double sum = 0;
    for (const RankTraffic& row : TrafficOf(question, plan, &timer)) sum += row.kind == kind ? row.bytes : 0;
    return sum;
  };
  EXPECT_EQ(bytes(CollectiveKind::kReduceScatter), 4 * adapters);
  EXPECT_EQ(bytes(CollectiveKind::kAllGather), 2 * adapters);
  // ZeRO 3 gathers frozen weights too: layers twice, what is outside of them once.
  plan.zero = 3;
  const double layers = 32.0 * kWeightsOfLayer;
  const double ends = 2.0 * kVocabulary * kWidth + kWidth;
  EXPECT_EQ(bytes(CollectiveKind::kReduceScatter), 4 * adapters);
  EXPECT_EQ(bytes(CollectiveKind::kAllGather), 2 * (2 * (layers + adapters) + ends));
}

TEST(LoraStepTest, TheSearchFindsPlansOfAdapters) {
  PlanQuestion question = Question("llama-3-8b", "q_proj,v_proj");
  question.only = {{"pp", "1"}, {"cp", "1"}};
  const PlanAnswer answer = SearchPlans(question);
  ASSERT_FALSE(answer.plans.empty());
  EXPECT_EQ(answer.plans[0].plan.lora, 16);
  EXPECT_EQ(answer.plans[0].plan.lora_targets, "q_proj,v_proj");
  PlanQuestion all = question;
  SetLora(std::nullopt, "", &all);
  const PlanAnswer trained = SearchPlans(all);
  // Two of three products in each layer, and no state: a third less time at least.
  EXPECT_LT(answer.plans[0].time.micros, 0.75 * trained.plans[0].time.micros);
  EXPECT_LT(answer.ideal_micros, 0.75 * trained.ideal_micros);
  EXPECT_LT(answer.bound_micros, answer.plans[0].time.micros);
}

}  // namespace
}  // namespace emplace::datasets
