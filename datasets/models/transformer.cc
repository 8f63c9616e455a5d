#include "datasets/models/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

using WeightList = std::vector<TransformerWeight>;
using enum WeightDivision;

void AddNorm(const TransformerNetwork& network, const std::string& name, std::int64_t width, WeightList* weights) {
  weights->push_back({.name = name + ".weight", .rows = width});
  if (network.norm == NormKind::kLayer && network.norm_bias)
    weights->push_back({.name = name + ".bias", .rows = width});
}

// The weights of a product, [outputs, inputs]. Its bias is as long as the outputs, and divided if they are.
void AddProduct(const std::string& name, std::int64_t outputs, std::int64_t inputs, bool bias, WeightDivision division,
                WeightList* weights) {
  weights->push_back({.name = name + ".weight", .rows = outputs, .columns = inputs, .division = division});
  if (!bias) return;
  weights->push_back(
      {.name = name + ".bias", .rows = outputs, .division = division == kInputs ? kUndivided : division});
}

void AddLatentAttention(const TransformerNetwork& network, const LatentAttention& latent, WeightList* weights) {
  const std::int64_t queries = network.heads * network.key_width();
  if (latent.q_rank > 0) {
    AddProduct("self_attn.q_a_proj", latent.q_rank, network.d_model, network.qkv_bias, kUndivided, weights);
    AddNorm(network, "self_attn.q_a_layernorm", latent.q_rank, weights);
    AddProduct("self_attn.q_b_proj", queries, latent.q_rank, false, kOutputs, weights);
  } else {
    AddProduct("self_attn.q_proj", queries, network.d_model, false, kOutputs, weights);
  }
  AddProduct("self_attn.kv_a_proj_with_mqa", latent.kv_rank + latent.rope_width, network.d_model, network.qkv_bias,
             kUndivided, weights);
  AddNorm(network, "self_attn.kv_a_layernorm", latent.kv_rank, weights);
  AddProduct("self_attn.kv_b_proj", network.heads * (latent.nope_width + latent.value_width), latent.kv_rank, false,
             kOutputs, weights);
}

void AddAttention(const TransformerNetwork& network, const std::string& name, WeightList* weights) {
  if (network.latent) {
    AddLatentAttention(network, *network.latent, weights);
  } else {
    const std::int64_t narrow = network.kv_heads * network.head_width;
    AddProduct(name + ".q_proj", network.heads * network.head_width, network.d_model, network.qkv_bias, kOutputs,
               weights);
    AddProduct(name + ".k_proj", narrow, network.d_model, network.qkv_bias, kOutputs, weights);
    AddProduct(name + ".v_proj", narrow, network.d_model, network.qkv_bias, kOutputs, weights);
    if (network.qk_norm) {
      AddNorm(network, name + ".q_norm", network.head_width, weights);
      AddNorm(network, name + ".k_norm", network.head_width, weights);
    }
  }
  AddProduct(name + ".o_proj", network.d_model, network.heads * network.value_width(), network.output_bias, kInputs,
             weights);
  if (network.sinks) weights->push_back({.name = name + ".sinks", .rows = network.heads, .division = kOutputs});
}

void AddMlp(const TransformerNetwork& network, const std::string& name, std::int64_t width, WeightList* weights) {
  if (network.gated) AddProduct(name + ".gate_proj", width, network.d_model, network.mlp_bias, kOutputs, weights);
  AddProduct(name + ".up_proj", width, network.d_model, network.mlp_bias, kOutputs, weights);
  AddProduct(name + ".down_proj", network.d_model, width, network.mlp_bias, kInputs, weights);
}

void AddExperts(const TransformerNetwork& network, const std::string& name, WeightList* weights) {
  const TransformerExperts& experts = network.experts;
  AddProduct(name + ".gate", experts.count, network.d_model, experts.router_bias, kUndivided, weights);
  const std::int64_t width = experts.latent > 0 ? experts.latent : network.d_model;
  WeightList routed;
  AddProduct(name + (network.gated ? ".experts.gate_up_proj" : ".experts.up_proj"),
             (network.gated ? 2 : 1) * experts.d_expert, width, network.mlp_bias, kOutputs, &routed);
  AddProduct(name + ".experts.down_proj", width, experts.d_expert, network.mlp_bias, kInputs, &routed);
  for (TransformerWeight& weight : routed) {
    weight.experts = experts.count;
    weights->push_back(std::move(weight));
  }
  if (experts.latent > 0) {
    AddProduct(name + ".fc1_latent_proj", width, network.d_model, network.mlp_bias, kUndivided, weights);
    AddProduct(name + ".fc2_latent_proj", network.d_model, width, network.mlp_bias, kUndivided, weights);
  }
  if (experts.shared > 0) AddMlp(network, name + ".shared_experts", experts.d_shared, weights);
}

