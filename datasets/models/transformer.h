#ifndef EMPLACE_DATASETS_MODELS_TRANSFORMER_H_
#define EMPLACE_DATASETS_MODELS_TRANSFORMER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/json_struct.h"

namespace emplace::datasets {

enum class NormKind { kRms, kLayer };
enum class PositionKind { kRotary, kLearned, kAlibi, kRelative, kNone };
enum class ActivationKind { kSilu, kGelu, kRelu, kSquaredRelu };

// The MLPs of some layers as mixtures of experts, each of them an MLP like those of the other layers, but d_expert
// wide.
struct TransformerExperts {
  std::int64_t count = 0;  // 0: every layer has one MLP
  std::int64_t top_k = 1;  // experts of a token
  std::int64_t d_expert = 0;
  std::int64_t shared = 0;              // experts of every token
  std::int64_t d_shared = 0;            // width of all of those together
  std::int64_t dense_first_layers = 0;  // layers in front of the first that has experts
  std::int64_t every = 1;               // of the others, each layer whose number from 1 is a multiple of this
  bool router_bias = false;             // a trained bias of the router's product
  bool balance_bias = false;            // one that a rule updates instead of a gradient: no parameter
  double load_imbalance = 1;            // tokens of the busiest expert, relative to the average
  // Width that routed experts read and write, between two products that all of them share (LatentMoE, NVIDIA 2025,
  // "Nemotron 3", section 2.2); 0: d_model.
  std::int64_t latent = 0;

  static void Fields(auto& visit, auto& self) {
    visit("count", self.count, {.most = 65536});
    visit("top_k", self.top_k, {.most = 65536});
    visit("d_expert", self.d_expert, {.most = 1 << 20});
    visit("shared", self.shared, {.optional = true, .most = 65536});
    visit("d_shared", self.d_shared, {.optional = true, .most = 1 << 20});
    visit("dense_first_layers", self.dense_first_layers, {.optional = true, .most = 65536});
    visit("every", self.every, {.optional = true, .most = 65536});
    visit("router_bias", self.router_bias, {.optional = true});
    visit("balance_bias", self.balance_bias, {.optional = true});
    visit("load_imbalance", self.load_imbalance, {.optional = true, .low = 1, .high = 65536});
    visit("latent", self.latent, {.optional = true, .most = 1 << 20});
  }
};

// Multi-head latent attention: keys and values of all heads are products of one narrow vector of a token, and so are
// the queries unless q_rank is 0. Source: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1.
struct LatentAttention {
  std::int64_t q_rank = 0;
  std::int64_t kv_rank = 0;
  std::int64_t nope_width = 0;  // part of a head's query and key that does not rotate
  std::int64_t rope_width = 0;  // part that rotates; all heads share that of the key
  std::int64_t value_width = 0;

  static void Fields(auto& visit, auto& self) {
    visit("q_rank", self.q_rank, {.optional = true, .most = 1 << 20});
    visit("kv_rank", self.kv_rank, {.most = 1 << 20});
    visit("nope_width", self.nope_width, {.most = 1 << 20});
    visit("rope_width", self.rope_width, {.most = 1 << 20});
    visit("value_width", self.value_width, {.most = 1 << 20});
  }
};

// Mamba-2's mixer (Dao & Gu 2024, "Transformers are SSMs", section 7.1): one product makes a gate z, the values x, the
// groups' B and C, and a step of each head; a causal convolution runs over x, B and C; the scan of the state-space
// model over all tokens gives y; and a second product follows the norm of y with its gate.
struct MambaMixer {
  std::int64_t heads = 0;
  std::int64_t head_width = 0;
  std::int64_t groups = 1;   // of B and C, each of which serves heads / groups heads
  std::int64_t state = 0;    // numbers of a head's state, for each of its head_width values
  std::int64_t kernel = 4;   // tokens that the convolution looks back at, itself included
  std::int64_t chunk = 128;  // tokens that the scan computes as a product, and between which it passes states
  bool conv_bias = true;

  static void Fields(auto& visit, auto& self) {
    visit("heads", self.heads, {.most = 1 << 20});
    visit("head_width", self.head_width, {.most = 1 << 20});
    visit("groups", self.groups, {.most = 1 << 20});
    visit("state", self.state, {.most = 1 << 20});
    visit("kernel", self.kernel, {.optional = true, .most = 1 << 10});
    visit("chunk", self.chunk, {.optional = true, .most = 1 << 20});
    visit("conv_bias", self.conv_bias, {.optional = true});
  }

