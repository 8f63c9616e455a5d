#include "datasets/models/transformer_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/attention.h"
#include "datasets/experts.h"
#include "datasets/layers.h"
#include "datasets/models/models.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

class StepBuilder {
 public:
  StepBuilder(const TransformerNetwork& network, const TransformerStep& step)
      : network_(network), step_(step), net_(network.name, step.precision) {}

  Graph Build() {
    Value memory;  // what the encoder says of its tokens
    if (network_.encoder_layers > 0) {
      stack_ = "model.encoder";
      const std::int64_t length = step_.encoder_sequence > 0 ? step_.encoder_sequence : step_.sequence;
      memory = Stack(network_.encoder_layers, length, {});
      memory = Norm(stack_ + ".norm", memory);
      stack_ = "model.decoder";
    }
    Value hidden = Stack(network_.layers, step_.sequence, memory);
    Value loss = Loss("", Norm(stack_ + ".norm", hidden));
    for (std::int64_t i = 0; i < network_.mtp_layers; ++i) {
      const std::string path = fmt::format("{}.layers.{}", stack_, network_.layers + i);
      module_ = path;
      hidden = PredictFurther(path, hidden, i);
      const Value further = Loss(path + ".shared_head.", Norm(path + ".shared_head.norm", hidden));
      const auto scope = net_.Layer(path + ".shared_head.loss");
      constexpr double kWeight = 0.3;  // DeepSeek-V3, section 4.2
      loss = Binary(net_, "add", loss, Scale(net_, further, kWeight, "weighted"), "with_further");
    }
    return BuildTrainingGraph(net_, loss, step_.training);
  }

 private:
  // ---- Modules without modules

  // A variable of the layer that is open. Modules that predict further tokens may have the same.
  Value Weight(std::string_view name, Shape shape) {
    const bool is_shared = network_.mtp_shared && !module_.empty() && net_.layer().starts_with(module_ + ".");
    if (!is_shared) return net_.Variable(name, std::move(shape));
    Value& known = shared_[fmt::format("{}/{}", net_.layer().substr(module_.size()), name)];
    if (!known.exists()) known = net_.Variable(name, std::move(shape));
    return known;
  }

  Value Linear(const std::string& path, Value x, std::int64_t outputs, bool bias) {
    const auto scope = net_.Layer(path);
    const Value product = MatMul(net_, x, Weight("weight", {outputs, net_.shape(x).back()}), /*transposed=*/true);
    return bias ? BiasAdd(net_, product, Weight("bias", {outputs})) : product;
  }

  Value Norm(const std::string& path, Value x) {
    const auto scope = net_.Layer(path);
    const std::int64_t width = net_.shape(x).back();
    const Value weight = Weight("weight", {width});
    if (network_.norm == NormKind::kRms) return RmsNorm(net_, x, weight);
    const Value bias = network_.norm_bias ? Weight("bias", {width}) : Fill(net_, {width}, "no_bias");
    return LayerNorm(net_, x, weight, bias);
  }

  Value Embed(std::int64_t length, std::string_view tokens = "tokens") {
    const auto scope = net_.Layer("model.embed_tokens");
    if (!table_.exists()) table_ = Weight("weight", {network_.vocabulary, network_.d_model});
    const Value ids = net_.Input(tokens, DType::kI32, {step_.batch, length});
    const auto rows = net_.Within(tokens);
    return EmbeddingRows(net_, table_, ids);
  }

  // ---- Attention

  // [batch, n, heads * width] to [batch, heads, n, width].
  Value Heads(const std::string& path, std::string_view name, Value x, std::int64_t heads) {
    const auto scope = net_.Layer(path);
    const auto part = net_.Within(name);
    const Shape shape = net_.shape(x);
    return Permute(net_, Reshape(net_, x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3}, "permute");
  }

  Value Rotate(const std::string& path, std::string_view name, Value x) {
    if (network_.positions != PositionKind::kRotary) return x;
    const auto scope = net_.Layer(path);
    return net_.Forward(name, "rotary", {x, rotary_}, {{.dtype = net_.dtype(x), .shape = net_.shape(x)}}).front();
  }

