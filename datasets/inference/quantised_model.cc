#include "datasets/inference/quantised_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/registry.h"

namespace emplace::datasets {
namespace {

// A quantisation and the type of most of its products.
struct Quantisation {
  std::string_view name;
  std::string_view type;
};
constexpr Quantisation kQuantisations[] = {
    {"f32", "f32"},     {"f16", "f16"},     {"bf16", "bf16"},   {"q8_0", "q8_0"},   {"q4_0", "q4_0"},
    {"q4_1", "q4_1"},   {"q5_0", "q5_0"},   {"q5_1", "q5_1"},   {"q2_k", "q2_k"},   {"q3_k_s", "q3_k"},
    {"q3_k_m", "q3_k"}, {"q3_k_l", "q3_k"}, {"q4_k_s", "q4_k"}, {"q4_k_m", "q4_k"}, {"q5_k_s", "q5_k"},
    {"q5_k_m", "q5_k"}, {"q6_k", "q6_k"},   {"mxfp4", "q8_0"}};

// What stands for a weight of TransformerWeight in a GGUF file, in a layer.
constexpr std::pair<std::string_view, std::string_view> kGgufNames[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.sinks", "attn_sinks"},
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_kv_b"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps"},
    {"mlp.experts.up_proj", "ffn_up_exps"},
    {"mlp.experts.down_proj", "ffn_down_exps"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};

[[noreturn]] void RefuseQuantised(const std::string& problem) { throw InputError("--quantise", problem); }

// Chooses the type of each tensor.
class TypeRule {
 public:
  TypeRule(const TransformerNetwork& network, std::string_view quantisation)
      : network_(network), quantisation_(FindByName(kQuantisations, quantisation, "quantisation", "--quantise")) {}

  // `layer`: -1 of what is in no layer. `row`: elements of a row.
  const GgmlType* TypeOf(std::string_view name, std::int64_t layer, std::int64_t row) const {
    const GgmlType* const wanted = FindGgmlType(NameOfType(name, layer));
    return row % wanted->block == 0 ? wanted : Instead(wanted->name, row);
  }

 private:
  // The type that stands in for one whose blocks do not divide a row.
  static const GgmlType* Instead(std::string_view type, std::int64_t row) {
    constexpr std::pair<std::string_view, std::string_view> kInstead[] = {
        {"q2_k", "q4_0"}, {"q3_k", "q4_0"}, {"q4_k", "q5_0"}, {"q5_k", "q5_1"}, {"q6_k", "q8_0"}};
    for (const auto& [other, instead] : kInstead) {
      if (other == type && row % FindGgmlType(instead)->block == 0) return FindGgmlType(instead);
    }
    return FindGgmlType("f16");
  }

  std::string_view NameOfType(std::string_view name, std::int64_t layer) const {
    const std::string_view type = quantisation_.type;
    const bool is_mxfp4 = quantisation_.name == "mxfp4";
    if (type == "f32" || type == "f16" || type == "bf16") return type;
    if (name == "output" || (name == "token_embd" && network_.tied)) return type == "q8_0" ? type : "q6_k";
    if (is_mxfp4) return name.ends_with("_exps") ? "mxfp4" : "q8_0";
    if (name == "attn_v") return OfValues(layer);
    if (name == "attn_k" && HasEightExperts()) return "q8_0";
    if (name.starts_with("ffn_down")) return OfDown(layer);
    if (name == "attn_output") return OfAttentionOutput();
    return type;
  }

  std::string_view OfValues(std::int64_t layer) const {
    const std::string_view of = quantisation_.name;
    const std::int64_t shared = network_.heads / std::max<std::int64_t>(1, network_.kv_heads);
    if (HasEightExperts()) return "q8_0";
    std::string_view type = quantisation_.type;
    if (of == "q2_k") type = shared >= 4 ? "q4_k" : "q3_k";
    if (of == "q3_k_m") type = layer < 2 ? "q5_k" : "q4_k";
    if (of == "q3_k_l" || (of == "q4_k_s" && layer < 4)) type = "q5_k";
    if ((of == "q4_k_m" || of == "q5_k_m") && UsesMoreBits(layer)) type = "q6_k";
    // LLM_TYPE_70B: 80 layers with shared heads.
    const bool is_70b = network_.layers == 80 && shared > 1;
    return is_70b && (type == "q3_k" || type == "q4_k") ? "q5_k" : type;
  }

  std::string_view OfDown(std::int64_t layer) const {
    const std::string_view of = quantisation_.name;
    if (of == "q2_k") return "q3_k";
    if (of == "q3_k_m") return layer < network_.layers / 16 ? "q5_k" : "q4_k";
    if (of == "q3_k_l" || (of == "q4_k_s" && layer < network_.layers / 8)) return "q5_k";
    if ((of == "q4_k_m" || of == "q5_k_m") && UsesMoreBits(layer)) return "q6_k";
    return quantisation_.type;
  }

  std::string_view OfAttentionOutput() const {
    const std::string_view of = quantisation_.name;
    if (HasEightExperts()) {
      const bool has_more = of == "q2_k" || of == "q3_k_s" || of == "q3_k_m" || of == "q4_k_s" || of == "q4_k_m";
      return has_more ? "q5_k" : quantisation_.type;
    }
    if (of == "q2_k") return "q3_k";
    if (of == "q3_k_m") return "q4_k";
    return of == "q3_k_l" ? "q5_k" : quantisation_.type;
  }

  bool HasEightExperts() const { return network_.experts.count == 8; }
  bool UsesMoreBits(std::int64_t layer) const {
    const std::int64_t layers = network_.layers;
    return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
  }

