#ifndef EMPLACE_AGENTS_NN_HEADS_H_
#define EMPLACE_AGENTS_NN_HEADS_H_

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "agents/nn/encoder.h"
#include "agents/nn/mlp.h"
#include "agents/nn/parameters.h"

namespace emplace::agents {

struct HeadOptions {
  std::size_t embedding = 0;                 // width a of the aggregated embeddings
  std::size_t hidden = 0;                    // width of the hidden layers and results of the aggregators
  std::size_t message_hidden = 1;            // hidden layers of f and g
  std::vector<std::size_t> classifier = {};  // widths of the hidden layers
  std::size_t num_devices = 0;
  bool average = false;  // divides each sum by the number of nodes in it
};

// Maps embeddings to a logit for each device.
class PlacerHead {
 public:
  virtual ~PlacerHead() = default;
  virtual void Pack(std::span<const float> values) = 0;
  // `embeddings` as an Encoder returns them. Returns logits [batch, num_devices], valid until the next call.
  virtual const Matrix& Forward(const StateBatch& states, const Matrix& embeddings, bool backward) = 0;
  // Fills *d_embeddings and adds to `gradients`.
  virtual void Backward(const StateBatch& states, const Matrix& embeddings, const Matrix& d_logits,
                        Matrix* d_embeddings, std::span<float> gradients) = 0;
};

// Placeto's head. The embeddings of all ancestors, all descendants and all parallel nodes of the current node are each
// summed after f and passed through g. Each of the three has its own weights. The classifier's input is the three
// results and the node's own embedding. Requires one row per node.
// Source: Addanki et al. 2019 (Placeto), its authors' code for the sets; Mitropolitsky 2020, section 2.5.
class RelationHead : public PlacerHead {
 public:
  RelationHead(ParameterSet& parameters, const HeadOptions& options);
  void Pack(std::span<const float> values) override;
  const Matrix& Forward(const StateBatch& states, const Matrix& embeddings, bool backward) override;
  void Backward(const StateBatch& states, const Matrix& embeddings, const Matrix& d_logits, Matrix* d_embeddings,
                std::span<float> gradients) override;

 private:
  struct Aggregator {
    Mlp message;
    Mlp aggregate;
    Matrix gathered;  // rows of the related nodes, of state 0, of state 1, ...
    std::vector<std::size_t> first;
    Matrix sums;  // [batch, hidden]
    MlpCache message_cache;
    MlpCache aggregate_cache;
    Matrix d_gathered;
    Matrix d_sums;
  };
  HeadOptions options_;
  std::vector<Aggregator> aggregators_;  // indexed by Relation
  Mlp classifier_;
  Matrix joined_;  // [batch, 3 hidden + embedding]
  MlpCache cache_;
  Matrix d_joined_;
};

// The thesis's head for GraphSAGE: one sum of f over all rows of all nodes, g, classifier. Only the features identify
// the current node.
class SumHead : public PlacerHead {
 public:
  SumHead(ParameterSet& parameters, const HeadOptions& options);
  void Pack(std::span<const float> values) override;
  const Matrix& Forward(const StateBatch& states, const Matrix& embeddings, bool backward) override;
  void Backward(const StateBatch& states, const Matrix& embeddings, const Matrix& d_logits, Matrix* d_embeddings,
                std::span<float> gradients) override;

 private:
  HeadOptions options_;
  Mlp message_;
  Mlp aggregate_;
  Mlp classifier_;
  Matrix sums_;
  MlpCache message_cache_;
  MlpCache aggregate_cache_;
  MlpCache cache_;
  Matrix d_sums_;
  Matrix d_aggregated_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_HEADS_H_
