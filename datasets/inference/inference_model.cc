#include "datasets/inference/inference_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>

#include "sim/base/check.h"
#include "sim/base/registry.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kMostLayers = 10'000;

// Architectures whose layers are attention and a feed-forward part. `window_every`: where a file says nothing else, a
// layer whose number from 1 is a multiple of this sees all tokens, and others a window (as in
// llama.cpp); 0: every layer has the file's window, 1: none has.
struct GgufArchitecture {
  std::string_view name;
  std::int64_t window_every = 1;
};
constexpr GgufArchitecture kGgufArchitectures[] = {
    {"llama"},      {"llama4", 4},  {"qwen2"},        {"qwen2moe"},    {"qwen3"},         {"qwen3moe"},
    {"gpt-oss", 2}, {"gemma"},      {"gemma2", 2},    {"gemma3", 6},   {"deepseek"},      {"deepseek2"},
    {"phi2"},       {"phi3", 0},    {"phimoe"},       {"glm4"},        {"glm4moe"},       {"dots1"},
    {"olmo2", 4},   {"olmoe"},      {"granite"},      {"granitemoe"},  {"command-r"},     {"cohere2", 4},
    {"starcoder2"}, {"stablelm"},   {"internlm2"},    {"exaone"},      {"exaone4", 4},    {"smollm3"},
    {"seed_oss"},   {"ernie4_5"},   {"ernie4_5-moe"}, {"hunyuan-moe"}, {"hunyuan-dense"}, {"mistral3"},
    {"minimax-m2"}, {"bailingmoe"}, {"bailingmoe2"},  {"arcee"},       {"apertus"},       {"falcon"},
    {"gpt2"},       {"mpt"},        {"nemotron"},     {"baichuan"},    {"xverse"},        {"orion"},
    {"chatglm"},
};

// What stands between "blk.N." and the last dot of a tensor's name.
constexpr std::string_view kAttentionTensors[] = {"attn_norm",
                                                  "attn_norm_2",
                                                  "attn_q",
                                                  "attn_k",
                                                  "attn_v",
                                                  "attn_qkv",
                                                  "attn_output",
                                                  "attn_q_norm",
                                                  "attn_k_norm",
                                                  "attn_sinks",
                                                  "attn_q_a",
                                                  "attn_q_b",
                                                  "attn_q_a_norm",
                                                  "attn_kv_b",
                                                  "attn_k_b",
                                                  "attn_v_b",
                                                  "attn_kv_a_mqa",
                                                  "attn_kv_a_norm",
                                                  "attn_gate",
                                                  "attn_sub_norm",
                                                  "attn_output_norm",
                                                  "attn_rot_embd",
                                                  "post_attention_norm",
                                                  "rope_freqs",
                                                  "layer_output_norm",
                                                  "rope_factors_long",
                                                  "rope_factors_short",
                                                  "attn_post_norm"};
constexpr std::string_view kFeedForwardTensors[] = {
    "ffn_norm",       "ffn_gate",     "ffn_up",         "ffn_down",    "ffn_gate_inp",  "ffn_gate_inp_shexp",
    "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp", "exp_probs_b", "post_ffw_norm", "ffn_post_norm",
    "ffn_sub_norm",   "ffn_act",      "ffn_norm_exps",  "ffn_norm_exp"};
constexpr std::string_view kExpertTensors[] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_up_exps"};
// What is in no layer: the input's embedding, and what the output reads.
constexpr std::string_view kEmbeddingTensors[] = {"token_embd", "token_embd_norm",   "position_embd",
                                                  "rope_freqs", "rope_factors_long", "rope_factors_short"};
constexpr std::string_view kOutputTensors[] = {"output", "output_norm"};