  // Parts of these widths of the last dimension.
  std::vector<Value> SplitWidths(Value x, std::initializer_list<std::int64_t> widths, std::string_view name) {
    std::vector<NetworkBuilder::Output> parts;
    for (const std::int64_t width : widths) {
      parts.push_back({.dtype = net_.dtype(x), .shape = net_.shape(x)});
      parts.back().shape.back() = width;
    }
    return net_.Forward(name, "split", {x}, parts, fmt::format(R"({{"axis":{}}})", net_.shape(x).size() - 1));
  }

  std::vector<Value> SplitLast(Value x, std::int64_t first, std::string_view name) {
    return SplitWidths(x, {first, net_.shape(x).back() - first}, name);
  }

  struct HeadValues {
    Value queries;
    Value keys;
    Value values;
  };

  HeadValues LatentHeads(const std::string& path, Value x) {
    const LatentAttention& latent = *network_.latent;
    const std::int64_t heads = network_.heads;
    Value q = x;
    if (latent.q_rank > 0) {
      q = Norm(path + ".q_a_layernorm", Linear(path + ".q_a_proj", x, latent.q_rank, network_.qkv_bias));
    }
    q = Linear(path + (latent.q_rank > 0 ? ".q_b_proj" : ".q_proj"), q, heads * network_.key_width(), false);
    q = Rotate(path, "rotated_queries", Heads(path, "queries", q, heads));

    const Value narrow = Linear(path + ".kv_a_proj_with_mqa", x, latent.kv_rank + latent.rope_width, network_.qkv_bias);
    std::vector<Value> parts;
    {
      const auto scope = net_.Layer(path);
      parts = SplitLast(narrow, latent.kv_rank, "latent");
    }
    const Value wide = Linear(path + ".kv_b_proj", Norm(path + ".kv_a_layernorm", parts[0]),
                              heads * (latent.nope_width + latent.value_width), false);
    const Value shared = Rotate(path, "rotated_keys", Heads(path, "shared_keys", parts[1], 1));
    const Value joined = Heads(path, "keys_values", wide, heads);
    const auto scope = net_.Layer(path);
    parts = SplitLast(joined, latent.nope_width, "keys_and_values");
    Shape spread = net_.shape(shared);
    spread[1] = heads;
    const Value keys = Concat(net_, {parts[0], Expand(net_, shared, spread, "shared_keys/expand")}, 3, "keys");
    return {.queries = q, .keys = keys, .values = parts[1]};
  }

  HeadValues PlainHeads(const std::string& path, Value x, Value memory) {
    const auto product = [&](std::string_view name, Value from, std::int64_t heads) {
      return Linear(fmt::format("{}.{}", path, name), from, heads * network_.head_width, network_.qkv_bias);
    };
    const Value from = memory.exists() ? memory : x;
    HeadValues heads = {.queries = Heads(path, "queries", product("q_proj", x, network_.heads), network_.heads),
                        .keys = Heads(path, "keys", product("k_proj", from, network_.kv_heads), network_.kv_heads),
                        .values = Heads(path, "values", product("v_proj", from, network_.kv_heads), network_.kv_heads)};
    if (network_.qk_norm) {
      heads.queries = Norm(path + ".q_norm", heads.queries);
      heads.keys = Norm(path + ".k_norm", heads.keys);
    }
    if (memory.exists()) return heads;
    heads.queries = Rotate(path, "rotated_queries", heads.queries);
    heads.keys = Rotate(path, "rotated_keys", heads.keys);
    return heads;
  }

  // A copy of keys or values for each head of queries.
  Value Repeat(Value x, std::string_view name) {
    const Shape shape = net_.shape(x);
    if (shape[1] == network_.heads) return x;
    const auto scope = net_.Within(name);
    const std::int64_t times = network_.heads / shape[1];
    const Value apart = Reshape(net_, x, {shape[0], shape[1], 1, shape[2], shape[3]}, "apart");
    const Value copies = Expand(net_, apart, {shape[0], shape[1], times, shape[2], shape[3]});
    return Reshape(net_, copies, {shape[0], network_.heads, shape[2], shape[3]}, "copies");
  }

