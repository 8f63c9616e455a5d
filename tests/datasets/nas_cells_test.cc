#include "datasets/nas_cells.h"

#include <gtest/gtest.h>

#include "tests/testing/rank_graphs.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

// A cell of poolings and shortcuts around one convolution of each type.
const datasets::NasCell kNormal = {
    .blocks = {{{{{"identity", 0}, {"identity", 1}}},
                {{{"avg_pool_3x3", 0}, {"max_pool_3x3", 1}}},
                {{{"sep_conv_3x3", 2}, {"identity", 3}}},
                {{{"sep_conv_5x5", 1}, {"identity", 1}}},
                {{{"sep_conv_7x7", 1}, {"conv_1x7_7x1", 1}}}}},
    .joined = {4, 5, 6},
};
const datasets::NasCell kReduction = {
    .blocks = {{{{{"max_pool_3x3", 0}, {"max_pool_3x3", 1}}},
                {{{"avg_pool_3x3", 1}, {"identity", 2}}},
                {{{"identity", 2}, {"identity", 3}}},
                {{{"conv_1x7_7x1", 1}, {"identity", 4}}},
                {{{"identity", 4}, {"identity", 5}}}}},
    .joined = {5, 6},
};

Graph Make(const OptionMap& options) {
  OptionReader reader(options, "cells");
  return datasets::MakeNasNetwork(
      reader, {.name = "cells", .normal = &kNormal, .reduction = &kReduction, .filters = 8, .cells_per_stack = 2});
}

TEST(NasCellsTest, CellsJoinTheStatesThatNothingReads) {
  const Graph graph = Make({{"batch", "2"}, {"image_size", "65"}});
  CheckTrainingGraph(graph);
  // 65 -> 32 (stem, valid) -> 16 -> 8 (initial reduction cells) -> 4 -> 2; filters 8 -> 16 -> 32, three states or two.
  EXPECT_EQ(ShapeOf(graph, "stem/conv/conv2d"), (datasets::Shape{2, 96, 32, 32}));
  EXPECT_EQ(ShapeOf(graph, "stem_reduction0/concat"), (datasets::Shape{2, 2L * 2, 16, 16}));
  EXPECT_EQ(ShapeOf(graph, "stem_reduction1/concat"), (datasets::Shape{2, 2L * 4, 8, 8}));
  EXPECT_EQ(ShapeOf(graph, "stack0_cell1/concat"), (datasets::Shape{2, 3L * 8, 8, 8}));
  EXPECT_EQ(ShapeOf(graph, "reduction1/concat"), (datasets::Shape{2, 2L * 16, 4, 4}));
  EXPECT_EQ(ShapeOf(graph, "stack2_cell1/concat"), (datasets::Shape{2, 3L * 32, 2, 2}));
}

TEST(NasCellsTest, BehindAReductionTheOlderInputIsTheOneFromBeforeIt) {
  const Graph graph = Make({{"batch", "2"}, {"image_size", "65"}});
  // The older input of reduction1 was stack0_cell0. stack1_cell0 follows it, so it reads the same input, reduced
  // to half its size.
  const OpId relu = graph.FindOp("stack1_cell0/before/relu").value();
  EXPECT_EQ(graph.op(graph.tensor(graph.inputs(relu)[0]).producer).name, "stack0_cell0/concat");
}

TEST(NasCellsTest, CellsAreAnOption) {
  const auto more = Make({{"cells", "3"}, {"batch", "1"}, {"image_size", "64"}});
  EXPECT_TRUE(more.FindOp("stack2_cell2/concat"));
}

}  // namespace
}  // namespace emplace::testing
