#include "datasets/models/hugging_face_config.h"

#include <gmock/gmock.h>

#include <string>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const std::string& content) {
  try {
    ReadHuggingFaceConfig(content, "config.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// The fields that matter of published files, the parameters of the networks, and some fields that do not matter.
struct Case {
  const char* preset;
  const char* config;
};
const Case kCases[] = {
    {"llama-3.2-1b", R"({"_name_or_path": "meta-llama/Llama-3.2-1B", "architectures": ["LlamaForCausalLM"],
      "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001,
      "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
      "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
      "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1,
      "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0, "rope_type": "llama3"}, "rope_theta": 500000.0,
      "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0",
      "use_cache": true, "vocab_size": 128256})"},
    {"mistral-7b", R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
      "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "sliding_window": 4096,
      "tie_word_embeddings": false, "vocab_size": 32000})"},
    {"mixtral-8x7b", R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
      "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
      "num_local_experts": 8, "router_aux_loss_coef": 0.02, "sliding_window": null, "vocab_size": 32000})"},
    {"qwen2.5-7b", R"({"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "max_window_layers": 28,
      "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "sliding_window": 131072,
      "use_sliding_window": false, "vocab_size": 152064})"},
    {"qwen3-4b", R"({"model_type": "qwen3", "head_dim": 128, "hidden_size": 2560, "intermediate_size": 9728,
      "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8, "tie_word_embeddings": true,
      "vocab_size": 151936})"},
    {"qwen3-30b-a3b", R"({"model_type": "qwen3_moe", "decoder_sparse_step": 1, "head_dim": 128, "hidden_size": 2048,
      "intermediate_size": 6144, "mlp_only_layers": [], "moe_intermediate_size": 768, "norm_topk_prob": true,
      "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
      "num_key_value_heads": 4, "vocab_size": 151936})"},
    {"deepseek-v2-lite", R"({"model_type": "deepseek_v2", "auto_map": {}, "ep_size": 1, "first_k_dense_replace": 1,
      "hidden_size": 2048, "intermediate_size": 10944, "kv_lora_rank": 512, "moe_intermediate_size": 1408,
      "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 2, "num_attention_heads": 16,
      "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16, "q_lora_rank": null,
      "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 102400})"},
    {"deepseek-v3", R"({"model_type": "deepseek_v3", "first_k_dense_replace": 3, "hidden_size": 7168,
      "intermediate_size": 18432, "kv_lora_rank": 512, "moe_intermediate_size": 2048, "moe_layer_freq": 1,
      "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128, "num_experts_per_tok": 8,
      "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536,
      "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "quantization_config": {"quant_method": "fp8"},
      "scoring_func": "sigmoid", "topk_method": "noaux_tc", "v_head_dim": 128, "vocab_size": 129280})"},
    {"gemma-2-2b", R"({"model_type": "gemma2", "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
      "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
      "hidden_size": 2304, "intermediate_size": 9216, "num_attention_heads": 8, "num_hidden_layers": 26,
      "num_key_value_heads": 4, "query_pre_attn_scalar": 256, "sliding_window": 4096, "vocab_size": 256000})"},
    {"gemma-3-1b", R"({"model_type": "gemma3_text", "attn_logit_softcapping": null, "final_logit_softcapping": null,
      "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "intermediate_size": 6912,
      "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1, "rope_local_base_freq": 10000,
      "sliding_window": 512, "sliding_window_pattern": 6, "vocab_size": 262144})"},
    {"nemotron-h-8b", R"({"model_type": "nemotron_h", "attention_bias": false, "attention_head_dim": 128,
      "chunk_size": 128, "conv_kernel": 4, "expand": 2, "hidden_size": 4096,
      "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-", "intermediate_size": 21504,
      "mamba_head_dim": 64, "mamba_hidden_act": "silu", "mamba_num_heads": 128, "mamba_proj_bias": false,
      "max_position_embeddings": 8192, "mlp_bias": false, "mlp_hidden_act": "relu2", "n_groups": 8,
      "num_attention_heads": 32, "num_hidden_layers": 52, "num_key_value_heads": 8, "rescale_prenorm_residual": true,
      "residual_in_fp32": false, "ssm_state_size": 128, "time_step_limit": [0.0, Infinity], "use_bias": false,
      "use_conv_bias": true, "use_mamba_kernels": true, "vocab_size": 131072})"},
    {"gpt-2", R"({"model_type": "gpt2", "activation_function": "gelu_new", "attn_pdrop": 0.1, "n_ctx": 1024,
      "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257})"},
    {"mpt-7b", R"({"model_type": "mpt", "attn_config": {"alibi": true, "attn_impl": "torch", "attn_pdrop": 0},
      "d_model": 4096, "expansion_ratio": 4, "max_seq_len": 2048, "n_heads": 32, "n_layers": 32, "no_bias": true,
      "vocab_size": 50432})"},
    {"t5-3b", R"({"model_type": "t5", "d_ff": 16384, "d_kv": 128, "d_model": 1024, "decoder_start_token_id": 0,
      "dropout_rate": 0.1, "is_encoder_decoder": true, "n_positions": 512, "num_heads": 32, "num_layers": 24,
      "relative_attention_num_buckets": 32, "vocab_size": 32128})"},
};