  Value Unfused(const HeadValues& heads, const FusedAttention& options) {
    Value scores = BatchMatMul(net_, heads.queries, Repeat(heads.keys, "repeated_keys"), true, "scores");
    scores = Scale(net_, scores, options.scale, "scaled_scores");
    if (options.softcap > 0) scores = Softcap(scores, options.softcap);
    if (options.bias.exists()) scores = Binary(net_, "add", scores, options.bias, "biased_scores");
    if (options.causal) {
      if (!mask_.exists()) mask_ = net_.Input("mask", step_.precision, {net_.shape(scores)[2], net_.shape(scores)[3]});
      scores = Binary(net_, "add", scores, mask_, "masked_scores");
    }
    const Value weights = Unary(net_, "softmax", scores, "weights");
    return BatchMatMul(net_, weights, Repeat(heads.values, "repeated_values"), false, "context");
  }

  Value Softcap(Value x, double cap) {
    const auto scope = net_.Within("softcap");
    return Scale(net_, Unary(net_, "tanh", Scale(net_, x, 1 / cap, "down")), cap, "up");
  }

  // x attends to itself, or to `memory` if there is one.
  Value Attention(const std::string& path, Value x, Value memory, bool causal, std::int64_t window) {
    const HeadValues heads = network_.latent ? LatentHeads(path, x) : PlainHeads(path, x, memory);
    const bool is_relative = network_.positions == PositionKind::kRelative;
    if (is_relative && !memory.exists() && !bias_.exists()) bias_ = RelativeBias(path, heads);
    Value context;
    {
      const auto scope = net_.Layer(path);
      const double scale = is_relative ? 1 : 1 / std::sqrt(static_cast<double>(network_.key_width()));
      FusedAttention options = {
          .causal = causal, .scale = scale, .window = window, .softcap = network_.attention_softcap};
      if (is_relative && !memory.exists()) options.bias = bias_;
      if (network_.sinks) options.sinks = Weight("sinks", {network_.heads});
      context = step_.fused_attention ? Attend(net_, heads.queries, heads.keys, heads.values, options)
                                      : Unfused(heads, options);
      const auto joined = net_.Within("joined");
      const Shape shape = net_.shape(context);
      context =
          Reshape(net_, Permute(net_, context, {0, 2, 1, 3}, "permute"), {shape[0], shape[2], shape[1] * shape[3]});
    }
    return Linear(path + ".o_proj", context, network_.d_model, network_.output_bias);
  }

  // A number for each head and distance of two tokens, from a table of ranges of distances.
  Value RelativeBias(const std::string& path, const HeadValues& heads) {
    const auto scope = net_.Layer(path + ".relative_attention_bias");
    const Value table = Weight("weight", {network_.relative_buckets, network_.heads});
    const Value ids = net_.Input("buckets", DType::kI32, {net_.shape(heads.queries)[2], net_.shape(heads.keys)[2]});
    return Permute(net_, EmbeddingRows(net_, table, ids), {2, 0, 1}, "permute");
  }

  // ---- MLPs and experts

  std::string_view GatedKind() const {
    switch (network_.activation) {
      case ActivationKind::kSilu:
        return "swiglu";
      case ActivationKind::kGelu:
        return "geglu";
      case ActivationKind::kRelu:
        return "reglu";
      case ActivationKind::kSquaredRelu:  // which no network gates
        break;
    }
    return "";
  }

  Value Mlp(const std::string& path, Value x, std::int64_t width) {
    const bool bias = network_.mlp_bias;
    Value gate;
    if (network_.gated) gate = Linear(path + ".gate_proj", x, width, bias);
    Value inner = Linear(path + ".up_proj", x, width, bias);
    {
      const auto scope = net_.Layer(path);
      inner = network_.gated ? Binary(net_, GatedKind(), gate, inner)
                             : Unary(net_, emplace::NameOf(network_.activation), inner);
    }
    return Linear(path + ".down_proj", inner, network_.d_model, bias);
  }

  // x [experts, tokens, inputs] times the weights of each expert.
  Value ExpertProduct(std::string_view name, Value x, std::int64_t outputs) {
    const Shape shape = net_.shape(x);
    const Value weights = Weight(fmt::format("{}_weight", name), {shape[0], outputs, shape[2]});
    const Value product = BatchMatMul(net_, x, weights, /*transposed=*/true, name);
    if (!network_.mlp_bias) return product;
    const Value bias = Weight(fmt::format("{}_bias", name), {shape[0], 1, outputs});
    return Binary(net_, "add", product, bias, fmt::format("{}_with_bias", name));
  }