template <std::size_t kCount>
bool IsOneOf(std::string_view name, const std::string_view (&names)[kCount]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// A tensor's name in parts: "blk.3.ffn_gate.7.weight" is layer 3, "ffn_gate", and of an expert.
struct GgufName {
  std::optional<std::int64_t> layer;
  std::string_view part;
  bool is_of_one_expert = false;  // older files have a tensor for each expert
};

GgufName ParseGgufName(std::string_view name) {
  GgufName parsed;
  constexpr std::string_view kBlock = "blk.";
  if (name.starts_with(kBlock)) {
    std::int64_t layer = 0;
    const char* const first = name.data() + kBlock.size();
    const auto [last, error] = std::from_chars(first, name.data() + name.size(), layer);
    if (error == std::errc() && last != name.data() + name.size() && *last == '.') {
      parsed.layer = layer;
      name.remove_prefix(static_cast<std::size_t>(last - name.data()) + 1);
    }
  }
  parsed.part = name.substr(0, name.find('.'));
  const std::string_view rest = name.substr(std::min(name.size(), parsed.part.size() + 1));
  parsed.is_of_one_expert = !rest.empty() && rest.front() >= '0' && rest.front() <= '9';
  return parsed;
}

// Values of metadata under the architecture's prefix: one for all layers, or one for each.
class GgufParameters {
 public:
  GgufParameters(const GgufHeader& header, std::string architecture)
      : header_(header), architecture_(std::move(architecture)) {}

  std::optional<std::int64_t> Find(std::string_view key, std::size_t layer = 0) const {
    const std::string name = Key(key);
    if (const GgufList* const list = header_.List(name)) {
      if (list->numbers.empty()) throw InputError(name, "expected a number, or one for each layer");
      return static_cast<std::int64_t>(list->numbers[std::min(layer, list->numbers.size() - 1)]);
    }
    const std::optional<std::int64_t> value = header_.Integer(name);
    if (value && (*value < 0 || *value > (std::int64_t{1} << 40))) {
      throw InputError(name, fmt::format("{}: expected 0 to 2^40", *value));
    }
    return value;
  }

  std::int64_t Need(std::string_view key, std::size_t layer = 0) const {
    const std::optional<std::int64_t> value = Find(key, layer);
    if (!value) throw InputError(Key(key), fmt::format("is missing: expected the number that {} needs", architecture_));
    return *value;
  }

  std::string Key(std::string_view key) const { return fmt::format("{}.{}", architecture_, key); }

 private:
  const GgufHeader& header_;
  std::string architecture_;
};

std::int64_t VocabularyOf(const GgufHeader& header, const GgufParameters& parameters) {
  if (const auto size = parameters.Find("vocab_size")) return *size;
  if (const GgufList* const tokens = header.List("tokenizer.ggml.tokens")) return tokens->length;
  for (const GgufTensor& tensor : header.tensors) {
    if (ParseGgufName(tensor.name).part == "token_embd" && tensor.shape.size() == 2) return tensor.shape[1];
  }
  throw InputError(parameters.Key("vocab_size"), "is missing, and there is no tensor token_embd.weight");
}

// Whether the layer sees only a window of tokens.
bool HasWindow(const GgufHeader& header, const GgufParameters& parameters, const GgufArchitecture& architecture,
               std::size_t layer) {
  const std::string key = parameters.Key("attention.sliding_window_pattern");
  if (header.List(key) != nullptr) return *parameters.Find("attention.sliding_window_pattern", layer) != 0;
  const std::int64_t every = parameters.Find("attention.sliding_window_pattern").value_or(architecture.window_every);
  return every == 0 || (every > 1 && (static_cast<std::int64_t>(layer) + 1) % every != 0);
}

// The caches of keys and values. Latent attention keeps one vector for all heads, and no values of its own: they are a
// part of it.
void SetCache(const GgufHeader& header, const GgufParameters& parameters, const GgufArchitecture& architecture,
              std::size_t index, InferenceModel* model) {
  InferenceLayer* const layer = &model->layers[index];
  const std::int64_t width = model->width;
  const auto latent = parameters.Find("attention.kv_lora_rank");
  if (latent && parameters.Find("attention.key_length_mla")) {
    layer->key_width = *latent + parameters.Need("rope.dimension_count");
    const std::int64_t head = *parameters.Find("attention.key_length_mla");
    model->query_width = std::max(model->query_width, parameters.Need("attention.head_count", index) * head);
    return;
  }
  const std::int64_t heads = parameters.Need("attention.head_count", index);
  if (heads == 0) return;  // no attention
  const std::int64_t kv_heads = parameters.Find("attention.head_count_kv", index).value_or(heads);
  model->query_width =
      std::max(model->query_width, heads * parameters.Find("attention.key_length").value_or(width / heads));
  layer->key_width = kv_heads * parameters.Find("attention.key_length").value_or(width / heads);
  layer->value_width = kv_heads * parameters.Find("attention.value_length").value_or(width / heads);
  if (HasWindow(header, parameters, architecture, index)) {
    layer->window = parameters.Find("attention.sliding_window").value_or(0);
  }
}

void AddTensor(const GgufTensor& tensor, InferenceModel* model, std::vector<std::string>* notes) {
  const GgufName name = ParseGgufName(tensor.name);
  if (!name.layer) {
    if (IsOneOf(name.part, kOutputTensors)) {
      model->output.Add(tensor);
    } else {
      model->embedding.Add(tensor);
      if (!IsOneOf(name.part, kEmbeddingTensors)) {
        notes->push_back(fmt::format("tensor {} is not known: taken as read with the embedding", tensor.name));
      }
    }
    return;
  }
  if (*name.layer >= static_cast<std::int64_t>(model->layers.size())) {
    throw InputError(tensor.name,
                     fmt::format("is of layer {}: expected 0 to {}", *name.layer, model->layers.size() - 1));
  }
  InferenceLayer& layer = model->layers[static_cast<std::size_t>(*name.layer)];
  if (layer.is_idle || name.part == "nextn") {
    layer.idle.Add(tensor);
  } else if (IsOfExperts(tensor.name)) {
    layer.experts.Add(tensor);
  } else if (IsOneOf(name.part, kFeedForwardTensors)) {
    layer.feed_forward.Add(tensor);
  } else {
    layer.attention.Add(tensor);
    model->has_query_norm |= name.part == "attn_q_norm";
    model->has_query_bias |= tensor.name.ends_with("attn_q.bias");
    if (!IsOneOf(name.part, kAttentionTensors)) {
      notes->push_back(fmt::format("tensor {} is not known: taken as read with the layer's attention", tensor.name));
    }
  }
}

// Every layer that takes part has attention, and a feed-forward part or experts.
void ExpectLayers(const InferenceModel& model) {
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const InferenceLayer& layer = model.layers[i];
    if (layer.is_idle) continue;
    const std::string place = fmt::format("blk.{}", i);
    if (layer.attention.weights.empty())
      throw InputError(place, "has no tensor of attention: expected attn_q or attn_qkv");
    if (layer.feed_forward.weights.empty() && layer.experts.weights.empty()) {
      throw InputError(place, "has no feed-forward part: expected ffn_up or ffn_up_exps");
    }
    if (!layer.experts.weights.empty() && model.num_experts == 0) {
      throw InputError(model.architecture + ".expert_count", "is missing, and " + place + " has experts");
    }
  }
  if (model.embedding.weights.empty()) throw InputError("token_embd.weight", "is missing");
}

