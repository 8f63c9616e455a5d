#include "datasets/models/hugging_face_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"

namespace emplace::datasets {
namespace {

// Fields that change neither the shapes of a network nor what its layers read. The last ones are of single kinds: how
// routers scale and choose, how attention scales, what a file says twice.
constexpr std::string_view kHarmless[] = {"_attn_implementation",
                                          "_name_or_path",
                                          "architectures",
                                          "auto_map",
                                          "bad_words_ids",
                                          "begin_suppress_tokens",
                                          "bos_token_id",
                                          "cache_implementation",
                                          "chunk_size_feed_forward",
                                          "decoder_start_token_id",
                                          "diversity_penalty",
                                          "do_sample",
                                          "dtype",
                                          "early_stopping",
                                          "eos_token_id",
                                          "exponential_decay_length_penalty",
                                          "finetuning_task",
                                          "forced_bos_token_id",
                                          "forced_eos_token_id",
                                          "id2label",
                                          "is_decoder",
                                          "label2id",
                                          "length_penalty",
                                          "max_length",
                                          "min_length",
                                          "no_repeat_ngram_size",
                                          "num_beam_groups",
                                          "num_beams",
                                          "num_return_sequences",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "output_past",
                                          "output_scores",
                                          "pad_token_id",
                                          "prefix",
                                          "problem_type",
                                          "pruned_heads",
                                          "quantization_config",
                                          "remove_invalid_values",
                                          "repetition_penalty",
                                          "return_dict",
                                          "return_dict_in_generate",
                                          "sep_token_id",
                                          "suppress_tokens",
                                          "task_specific_params",
                                          "temperature",
                                          "tf_legacy_loss",
                                          "tokenizer_class",
                                          "top_k",
                                          "top_p",
                                          "torch_dtype",
                                          "torchscript",
                                          "transformers_version",
                                          "typical_p",
                                          "use_bfloat16",
                                          "use_cache",
                                          "attention_dropout",
                                          "attn_pdrop",
                                          "classifier_dropout",
                                          "dropout_rate",
                                          "embd_pdrop",
                                          "emb_pdrop",
                                          "hidden_dropout",
                                          "resid_pdrop",
                                          "summary_first_dropout",
                                          "summary_activation",
                                          "summary_proj_to_labels",
                                          "summary_type",
                                          "summary_use_proj",
                                          "initializer_factor",
                                          "initializer_range",
                                          "init_config",
                                          "init_device",
                                          "layer_norm_eps",
                                          "layer_norm_epsilon",
                                          "norm_type",
                                          "rms_norm_eps",
                                          "rope_interleave",
                                          "rope_local_base_freq",
                                          "rope_parameters",
                                          "rope_scaling",
                                          "rope_theta",
                                          "relative_attention_max_distance",
                                          "original_max_position_embeddings",
                                          "initial_context_length",
                                          "n_ctx",
                                          "aux_loss_alpha",
                                          "ep_size",
                                          "n_group",
                                          "norm_topk_prob",
                                          "output_router_logits",
                                          "pretraining_tp",
                                          "routed_scaling_factor",
                                          "router_aux_loss_coef",
                                          "router_jitter_noise",
                                          "scoring_func",
                                          "seq_aux",
                                          "swiglu_alpha",
                                          "swiglu_limit",
                                          "topk_group",
                                          "topk_method",
                                          "embedding_fraction",
                                          "query_pre_attn_scalar",
                                          "reorder_and_upcast_attn",
                                          "scale_attn_by_inverse_layer_idx",
                                          "scale_attn_weights",
                                          "scale_decoder_outputs",
                                          "tokenizer_name",
                                          "verbose",
                                          "max_window_layers"};

// The fields of a config, each asked for by its name. What has been asked for is known.
class Config {
 public:
  explicit Config(const JsonNode& node) : node_(node) { node.Object(); }

