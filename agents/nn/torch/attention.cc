#include "agents/nn/torch/attention.h"

#include <torch/autograd.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace emplace::agents {
namespace {

using Array = torch::Tensor;  // the project's Tensor is a different type
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// [segments * rows, heads * width] as [segments * heads, rows, width].
Array SplitHeads(const Array& rows, std::int64_t segments, std::int64_t heads) {
  const std::int64_t width = rows.size(1) / heads;
  return rows.view({segments, -1, heads, width}).transpose(1, 2).reshape({segments * heads, -1, width});
}

// The inverse of SplitHeads.
Array JoinHeads(const Array& heads_of, std::int64_t segments) {
  const std::int64_t heads = heads_of.size(0) / segments;
  const std::int64_t rows = heads_of.size(1);
  return heads_of.view({segments, heads, rows, -1}).transpose(1, 2).reshape({segments * rows, -1});
}

// `rows` with a row of zeros after the last one, for padding.
Array WithZeros(const Array& rows) { return torch::cat({rows, torch::zeros({1, rows.size(1)}, rows.options())}); }

// Several products of one matrix are computed as one: q, k and v beside each other.
struct Attention : torch::autograd::Function<Attention> {
  static Array forward(AutogradContext* context, const Array& rows, const Array& query, const Array& key,
                       const Array& value, std::int64_t heads, const std::vector<AttentionBlock>* blocks) {
    const double scale = 1 / std::sqrt(static_cast<double>(query.size(1) / heads));
    const std::int64_t inside = query.size(1);
    const Array weights = torch::cat({query * scale, key, value}, 1);
    const Array projected = WithZeros(rows.mm(weights));
    const Array queries = projected.narrow(1, 0, inside).contiguous();
    const Array keys = projected.narrow(1, inside, inside).contiguous();
    const Array values = projected.narrow(1, 2 * inside, inside).contiguous();
    const Array mixed = torch::empty_like(queries);
    variable_list saved = {rows, weights};
    for (const AttentionBlock& block : *blocks) {
      const Array q = SplitHeads(queries.index_select(0, block.own_rows), block.segments, heads);
      const Array k = SplitHeads(keys.index_select(0, block.seen_rows), block.segments, heads);
      const Array v = SplitHeads(values.index_select(0, block.seen_rows), block.segments, heads);
      const Array scores = q.bmm(k.transpose(1, 2)).view({block.segments, heads, block.own, block.seen});
      const Array shares = torch::softmax(scores.add_(block.weights), 3).view({-1, block.own, block.seen});
      mixed.index_copy_(0, block.own_rows, JoinHeads(shares.bmm(v), block.segments));
      saved.insert(saved.end(), {q, k, v, shares});
    }
    context->save_for_backward(saved);
    context->saved_data["heads"] = heads;
    context->saved_data["scale"] = scale;
    context->saved_data["blocks"] = reinterpret_cast<std::int64_t>(blocks);
    return mixed.narrow(0, 0, rows.size(0));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Array& rows = saved[0];
    const Array& weights = saved[1];
    const std::int64_t heads = context->saved_data["heads"].toInt();
    const double scale = context->saved_data["scale"].toDouble();
    const auto& blocks = *reinterpret_cast<const std::vector<AttentionBlock>*>(context->saved_data["blocks"].toInt());
    const Array d_mixed = WithZeros(gradients[0]);
    const std::int64_t inside = d_mixed.size(1);
    const Array d_queries = torch::zeros_like(d_mixed);
    const Array d_own = torch::zeros({d_mixed.size(0), 2 * inside}, d_mixed.options());  // gradients of keys and values
    const Array d_before =
        torch::zeros({d_mixed.size(0), 2 * inside}, d_mixed.options());  // gradients of the rows of a memory
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const AttentionBlock& block = blocks[i];
      const Array& q = saved[2 + 4 * i];
      const Array& k = saved[3 + 4 * i];
      const Array& v = saved[4 + 4 * i];
      const Array& shares = saved[5 + 4 * i];
      const Array d = SplitHeads(d_mixed.index_select(0, block.own_rows), block.segments, heads);
      const Array d_scores = at::_softmax_backward_data(d.bmm(v.transpose(1, 2)), shares, 2, torch::kFloat32);
      d_queries.index_copy_(0, block.own_rows, JoinHeads(d_scores.bmm(k), block.segments));
      const Array d_seen = torch::cat({JoinHeads(d_scores.transpose(1, 2).bmm(q), block.segments),
                                       JoinHeads(shares.transpose(1, 2).bmm(d), block.segments)},
                                      1)
                               .view({block.segments, block.seen, 2 * inside});
      const std::int64_t before = block.seen - block.own;
      const Array seen = block.seen_rows.view({block.segments, block.seen});
      d_before.index_copy_(0, seen.narrow(1, 0, before).reshape(-1),
                           d_seen.narrow(1, 0, before).reshape({-1, 2 * inside}));
      d_own.index_copy_(0, block.own_rows, d_seen.narrow(1, before, block.own).reshape({-1, 2 * inside}));
    }
    const std::int64_t tokens = rows.size(0);
    const Array of_own = torch::cat({d_queries, d_own}, 1).narrow(0, 0, tokens);
    const Array d_rows = of_own.mm(weights.t());
    of_own.narrow(1, inside, 2 * inside).add_(d_before.narrow(0, 0, tokens));
    const Array d_weights = rows.t().mm(of_own);
    return {d_rows,
            d_weights.narrow(1, 0, inside) * scale,
            d_weights.narrow(1, inside, inside),
            d_weights.narrow(1, 2 * inside, inside),
            Variable(),
            Variable()};
  }
};

