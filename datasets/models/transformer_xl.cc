#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "datasets/attention.h"
#include "datasets/layers.h"
#include "datasets/models/models.h"
#include "datasets/training.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

struct XlOptions {
  std::int64_t layers = 2;
  std::int64_t batch = 64;
  std::int64_t sequence = 256;
  std::int64_t segment = 64;
  std::int64_t d_model = 500;
  std::int64_t ff = 1000;
  std::int64_t heads = 10;
  std::int64_t head_width = 50;
  std::int64_t vocabulary = 10000;
  std::int64_t softmax_words = 0;
  bool batches_heads = false;

  std::int64_t attention_width() const { return heads * head_width; }
};

// One layer's weights, which every segment reads.
class XlLayer {
 public:
  XlLayer(NetworkBuilder& net, const XlOptions& options, std::string layer)
      : net_(net), options_(options), layer_(std::move(layer)) {
    const auto scope = net.Layer(layer_);
    const std::int64_t width = options.attention_width();
    qkv_ = net.Variable("qkv_weights", {options.d_model, 3 * width});
    positions_ = net.Variable("position_weights", {options.d_model, width});
    content_bias_ = net.Variable("content_bias", {width});
    position_bias_ = net.Variable("position_bias", {width});
    output_ = net.Variable("output_weights", {width, options.d_model});
    norm1_ = MakeNorm("norm1");
    inner_weights_ = net.Variable("inner_weights", {options.d_model, options.ff});
    inner_bias_ = net.Variable("inner_bias", {options.ff});
    outer_weights_ = net.Variable("outer_weights", {options.ff, options.d_model});
    outer_bias_ = net.Variable("outer_bias", {options.d_model});
    norm2_ = MakeNorm("norm2");
  }

  // x [batch, segment, d_model], memory of the same shape, position encodings [2 * segment, d_model].
  Value Run(std::int64_t segment, Value x, Value memory, Value encodings, Value mask) const {
    const auto scope = net_.Layer(layer_);
    const auto in_segment = net_.Within(fmt::format("segment{}", segment));
    const Value attended = Attention(x, memory, encodings, mask);
    x = AddNorm("residual1", x, attended, norm1_);
    return AddNorm("residual2", x, Feed(x), norm2_);
  }

 private:
  struct Norm {
    Value gamma;
    Value beta;
  };

  Norm MakeNorm(std::string_view name) {
    const auto scope = net_.Within(name);
    return {.gamma = net_.Variable("gamma", {options_.d_model}), .beta = net_.Variable("beta", {options_.d_model})};
  }

  // Both products of the score of query i and key j (Dai et al. 2019, section 3.3): (q + u) k, and (q + v) r by
  // distance, shifted into place (appendix B); each head on its own.
  Value Attention(Value x, Value memory, Value encodings, Value mask) const {
    const auto scope = net_.Within("attention");
    const std::int64_t width = options_.attention_width();
    const Value extended = Concat(net_, {StopGradient(net_, memory), x}, 1, "extended");
    const Shape shape = net_.shape(x);
    const std::vector<Value> parts = Split(net_, MatMul(net_, extended, qkv_, false, "qkv"), 3, 2);
    const Value query = Slice(net_, parts[0], {0, net_.shape(extended)[1] - shape[1], 0}, {shape[0], shape[1], width});
    const Value positions = MatMul(net_, encodings, positions_, false, "positions");
    const double scale = 1 / std::sqrt(static_cast<double>(options_.head_width));
    if (options_.batches_heads) return AllHeads(query, parts, positions, scale, mask);
    const auto heads = [&](Value value, std::string_view name) {
      return Split(net_, value, static_cast<std::size_t>(options_.heads), net_.shape(value).size() - 1, name);
    };
    const std::vector<Value> by_content =
        heads(Binary(net_, "add", query, content_bias_, "query_u"), "content_queries");
    const std::vector<Value> by_position =
        heads(Binary(net_, "add", query, position_bias_, "query_v"), "position_queries");
    const std::vector<Value> keys = heads(parts[1], "keys");
    const std::vector<Value> values = heads(parts[2], "values");
    const std::vector<Value> distances = heads(positions, "distances");
    std::vector<Value> contexts;
    for (std::size_t head = 0; head < keys.size(); ++head) {
      const auto in_head = net_.Within(fmt::format("head{}", head));
      const Value content = BatchMatMul(net_, by_content[head], keys[head], true, "content_scores");
      const Value position = Shift(MatMul(net_, by_position[head], distances[head], true, "position_scores"));
      contexts.push_back(Attend(net_, Binary(net_, "add", content, position, "scores"), scale, mask, values[head]));
    }
    return MatMul(net_, Concat(net_, contexts, 2, "joined"), output_, false, "output");
  }