  // null counts as missing.
  std::optional<JsonNode> Find(std::string_view key) {
    known_.emplace(key);
    const JsonValue* const value = FindMember(node_.value(), key);
    if (value == nullptr || value->As<std::monostate>() != nullptr) return std::nullopt;
    return JsonNode(node_, key, *value);
  }
  std::int64_t Size(std::string_view key, std::optional<std::int64_t> otherwise = std::nullopt) {
    const auto node = Find(key);
    if (!node && otherwise) return *otherwise;
    if (!node) Miss(key, "an integer from 1");
    return node->Integer(otherwise.value_or(1) < 1 ? 0 : 1, 1 << 28);
  }
  [[noreturn]] void Miss(std::string_view key, std::string_view expected) const {
    throw InputError(PlaceOfKey(node_.Place(), key), fmt::format("is missing ({})", expected));
  }
  bool Flag(std::string_view key, bool otherwise) {
    const auto node = Find(key);
    return node ? node->Flag() : otherwise;
  }
  double Number(std::string_view key) {
    const auto node = Find(key);
    return node ? node->Number(0, 1e6) : 0;
  }
  std::string Text(std::string_view key, std::string_view otherwise) {
    const auto node = Find(key);
    return node ? node->Text() : std::string(otherwise);
  }
  // A flag that has one value in the networks that can be described.
  void ExpectFlag(std::string_view key, bool expected) {
    const auto node = Find(key);
    if (node && node->Flag() != expected) node->Refuse(expected ? "true" : "false");
  }
  // Asked for, and read nowhere.
  void Ignore(std::string_view key) { known_.emplace(key); }

  void RefuseUnknown(std::string_view kind) const {
    for (const JsonMember& member : node_.Object()) {
      if (known_.contains(member.key) || std::ranges::find(kHarmless, member.key) != std::end(kHarmless)) continue;
      throw InputError(PlaceOfKey(node_.Place(), member.key),
                       fmt::format("is not known of the networks of model_type {}", kind));
    }
  }

