#include "datasets/memory/training_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>

#include "datasets/memory/layer_memory.h"
#include "datasets/memory/megatron_arguments.h"
#include "datasets/memory/rank_state.h"
#include "datasets/memory/transformer_setup.h"
#include "datasets/models/transformer.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kMiBOfStep = std::int64_t{1} << 20;

MegatronRun Read(const std::string& members, std::int64_t world_size = 8) {
  std::istringstream in("{" + members + "}");
  return ReadMegatronArguments(ParseJson(in), world_size);
}

// The network of Megatron-LM's functional tests.
const std::string kSmall =
    R"("model": "gpt", "num-layers": 12, "hidden-size": 512, "num-attention-heads": 8, "seq-length": 1024,
       "max-position-embeddings": 1024, "micro-batch-size": 4, "global-batch-size": 32, "bf16": true,
       "transformer-impl": "transformer_engine", "deterministic-mode": true, "no-gradient-accumulation-fusion": true,
       "attention-softmax-in-fp32": true)";

std::int64_t Elements(const TrainingSetup& setup, std::size_t rank) {
  std::int64_t sum = 0;
  for (const RankParameter& parameter : ParametersOf(setup, rank)) sum += parameter.elements;
  return sum;
}

std::string ErrorOf(const std::string& members) {
  try {
    Read(members);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(MegatronArgumentsTest, DefaultsAreThoseOfMegatron) {
  const MegatronRun run = Read(kSmall + R"(, "tensor-model-parallel-size": 2, "pipeline-model-parallel-size": 2)");
  EXPECT_EQ(run.setup.network.d_ff, 2048);
  EXPECT_EQ(run.setup.network.head_dim, 64);
  EXPECT_EQ(run.setup.network.vocabulary, 50432);  // 50,257 padded to a multiple of 256
  EXPECT_EQ(run.setup.dp, 2);
  EXPECT_EQ(run.setup.micro_batches, 4);
  EXPECT_TRUE(run.setup.hidden_dropout);
  EXPECT_EQ(run.setup.gradient_bytes, 4);
  EXPECT_TRUE(run.unmodelled.empty());
  EXPECT_EQ(run.setup.stages.size(), 2U);
  EXPECT_EQ(run.setup.stages[1].layers.size(), 6U);
}

TEST(MegatronArgumentsTest, ParametersAreExact) {
  // 12 layers of qkv, projection, two products of the MLP, their biases and two norms; embeddings; the last norm.
  constexpr std::int64_t kLayer = 512 * 1536 + 1536 + 512 * 512 + 512 + 512 * 2048 + 2048 + 2048 * 512 + 512 + 4 * 512;
  constexpr std::int64_t kWidth = 512;
  const MegatronRun whole = Read(kSmall);
  EXPECT_EQ(Elements(whole.setup, 0), 12 * kLayer + (50304 + 1024) * kWidth + 2 * kWidth);
  // The last stage has a copy of the tied embedding.
  const MegatronRun stages = Read(kSmall + R"(, "pipeline-model-parallel-size": 4)");
  EXPECT_EQ(Elements(stages.setup, 3), 3 * kLayer + 50304 * kWidth + 2 * kWidth);
  EXPECT_EQ(Elements(stages.setup, 1), 3 * kLayer);
  EXPECT_EQ(StagesOf(stages.setup, 3), (std::vector<std::size_t>{3}));
}

TEST(MegatronArgumentsTest, LayoutsAndFrequenciesOfLayersAreRead) {
  const MegatronRun run = Read(R"json("model": "moe", "num-layers": 16, "hidden-size": 64, "num-attention-heads": 4,
    "seq-length": 64, "num-experts": 8, "moe-layer-freq": "([0]*3+[1]*13)", "mtp-num-layers": 1,
    "pipeline-model-parallel-size": 2, "pipeline-model-parallel-layout": "Et*3|(tt|)*6tmL", "bf16": true)json");
  EXPECT_EQ(run.setup.vpp, 4);
  ASSERT_EQ(run.setup.stages.size(), 8U);
  EXPECT_EQ(run.setup.stages[0].layers, (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(run.setup.stages[7].layers, (std::vector<std::size_t>{15}));
  EXPECT_TRUE(run.setup.stages[7].has_prediction);
  EXPECT_EQ(run.setup.network.layers[2].feed_forward, FeedForwardKind::kDense);
  EXPECT_EQ(run.setup.network.layers[3].feed_forward, FeedForwardKind::kExperts);
  const MegatronRun hybrid = Read(R"("model": "hybrid", "hidden-size": 64, "num-attention-heads": 4, "seq-length": 64,
    "hybrid-layer-pattern": "M-M*E/*E", "num-experts": 4, "bf16": true)");
  ASSERT_EQ(hybrid.setup.network.layers.size(), 5U);
  EXPECT_EQ(hybrid.setup.network.layers[0].mixer, Mixer::kMamba);
  EXPECT_EQ(hybrid.setup.network.layers[3].mixer, Mixer::kAttention);
}

TEST(MegatronArgumentsTest, WhatIsNotModelledIsSaidByName) {
  const MegatronRun run = Read(kSmall + R"(, "cuda-graph-impl": "local", "a-new-flag": true, "an-old-flag": false)");
  EXPECT_THAT(run.unmodelled, ::testing::ElementsAre(::testing::HasSubstr("a-new-flag: is not known"),
                                                     ::testing::HasSubstr("cuda-graph-impl: ")));
  const MegatronRun wide = Read(kSmall + R"(, "tensor-model-parallel-size": 8, "pipeline-model-parallel-size": 2)");
  EXPECT_THAT(wide.unmodelled, ::testing::ElementsAre(::testing::HasSubstr("world size: 8 is no multiple of 16")));
  EXPECT_EQ(wide.setup.ranks(), 16);
  // Without a number of ranks.
  EXPECT_EQ(Read(kSmall, 0).world_size, 8);
  EXPECT_EQ(Read(kSmall + R"(, "train-samples": 100)", 0).world_size, 64);
}

TEST(MegatronArgumentsTest, RefusesWhatIsNotAllowed) {
  EXPECT_THAT(ErrorOf(kSmall + R"(, "tensor-model-parallel-size": 3)"),
              ::testing::HasSubstr("tensor-model-parallel-size: is 3 (a divisor of num-attention-heads, which is 8)"));
  TrainingSetup setup = Read(kSmall).setup;
  CheckSetup(setup);
  setup.network.sequence = std::int64_t{1} << 30;
  EXPECT_THROW(CheckSetup(setup), InputError);
  EXPECT_EQ(ErrorOf(R"("model": "gpt")"), "hidden-size: is missing (an integer from 1)");
  EXPECT_THAT(ErrorOf(kSmall + R"(, "tensor-model-parallel-size": 0)"),
              ::testing::HasSubstr("tensor-model-parallel-size: is the number 0 (an integer from 1 to 65536)"));
  EXPECT_THAT(ErrorOf(kSmall + R"(, "pipeline-model-parallel-size": 8)"),
              ::testing::HasSubstr("num-layers: is 12 (a multiple of the 8 stages)"));
  EXPECT_THAT(ErrorOf(kSmall + R"(, "optimizer": "lion")"), ::testing::HasSubstr("optimizer: is \"lion\" (adam, "));
}

// Measured peaks of Megatron-LM's functional tests on H100, in MiB (docs/results/truth_memory.md).
TEST(TrainingMemoryTest, PeaksOfMegatronsTestsComeOut) {
  struct Case {
    std::string members;
    double measured_mib;
  };
  const Case cases[] = {
      {R"("tensor-model-parallel-size": 2, "pipeline-model-parallel-size": 2)", 1362.0},
      {R"("use-distributed-optimizer": true)", 2567.1},
      {R"("use-distributed-optimizer": true, "attention-backend": "unfused")", 4484.6},
      {R"("pipeline-model-parallel-size": 4, "num-layers-per-virtual-pipeline-stage": 1)", 2520.8},
      {R"("recompute-granularity": "full", "recompute-method": "uniform", "recompute-num-layers": 1)", 2442.7},
      {R"("tensor-model-parallel-size": 4, "use-distributed-optimizer": true)", 994.2},
  };
  for (const Case& wanted : cases) {
    const MegatronRun run = Read(kSmall + ", " + wanted.members);
    const std::vector<RankPeak> peaks = PipelinePeaks(run.setup);
    ASSERT_EQ(peaks.size(), static_cast<std::size_t>(run.setup.pp));
    const double mib = static_cast<double>(peaks.back().allocated_bytes) / static_cast<double>(kMiBOfStep);
    EXPECT_NEAR(mib / wanted.measured_mib, 1, 0.01) << wanted.members;
  }
}

TEST(TrainingMemoryTest, NothingButTheStateIsLeftAtTheEnd) {
  for (const std::string members : {R"("pipeline-model-parallel-size": 2)", R"("swiglu": true, "num-experts": 4)",
                                    R"("recompute-granularity": "full", "position-embedding-type": "rope")",
                                    R"("multi-latent-attention": true, "q-lora-rank": 64, "kv-lora-rank": 64)"}) {
    const TrainingSetup setup = Read(kSmall + ", " + members).setup;
    RankProgram state;
    AllocateState(setup, 0, &state);
    RunOptimizer(setup, 0, &state);
    const RankPeak peak = PeakOf(MakeRankProgram(setup, 0));
    EXPECT_EQ(peak.end_bytes, PeakOf(state).end_bytes) << members;
    EXPECT_GE(peak.reserved_bytes, peak.allocated_bytes);
  }
}

TEST(TrainingMemoryTest, StagesOfADecoderHoldWhatTheEncoderReturned) {
  const TransformerNetwork network = *FindTransformer("t5-small");  // six layers each
  for (const std::string_view recompute : {"none", "full"}) {
    ParallelPlan plan;
    plan.pp = 6;
    plan.grad_accumulation = 8;
    plan.recompute = ToJson(recompute);
    const TrainingSetup setup = MakeTrainingSetup(network, plan, 512, TrainingFramework::kMegatron);
    const std::vector<RankPeak> peaks = PipelinePeaks(setup);
    for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
      RankProgram state;
      AllocateState(setup, rank, &state);
      RunOptimizer(setup, rank, &state);
      EXPECT_EQ(peaks[rank].end_bytes, PeakOf(state).end_bytes) << rank << recompute;
    }
    // With all recomputed, rank 4 keeps the inputs of its two layers and what the encoder returned, of two
    // micro-batches.
    const std::int64_t hidden = std::int64_t{2} * 512 * 512;
    EXPECT_GE(peaks[4].classes[static_cast<std::size_t>(MemoryClass::kActivations)], 6 * hidden) << recompute;
  }
}

TEST(TrainingMemoryTest, F16MakesItsF32GradientsInTheStepOfTheOptimizer) {
  std::string half = kSmall;
  half.replace(half.find("bf16"), 4, "fp16");
  const TrainingSetup setup = Read(half).setup;
  RankProgram state;
  AllocateState(setup, 0, &state);
  const std::int64_t before = PeakOf(state).end_bytes;
  RunOptimizer(setup, 0, &state);
  EXPECT_NEAR(static_cast<double>(PeakOf(state).end_bytes - before), 4.0 * static_cast<double>(Elements(setup, 0)),
              static_cast<double>(4 * kMiBOfStep));
}

TEST(TrainingMemoryTest, TheHostMayHoldTheStateOfTheOptimizer) {
  const auto optimizer = [](const std::string& members) {
    const RankPeak peak = PipelinePeaks(Read(kSmall + members).setup)[0];
    return peak.classes[static_cast<std::size_t>(MemoryClass::kOptimizer)];
  };
  const std::int64_t whole = optimizer("");
  EXPECT_EQ(optimizer(R"(, "optimizer-cpu-offload": true)"), 0);
  EXPECT_NEAR(static_cast<double>(optimizer(R"(, "optimizer-cpu-offload": true, "optimizer-offload-fraction": 0.5)")),
              0.5 * static_cast<double>(whole), 0.05 * static_cast<double>(whole));
}

std::int64_t BytesOf(const RankPeak& peak, MemoryClass memory_class) {
  return peak.classes[static_cast<std::size_t>(memory_class)];
}

TEST(TrainingMemoryTest, MuonDealsWholeParametersOut) {
  TrainingSetup setup =
      Read(kSmall +
           R"(, "optimizer": "muon", "use-distributed-optimizer": true, "no-use-layer-wise-param-layout": true)")
          .setup;
  ASSERT_TRUE(setup.deals_parameters);
  const auto optimizer = [&](std::int64_t rank) {
    setup.rank_of_stage = rank;
    return BytesOf(PeakOf(MakeRankProgram(setup, 0)), MemoryClass::kOptimizer);
  };
  std::int64_t all = 0;
  std::int64_t most = 0;
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    all += optimizer(rank);
    most = std::max(most, optimizer(rank));
  }
  EXPECT_EQ(optimizer(-1), most);
  EXPECT_GE(most, 12 * std::int64_t{50304} * 512);  // the embedding's, which goes to one rank
  setup.deals_parameters = setup.distributed_optimizer = false;
  EXPECT_NEAR(static_cast<double>(all) / static_cast<double>(optimizer(-1)), 1, 0.01);  // blocks are rounded up
}

TEST(TrainingMemoryTest, ATeacherHasWeightsAndNothingElse) {
  const auto state = [](const std::string& members) {
    RankProgram program;
    AllocateState(Read(kSmall + members).setup, 0, &program);
    return PeakOf(program);
  };
  const RankPeak alone = state("");
  const RankPeak taught = state(R"(, "export-kd-teacher-load": "teacher")");
  const auto more = static_cast<double>(BytesOf(taught, MemoryClass::kWeights) - BytesOf(alone, MemoryClass::kWeights));
  EXPECT_NEAR(more / static_cast<double>(BytesOf(alone, MemoryClass::kWeights)), 1, 0.02);  // blocks are rounded up
  EXPECT_EQ(static_cast<double>(taught.end_bytes - alone.end_bytes), more);
}

TEST(TrainingMemoryTest, GraphsOfAttentionCountWhileTheyAreCapturedAlone) {
  const std::string modules = R"(, "attention-backend": "unfused", "cuda-graph-impl": "transformer_engine",
                                  "cuda-graph-modules": "attn", "cuda-graph-warmup-steps": )";
  const RankPeak eager = PipelinePeaks(Read(kSmall + modules + "3").setup)[0];
  const RankPeak graphed = PipelinePeaks(Read(kSmall + modules + "0").setup)[0];
  EXPECT_LT(graphed.allocated_bytes, eager.allocated_bytes - 500 * kMiBOfStep);
  EXPECT_GE(graphed.reserved_bytes, eager.reserved_bytes / 100 * 99);
  EXPECT_EQ(graphed.end_bytes, eager.end_bytes);
}

TEST(TrainingMemoryTest, ImagesComeInFrontOfTheText) {
  const TrainingSetup setup = Read(R"("model": "multimodal-llava", "num-layers": 12, "hidden-size": 624,
    "num-attention-heads": 12, "seq-length": 1024, "max-position-embeddings": 1024, "micro-batch-size": 4,
    "global-batch-size": 32, "img-h": 336, "img-w": 336, "patch-dim": 14, "tokenizer-type": "NullTokenizer",
    "vocab-size": 8191, "bf16": true, "hidden-dropout": 0.0, "attention-dropout": 0.0)")
                                  .setup;
  EXPECT_EQ(setup.network.encoder_sequence, 577);  // 24 times 24 patches and a class token
  EXPECT_EQ(setup.network.sequence, 1601);
  constexpr std::int64_t kWidth = 624;
  constexpr std::int64_t kLayer = 12 * kWidth * kWidth + 13 * kWidth;
  constexpr std::int64_t kImages = (3 * 14 * 14 + 1 + 577 + 2) * kWidth + 8 * kWidth * kWidth + 5 * kWidth;
  EXPECT_EQ(Elements(setup, 0), 24 * kLayer + kImages + (8192 + 1601) * kWidth + 2 * kWidth);
  // Heads of 52 numbers have no fused attention, and 1,601 positions no kernel of the softmax: it is kept in f32 and,
  // for the product with the values, in bf16.
  const std::int64_t scores = std::int64_t{4} * 12 * (std::int64_t{1601} * 1601 + std::int64_t{577} * 577);
  EXPECT_GE(BytesOf(PipelinePeaks(setup)[0], MemoryClass::kActivations), 72 * scores);
}

TEST(TrainingMemoryTest, ANetworkThatIsNotTrainedHasNoGradients) {
  const TrainingSetup setup = Read(R"("model": "mimo", "model-provider": "llava_vlm", "hidden-size": 4096,
    "num-attention-heads": 32, "num-layers": 32, "seq-length": 4096, "total-seq-length": 2048, "bf16": true,
    "micro-batch-size": 1, "global-batch-size": 8)")
                                  .setup;
  RankProgram state;
  AllocateState(setup, 0, &state);
  const RankPeak peak = PeakOf(state);
  constexpr std::int64_t kProjection = 1024 * 4096 + 4096 * 4096 + 2 * 4096;
  EXPECT_EQ(BytesOf(peak, MemoryClass::kGradients), 4 * kProjection);
  EXPECT_EQ(BytesOf(peak, MemoryClass::kOptimizer), 12 * kProjection);
  EXPECT_GE(BytesOf(peak, MemoryClass::kWeights), 2 * std::int64_t{7'000'000'000});
}

TEST(TrainingMemoryTest, TheFirstRankOfAPipelineHoldsMoreMicroBatches) {
  const std::vector<RankPeak> peaks = PipelinePeaks(Read(kSmall + R"(, "pipeline-model-parallel-size": 4)").setup);
  const auto activations = [&](std::size_t rank) {
    return peaks[rank].classes[static_cast<std::size_t>(MemoryClass::kActivations)];
  };
  EXPECT_GT(activations(0), activations(1));
  EXPECT_GT(activations(1), activations(2));
  EXPECT_EQ(peaks[1].classes[static_cast<std::size_t>(MemoryClass::kLogits)], 0);
}

TEST(TrainingMemoryTest, KindsOfGpusHaveAComputeCapability) {
  EXPECT_EQ(ComputeCapability("v100-pcie"), 70);
  EXPECT_EQ(ComputeCapability("a100-pcie"), 80);
  EXPECT_EQ(ComputeCapability("h200"), 90);
  EXPECT_EQ(ComputeCapability("gb300"), 100);
}

TEST(LayerMemoryTest, ALayerOfAttentionKeepsWhatAutogradKeeps) {
  TrainingSetup setup = Read(kSmall).setup;
  setup.compute_capability = 90;
  const LayerMemory layers(setup, 1024);
  EXPECT_EQ(layers.HiddenBytes(), 4 * kMiBOfStep);
  EXPECT_EQ(layers.AttentionMaskBytes(), 4 * kMiBOfStep);
  EXPECT_EQ(layers.LogitBytes(), std::int64_t{2} * 4096 * 50304);
  RankProgram program;
  Tape tape(&program);
  const Tape::Tensor input = tape.New("input", layers.HiddenBytes());
  const Tape::Tensor output = layers.Layer(tape, input, {});
  // Input, two norms, queries with keys and values, attention, the sum behind it, fc1, its activation, the output, and
  // two masks of dropout; statistics of attention and norms.
  const std::int64_t kept = (4 + 4 + 4 + 12 + 4 + 4 + 16 + 16 + 4 + 2 + 2) * kMiBOfStep;
  const std::int64_t statistics = 4 * 8 * 4096 + 2 * 2 * 4 * 4096;
  EXPECT_EQ(PeakOf(program).end_bytes, kept + statistics);
  tape.Drop(output);
  tape.Drop(input);
}

ParallelPlan Plan(const std::string& members) {
  std::istringstream in(R"({"schema": "emplace.plan", "version": 1, )" + members + "}");
  return ReadPlan(in, "plan");
}

TEST(TransformerSetupTest, ParametersAreThoseOfTheNetwork) {
  for (const std::string name : {"llama-3-8b", "mixtral-8x7b", "deepseek-v3"}) {
    const TransformerNetwork* const network = FindTransformer(name);
    ASSERT_NE(network, nullptr) << name;
    const TrainingSetup setup = MakeTrainingSetup(*network, Plan(R"("dp": 8)"), 4096);
    // The vocabulary is padded, and biases of a router are not counted.
    EXPECT_NEAR(static_cast<double>(Elements(setup, 0)) / static_cast<double>(Parameters(*network).total), 1, 2e-3)
        << name;
  }
}

TEST(TransformerSetupTest, ShardsMakeRanksSmaller) {
  const TransformerNetwork& network = *FindTransformer("llama-3-8b");
  std::int64_t last = std::int64_t{1} << 60;
  for (const int zero : {0, 1, 2, 3}) {
    const TrainingSetup setup = MakeTrainingSetup(network, Plan(R"("dp": 8, "zero": )" + std::to_string(zero)), 2048);
    const std::int64_t peak = PipelinePeaks(setup)[0].allocated_bytes;
    EXPECT_LT(peak, last) << zero;
    last = peak;
  }
}

TEST(TransformerSetupTest, ADegreeHasToDivideWhatItDivides) {
  CheckDegreeDivides("tp", 4, "heads", 32);
  EXPECT_THROW(CheckDegreeDivides("tp", 3, "heads", 32), InputError);
}

TEST(TransformerSetupTest, SchedulesHoldTheirMicroBatches) {
  const auto setup_of = [](const std::string& schedule, std::int64_t vpp) {
    ParallelPlan plan;
    plan.pp = 4;
    plan.vpp = vpp;
    plan.grad_accumulation = 16;
    plan.schedule = schedule;
    return MakeTrainingSetup(*FindTransformer("llama-3.2-1b"), plan, 4096);
  };
  const auto held = [](const RankPeak& peak) {
    return static_cast<double>(peak.classes[static_cast<std::size_t>(MemoryClass::kActivations)]);
  };
  const std::vector<RankPeak> turns = PipelinePeaks(setup_of("1f1b", 1));
  const double of_one = held(turns[1]) / 3;  // micro-batch, in four layers
  const std::vector<RankPeak> gpipe = PipelinePeaks(setup_of("gpipe", 1));
  EXPECT_NEAR(held(gpipe[1]) / of_one, 16, 0.5);
  const std::vector<RankPeak> h1 = PipelinePeaks(setup_of("zb-h1", 1));
  EXPECT_NEAR(held(h1[1]) / of_one, 4, 0.5);
  EXPECT_NEAR(held(h1[2]) / of_one, 4, 0.5);
  const TrainingSetup v = setup_of("zb-v", 2);
  EXPECT_EQ(StagesOf(v, 1), (std::vector<std::size_t>{1, 6}));
  EXPECT_EQ(PipelineRankOf(v, 6), 1U);
  for (const std::size_t rank : {1U, 2U}) EXPECT_LE(held(PipelinePeaks(v)[rank]) / of_one, 4.5);
  // Each rank of DualPipe has two whole stages.
  const TrainingSetup dual = setup_of("dualpipe", 1);
  EXPECT_EQ(StagesOf(dual, 2), (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(PipelineRankOf(dual, 2), 2U);
  const std::vector<RankPeak> both = PipelinePeaks(dual);
  const auto weights = static_cast<std::size_t>(MemoryClass::kWeights);
  EXPECT_EQ(both[1].classes[weights], 2 * turns[1].classes[weights]);
  EXPECT_NEAR(held(both[1]) / of_one, 5, 0.5);

  const auto told = [&](const std::string& schedule, std::int64_t vpp) {
    try {
      setup_of(schedule, vpp);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(told("zb-h2", 1), ::testing::HasSubstr("schedule: is zb-h2 (1f1b, interleaved"));
  EXPECT_THAT(told("zb-v", 1), ::testing::HasSubstr("vpp: is 1 (2 with zb-v)"));
  EXPECT_THAT(told("dualpipe", 2), ::testing::HasSubstr("vpp: is 2 (1 with dualpipe)"));
}

TEST(TransformerSetupTest, StagesMayNameModules) {
  TransformerNetwork network = *FindTransformer("llama-3-8b");
  network.layers = 2;
  const TrainingSetup setup = MakeTrainingSetup(
      network, Plan(R"("pp": 2, "stages": [["model.embed_tokens", "model.layers.0"], ["layers.1", "lm_head"]])"), 2048);
  EXPECT_EQ(setup.stages[0].layers, (std::vector<std::size_t>{0}));
  EXPECT_EQ(setup.stages[1].layers, (std::vector<std::size_t>{1}));
}

TEST(TransformerSetupTest, TheSmallestChangeThatFitsIsFound) {
  const TransformerNetwork& network = *FindTransformer("llama-3-8b");
  const TrainingSetup setup = MakeTrainingSetup(network, Plan(R"("dp": 8, "micro_batch": 2)"), 4096);
  const std::int64_t bytes = PipelinePeaks(setup)[0].reserved_bytes;
  const auto sharded = FindFittingChange(setup, bytes / 10 * 9);
  ASSERT_TRUE(sharded);
  EXPECT_EQ(sharded->text, "a distributed optimizer (zero 1)");
  EXPECT_LT(sharded->needed_bytes, bytes);
  const auto all = FindFittingChange(setup, bytes / 5);
  ASSERT_TRUE(all);
  EXPECT_NE(all->text.find("zero 3"), std::string::npos) << all->text;
  EXPECT_FALSE(FindFittingChange(setup, bytes / 1000));
}

TEST(TransformerSetupTest, RefusesDegreesThatDoNotDivide) {
  const TransformerNetwork& network = *FindTransformer("llama-3-8b");
  const auto error_of = [&](const std::string& members) -> std::string {
    try {
      MakeTrainingSetup(network, Plan(members), 2048);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of(R"("tp": 3)"), "tp: is 3 (a divisor of heads, which is 32)");
  EXPECT_EQ(error_of(R"("ep": 2, "dp": 2)"), "ep: is 2, but the network has no experts (1)");
  EXPECT_EQ(error_of(R"("pp": 64)"),
            "pp: times vpp is 64 (at most the 32 layers of the network, the embedding and the loss)");
  EXPECT_EQ(error_of(R"("pp": 2, "stages": [[0, 40], [1]])"), "stages[0][1]: is 40 (the number of a layer, 0 to 31)");
}

}  // namespace
}  // namespace emplace::datasets