  // The same for all heads at once: [batch * heads, queries or keys, head_width]. `parts`: queries, keys and values.
  Value AllHeads(Value query, const std::vector<Value>& parts, Value positions, double scale, Value mask) const {
    const auto heads = [&](Value value, std::string_view name) {
      const Value split = SplitHeads(net_, value, options_.heads, name);
      const Shape shape = net_.shape(split);
      const auto in_name = net_.Within(name);
      return Reshape(net_, split, {shape[0] * shape[1], shape[2], shape[3]}, "rows");
    };
    const Value by_content = heads(Binary(net_, "add", query, content_bias_, "query_u"), "content_queries");
    const Value by_position = heads(Binary(net_, "add", query, position_bias_, "query_v"), "position_queries");
    const Shape shape = net_.shape(query);
    const std::int64_t length = net_.shape(positions)[0];
    const Value everywhere =
        Expand(net_, Reshape(net_, positions, {1, length, shape[2]}), {shape[0], length, shape[2]}, "everywhere");
    const Value content = BatchMatMul(net_, by_content, heads(parts[1], "keys"), true, "content_scores");
    const Value position =
        Shift(BatchMatMul(net_, by_position, heads(everywhere, "distances"), true, "position_scores"));
    const Value scores = Binary(net_, "add", content, position, "scores");
    Value context = Attend(net_, scores, scale, mask, heads(parts[2], "values"));
    context = Reshape(net_, context, {shape[0], options_.heads, shape[1], options_.head_width}, "context_by_head");
    return MatMul(net_, JoinHeads(net_, context, "joined"), output_, false, "output");
  }

  // Row i of [batch, queries, keys] moved left by queries - 1 - i: a column of zeros, and rows read on.
  Value Shift(Value scores) const {
    const auto scope = net_.Within("shift");
    const Shape shape = net_.shape(scores);
    const Value padded = Pad(net_, scores, {0, 0, 1}, {0, 0, 0});
    const Value turned = Reshape(net_, padded, {shape[0], shape[2] + 1, shape[1]}, "turned");
    const Value cut = Slice(net_, turned, {0, 1, 0}, {shape[0], shape[2], shape[1]});
    return Reshape(net_, cut, shape, "turned_back");
  }

  Value Feed(Value x) const {
    const auto scope = net_.Within("feed_forward");
    Value inner;
    {
      const auto in_inner = net_.Within("inner");
      inner = BiasAdd(net_, MatMul(net_, x, inner_weights_), inner_bias_);
      inner = Dropout(net_, Unary(net_, "relu", inner));
    }
    const auto in_outer = net_.Within("outer");
    return BiasAdd(net_, MatMul(net_, inner, outer_weights_), outer_bias_);
  }

  Value AddNorm(std::string_view name, Value x, Value y, const Norm& norm) const {
    const auto scope = net_.Within(name);
    return LayerNorm(net_, Binary(net_, "add", x, Dropout(net_, y)), norm.gamma, norm.beta);
  }

  NetworkBuilder& net_;
  const XlOptions& options_;
  std::string layer_;
  Value qkv_;
  Value positions_;
  Value content_bias_;
  Value position_bias_;
  Value output_;
  Value inner_weights_;
  Value inner_bias_;
  Value outer_weights_;
  Value outer_bias_;
  Norm norm1_;
  Norm norm2_;
};

void CheckSegments(const XlOptions& options) {
  if (options.sequence % options.segment == 0) return;
  throw InputError("transformer_xl",
                   fmt::format("segment must divide sequence, which is {}, got {}", options.sequence, options.segment));
}

