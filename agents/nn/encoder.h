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

// What an encoder draws of a graph before it embeds it.
struct GraphSample {
  NodeLists neighbours;  // of each node; GraphSAGE
  // P-GNN: of each node and anchor set, the anchors that it is related to, with their weights; sets * nodes lists.
  using Anchor = WeightedNode;
  std::size_t num_sets = 0;
  WeightedNodeLists anchors;  // [num_sets * num_nodes]: of set s and node v at s * num_nodes + v
  bool operator==(const GraphSample&) const = default;
};

// Several states of one graph that are embedded together. Row n * batch() + b of a matrix is node n in state b.
struct StateBatch {
  const Topology* topology = nullptr;
  const GraphSample* sample = nullptr;
  Matrix features;                      // [num_nodes * batch, num_features]
  std::vector<std::uint32_t> currents;  // [batch]: the node that is to be placed
  std::vector<std::uint64_t> seeds;     // [batch]: of the state's dropout
  bool evaluating = false;              // no dropout, but in thesis_code's variants
  std::size_t batch() const { return currents.size(); }
  std::size_t num_nodes() const { return topology->num_nodes(); }
};

// A graph embedding: features of nodes in, embeddings of nodes out. Its weights are declared in a ParameterSet; its
// definition in tensors stands in autograd.cc, which tests hold this one against.
class Encoder {
 public:
  virtual ~Encoder() = default;

  virtual std::size_t out() const = 0;  // width of an embedding
  // Rows of a node's embedding, one under the other: row (n * batch + b) * rows_per_node() + r.
  virtual std::size_t rows_per_node() const { return 1; }
  // What it draws: once for a graph, or anew for every episode if redraws().
  virtual GraphSample Draw(const Topology&, Rng&) const { return {}; }
  virtual bool redraws() const { return false; }

  virtual void Pack(std::span<const float> values) = 0;
  // The result is valid until the next call. With `backward`, keeps what Backward needs.
  virtual const Matrix& Forward(const StateBatch& states, bool backward) = 0;
  // `d_out`: gradient by the result of the last Forward, which may be changed. Adds the gradient by the weights to
  // `gradients`.
  virtual void Backward(const StateBatch& states, Matrix& d_out, std::span<float> gradients) = 0;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_ENCODER_H_
