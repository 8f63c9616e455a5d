#ifndef EMPLACE_DATASETS_ATTENTION_H_
#define EMPLACE_DATASETS_ATTENTION_H_

#include <cstdint>
#include <string_view>

#include "datasets/builder.h"

// Parts of Transformers. Source: Vaswani et al. 2017, "Attention is all you need", sections 3.2 and 3.3.
namespace emplace::datasets {

// Throws InputError(OWNER) unless heads divide d_model.
void CheckHeads(std::string_view owner, std::int64_t d_model, std::int64_t heads);

// [batch, n, heads * width] to [batch, heads, n, width], and back.
Value SplitHeads(NetworkBuilder& net, Value x, std::int64_t heads, std::string_view name);
Value JoinHeads(NetworkBuilder& net, Value x, std::string_view name);

// softmax(scores * scale + mask) values, with dropout on the weights: scores [.., n, m], values
// [.., m, width] to [.., n, width]. `mask` is broadcast: 0, or very negative where nothing may
// look.
Value Attend(NetworkBuilder& net, Value scores, double scale, Value mask, Value values);

// Multi-head self-attention of x [batch, n, width] with one product for queries, keys and values, biases, and an output
// projection; variables under "qkv" and "output". Requires: heads divides width.
Value SelfAttention(NetworkBuilder& net, Value x, std::int64_t heads, Value mask);

// Two products with `activation` (relu, gelu) between, biases, and dropout if `inner_dropout` behind the first.
Value FeedForward(NetworkBuilder& net, Value x, std::int64_t inner, std::string_view activation, bool inner_dropout);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_ATTENTION_H_
