#include "datasets/memory/nanotron_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "datasets/memory/training_memory.h"
#include "datasets/memory/transformer_setup.h"
#include "datasets/models/transformer.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

// The Llama of 1.3 billion parameters of the Ultra-Scale Playbook.
TransformerNetwork SmallLlama() {
  TransformerNetwork network = *FindTransformer("llama-3-8b");
  network.layers = 16;
  network.d_model = 2048;
  network.kv_heads = 32;
  network.head_width = 64;
  network.d_ff = 8192;
  network.vocabulary = 131072;
  network.tied = true;
  return network;
}

TrainingSetup NanotronSetup(const std::string& members, const TransformerNetwork& network = SmallLlama()) {
  std::istringstream in(R"({"schema": "emplace.plan", "version": 1, )" + members + "}");
  return MakeTrainingSetup(network, ReadPlan(in, "plan"), 4096, TrainingFramework::kNanotron);
}

double GibOf(std::int64_t bytes) { return static_cast<double>(bytes) / (std::int64_t{1} << 30); }

// Reported by nanotron on H100s.
TEST(NanotronMemoryTest, ReservedMemoryOfRunsComesOut) {
  const struct {
    std::string plan;
    double gib;
  } kRuns[] = {
      {R"("dp": 256, "zero": 1)", 21.7},
      {R"("dp": 128, "zero": 1, "micro_batch": 2)", 30.8},
      {R"("dp": 64, "grad_accumulation": 4)", 36.7},
      {R"("tp": 2, "dp": 128, "sequence_parallel": true, "grad_accumulation": 2)", 19.5},
      {R"("tp": 8, "pp": 8, "sequence_parallel": true, "micro_batch": 8, "grad_accumulation": 32)", 16.7},
  };
  for (const auto& [plan, gib] : kRuns) {
    const TrainingSetup setup = NanotronSetup(plan);
    EXPECT_NEAR(GibOf(PeakOf(MakeNanotronProgram(setup, 0)).reserved_bytes) / gib, 1, 0.03) << plan;
  }
}

TEST(NanotronMemoryTest, TheStateIsExactlyWhatStays) {
  const TrainingSetup setup = NanotronSetup(R"("dp": 4, "zero": 1)");
  // 18 bytes a parameter, of which ZeRO divides 12; two norms a layer and one at the end are parameters too.
  const double parameters = 16.0 * (4 * 2048 * 2048 + 3 * 2048 * 8192 + 2 * 2048) + 131072.0 * 2048 + 2048;
  const double others = 2 * 32 + 16;  // MiB
  EXPECT_NEAR(static_cast<double>(PeakOf(MakeNanotronProgram(setup, 0)).end_bytes),
              parameters * (6 + 12 / 4.0) + others * (1 << 20), 1e6);
}

TEST(NanotronMemoryTest, StagesTakeTheirShareOfTheCost) {
  const auto layers_of = [](std::int64_t pp) {
    std::vector<std::size_t> counts;
    for (const StageShape& stage : NanotronStages(NanotronSetup(R"("dp": 1)").network, pp))
      counts.push_back(stage.layers.size());
    return counts;
  };
  // The head costs as much as four layers.
  EXPECT_THAT(layers_of(2), ::testing::ElementsAre(10, 6));
  EXPECT_THAT(layers_of(4), ::testing::ElementsAre(5, 5, 5, 1));
  EXPECT_EQ(layers_of(32).size(), 20U);
  const std::vector<StageShape> stages = NanotronStages(NanotronSetup(R"("dp": 1)").network, 4);
  EXPECT_TRUE(stages.front().has_embedding);
  EXPECT_TRUE(stages.back().has_loss);
}

TEST(NanotronMemoryTest, RecomputationKeepsTheInputsOfLayers) {
  const std::string plan = R"("grad_accumulation": 2, "micro_batch": 4, "recompute": )";
  const RankPeak none = PeakOf(MakeRankProgram(NanotronSetup(plan + R"("none")"), 0));
  const RankPeak full = PeakOf(MakeRankProgram(NanotronSetup(plan + R"("full")"), 0));
  EXPECT_EQ(none.end_bytes, full.end_bytes);
  EXPECT_LT(full.allocated_bytes, none.allocated_bytes - (std::int64_t{16} << 30));
}

TEST(NanotronMemoryTest, WhatIsAllocatedHasToFit) {
  const TrainingSetup setup = NanotronSetup(R"("tp": 2, "dp": 2, "micro_batch": 2, "grad_accumulation": 2)");
  const RankPeak peak = PipelinePeaks(setup)[0];
  EXPECT_EQ(NeededBytes(setup, peak), peak.allocated_bytes);
  const auto change = FindFittingChange(setup, peak.allocated_bytes / 2);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->text.find("zero 3"), std::string::npos) << change->text;
}

TEST(NanotronMemoryTest, RefusesWhatNanotronRefuses) {
  const auto error_of = [](const std::string& members,
                           const TransformerNetwork& network = SmallLlama()) -> std::string {
    try {
      NanotronSetup(members, network);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(WhyRefused(NanotronSetup(R"("pp": 4, "grad_accumulation": 2)")),
            "grad_accumulation: is 2 (pp - 1 or more, which is 3, with nanotron)");
  EXPECT_EQ(WhyRefused(NanotronSetup(R"("pp": 4, "grad_accumulation": 3)")), "");
  EXPECT_EQ(WhyRefused(NanotronSetup(R"("pp": 16, "grad_accumulation": 16)")),
            "pp: is 16 (at most 15, as nanotron cuts the stages)");
  EXPECT_EQ(error_of(R"("zero": 3)"), "zero: is 3 (0 or 1 with nanotron)");
  EXPECT_EQ(error_of(R"("recompute": 2)"), "recompute: is 2 (none or full with nanotron)");
  EXPECT_EQ(error_of(R"("dp": 2)", *FindTransformer("mixtral-8x7b")),
            "--framework: is nanotron, of which Llamas are modelled; mixtral-8x7b is none");
}

}  // namespace
}  // namespace emplace::datasets
