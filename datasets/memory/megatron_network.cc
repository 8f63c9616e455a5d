#include "datasets/memory/megatron_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kMostMegatronLayers = 1024;

// The number of entries in the tokenizer's table, before padding.
std::int64_t TokenizerEntries(MegatronArgumentReader& args, const std::string& model) {
  const std::string default_tokenizer = model == "bert" ? "BertWordPieceLowerCase"
                                        : model == "t5" ? "BertWordPieceCase"
                                                        : "GPT2BPETokenizer";
  const std::string tokenizer = args.Text("tokenizer-type", default_tokenizer);
  const std::int64_t extra = args.Integer("vocab-extra-ids", 0);
  if (args.Has("padded-vocab-size")) return args.Needed("padded-vocab-size");
  if (args.Has("vocab-size")) return args.Needed("vocab-size") + (tokenizer == "NullTokenizer" ? 1 : 0);
  if (tokenizer == "GPT2BPETokenizer") return 50257;
  if (tokenizer == "BertWordPieceLowerCase") return 30522 + 2 + extra;  // with [BOS] and [EOS]
  if (tokenizer == "BertWordPieceCase") return 28996 + 2 + extra;
  if (tokenizer == "Llama2Tokenizer") return 32000;
  const std::string file = args.Text("tokenizer-model", "");
  if (file.find("nemotron_2_256k") != std::string::npos || file.find("256k") != std::string::npos) return 256000;
  if (file.find("128k") != std::string::npos || file.find("Mix") != std::string::npos) return 131072;
  if (file.find("llava") != std::string::npos) return 32064;
  if (tokenizer.starts_with("Llama2") || tokenizer == "SentencePieceTokenizer") return 32000;
  if (tokenizer == "Llama3Tokenizer") return 128256;
  return 131072;
}

// Reads a pattern such as "M-M-M*-|M-E/*E/*E", in which | ends a stage and / begins the layers that predict a further
// token.
void ReadPattern(const std::string& pattern, const std::string& key, NetworkShape* network,
                 std::vector<StageShape>* stages) {
  const auto layer_of = [&](char c) {
    LayerKind layer{.mixer = Mixer::kNone, .feed_forward = FeedForwardKind::kNone};
    if (c == 'M') {
      layer.mixer = Mixer::kMamba;
    } else if (c == '*') {
      layer.mixer = Mixer::kAttention;
    } else if (c == '-') {
      layer.feed_forward = FeedForwardKind::kDense;
    } else if (c == 'E') {
      layer.feed_forward = FeedForwardKind::kExperts;
    } else {
      throw InputError(key, fmt::format("is {} (letters of M, *, -, E, and | and /)", Quoted(pattern)));
    }
    return layer;
  };
  stages->assign(1, {});
  const std::size_t end = std::min(pattern.find('/'), pattern.size());
  for (const char c : pattern.substr(0, end)) {
    if (c == '|') {
      stages->emplace_back();
      continue;
    }
    stages->back().layers.push_back(network->layers.size());
    network->layers.push_back(layer_of(c));
  }
  // All modules that predict further tokens have the same layers.
  const std::size_t further = std::min(end + 1, pattern.size());
  for (const char c : pattern.substr(further, pattern.find('/', further) - further)) {
    network->prediction.push_back(layer_of(c));
  }
}

void ReadExperts(MegatronArgumentReader& args, NetworkShape* network) {
  network->experts = args.Integer("num-experts", 0);
  network->top_k = args.Integer("moe-router-topk", 2, 1);
  network->d_expert = args.Integer("moe-ffn-hidden-size", network->d_ff, 1);
  network->d_shared_expert = args.Integer("moe-shared-expert-intermediate-size", 0);
  network->expert_latent = args.Integer("moe-latent-size", 0);
}