  Value RoutedExperts(const std::string& path, Value rows) {
    const TransformerExperts& experts = network_.experts;
    const std::int64_t tokens = net_.shape(rows)[0];
    const std::int64_t capacity = ExpertCapacity(
        {.experts = experts.count, .top_k = experts.top_k, .capacity_factor = experts.load_imbalance}, tokens);
    const Value scores = Linear(path + ".gate", rows, experts.count, experts.router_bias);
    const std::int64_t width = experts.latent > 0 ? experts.latent : network_.d_model;
    if (experts.latent > 0) rows = Linear(path + ".fc1_latent_proj", rows, width, network_.mlp_bias);
    std::vector<Value> routes;
    Value fed;
    {
      const auto scope = net_.Layer(path);
      const Value probabilities = Unary(net_, experts.balance_bias ? "sigmoid" : "softmax", scores, "probabilities");
      routes = net_.Forward("route_tokens", "route_tokens", {probabilities},
                            {{.dtype = net_.dtype(rows), .shape = {tokens, experts.top_k}},
                             {.dtype = DType::kI32, .shape = {tokens, experts.top_k}},
                             {.dtype = DType::kI32, .shape = {experts.count, capacity}}});
      const auto dispatch = net_.Within("dispatch");
      fed = EmbeddingRows(net_, rows, routes[2]);
    }
    {
      const auto scope = net_.Layer(path + ".experts");
      fed =
          ExpertProduct(network_.gated ? "gate_up_proj" : "up_proj", fed, (network_.gated ? 2 : 1) * experts.d_expert);
      if (network_.gated) {
        const Shape shape = {experts.count, capacity, experts.d_expert};
        fed = net_.Forward(GatedKind(), GatedKind(), {fed}, {{.dtype = net_.dtype(fed), .shape = shape}}).front();
      } else {
        fed = Unary(net_, emplace::NameOf(network_.activation), fed);
      }
      fed = ExpertProduct("down_proj", fed, width);
    }
    Value sum;
    {
      const auto scope = net_.Layer(path);
      const auto combine = net_.Within("combine");
      const Value slots = Reshape(net_, fed, {experts.count * capacity, width}, "slots");
      const Value gates = Reshape(net_, routes[0], {tokens, experts.top_k, 1}, "gates");
      sum = Reduce(net_, "reduce_sum", Binary(net_, "mul", EmbeddingRows(net_, slots, routes[1]), gates), {1});
    }
    return experts.latent > 0 ? Linear(path + ".fc2_latent_proj", sum, network_.d_model, network_.mlp_bias) : sum;
  }

  Value Experts(const std::string& path, Value x) {
    const Shape shape = net_.shape(x);
    Value rows;
    {
      const auto scope = net_.Layer(path);
      rows = Reshape(net_, x, {shape[0] * shape[1], shape[2]}, "rows");
    }
    Value sum = RoutedExperts(path, rows);
    const TransformerExperts& experts = network_.experts;
    Value shared;
    if (experts.shared > 0) shared = Mlp(path + ".shared_experts", rows, experts.d_shared);
    const auto scope = net_.Layer(path);
    if (shared.exists()) sum = Binary(net_, "add", sum, shared, "with_shared");
    return Reshape(net_, sum, shape, "tokens");
  }

  // ---- Mamba

