// LibTorch's part of SGDP's network against its definition.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "agents/nn/graph_transformer.h"
#include "sim/rng.h"

namespace emplace {
namespace {

struct Case {
  const char* name;
  GraphTransformerOptions options;
};

std::ostream& operator<<(std::ostream& out, const Case& of) { return out << of.name; }

GraphTransformerOptions Small(GraphTransformerOptions options = {}) {
  options.numbers = 3;
  options.num_kinds = 4;
  options.outputs = 2;
  options.kind_width = 5;
  options.width = 8;
  options.layers = 2;
  options.neighbours = 3;
  options.heads = 2;
  options.head_width = 3;
  options.inner = 10;
  return options;
}

// A chain in which every third node has no neighbour.
GraphRows Chain(std::size_t nodes) {
  Rng rng(5);
  GraphRows rows;
  rows.numbers.Reset(nodes, 3);
  for (std::size_t v = 0; v < nodes; ++v) {
    for (float& value : rows.numbers.values(v)) value = static_cast<float>(rng.Uniform());
    rows.kinds.push_back(static_cast<std::uint32_t>(rng.Below(4)));
    auto& list = rows.neighbours.emplace_back();
    if (v % 3 == 0) continue;
    list.push_back(static_cast<std::uint32_t>(v - 1));
    if (v + 1 < nodes) list.push_back(static_cast<std::uint32_t>(v + 1));
  }
  return rows;
}

double Weight(std::size_t row, std::size_t d) { return std::sin(1.0 + static_cast<double>(3 * row + d)); }

class GraphTransformerTorchTest : public ::testing::TestWithParam<Case> {
 protected:
  GraphTransformerTorchTest() : parameters_(GraphTransformerParameters(GetParam().options)) {
    Rng rng(10);
    InitializeGraphTransformer(rng, &parameters_);
    for (float& value : parameters_.values()) value += static_cast<float>(0.2 * (rng.Uniform() - 0.5));
    network_ = MakeGraphTransformer(GetParam().options, parameters_, "cpu");
  }
  double Loss(const GraphRows& rows) {
    const Matrix& logits = network_->Forward(rows, false);
    double loss = 0;
    for (std::size_t v = 0; v < logits.rows(); ++v) {
      for (std::size_t d = 0; d < logits.width(); ++d) loss += Weight(v, d) * logits.row(v)[d];
    }
    return loss;
  }
  std::vector<float> LogitsOf(const GraphRows& rows, std::size_t node) {
    const auto values = network_->Forward(rows, false).values(node);
    return {values.begin(), values.end()};
  }