void AddMamba(const TransformerNetwork& network, const std::string& name, WeightList* weights) {
  const MambaMixer& mamba = *network.mamba;
  AddProduct(name + ".in_proj", mamba.projected_width(), network.d_model, false, kOutputs, weights);
  weights->push_back(
      {.name = name + ".conv1d.weight", .rows = mamba.conv_width(), .columns = mamba.kernel, .division = kOutputs});
  if (mamba.conv_bias) {
    weights->push_back({.name = name + ".conv1d.bias", .rows = mamba.conv_width(), .division = kOutputs});
  }
  for (const std::string_view vector : {".dt_bias", ".A_log", ".D"}) {
    weights->push_back({.name = name + std::string(vector), .rows = mamba.heads, .division = kOutputs});
  }
  weights->push_back({.name = name + ".norm.weight", .rows = mamba.inner(), .division = kOutputs});
  AddProduct(name + ".out_proj", network.d_model, mamba.inner(), false, kInputs, weights);
}

// The weights of a layer that has one part.
void AddPart(const TransformerNetwork& network, const LayerParts& part, WeightList* weights) {
  AddNorm(network, "norm", network.d_model, weights);
  if (part.mamba) AddMamba(network, "mixer", weights);
  if (part.attention) AddAttention(network, "mixer", weights);
  if (part.mlp) AddMlp(network, "mixer", network.d_ff, weights);
  if (part.experts) AddExperts(network, "mixer", weights);
}

// The table of relative positions, of a stack's first layer.
void AddRelativePositions(const TransformerNetwork& network, std::int64_t layer, WeightList* weights) {
  if (network.positions != PositionKind::kRelative || layer != 0) return;
  weights->push_back(
      {.name = "self_attn.relative_attention_bias.weight", .rows = network.relative_buckets, .columns = network.heads});
}

[[noreturn]] void Refuse(const TransformerNetwork& network, const std::string& problem) {
  throw InputError(network.name.empty() ? "network" : network.name, problem);
}

void CheckExperts(const TransformerNetwork& network) {
  const TransformerExperts& experts = network.experts;
  if (experts.count == 0) return;
  if (experts.top_k < 1 || experts.top_k > experts.count) {
    Refuse(network,
           fmt::format("top_k must be 1..{}, which is the number of experts, got {}", experts.count, experts.top_k));
  }
  if (experts.d_expert < 1) Refuse(network, "d_expert is 0 (the width of an expert)");
  if (experts.every < 1) Refuse(network, "every is 0 (1: each layer has experts)");
  if ((experts.shared > 0) != (experts.d_shared > 0)) {
    Refuse(network, fmt::format("shared is {}, but d_shared {} (both 0, or the width of all shared experts)",
                                experts.shared, experts.d_shared));
  }
}

void CheckMamba(const TransformerNetwork& network) {
  const MambaMixer& mamba = *network.mamba;
  for (const auto& [key, value] : {std::pair<std::string_view, std::int64_t>{"heads", mamba.heads},
                                   {"head_width", mamba.head_width},
                                   {"groups", mamba.groups},
                                   {"state", mamba.state},
                                   {"kernel", mamba.kernel},
                                   {"chunk", mamba.chunk}}) {
    if (value < 1) Refuse(network, fmt::format("{} of mamba is 0 (an integer from 1)", key));
  }
  if (mamba.heads % mamba.groups != 0) {
    Refuse(network,
           fmt::format("groups of mamba must divide its heads, which are {}, got {}", mamba.heads, mamba.groups));
  }
}

void CheckPattern(const TransformerNetwork& network, std::string_view key, const std::string& pattern) {
  const std::size_t other = pattern.find_first_not_of("M*-E");
  if (other != std::string::npos) {
    Refuse(network, fmt::format("{} has {} (M for Mamba, * for attention, - for an MLP, E for experts)", key,
                                Quoted(pattern.substr(other, 1))));
  }
  if (pattern.find('M') != std::string::npos && !network.mamba) {
    Refuse(network, fmt::format("{} has layers of Mamba, but mamba is missing", key));
  }
  if (pattern.find('E') != std::string::npos && network.experts.count == 0) {
    Refuse(network, fmt::format("{} has layers of experts, but experts are missing", key));
  }
}

