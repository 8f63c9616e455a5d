#include "datasets/models/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/check.h"

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

void AddExperts(const TransformerNetwork& network, WeightList* weights) {
  const TransformerExperts& experts = network.experts;
  AddProduct("mlp.gate", experts.count, network.d_model, experts.router_bias, kUndivided, weights);
  WeightList routed;
  AddProduct(network.gated ? "mlp.experts.gate_up_proj" : "mlp.experts.up_proj",
             (network.gated ? 2 : 1) * experts.d_expert, network.d_model, network.mlp_bias, kOutputs, &routed);
  AddProduct("mlp.experts.down_proj", network.d_model, experts.d_expert, network.mlp_bias, kInputs, &routed);
  for (TransformerWeight& weight : routed) {
    weight.experts = experts.count;
    weights->push_back(std::move(weight));
  }
  if (experts.shared > 0) AddMlp(network, "mlp.shared_experts", experts.d_shared, weights);
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

}  // namespace

bool TransformerNetwork::HasExperts(std::int64_t layer) const {
  return experts.count > 0 && layer >= experts.dense_first_layers && (layer + 1) % experts.every == 0;
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
  EMPLACE_CHECK_LT(layer, network.layers + network.mtp_layers);
  WeightList weights;
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
    AddExperts(network, &weights);
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
  for (TransformerWeight& weight : LayerWeights(network, network.layers)) weights.push_back(std::move(weight));
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
  if (network.mtp_layers > 0) add(PredictionWeights(network), network.mtp_layers);
  add(OutputWeights(network));
  return count;
}

}  // namespace emplace::datasets