  ParameterSet parameters_;
  std::unique_ptr<GraphTransformer> network_;
};

TEST_P(GraphTransformerTorchTest, GradientsAreFiniteDifferencesWithinASegment) {
  // One segment: nothing is cut from the gradient.
  const GraphRows rows = Chain(6);
  std::vector<float> gradients(parameters_.size());
  const Matrix& logits = network_->Forward(rows, true);
  Matrix d_logits(logits.rows(), logits.width());
  d_logits.Reset(logits.rows(), logits.width());
  for (std::size_t v = 0; v < logits.rows(); ++v) {
    for (std::size_t d = 0; d < logits.width(); ++d) d_logits.row(v)[d] = static_cast<float>(Weight(v, d));
  }
  network_->Backward(d_logits, gradients);
  std::size_t compared = 0;
  std::size_t kinks = 0;
  for (const Parameter& parameter : parameters_.parameters()) {
    for (std::size_t i = 0; i < parameter.size(); i += 1 + parameter.size() / 5) {
      float& value = parameters_.values()[parameter.offset + i];
      const auto slope = [&](float step) {
        const float before = value;
        value = before + step;
        const double up = Loss(rows);
        value = before - step;
        const double down = Loss(rows);
        value = before;
        return (up - down) / (2.0 * static_cast<double>(step));
      };
      const double wide = slope(1.0F / 128);
      const double narrow = slope(1.0F / 512);
      const double slack = 0.02 * std::max(0.5, std::abs(narrow));
      // A ReLU or a maximum turns between: no difference says what the slope is.
      if (std::abs(wide - narrow) > slack / 4) {
        ++kinks;
        continue;
      }
      EXPECT_NEAR(gradients[parameter.offset + i], narrow, slack) << parameter.name << ' ' << i;
      ++compared;
    }
  }
  EXPECT_GT(compared, 3 * kinks);
}

TEST_P(GraphTransformerTorchTest, TheEmptyAndTheSmallestGraphHaveLogits) {
  EXPECT_EQ(network_->Forward(Chain(1), true).rows(), 1U);
  EXPECT_EQ(network_->Forward(Chain(17), true).rows(), 17U);
  for (std::size_t v = 0; v < 17; ++v) {
    for (const float logit : network_->Forward(Chain(17), false).values(v)) EXPECT_TRUE(std::isfinite(logit));
  }
}

TEST_P(GraphTransformerTorchTest, LogitsAreTheSameInBlocksAsAtOnce) {
  // Without gradients, rows are taken through the layers 4,096 at a time.
  const GraphRows rows = Chain(9001);
  const Matrix at_once = network_->Forward(rows, true);
  const Matrix& in_blocks = network_->Forward(rows, false);
  ASSERT_EQ(in_blocks.rows(), 9001U);
  float largest = 0;
  for (std::size_t v = 0; v < 9001; ++v) {
    for (std::size_t d = 0; d < 2; ++d) {
      EXPECT_NEAR(in_blocks.row(v)[d], at_once.row(v)[d], 1e-5) << v;
      largest = std::max(largest, std::abs(at_once.row(v)[d]));
    }
  }
  EXPECT_GT(largest, 0.01F);
}

INSTANTIATE_TEST_SUITE_P(Shapes, GraphTransformerTorchTest,
                         ::testing::Values(Case{"Sgdp", Small()},
                                           Case{"Gat", Small({.neighbourhood = Neighbourhood::kGat})},
                                           Case{"Mlp", Small({.context = Context::kMlp})}),
                         [](const auto& of) { return of.param.name; });

class SegmentsTest : public ::testing::Test {
 protected:
  SegmentsTest() {
    options_ = Small();
    options_.layers = 0;  // so that nodes hear of each other by attention alone
    options_.segment = 4;
    options_.attention_layers = 1;
    parameters_ = GraphTransformerParameters(options_);
    Rng rng(10);
    InitializeGraphTransformer(rng, &parameters_);
    network_ = MakeGraphTransformer(options_, parameters_, "cpu");
  }
  // Which nodes' logits change when those of `node`'s features do.
  std::vector<std::size_t> Affected(std::size_t node) {
    GraphRows rows = Chain(11);
    const Matrix before = network_->Forward(rows, false);
    rows.numbers.row(node)[0] += 1;
    const Matrix& after = network_->Forward(rows, false);
    std::vector<std::size_t> affected;
    for (std::size_t v = 0; v < 11; ++v) {
      if (std::abs(after.row(v)[0] - before.row(v)[0]) > 1e-7F) affected.push_back(v);
    }
    return affected;
  }

  GraphTransformerOptions options_;
  ParameterSet parameters_;
  std::unique_ptr<GraphTransformer> network_;
};

TEST_F(SegmentsTest, ANodeIsSeenByItsSegmentAndTheNext) {
  EXPECT_THAT(Affected(1), ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(Affected(5), ::testing::ElementsAre(4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(Affected(9), ::testing::ElementsAre(8, 9, 10));
}

TEST_F(SegmentsTest, NoGradientGoesToTheSegmentBefore) {
  // Kinds differ: those of the first segment are kind 0 alone, whose row is learned from that segment's loss only.
  GraphRows rows = Chain(8);
  for (std::size_t v = 0; v < 8; ++v) rows.kinds[v] = v < 4 ? 0 : 1;
  std::vector<float> gradients(parameters_.size());
  const Matrix& logits = network_->Forward(rows, true);
  Matrix d_logits(logits.rows(), logits.width());
  d_logits.Reset(logits.rows(), logits.width());
  for (std::size_t v = 4; v < 8; ++v) d_logits.row(v)[0] = 1;
  network_->Backward(d_logits, gradients);
  const Parameter& kinds = parameters_.parameters()[0];
  ASSERT_EQ(kinds.name, "kinds");
  double of_second = 0;
  for (std::size_t i = 0; i < kinds.columns; ++i) {
    EXPECT_EQ(gradients[kinds.offset + i], 0);
    of_second += std::abs(gradients[kinds.offset + kinds.columns + i]);
  }
  EXPECT_GT(of_second, 1e-6);
}

}  // namespace
}  // namespace emplace
