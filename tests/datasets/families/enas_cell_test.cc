#include "datasets/families/enas_cell.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "datasets/families/families.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

constexpr datasets::EnasLanguageModelSizes kSmall = {.batch = 3, .steps = 2, .hidden = 4, .vocabulary = 11};

TEST(EnasCellTest, TheSpaceIsAsLargeAsThePaperSays) {
  // Pham et al. 2018, section 2.1: 4^N * N! cells, "approximately 10^15" with 12 nodes: 8.0e15 in full.
  EXPECT_NEAR(datasets::EnasCell::SpaceSize(), 16777216.0 * 479001600.0, 1e6);
}

TEST(EnasCellTest, DrawsReadEarlierNodesAndEveryActivation) {
  Rng rng(5);
  std::map<std::size_t, int> activations;
  for (int i = 0; i < 250; ++i) {
    const datasets::EnasCell cell = datasets::EnasCell::Draw(rng);
    ASSERT_EQ(cell.nodes.size(), datasets::EnasCell::kNodes);
    for (std::size_t node = 1; node < cell.nodes.size(); ++node) EXPECT_LT(cell.nodes[node].input, node);
    for (const auto& node : cell.nodes) ++activations[node.activation];
  }
  ASSERT_EQ(activations.size(), 4U);
  for (const auto& [activation, count] : activations) EXPECT_NEAR(count, 750, 120) << activation;  // five deviations
}

TEST(EnasCellTest, LooseEndsAreWhatNoNodeReads) {
  const datasets::EnasCell cell = {{{0, 0}, {0, 1}, {0, 2}, {1, 3}}};
  EXPECT_EQ(cell.LooseEnds(), (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(cell.Text(), "tanh relu<0 identity<0 sigmoid<1");
}

TEST(EnasCellTest, TheGraphIsTheCellUnrolled) {
  const datasets::EnasCell cell = {{{0, 0}, {0, 1}, {0, 2}, {1, 3}}};
  const Graph graph = datasets::BuildEnasLanguageModel("cell", cell, kSmall);
  CheckTrainingGraph(graph);
  const GraphTotals totals = TotalsOf(graph);
  // Table 11*4, node 0 [8, 8], three more [4, 8].
  EXPECT_EQ(totals.parameters, 44 + 64 + 3 * 32);
  // Two steps, batch 3: those products, and 4 x 11 for the words.
  EXPECT_EQ(totals.forward_product_flop, 2.0 * 2 * 3 * (64 + 3 * 32 + 44));
  // A carry gate for each node of each step, and node 3's sigmoid.
  EXPECT_EQ(totals.kinds.at("sigmoid"), 2U * 5);
  EXPECT_EQ(totals.kinds.at("tanh"), 2U);
  EXPECT_EQ(totals.kinds.at("relu"), 2U);
  // Two nodes without a consumer: added and halved.
  const OpId mean = graph.FindOp("rnn0/step01/mean").value();
  EXPECT_EQ(graph.op(graph.tensor(graph.inputs(mean)[0]).producer).name, "rnn0/step01/loose_ends");
}

TEST(EnasCellTest, OneLooseEndIsTheState) {
  const datasets::EnasCell chain = {{{0, 0}, {0, 0}}};
  const Graph graph = datasets::BuildEnasLanguageModel("chain", chain, kSmall);
  EXPECT_FALSE(graph.FindOp("rnn0/step00/mean"));
}

TEST(EnasCellTest, BatchesAndStepsAreInTheirRanges) {
  Rng rng(2);
  for (int i = 0; i < 8; ++i) {
    std::vector<std::pair<std::string, std::string>> drawn;
    datasets::MakePtbMember(rng, "x", &drawn);
    const int batch = std::stoi(drawn.at(0).second);
    const int steps = std::stoi(drawn.at(1).second);
    EXPECT_TRUE(batch >= 1536 && batch <= 3072) << batch;
    EXPECT_TRUE(steps >= 25 && steps <= 40) << steps;
  }
}

}  // namespace
}  // namespace emplace::testing
