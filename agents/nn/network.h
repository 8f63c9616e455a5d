#ifndef EMPLACE_AGENTS_NN_NETWORK_H_
#define EMPLACE_AGENTS_NN_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "agents/nn/encoder.h"
#include "agents/nn/graph_sage.h"
#include "agents/nn/heads.h"
#include "agents/nn/p_gnn.h"
#include "agents/nn/parameters.h"

namespace emplace::agents {

enum class Embedding : std::uint8_t { kPlaceto, kGraphSage, kPGnn };

// All options that determine a policy network.
struct NetworkOptions {
  Embedding embedding = Embedding::kPlaceto;
  bool thesis_code = false;       // GraphSAGE and P-GNN as in the thesis's code instead of its text
  bool paper_geometry = false;    // Placeto: widths of the paper's appendix instead of its code
  bool small_classifier = false;  // Placeto's small_nn: one hidden layer
  bool sum_head = false;          // one sum over all nodes instead of parents, children, parallel and self
  bool average = false;           // means instead of sums in the head
  std::size_t rounds = 0;         // rounds of Placeto's message passing; 0: a full sweep
  GraphSageOptions sage = {};     // `features` is set by the network
  PGnnOptions p_gnn = {};
  std::size_t features = 0;
  std::size_t num_devices = 0;
};

// A policy: maps a state of a graph to a logit for each device of its current node. With Placeto's embedding,
// tri-aggregation and the code's geometry it has 20,827, 32,495 and 54,842 parameters for 3, 5 and 8 devices.
class Network {
 public:
  explicit Network(const NetworkOptions& options);

  const NetworkOptions& options() const { return options_; }
  ParameterSet& parameters() { return parameters_; }
  const ParameterSet& parameters() const { return parameters_; }
  const Encoder& encoder() const { return *encoder_; }

  // Must be called after the weights have changed.
  void Pack();
  // Logits [batch, num_devices], valid until the next call.
  const Matrix& Forward(const StateBatch& states, bool backward = false);
  // Adds the gradient of a loss to `gradients`. `d_logits`: its gradient with respect to the last Forward's logits.
  void Backward(const StateBatch& states, const Matrix& d_logits, std::span<float> gradients);

 private:
  NetworkOptions options_;
  ParameterSet parameters_;
  std::unique_ptr<Encoder> encoder_;
  std::unique_ptr<PlacerHead> head_;
  const Matrix* embeddings_ = nullptr;
  Matrix d_embeddings_;
};

// Multiply-adds of one forward pass over one state of the graph: weights of all affine layers times the rows they are
// applied to. All related nodes and all rows of thesis_code are counted.
double ForwardMultiplyAdds(const Network& network, const Topology& topology, const GraphSample& sample);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_NETWORK_H_