  Value Mamba(const std::string& path, Value x) {
    const MambaMixer& mamba = *network_.mamba;
    const Shape tokens = net_.shape(x);
    const Value projected = Linear(path + ".in_proj", x, mamba.projected_width(), false);
    std::vector<Value> parts;  // the gate, what is convolved, the steps
    {
      const auto scope = net_.Layer(path);
      parts = SplitWidths(projected, {mamba.inner(), mamba.conv_width(), mamba.heads}, "projected");
    }
    Value convolved;
    {
      const auto scope = net_.Layer(path + ".conv1d");
      const Value filters = Weight("weight", {mamba.conv_width(), mamba.kernel});
      convolved = net_.Forward("causal_conv1d", "causal_conv1d", {parts[1], filters},
                               {{.dtype = net_.dtype(x), .shape = net_.shape(parts[1])}})
                      .front();
      if (mamba.conv_bias) convolved = BiasAdd(net_, convolved, Weight("bias", {mamba.conv_width()}));
    }
    Value scanned;
    {
      const auto scope = net_.Layer(path);
      const std::int64_t states = mamba.groups * mamba.state;
      const std::vector<Value> xbc =
          SplitWidths(Unary(net_, "silu", convolved), {mamba.inner(), states, states}, "xbc");
      const auto apart = [&](Value value, std::int64_t count, std::int64_t width, std::string_view name) {
        return Reshape(net_, value, {tokens[0], tokens[1], count, width}, name);
      };
      const Shape result = {tokens[0], tokens[1], mamba.heads, mamba.head_width};
      const Shape chunks = {tokens[0], (tokens[1] + mamba.chunk - 1) / mamba.chunk, mamba.heads, mamba.head_width,
                            mamba.state};
      scanned =
          net_.Forward("selective_scan", "selective_scan",
                       {apart(xbc[0], mamba.heads, mamba.head_width, "x"), parts[2],
                        apart(xbc[1], mamba.groups, mamba.state, "b"), apart(xbc[2], mamba.groups, mamba.state, "c"),
                        Weight("A_log", {mamba.heads}), Weight("D", {mamba.heads}), Weight("dt_bias", {mamba.heads})},
                       {{.dtype = net_.dtype(x), .shape = result}, {.dtype = DType::kF32, .shape = chunks}},
                       fmt::format(R"({{"chunk":{}}})", mamba.chunk))
              .front();
      scanned = Binary(net_, "swiglu", parts[0], Reshape(net_, scanned, net_.shape(parts[0]), "y"), "gated");
    }
    {
      // Over the channels of each group.
      const auto scope = net_.Layer(path + ".norm");
      const std::int64_t width = mamba.inner() / mamba.groups;
      const Value rows = Reshape(net_, scanned, {tokens[0], tokens[1], mamba.groups, width}, "groups");
      const Value normed = RmsNorm(net_, rows, Fill(net_, {width}, "no_scale"));
      scanned = Binary(net_, "mul", Reshape(net_, normed, net_.shape(scanned), "channels"),
                       Weight("weight", {mamba.inner()}), "scaled");
    }
    return Linear(path + ".out_proj", scanned, network_.d_model, false);
  }

  // ---- Layers

  // A layer of one part.
  Value PartLayer(const std::string& path, Value x, std::int64_t layer) {
    return Residual(path, "residual", x, ".norm", "", [&](Value y) {
      const LayerParts part = network_.PartsOf(layer);
      const std::string mixer = path + ".mixer";
      if (part.mamba) return Mamba(mixer, y);
      if (part.attention) return Attention(mixer, y, {}, true, network_.WindowOf(layer));
      return part.experts ? Experts(mixer, y) : Mlp(mixer, y, network_.d_ff);
    });
  }

  // x + what `part` makes of norm(x), normalised again where the network does so.
  template <typename Part>
  Value Residual(const std::string& path, std::string_view name, Value x, const std::string& norm,
                 const std::string& post_norm, Part part) {
    Value y = part(Norm(path + norm, x));
    if (network_.post_norms && !post_norm.empty()) y = Norm(path + post_norm, y);
    const auto scope = net_.Layer(path);
    return Binary(net_, "add", x, y, name);
  }

  Value Layer(const std::string& path, Value x, Value memory, bool causal, std::int64_t layer) {
    if (!network_.pattern.empty()) return PartLayer(path, x, layer);
    const bool is_encoder = stack_ == "model.encoder";
    x = Residual(path, "residual1", x, ".input_layernorm", ".post_attention_layernorm", [&](Value y) {
      return Attention(path + ".self_attn", y, {}, causal, is_encoder ? 0 : network_.WindowOf(layer));
    });
    if (memory.exists()) {
      x = Residual(path, "residual_encoder", x, ".encoder_attn_layernorm", "",
                   [&](Value y) { return Attention(path + ".encoder_attn", y, memory, false, 0); });
    }
    const std::string norm = network_.post_norms ? ".pre_feedforward_layernorm" : ".post_attention_layernorm";
    return Residual(path, "residual2", x, norm, ".post_feedforward_layernorm", [&](Value y) {
      const std::string mlp = path + ".mlp";
      return !is_encoder && network_.HasExperts(layer) ? Experts(mlp, y) : Mlp(mlp, y, network_.d_ff);
    });
  }

