#include <stdexcept>

#include "datasets/importers/onnx_rule_inputs.h"
#include "datasets/importers/onnx_rules.h"

namespace emplace::datasets {
namespace onnx_rule {
namespace {

// Whether heads are a dimension: [B, H, S, D], else [B, S, H * D].
bool IsSplit(const RuleDims& dims) { return dims.size() == 4; }

OnnxAttentionSizes PlainAttention(const Inputs& in) {
  const RuleDims& q = in.Dims(0);
  const RuleDims& k = in.Dims(1);
  const RuleDims& v = in.Dims(2);
  Expect(q.size() == k.size() && k.size() == v.size() && (q.size() == 3 || q.size() == 4),
         "its inputs have 3 or 4 dimensions each");
  OnnxAttentionSizes sizes;
  sizes.batch = q[0];
  sizes.heads = IsSplit(q) ? q[1] : in.node.Integer("q_num_heads", 0);
  sizes.key_heads = IsSplit(k) ? k[1] : in.node.Integer("kv_num_heads", 0);
  sizes.queries = IsSplit(q) ? q[2] : q[1];
  sizes.keys = IsSplit(k) ? k[2] : k[1];
  sizes.size = IsSplit(q) ? q[3] : Part(q[2], sizes.heads);
  sizes.value_size = IsSplit(v) ? v[3] : Part(v[2], sizes.key_heads);
  if (const RuleDims* const past = in.DimsOrNone(4)) {
    in.ExpectRank(4, 4);
    sizes.keys = Plus(sizes.keys, (*past)[2]);
  }
  return sizes;
}

// Attention and QAttention of ONNX Runtime: one product makes queries, keys and values.
OnnxAttentionSizes FusedAttention(const Inputs& in) {
  in.ExpectRank(0, 3);
  in.ExpectRank(1, 2);
  OnnxAttentionSizes sizes;
  sizes.batch = in.Dims(0)[0];
  sizes.queries = in.Dims(0)[1];
  sizes.keys = sizes.queries;
  sizes.heads = in.node.Integer("num_heads", 0);
  sizes.key_heads = sizes.heads;
  RuleDims widths = in.node.Integers("qkv_hidden_sizes");
  if (widths.empty()) widths.assign(3, Part(in.Dims(1)[1], 3));
  Expect(widths.size() == 3, "its widths are not three");
  sizes.size = Part(widths[0], sizes.heads);
  sizes.value_size = Part(widths[2], sizes.heads);
  const std::size_t past = in.node.op == "QAttention" ? 8 : 4;
  if (in.Has(past)) {
    in.ExpectRank(past, 5);
    sizes.keys = Plus(sizes.keys, in.Dims(past)[3]);
  }
  return sizes;
}

OnnxAttentionSizes MultiHeadAttention(const Inputs& in) {
  const RuleDims& q = in.Dims(0);
  OnnxAttentionSizes sizes;
  sizes.heads = in.node.Integer("num_heads", 0);
  sizes.key_heads = sizes.heads;
  Expect(q.size() == 3 || q.size() == 5, "its query has 3 or 5 dimensions");
  sizes.batch = q[0];
  sizes.queries = q[1];
  if (q.size() == 5) {  // [B, S, H, 3, D]
    sizes.keys = q[1];
    sizes.size = q[4];
    sizes.value_size = q[4];
  } else {
    sizes.size = Part(q[2], sizes.heads);
    const RuleDims& k = in.Dims(1);
    Expect(k.size() >= 3 && k.size() <= 5, "its key has 3 to 5 dimensions");
    sizes.keys = k.size() == 4 ? k[2] : k[1];
    sizes.value_size = sizes.size;
    if (k.size() != 5) {
      const RuleDims& v = in.Dims(2);
      Expect(v.size() == 3 || v.size() == 4, "its value has 3 or 4 dimensions");
      sizes.value_size = v.size() == 4 ? v[3] : Part(v[2], sizes.heads);
    }
  }
  if (in.Has(6)) {
    in.ExpectRank(6, 4);
    sizes.keys = Plus(sizes.keys, in.Dims(6)[2]);
  }
  return sizes;
}

OnnxAttentionSizes GroupQueryAttention(const Inputs& in) {
  in.ExpectRank(0, 3);
  OnnxAttentionSizes sizes;
  sizes.batch = in.Dims(0)[0];
  sizes.queries = in.Dims(0)[1];
  sizes.heads = in.node.Integer("num_heads", 0);
  sizes.key_heads = in.node.Integer("kv_num_heads", 0);
  const std::int64_t parts = in.Has(1) ? sizes.heads : Plus(sizes.heads, Times(2, sizes.key_heads));
  sizes.size = Part(in.Dims(0)[2], parts);
  sizes.value_size = sizes.size;
  const OnnxContent* const total = in.Content(6);
  sizes.keys = sizes.queries;
  if (in.Has(3)) {
    in.ExpectRank(3, 4);
    sizes.keys = Plus(sizes.keys, in.Dims(3)[2]);
  }
  if (total != nullptr && total->integers.size() == 1 && total->integers[0] > 0) sizes.keys = total->integers[0];
  return sizes;
}

std::optional<OnnxAttentionSizes> AttentionSizes(const Inputs& in) {
  const OnnxNode& node = in.node;
  if (node.domain.empty() && node.op == "Attention") return PlainAttention(in);
  if (node.op == "FlexAttention") return PlainAttention(in);
  if (node.domain != "com.microsoft") return std::nullopt;
  if (node.op == "Attention" || node.op == "QAttention") return FusedAttention(in);
  if (node.op == "MultiHeadAttention") return MultiHeadAttention(in);
  if (node.op == "GroupQueryAttention") return GroupQueryAttention(in);
  return std::nullopt;
}

}  // namespace

void AttentionRule(const Inputs& in, Outputs* out) {
  const OnnxAttentionSizes s = PlainAttention(in);
  out->Set(0, in.ElementOf(0),
           IsSplit(in.Dims(0)) ? RuleDims{s.batch, s.heads, s.queries, s.value_size}
                               : RuleDims{s.batch, s.queries, Times(s.heads, s.value_size)});
  out->Set(1, in.ElementOf(1), {s.batch, s.key_heads, s.keys, s.size});
  out->Set(2, in.ElementOf(2), {s.batch, s.key_heads, s.keys, s.value_size});
  out->Set(3, in.ElementOf(0), {s.batch, s.heads, s.queries, s.keys});
}

void FusedAttentionRule(const Inputs& in, Outputs* out) {
  const OnnxAttentionSizes s = FusedAttention(in);
  const std::int32_t element = in.node.op == "QAttention" ? in.ElementOf(3) : in.ElementOf(0);
  out->Set(0, element, {s.batch, s.queries, Times(s.heads, s.value_size)});
  out->Set(1, element, {2, s.batch, s.heads, s.keys, s.size});
}

void MultiHeadAttentionRule(const Inputs& in, Outputs* out) {
  const OnnxAttentionSizes s = MultiHeadAttention(in);
  out->Set(0, in.ElementOf(0), {s.batch, s.queries, Times(s.heads, s.value_size)});
  out->Set(1, in.ElementOf(0), {s.batch, s.heads, s.keys, s.size});
  out->Set(2, in.ElementOf(0), {s.batch, s.heads, s.keys, s.value_size});
}

void GroupQueryAttentionRule(const Inputs& in, Outputs* out) {
  const OnnxAttentionSizes s = GroupQueryAttention(in);
  out->Set(0, in.ElementOf(0), {s.batch, s.queries, Times(s.heads, s.size)});
  // The buffer of the past may be longer than what is used of it.
  const std::int64_t kept = in.Has(3) ? std::max(s.keys, in.Dims(3)[2]) : s.keys;
  for (const std::size_t output : {1U, 2U}) out->Set(output, in.ElementOf(0), {s.batch, s.key_heads, kept, s.size});
}

// Queries [B, T, H * size]; a state [B, heads of keys, size, size of a value] that goes from position to position.
void LinearAttentionRule(const Inputs& in, Outputs* out) {
  in.ExpectRank(0, 3);
  in.ExpectRank(2, 3);
  const std::int64_t heads = in.node.Integer("q_num_heads", 0);
  const std::int64_t key_heads = in.node.Integer("kv_num_heads", 0);
  const std::int64_t size = Part(in.Dims(0)[2], heads);
  const std::int64_t value_size = Part(in.Dims(2)[2], key_heads);
  out->Set(0, in.ElementOf(0), {in.Dims(0)[0], in.Dims(0)[1], Times(heads, value_size)});
  out->Set(1, in.Has(3) ? in.ElementOf(3) : in.ElementOf(0), {in.Dims(0)[0], key_heads, size, value_size});
}

}  // namespace onnx_rule

std::optional<OnnxAttentionSizes> OnnxAttentionOf(const OnnxNode& node, const OnnxOperands& inputs) {
  try {
    return onnx_rule::AttentionSizes({node, inputs});
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

}  // namespace emplace::datasets
