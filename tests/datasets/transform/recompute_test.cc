#include <gmock/gmock.h>

#include <algorithm>
#include <memory>

#include "datasets/shipped_clusters.h"
#include "sim/cost_model.h"
#include "sim/simulator.h"
#include "tests/testing/rank_graphs.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

bool RunsAgain(const Op& op) { return op.name.starts_with("recompute/"); }

TEST(RecomputeTest, FullRunsEachBlockAgain) {
  const Graph before = TinyGpt();
  const Graph graph = datasets::Transform(before, {.recompute = "full"});
  CheckRanks(graph, 1);
  const auto of_block = [](const Op& op) { return op.pass == Pass::kForward && op.layer.starts_with("block"); };
  EXPECT_EQ(SumFlop(graph, RunsAgain), SumFlop(before, of_block));
  // 8 tokens, 2 blocks, 12 d d + 2 * 4 d multiply-adds.
  EXPECT_EQ(SumFlop(graph, Both(RunsAgain, IsProduct)), 2.0 * 8 * 2 * (12 * 64 + 2 * 4 * 8));
  EXPECT_EQ(SumFlop(graph, [](const Op& op) { return !RunsAgain(op); }),
            SumFlop(before, [](const Op&) { return true; }));
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    if (RunsAgain(op)) {
      EXPECT_EQ(op.pass, Pass::kBackward) << op.name;
    }
  }
}

TEST(RecomputeTest, WhatIsKeptIsTheInputOfEachBlock) {
  // In 16 bits, of a layer: 34 s b h + 5 a s s b bytes and the statistics of two norms; without scores, softmax and
  // dropout 34 s b h (Korthikanti et al. 2022, 4.1 and 5); the input alone 2 s b h. The layer's last result is the
  // next one's input.
  const Graph graph = TinyGpt({{"precision", "bf16"}});
  constexpr std::int64_t kSbh = std::int64_t{4} * 2 * 8;
  constexpr std::int64_t kStatistics = std::int64_t{4} * 4 * 2 * 4;
  EXPECT_EQ(KeptBytes(datasets::Transform(graph, {.recompute = "selective"}), "block1"), 34 * kSbh + kStatistics);
  EXPECT_EQ(KeptBytes(datasets::Transform(graph, {.recompute = "full"}), "block1"), 2 * kSbh);
}

TEST(RecomputeTest, SelectiveRunsTheProductsOfAttentionAgain) {
  const Graph graph = datasets::Transform(TinyGpt(), {.recompute = "selective"});
  CheckRanks(graph, 1);
  EXPECT_EQ(CountOps(graph, RunsAgain), 2U * 6);
  // Scores and context: 2 * 4 d for each of 8 tokens in 2 blocks.
  EXPECT_EQ(SumFlop(graph, Both(RunsAgain, IsProduct)), 2.0 * 8 * 2 * 2 * 4 * 8);
  const OpId scores = graph.FindOp("recompute/block0/attention/scores").value();
  EXPECT_EQ(graph.op(graph.tensor(graph.inputs(scores)[0]).producer).name, "block0/attention/queries/transpose");
}

TEST(RecomputeTest, BeginsWhenTheBackwardPassComesToTheBlock) {
  const Graph graph = datasets::Transform(TinyGpt(), {.recompute = "full"});
  // The first op of block 0 that runs again reads its input, which is kept, and waits for the gradients of block 1.
  const OpId first = graph.FindOp("recompute/block0/norm1/layer_norm").value();
  EXPECT_EQ(graph.op(graph.tensor(graph.inputs(first)[0]).producer).name, "embedding/dropout");
  std::vector<std::string> waits_for;
  for (const OpId control : graph.control_inputs(first)) waits_for.emplace_back(graph.op(control).name);
  std::sort(waits_for.begin(), waits_for.end());
  EXPECT_EQ(waits_for, (std::vector<std::string>{"gradients/block1/norm1/layer_norm/layer_norm_grad",
                                                 "gradients/block1/residual1/add/add_n"}));
}