// Which layers have experts. The argument is a list, an expression such as "([0]*3+[1]*11)", or n for every n-th layer.
std::vector<bool> ExpertLayers(MegatronArgumentReader& args, std::size_t layers) {
  std::vector<bool> has(layers, true);
  if (!args.Has("moe-layer-freq")) return has;
  const std::string text = args.Text("moe-layer-freq", "1");
  std::vector<bool> listed;
  std::size_t i = 0;
  while (i < text.size()) {
    if (text[i] != '[') {
      ++i;
      continue;
    }
    const std::size_t end = text.find(']', i);
    std::vector<bool> group;
    for (std::size_t j = i; j < std::min(end, text.size()); ++j) {
      if (text[j] == '0' || text[j] == '1') group.push_back(text[j] == '1');
    }
    i = std::min(end, text.size()) + (end == std::string::npos ? 0 : 1);
    std::size_t times = 1;
    if (i < text.size() && text[i] == '*') {
      const auto [stop, error] = std::from_chars(text.data() + i + 1, text.data() + text.size(), times);
      if (error != std::errc() || times > 4096) throw InputError("moe-layer-freq", "has no count after *");
      i = static_cast<std::size_t>(stop - text.data());
    }
    for (std::size_t n = 0; n < times; ++n) listed.insert(listed.end(), group.begin(), group.end());
  }
  if (!listed.empty()) {
    if (listed.size() != layers) {
      throw InputError("moe-layer-freq", fmt::format("has {} layers (num-layers, which is {})", listed.size(), layers));
    }
    return listed;
  }
  const auto every = static_cast<std::size_t>(args.Integer("moe-layer-freq", 1, 1));
  for (std::size_t layer = 0; layer < layers; ++layer) has[layer] = layer % every == 0;
  return has;
}

void ReadLatentAttention(MegatronArgumentReader& args, NetworkShape* network) {
  network->query_rank = args.Integer("q-lora-rank", 0);
  network->key_rank = args.Integer("kv-lora-rank", 32, 1);
  network->nope_dim = args.Integer("qk-head-dim", 128, 1);
  network->rope_dim = args.Integer("qk-pos-emb-head-dim", 64, 1);
  network->value_dim = args.Integer("v-head-dim", 128, 1);
}

void ReadWidths(MegatronArgumentReader& args, NetworkShape* network) {
  network->hidden = args.Needed("hidden-size");
  network->heads = args.Needed("num-attention-heads");
  if (!args.Has("kv-channels") && network->hidden < network->heads) {
    throw InputError("hidden-size",
                     fmt::format("is {} (at least num-attention-heads, which is {})", network->hidden, network->heads));
  }
  if (!args.Has("kv-channels") && network->hidden % network->heads != 0) {
    throw InputError("hidden-size", fmt::format("is {} (a multiple of num-attention-heads, which is {})",
                                                network->hidden, network->heads));
  }
  network->head_dim = args.Integer("kv-channels", network->hidden / network->heads, 1);
  network->query_groups = network->heads;
  if (args.Flag("group-query-attention")) network->query_groups = args.Integer("num-query-groups", 1, 1);
  if (network->heads % network->query_groups != 0) {
    throw InputError("num-query-groups", fmt::format("is {} (a divisor of num-attention-heads, which is {})",
                                                     network->query_groups, network->heads));
  }
  if (args.Flag("swiglu")) network->activation = MlpActivation::kSwiglu;
  if (args.Flag("squared-relu")) network->activation = MlpActivation::kSquaredRelu;
  const std::int64_t usual = network->gated() ? network->hidden * 8 / 3 / 64 * 64 : 4 * network->hidden;
  network->d_ff = args.Integer("ffn-hidden-size", usual, 1);
  network->has_bias = !args.Flag("disable-bias-linear");
  network->is_rms_norm = args.Word("normalization", "LayerNorm", {"LayerNorm", "RMSNorm"}) == "RMSNorm";
  network->norms_queries = args.Flag("qk-layernorm");
  network->is_tied = !args.Flag("untie-embeddings-and-output-weights");
}

void ReadLayers(MegatronArgumentReader& args, const std::string& model, TrainingSetup* setup) {
  NetworkShape& network = setup->network;
  const std::string pattern_key = args.Has("hybrid-layer-pattern") ? "hybrid-layer-pattern" : "hybrid-override-pattern";
  network.prediction_layers = static_cast<std::size_t>(args.Integer("mtp-num-layers", 0, 0, kMostMegatronLayers));
  network.shares_prediction_layer = args.Flag("mtp-use-repeated-layer");
  network.mamba_heads = args.Integer("mamba-num-heads", 2 * network.hidden / 64, 1);
  network.mamba_head_dim = args.Integer("mamba-head-dim", 64, 1);
  network.mamba_groups = args.Integer("mamba-num-groups", 8, 1);
  network.mamba_state = args.Integer("mamba-state-dim", 128, 1);
  if (args.Has(pattern_key)) {
    args.Integer("num-layers", 1);
    return ReadPattern(args.Text(pattern_key, ""), pattern_key, &network, &setup->stages);
  }
  if (model == "t5" || network.patch_elements > 0) {
    const std::int64_t encoder = args.Integer(
        "encoder-num-layers", args.Integer("num-layers", 1, 1, kMostMegatronLayers), 1, kMostMegatronLayers);
    const std::int64_t decoder = args.Integer("decoder-num-layers", encoder, 1, kMostMegatronLayers);
    network.encoder_layers = static_cast<std::size_t>(encoder);
    network.layers.assign(network.encoder_layers, {});
    network.layers.resize(static_cast<std::size_t>(encoder + decoder), {.cross_attention = model == "t5"});
    return;
  }
  const auto layers = static_cast<std::size_t>(args.Needed("num-layers", kMostMegatronLayers));
  const bool is_latent = args.Flag("multi-latent-attention");
  network.layers.assign(layers, {.mixer = is_latent ? Mixer::kLatentAttention : Mixer::kAttention});
  if (is_latent) ReadLatentAttention(args, &network);
  if (network.experts > 0) {
    const std::vector<bool> has_experts = ExpertLayers(args, layers);
    for (std::size_t i = 0; i < layers; ++i) {
      if (has_experts[i]) network.layers[i].feed_forward = FeedForwardKind::kExperts;
    }
  }
}

