#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/models/transformer.h"

// Networks by their published names. A family is a function that says what its networks have in common; the rows below
// it say the sizes.
namespace emplace::datasets {
namespace {

struct PresetSize {
  std::string_view name;
  std::int64_t layers;
  std::int64_t d_model;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_width;
  std::int64_t d_ff;
  std::int64_t vocabulary;
  bool tied = false;
};

TransformerNetwork WithSize(const PresetSize& size, std::string_view source, std::int64_t max_positions) {
  TransformerNetwork network;
  network.name = size.name;
  network.source = source;
  network.layers = size.layers;
  network.d_model = size.d_model;
  network.heads = size.heads;
  network.kv_heads = size.kv_heads;
  network.head_width = size.head_width;
  network.d_ff = size.d_ff;
  network.vocabulary = size.vocabulary;
  network.max_positions = max_positions;
  network.tied = size.tied;
  return network;
}

using Networks = std::vector<TransformerNetwork>;

void AddLlama(Networks* all) {
  constexpr std::string_view k2 = "Touvron et al. 2023, Llama 2, table 1; model cards";
  for (const PresetSize& size : {PresetSize{"llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000},
                                 {"llama-2-13b", 40, 5120, 40, 40, 128, 13824, 32000},
                                 {"llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000}}) {
    all->push_back(WithSize(size, k2, 4096));
  }
  constexpr std::string_view k3 = "Grattafiori et al. 2024, The Llama 3 herd of models, table 3; model cards";
  for (const PresetSize& size : {PresetSize{"llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256},
                                 {"llama-3-70b", 80, 8192, 64, 8, 128, 28672, 128256}}) {
    all->push_back(WithSize(size, k3, 8192));
  }
  for (const PresetSize& size : {PresetSize{"llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256},
                                 {"llama-3.1-70b", 80, 8192, 64, 8, 128, 28672, 128256},
                                 {"llama-3.1-405b", 126, 16384, 128, 8, 128, 53248, 128256}}) {
    all->push_back(WithSize(size, k3, 131072));
  }
  for (const PresetSize& size : {PresetSize{"llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, true},
                                 {"llama-3.2-3b", 28, 3072, 24, 8, 128, 8192, 128256, true}}) {
    all->push_back(WithSize(size, "model cards of Llama 3.2", 131072));
  }
  // Networks of the Ultra-Scale Playbook's runs: heads share no keys.
  for (const PresetSize& size : {PresetSize{"nanotron-1b", 16, 2048, 32, 32, 64, 8192, 131072, true},
                                 {"nanotron-3b", 28, 3072, 32, 32, 96, 8192, 131072, true},
                                 {"nanotron-8b", 32, 4096, 32, 32, 128, 14336, 131072},
                                 {"nanotron-80b", 80, 8192, 64, 64, 128, 28672, 131072}}) {
    all->push_back(
        WithSize(size, "Hugging Face 2025, The Ultra-Scale Playbook; nanotron, scaling_benchmarks.py", 4096));
  }
}

void AddMistral(Networks* all) {
  TransformerNetwork dense = WithSize({"mistral-7b", 32, 4096, 32, 8, 128, 14336, 32000},
                                      "Jiang et al. 2023, Mistral 7B, table 1 (version 0.1)", 32768);
  dense.window = 4096;
  all->push_back(dense);
  const auto add = [all](const PresetSize& size, std::string_view source, std::int64_t max_positions) {
    TransformerNetwork network = WithSize(size, source, max_positions);
    network.experts = {.count = 8, .top_k = 2, .d_expert = size.d_ff};
    all->push_back(network);
  };
  add({"mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000}, "Jiang et al. 2024, Mixtral of experts, table 1", 32768);
  add({"mixtral-8x22b", 56, 6144, 48, 8, 128, 16384, 32000}, "model card of Mixtral-8x22B (version 0.1)", 65536);
}

void AddQwen(Networks* all) {
  for (const PresetSize& size : {PresetSize{"qwen2.5-0.5b", 24, 896, 14, 2, 64, 4864, 151936, true},
                                 {"qwen2.5-1.5b", 28, 1536, 12, 2, 128, 8960, 151936, true},
                                 {"qwen2.5-3b", 36, 2048, 16, 2, 128, 11008, 151936, true},
                                 {"qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064},
                                 {"qwen2.5-14b", 48, 5120, 40, 8, 128, 13824, 152064},
                                 {"qwen2.5-32b", 64, 5120, 40, 8, 128, 27648, 152064},
                                 {"qwen2.5-72b", 80, 8192, 64, 8, 128, 29568, 152064}}) {
    TransformerNetwork network =
        WithSize(size, "Qwen Team 2024, Qwen2.5 technical report, table 1; model cards", 131072);
    network.qkv_bias = true;
    all->push_back(network);
  }
  for (const PresetSize& size : {PresetSize{"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, true},
                                 {"qwen3-1.7b", 28, 2048, 16, 8, 128, 6144, 151936, true},
                                 {"qwen3-4b", 36, 2560, 32, 8, 128, 9728, 151936, true},
                                 {"qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936},
                                 {"qwen3-14b", 40, 5120, 40, 8, 128, 17408, 151936},
                                 {"qwen3-32b", 64, 5120, 64, 8, 128, 25600, 151936},
                                 {"qwen3-30b-a3b", 48, 2048, 32, 4, 128, 6144, 151936},
                                 {"qwen3-235b-a22b", 94, 4096, 64, 4, 128, 12288, 151936}}) {
    TransformerNetwork network = WithSize(size, "Qwen Team 2025, Qwen3 technical report, table 1; model cards", 40960);
    network.qk_norm = true;
    if (size.name == "qwen3-30b-a3b") network.experts = {.count = 128, .top_k = 8, .d_expert = 768};
    if (size.name == "qwen3-235b-a22b") network.experts = {.count = 128, .top_k = 8, .d_expert = 1536};
    all->push_back(network);
  }
}

void AddDeepSeek(Networks* all) {
  const auto add = [all](const PresetSize& size, std::string_view source, std::int64_t q_rank,
                         const TransformerExperts& experts) -> TransformerNetwork& {
    TransformerNetwork network = WithSize(size, source, 163840);
    network.latent = {.q_rank = q_rank, .kv_rank = 512, .nope_width = 128, .rope_width = 64, .value_width = 128};
    network.experts = experts;
    all->push_back(network);
    return all->back();
  };
  constexpr std::string_view k2 = "DeepSeek-AI 2024, DeepSeek-V2, section 3.1.2, appendix B";
  add({"deepseek-v2", 60, 5120, 128, 128, 128, 12288, 102400}, k2, 1536,
      {.count = 160, .top_k = 6, .d_expert = 1536, .shared = 2, .d_shared = 3072, .dense_first_layers = 1});
  add({"deepseek-v2-lite", 27, 2048, 16, 16, 128, 10944, 102400}, k2, 0,
      {.count = 64, .top_k = 6, .d_expert = 1408, .shared = 2, .d_shared = 2816, .dense_first_layers = 1});
  add({"deepseek-v3", 61, 7168, 128, 128, 128, 18432, 129280}, "DeepSeek-AI 2024, DeepSeek-V3, section 4.2", 1536,
      {.count = 256,
       .top_k = 8,
       .d_expert = 2048,
       .shared = 1,
       .d_shared = 2048,
       .dense_first_layers = 3,
       .balance_bias = true})
      .mtp_layers = 1;
}

void AddGptOss(Networks* all) {
  for (const PresetSize& size : {PresetSize{"gpt-oss-20b", 24, 2880, 64, 8, 64, 2880, 201088},
                                 {"gpt-oss-120b", 36, 2880, 64, 8, 64, 2880, 201088}}) {
    TransformerNetwork network =
        WithSize(size, "OpenAI 2025, gpt-oss-120b and gpt-oss-20b model card, table 1", 131072);
    network.qkv_bias = network.output_bias = network.mlp_bias = true;
    network.window = 128;
    network.full_every = 2;
    network.sinks = true;
    network.experts = {.count = size.layers == 24 ? 32 : 128, .top_k = 4, .d_expert = 2880, .router_bias = true};
    all->push_back(network);
  }
}

// Networks of experts that other people's runs of llama.cpp are of.
void AddOpenExperts(Networks* all) {
  const auto add = [all](const PresetSize& size, std::string_view source, std::int64_t max_positions,
                         const TransformerExperts& experts) -> TransformerNetwork& {
    all->push_back(WithSize(size, source, max_positions));
    all->back().experts = experts;
    return all->back();
  };
  TransformerNetwork& glm = add({"glm-4.5-air", 46, 4096, 96, 8, 128, 10944, 151552},
                                "GLM-4.5 Team 2025, GLM-4.5, table 1; model card", 131072,
                                {.count = 128,
                                 .top_k = 8,
                                 .d_expert = 1408,
                                 .shared = 1,
                                 .d_shared = 1408,
                                 .dense_first_layers = 1,
                                 .balance_bias = true});
  glm.qkv_bias = true;
  glm.mtp_layers = 1;
  add({"dots.llm1", 62, 4096, 32, 32, 128, 10944, 152064}, "rednote-hilab 2025, dots.llm1, section 2; model card",
      32768,
      {.count = 128,
       .top_k = 6,
       .d_expert = 1408,
       .shared = 2,
       .d_shared = 2816,
       .dense_first_layers = 1,
       .balance_bias = true})
      .qk_norm = true;
  add({"hunyuan-a13b", 32, 4096, 32, 8, 128, 3072, 128167, true}, "Tencent 2025, Hunyuan-A13B, table 1; model card",
      262144, {.count = 64, .top_k = 8, .d_expert = 3072, .shared = 1, .d_shared = 3072})
      .qk_norm = true;
  TransformerNetwork& scout =
      add({"llama-4-scout", 48, 5120, 40, 8, 128, 16384, 202048}, "Meta 2025, Llama 4 model card", 10485760,
          {.count = 16, .top_k = 1, .d_expert = 8192, .shared = 1, .d_shared = 8192});
  scout.window = 8192;  // attention is within pieces of as many tokens
  scout.full_every = 4;
}

void AddGemma(Networks* all) {
  const auto add = [all](const PresetSize& size, std::string_view source, std::int64_t max_positions,
                         std::int64_t window) -> TransformerNetwork& {
    TransformerNetwork network = WithSize(size, source, max_positions);
    network.activation = ActivationKind::kGelu;
    network.post_norms = true;
    network.window = window;
    all->push_back(network);
    return all->back();
  };
  for (const PresetSize& size : {PresetSize{"gemma-2-2b", 26, 2304, 8, 4, 256, 9216, 256000, true},
                                 {"gemma-2-9b", 42, 3584, 16, 8, 256, 14336, 256000, true},
                                 {"gemma-2-27b", 46, 4608, 32, 16, 128, 36864, 256000, true}}) {
    TransformerNetwork& network = add(size, "Gemma Team 2024, Gemma 2, table 1", 8192, 4096);
    network.full_every = 2;
    network.attention_softcap = 50;
    network.logit_softcap = 30;
  }
  for (const PresetSize& size : {PresetSize{"gemma-3-1b", 26, 1152, 4, 1, 256, 6912, 262144, true},
                                 {"gemma-3-4b", 34, 2560, 8, 4, 256, 10240, 262208, true},
                                 {"gemma-3-12b", 48, 3840, 16, 8, 256, 15360, 262208, true},
                                 {"gemma-3-27b", 62, 5376, 32, 16, 128, 21504, 262208, true}}) {
    const bool is_small = size.layers == 26;
    TransformerNetwork& network = add(size, "Gemma Team 2025, Gemma 3 technical report, section 2 (text)",
                                      is_small ? 32768 : 131072, is_small ? 512 : 1024);
    network.full_every = 6;
    network.qk_norm = true;
  }
}

// GPT-2 and GPT-3; the published heads of XL (24) and width of 13B (5140) contradict their other sizes. The banded
// attention of every second layer of GPT-3 is full here, as in all published reproductions.
void AddGpt(Networks* all) {
  const auto add = [all](std::string_view name, std::int64_t layers, std::int64_t d_model, std::int64_t heads,
                         std::string_view source, std::int64_t positions) {
    TransformerNetwork network =
        WithSize({name, layers, d_model, heads, heads, d_model / heads, 4 * d_model, 50257, true}, source, positions);
    network.gated = false;
    network.activation = ActivationKind::kGelu;
    network.norm = NormKind::kLayer;
    network.norm_bias = true;
    network.positions = PositionKind::kLearned;
    network.qkv_bias = network.output_bias = network.mlp_bias = true;
    all->push_back(network);
  };
  constexpr std::string_view k2 = "Radford et al. 2019, Language models are unsupervised multitask learners, table 2";
  add("gpt-2", 12, 768, 12, k2, 1024);
  add("gpt-2-medium", 24, 1024, 16, k2, 1024);
  add("gpt-2-large", 36, 1280, 20, k2, 1024);
  add("gpt-2-xl", 48, 1600, 25, k2, 1024);
  constexpr std::string_view k3 = "Brown et al. 2020, Language models are few-shot learners, table 2.1";
  add("gpt-3-125m", 12, 768, 12, k3, 2048);
  add("gpt-3-350m", 24, 1024, 16, k3, 2048);
  add("gpt-3-760m", 24, 1536, 16, k3, 2048);
  add("gpt-3-1.3b", 24, 2048, 16, k3, 2048);
  add("gpt-3-2.7b", 32, 2560, 32, k3, 2048);
  add("gpt-3-6.7b", 32, 4096, 32, k3, 2048);
  add("gpt-3-13b", 40, 5120, 40, k3, 2048);
  add("gpt-3-175b", 96, 12288, 96, k3, 2048);
}

void AddMpt(Networks* all) {
  const auto add = [all](const PresetSize& size, std::int64_t positions) {
    TransformerNetwork network = WithSize(size, "MosaicML 2023, model cards of MPT-7B and MPT-30B", positions);
    network.gated = false;
    network.activation = ActivationKind::kGelu;
    network.norm = NormKind::kLayer;
    network.positions = PositionKind::kAlibi;
    all->push_back(network);
  };
  add({"mpt-7b", 32, 4096, 32, 32, 128, 16384, 50432, true}, 2048);
  add({"mpt-30b", 48, 7168, 64, 64, 112, 28672, 50432, true}, 8192);
}

void AddT5(Networks* all) {
  for (const PresetSize& size : {PresetSize{"t5-small", 6, 512, 8, 8, 64, 2048, 32128, true},
                                 {"t5-base", 12, 768, 12, 12, 64, 3072, 32128, true},
                                 {"t5-large", 24, 1024, 16, 16, 64, 4096, 32128, true},
                                 {"t5-3b", 24, 1024, 32, 32, 128, 16384, 32128, true},
                                 {"t5-11b", 24, 1024, 128, 128, 128, 65536, 32128, true}}) {
    TransformerNetwork network =
        WithSize(size, "Raffel et al. 2020, Exploring the limits of transfer learning (T5), section 3.7", 0);
    network.encoder_layers = size.layers;
    network.gated = false;
    network.activation = ActivationKind::kRelu;
    network.positions = PositionKind::kRelative;
    network.relative_buckets = 32;
    all->push_back(network);
  }
}

// Nemotron-H and what came of it: layers of one part each, with squared ReLU and without positions.
void AddNemotron(Networks* all) {
  const auto add = [all](const PresetSize& size, std::string_view source, std::int64_t positions,
                         const MambaMixer& mamba, std::string_view pattern) -> TransformerNetwork& {
    TransformerNetwork network = WithSize(size, source, positions);
    network.layers = static_cast<std::int64_t>(pattern.size());
    network.gated = false;
    network.activation = ActivationKind::kSquaredRelu;
    network.positions = PositionKind::kNone;
    network.mamba = mamba;
    network.pattern = pattern;
    all->push_back(network);
    return all->back();
  };
  constexpr std::string_view kH = "NVIDIA 2025, Nemotron-H, table 1; model cards";
  constexpr std::int64_t kByPattern = 0;
  add({"nemotron-h-8b", kByPattern, 4096, 32, 8, 128, 21504, 131072}, kH, 8192,
      {.heads = 128, .head_width = 64, .groups = 8, .state = 128},
      "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-");
  add({"nemotron-h-47b", kByPattern, 8192, 64, 8, 128, 30720, 131072}, kH, 8192,
      {.heads = 256, .head_width = 64, .groups = 8, .state = 256},
      "M-M-M-M-M-M-M-M-M*-M-M-M-M-M-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-M-M---MM---M-M*-M-M-M-M-M-");
  add({"nemotron-h-56b", kByPattern, 8192, 64, 8, 128, 32768, 131072}, kH, 8192,
      {.heads = 256, .head_width = 64, .groups = 8, .state = 256},
      "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-"
      "M-M-M-M-M-");
  constexpr std::string_view k2 = "NVIDIA 2025, Nemotron Nano 2, table 1; model cards";
  add({"nemotron-nano-9b-v2", kByPattern, 4480, 40, 8, 128, 15680, 131072}, k2, 131072,
      {.heads = 128, .head_width = 80, .groups = 8, .state = 128},
      "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-");
  add({"nemotron-nano-12b-v2", kByPattern, 5120, 40, 8, 128, 20480, 131072}, k2, 131072,
      {.heads = 128, .head_width = 80, .groups = 8, .state = 128},
      "M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-");

  constexpr std::string_view k3 = "NVIDIA 2025, Nemotron 3, section 2; model cards";
  constexpr std::string_view kNano = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME";
  const MambaMixer of_nano = {.heads = 64, .head_width = 64, .groups = 8, .state = 128};
  const TransformerExperts nano_experts = {
      .count = 128, .top_k = 6, .d_expert = 1856, .shared = 1, .d_shared = 3712, .balance_bias = true};
  add({"nemotron-3-nano-30b-a3b", kByPattern, 2688, 32, 2, 128, 1856, 131072}, k3, 262144, of_nano, kNano).experts =
      nano_experts;
  // Two further tokens are predicted while it is trained, by one module.
  const auto predict_further = [](TransformerNetwork* network) {
    network->mtp_layers = 2;
    network->mtp_pattern = "*E";
    network->mtp_shared = true;
  };
  TransformerNetwork& lightning =
      add({"nemotron-3.5-lightning-30b-a3b", kByPattern, 2688, 32, 2, 128, 1856, 131072},
          "NVIDIA 2026, Megatron-Bridge's recipe of Nemotron 3.5 Lightning; model card", 262144, of_nano, kNano);
  lightning.experts = nano_experts;
  predict_further(&lightning);
  const auto experts = [](std::int64_t d_expert, std::int64_t latent) {
    return TransformerExperts{.count = 512,
                              .top_k = 22,
                              .d_expert = d_expert,
                              .shared = 1,
                              .d_shared = 2 * d_expert,
                              .balance_bias = true,
                              .latent = latent};
  };
  TransformerNetwork& super =
      add({"nemotron-3-super-120b-a12b", kByPattern, 4096, 32, 2, 128, 2688, 131072}, k3, 262144,
          {.heads = 128, .head_width = 64, .groups = 8, .state = 128},
          "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME");
  super.experts = experts(2688, 1024);
  predict_further(&super);
  TransformerNetwork& ultra = add(
      {"nemotron-3-ultra-550b-a55b", kByPattern, 8192, 64, 2, 128, 5120, 131072},
      "NVIDIA 2026, Nemotron 3 Ultra, section 2; model card", 262144,
      {.heads = 256, .head_width = 64, .groups = 8, .state = 128},
      "MEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME");
  ultra.experts = experts(5120, 2048);
  predict_further(&ultra);
}

}  // namespace

std::span<const TransformerNetwork> TransformerPresets() {
  static const Networks networks = [] {
    Networks all;
    for (const auto add : {AddLlama, AddMistral, AddQwen, AddDeepSeek, AddGptOss, AddOpenExperts, AddNemotron, AddGemma,
                           AddGpt, AddMpt, AddT5}) {
      add(&all);
    }
    return all;
  }();
  return networks;
}

const TransformerNetwork* FindTransformer(std::string_view name) {
  const auto presets = TransformerPresets();
  const auto found = std::find_if(presets.begin(), presets.end(),
                                  [name](const TransformerNetwork& network) { return network.name == name; });
  return found == presets.end() ? nullptr : &*found;
}

}  // namespace emplace::datasets
