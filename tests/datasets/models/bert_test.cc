#include <gtest/gtest.h>

#include "sim/base/check.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

TEST(BertTest, HasThePublishedParameters) {
  // Devlin et al. 2019, section 3: BERT-base 110 M, BERT-large 340 M.
  EXPECT_NEAR(TotalsOf(datasets::MakeModel("bert")).parameters, 110e6, 1.1e6);
  const GraphTotals large =
      TotalsOf(datasets::MakeModel("bert", {{"layers", "24"}, {"d_model", "1024"}, {"heads", "16"}}));
  EXPECT_NEAR(large.parameters, 340e6, 0.012 * 340e6);
}

TEST(BertTest, MaskedWordsAreLookedUpInTheLastStates) {
  const Graph graph = datasets::MakeModel("bert", {{"layers", "1"},
                                                   {"d_model", "8"},
                                                   {"heads", "2"},
                                                   {"sequence", "6"},
                                                   {"batch", "2"},
                                                   {"vocabulary", "11"},
                                                   {"predictions", "3"}});
  CheckTrainingGraph(graph);
  const auto shape = graph.tensor(graph.first_output(graph.FindOp("masked_words/gather").value())).shape;
  EXPECT_EQ(std::vector<std::int64_t>(shape.begin(), shape.end()), (std::vector<std::int64_t>{6, 8}));
  // Their gradient is added to the rows of all states: zeros, with those rows added.
  EXPECT_TRUE(graph.FindOp("gradients/masked_words/reshape/scatter_add"));
}

TEST(BertTest, NoMoreWordsAreMaskedThanThereAre) {
  EXPECT_THROW(datasets::MakeModel("bert", {{"sequence", "19"}}), InputError);
}

TEST(BertTest, LongSequencesHaveMorePositions) {
  const GraphTotals base = TotalsOf(datasets::MakeModel("bert", {{"layers", "1"}, {"batch", "1"}}));
  const GraphTotals longer =
      TotalsOf(datasets::MakeModel("bert", {{"layers", "1"}, {"batch", "1"}, {"sequence", "1024"}}));
  EXPECT_EQ(longer.parameters - base.parameters, 512 * 768);
}

}  // namespace
}  // namespace emplace::testing
