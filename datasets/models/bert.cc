#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "datasets/attention.h"
#include "datasets/layers.h"
#include "datasets/models/models.h"
#include "datasets/training.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kPositions = 512;  // value of the published models, however short the sequences
constexpr std::int64_t kSegments = 2;

struct BertOptions {
  std::int64_t layers = 12;
  std::int64_t d_model = 768;
  std::int64_t heads = 12;
  std::int64_t sequence = 128;
  std::int64_t predictions = 20;
  std::int64_t batch = 32;
  std::int64_t vocabulary = 30522;
  bool fused_attention = false;  // then padding is taken to be left out of the tensors
};

Value AddNorm(NetworkBuilder& net, std::string_view name, Value x, Value y) {
  const auto scope = net.Within(name);
  return LayerNorm(net, Binary(net, "add", x, Dropout(net, y)));
}

Value Block(NetworkBuilder& net, Value x, const BertOptions& options, Value mask) {
  const Value attended = options.fused_attention ? SelfAttention(net, x, options.heads, /*causal=*/false)
                                                 : SelfAttention(net, x, options.heads, mask);
  x = AddNorm(net, "residual1", x, attended);
  return AddNorm(net, "residual2", x, FeedForward(net, x, 4 * options.d_model, "gelu", false));
}

Value Embed(NetworkBuilder& net, Value table, const BertOptions& options) {
  const Value tokens = net.Input("tokens", DType::kI32, {options.batch, options.sequence});
  const Value segments = net.Input("segments", DType::kI32, {options.batch, options.sequence});
  const std::int64_t num_positions = std::max(kPositions, options.sequence);
  Value positions = net.Variable("positions", {num_positions, options.d_model});
  if (num_positions > options.sequence) positions = Slice(net, positions, {0, 0}, {options.sequence, options.d_model});
  Value segment_rows;
  {
    const auto scope = net.Within("segment");
    segment_rows = Embedding(net, segments, kSegments, options.d_model);
  }
  Value x = Binary(net, "add", Gather(net, table, tokens), segment_rows, "with_segments");
  x = Binary(net, "add", x, positions, "with_positions");
  return Dropout(net, LayerNorm(net, x));
}

// The masked words, from their last states through a dense layer and the table of embeddings.
Value MaskedWordLoss(NetworkBuilder& net, Value x, Value table, const BertOptions& options) {
  const std::int64_t count = options.batch * options.predictions;
  Value logits;
  {
    const auto scope = net.Layer("masked_words");
    const Value rows = Reshape(net, x, {options.batch * options.sequence, options.d_model});
    const Value picked = Gather(net, rows, net.Input("masked_positions", DType::kI32, {count}));
    Value transformed;
    {
      const auto transform = net.Within("transform");
      transformed = LayerNorm(net, Unary(net, "gelu", Dense(net, picked, options.d_model)));
    }
    const Value bias = net.Variable("output_bias", {options.vocabulary});
    logits = BiasAdd(net, MatMul(net, transformed, table, /*transposed=*/true, "logits"), bias);
  }
  const auto scope = net.Layer("masked_word_loss");
  const Value labels = net.Input("masked_words", DType::kI32, {count});
  return Reduce(net, "reduce_mean", SoftmaxCrossEntropy(net, logits, labels), {0});
}

// Whether the second segment follows the first, from the first token's last state.
Value NextSentenceLoss(NetworkBuilder& net, Value x, const BertOptions& options) {
  const auto scope = net.Layer("next_sentence");
  const Value first = Slice(net, x, {0, 0, 0}, {options.batch, 1, options.d_model});
  Value pooled = Reshape(net, first, {options.batch, options.d_model});
  {
    const auto pooler = net.Within("pooler");
    pooled = Unary(net, "tanh", Dense(net, pooled, options.d_model));
  }
  const Value labels = net.Input("is_next", DType::kI32, {options.batch});
  return Reduce(net, "reduce_mean", SoftmaxCrossEntropy(net, Dense(net, pooled, 2), labels), {0});
}

}  // namespace

Graph MakeBert(OptionReader& reader) {
  BertOptions options;
  TrainingOptions training = {.optimizer = "adam", .clip_gradients = true, .average_variables = false};
  reader.Read("layers", &options.layers, 1, 1024, "Transformer blocks");
  reader.Read("d_model", &options.d_model, 1, 65536, "width of the hidden states");
  reader.Read("heads", &options.heads, 1, 1024, "attention heads; divide d_model");
  reader.Read("sequence", &options.sequence, 1, 65536, "tokens of a pair of sentences");
  reader.Read("predictions", &options.predictions, 1, 65536, "masked words of a pair");
  reader.Read("batch", &options.batch, 1, 65536, "pairs of sentences in a step");
  reader.Read("vocabulary", &options.vocabulary, 1, 10000000, "number of word pieces");
  options.fused_attention = ReadFusedAttention(reader, options.fused_attention);
  const DType precision = ReadPrecision(reader);
  training.f32_masters = precision != DType::kF32;
  ReadTrainingOptions(reader, &training);
  reader.Finish();
  CheckHeads("bert", options.d_model, options.heads);
  if (options.predictions > options.sequence) {
    throw InputError("bert", fmt::format("predictions must be at most sequence, which is {}, got {}", options.sequence,
                                         options.predictions));
  }

  NetworkBuilder net("bert", precision);
  Value table;
  Value mask;
  Value x;
  {
    const auto scope = net.Layer("embedding");
    if (!options.fused_attention) {
      mask = net.Input("padding_mask", precision, {options.batch, 1, 1, options.sequence});
    }
    table = net.Variable("table", {options.vocabulary, options.d_model});
    x = Embed(net, table, options);
  }
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const auto scope = net.Layer(fmt::format("block{}", layer));
    x = Block(net, x, options, mask);
  }
  const Value words = MaskedWordLoss(net, x, table, options);
  const Value next = NextSentenceLoss(net, x, options);
  const auto scope = net.Layer("loss");
  return BuildTrainingGraph(net, Binary(net, "add", words, next), training);
}

}  // namespace emplace::datasets
