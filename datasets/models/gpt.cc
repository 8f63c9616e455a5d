#include <fmt/format.h>

#include <vector>

#include "datasets/attention.h"
#include "datasets/experts.h"
#include "datasets/layers.h"
#include "datasets/models/models.h"
#include "datasets/training.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

struct GptOptions {
  std::int64_t layers = 12;
  std::int64_t d_model = 768;
  std::int64_t heads = 12;
  std::int64_t sequence = 1024;
  std::int64_t batch = 8;
  std::int64_t vocabulary = 50257;
  bool fused_attention = false;
  ExpertOptions mixture;  // without experts: one MLP
};

Value Normalize(NetworkBuilder& net, std::string_view name, Value x) {
  const auto scope = net.Within(name);
  return LayerNorm(net, x);
}

// x + dropout(attention(norm(x))), then the same with the feed-forward part.
Value Block(NetworkBuilder& net, Value x, const GptOptions& options, Value mask) {
  const Value normal = Normalize(net, "norm1", x);
  const Value attended = options.fused_attention ? SelfAttention(net, normal, options.heads, /*causal=*/true)
                                                 : SelfAttention(net, normal, options.heads, mask);
  {
    const auto scope = net.Within("residual1");
    x = Binary(net, "add", x, Dropout(net, attended));
  }
  const Value normalized = Normalize(net, "norm2", x);
  const std::int64_t inner = 4 * options.d_model;
  const Value fed = options.mixture.experts > 0 ? MixtureOfExperts(net, normalized, inner, options.mixture)
                                                : FeedForward(net, normalized, inner, "gelu", false);
  const auto scope = net.Within("residual2");
  return Binary(net, "add", x, Dropout(net, fed));
}

}  // namespace

Graph MakeGpt(OptionReader& reader) {
  GptOptions options;
  TrainingOptions training = {.optimizer = "adam", .clip_gradients = true, .average_variables = false};
  reader.Read("layers", &options.layers, 1, 1024, "Transformer blocks");
  reader.Read("d_model", &options.d_model, 1, 65536, "width of the residual stream");
  reader.Read("heads", &options.heads, 1, 1024, "attention heads; divide d_model");
  reader.Read("sequence", &options.sequence, 1, 65536, "tokens of a sequence");
  reader.Read("batch", &options.batch, 1, 65536, "sequences in a step");
  reader.Read("vocabulary", &options.vocabulary, 1, 10000000, "number of tokens");
  ExpertOptions& mixture = options.mixture;
  reader.Read("experts", &mixture.experts, 0, 65536, "experts in each block instead of an MLP; 0: MLP");
  reader.Read("top_k", &mixture.top_k, 1, 2, "experts per token");
  reader.Read("capacity_factor", &mixture.capacity_factor, 0.01, 1000,
              "capacity of an expert relative to its average number of tokens");
  options.fused_attention = ReadFusedAttention(reader, options.fused_attention);
  const DType precision = ReadPrecision(reader);
  training.f32_masters = precision != DType::kF32;
  ReadTrainingOptions(reader, &training);
  reader.Finish();
  CheckHeads("gpt", options.d_model, options.heads);

  if (mixture.experts > 0 && mixture.top_k > mixture.experts) {
    throw InputError("gpt",
                     fmt::format("top_k must be at most experts, which is {}, got {}", mixture.experts, mixture.top_k));
  }

  NetworkBuilder net("gpt", precision);
  Value table;
  Value mask;
  Value x;
  {
    const auto scope = net.Layer("embedding");
    const Value tokens = net.Input("tokens", DType::kI32, {options.batch, options.sequence});
    if (!options.fused_attention) mask = net.Input("causal_mask", precision, {options.sequence, options.sequence});
    table = net.Variable("table", {options.vocabulary, options.d_model});
    const Value positions = net.Variable("positions", {options.sequence, options.d_model});
    x = Dropout(net, Binary(net, "add", Gather(net, table, tokens), positions, "with_positions"));
  }
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const auto scope = net.Layer(fmt::format("block{}", layer));
    x = Block(net, x, options, mask);
  }
  Value logits;
  {
    const auto scope = net.Layer("projection");
    const Value last = Normalize(net, "norm", x);
    const Value rows = Reshape(net, last, {options.batch * options.sequence, options.d_model});
    logits = MatMul(net, rows, table, /*transposed=*/true, "logits");
  }
  const auto scope = net.Layer("loss");
  const Value labels = net.Input("labels", DType::kI32, {options.batch * options.sequence});
  const Value loss = Reduce(net, "reduce_mean", SoftmaxCrossEntropy(net, logits, labels), {0});
  return BuildTrainingGraph(net, loss, training);
}

}  // namespace emplace::datasets