// Images of pretrain_vlm.py: layers of the text's sizes read patches and a class token, in front of the text.
void ReadImages(MegatronArgumentReader& args, const TrainingSetup& setup, NetworkShape* network) {
  if (!args.Has("img-h") || setup.pp > 1) return;
  constexpr std::int64_t kMostPixels = 1 << 16;
  const std::int64_t patch = args.Integer("patch-dim", 16, 1, kMostPixels);
  const std::int64_t height = args.Integer("img-h", 224, patch, kMostPixels);
  const std::int64_t width = args.Integer("img-w", 224, patch, kMostPixels);
  network->patch_elements = 3 * patch * patch;
  network->image_tokens = (height / patch) * (width / patch) + (args.Flag("disable-vision-class-token") ? 0 : 1);
  network->image_width = network->hidden;
  network->image_hidden = network->d_ff;
  network->encoder_sequence = network->image_tokens;
  network->sequence += network->image_tokens;
}

// The network of examples/mimo with images: Vicuna 7B behind CLIP ViT-L/14 of 336 pixels, which both keep their
// weights.
void SetImageNetwork(MegatronArgumentReader& args, NetworkShape* network) {
  network->hidden = 4096;
  network->heads = network->query_groups = 32;
  network->head_dim = 128;
  network->d_ff = 11008;
  network->activation = MlpActivation::kSwiglu;
  network->is_rms_norm = true;
  network->has_bias = false;
  network->is_tied = false;
  network->has_rope = true;
  network->position_embeddings = 0;
  network->vocabulary = 32256;
  network->sequence = args.Integer("total-seq-length", network->sequence, 1);
  network->layers.assign(32, {});
  network->image_tokens = 576;
  network->image_width = 1024;
  network->image_hidden = 4096;
  network->frozen_encoder_elements = 303'507'456;
  network->is_frozen = true;
}

}  // namespace

void ReadMegatronNetwork(MegatronArgumentReader& args, const std::string& model, TrainingSetup* setup) {
  NetworkShape& network = setup->network;
  ReadWidths(args, &network);
  ReadExperts(args, &network);
  network.sequence = args.Integer("seq-length", args.Integer("decoder-seq-length", 1, 1), 1);
  if (model == "t5") {
    network.encoder_sequence = args.Integer("encoder-seq-length", network.sequence, 1);
    network.sequence = args.Integer("decoder-seq-length", network.encoder_sequence, 1);
  }
  ReadImages(args, *setup, &network);
  ReadLayers(args, model, setup);
  network.is_bert = model == "bert";
  network.has_binary_head = network.is_bert && !args.Flag("bert-no-binary-head");
  const std::string positions = args.Word("position-embedding-type", "learned_absolute",
                                          {"learned_absolute", "rope", "yarn", "mrope", "none", "relative"});
  const bool has_rope =
      positions == "rope" || positions == "yarn" || positions == "mrope" || args.Flag("use-rotary-position-embeddings");
  network.has_rope = has_rope;
  const std::int64_t table = std::max(args.Integer("max-position-embeddings", network.sequence, 1),
                                      network.image_tokens > 0 ? network.sequence : 0);
  network.position_embeddings = positions == "learned_absolute" && !has_rope ? table : 0;
  const std::int64_t padding = args.Integer("make-vocab-size-divisible-by", 128, 1) * setup->tp;
  network.vocabulary = (TokenizerEntries(args, model) + padding - 1) / padding * padding;
  if (args.Text("model-provider", "") == "llava_vlm") SetImageNetwork(args, &network);
}

}  // namespace emplace::datasets
