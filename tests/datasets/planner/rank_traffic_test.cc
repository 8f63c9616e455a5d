#include "datasets/planner/rank_traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "datasets/models/named_network.h"
#include "datasets/planner/plan_search.h"
#include "datasets/shipped_clusters.h"

namespace emplace::datasets {
namespace {

using Rows = std::map<std::pair<std::string, CollectiveKind>, std::pair<double, double>>;

// Layers of width 512 with weights of 512 x (4 x 512) + 3 x 512 x 1024 and two norms, and a vocabulary of 1,024 words.
constexpr double kHidden = 512;
constexpr double kLayers = 4;
constexpr double kLayerWeights = 512 * 4 * 512 + 3 * 512 * 1024 + 2 * 512;
constexpr double kEnds = 2 * 1024 * 512 + 512;
constexpr double kSequence = 256;

PlanQuestion OfSmallLlama(const char* framework = "pytorch") {
  PlanQuestion question;
  SetNetwork("llama-3-8b",
             {{"layers", "4"},
              {"d_model", "512"},
              {"heads", "8"},
              {"kv_heads", "8"},
              {"head_width", "64"},
              {"d_ff", "1024"},
              {"vocabulary", "1024"}},
             256, &question);
  question.machine = MakePlanMachine(LoadCluster("dgx-h100"), 1);
  question.framework = FindFrameworkHabits(framework);
  question.global_batch = 16;
  return question;
}

Rows RowsOf(const ParallelPlan& plan, const char* framework = "pytorch", std::size_t rank = 0) {
  const PlanQuestion question = OfSmallLlama(framework);
  StepTimer timer(question.machine, *question.framework);
  Rows rows;
  for (const RankTraffic& row : timer.Traffic(SetupOf(question, plan), rank)) {
    rows[{std::string(row.group), row.kind}] = {row.calls, row.bytes};
  }
  return rows;
}

using enum CollectiveKind;

TEST(RankTrafficTest, AddTrafficJoinsRowsOfOneGroupAndKind) {
  std::vector<RankTraffic> traffic;
  AddTraffic({.group = "data", .kind = kAllReduce, .calls = 1, .bytes = 3}, &traffic);
  AddTraffic({.group = "data", .kind = kAllReduce, .calls = 2, .bytes = 4}, &traffic);
  AddTraffic({.group = "tensor", .kind = kAllReduce, .calls = 1, .bytes = 5}, &traffic);
  AddTraffic({.group = "tensor", .kind = kAllGather, .calls = 0, .bytes = 0}, &traffic);
  ASSERT_EQ(traffic.size(), 2U);
  EXPECT_EQ(traffic[0].calls, 3);
  EXPECT_EQ(BytesOf(traffic), 12);
}

// Shoeybi et al. 2019, section 3: a layer adds up its output twice in the forward and twice in the backward pass.
TEST(RankTrafficTest, TensorParallelismAddsUpFourHiddenStatesInALayer) {
  ParallelPlan plan;
  plan.tp = 4;
  plan.micro_batch = 2;
  plan.grad_accumulation = 3;
  const double hidden = 2 * 2 * kSequence * kHidden;  // bytes of a micro-batch
  // The embedding adds up in the forward pass, and the head in the backward pass.
  const double calls = 3 * (4 * kLayers + 2);
  EXPECT_EQ(RowsOf(plan), (Rows{{{"tensor", kAllReduce}, {calls, calls * hidden}}}));
}

// Korthikanti et al. 2022, section 4.2.2: each sum becomes a scattering and a gathering, of as many bytes; the part
// that is kept of a product's input is gathered for its weights' gradient again.
TEST(RankTrafficTest, SequenceParallelismGathersAndScattersInstead) {
  ParallelPlan plan;
  plan.tp = 4;
  plan.sequence_parallel = true;
  const double hidden = 2 * kSequence * kHidden;
  const double calls = 4 * kLayers + 2;
  EXPECT_EQ(RowsOf(plan), (Rows{{{"tensor", kAllGather}, {calls, calls * hidden}},
                                {{"tensor", kReduceScatter}, {calls, calls * hidden}}}));
  const double again = calls + 2 * kLayers + 1;
  EXPECT_EQ(RowsOf(plan, "megatron"), (Rows{{{"tensor", kAllGather}, {again, again * hidden}},
                                            {{"tensor", kReduceScatter}, {calls, calls * hidden}}}));
}

// Rajbhandari et al. 2020 (ZeRO), section 7: without ZeRO 3 gradients and weights are exchanged once a step. With it,
// weights are gathered twice, and what is outside of layers once, in each micro-batch.
TEST(RankTrafficTest, DataParallelismExchangesGradientsAndWeights) {
  ParallelPlan plan;
  plan.dp = 4;
  plan.grad_accumulation = 2;
  const double weights = kLayers * kLayerWeights + kEnds;
  EXPECT_EQ(RowsOf(plan), (Rows{{{"data", kAllReduce}, {1, 4 * weights}}}));
  plan.zero = 1;
  EXPECT_EQ(RowsOf(plan),
            (Rows{{{"data", kReduceScatter}, {1, 4 * weights}}, {{"data", kAllGather}, {1, 2 * weights}}}));
  plan.zero = 3;
  EXPECT_EQ(RowsOf(plan),
            (Rows{{{"data", kAllGather}, {2 * (2 * kLayers + 1), 2 * 2 * (2 * kLayers * kLayerWeights + kEnds)}},
                  {{"data", kReduceScatter}, {2 * (kLayers + 1), 2 * 4 * weights}}}));
}

TEST(RankTrafficTest, APipelineSendsAHiddenStateEachWay) {
  ParallelPlan plan;
  plan.pp = 4;
  plan.grad_accumulation = 8;
  const double hidden = 2 * kSequence * kHidden;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const double ways = rank == 0 || rank == 3 ? 1 : 2;
    EXPECT_EQ(RowsOf(plan, "pytorch", rank), (Rows{{{"pipeline", kSendReceive}, {8 * ways, 8 * ways * hidden}}}));
  }
}

TEST(RankTrafficTest, ExpertsSendEachChosenTokenThereAndBack) {
  PlanQuestion question = OfSmallLlama();
  SetNetwork("mixtral-8x7b",
             {{"layers", "1"}, {"d_model", "512"}, {"heads", "8"}, {"kv_heads", "8"}, {"head_width", "64"}}, 256,
             &question);
  ParallelPlan plan;
  plan.dp = 4;
  plan.ep = 4;
  StepTimer timer(question.machine, *question.framework);
  const double tokens = 2 * 2 * kSequence * kHidden;  // bytes of both experts' tokens
  for (const RankTraffic& row : timer.Traffic(SetupOf(question, plan), 0)) {
    if (row.group != "expert") continue;
    EXPECT_EQ(row.kind, kAllToAll);
    EXPECT_EQ(row.calls, 4);
    EXPECT_EQ(row.bytes, 4 * tokens);
  }
}

// Each rank of a split has its part of the products: together they are those of one rank.
TEST(RankTrafficTest, FlopOfAllRanksAreThoseOfOne) {
  const PlanQuestion question = OfSmallLlama();
  const auto flop = [&](std::int64_t dp, std::int64_t tp, std::int64_t pp, std::int64_t micro_batches) {
    ParallelPlan plan;
    plan.dp = dp;
    plan.tp = tp;
    plan.pp = pp;
    plan.grad_accumulation = micro_batches;
    return ModelFlop(SetupOf(question, plan));
  };
  for (const auto& [dp, tp, pp, micro_batches] :
       std::vector<std::array<std::int64_t, 4>>{{4, 1, 1, 2}, {1, 2, 2, 8}, {2, 2, 1, 4}}) {
    EXPECT_DOUBLE_EQ(flop(dp, tp, pp, micro_batches), flop(1, 1, 1, 8));
  }
}

TEST(RankTrafficTest, TrafficOfIsThatOfTheRankWithMost) {
  const PlanQuestion question = OfSmallLlama();
  ParallelPlan plan;
  plan.pp = 4;
  plan.grad_accumulation = 8;
  StepTimer timer(question.machine, *question.framework);
  const std::vector<RankTraffic> traffic = TrafficOf(question, plan, &timer);
  ASSERT_EQ(traffic.size(), 1U);
  EXPECT_EQ(traffic[0].calls, 16);
}

}  // namespace
}  // namespace emplace::datasets