  Value Stack(std::int64_t layers, std::int64_t length, Value memory) {
    const bool is_encoder = stack_ == "model.encoder";
    Value x = Embed(length, is_encoder ? "encoder_tokens" : "tokens");
    if (network_.positions == PositionKind::kLearned) {
      Value positions;
      {
        const auto scope = net_.Layer("model.embed_positions");
        const Value table = Weight("weight", {network_.max_positions, network_.d_model});
        positions = EmbeddingRows(net_, table, net_.Input("ids", DType::kI32, {length}));
      }
      const auto scope = net_.Layer("model");
      x = Binary(net_, "add", x, positions, "with_positions");
    }
    if (network_.positions == PositionKind::kRotary) {
      const auto scope = net_.Layer(stack_ + ".rotary_emb");
      const std::int64_t width = network_.latent ? network_.latent->rope_width : network_.head_width;
      rotary_ = net_.Input("cos_sin", step_.precision, {length, width});
    }
    bias_ = {};
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      x = Layer(fmt::format("{}.layers.{}", stack_, layer), x, memory, !is_encoder, layer);
    }
    return x;
  }

  // The last state and the next token's embedding, each normalised, to the state of the token after it.
  Value PredictFurther(const std::string& path, Value hidden, std::int64_t module) {
    const Value next = Embed(step_.sequence, fmt::format("tokens_{}_ahead", module + 1));
    const Value a = Norm(path + ".enorm", next);
    const Value b = Norm(path + ".hnorm", hidden);
    Value both;
    {
      const auto scope = net_.Layer(path);
      both = Concat(net_, {a, b}, 2);
    }
    Value state = Linear(path + ".eh_proj", both, network_.d_model, false);
    if (network_.pattern.empty()) return Layer(path, state, {}, true, network_.layers + module);
    for (std::int64_t i = 0; i < network_.layers_of_mtp(); ++i) {
      state = PartLayer(fmt::format("{}.layers.{}", path, i), state, network_.layers + i);
    }
    return state;
  }

  // The mean cross-entropy of the output projection of normalised states. Modules have `prefix` in front.
  Value Loss(const std::string& prefix, Value x) {
    const std::int64_t tokens = step_.batch * step_.sequence;
    Value logits;
    {
      const auto scope = net_.Layer(prefix.empty() ? "lm_head" : prefix + "head");
      if (!output_.exists()) {
        output_ = network_.tied ? table_ : Weight("weight", {network_.vocabulary, network_.d_model});
      }
      logits = MatMul(net_, Reshape(net_, x, {tokens, network_.d_model}), output_, /*transposed=*/true, "logits");
      if (network_.logit_softcap > 0) logits = Softcap(logits, network_.logit_softcap);
    }
    const auto scope = net_.Layer(prefix + "loss");
    if (net_.dtype(logits) != DType::kF32) logits = Cast(net_, logits, DType::kF32);
    const Value labels = net_.Input("labels", DType::kI32, {tokens});
    return Reduce(net_, "reduce_mean", SoftmaxCrossEntropy(net_, logits, labels), {0});
  }

  const TransformerNetwork& network_;
  const TransformerStep& step_;
  NetworkBuilder net_;
  std::string stack_ = "model";
  Value table_;
  Value output_;
  Value rotary_;
  Value bias_;  // of relative positions, of the stack
  Value mask_;
  std::string module_;                   // of the module that predicts a further token, or empty
  std::map<std::string, Value> shared_;  // weights that all of these modules have, by their names in one
};