// What generating one token reads of a part: FLOP are of products, a multiply-add is 2.
std::string Attrs(const WeightPart& part, double share) {
  return fmt::format(R"({{"flop":{},"read_bytes":{}}})", std::llround(2 * share * static_cast<double>(part.elements())),
                     std::llround(share * static_cast<double>(part.bytes())));
}

// Adds the ops of a graph one behind the other.
class ChainBuilder {
 public:
  ChainBuilder(const InferenceModel& model, GraphBuilder* builder) : model_(model), builder_(builder) {}

  void Add(const std::string& name, const WeightPart& part, double share, const std::string& layer) {
    if (part.weights.empty()) return;
    OpSpec op;
    op.name = name;
    op.kind = kStoredWeights;
    op.inputs = {last_};
    op.outputs = {{.size = {}, .dtype = DType::kF32, .shape = {1, model_.width}}};
    op.attrs = Attrs(part, share);
    op.flop = 2 * share * static_cast<double>(part.elements());
    op.persistent = {part.bytes()};
    op.pass = Pass::kForward;
    op.layer = layer;
    builder_->Add(op);
    last_ = name;
  }

  const std::string& last() const { return last_; }

 private:
  const InferenceModel& model_;
  GraphBuilder* builder_;
  std::string last_ = "tokens";
};

}  // namespace

std::optional<std::int64_t> GgufLayerOf(std::string_view tensor) { return ParseGgufName(tensor).layer; }
bool IsOfExperts(std::string_view tensor) {
  const GgufName name = ParseGgufName(tensor);
  return IsOneOf(name.part, kExpertTensors) || (name.is_of_one_expert && name.part.starts_with("ffn_"));
}
bool IsOfOutput(std::string_view tensor) {
  return !GgufLayerOf(tensor) && IsOneOf(ParseGgufName(tensor).part, kOutputTensors);
}

void WeightPart::Add(const GgufTensor& tensor) {
  for (StoredWeights& stored : weights) {
    if (stored.type == tensor.type) {
      stored.bytes += tensor.bytes;
      stored.elements += tensor.elements;
      return;
    }
  }
  weights.push_back({.type = tensor.type, .bytes = tensor.bytes, .elements = tensor.elements});
}

std::int64_t WeightPart::bytes() const {
  std::int64_t sum = 0;
  for (const StoredWeights& stored : weights) sum += stored.bytes;
  return sum;
}