TEST(HuggingFaceConfigTest, PublishedFilesAreTheNetworksOfTheirNames) {
  for (const Case& row : kCases) {
    SCOPED_TRACE(row.preset);
    EXPECT_TRUE(LooksLikeHuggingFaceConfig(row.config));
    const TransformerNetwork read = ReadHuggingFaceConfig(row.config, "config.json");
    const TransformerNetwork& preset = *FindTransformer(row.preset);
    EXPECT_EQ(Parameters(read).total, Parameters(preset).total);
    EXPECT_EQ(Parameters(read).active, Parameters(preset).active);
    EXPECT_EQ(read.heads, preset.heads);
    EXPECT_EQ(read.key_width(), preset.key_width());
    EXPECT_EQ(read.activation, preset.activation);
    EXPECT_EQ(read.positions, preset.positions);
    EXPECT_EQ(read.mtp_layers, preset.mtp_layers);
    EXPECT_EQ(read.attention_softcap, preset.attention_softcap);
    EXPECT_EQ(read.pattern, preset.pattern);
    for (std::int64_t layer = 0; layer < read.layers; ++layer) EXPECT_EQ(read.WindowOf(layer), preset.WindowOf(layer));
  }
  EXPECT_EQ(ReadHuggingFaceConfig(kCases[0].config, "config.json").name, "llama-3.2-1b");
  EXPECT_EQ(ReadHuggingFaceConfig(kCases[1].config, "config.json").name, "mistral");
}

TEST(HuggingFaceConfigTest, WindowsFollowTheListOfLayers) {
  const std::string head = R"({"model_type": "gpt_oss", "head_dim": 64, "hidden_size": 2880, "intermediate_size": 2880,
    "num_attention_heads": 64, "num_hidden_layers": 4, "num_key_value_heads": 8, "num_local_experts": 32,
    "experts_per_token": 4, "sliding_window": 128, "vocab_size": 201088, "layer_types": )";
  const TransformerNetwork read = ReadHuggingFaceConfig(
      head + R"(["sliding_attention", "full_attention", "sliding_attention", "full_attention"]})", "config.json");
  EXPECT_EQ(read.WindowOf(0), 128);
  EXPECT_EQ(read.WindowOf(3), 0);
  TransformerNetwork preset = *FindTransformer("gpt-oss-20b");
  preset.layers = 4;
  EXPECT_EQ(Parameters(read).total, Parameters(preset).total);
  EXPECT_THAT(Refusal(head + R"(["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"]})"),
              HasSubstr("layer_types"));
}

TEST(HuggingFaceConfigTest, LayersOfAHybridMayBeAListOfNames) {
  const std::string head = R"({"model_type": "nemotron_h", "hidden_size": 32, "intermediate_size": 48,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "mamba_num_heads": 8, "mamba_head_dim": 4,
    "n_groups": 2, "ssm_state_size": 6, "num_hidden_layers": null, "vocab_size": 96, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 10, "moe_shared_expert_intermediate_size": 14,
    "moe_latent_size": 12)";
  const std::string list = R"(, "layers_block_type": ["mamba", "mlp", "linear_attention", "attention", "moe"])";
  const TransformerNetwork read = ReadHuggingFaceConfig(head + list + "}", "config.json");
  EXPECT_EQ(read.pattern, "M-M*E");
  EXPECT_EQ(read.experts.latent, 12);
  EXPECT_TRUE(read.mtp_pattern.empty());
  EXPECT_EQ(Parameters(read).total, 27168);  // of transformers 5.24.0
  const TransformerNetwork further = ReadHuggingFaceConfig(
      head + R"(, "hybrid_override_pattern": "M*", "num_nextn_predict_layers": 1})", "config.json");
  EXPECT_EQ(further.mtp_pattern, "*E");
  EXPECT_EQ(further.experts.count, 4);
  EXPECT_EQ(ReadHuggingFaceConfig(head + R"(, "hybrid_override_pattern": "M*"})", "config.json").experts.count, 0);
  EXPECT_EQ(
      Refusal(head + "}"),
      "config.json: hybrid_override_pattern: is missing (a letter for each layer: M for Mamba, * for attention, - "
      "for an MLP, E for experts)");
  EXPECT_THAT(Refusal(head + R"(, "layers_block_type": ["rwkv"]})"), HasSubstr("layers_block_type[0]: is the text"));
  EXPECT_THAT(Refusal(head + list + R"(, "use_bias": true})"), HasSubstr("config.json: use_bias: is true (false)"));
  EXPECT_THAT(Refusal(head + list + R"(, "mamba_hidden_act": "gelu"})"), HasSubstr("mamba_hidden_act: is the text"));
  EXPECT_THAT(Refusal(head + list + R"(, "lora_rank": 4})"), HasSubstr("lora_rank: is not known"));
}

TEST(HuggingFaceConfigTest, WhatChangesTheNetworkAndIsNotKnownIsRefusedByName) {
  const std::string head = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100)";
  EXPECT_EQ(Refusal(head + "}"), "");
  EXPECT_EQ(Refusal(head + R"(, "cross_attention_every": 4})"),
            "config.json: cross_attention_every: is not known of the networks of model_type llama");
  EXPECT_EQ(Refusal(head + R"(, "hidden_act": "tanh"})"),
            "config.json: hidden_act: is the text \"tanh\" (silu, relu, relu2, gelu or one of its approximations)");
  EXPECT_THAT(Refusal(R"({"model_type": "bloom"})"), HasSubstr("unknown model_type \"bloom\" (llama, mistral,"));
  EXPECT_EQ(Refusal(R"({"model_type": "llama"})"), "config.json: num_hidden_layers: is missing (an integer from 1)");
  EXPECT_THAT(Refusal(R"({"hidden_size": 64})"), HasSubstr("model_type: is missing"));
  EXPECT_FALSE(LooksLikeHuggingFaceConfig("[1]"));
}

}  // namespace
}  // namespace emplace::datasets
