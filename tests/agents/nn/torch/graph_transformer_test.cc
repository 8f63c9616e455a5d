// Compares SGDP's network in LibTorch with a second implementation of its definition.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "agents/nn/graph_transformer.h"
#include "sim/base/rng.h"
#include "tests/agents/nn/plain_rows.h"

namespace emplace {
namespace graph_transformer_torch_test {

using testing::Joined;
using testing::PlainWeights;
using testing::Relu;
using testing::Row;
using testing::Rows;
using testing::Softmax;
using testing::Sum;

struct Case {
  const char* name;
  agents::GraphTransformerOptions options;
};

std::ostream& operator<<(std::ostream& out, const Case& of) { return out << of.name; }

agents::GraphTransformerOptions Small(agents::GraphTransformerOptions options = {}) {
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

// A chain in which every third node has no list of neighbours.
agents::GraphRows Chain(std::size_t nodes) {
  Rng rng(5);
  agents::GraphRows rows;
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

// Implements the definitions of graph_transformer.h.
class PlainGraphTransformer {
 public:
  PlainGraphTransformer(const agents::GraphTransformerOptions& options, const agents::ParameterSet& parameters)
      : options_(options), weights_(parameters) {}

  Rows Logits(const agents::GraphRows& graph) const {
    Rows h;
    for (std::size_t v = 0; v < graph.kinds.size(); ++v) {
      const auto numbers = graph.numbers.values(v);
      h.push_back(Relu(
          weights_.Affine(Joined(weights_.Of("kinds", graph.kinds[v]), Row(numbers.begin(), numbers.end())), "input")));
    }
    const bool gat = options_.neighbourhood == agents::Neighbourhood::kGat;
    for (std::size_t l = 0; l < options_.layers; ++l) {
      const std::string name = "neighbours." + std::to_string(l);
      h = gat ? Attentive(graph, h, name) : Pooled(graph, h, name);
    }
    if (options_.context == agents::Context::kMlp) {
      for (Row& row : h) row = Relu(weights_.Affine(Relu(weights_.Affine(row, "mlp.0")), "mlp.1"));
    } else {
      for (std::size_t l = 0; l < options_.attention_layers; ++l) h = Transformed(h, "attention." + std::to_string(l));
    }
    for (Row& row : h) row = weights_.Affine(row, "devices");
    return h;
  }

 private:
  // Zhou et al. 2020: n_v = max over u in N(v) of sigmoid(W h_u + b), and h_v = ReLU(V [h_v, n_v] + c).
  Rows Pooled(const agents::GraphRows& graph, const Rows& h, const std::string& name) const {
    Rows next;
    for (std::size_t v = 0; v < h.size(); ++v) {
      Row heard(options_.width);
      for (const std::uint32_t u : graph.neighbours[v]) {
        const Row said = testing::Each(weights_.Affine(h[u], name + ".pool"), testing::Sigmoid);
        for (std::size_t i = 0; i < heard.size(); ++i) heard[i] = std::max(heard[i], said[i]);
      }
      next.push_back(Relu(weights_.Affine(Joined(h[v], heard), name + ".join")));
    }
    return next;
  }

  // Velickovic et al. 2018, equations 3 and 4: a softmax over the node and its neighbours of LeakyReLU(a [W h_v, W
  // h_u]).
  Rows Attentive(const agents::GraphRows& graph, const Rows& h, const std::string& name) const {
    Rows projected;
    for (const Row& row : h) projected.push_back(weights_.Times(row, name + ".project"));
    Rows next;
    for (std::size_t v = 0; v < h.size(); ++v) {
      std::vector<std::size_t> heard = {v};
      heard.insert(heard.end(), graph.neighbours[v].begin(), graph.neighbours[v].end());
      Row scores;
      for (const std::size_t u : heard) {
        const double score =
            weights_.Times(projected[v], name + ".own")[0] + weights_.Times(projected[u], name + ".other")[0];
        scores.push_back(score > 0 ? score : 0.2 * score);
      }
      const Row shares = Softmax(scores);
      Row mixed(options_.width);
      for (std::size_t k = 0; k < heard.size(); ++k) {
        for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i] += shares[k] * projected[heard[k]][i];
      }
      next.push_back(Relu(mixed));
    }
    return next;
  }

  // A layer of Transformer-XL without positions. A node attends to its segment and to this layer's input of the segment
  // before; normalised after each sum.
  Rows Transformed(const Rows& h, const std::string& name) const {
    Rows next;
    for (std::size_t v = 0; v < h.size(); ++v) {
      const std::size_t start = v / options_.segment * options_.segment;
      const std::size_t first = start < options_.segment ? start : start - options_.segment;
      const std::size_t last = std::min(start + options_.segment, h.size());
      const Row query = weights_.Times(h[v], name + ".query");
      Row all;
      for (std::size_t head = 0; head < options_.heads; ++head) {
        Row scores;
        for (std::size_t u = first; u < last; ++u) {
          const Row key = weights_.Times(h[u], name + ".key");
          double score = 0;
          for (std::size_t i = head * options_.head_width; i < (head + 1) * options_.head_width; ++i) {
            score += query[i] * key[i];
          }
          scores.push_back(score / std::sqrt(static_cast<double>(options_.head_width)));
        }
        const Row shares = Softmax(scores);
        for (std::size_t i = head * options_.head_width; i < (head + 1) * options_.head_width; ++i) {
          double mixed = 0;
          for (std::size_t u = first; u < last; ++u)
            mixed += shares[u - first] * weights_.Times(h[u], name + ".value")[i];
          all.push_back(mixed);
        }
      }
      const Row y = Normalized(Sum(h[v], weights_.Times(all, name + ".result")), name + ".first");
      const Row inner = Relu(weights_.Affine(y, name + ".up"));
      next.push_back(Normalized(Sum(y, weights_.Affine(inner, name + ".down")), name + ".second"));
    }
    return next;
  }

  Row Normalized(Row row, const std::string& name) const {
    const auto size = static_cast<double>(row.size());
    double mean = 0;
    for (const double value : row) mean += value / size;
    double variance = 0;
    for (const double value : row) variance += (value - mean) * (value - mean) / size;
    const Row gain = weights_.All(name + ".gain");
    const Row bias = weights_.All(name + ".bias");
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = gain[i] * (row[i] - mean) / std::sqrt(variance + 1e-5) + bias[i];
    }
    return row;
  }

  agents::GraphTransformerOptions options_;
  PlainWeights weights_;
};

double Weight(std::size_t row, std::size_t d) { return std::sin(1.0 + static_cast<double>(3 * row + d)); }

class GraphTransformerTorchTest : public ::testing::TestWithParam<Case> {
 protected:
  GraphTransformerTorchTest() : parameters_(agents::GraphTransformerParameters(GetParam().options)) {
    Rng rng(10);
    agents::InitializeGraphTransformer(rng, &parameters_);
    for (float& value : parameters_.values()) value += static_cast<float>(0.2 * (rng.Uniform() - 0.5));
    network_ = agents::MakeGraphTransformer(GetParam().options, parameters_, "cpu");
  }
  double Loss(const agents::GraphRows& rows) {
    const agents::Matrix& logits = network_->Forward(rows, false);
    double loss = 0;
    for (std::size_t v = 0; v < logits.rows(); ++v) {
      for (std::size_t d = 0; d < logits.width(); ++d) loss += Weight(v, d) * logits.row(v)[d];
    }
    return loss;
  }
  std::vector<float> LogitsOf(const agents::GraphRows& rows, std::size_t node) {
    const auto values = network_->Forward(rows, false).values(node);
    return {values.begin(), values.end()};
  }