TEST(RecomputeTest, ProductsAreThoseOfNarayanan) {
  // Narayanan et al. 2021, "Efficient large-scale language model training", equation 2: with full recomputation
  // 96 B s l h h (1 + s / (6 h) + V / (16 l h)) FLOP of products. Without, a quarter less but of the words.
  const Graph whole = TinyGpt();
  const Graph graph = datasets::Transform(whole, {.recompute = "full"});
  const double b = 2, s = 4, l = 2, h = 8, v = 12;
  const double blocks = 96 * b * s * l * h * h * (1 + s / (6 * h));
  const double words = 96 * b * s * l * h * h * v / (16 * l * h);
  EXPECT_DOUBLE_EQ(SumFlop(graph, IsProduct), blocks + words);
  EXPECT_DOUBLE_EQ(SumFlop(whole, IsProduct), 0.75 * blocks + words);
}

TEST(RecomputeTest, PeakMemoryFallsByWhatIsNotKept) {
  // 8 blocks, of which each keeps 32 s b h + 5 a s s b bytes less, and the statistics of two norms. At the peak, which
  // is now in the first block's backward pass, its own are there again, and the gradients of 7 blocks, which wait to be
  // clipped. What else there is at the two peaks differs by less than a block's.
  const Graph graph = TinyGpt({{"layers", "8"}, {"d_model", "64"}, {"sequence", "64"}, {"precision", "bf16"}});
  const auto peak = [](const Graph& step) {
    const Cluster cluster = datasets::LoadCluster("dgx-h100").KeepAccelerators(1);
    const std::unique_ptr<CostModel> roofline = MakeCostModel("roofline");
    const CostTable costs(step, cluster, *roofline);
    const Simulator simulator(step, cluster, costs, {});
    Placement placement(step.num_ops());
    DeviceId gpu{};
    for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
      if (!cluster.devices()[d].is_cpu) gpu = MakeId<DeviceId>(d);
    }
    for (std::size_t i = 0; i < step.num_ops(); ++i) placement[MakeId<OpId>(i)] = gpu;
    return simulator.Run(placement).peak_memory[Index(gpu)].count;
  };
  constexpr std::int64_t kBlock =
      std::int64_t{32} * 64 * 2 * 64 + std::int64_t{5} * 2 * 64 * 64 * 2 + std::int64_t{4} * 4 * 2 * 64;
  const std::int64_t saved = peak(graph) - peak(datasets::Transform(graph, {.recompute = "full"}));
  constexpr std::int64_t kGradients = std::int64_t{7} * 2 * (12 * 64 * 64 + 13 * 64);
  EXPECT_GT(saved, 6 * kBlock - kGradients);
  EXPECT_LT(saved, 8 * kBlock - kGradients);
}

TEST(RecomputeTest, TakesLayersByName) {
  const Graph graph = datasets::Transform(TinyGpt(), {.recompute = "block1"});
  const auto of_layer = [](const char* layer) { return [layer](const Op& op) { return op.layer == layer; }; };
  EXPECT_EQ(CountOps(graph, Both(RunsAgain, of_layer("block0"))), 0U);
  EXPECT_GT(CountOps(graph, Both(RunsAgain, of_layer("block1"))), 0U);
  const Graph both = datasets::Transform(TinyGpt(), {.recompute = "block1,block0"});
  EXPECT_EQ(both.num_ops(), datasets::Transform(TinyGpt(), {.recompute = "full"}).num_ops());
}

TEST(RecomputeTest, WhatCannotRunAgainIsRefused) {
  const Graph graph = TinyGpt();
  EXPECT_EQ(TransformRefusal(graph, {.recompute = "block0,block7"}),
            "recompute: no forward op is of layer \"block7\" (full, selective, or layers of the graph)");
  EXPECT_THAT(TransformRefusal(datasets::MakeModel("rnnlm", {{"layers", "1"}, {"steps", "2"}}), {.recompute = "full"}),
              HasSubstr("finds no blocks"));
  EXPECT_THAT(TransformRefusal(datasets::Transform(graph, {.recompute = "block0"}), {.recompute = "block1"}),
              HasSubstr("run again already"));
  // A step's attention is read by the decoder's next one, whose attention comes first backward.
  EXPECT_THAT(
      TransformRefusal(datasets::MakeModel("nmt", {{"steps", "2"}, {"batch", "2"}}), {.recompute = "attention"}),
      HasSubstr("take turns in the backward pass"));
}

}  // namespace
}  // namespace emplace::testing
