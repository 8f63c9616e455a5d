#ifndef EMPLACE_AGENTS_NN_GRAPH_SAGE_H_
#define EMPLACE_AGENTS_NN_GRAPH_SAGE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "agents/nn/encoder.h"
#include "agents/nn/mlp.h"
#include "agents/nn/parameters.h"

namespace emplace::agents {

// What a node takes of its neighbours, value by value. Source: Mitropolitsky 2020, section 3.3.1.
enum class Aggregation : std::uint8_t { kMean, kMax, kMin, kSum };

struct GraphSageOptions {
  std::size_t features = 0;
  std::size_t hops = 2;
  double sample_ratio = 0.8;  // share of a node's neighbours that is sampled
  double dropout = 0.7;       // share of values that is dropped
  Aggregation aggregation = Aggregation::kMean;
  bool both_directions = true;  // neighbours: predecessors and successors, or (thesis_code) successors only
};

// GraphSAGE as the thesis describes it: h0 = FNN_in(x); h_k = Drop(FNN_k([h_{k-1} ; mean of h_{k-1} over sampled
// neighbours])) for k = 1 .. hops. The last level has no dropout, and each of its rows is divided by its norm.
// Neighbours are sampled for every episode: max(1, round(ratio * degree)) of them. No dropout while evaluating.
// Source: Mitropolitsky 2020, section 3.3.1; Hamilton et al. 2017, algorithm 1.
class GraphSageText : public Encoder {
 public:
  GraphSageText(ParameterSet& parameters, const GraphSageOptions& options);

  std::size_t out() const override { return options_.features; }
  GraphSample Draw(const Topology& topology, Rng& rng) const override;
  bool redraws() const override { return true; }
  void Pack(std::span<const float> values) override;
  const Matrix& Forward(const StateBatch& states, bool backward) override;
  void Backward(const StateBatch& states, Matrix& d_out, std::span<float> gradients) override;

 private:
  struct Level {
    Mlp net;
    Matrix input;  // [rows, 2 width]: own row and that of the neighbours
    MlpCache cache;
    std::vector<std::uint32_t> largest;  // for max and min: [rows * width], index of the neighbour
    std::vector<std::uint8_t> kept;      // [rows * width]; empty: no dropout
    Matrix output;                       // after dropout
  };
  void Gather(const StateBatch& states, const Matrix& from, Level* level) const;
  void Scatter(const StateBatch& states, const Level& level, const Matrix& d_input, Matrix* d_from) const;

  GraphSageOptions options_;
  Mlp transform_;
  MlpCache transform_cache_;
  std::vector<Level> levels_;
  std::vector<std::uint8_t> drawn_;  // mask of one state
  Matrix out_;
  std::vector<float> norms_;
  Matrix d_input_;
  Matrix d_from_;
};

// GraphSAGE as the thesis's code computes it, including its errors; needed to reproduce its tables:
//  - successors only, sampled once for a graph, floor(ratio * degree) of them: a node with one successor receives no
//    messages;
//  - hops + 1 levels; each interleaves the neighbours' mean with the node's own rows instead of concatenating them.
//    This doubles the rows of a node: [2^(i+1), d] after level i. A node without neighbours gets 2^i leading rows of
//    zeros instead;
//  - FNN_i: d -> d (i + 1) -> d; dropout after every level, also while evaluating;
//  - at the end a node's whole matrix is divided by its norm.
// Source: the thesis's published code, not its text.
class GraphSageCode : public Encoder {
 public:
  GraphSageCode(ParameterSet& parameters, const GraphSageOptions& options);

  std::size_t out() const override { return options_.features; }
  std::size_t rows_per_node() const override { return std::size_t{2} << options_.hops; }
  GraphSample Draw(const Topology& topology, Rng& rng) const override;
  void Pack(std::span<const float> values) override;
  const Matrix& Forward(const StateBatch& states, bool backward) override;
  void Backward(const StateBatch& states, Matrix& d_out, std::span<float> gradients) override;

  // The source index of value `index` of the joined [rows, width] matrix, with `rows` = 2 * half. Indices below half *
  // width are the neighbours' mean, row-major; then follow as many of the node's own values.
  static std::vector<std::uint32_t> Interleaving(std::size_t half, std::size_t width);

 private:
  struct Level {
    Mlp net;
    std::vector<std::uint32_t> source;  // Interleaving
    std::vector<std::size_t> first;     // [num_nodes]: first row of a node in `input`, for state 0
    Matrix input;                       // only computed rows
    MlpCache cache;
    std::vector<std::uint8_t> kept;      // like input, width values a row
    std::vector<std::uint32_t> largest;  // for max aggregation: [num_nodes * batch * half * width]
    Matrix output;                       // [num_nodes * batch * 2 * half, width]
  };
  void ForwardLevel(const StateBatch& states, std::size_t i, const Matrix& from, bool backward);
  void BackwardLevel(const StateBatch& states, std::size_t i, const Matrix& from, const Matrix& d_output,
                     Matrix* d_from, std::span<float> gradients);

  GraphSageOptions options_;
  Mlp transform_;
  MlpCache transform_cache_;
  std::vector<Level> levels_;
  Matrix out_;
  std::vector<float> norms_;
  std::vector<float> joined_;
  Matrix d_input_;
  Matrix d_levels_[2];
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_GRAPH_SAGE_H_
