#ifndef EMPLACE_AGENTS_NN_ENCODER_H_
#define EMPLACE_AGENTS_NN_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agents/nn/kernel.h"
#include "agents/nn/topology.h"
#include "sim/base/rng.h"

namespace emplace::agents {

// The sample that an encoder takes from a graph before it embeds it.
struct GraphSample {
  NodeLists neighbours;  // indexed by node; for GraphSAGE
  // P-GNN: the related anchors and their weights, for each anchor set and node.
  using Anchor = WeightedNode;
  std::size_t num_sets = 0;
  WeightedNodeLists anchors;  // [num_sets * num_nodes]: set s and node v at index s * num_nodes + v
  bool operator==(const GraphSample&) const = default;
};

// Several states of one graph that are embedded together. Row n * batch() + b of a matrix is node n in state b.
struct StateBatch {
  const Topology* topology = nullptr;
  const GraphSample* sample = nullptr;
  Matrix features;                      // [num_nodes * batch, num_features]
  std::vector<std::uint32_t> currents;  // [batch]: the node to be placed
  std::vector<std::uint64_t> seeds;     // [batch]: seed of the state's dropout
  bool evaluating = false;              // no dropout, except in the variants of thesis_code
  std::size_t batch() const { return currents.size(); }
  std::size_t num_nodes() const { return topology->num_nodes(); }
};

// A graph embedding: maps features of nodes to embeddings of nodes. Its weights are declared in a ParameterSet. Tests
// compare it with its definition in tensors in agents/nn/torch/autograd.cc.
class Encoder {
 public:
  virtual ~Encoder() = default;

  virtual std::size_t out() const = 0;  // width of an embedding
  // Number of consecutive rows of a node's embedding: row (n * batch + b) * rows_per_node() + r.
  virtual std::size_t rows_per_node() const { return 1; }
  // Samples once for a graph, or for every episode if redraws().
  virtual GraphSample Draw(const Topology&, Rng&) const { return {}; }
  virtual bool redraws() const { return false; }

  virtual void Pack(std::span<const float> values) = 0;
  // The result is valid until the next call. With `backward`, keeps what Backward needs.
  virtual const Matrix& Forward(const StateBatch& states, bool backward) = 0;
  // `d_out`: gradient with respect to the result of the last Forward; may be changed. Adds the gradient with respect to
  // the weights to `gradients`.
  virtual void Backward(const StateBatch& states, Matrix& d_out, std::span<float> gradients) = 0;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_ENCODER_H_
