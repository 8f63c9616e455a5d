#include <gtest/gtest.h>

#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

TEST(WavenetTest, HasThePublishedNumberOfOps) {
  // Zhou et al. (SGDP), appendix A: 4,374 with 5 stacks and 8,516 with 10, 25 % either way.
  const std::size_t five = datasets::MakeModel("wavenet", {{"stacks", "5"}}).num_ops();
  EXPECT_GE(five, 3281U);
  EXPECT_LE(five, 5467U);
  const std::size_t ten = datasets::MakeModel("wavenet", {{"stacks", "10"}}).num_ops();
  EXPECT_GE(ten, 6387U);
  EXPECT_LE(ten, 10645U);
}

TEST(WavenetTest, ParametersAreThoseOfTheLayersWrittenOut) {
  // 3 layers of 4 channels, 6 skip channels, 8 levels. First: 8*4*2 + 4. A layer: filter and gate 4*4*2 + 4 each, skip
  // 4*6 + 6, residual 4*4 + 4 (not in the last). After the layers: 6*6 + 6, 6*8 + 8.
  const GraphTotals totals = TotalsOf(datasets::MakeModel("wavenet", {{"stacks", "1"},
                                                                      {"layers", "3"},
                                                                      {"channels", "4"},
                                                                      {"skip_channels", "6"},
                                                                      {"levels", "8"},
                                                                      {"batch", "2"},
                                                                      {"samples", "32"}}));
  EXPECT_EQ(totals.parameters, 68 + 3 * (72 + 30) + 2 * 20 + 42 + 56);
}

TEST(WavenetTest, DilationsDoubleInEachStackAndSeeThePublishedPast) {
  const Graph graph = datasets::MakeModel("wavenet", {{"batch", "1"}, {"samples", "64"}});
  CheckTrainingGraph(graph);
  // Each layer is delayed by its dilation, which is its front padding: 4 stacks of 1, 2, .. 256, and 1 for the first
  // layer.
  std::int64_t past = 1;
  for (std::size_t op = 0; op < graph.num_ops(); ++op) {
    const OpId id = MakeId<OpId>(op);
    if (graph.op(id).kind != "pad") continue;
    past += graph.tensor(graph.first_output(id)).shape[3] - graph.tensor(graph.inputs(id)[0]).shape[3];
  }
  EXPECT_EQ(past, 1 + 1 + 4 * 511);  // 2,046: "receptive field 2048"
}

TEST(WavenetTest, TheLengthIsKept) {
  const Graph graph = datasets::MakeModel("wavenet", {{"batch", "1"}, {"samples", "64"}});
  const auto shape = graph.tensor(graph.first_output(graph.FindOp("stack3_layer8/skip_sum").value())).shape;
  EXPECT_EQ(std::vector<std::int64_t>(shape.begin(), shape.end()), (std::vector<std::int64_t>{1, 256, 1, 64}));
}

}  // namespace
}  // namespace emplace::testing