  agents::ParameterSet parameters_;
  std::unique_ptr<agents::GraphTransformer> network_;
};

TEST_P(GraphTransformerTorchTest, LogitsAreThoseOfTheDefinition) {
  agents::GraphTransformerOptions options = GetParam().options;
  options.segment = 4;
  const auto network = agents::MakeGraphTransformer(options, parameters_, "cpu");
  const PlainGraphTransformer plain(options, parameters_);
  for (const std::size_t nodes : {1U, 4U, 11U}) {
    const agents::GraphRows rows = Chain(nodes);
    const Rows expected = plain.Logits(rows);
    const agents::Matrix& logits = network->Forward(rows, false);
    ASSERT_EQ(logits.rows(), nodes);
    for (std::size_t v = 0; v < nodes; ++v) {
      for (std::size_t d = 0; d < 2; ++d) EXPECT_NEAR(logits.row(v)[d], expected[v][d], 2e-5) << nodes << ' ' << v;
    }
  }
}

TEST_P(GraphTransformerTorchTest, GradientsAreFiniteDifferencesWithinASegment) {
  // With one segment, no gradient is truncated.
  const agents::GraphRows rows = Chain(6);
  std::vector<float> gradients(parameters_.size());
  const agents::Matrix& logits = network_->Forward(rows, true);
  agents::Matrix d_logits(logits.rows(), logits.width());
  d_logits.Reset(logits.rows(), logits.width());
  for (std::size_t v = 0; v < logits.rows(); ++v) {
    for (std::size_t d = 0; d < logits.width(); ++d) d_logits.row(v)[d] = static_cast<float>(Weight(v, d));
  }
  network_->Backward(d_logits, gradients);
  std::size_t compared = 0;
  std::size_t kinks = 0;
  for (const agents::Parameter& parameter : parameters_.parameters()) {
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
      // A ReLU or a maximum changes its branch within the step, so finite differences do not give the slope.
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

TEST_P(GraphTransformerTorchTest, TheSmallestGraphAndALongerOneHaveLogits) {
  EXPECT_EQ(network_->Forward(Chain(1), true).rows(), 1U);
  EXPECT_EQ(network_->Forward(Chain(17), true).rows(), 17U);
  for (std::size_t v = 0; v < 17; ++v) {
    for (const float logit : network_->Forward(Chain(17), false).values(v)) EXPECT_TRUE(std::isfinite(logit));
  }
}

TEST_P(GraphTransformerTorchTest, LogitsAreTheSameInBlocksAsAtOnce) {
  // Without gradients, the network processes blocks of 4,096 rows.
  const agents::GraphRows rows = Chain(9001);
  const agents::Matrix at_once = network_->Forward(rows, true);
  const agents::Matrix& in_blocks = network_->Forward(rows, false);
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

// A graph in which many nodes are alike: copies of one chain, and features of two kinds only.
agents::GraphRows Copies(std::size_t copies, std::size_t length) {
  agents::GraphRows rows;
  rows.numbers.Reset(copies * length, 3);
  for (std::size_t copy = 0; copy < copies; ++copy) {
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t v = copy * length + i;
      rows.numbers.row(v)[0] = static_cast<float>(i % 2);
      rows.kinds.push_back(static_cast<std::uint32_t>(i % 3 == 0));
      auto& list = rows.neighbours.emplace_back();
      if (i > 0) list.push_back(static_cast<std::uint32_t>(v - 1));
      if (i + 1 < length) list.push_back(static_cast<std::uint32_t>(v + 1));
      if (i == 2) list.push_back(static_cast<std::uint32_t>(copy * length));
    }
  }
  return rows;
}

// Every node by itself is the reference.
TEST_P(GraphTransformerTorchTest, EqualNodesComputedOnceHaveTheSameLogitsAndGradients) {
  agents::GraphTransformerOptions options = GetParam().options;
  options.segment = 10;
  const auto network = agents::MakeGraphTransformer(options, parameters_, "cpu");
  for (const std::size_t copies : {1U, 2U, 9U}) {
    agents::GraphRows rows = Copies(copies, 7);
    agents::Matrix d_logits(7 * copies, 2);
    for (std::size_t v = 0; v < 7 * copies; ++v) {
      for (std::size_t d = 0; d < 2; ++d) d_logits.row(v)[d] = static_cast<float>(Weight(v, d));
    }
    const agents::Matrix expected = network->Forward(rows, true);
    std::vector<float> expected_gradients(parameters_.size());
    network->Backward(d_logits, expected_gradients);
    rows.tokens = agents::FindTokens(rows, options);
    EXPECT_LT(rows.tokens->first.size(), copies == 1 ? 8U : 7 * copies / 2 + 4);
    const agents::Matrix& logits = network->Forward(rows, true);
    std::vector<float> gradients(parameters_.size());
    network->Backward(d_logits, gradients);
    float largest = 0;
    for (std::size_t v = 0; v < 7 * copies; ++v) {
      for (std::size_t d = 0; d < 2; ++d) EXPECT_NEAR(logits.row(v)[d], expected.row(v)[d], 1e-5) << copies << ' ' << v;
    }
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_NEAR(gradients[i], expected_gradients[i], 2e-4 * std::max(1.0F, std::abs(expected_gradients[i]))) << i;
      largest = std::max(largest, std::abs(gradients[i]));
    }
    EXPECT_GT(largest, 0.1F);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GraphTransformerTorchTest,
                         ::testing::Values(Case{"Sgdp", Small()},
                                           Case{"Gat", Small({.neighbourhood = agents::Neighbourhood::kGat})},
                                           Case{"Mlp", Small({.context = agents::Context::kMlp})}),
                         [](const auto& of) { return of.param.name; });

class SegmentsTest : public ::testing::Test {
 protected:
  SegmentsTest() {
    options_ = Small();
    options_.layers = 0;  // so that nodes receive from each other by attention only
    options_.segment = 4;
    UseLayers(1);
  }
  void UseLayers(std::size_t attention_layers) {
    options_.attention_layers = attention_layers;
    parameters_ = agents::GraphTransformerParameters(options_);
    Rng rng(10);
    agents::InitializeGraphTransformer(rng, &parameters_);
    network_ = agents::MakeGraphTransformer(options_, parameters_, "cpu");
  }
  // The nodes whose logits change when `node`'s features change.
  std::vector<std::size_t> Affected(std::size_t node) {
    agents::GraphRows rows = Chain(11);
    const agents::Matrix before = network_->Forward(rows, false);
    rows.numbers.row(node)[0] += 1;
    const agents::Matrix& after = network_->Forward(rows, false);
    std::vector<std::size_t> affected;
    for (std::size_t v = 0; v < 11; ++v) {
      if (std::abs(after.row(v)[0] - before.row(v)[0]) > 1e-7F) affected.push_back(v);
    }
    return affected;
  }

  agents::GraphTransformerOptions options_;
  agents::ParameterSet parameters_;
  std::unique_ptr<agents::GraphTransformer> network_;
};

TEST_F(SegmentsTest, ANodeIsSeenByItsSegmentAndTheNext) {
  EXPECT_THAT(Affected(1), ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(Affected(5), ::testing::ElementsAre(4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(Affected(9), ::testing::ElementsAre(8, 9, 10));
}

// The second layer also attends to its input of the segment before, which depends on the segment before that.
TEST_F(SegmentsTest, WithTwoLayersANodeIsHeardOfASegmentFurther) {
  UseLayers(2);
  EXPECT_THAT(Affected(1), ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(Affected(9), ::testing::ElementsAre(8, 9, 10));
}

TEST_F(SegmentsTest, NoGradientGoesToTheSegmentBefore) {
  // The kinds of the segments differ: nodes of the first are kind 0, whose row gets a gradient only from that segment's
  // loss.
  agents::GraphRows rows = Chain(8);
  for (std::size_t v = 0; v < 8; ++v) rows.kinds[v] = v < 4 ? 0 : 1;
  std::vector<float> gradients(parameters_.size());
  const agents::Matrix& logits = network_->Forward(rows, true);
  agents::Matrix d_logits(logits.rows(), logits.width());
  d_logits.Reset(logits.rows(), logits.width());
  for (std::size_t v = 4; v < 8; ++v) d_logits.row(v)[0] = 1;
  network_->Backward(d_logits, gradients);
  const agents::Parameter& kinds = parameters_.parameters()[0];
  ASSERT_EQ(kinds.name, "kinds");
  double of_second = 0;
  for (std::size_t i = 0; i < kinds.columns; ++i) {
    EXPECT_EQ(gradients[kinds.offset + i], 0);
    of_second += std::abs(gradients[kinds.offset + kinds.columns + i]);
  }
  EXPECT_GT(of_second, 1e-6);
}

}  // namespace graph_transformer_torch_test
}  // namespace emplace