 private:
  const JsonNode& node_;
  std::set<std::string, std::less<>> known_;
};

ActivationKind ActivationOf(Config& config, std::string_view key, std::string_view otherwise) {
  const auto node = config.Find(key);
  const std::string name = node ? node->Text() : std::string(otherwise);
  if (name == "silu" || name == "swish") return ActivationKind::kSilu;
  if (name == "relu") return ActivationKind::kRelu;
  if (name == "relu2") return ActivationKind::kSquaredRelu;
  if (name.starts_with("gelu")) return ActivationKind::kGelu;
  node->Refuse("silu, relu, relu2, gelu or one of its approximations");
}

// The layers with a window, from the list of each layer's kind or else from the rule of the model.
void ReadWindows(Config& config, TransformerNetwork* network) {
  const auto node = config.Find("layer_types");
  if (!node) return;
  const JsonList& kinds = node->List();
  constexpr std::string_view kAllowed =
      "\"full_attention\" or \"sliding_attention\" for each layer, every n-th full or none";
  if (kinds.size() != static_cast<std::size_t>(network->layers)) node->Refuse(kAllowed);
  std::vector<bool> full;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const JsonNode kind(*node, i, kinds[i]);
    const std::string& text = kind.Text();
    if (text != "full_attention" && text != "sliding_attention")
      kind.Refuse("\"full_attention\" or \"sliding_attention\"");
    full.push_back(text == "full_attention");
  }
  const auto first = std::find(full.begin(), full.end(), true);
  network->full_every = first == full.end() ? 0 : first - full.begin() + 1;
  for (std::size_t i = 0; i < full.size(); ++i) {
    const std::int64_t number = static_cast<std::int64_t>(i) + 1;
    if (full[i] != (network->full_every > 0 && number % network->full_every == 0)) node->Refuse(kAllowed);
  }
  if (network->full_every == 1) network->window = 0;
  if (network->window == 0) network->full_every = 0;
}

// What the decoders in the style of Llama have in common.
TransformerNetwork ReadLlamaLike(Config& config, bool tied, std::string_view activation_key = "hidden_act") {
  TransformerNetwork network;
  network.layers = config.Size("num_hidden_layers");
  network.d_model = config.Size("hidden_size");
  network.heads = config.Size("num_attention_heads");
  network.kv_heads = config.Size("num_key_value_heads", network.heads);
  network.head_width = config.Size("head_dim", std::max<std::int64_t>(1, network.d_model / network.heads));
  network.d_ff = config.Size("intermediate_size");
  network.vocabulary = config.Size("vocab_size");
  network.max_positions = config.Size("max_position_embeddings", 0);
  network.activation = ActivationOf(config, activation_key, activation_key == "hidden_act" ? "silu" : "gelu");
  network.tied = config.Flag("tie_word_embeddings", tied);
  return network;
}

TransformerNetwork ReadLlama(Config& config) {
  TransformerNetwork network = ReadLlamaLike(config, false);
  network.qkv_bias = network.output_bias = config.Flag("attention_bias", false);
  network.mlp_bias = config.Flag("mlp_bias", false);
  return network;
}

TransformerNetwork ReadMistral(Config& config) {
  TransformerNetwork network = ReadLlamaLike(config, false);
  network.window = config.Size("sliding_window", 0);
  ReadWindows(config, &network);
  return network;
}

TransformerNetwork ReadMixtral(Config& config) {
  TransformerNetwork network = ReadMistral(config);
  network.experts.count = config.Size("num_local_experts", 8);
  network.experts.top_k = config.Size("num_experts_per_tok", 2);
  network.experts.d_expert = network.d_ff;
  return network;
}

// Qwen's windows are off in all published networks.
void ReadQwenWindows(Config& config, TransformerNetwork* network) {
  config.ExpectFlag("use_sliding_window", false);
  config.Ignore("sliding_window");
  ReadWindows(config, network);
  if (network->window == 0) network->full_every = 0;
}

TransformerNetwork ReadQwen2(Config& config) {
  TransformerNetwork network = ReadLlamaLike(config, false);
  network.qkv_bias = true;
  ReadQwenWindows(config, &network);
  return network;
}

TransformerNetwork ReadQwen3(Config& config) {
  TransformerNetwork network = ReadLlamaLike(config, false);
  network.qkv_bias = network.output_bias = config.Flag("attention_bias", false);
  network.qk_norm = true;
  ReadQwenWindows(config, &network);
  return network;
}

TransformerNetwork ReadQwen3Moe(Config& config) {
  TransformerNetwork network = ReadQwen3(config);
  TransformerExperts& experts = network.experts;
  experts.count = config.Size("num_local_experts", 128);
  experts.count = config.Size("num_experts", experts.count);
  experts.top_k = config.Size("num_experts_per_tok", 8);
  experts.d_expert = config.Size("moe_intermediate_size");
  experts.every = config.Size("decoder_sparse_step", 1);
  if (const auto dense = config.Find("mlp_only_layers")) {
    for (const JsonValue& layer : dense->List()) {
      if (layer.As<std::int64_t>() == nullptr || *layer.As<std::int64_t>() != experts.dense_first_layers) {
        dense->Refuse("the numbers of the first layers, from 0");
      }
      ++experts.dense_first_layers;
    }
  }
  return network;
}

TransformerNetwork ReadDeepSeek(Config& config) {
  TransformerNetwork network = ReadLlamaLike(config, false);
  config.Ignore("qk_head_dim");
  network.head_width = network.d_model / network.heads;
  network.kv_heads = network.heads;  // of latent attention, whatever the file says
  network.qkv_bias = network.output_bias = config.Flag("attention_bias", false);
  network.mlp_bias = config.Flag("mlp_bias", false);
  network.latent = {.q_rank = config.Size("q_lora_rank", 0),
                    .kv_rank = config.Size("kv_lora_rank"),
                    .nope_width = config.Size("qk_nope_head_dim"),
                    .rope_width = config.Size("qk_rope_head_dim"),
                    .value_width = config.Size("v_head_dim")};
  TransformerExperts& experts = network.experts;
  experts.count = config.Size("n_routed_experts", 0);
  experts.top_k = config.Size("num_experts_per_tok", 1);
  experts.d_expert = config.Size("moe_intermediate_size");
  experts.shared = config.Size("n_shared_experts", 0);
  experts.d_shared = experts.shared * experts.d_expert;
  experts.dense_first_layers = config.Size("first_k_dense_replace", 0);
  if (const auto every = config.Find("moe_layer_freq")) every->Integer(1, 1, "1");
  return network;
}

TransformerNetwork ReadDeepSeekV3(Config& config) {
  TransformerNetwork network = ReadDeepSeek(config);
  network.experts.balance_bias = network.experts.count > 0;
  network.mtp_layers = config.Size("num_nextn_predict_layers", 0);
  return network;
}

TransformerNetwork ReadGptOss(Config& config) {
  TransformerNetwork network = ReadLlamaLike(config, false);
  network.qkv_bias = network.output_bias = config.Flag("attention_bias", true);
  network.mlp_bias = true;
  network.sinks = true;
  network.window = config.Size("sliding_window", 0);
  network.full_every = 2;
  ReadWindows(config, &network);
  TransformerExperts& experts = network.experts;
  experts.count = config.Size("num_local_experts");
  experts.top_k = config.Size("experts_per_token", 4);
  experts.top_k = config.Size("num_experts_per_tok", experts.top_k);
  experts.d_expert = network.d_ff;
  experts.router_bias = true;
  return network;
}

TransformerNetwork ReadGemma(Config& config, std::int64_t full_every) {
  TransformerNetwork network = ReadLlamaLike(config, true, "hidden_activation");
  config.Ignore("hidden_act");  // an older name, which transformers does not read any more
  config.ExpectFlag("use_bidirectional_attention", false);
  network.qkv_bias = network.output_bias = config.Flag("attention_bias", false);
  network.post_norms = true;
  network.window = config.Size("sliding_window", 0);
  network.full_every = config.Size("sliding_window_pattern", full_every);
  network.full_every = config.Size("_sliding_window_pattern", network.full_every);
  ReadWindows(config, &network);
  network.attention_softcap = config.Number("attn_logit_softcapping");
  network.logit_softcap = config.Number("final_logit_softcapping");
  return network;
}

TransformerNetwork ReadGemma2(Config& config) { return ReadGemma(config, 2); }

TransformerNetwork ReadGemma3(Config& config) {
  TransformerNetwork network = ReadGemma(config, 6);
  network.qk_norm = true;
  return network;
}

// The letters of a network's layers, from a text of them or from a list of names, old or new; empty without either.
std::string ReadPattern(Config& config, std::string_view text_key, std::initializer_list<std::string_view> list_keys) {
  struct BlockName {
    std::string_view name;
    char letter;
  };
  constexpr BlockName kBlocks[] = {{"mamba", 'M'},     {"linear_attention", 'M'},
                                   {"attention", '*'}, {"full_attention", '*'},
                                   {"mlp", '-'},       {"moe", 'E'}};
  std::string pattern = config.Text(text_key, "");
  for (const std::string_view key : list_keys) {
    const auto node = config.Find(key);
    if (!node) continue;
    pattern.clear();
    for (std::size_t i = 0; i < node->List().size(); ++i) {
      const JsonNode name(*node, i, node->List()[i]);
      const auto found = std::ranges::find(kBlocks, name.Text(), &BlockName::name);
      if (found == std::end(kBlocks)) name.Refuse("mamba, linear_attention, attention, full_attention, mlp or moe");
      pattern += found->letter;
    }
  }
  return pattern;
}

void ReadNemotronExperts(Config& config, TransformerExperts* experts) {
  experts->count = config.Size("num_local_experts", 8);
  experts->count = config.Size("n_routed_experts", experts->count);
  experts->top_k = config.Size("num_experts_per_tok", 2);
  experts->d_expert = config.Size("moe_intermediate_size");
  experts->shared = config.Size("n_shared_experts", 1);
  experts->d_shared = config.Size("moe_shared_expert_intermediate_size");
  experts->latent = config.Size("moe_latent_size", 0);
  experts->balance_bias = true;
}

TransformerNetwork ReadNemotronH(Config& config) {
  TransformerNetwork network;
  network.pattern = ReadPattern(config, "hybrid_override_pattern", {"layer_types", "layers_block_type"});
  if (network.pattern.empty()) {
    config.Miss("hybrid_override_pattern",
                "a letter for each layer: M for Mamba, * for attention, - for an MLP, E for experts");
  }
  network.layers = config.Size("num_hidden_layers", static_cast<std::int64_t>(network.pattern.size()));
  network.d_model = config.Size("hidden_size");
  network.heads = config.Size("num_attention_heads");
  network.kv_heads = config.Size("num_key_value_heads", network.heads);
  network.head_width = config.Size("attention_head_dim", 128);  // its name in Nemotron-H's own code
  network.head_width = config.Size("head_dim", network.head_width);
  network.d_ff = config.Size("intermediate_size");
  network.vocabulary = config.Size("vocab_size");
  network.max_positions = config.Size("max_position_embeddings", 0);
  network.gated = false;
  network.activation = ActivationOf(config, "mlp_hidden_act", "relu2");
  network.positions = PositionKind::kNone;
  network.tied = config.Flag("tie_word_embeddings", false);
  network.window = config.Size("sliding_window", 0);
  for (const std::string_view key : {"attention_bias", "mlp_bias", "use_bias", "mamba_proj_bias", "residual_in_fp32"}) {
    config.ExpectFlag(key, false);
  }
  if (const auto act = config.Find("mamba_hidden_act"); act && act->Text() != "silu") act->Refuse("silu");
  network.mamba = {.heads = config.Size("mamba_num_heads"),
                   .head_width = config.Size("mamba_head_dim"),
                   .groups = config.Size("n_groups", 8),
                   .state = config.Size("ssm_state_size"),
                   .kernel = config.Size("conv_kernel", 4),
                   .chunk = config.Size("chunk_size", 128),
                   .conv_bias = config.Flag("use_conv_bias", true)};
  network.mtp_layers = config.Size("num_nextn_predict_layers", 0);
  const std::string further =
      ReadPattern(config, "mtp_hybrid_override_pattern", {"mtp_layer_types", "mtp_layers_block_type"});
  if (network.mtp_layers > 0) network.mtp_pattern = further.empty() ? "*E" : further;
  if ((network.pattern + network.mtp_pattern).find('E') != std::string::npos) {
    ReadNemotronExperts(config, &network.experts);
  }
  // These fields describe experts that no layer has, or change neither shapes nor what layers read: `expand`, and the
  // fields of rotary embeddings, which its attention does not have.
  for (const std::string_view key :
       {"num_local_experts", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts",
        "moe_shared_expert_intermediate_size", "moe_latent_size", "moe_shared_expert_overlap", "expand",
        "mamba_ssm_cache_dtype", "num_logits_to_keep", "partial_rotary_factor", "rescale_prenorm_residual",
        "time_step_floor", "time_step_limit", "time_step_max", "time_step_min", "time_step_rank",
        "use_mamba_kernels"}) {
    config.Ignore(key);
  }
  return network;
}

TransformerNetwork ReadGpt2(Config& config) {
  TransformerNetwork network;
  network.layers = config.Size("n_layer");
  network.d_model = config.Size("n_embd");
  network.heads = network.kv_heads = config.Size("n_head");
  network.head_width = network.d_model / network.heads;
  network.d_ff = config.Size("n_inner", 4 * network.d_model);
  network.vocabulary = config.Size("vocab_size");
  network.max_positions = config.Size("n_positions");
  network.gated = false;
  network.activation = ActivationOf(config, "activation_function", "gelu_new");
  network.norm = NormKind::kLayer;
  network.norm_bias = true;
  network.positions = PositionKind::kLearned;
  network.tied = config.Flag("tie_word_embeddings", true);
  network.qkv_bias = network.output_bias = network.mlp_bias = true;
  config.ExpectFlag("add_cross_attention", false);
  return network;
}

TransformerNetwork ReadMpt(Config& config) {
  TransformerNetwork network;
  network.layers = config.Size("n_layers");
  network.d_model = config.Size("d_model");
  network.heads = network.kv_heads = config.Size("n_heads");
  network.head_width = network.d_model / network.heads;
  network.d_ff = config.Size("expansion_ratio", 4) * network.d_model;
  network.vocabulary = config.Size("vocab_size");
  network.max_positions = config.Size("max_seq_len");
  network.gated = false;
  network.activation = ActivationKind::kGelu;
  network.norm = NormKind::kLayer;
  network.positions = PositionKind::kAlibi;
  network.tied = config.Flag("tie_word_embeddings", true);
  config.ExpectFlag("no_bias", true);
  config.Ignore("learned_pos_emb");  // alibi takes its place
  config.Ignore("logit_scale");
  if (const auto node = config.Find("attn_config")) {
    Config attention(*node);
    attention.ExpectFlag("alibi", true);
    attention.ExpectFlag("is_encoder_decoder", false);
    attention.ExpectFlag("qk_ln", false);
    attention.ExpectFlag("prefix_lm", false);
    attention.ExpectFlag("attn_uses_sequence_id", false);
    if (const auto kind = attention.Find("attn_type"); kind && kind->Text() != "multihead_attention") {
      kind->Refuse("multihead_attention");
    }
    for (const std::string_view key : {"alibi_bias_max", "attn_impl", "clip_qkv", "model_type", "softmax_scale"}) {
      attention.Ignore(key);
    }
    attention.RefuseUnknown("mpt");
  }
  return network;
}

TransformerNetwork ReadT5(Config& config) {
  TransformerNetwork network;
  network.encoder_layers = config.Size("num_layers");
  network.layers = config.Size("num_decoder_layers", network.encoder_layers);
  network.d_model = config.Size("d_model");
  network.heads = network.kv_heads = config.Size("num_heads");
  network.head_width = config.Size("d_kv");
  network.d_ff = config.Size("d_ff");
  network.vocabulary = config.Size("vocab_size");
  const std::string kind = config.Text("feed_forward_proj", "relu");
  network.gated = kind.starts_with("gated-");
  const std::string_view activation = std::string_view(kind).substr(network.gated ? 6 : 0);
  if (activation != "relu" && activation != "gelu" && activation != "silu") {
    config.Find("feed_forward_proj")->Refuse("relu, gelu or silu, gated- in front or not");
  }
  network.activation = *EnumOfName<ActivationKind>(activation);
  for (const std::string_view key : {"dense_act_fn", "is_gated_act", "n_positions"}) config.Ignore(key);
  network.positions = PositionKind::kRelative;
  network.relative_buckets = config.Size("relative_attention_num_buckets", 32);
  network.tied = config.Flag("tie_word_embeddings", true);
  return network;
}

struct Kind {
  std::string_view name;  // model_type
  TransformerNetwork (*read)(Config& config);
};
constexpr Kind kKinds[] = {{"llama", ReadLlama},
                           {"mistral", ReadMistral},
                           {"mixtral", ReadMixtral},
                           {"qwen2", ReadQwen2},
                           {"qwen3", ReadQwen3},
                           {"qwen3_moe", ReadQwen3Moe},
                           {"deepseek_v2", ReadDeepSeek},
                           {"deepseek_v3", ReadDeepSeekV3},
                           {"gpt_oss", ReadGptOss},
                           {"gemma2", ReadGemma2},
                           {"gemma3_text", ReadGemma3},
                           {"nemotron_h", ReadNemotronH},
                           {"gpt2", ReadGpt2},
                           {"mpt", ReadMpt},
                           {"t5", ReadT5}};

std::string NameIn(Config& config, const std::string& kind) {
  std::string path = config.Text("_name_or_path", "");
  while (!path.empty() && path.back() == '/') path.pop_back();
  std::string name = path.substr(path.rfind('/') + 1);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  return name.empty() ? kind : name;
}

TransformerNetwork Read(const JsonNode& root) {
  Config config(root);
  const std::string type = NeedMember(root, "model_type", Listed(kKinds)).Text();
  const Kind& kind = FindByName(kKinds, type, "model_type", "model_type");
  config.Ignore("model_type");
  config.ExpectFlag("is_encoder_decoder", type == "t5");
  TransformerNetwork network = kind.read(config);
  config.RefuseUnknown(type);
  network.name = NameIn(config, type);
  network.source = fmt::format("config.json of model_type {}", type);
  CheckTransformer(network);
  return network;
}

// Python writes Infinity and NaN, which are no JSON, and stand in fields that are not read; they become null.
std::string WithoutInfinities(const std::string& content) {
  std::string text;
  bool quoted = false;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::string_view rest = std::string_view(content).substr(i);
    if (!quoted && (rest.starts_with("Infinity") || rest.starts_with("-Infinity") || rest.starts_with("NaN"))) {
      text += "null";
      i += rest.find_first_of("yN", 1);
      continue;
    }
    if (quoted && rest.front() == '\\' && rest.size() > 1)
      text += content[i++];
    else if (rest.front() == '"')
      quoted = !quoted;
    text += content[i];
  }
  return text;
}

}  // namespace

bool LooksLikeHuggingFaceConfig(std::string_view head) {
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && head[first] == '{' && head.find("\"model_type\"") != std::string_view::npos;
}

TransformerNetwork ReadHuggingFaceConfig(const std::string& content, const std::string& file) {
  return WithLocation(file, [&] {
    const JsonValue root = ParseJson(WithoutInfinities(content));
    return Read(JsonNode(root));
  });
}

}  // namespace emplace::datasets