void CheckPatterns(const TransformerNetwork& network) {
  if (network.mamba) CheckMamba(network);
  if (network.pattern.empty()) {
    if (network.mamba) Refuse(network, "pattern is missing (which layers are Mamba's)");
    if (!network.mtp_pattern.empty()) Refuse(network, "mtp_pattern needs a pattern");
    return;
  }
  CheckPattern(network, "pattern", network.pattern);
  CheckPattern(network, "mtp_pattern", network.mtp_pattern);
  if (network.pattern.size() != static_cast<std::size_t>(network.layers)) {
    Refuse(network, fmt::format("layers must be the length of pattern, which is {}, got {}", network.pattern.size(),
                                network.layers));
  }
  if (network.mtp_layers > 0 && network.mtp_pattern.empty()) {
    Refuse(network, "mtp_pattern is missing (the layers of a module that predicts a further token)");
  }
  const TransformerExperts& experts = network.experts;
  if (network.encoder_layers > 0 || network.post_norms || experts.dense_first_layers > 0 || experts.every > 1) {
    Refuse(network, "a pattern goes with neither encoder_layers, post_norms, dense_first_layers nor every");
  }
}

LayerParts PartsOfLetter(char letter) {
  return {.attention = letter == '*', .mamba = letter == 'M', .mlp = letter == '-', .experts = letter == 'E'};
}

}  // namespace

LayerParts TransformerNetwork::PartsOf(std::int64_t layer) const {
  if (pattern.empty()) {
    const bool has = experts.count > 0 && layer >= experts.dense_first_layers && (layer + 1) % experts.every == 0;
    return {.attention = true, .mlp = !has, .experts = has};
  }
  const std::string& letters = layer < layers ? pattern : mtp_pattern;
  return PartsOfLetter(letters[static_cast<std::size_t>(layer < layers ? layer : layer - layers)]);
}

std::int64_t TransformerNetwork::WindowOf(std::int64_t layer) const {
  return full_every > 0 && (layer + 1) % full_every == 0 ? 0 : window;
}

void CheckTransformer(const TransformerNetwork& network) {
  for (const auto& [key, value] : {std::pair<std::string_view, std::int64_t>{"layers", network.layers},
                                   {"d_model", network.d_model},
                                   {"heads", network.heads},
                                   {"kv_heads", network.kv_heads},
                                   {"d_ff", network.d_ff},
                                   {"vocabulary", network.vocabulary}}) {
    if (value < 1) Refuse(network, fmt::format("{} is 0 (an integer from 1)", key));
  }
  if (network.heads % network.kv_heads != 0) {
    Refuse(network, fmt::format("kv_heads must divide heads, which is {}, got {}", network.heads, network.kv_heads));
  }
  if (!network.latent && network.head_width < 1) Refuse(network, "head_width is 0 (an integer from 1)");
  if (const auto& latent = network.latent) {
    if (latent->kv_rank < 1 || latent->nope_width + latent->rope_width < 1 || latent->value_width < 1) {
      Refuse(network, "latent attention needs kv_rank, value_width, and nope_width or rope_width");
    }
    if (network.qk_norm) Refuse(network, "qk_norm and latent attention do not go together");
    if (network.kv_heads != network.heads) {
      Refuse(network, fmt::format("kv_heads must be heads, which is {}, with latent attention, got {}", network.heads,
                                  network.kv_heads));
    }
  }
  if (network.positions == PositionKind::kRelative && network.relative_buckets < 1) {
    Refuse(network, "relative_buckets is 0 (rows of the table of relative positions)");
  }
  if (network.positions == PositionKind::kLearned && network.max_positions < 1) {
    Refuse(network, "max_positions is 0 (rows of the table of positions)");
  }
  CheckExperts(network);
  CheckPatterns(network);
  if (network.gated && network.activation == ActivationKind::kSquaredRelu) {
    Refuse(network, "gated and the activation relu2 do not go together");
  }
  if (network.mtp_shared && network.mtp_layers == 0) Refuse(network, "mtp_shared needs mtp_layers");
  if (network.encoder_layers > 0 && network.positions == PositionKind::kLearned) {
    Refuse(network, "an encoder and a learned table of positions do not go together");
  }
  if (network.encoder_layers > 0 && (network.latent || network.experts.count > 0 || network.mtp_layers > 0)) {
    Refuse(network, "an encoder goes with neither experts, latent attention nor mtp_layers");
  }
}

