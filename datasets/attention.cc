#include "datasets/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "datasets/layers.h"
#include "sim/base/check.h"

namespace emplace::datasets {

void CheckHeads(std::string_view owner, std::int64_t d_model, std::int64_t heads) {
  if (d_model % heads == 0) return;
  throw InputError(std::string(owner), fmt::format("heads must divide d_model, which is {}, got {}", d_model, heads));
}

Value SplitHeads(NetworkBuilder& net, Value x, std::int64_t heads, std::string_view name) {
  const Shape shape = net.shape(x);
  EMPLACE_CHECK_EQ(shape[2] % heads, 0);
  const auto scope = net.Within(name);
  return Transpose(net, Reshape(net, x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

Value JoinHeads(NetworkBuilder& net, Value x, std::string_view name) {
  const Shape shape = net.shape(x);
  const auto scope = net.Within(name);
  return Reshape(net, Transpose(net, x, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

Value Attend(NetworkBuilder& net, Value scores, double scale, Value mask, Value values) {
  const Value scaled = Scale(net, scores, scale, "scaled_scores");
  const Value masked = Binary(net, "add", scaled, mask, "masked_scores");
  const Value weights = Dropout(net, Unary(net, "softmax", masked, "weights"));
  return BatchMatMul(net, weights, values, false, "context");
}

Value Attend(NetworkBuilder& net, Value queries, Value keys, Value values, const FusedAttention& options) {
  std::string attrs = fmt::format(R"({{"causal":{},"scale":{})", options.causal, options.scale);
  if (options.window > 0) attrs += fmt::format(R"(,"window":{})", options.window);
  if (options.softcap > 0) attrs += fmt::format(R"(,"softcap":{})", options.softcap);
  std::vector<Value> inputs = {queries, keys, values};
  if (options.bias.exists()) {
    attrs += R"(,"bias":true)";
    inputs.push_back(options.bias);
  }
  if (options.sinks.exists()) {
    attrs += R"(,"sinks":true)";
    inputs.push_back(options.sinks);
  }
  Shape rows = net.shape(queries);
  rows.pop_back();
  Shape shape = rows;
  shape.push_back(net.shape(values).back());
  return net
      .Forward("attention", "attention", std::move(inputs),
               {{.dtype = net.dtype(queries), .shape = std::move(shape)}, {.shape = std::move(rows)}}, attrs + "}")
      .front();
}

namespace {

// SelfAttention() with what lies between queries, keys and values and the context from `attend`.
template <typename Attention>
Value AttendToItself(NetworkBuilder& net, Value x, std::int64_t heads, Attention attend) {
  const auto scope = net.Within("attention");
  const std::int64_t width = net.shape(x)[2];
  EMPLACE_CHECK_EQ(width % heads, 0);
  std::vector<Value> parts;
  {
    const auto in_qkv = net.Within("qkv");
    parts = Split(net, Dense(net, x, 3 * width), 3, 2);
  }
  const Value queries = SplitHeads(net, parts[0], heads, "queries");
  const Value keys = SplitHeads(net, parts[1], heads, "keys");
  const Value values = SplitHeads(net, parts[2], heads, "values");
  const std::int64_t head_width = width / heads;
  const double scale = 1 / std::sqrt(static_cast<double>(head_width));
  const Value context = JoinHeads(net, attend(queries, keys, values, scale), "joined");
  const auto in_output = net.Within("output");
  return Dense(net, context, width);
}

}  // namespace

Value SelfAttention(NetworkBuilder& net, Value x, std::int64_t heads, Value mask) {
  return AttendToItself(net, x, heads, [&](Value queries, Value keys, Value values, double scale) {
    return Attend(net, BatchMatMul(net, queries, keys, true, "scores"), scale, mask, values);
  });
}

Value SelfAttention(NetworkBuilder& net, Value x, std::int64_t heads, bool causal) {
  return AttendToItself(net, x, heads, [&](Value queries, Value keys, Value values, double scale) {
    return Attend(net, queries, keys, values, {.causal = causal, .scale = scale});
  });
}

bool ReadFusedAttention(OptionReader& reader, bool fused) {
  std::string form = fused ? "fused" : "unfused";
  reader.Read("attention", &form, {"fused", "unfused"}, "as one op, which keeps no scores, or one for each product");
  return form == "fused";
}

Value FeedForward(NetworkBuilder& net, Value x, std::int64_t inner, std::string_view activation, bool inner_dropout) {
  const auto scope = net.Within("feed_forward");
  const std::int64_t width = net.shape(x).back();
  {
    const auto first = net.Within("inner");
    x = Unary(net, activation, Dense(net, x, inner));
    if (inner_dropout) x = Dropout(net, x);
  }
  const auto second = net.Within("outer");
  return Dense(net, x, width);
}

}  // namespace emplace::datasets
