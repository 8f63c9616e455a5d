#include <gmock/gmock.h>

#include <algorithm>

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
  constexpr std::int64_t kSbh = 4 * 2 * 8;
  constexpr std::int64_t kStatistics = 4 * 4 * 2 * 4;
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
}

}  // namespace
}  // namespace emplace::testing
