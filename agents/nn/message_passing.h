#ifndef EMPLACE_AGENTS_NN_MESSAGE_PASSING_H_
#define EMPLACE_AGENTS_NN_MESSAGE_PASSING_H_

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "agents/nn/encoder.h"
#include "agents/nn/mlp.h"
#include "agents/nn/parameters.h"

namespace emplace::agents {

struct MessagePassingOptions {
  std::size_t features = 0;
  std::size_t embedding = 0;         // width h of a node's embedding in one direction
  std::size_t hidden = 0;            // width of hidden layers
  std::size_t transform_hidden = 2;  // hidden layers of the node transform
  std::size_t message_hidden = 1;    // hidden layers of f and g
  std::size_t rounds = 0;            // 0: one sweep over the whole graph
};

// Placeto's graph embedding. x are the transformed features. f and g are small networks of each direction that end in
// a ReLU. pred(v) are the nodes from which v receives (successors in the backward direction).
//   sweep:   e_v = x_v + g(sum over u in pred(v) of f(e_u)), in topological order;
//   rounds:  e <- x + g(A f(e)), k times from e = x, A the adjacency.
// Nodes without predecessors keep e_v = x_v, so that the bias of g does not affect them. Result: both directions
// concatenated, width 2 h.
// Source: Addanki et al. 2019 (Placeto), appendix A.7, and its authors' code for details that the appendix omits.
class MessagePassing : public Encoder {
 public:
  MessagePassing(ParameterSet& parameters, const MessagePassingOptions& options);

  std::size_t out() const override { return 2 * embedding_; }
  void Pack(std::span<const float> values) override;
  const Matrix& Forward(const StateBatch& states, bool backward) override;
  void Backward(const StateBatch& states, Matrix& d_out, std::span<float> gradients) override;

 private:
  // One direction; rows are in the order of its levels.
  struct Direction {
    Direction(ParameterSet& parameters, const std::string& name, const MessagePassingOptions& options);
    Mlp message;                     // f
    Mlp aggregate;                   // g
    std::vector<Matrix> embeddings;  // e before each round; a sweep has one, filled level by level
    std::vector<Matrix> sums;        // sums of messages: inputs of g
    std::vector<MlpCache> message_caches;
    std::vector<MlpCache> aggregate_caches;
    Matrix result;  // after the last round
    Matrix d_embeddings;
    Matrix d_sums;
    Matrix change;
  };
  void ForwardSweep(const StateBatch& states, bool backward);
  void BackwardSweep(Direction& direction, const StateBatch& states, bool is_forward, std::span<float> gradients);
  void ForwardRounds(Direction& direction, const StateBatch& states, bool is_forward, bool backward);
  void BackwardRounds(Direction& direction, const StateBatch& states, bool is_forward, std::span<float> gradients);

  std::size_t embedding_;
  std::size_t rounds_;
  Mlp transform_;
  MlpCache transform_cache_;
  std::array<Direction, 2> directions_;
  Matrix out_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_MESSAGE_PASSING_H_