// The loss of each word of a segment.
Value SegmentLoss(NetworkBuilder& net, std::int64_t segment, Value x, Value table, Value bias,
                  const XlOptions& options) {
  Value logits;
  const std::int64_t count = options.batch * options.segment;
  {
    const auto scope = net.Layer("projection");
    const auto in_segment = net.Within(fmt::format("segment{}", segment));
    const Value rows = Reshape(net, Dropout(net, x), {count, options.d_model});
    if (options.softmax_words > 0 && options.softmax_words < options.vocabulary) {
      table = Slice(net, table, {0, 0}, {options.softmax_words, options.d_model}, "common_words");
      bias = Slice(net, bias, {0}, {options.softmax_words}, "common_biases");
    }
    logits = BiasAdd(net, MatMul(net, rows, table, /*transposed=*/true, "logits"), bias);
  }
  const auto scope = net.Layer("loss");
  const auto in_segment = net.Within(fmt::format("segment{}", segment));
  return SoftmaxCrossEntropy(net, logits, net.Input("labels", DType::kI32, {count}));
}

struct XlInputs {
  Value table;
  Value bias;
  Value encodings;
  Value mask;
};

std::vector<Value> RunSegments(NetworkBuilder& net, const std::vector<XlLayer>& layers, std::vector<Value> memories,
                               const XlInputs& inputs, const XlOptions& options) {
  std::vector<Value> losses;
  for (std::int64_t segment = 0; segment < options.sequence / options.segment; ++segment) {
    Value x;
    Value encodings;
    {
      const auto scope = net.Layer("embedding");
      const auto in_segment = net.Within(fmt::format("segment{}", segment));
      const Value words = net.Input("words", DType::kI32, {options.batch, options.segment});
      const double scale = std::sqrt(static_cast<double>(options.d_model));
      x = Dropout(net, Scale(net, Gather(net, inputs.table, words), scale));
      const auto in_positions = net.Within("positions");
      encodings = Dropout(net, inputs.encodings);
    }
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      const Value next = layers[layer].Run(segment, x, memories[layer], encodings, inputs.mask);
      memories[layer] = x;  // the next segment may attend to the input of this layer
      x = next;
    }
    losses.push_back(SegmentLoss(net, segment, x, inputs.table, inputs.bias, options));
  }
  return losses;
}

}  // namespace

Graph MakeTransformerXl(OptionReader& reader) {
  XlOptions options;
  TrainingOptions training = {.optimizer = "adam", .clip_gradients = true, .average_variables = false};
  reader.Read("layers", &options.layers, 1, 1024, "Transformer layers");
  reader.Read("batch", &options.batch, 1, 65536, "sequences in a step");
  reader.Read("sequence", &options.sequence, 1, 65536, "words of a sequence");
  reader.Read("segment", &options.segment, 1, 65536, "words of a segment, and of the memory; divides sequence");
  reader.Read("d_model", &options.d_model, 1, 65536, "width of the hidden states");
  reader.Read("ff", &options.ff, 1, 262144, "width inside the feed-forward part");
  reader.Read("heads", &options.heads, 1, 1024, "attention heads");
  reader.Read("head_width", &options.head_width, 1, 65536, "width of a head");
  reader.Read("vocabulary", &options.vocabulary, 1, 10000000, "number of words");
  reader.Read("softmax_words", &options.softmax_words, 0, 10000000,
              "words that a loss compares, as the mean of an adaptive softmax; 0: all");
  std::string head_products = "separate";
  reader.Read("head_products", &head_products, {"separate", "batched"}, "products of each head, or of all at once");
  options.batches_heads = head_products == "batched";
  const DType precision = ReadPrecision(reader);
  training.f32_masters = precision != DType::kF32;
  ReadTrainingOptions(reader, &training);
  reader.Finish();
  CheckSegments(options);

  NetworkBuilder net("transformer_xl", precision);
  XlInputs inputs;
  std::vector<Value> memories;
  {
    const auto scope = net.Layer("embedding");
    inputs.table = net.Variable("table", {options.vocabulary, options.d_model});
    inputs.encodings = net.Input("position_encodings", precision, {2 * options.segment, options.d_model});
    inputs.mask = net.Input("causal_mask", precision, {options.segment, 2 * options.segment});
  }
  std::vector<XlLayer> layers;
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string name = fmt::format("layer{}", layer);
    layers.emplace_back(net, options, name);
    const auto scope = net.Layer(name);
    memories.push_back(net.Input("memory", precision, {options.batch, options.segment, options.d_model}));
  }
  {
    const auto scope = net.Layer("projection");
    inputs.bias = net.Variable("bias", {options.vocabulary});
  }
  const std::vector<Value> losses = RunSegments(net, layers, memories, inputs, options);
  const auto scope = net.Layer("loss");
  return BuildTrainingGraph(net, Reduce(net, "reduce_mean", Concat(net, losses, 0), {0}), training);
}

}  // namespace emplace::datasets
