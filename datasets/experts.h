#ifndef EMPLACE_DATASETS_EXPERTS_H_
#define EMPLACE_DATASETS_EXPERTS_H_

#include <cstdint>

#include "datasets/builder.h"

namespace emplace::datasets {

struct ExpertOptions {
  std::int64_t experts = 0;
  std::int64_t top_k = 1;         // experts of a token
  double capacity_factor = 1.25;  // room for this many times the tokens that an expert gets on average
};

// Tokens of each expert: ceil(capacity_factor * top_k * tokens / experts). Those beyond are dropped.
std::int64_t ExpertCapacity(const ExpertOptions& options, std::int64_t tokens);

// A mixture of experts of x [batch, n, width], each two products with gelu between and biases, as FeedForward. Softmax
// of one product gives each token's probabilities; `route_tokens` picks top_k experts of each and gives them room in
// the order of tokens; tokens are gathered to [experts, capacity, width], and results back, times their probabilities.
// Sources: Lepikhin et al. 2020, "GShard", 2.2; Fedus et al. 2021, "Switch Transformers", 2.2. Left out: the loss that
// balances experts, noise of the choice, and scaling two probabilities to sum 1.
// Requires: top_k is at most experts.
Value MixtureOfExperts(NetworkBuilder& net, Value x, std::int64_t inner, const ExpertOptions& options);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_EXPERTS_H_