void ReadSizes(OptionReader& reader, TransformerNetwork* network) {
  constexpr std::int64_t kMostWidth = 1 << 20;
  const std::int64_t heads_before = network->heads;
  reader.Read("layers", &network->layers, 1, 4096, "Transformer blocks");
  reader.Read("encoder_layers", &network->encoder_layers, 0, 4096, "blocks of an encoder; 0: a decoder only");
  reader.Read("d_model", &network->d_model, 1, kMostWidth, "width of the residual stream");
  reader.Read("heads", &network->heads, 1, 65536, "attention heads");
  if (network->kv_heads == heads_before || network->kv_heads > network->heads) network->kv_heads = network->heads;
  reader.Read("kv_heads", &network->kv_heads, 1, 65536, "heads of keys and values; divide heads");
  if (reader.values().contains("d_model") || reader.values().contains("heads")) {
    network->head_width = std::max<std::int64_t>(1, network->d_model / network->heads);
  }
  reader.Read("head_width", &network->head_width, 1, 65536, "width of a head; d_model / heads if either is set");
  reader.Read("d_ff", &network->d_ff, 1, kMostWidth, "inner width of the MLP");
  reader.Read("vocabulary", &network->vocabulary, 1, 100'000'000, "number of tokens");
  reader.Read("max_positions", &network->max_positions, 0, 1 << 28, "rows of a learned table of positions");
}

template <typename Enum>
void ReadEnumOption(OptionReader& reader, std::string_view key, Enum* value, std::string_view help) {
  std::string text(emplace::NameOf(*value));
  std::vector<std::string_view> names;
  for (const auto& [known, name] : EnumNames<Enum>::kNames) names.push_back(name);
  reader.Read(key, &text, names, help);
  *value = *EnumOfName<Enum>(text);
}

void ReadParts(OptionReader& reader, TransformerNetwork* network) {
  reader.Read("tied", &network->tied, "the output projection is the table of embeddings");
  reader.Read("gated", &network->gated, "MLPs have a gate");
  ReadEnumOption(reader, "activation", &network->activation, "of MLPs");
  ReadEnumOption(reader, "norm", &network->norm, "kind of norms");
  reader.Read("norm_bias", &network->norm_bias, "layer norms add an offset");
  reader.Read("post_norms", &network->post_norms, "norms behind attention and MLP too");
  reader.Read("qk_norm", &network->qk_norm, "norms of queries and keys");
  ReadEnumOption(reader, "positions", &network->positions, "how tokens know their places");
  reader.Read("relative_buckets", &network->relative_buckets, 0, 65536, "rows of a table of relative positions");
  reader.Read("qkv_bias", &network->qkv_bias, "biases of queries, keys and values");
  reader.Read("output_bias", &network->output_bias, "bias behind attention");
  reader.Read("mlp_bias", &network->mlp_bias, "biases of MLPs");
  reader.Read("window", &network->window, 0, 1 << 28, "tokens that attention looks back at; 0: all");
  reader.Read("full_every", &network->full_every, 0, 4096, "every n-th layer has no window; 0: none");
  reader.Read("sinks", &network->sinks, "a trained sink of each head's attention");
}

void ReadExperts(OptionReader& reader, TransformerNetwork* network) {
  TransformerExperts& experts = network->experts;
  reader.Read("experts", &experts.count, 0, 65536, "experts of a layer instead of an MLP; 0: MLP");
  reader.Read("top_k", &experts.top_k, 1, 65536, "experts of a token");
  if (experts.count > 0 && experts.d_expert == 0) experts.d_expert = network->d_ff;
  reader.Read("d_expert", &experts.d_expert, 0, 1 << 20, "inner width of an expert; d_ff if experts are set");
  reader.Read("shared_experts", &experts.shared, 0, 65536, "experts of every token");
  if (reader.values().contains("shared_experts") || reader.values().contains("d_expert")) {
    experts.d_shared = experts.shared * experts.d_expert;
  }
  reader.Read("d_shared", &experts.d_shared, 0, 1 << 20, "inner width of all shared experts together");
  reader.Read("dense_first_layers", &experts.dense_first_layers, 0, 4096, "first layers without experts");
  reader.Read("expert_every", &experts.every, 1, 4096, "every n-th of the others has experts");
  reader.Read("router_bias", &experts.router_bias, "a trained bias of the router");
  reader.Read("latent_experts", &experts.latent, 0, 1 << 20, "width that routed experts read and write; 0: d_model");
  reader.Read("load_imbalance", &experts.load_imbalance, 1.0, 65536.0,
              "tokens of the busiest expert, relative to the average");
}