std::int64_t WeightPart::elements() const {
  std::int64_t sum = 0;
  for (const StoredWeights& stored : weights) sum += stored.elements;
  return sum;
}

double InferenceModel::expert_share() const {
  return num_experts > 0 ? static_cast<double>(used_experts) / static_cast<double>(num_experts) : 1;
}

std::int64_t InferenceModel::weight_bytes() const {
  std::int64_t sum = embedding.bytes() + output.bytes();
  for (const InferenceLayer& layer : layers) {
    sum += layer.attention.bytes() + layer.feed_forward.bytes() + layer.experts.bytes() + layer.idle.bytes();
  }
  return sum;
}

InferenceModel ReadInferenceModel(const GgufHeader& header, std::vector<std::string>* notes) {
  InferenceModel model;
  const std::optional<std::string> architecture = header.Text("general.architecture");
  if (!architecture) throw InputError("general.architecture", "is missing: expected a name, such as llama");
  model.architecture = *architecture;
  const auto* const known = std::find_if(std::begin(kGgufArchitectures), std::end(kGgufArchitectures),
                                         [&](const GgufArchitecture& row) { return row.name == model.architecture; });
  if (known == std::end(kGgufArchitectures)) {
    throw InputError("general.architecture", fmt::format("{}: what its layers read of a token is not known (known: {})",
                                                         model.architecture, Listed(kGgufArchitectures)));
  }
  model.name = header.Text("general.name").value_or(model.architecture);
  const GgufParameters parameters(header, model.architecture);
  const std::int64_t layers = parameters.Need("block_count");
  if (layers < 1 || layers > kMostLayers) {
    throw InputError(parameters.Key("block_count"), fmt::format("{}: expected 1 to {}", layers, kMostLayers));
  }
  model.width = parameters.Need("embedding_length");
  if (model.width < 1) throw InputError(parameters.Key("embedding_length"), "0: expected at least 1");
  model.context_length = parameters.Find("context_length").value_or(0);
  model.num_experts = parameters.Find("expert_count").value_or(0);
  if (model.num_experts > 0) {
    model.used_experts = parameters.Need("expert_used_count");
    if (model.used_experts < 1 || model.used_experts > model.num_experts) {
      throw InputError(parameters.Key("expert_used_count"), fmt::format("{}: expected 1 to {}, the number of experts",
                                                                        model.used_experts, model.num_experts));
    }
  }
  model.expert_feed_forward =
      parameters.Find("expert_feed_forward_length").value_or(parameters.Find("feed_forward_length").value_or(0));
  model.vocabulary = VocabularyOf(header, parameters);
  model.layers.resize(static_cast<std::size_t>(layers));
  const std::int64_t idle = parameters.Find("nextn_predict_layers").value_or(0);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    InferenceLayer& layer = model.layers[i];
    layer.is_idle = static_cast<std::int64_t>(i) >= layers - idle;
    if (!layer.is_idle) SetCache(header, parameters, *known, i, &model);
    model.heads = std::max(model.heads, parameters.Need("attention.head_count", i));
    model.feed_forward = std::max(model.feed_forward, parameters.Find("feed_forward_length", i).value_or(0));
  }
  for (const GgufTensor& tensor : header.tensors) AddTensor(tensor, &model, notes);
  model.tensors = header.tensors;
  model.is_tied = std::none_of(header.tensors.begin(), header.tensors.end(),
                               [](const GgufTensor& tensor) { return tensor.name == "output.weight"; });
  ExpectLayers(model);
  return model;
}

Graph InferenceGraph(const InferenceModel& model) {
  GraphBuilder builder(model.name);
  OpSpec tokens;
  tokens.name = "tokens";
  tokens.kind = "input";
  tokens.outputs = {{.size = {}, .dtype = DType::kI32, .shape = {1}}};
  tokens.pass = Pass::kForward;
  builder.Add(tokens);
  ChainBuilder chain(model, &builder);
  chain.Add("token_embd", model.embedding, 1 / static_cast<double>(std::max<std::int64_t>(1, model.vocabulary)), "");
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const InferenceLayer& layer = model.layers[i];
    const std::string name = fmt::format("blk.{}", i);
    chain.Add(name + ".attn", layer.attention, 1, name);
    chain.Add(name + ".ffn", layer.feed_forward, 1, name);
    chain.Add(name + ".exps", layer.experts, model.expert_share(), name);
    chain.Add(name + ".idle", layer.idle, 0, name);
  }
  chain.Add("output", model.output, 1, "");
  return builder.Build();
}

}  // namespace emplace::datasets