  const TransformerNetwork& network_;
  const Quantisation& quantisation_;
};

void AddQuantised(const TypeRule& rule, std::string_view part, std::string_view end, std::int64_t layer,
                  const TransformerWeight& weight, std::vector<GgufTensor>* tensors) {
  GgufTensor tensor;
  tensor.name = layer < 0 ? fmt::format("{}.{}", part, end) : fmt::format("blk.{}.{}.{}", layer, part, end);
  if (weight.columns > 1) tensor.shape.push_back(weight.columns);
  tensor.shape.push_back(weight.rows);
  if (weight.experts > 0) tensor.shape.push_back(weight.experts);
  const bool is_vector = weight.columns == 1 || end == "bias" || part == "ffn_gate_inp";
  tensor.type = is_vector ? FindGgmlType("f32") : rule.TypeOf(part, layer, tensor.shape.front());
  tensor.elements = weight.elements();
  tensor.bytes = tensor.elements / tensor.type->block * tensor.type->block_bytes;
  tensors->push_back(std::move(tensor));
}

// A weight's name without its ending, and the ending.
std::pair<std::string_view, std::string_view> WithoutEnding(std::string_view name) {
  for (const std::string_view end : {"weight", "bias"}) {
    if (name.ends_with(end) && name.size() > end.size()) {
      const char before = name[name.size() - end.size() - 1];
      if (before == '.' || before == '_') return {name.substr(0, name.size() - end.size() - 1), end};
    }
  }
  return {name, "weight"};
}

void AddQuantisedLayer(const TransformerNetwork& network, const TypeRule& rule, std::int64_t layer,
                       std::vector<GgufTensor>* tensors) {
  for (const TransformerWeight& weight : LayerWeights(network, layer)) {
    const auto [name, end] = WithoutEnding(weight.name);
    if (name == "post_attention_layernorm") {
      AddQuantised(rule, network.post_norms ? "post_attention_norm" : "ffn_norm", end, layer, weight, tensors);
      continue;
    }
    if (name == "mlp.experts.gate_up_proj") {
      TransformerWeight half = weight;
      half.rows /= 2;
      for (const std::string_view part : {"ffn_gate_exps", "ffn_up_exps"})
        AddQuantised(rule, part, end, layer, half, tensors);
      continue;
    }
    const std::string_view wanted = name;
    const auto* const found = std::find_if(std::begin(kGgufNames), std::end(kGgufNames),
                                           [&](const auto& each) { return each.first == wanted; });
    if (found == std::end(kGgufNames)) {
      RefuseQuantised(fmt::format("{}: llama.cpp's tensor for {} is not known", network.name, weight.name));
    }
    AddQuantised(rule, found->second, end, layer, weight, tensors);
  }
}

}  // namespace

std::span<const std::string_view> AllQuantisations() {
  static constexpr auto kNamesOf = [] {
    std::array<std::string_view, std::size(kQuantisations)> names;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = kQuantisations[i].name;
    return names;
  }();
  return kNamesOf;
}

GgufHeader QuantisedHeader(const TransformerNetwork& network, std::string_view quantisation) {
  if (network.encoder_layers > 0 || network.mamba || !network.pattern.empty()) {
    RefuseQuantised(network.name + " is no stack of attention and feed-forward layers");
  }
  const TypeRule rule(network, quantisation);
  GgufHeader header;
  for (const TransformerWeight& weight : EmbeddingWeights(network)) {
    AddQuantised(rule, weight.name.starts_with("embed_tokens") ? "token_embd" : "position_embd", "weight", -1, weight,
                 &header.tensors);
  }
  for (std::int64_t layer = 0; layer < network.layers; ++layer)
    AddQuantisedLayer(network, rule, layer, &header.tensors);
  for (const TransformerWeight& weight : OutputWeights(network)) {
    const auto [name, end] = WithoutEnding(weight.name);
    AddQuantised(rule, name == "norm" ? "output_norm" : "output", end, -1, weight, &header.tensors);
  }
  // The name of an architecture says how llama.cpp's window alternates; here the window of each layer is known.
  auto& metadata = header.metadata;
  metadata["general.architecture"] = std::string("llama");
  metadata["general.name"] = fmt::format("{} {}", network.name, quantisation);
  const auto set = [&](std::string_view key, std::int64_t value) { metadata[fmt::format("llama.{}", key)] = value; };
  set("block_count", network.layers);
  set("embedding_length", network.d_model);
  set("context_length", network.max_positions);
  set("vocab_size", network.vocabulary);
  set("feed_forward_length", network.d_ff);
  set("attention.head_count", network.heads);
  set("attention.head_count_kv", network.kv_heads);
  set("attention.key_length", network.key_width());
  set("attention.value_length", network.value_width());
  if (network.experts.count > 0) {
    set("expert_count", network.experts.count);
    set("expert_used_count", network.experts.top_k);
    set("expert_feed_forward_length", network.experts.d_expert);
  }
  if (network.latent) {
    set("attention.kv_lora_rank", network.latent->kv_rank);
    set("attention.key_length_mla", network.key_width());
    set("rope.dimension_count", network.latent->rope_width);
  }
  if (network.window > 0) {
    set("attention.sliding_window", network.window);
    GgufList pattern{.length = network.layers};
    for (std::int64_t layer = 0; layer < network.layers; ++layer) {
      pattern.numbers.push_back(network.WindowOf(layer) > 0 ? 1 : 0);
    }
    metadata["llama.attention.sliding_window_pattern"] = pattern;
  }
  return header;
}

InferenceModel QuantisedModel(const TransformerNetwork& network, std::string_view quantisation) {
  std::vector<std::string> notes;
  return ReadInferenceModel(QuantisedHeader(network, quantisation), &notes);
}

}  // namespace emplace::datasets
