#include <gtest/gtest.h>

#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

TEST(RnnlmTest, HasThePublishedParameters) {
  // Zaremba et al. 2014's large model of width 1500: 66 M.
  const GraphTotals totals = TotalsOf(datasets::MakeModel("rnnlm", {{"hidden", "1500"}}));
  EXPECT_NEAR(totals.parameters, 66e6, 0.66e6);
  // The exact sum: table, two layers, projection.
  EXPECT_EQ(totals.parameters, 10000.0 * 1500 + 2 * (3000.0 * 6000 + 6000) + 1500.0 * 10000 + 10000);
}

TEST(RnnlmTest, BackwardCostsTwiceForward) {
  const GraphTotals totals =
      TotalsOf(datasets::MakeModel("rnnlm", {{"hidden", "16"}, {"vocabulary", "50"}, {"steps", "3"}}));
  EXPECT_EQ(totals.backward_product_flop, 2 * totals.forward_product_flop);
  // 3 steps of 64: two layers of 32 x 64, and 16 x 50.
  EXPECT_EQ(totals.forward_product_flop, 2.0 * 3 * 64 * (2 * 32 * 64 + 16 * 50));
}

TEST(RnnlmTest, GranularityChangesTheOpsAndNotTheWork) {
  const OptionMap small = {{"hidden", "16"}, {"vocabulary", "50"}, {"steps", "3"}};
  const GraphTotals fused = TotalsOf(datasets::MakeModel("rnnlm", small));
  for (const std::string granularity : {"gate", "slice"}) {
    OptionMap options = small;
    options["granularity"] = granularity;
    const Graph graph = datasets::MakeModel("rnnlm", options);
    CheckTrainingGraph(graph);
    EXPECT_EQ(TotalsOf(graph).parameters, fused.parameters);
    EXPECT_EQ(TotalsOf(graph).forward_product_flop, fused.forward_product_flop);
    EXPECT_GT(TotalsOf(graph).kinds.at("matmul"), fused.kinds.at("matmul"));
  }
}

TEST(RnnlmTest, DropoutActsBetweenLayersAndIsAnOption) {
  const OptionMap small = {{"layers", "3"}, {"hidden", "16"}, {"vocabulary", "50"}, {"steps", "5"}};
  EXPECT_EQ(TotalsOf(datasets::MakeModel("rnnlm", small)).kinds.at("dropout"),
            4U * 5);  // below each layer and the projection
  OptionMap without = small;
  without["dropout"] = "false";
  EXPECT_EQ(TotalsOf(datasets::MakeModel("rnnlm", without)).kinds.count("dropout"), 0U);
}

TEST(RnnlmTest, LayersAreNamedAsTheExpertPlacementReadsThem) {
  const GraphTotals totals =
      TotalsOf(datasets::MakeModel("rnnlm", {{"hidden", "16"}, {"vocabulary", "50"}, {"steps", "2"}}));
  EXPECT_EQ(totals.layers, (std::set<std::string, std::less<>>{"embedding", "lstm0", "lstm1", "projection", "loss"}));
}

}  // namespace
}  // namespace emplace::testing
