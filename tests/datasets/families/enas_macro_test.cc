#include "datasets/families/enas_macro.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "datasets/families/families.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

datasets::EnasMacroNetwork Chain(std::size_t operation) {
  datasets::EnasMacroNetwork network;
  for (std::size_t l = 0; l < datasets::EnasMacroNetwork::kLayers; ++l) {
    network.layers.push_back({.operation = operation, .skips = std::vector<bool>(l, false)});
  }
  return network;
}

TEST(EnasMacroTest, TheSpaceIsAsLargeAsThePaperSays) {
  // Pham et al. 2018, section 2.3: 6^L * 2^(L(L-1)/2) networks, 1.6e29 with 12 layers.
  EXPECT_NEAR(datasets::EnasMacroNetwork::SpaceSize(), 1.6e29, 0.05e29);
}

TEST(EnasMacroTest, DrawsAreUniformOverOperationsAndSkips) {
  Rng rng(5);
  std::map<std::size_t, int> operations;
  int skips = 0;
  constexpr int kNetworks = 500;
  for (int i = 0; i < kNetworks; ++i) {
    for (const auto& layer : datasets::EnasMacroNetwork::Draw(rng).layers) {
      ++operations[layer.operation];
      for (const bool skip : layer.skips) skips += skip ? 1 : 0;
    }
  }
  ASSERT_EQ(operations.size(), 6U);
  // 1000 of each expected, standard deviation 29; 16,500 skips, standard deviation 91. The tolerance is five
  // deviations.
  for (const auto& [operation, count] : operations) EXPECT_NEAR(count, 1000, 145) << operation;
  EXPECT_NEAR(skips, kNetworks * 33, 455);
}

TEST(EnasMacroTest, AChainIsReducedTwiceAndDoubled) {
  const Graph graph = datasets::BuildEnasMacro("chain", Chain(0), 2);
  CheckTrainingGraph(graph);
  const auto shape_of = [&graph](const std::string& op) {
    const auto shape = graph.tensor(graph.first_output(graph.FindOp(op).value())).shape;
    return std::vector<std::int64_t>(shape.begin(), shape.end());
  };
  EXPECT_EQ(shape_of("layer3/conv3/conv/batch_norm"), (std::vector<std::int64_t>{2, 36, 32, 32}));
  EXPECT_EQ(shape_of("layer4/conv3/conv/batch_norm"), (std::vector<std::int64_t>{2, 72, 16, 16}));
  EXPECT_EQ(shape_of("layer11/conv3/conv/batch_norm"), (std::vector<std::int64_t>{2, 144, 8, 8}));
  // Only the last of the layers before a reduction is read after it.
  EXPECT_TRUE(graph.FindOp("reduction1/layer3/concat"));
  EXPECT_FALSE(graph.FindOp("reduction1/layer2/concat"));
}

TEST(EnasMacroTest, SkipsAreJoinedAndReducedWithTheRest) {
  datasets::EnasMacroNetwork network = Chain(4);
  network.layers[2].skips[0] = true;
  network.layers[9].skips[1] = true;
  const Graph graph = datasets::BuildEnasMacro("skips", network, 2);
  CheckTrainingGraph(graph);
  EXPECT_EQ(graph.inputs(graph.FindOp("layer2/concat").value()).size(), 2U);
  EXPECT_TRUE(graph.FindOp("reduction1/layer1/concat"));  // on the path to layer 9, reduced twice
  EXPECT_TRUE(graph.FindOp("reduction2/layer1/concat"));
  EXPECT_EQ(network.Text(), "avg3 avg3 avg3+0 avg3 avg3 avg3 avg3 avg3 avg3 avg3+1 avg3 avg3");
}

TEST(EnasMacroTest, EveryOperationWorks) {
  for (std::size_t operation = 0; operation < datasets::EnasMacroNetwork::kOperations.size(); ++operation) {
    CheckTrainingGraph(datasets::BuildEnasMacro("one", Chain(operation), 1));
  }
}

TEST(EnasMacroTest, BatchesAreInTheirRange) {
  Rng rng(2);
  for (int i = 0; i < 20; ++i) {
    std::vector<std::pair<std::string, std::string>> drawn;
    datasets::MakeCifar10Member(rng, "x", &drawn);
    const int batch = std::stoi(drawn.at(0).second);
    EXPECT_TRUE(batch >= 240 && batch <= 360) << batch;
  }
}

}  // namespace
}  // namespace emplace::testing
