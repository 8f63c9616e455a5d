#ifndef EMPLACE_DATASETS_ATTENTION_H_
#define EMPLACE_DATASETS_ATTENTION_H_

#include <cstdint>
#include <string_view>

#include "datasets/builder.h"
#include "sim/base/options.h"

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

// Attention as one op, which neither keeps nor moves scores: queries [batch, heads, n, W], keys [batch, groups, m, W]
// and values [batch, groups, m, V], each group of which serves heads / groups heads, to [batch, heads, n, V].
// Statistics of each row are kept for the gradient, f32. Source: Dao 2023, "FlashAttention-2".
struct FusedAttention {
  bool causal = true;
  double scale = 1;
  std::int64_t window = 0;  // keys that a query sees, itself included; 0: all
  double softcap = 0;       // scores are softcap * tanh(scores / softcap); 0: as they are
  Value bias = {};          // [heads, n, m], added to the scores
  Value sinks = {};         // [heads], one more score for each row, without a value
};
Value Attend(NetworkBuilder& net, Value queries, Value keys, Value values, const FusedAttention& options);

// Multi-head self-attention of x [batch, n, width] with one product for queries, keys and values, biases, and an output
// projection; variables under "qkv" and "output". Requires: heads divides width.
Value SelfAttention(NetworkBuilder& net, Value x, std::int64_t heads, Value mask);
// The same with attention as one op.
Value SelfAttention(NetworkBuilder& net, Value x, std::int64_t heads, bool causal);
// Declares "attention": fused or unfused. Returns whether it is fused.
bool ReadFusedAttention(OptionReader& reader, bool fused);

// Two products with `activation` (relu, gelu) between, biases, and dropout if `inner_dropout` behind the first.
Value FeedForward(NetworkBuilder& net, Value x, std::int64_t inner, std::string_view activation, bool inner_dropout);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_ATTENTION_H_