  std::int64_t inner() const { return heads * head_width; }
  std::int64_t conv_width() const { return inner() + 2 * groups * state; }
  // What the first product makes of a token.
  std::int64_t projected_width() const { return inner() + conv_width() + heads; }
};

// What a layer has, each part with a norm in front of it and a sum behind it.
struct LayerParts {
  bool attention = false;
  bool mamba = false;
  bool mlp = false;
  bool experts = false;
};

// A Transformer that predicts tokens: a decoder, or an encoder and a decoder. It says what the network is, not how it
// is trained: the length and the number of sequences are no part of it.
struct TransformerNetwork {
  std::string name;
  std::string source;  // paper or model card

  std::int64_t layers = 0;
  std::int64_t encoder_layers = 0;  // 0: a decoder only; else each decoder layer attends to the encoder too
  std::int64_t d_model = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;    // heads of keys and values, each of which serves heads / kv_heads heads of queries
  std::int64_t head_width = 0;  // of queries, keys and values, but where `latent` says theirs
  std::int64_t d_ff = 0;
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;  // sequences are no longer

  bool gated = true;  // the MLP is down(activation(gate(x)) * up(x)); false: down(activation(up(x)))
  ActivationKind activation = ActivationKind::kSilu;
  NormKind norm = NormKind::kRms;
  bool norm_bias = false;   // layer norms add an offset
  bool post_norms = false;  // a norm behind attention and MLP too, in front of the sums with what they read
  bool qk_norm = false;     // a norm of each head's queries and keys, one of all heads' for each
  PositionKind positions = PositionKind::kRotary;
  std::int64_t relative_buckets = 0;  // rows of the table of relative positions, one of each stack
  bool tied = false;                  // the output projection is the table of embeddings
  bool qkv_bias = false;
  bool output_bias = false;  // of the product behind attention
  bool mlp_bias = false;

  std::int64_t window = 0;       // tokens that a token looks back at, itself included; 0: all
  std::int64_t full_every = 0;   // a layer whose number from 1 is a multiple of this has no window; 0: none
  bool sinks = false;            // a trained number for each head takes part in its softmax
  double attention_softcap = 0;  // scores are softcap * tanh(scores / softcap); 0: as they are
  double logit_softcap = 0;      // the same of the logits

  TransformerExperts experts;
  std::optional<LatentAttention> latent;
  std::optional<MambaMixer> mamba;
  // A letter for each layer, which then has that part alone: M for Mamba's mixer, * for attention, - for an MLP, E for
  // experts, as Nemotron-H writes it. Empty: each layer has attention, and an MLP or experts.
  std::string pattern;
  // Modules that predict one more token each, behind the last layer, as trained by DeepSeek-AI 2024, "DeepSeek-V3",
  // section 2.2: two norms, a product of both, a layer like the last or those of mtp_pattern, and a norm.
  std::int64_t mtp_layers = 0;
  std::string mtp_pattern;
  bool mtp_shared = false;  // all these modules have the same weights

  static void Fields(auto& visit, auto& self) {
    constexpr FieldRule kLayers = {.optional = true, .most = 65536};
    constexpr FieldRule kWidth = {.most = 1 << 20};
    visit("name", self.name, {.optional = true});
    visit("source", self.source, {.optional = true});
    visit("layers", self.layers, {.most = 65536});
    visit("encoder_layers", self.encoder_layers, kLayers);
    visit("d_model", self.d_model, kWidth);
    visit("heads", self.heads, kWidth);
    visit("kv_heads", self.kv_heads, kWidth);
    visit("head_width", self.head_width, kWidth);
    visit("d_ff", self.d_ff, kWidth);
    visit("vocabulary", self.vocabulary, {.most = 1 << 28});
    visit("max_positions", self.max_positions, {.optional = true, .most = 1 << 28});
    visit("gated", self.gated, {.optional = true});
    visit("activation", self.activation, {.optional = true});
    visit("norm", self.norm, {.optional = true});
    visit("norm_bias", self.norm_bias, {.optional = true});
    visit("post_norms", self.post_norms, {.optional = true});
    visit("qk_norm", self.qk_norm, {.optional = true});
    visit("positions", self.positions, {.optional = true});
    visit("relative_buckets", self.relative_buckets, {.optional = true, .most = 1 << 20});
    visit("tied", self.tied, {.optional = true});
    visit("qkv_bias", self.qkv_bias, {.optional = true});
    visit("output_bias", self.output_bias, {.optional = true});
    visit("mlp_bias", self.mlp_bias, {.optional = true});
    visit("window", self.window, {.optional = true, .most = 1 << 28});
    visit("full_every", self.full_every, kLayers);
    visit("sinks", self.sinks, {.optional = true});
    visit("attention_softcap", self.attention_softcap, {.optional = true, .high = 1e6});
    visit("logit_softcap", self.logit_softcap, {.optional = true, .high = 1e6});
    visit("experts", self.experts, {.optional = true, .written = self.experts.count > 0});
    visit("latent", self.latent, {.optional = true, .written = self.latent.has_value()});
    visit("mamba", self.mamba, {.optional = true, .written = self.mamba.has_value()});
    visit("pattern", self.pattern, {.optional = true, .written = !self.pattern.empty()});
    visit("mtp_layers", self.mtp_layers, kLayers);
    visit("mtp_pattern", self.mtp_pattern, {.optional = true, .written = !self.mtp_pattern.empty()});
    visit("mtp_shared", self.mtp_shared, {.optional = true, .written = self.mtp_shared});
  }