std::vector<TransformerWeight> EmbeddingWeights(const TransformerNetwork& network) {
  WeightList weights = {
      {.name = "embed_tokens.weight", .rows = network.vocabulary, .columns = network.d_model, .division = kVocabulary}};
  if (network.positions == PositionKind::kLearned) {
    weights.push_back({.name = "embed_positions.weight", .rows = network.max_positions, .columns = network.d_model});
  }
  return weights;
}

std::vector<TransformerWeight> EncoderLayerWeights(const TransformerNetwork& network, std::int64_t layer) {
  EMPLACE_CHECK_LT(layer, network.encoder_layers);
  WeightList weights;
  AddNorm(network, "input_layernorm", network.d_model, &weights);
  AddAttention(network, "self_attn", &weights);
  AddRelativePositions(network, layer, &weights);
  AddNorm(network, "post_attention_layernorm", network.d_model, &weights);
  AddMlp(network, "mlp", network.d_ff, &weights);
  return weights;
}

std::vector<TransformerWeight> LayerWeights(const TransformerNetwork& network, std::int64_t layer) {
  EMPLACE_CHECK_LT(layer, network.layers + std::max(network.mtp_layers, network.layers_of_mtp()));
  WeightList weights;
  if (!network.pattern.empty()) {
    AddPart(network, network.PartsOf(layer), &weights);
    return weights;
  }
  AddNorm(network, "input_layernorm", network.d_model, &weights);
  AddAttention(network, "self_attn", &weights);
  AddRelativePositions(network, layer, &weights);
  if (network.encoder_layers > 0) {
    AddNorm(network, "encoder_attn_layernorm", network.d_model, &weights);
    AddAttention(network, "encoder_attn", &weights);
  }
  AddNorm(network, "post_attention_layernorm", network.d_model, &weights);
  if (network.post_norms) AddNorm(network, "pre_feedforward_layernorm", network.d_model, &weights);
  if (network.HasExperts(layer)) {
    AddExperts(network, "mlp", &weights);
  } else {
    AddMlp(network, "mlp", network.d_ff, &weights);
  }
  if (network.post_norms) AddNorm(network, "post_feedforward_layernorm", network.d_model, &weights);
  return weights;
}

std::vector<TransformerWeight> PredictionWeights(const TransformerNetwork& network) {
  WeightList weights;
  AddNorm(network, "enorm", network.d_model, &weights);
  AddNorm(network, "hnorm", network.d_model, &weights);
  AddProduct("eh_proj", network.d_model, 2 * network.d_model, false, kOutputs, &weights);
  for (std::int64_t i = 0; i < network.layers_of_mtp(); ++i) {
    for (TransformerWeight& weight : LayerWeights(network, network.layers + i)) weights.push_back(std::move(weight));
  }
  AddNorm(network, "shared_head.norm", network.d_model, &weights);
  return weights;
}

std::vector<TransformerWeight> OutputWeights(const TransformerNetwork& network) {
  WeightList weights;
  if (network.encoder_layers > 0) AddNorm(network, "encoder.norm", network.d_model, &weights);
  AddNorm(network, "norm", network.d_model, &weights);
  if (!network.tied) AddProduct("lm_head", network.vocabulary, network.d_model, false, kVocabulary, &weights);
  return weights;
}

ParameterCount Parameters(const TransformerNetwork& network, std::span<const TransformerWeight> weights) {
  ParameterCount count;
  for (const TransformerWeight& weight : weights) {
    const std::int64_t elements = weight.elements();
    count.total += elements;
    count.active += weight.experts > 0 ? elements / weight.experts * network.experts.top_k : elements;
  }
  return count;
}

ParameterCount Parameters(const TransformerNetwork& network) {
  ParameterCount count;
  const auto add = [&](const WeightList& weights, std::int64_t times = 1) {
    const ParameterCount part = Parameters(network, weights);
    count.total += part.total * times;
    count.active += part.active * times;
  };
  add(EmbeddingWeights(network));
  for (std::int64_t layer = 0; layer < network.encoder_layers; ++layer) add(EncoderLayerWeights(network, layer));
  for (std::int64_t layer = 0; layer < network.layers; ++layer) add(LayerWeights(network, layer));
  if (network.mtp_layers > 0) add(PredictionWeights(network), network.mtp_shared ? 1 : network.mtp_layers);
  add(OutputWeights(network));
  return count;
}

}  // namespace emplace::datasets
