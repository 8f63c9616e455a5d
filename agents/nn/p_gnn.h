#ifndef EMPLACE_AGENTS_NN_P_GNN_H_
#define EMPLACE_AGENTS_NN_P_GNN_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "agents/nn/encoder.h"
#include "agents/nn/graph_sage.h"
#include "agents/nn/mlp.h"
#include "agents/nn/parameters.h"

namespace emplace::agents {

struct PGnnOptions {
  double copies = 0.2;        // c: number of anchor sets of one size / number of sizes
  std::size_t exponent = 4;   // for thesis_code: the largest set has n / 2^exponent nodes
  std::size_t cutoff = 6;     // edges: anchors further away are ignored
  bool mean_anchors = false;  // for thesis_code: relations to all anchors of a set instead of the furthest
};

// The average pooling of the thesis's code over the `rows` rows of GraphSAGE's result: window floor(width / 2 + 1), at
// most `rows`, stride 1. Returns the share of each row in the mean of all pooled rows.
std::vector<float> PooledShares(std::size_t rows, std::size_t width);

// P-GNN as the thesis's code computes it, on GraphSageCode. A node's rows are pooled. For each anchor set, the relation
// to its *furthest* reachable anchor u is [pooled(v); pooled(u)] / (distance + 1), zeros if there is none. The result
// is FNN(mean over sets and rows). There are floor(ln n) sizes n / 2^(i + exponent), with max(1, floor(c sizes)) sets
// of each. They are drawn once for a graph; empty sets count. Distances are along edges. The text has other numbers of
// sets. The authors of P-GNN use the nearest anchor: see PGnnOriginal. For n < 3 there is no set: the result is FNN(0).
// Source: the thesis's published code; Mitropolitsky 2020, section 3.3.2.
class PGnnCode : public Encoder {
 public:
  PGnnCode(ParameterSet& parameters, const GraphSageOptions& base, const PGnnOptions& options);

  std::size_t out() const override { return base_.out(); }
  GraphSample Draw(const Topology& topology, Rng& rng) const override;
  void Pack(std::span<const float> values) override;
  const Matrix& Forward(const StateBatch& states, bool backward) override;
  void Backward(const StateBatch& states, Matrix& d_out, std::span<float> gradients) override;

 private:
  PGnnOptions options_;
  GraphSageCode base_;
  std::vector<float> shares_;
  Mlp position_;
  MlpCache cache_;
  Matrix pooled_;   // [num_nodes * batch, width]
  Matrix related_;  // input of FNN
  Matrix d_related_;
  Matrix d_pooled_;
  Matrix d_base_;
};

// P-GNN of its authors on GraphSageText: floor(log2 n) sizes n / 2^(i + 1), with max(1, floor(c sizes)) sets of each,
// drawn for every episode. Distances are along edges in both directions. Only the *nearest* anchor u of each set is
// used. A message is ReLU(W [w h_u ; h_v] + b), w = 1 / (distance + 1), 0 if no anchor is within the cutoff. The result
// is the mean over sets, the structure-aware output of the paper. Its position-aware output has as many values as sets,
// which a policy for graphs of several sizes cannot read. Deviations: the small trainable net on w is left out. c
// defaults to the thesis's 0.2 instead of the authors' 1, with which each size has as many sets as there are sizes.
// Source: You et al. 2019, algorithm 1 and equation 2, and its authors' code (BSD).
class PGnnOriginal : public Encoder {
 public:
  PGnnOriginal(ParameterSet& parameters, const GraphSageOptions& base, const PGnnOptions& options);

  std::size_t out() const override { return base_.out(); }
  GraphSample Draw(const Topology& topology, Rng& rng) const override;
  bool redraws() const override { return true; }
  void Pack(std::span<const float> values) override;
  const Matrix& Forward(const StateBatch& states, bool backward) override;
  void Backward(const StateBatch& states, Matrix& d_out, std::span<float> gradients) override;

 private:
  PGnnOptions options_;
  GraphSageText base_;
  Mlp message_;
  MlpCache cache_;
  Matrix input_;  // [num_sets * num_nodes * batch, 2 width]
  Matrix d_input_;
  Matrix d_base_;
  Matrix out_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_P_GNN_H_
