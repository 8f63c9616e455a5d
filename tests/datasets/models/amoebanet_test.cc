#include <gtest/gtest.h>

#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

TEST(AmoebanetTest, HasThePublishedParametersMultiplyAddsAndOps) {
  const Graph graph = datasets::MakeModel("amoebanet", {{"batch", "1"}});
  const GraphTotals totals = TotalsOf(graph);
  // Real et al. 2019, table 2, AmoebaNet-A (N = 6, F = 190): 86.7 M parameters, 23.1 G multiply-adds.
  EXPECT_NEAR(totals.parameters, 86.7e6, 0.01 * 86.7e6);
  EXPECT_NEAR(totals.forward_product_flop / 2, 23.1e9, 0.03 * 23.1e9);
  // Zhou et al. (SGDP), appendix A: 9,430 ops, 25 % either way.
  EXPECT_GE(graph.num_ops(), 7073U);
  EXPECT_LE(graph.num_ops(), 11787U);
}

TEST(AmoebanetTest, OtherSizesHaveThePublishedParametersToo) {
  // The same table: 469 M for N = 6, F = 448.
  const auto parameters = [](const std::string& cells, const std::string& filters) {
    return TotalsOf(datasets::MakeModel("amoebanet", {{"batch", "1"}, {"cells", cells}, {"filters", filters}}))
        .parameters;
  };
  EXPECT_NEAR(parameters("6", "448"), 469e6, 4.69e6);
}

TEST(AmoebanetTest, SmallImagesAndFewCellsWork) {
  CheckTrainingGraph(
      datasets::MakeModel("amoebanet", {{"batch", "1"}, {"image_size", "64"}, {"cells", "1"}, {"filters", "8"}}));
}

}  // namespace
}  // namespace emplace::testing