// Only networks with a pattern have these options.
void ReadMamba(OptionReader& reader, TransformerNetwork* network) {
  if (network->pattern.empty()) return;
  reader.Read("pattern", &network->pattern, {}, "a letter for each layer: M Mamba, * attention, - MLP, E experts");
  if (!reader.values().contains("layers")) network->layers = static_cast<std::int64_t>(network->pattern.size());
  if (!network->mamba) return;
  MambaMixer& mamba = *network->mamba;
  reader.Read("mamba_heads", &mamba.heads, 1, 1 << 20, "heads of Mamba");
  reader.Read("mamba_head_width", &mamba.head_width, 1, 65536, "width of such a head");
  reader.Read("mamba_groups", &mamba.groups, 1, 65536, "groups of B and C; divide mamba_heads");
  reader.Read("mamba_state", &mamba.state, 1, 65536, "numbers of a head's state for each of its values");
}

void ReadLatent(OptionReader& reader, TransformerNetwork* network) {
  LatentAttention latent = network->latent.value_or(LatentAttention{});
  reader.Read("kv_rank", &latent.kv_rank, 0, 1 << 20, "width of latent keys and values; 0: no latent attention");
  reader.Read("q_rank", &latent.q_rank, 0, 1 << 20, "width of latent queries; 0: queries are not latent");
  reader.Read("nope_width", &latent.nope_width, 0, 65536, "width of a latent head's part without rotation");
  reader.Read("rope_width", &latent.rope_width, 0, 65536, "width of its part that rotates");
  reader.Read("value_width", &latent.value_width, 0, 65536, "width of its values");
  network->latent = latent.kv_rank > 0 ? std::optional(latent) : std::nullopt;
  if (network->latent) network->kv_heads = network->heads;
  reader.Read("mtp_layers", &network->mtp_layers, 0, 64, "modules that predict one more token each");
}

}  // namespace

void ReadTransformerOptions(OptionReader& reader, TransformerNetwork* network, TransformerStep* step) {
  ReadSizes(reader, network);
  ReadParts(reader, network);
  ReadExperts(reader, network);
  ReadLatent(reader, network);
  ReadMamba(reader, network);
  reader.Read("sequence", &step->sequence, 1, 1 << 28, "tokens of a sequence");
  reader.Read("encoder_sequence", &step->encoder_sequence, 0, 1 << 28, "tokens that an encoder reads; 0: sequence");
  reader.Read("batch", &step->batch, 1, 65536, "sequences in a step");
  step->fused_attention = ReadFusedAttention(reader, step->fused_attention);
  step->precision = ReadPrecision(reader, step->precision);
  step->training.f32_masters = step->precision != DType::kF32;
  ReadTrainingOptions(reader, &step->training);
  reader.Finish();
  CheckTransformer(*network);
  if (network->positions == PositionKind::kLearned && step->sequence > network->max_positions) {
    throw InputError(reader.owner(), fmt::format("sequence must be at most max_positions, which is {}, got {}",
                                                 network->max_positions, step->sequence));
  }
  if (!step->fused_attention && (network->sinks || (network->window > 0 && network->full_every > 0))) {
    throw InputError(reader.owner(), "attention=unfused goes neither with sinks nor with windows of some layers");
  }
}

Graph BuildTransformer(const TransformerNetwork& network, const TransformerStep& step) {
  return StepBuilder(network, step).Build();
}

Graph MakeTransformer(const TransformerNetwork& base, OptionReader& reader) {
  TransformerNetwork network = base;
  network.name = reader.owner();
  TransformerStep step;
  if (network.positions == PositionKind::kLearned) step.sequence = std::min(step.sequence, network.max_positions);
  if (network.encoder_layers > 0) step.sequence = 512;
  ReadTransformerOptions(reader, &network, &step);
  return BuildTransformer(network, step);
}

Graph MakeLlama(OptionReader& reader) { return MakeTransformer(*FindTransformer("llama-3-8b"), reader); }

}  // namespace emplace::datasets