  // Layers are numbered from 0, those of the encoder by themselves; they have no experts. Behind the last layer are
  // those of one of the mtp_layers' modules.
  LayerParts PartsOf(std::int64_t layer) const;
  bool HasExperts(std::int64_t layer) const { return PartsOf(layer).experts; }
  // Layers of one of the mtp_layers' modules.
  std::int64_t layers_of_mtp() const { return mtp_pattern.empty() ? 1 : static_cast<std::int64_t>(mtp_pattern.size()); }
  // Tokens that the layer's attention looks back at; 0: all.
  std::int64_t WindowOf(std::int64_t layer) const;
  // Widths of one head: of a query and a key, and of a value.
  std::int64_t key_width() const { return latent ? latent->nope_width + latent->rope_width : head_width; }
  std::int64_t value_width() const { return latent ? latent->value_width : head_width; }
};

// Throws InputError(network.name) if its fields do not go together.
void CheckTransformer(const TransformerNetwork& network);

// ---- Weights

// What tensor parallelism divides, as Megatron-LM does: the outputs of a product (columns of its weights, in its
// words), the inputs, the rows of a table; or nothing.
enum class WeightDivision { kUndivided, kOutputs, kInputs, kVocabulary };

struct TransformerWeight {
  std::string name;  // in its layer, as Hugging Face's Llama: "self_attn.q_proj.weight", "mlp.experts.down_proj.weight"
  std::int64_t rows = 0;     // outputs of a product
  std::int64_t columns = 1;  // inputs; 1: a vector
  WeightDivision division = WeightDivision::kUndivided;
  std::int64_t experts = 0;  // one of these for each routed expert, which expert parallelism divides; 0: one for all

  std::int64_t elements() const { return rows * columns * (experts > 0 ? experts : 1); }
};

// All trained weights of a part of the network, in the order of the model. Those of the whole network are: the
// embedding's, each encoder layer's, each layer's, each of the mtp_layers' modules' (once if they share them), and the
// output's.
std::vector<TransformerWeight> EmbeddingWeights(const TransformerNetwork& network);
std::vector<TransformerWeight> EncoderLayerWeights(const TransformerNetwork& network, std::int64_t layer);
std::vector<TransformerWeight> LayerWeights(const TransformerNetwork& network, std::int64_t layer);
// One module; embedding and output projection are those of the network.
std::vector<TransformerWeight> PredictionWeights(const TransformerNetwork& network);
// The last norms, and the output projection unless it is tied.
std::vector<TransformerWeight> OutputWeights(const TransformerNetwork& network);

struct ParameterCount {
  std::int64_t total = 0;
  std::int64_t active = 0;  // of a token: all but the routed experts that it does not choose
};
ParameterCount Parameters(const TransformerNetwork& network);
ParameterCount Parameters(const TransformerNetwork& network, std::span<const TransformerWeight> weights);

// ---- Networks by their published names, in small letters: "llama-3-8b"

std::span<const TransformerNetwork> TransformerPresets();
// Null if there is none of that name.
const TransformerNetwork* FindTransformer(std::string_view name);

}  // namespace emplace::datasets

namespace emplace {

template <>
struct EnumNames<datasets::NormKind> {
  using enum datasets::NormKind;
  static constexpr std::pair<datasets::NormKind, std::string_view> kNames[] = {{kRms, "rms"}, {kLayer, "layer"}};
  static constexpr std::string_view kAllowed = "rms or layer";
};

template <>
struct EnumNames<datasets::PositionKind> {
  using enum datasets::PositionKind;
  static constexpr std::pair<datasets::PositionKind, std::string_view> kNames[] = {
      {kRotary, "rotary"}, {kLearned, "learned"}, {kAlibi, "alibi"}, {kRelative, "relative"}, {kNone, "none"}};
  static constexpr std::string_view kAllowed = "rotary, learned, alibi, relative or none";
};

template <>
struct EnumNames<datasets::ActivationKind> {
  using enum datasets::ActivationKind;
  static constexpr std::pair<datasets::ActivationKind, std::string_view> kNames[] = {
      {kSilu, "silu"}, {kGelu, "gelu"}, {kRelu, "relu"}, {kSquaredRelu, "relu2"}};
  static constexpr std::string_view kAllowed = "silu, gelu, relu or relu2";
};

}  // namespace emplace

#endif  // EMPLACE_DATASETS_MODELS_TRANSFORMER_H_
