#ifndef EMPLACE_AGENTS_NN_TORCH_ATTENTION_H_
#define EMPLACE_AGENTS_NN_TORCH_ATTENTION_H_

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "agents/nn/graph_transformer.h"

namespace emplace::agents {

// Segments whose attention is computed together, padded to the largest of them. Tokens are indices of rows; padding is
// the index of the row after the last one.
struct AttentionBlock {
  std::int64_t segments = 0;
  std::int64_t own = 0;     // tokens of a segment, with padding
  std::int64_t seen = 0;    // tokens of the segment before and then its own, each with padding
  torch::Tensor own_rows;   // int64 [segments * own]
  torch::Tensor seen_rows;  // int64 [segments * seen]
  torch::Tensor weights;    // float [segments, 1, 1, seen]: log of a token's number of nodes, -infinity for padding
};

// Blocks of segments of similar size, with at most about `most_rows` of their own tokens.
std::vector<AttentionBlock> AttentionBlocks(const GraphTokens& tokens, std::int64_t most_rows, torch::Device device);

// softmax(q k^T / sqrt(head width)) v for each head, with q of a token and k and v of the tokens of its segment and the
// segment before. A token counts as often as it has nodes. No gradient goes to the rows of the segment before, except
// to the weights. rows: [tokens, width]; query, key and value: [width, heads * head width]. Result: [tokens, heads *
// head width].
torch::Tensor SegmentAttention(const torch::Tensor& rows, const torch::Tensor& query, const torch::Tensor& key,
                               const torch::Tensor& value, std::int64_t heads,
                               const std::vector<AttentionBlock>& blocks);

// The elementwise maximum of the rows that `table` lists, [nodes, most], an index beyond the last row where there are
// no more; 0 where there are none. Requires: rows, [rows, width], are positive and on the CPU. A gradient goes to the
// first of equal rows.
torch::Tensor MaximumOfRows(const torch::Tensor& rows, const torch::Tensor& table);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_TORCH_ATTENTION_H_
