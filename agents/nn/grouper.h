#ifndef EMPLACE_AGENTS_NN_GROUPER_H_
#define EMPLACE_AGENTS_NN_GROUPER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agents/nn/kernel.h"
#include "agents/nn/mlp.h"
#include "agents/nn/parameters.h"

namespace emplace::agents {

struct GrouperOptions {
  std::size_t num_kinds = 0;
  std::size_t kind_width = 20;  // width of the embedding of a kind
  std::size_t numbers = 0;      // number of numeric features of an op
  std::size_t hidden = 64;
  std::size_t groups = 0;
};

// The Hierarchical Planner's Grouper: a distribution over groups for each op. Inputs are the op's embedded kind and
// numeric features, through one hidden layer. Uses plain kernels. Source: Mirhoseini et al. 2018, section 2; its ReLU,
// which the published code lacks, is ours.
class Grouper {
 public:
  explicit Grouper(const GrouperOptions& options);

  ParameterSet& parameters() { return parameters_; }
  const ParameterSet& parameters() const { return parameters_; }
  // Must be called after the weights have changed.
  void Pack();
  // Logits [num_ops, groups] from kinds [num_ops] and numbers [num_ops, numbers]. Valid until the next call.
  const Matrix& Forward(std::span<const std::uint32_t> kinds, const Matrix& numbers);
  // Adds the gradient of a loss to `gradients`. `d_logits`: its gradient with respect to the last Forward's logits.
  void Backward(std::span<const std::uint32_t> kinds, const Matrix& d_logits, std::span<float> gradients);

 private:
  GrouperOptions options_;
  ParameterSet parameters_;  // "kinds" [num_kinds, kind_width], "grouper.{0,1}.{weight,bias}"
  Mlp mlp_;
  Matrix inputs_;
  Matrix d_inputs_;
  MlpCache cache_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_GROUPER_H_