struct Maximum : torch::autograd::Function<Maximum> {
  static Array forward(AutogradContext* context, const Array& from, const Array& table) {
    const Array rows = from.contiguous();
    const std::int64_t width = rows.size(1);
    const std::int64_t most = table.size(1);
    const Array largest = torch::zeros({table.size(0), width}, rows.options());
    const Array source = torch::full({table.size(0), width}, -1, torch::kInt32);
    const auto* const listed = table.data_ptr<std::int64_t>();
    for (std::int64_t v = 0; v < table.size(0); ++v) {
      float* const to = largest.data_ptr<float>() + v * width;
      auto* const whence = source.data_ptr<std::int32_t>() + v * width;
      for (std::int64_t k = 0; k < most && listed[v * most + k] < rows.size(0); ++k) {
        const auto other = static_cast<std::int32_t>(listed[v * most + k]);
        const float* const x = rows.data_ptr<float>() + other * width;
        for (std::int64_t i = 0; i < width; ++i) {
          whence[i] = x[i] > to[i] ? other : whence[i];
          to[i] = std::max(to[i], x[i]);
        }
      }
    }
    context->save_for_backward({source});
    context->saved_data["rows"] = rows.size(0);
    return largest;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Array source = context->get_saved_variables()[0];
    const Array d = gradients[0].contiguous();
    const std::int64_t width = d.size(1);
    const Array d_rows = torch::zeros({context->saved_data["rows"].toInt(), width}, d.options());
    for (std::int64_t v = 0; v < d.size(0); ++v) {
      const float* const from = d.data_ptr<float>() + v * width;
      const auto* const whence = source.data_ptr<std::int32_t>() + v * width;
      for (std::int64_t i = 0; i < width; ++i) {
        if (whence[i] >= 0) d_rows.data_ptr<float>()[whence[i] * width + i] += from[i];
      }
    }
    return {d_rows, Variable()};
  }
};

}  // namespace

std::vector<AttentionBlock> AttentionBlocks(const GraphTokens& tokens, std::int64_t most_rows, torch::Device device) {
  const std::size_t segments = tokens.begin.size() - 1;
  const auto size = [&](std::size_t s) { return static_cast<std::int64_t>(tokens.begin[s + 1] - tokens.begin[s]); };
  const auto before = [&](std::size_t s) { return s > 0 ? size(s - 1) : 0; };
  std::vector<std::size_t> order(segments);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return size(a) + before(a) < size(b) + before(b); });
  std::vector<AttentionBlock> blocks;
  const auto none = static_cast<std::int64_t>(tokens.classes.size());
  for (std::size_t first = 0; first < segments;) {
    AttentionBlock block;
    std::int64_t memory = 0;
    std::size_t last = first;
    while (last < segments) {
      const std::int64_t own = std::max(block.own, size(order[last]));
      if (last > first && own * (block.segments + 1) > most_rows) break;
      block.own = own;
      memory = std::max(memory, before(order[last]));
      ++block.segments;
      ++last;
    }
    block.seen = memory + block.own;
    std::vector<std::int64_t> own_rows;
    std::vector<std::int64_t> seen_rows;
    std::vector<float> weights;
    for (std::size_t i = first; i < last; ++i) {
      const auto begin = static_cast<std::int64_t>(tokens.begin[order[i]]);
      const auto add = [&](std::int64_t start, std::int64_t count, std::int64_t padded) {
        for (std::int64_t t = 0; t < padded; ++t) {
          seen_rows.push_back(t < count ? start + t : none);
          weights.push_back(t < count ? std::log(tokens.copies[static_cast<std::size_t>(start + t)]) : -INFINITY);
        }
      };
      add(begin - before(order[i]), before(order[i]), memory);
      add(begin, size(order[i]), block.own);
      own_rows.insert(own_rows.end(), seen_rows.end() - block.own, seen_rows.end());
    }
    block.own_rows = torch::tensor(own_rows, torch::kInt64).to(device);
    block.seen_rows = torch::tensor(seen_rows, torch::kInt64).to(device);
    block.weights = torch::tensor(weights, torch::kFloat32).to(device).view({block.segments, 1, 1, block.seen});
    blocks.push_back(std::move(block));
    first = last;
  }
  return blocks;
}

Array SegmentAttention(const Array& rows, const Array& query, const Array& key, const Array& value, std::int64_t heads,
                       const std::vector<AttentionBlock>& blocks) {
  return Attention::apply(rows, query, key, value, heads, &blocks);
}

Array MaximumOfRows(const Array& rows, const Array& table) { return Maximum::apply(rows, table); }

}  // namespace emplace::agents
