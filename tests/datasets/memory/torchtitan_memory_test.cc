#include "datasets/memory/torchtitan_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>

#include "datasets/memory/training_memory.h"
#include "datasets/memory/transformer_setup.h"
#include "datasets/models/transformer.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

TrainingSetup TitanSetup(const std::string& network, const std::string& members, std::int64_t sequence = 8192) {
  std::istringstream in(R"({"schema": "emplace.plan", "version": 1, )" + members + "}");
  return MakeTrainingSetup(*FindTransformer(network), ReadPlan(in, "plan"), sequence, TrainingFramework::kTorchtitan);
}

RankPeak PeakOfRank(const TrainingSetup& setup, std::size_t rank = 0) { return PeakOf(MakeRankProgram(setup, rank)); }

// Rows of torchtitan's tables: H100s with torch.compile.
TEST(TorchtitanMemoryTest, ReservedMemoryOfTablesComesOut) {
  const auto gib_of = [](const RankPeak& peak) {
    return static_cast<double>(peak.reserved_bytes) / (std::int64_t{1} << 30);
  };
  const std::string selective = R"("zero": 3, "micro_batch": 2, "recompute": "selective", "dp": )";
  EXPECT_NEAR(gib_of(PeakOfRank(TitanSetup("llama-3.1-8b", selective + "8"))) / 77.0, 1, 0.05);
  EXPECT_NEAR(gib_of(PeakOfRank(TitanSetup("llama-3.1-8b", selective + "128"))) / 62.0, 1, 0.05);
  EXPECT_NEAR(
      gib_of(PeakOfRank(TitanSetup("llama-3.1-8b", R"("zero": 3, "recompute": "full", "dp": 8)", 32768))) / 83.9, 1,
      0.05);
}

TEST(TorchtitanMemoryTest, TheStateIsSixteenBytesAParameter) {
  for (const int shards : {1, 8}) {
    const TrainingSetup setup =
        TitanSetup("llama-3.1-8b", R"("zero": 3, "recompute": "full", "dp": )" + std::to_string(shards), 1024);
    const double parameters = static_cast<double>(Parameters(*FindTransformer("llama-3.1-8b")).total);
    EXPECT_NEAR(static_cast<double>(PeakOfRank(setup).end_bytes - (std::int64_t{64} << 20)), 16 * parameters / shards,
                1e-3 * parameters)
        << shards;
  }
}

TEST(TorchtitanMemoryTest, StagesKeepWholeWeightsAndGradients) {
  const std::string plan = R"("pp": 4, "dp": 8, "grad_accumulation": 8, "recompute": "full", "zero": 2)";
  const TrainingSetup setup = TitanSetup("llama-3.1-8b", plan, 1024);
  const RankPeak peak = PeakOfRank(setup, 1);
  const double of_stage = 8 * 218.1e6;
  EXPECT_NEAR(static_cast<double>(peak.classes[static_cast<std::size_t>(MemoryClass::kCommunication)]), 2 * of_stage,
              0.5e9)
      << "weights in bf16";
  EXPECT_GT(static_cast<double>(peak.classes[static_cast<std::size_t>(MemoryClass::kGradients)]), 4 * of_stage * 7 / 8)
      << "sums in f32";
}

TEST(TorchtitanMemoryTest, EachRankDoesItsPassesInTurn) {
  const TrainingSetup setup = TitanSetup("llama-3.1-8b", R"("zero": 3, "dp": 8, "recompute": "full")", 1024);
  RankProgram program;
  program.Mark("before");
  TorchtitanRank rank(setup, 0, &program);
  rank.Forward(0, 0);
  rank.Backward(0, 0, /*is_last=*/true);
  rank.RunOptimizer();
  EXPECT_EQ(PeakOf(program).end_bytes, PeakOfRank(setup).end_bytes);
}

TEST(TorchtitanMemoryTest, RefusesWhatItDoesNotHave) {
  EXPECT_TRUE(IsLlama(*FindTransformer("llama-3.1-8b")));
  EXPECT_FALSE(IsLlama(*FindTransformer("mixtral-8x7b")));
  EXPECT_THROW(TitanSetup("llama-3.1-8b", R"("zero": 1, "dp": 8)"), InputError);
  EXPECT_THROW(TitanSetup("llama-3.1-8b", R"("recompute": 3)"), InputError);
  EXPECT_THROW(TitanSetup("mixtral-8x7b", R"("dp": 8)"), InputError);
}

}  // namespace
}  // namespace emplace::datasets
