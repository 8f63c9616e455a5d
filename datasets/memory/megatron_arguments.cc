#include "datasets/memory/megatron_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "datasets/memory/training_memory.h"
#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kMostOfAnything = std::int64_t{1} << 30;
constexpr std::int64_t kMostRanksOfRun = std::int64_t{1} << 16;
constexpr std::int64_t kMostStages = 256;
constexpr std::int64_t kMostLayers = 1024;

// Arguments that leave the memory of a training step as it is: data, logs, checkpoints, learning rates, times.
constexpr std::string_view kWithoutEffect[] = {
    "adam-beta1",
    "adam-beta2",
    "adam-eps",
    "async-ckpt-use-cpu-shm",
    "async-save",
    "async-strategy",
    "auto-detect-ckpt-format",
    "check-for-large-grads",
    "check-weight-hash-across-dp-replicas-interval",
    "ckpt-assume-constant-structure",
    "ckpt-drop-redundant-extra-state",
    "ckpt-format",
    "ckpt-fully-parallel-load",
    "ckpt-fully-parallel-load-per-rank-objects",
    "ckpt-fully-parallel-save",
    "clip-grad",
    "data-cache-path",
    "data-path",
    "dataloader-type",
    "dataset-provider",
    "decoupled-lr",
    "decoupled-min-lr",
    "disable-gloo-process-groups",
    "dist-ckpt-optim-fully-reshardable",
    "dist-ckpt-strictness",
    "distributed-backend",
    "distributed-timeout-minutes",
    "eval-global-batch-size",
    "eval-interval",
    "eval-iters",
    "exit-duration-in-mins",
    "exit-interval",
    "fim-data",
    "fim-rate",
    "fim-spm-rate",
    "finetune",
    "init-method-std",
    "load",
    "log-energy",
    "log-interval",
    "log-memory-interval",
    "log-memory-to-tensorboard",
    "log-num-zeros-in-grad",
    "log-params-norm",
    "log-progress",
    "log-throughput",
    "log-timers-to-tensorboard",
    "log-validation-ppl-to-tensorboard",
    "logging-level",
    "lr",
    "lr-decay-iters",
    "lr-decay-samples",
    "lr-decay-style",
    "lr-warmup-fraction",
    "lr-warmup-init",
    "lr-warmup-iters",
    "lr-warmup-samples",
    "lr-wsd-decay-iters",
    "lr-wsd-decay-samples",
    "lr-wsd-decay-style",
    "manual-gc",
    "manual-gc-interval",
    "merge-file",
    "min-lr",
    "mock-data",
    "model",
    "moe-aux-loss-coeff",
    "moe-router-bias-update-rate",
    "moe-router-enable-expert-bias",
    "moe-router-group-topk",
    "moe-router-load-balancing-type",
    "moe-router-num-groups",
    "moe-router-pre-softmax",
    "moe-router-score-function",
    "moe-router-topk-scaling-factor",
    "moe-z-loss-coeff",
    "mscale",
    "mscale-all-dim",
    "mtp-loss-scaling-factor",
    "muon-extra-scale-factor",
    "muon-momentum",
    "muon-scale-mode",
    "no-ckpt-fully-parallel-save",
    "no-ckpt-load-validate-sharding-integrity",
    "no-load-optim",
    "no-load-rng",
    "no-mmap-bin-files",
    "no-save-optim",
    "no-check-for-nan-in-loss-and-grad",
    "norm-epsilon",
    "num-workers",
    "override-opt-param-scheduler",
    "override-opt_param-scheduler",
    "rotary-base",
    "rotary-percent",
    "rotary-scaling-factor",
    "rotary-interleaved",
    "save",
    "save-interval",
    "save-retain-interval",
    "seed",
    "split",
    "straggler-minmax-count",
    "tensorboard-dir",
    "tensorboard-log-interval",
    "test-mode",
    "tiktoken-pattern",
    "timing-log-level",
    "timing-log-option",
    "tokenizer-model",
    "train-iters",
    "train-samples",
    "use-checkpoint-args",
    "use-checkpoint-opt_param-scheduler",
    "use-mcore-models",
    "use-persistent-ckpt-worker",
    "no-use-tokenizer-model-from-checkpoint-args",
    "moe-flex-dispatcher-backend",
    "megatron-fsdp-grad-comm-dtype",
    "megatron-fsdp-main-grads-dtype",
    "megatron-fsdp-main-params-dtype",
    "use-precision-aware-optimizer",
    "empty-unused-memory-level",
    "eod-mask-loss",
    "reset-position-ids",
    "reset-attention-mask",
    "trust-remote-code",
    "export-te-mcore-model",
    "rl-generation-lag",
    "rl-partial-rollouts",
    "inference-logging-step-interval",
    "refit-method",
    "no-use-layer-wise-param-layout",
    "moe-router-padding-for-quantization",
    "verify-integrity",
    "vocab-file",
    "wandb-entity",
    "wandb-exp-name",
    "wandb-project",
    "wandb-save-dir",
    "weight-decay",
    "apply-layernorm-1p",
    "apply-query-key-layer-scaling",
    "attention-softmax-in-fp32",
    "no-persist-layer-norm",
    "te-rng-tracker",
    "calculate-per-token-loss",
    "ddp-average-in-collective",
    "overlap-param-gather",
    "overlap-grad-reduce",
    "moe-permute-fusion",
    "ddp-pad-buckets-for-high-nccl-busbw",
    "ddp-num-buckets",
    "ddp-bucket-size",
    "overlap-p2p-communication-warmup-flush",
    "moe-router-dtype",
    "moe-router-fusion",
    "step-batch-size-schedule",
    "total-seq-length",
    "no-bias-gelu-fusion",
    "enable-experimental",
    "hierarchical-context-parallel-sizes",
    "high-priority-stream-groups",
    "moe-flex-dispatcher-num-sms",
    "moe-hybridep-num-sms",
    "rotary-seq-len-interpolation-factor",
    "use-rotary-position-embeddings",
    "spec",
    "is-hybrid-model",
    "moe-deepep-num-sms",
    "moe-token-drop-policy",
};

// Arguments that matter, and that the model leaves out, with the reason.
constexpr std::string_view kPrefixesWithoutEffect[] = {
    "adam-",      "ckpt-",        "data-",   "decoupled-", "dist-ckpt-", "error-injection-", "eval-",   "exit-",
    "grpo-",      "langrl-",      "log-",    "lr-",        "muon-",      "one-logger",       "profile", "rerun-",
    "straggler-", "tensorboard-", "timing-", "wandb-",
};

struct UnmodelledArgument {
  std::string_view key;
  std::string_view reason;
};
constexpr UnmodelledArgument kUnmodelled[] = {
    {"cuda-graph-impl", "the memory pools of CUDA graphs are not modelled"},
    {"cuda-graph-modules", "the memory pools of CUDA graphs are not modelled"},
    {"cuda-graph-scope", "the memory pools of CUDA graphs are not modelled"},
    {"enable-cuda-graph", "the memory pools of CUDA graphs are not modelled"},
    {"cpu-offloading", "activations that are moved to the host count as kept"},
    {"first-last-layers-bf16", "the first and the last layers count as in fp8"},
    {"cp-comm-type", "messages of context parallelism are not modelled"},
    {"window-size", "windows of attention are not modelled"},
    {"rl-offload-optimizer-during-inference", "the optimizer's state counts as held by the device"},
    {"rl-inference-tensor-model-parallel-size", "the second copy of the network for inference is not modelled"},
    {"img-h", "the network that encodes images is not modelled"},
    {"model-provider", "networks of several parts are not modelled: this is the one of text alone"},
    {"flextron", "networks of several widths are taken for the widest"},
    {"export-kd-teacher-load", "the teacher of distillation is not modelled"},
    {"use-transformer-engine-op-fuser", "the buffers of fused operations are taken for those of separate ones"},
    {"reuse-grad-buf-for-mxfp8-param-ag", "the buffer of gradients is not reused"},
    {"overlap-moe-expert-parallel-comm", "the second micro-batch that the overlap holds is not modelled"},
    {"moe-shared-expert-overlap", "buffers of the overlap are not modelled"},
    {"delay-wgrad-compute", "inputs that wait for the gradients of weights are not modelled"},
    {"overlap-param-gather-with-optimizer-step", "buffers of the overlap are not modelled"},
};

std::int64_t RoundUpTo(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

// The arguments, with a note of those that were asked for.
class Arguments {
 public:
  explicit Arguments(const JsonValue& root) : root_(root) { root_.Object("an object of Megatron-LM's arguments"); }

  bool Has(std::string_view key) {
    asked_.emplace(key);
    const JsonValue* const value = FindMember(root_.value(), key);
    return value != nullptr && value->As<std::monostate>() == nullptr;
  }
  bool Flag(std::string_view key) { return Has(key) && Node(key).Flag(); }

  // A number, which may be a text.
  std::int64_t Integer(std::string_view key, std::int64_t otherwise, std::int64_t low = 0,
                       std::int64_t high = kMostOfAnything) {
    if (!Has(key)) return otherwise;
    const JsonNode node = Node(key);
    if (const auto* const text = node.value().As<std::string>()) {
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
      if (error == std::errc() && end == text->data() + text->size() && value >= low && value <= high) {
        return value;
      }
    }
    return node.Integer(low, high,
                        high < kMostOfAnything ? fmt::format("an integer from {} to {}", low, high)
                                               : fmt::format("an integer from {}", low));
  }
  std::int64_t Needed(std::string_view key, std::int64_t high = kMostOfAnything) {
    if (!Has(key)) throw InputError(std::string(key), "is missing (an integer from 1)");
    return Integer(key, 0, 1, high);
  }
  double Number(std::string_view key, double otherwise) {
    return Has(key) ? Node(key).Number(0, 1e18, "a number from 0") : otherwise;
  }
  std::string Text(std::string_view key, const std::string& otherwise) {
    return Has(key) ? Node(key).Text() : otherwise;
  }
  // One of the words.
  std::string Word(std::string_view key, const std::string& otherwise, std::initializer_list<std::string_view> words) {
    std::string value = Text(key, otherwise);
    if (std::find(words.begin(), words.end(), value) == words.end()) {
      std::string allowed;
      for (const std::string_view word : words) allowed += (allowed.empty() ? "" : ", ") + std::string(word);
      throw InputError(std::string(key), fmt::format("is {} ({})", Quoted(value), allowed));
    }
    return value;
  }
  // Words in a list, or in a text with brackets: "[layernorm mlp]".
  std::set<std::string> Words(std::string_view key) {
    std::set<std::string> words;
    if (!Has(key)) return words;
    const JsonNode node = Node(key);
    if (const auto* const list = node.value().As<JsonList>()) {
      for (std::size_t i = 0; i < list->size(); ++i) words.insert(JsonNode(node, i, (*list)[i]).Text());
      return words;
    }
    std::string word;
    for (const char c : node.Text("a text, or a list of texts") + " ") {
      if (c != ' ' && c != ',' && c != '[' && c != ']') {
        word += c;
      } else if (!word.empty()) {
        words.insert(std::exchange(word, ""));
      }
    }
    return words;
  }

  // Whether a prefix is the start of the key.
  static auto StartOf(std::string_view key) {
    return [key](std::string_view prefix) { return key.starts_with(prefix); };
  }

  std::vector<std::string> Unmodelled() const {
    std::vector<std::string> lines;
    for (const auto& [key, value] : root_.Object()) {
      const bool is_off = value.As<std::monostate>() != nullptr || (value.As<bool>() != nullptr && !*value.As<bool>());
      if (is_off || asked_.contains(key)) continue;
      if (std::find(std::begin(kWithoutEffect), std::end(kWithoutEffect), key) != std::end(kWithoutEffect)) continue;
      if (std::ranges::any_of(kPrefixesWithoutEffect, StartOf(key))) continue;
      const auto* const known = std::ranges::find(kUnmodelled, std::string_view(key), &UnmodelledArgument::key);
      lines.push_back(
          fmt::format("{}: {}", key, known != std::end(kUnmodelled) ? known->reason : "is not known, and is left out"));
    }
    return lines;
  }

 private:
  JsonNode Node(std::string_view key) const { return {root_, key, *FindMember(root_.value(), key)}; }

  JsonNode root_;
  std::set<std::string, std::less<>> asked_;
};

// Entries of the tokenizer's table, before padding.
std::int64_t TokenizerEntries(Arguments& args, const std::string& model) {
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

// "E", "t*3", "(tt|)*6", "mL": the layers of each stage, of which a bar ends one.
std::string ExpandLayout(std::string_view text, const std::string& key) {
  constexpr std::size_t kMostLetters = 16384;
  std::string out;
  std::string unit;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '*') {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
      std::int64_t times = 0;
      std::from_chars(text.data() + i + 1, text.data() + end, times);
      if (times < 1 || times > 4096) throw InputError(key, fmt::format("is {} (a count after *)", Quoted(text)));
      for (std::int64_t n = 1; n < times && out.size() < kMostLetters; ++n) out += unit;
      i = end - 1;
    } else if (c == '(') {
      const std::size_t end = text.find(')', i);
      if (end == std::string_view::npos) throw InputError(key, fmt::format("is {} (a ) after each ()", Quoted(text)));
      unit = ExpandLayout(text.substr(i + 1, end - i - 1), key);
      out += unit;
      i = end;
    } else if (std::string_view("Etdm|L").find(c) != std::string_view::npos) {
      unit = std::string(1, c);
      out += unit;
    } else if (c != ',' && c != ' ') {
      throw InputError(key, fmt::format("is {} (letters of E, t, m, L, and |)", Quoted(text)));
    }
  }
  return out;
}

std::vector<StageShape> StagesOfLayout(std::string_view text, const std::string& key, std::size_t layers,
                                       std::size_t stages) {
  std::vector<StageShape> out(1);
  std::size_t layer = 0;
  for (const char c : ExpandLayout(text, key)) {
    if (c == '|') out.emplace_back();
    if (c == 'E') out.back().has_embedding = true;
    if (c == 'L') out.back().has_loss = true;
    if (c == 'm') out.back().has_prediction = true;
    if (c == 't' || c == 'd') out.back().layers.push_back(layer++);
  }
  if (layer != layers) throw InputError(key, fmt::format("has {} layers (num-layers, which is {})", layer, layers));
  if (out.size() != stages) {
    throw InputError(key, fmt::format("has {} stages (a multiple of pipeline-model-parallel-size)", out.size()));
  }
  return out;
}

// The layers of "M-M-M*-|M-E": | ends a stage, / begins the layers that predict a further token.
void ReadPattern(const std::string& pattern, const std::string& key, NetworkShape* network,
                 std::vector<StageShape>* stages) {
  stages->assign(1, {});
  const std::size_t end = std::min(pattern.find('/'), pattern.size());
  for (const char c : pattern.substr(0, end)) {
    if (c == '|') {
      stages->emplace_back();
      continue;
    }
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
    stages->back().layers.push_back(network->layers.size());
    network->layers.push_back(layer);
  }
}

void ReadExperts(Arguments& args, NetworkShape* network) {
  network->experts = args.Integer("num-experts", 0);
  network->top_k = args.Integer("moe-router-topk", 2, 1);
  network->d_expert = args.Integer("moe-ffn-hidden-size", network->d_ff, 1);
  network->d_shared_expert = args.Integer("moe-shared-expert-intermediate-size", 0);
  network->expert_latent = args.Integer("moe-latent-size", 0);
}

// Which layers have experts: "([0]*3+[1]*11)", a list, or every n-th.
std::vector<bool> ExpertLayers(Arguments& args, std::size_t layers) {
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

void ReadLatentAttention(Arguments& args, NetworkShape* network) {
  network->query_rank = args.Integer("q-lora-rank", 0);
  network->key_rank = args.Integer("kv-lora-rank", 32, 1);
  network->nope_dim = args.Integer("qk-head-dim", 128, 1);
  network->rope_dim = args.Integer("qk-pos-emb-head-dim", 64, 1);
  network->value_dim = args.Integer("v-head-dim", 128, 1);
}

void ReadWidths(Arguments& args, NetworkShape* network) {
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

void ReadLayers(Arguments& args, const std::string& model, MegatronRun* run) {
  NetworkShape& network = run->setup.network;
  const std::string pattern_key = args.Has("hybrid-layer-pattern") ? "hybrid-layer-pattern" : "hybrid-override-pattern";
  network.prediction_layers = static_cast<std::size_t>(args.Integer("mtp-num-layers", 0, 0, kMostLayers));
  network.shares_prediction_layer = args.Flag("mtp-use-repeated-layer");
  network.mamba_heads = args.Integer("mamba-num-heads", 2 * network.hidden / 64, 1);
  network.mamba_head_dim = args.Integer("mamba-head-dim", 64, 1);
  network.mamba_groups = args.Integer("mamba-num-groups", 8, 1);
  network.mamba_state = args.Integer("mamba-state-dim", 128, 1);
  if (args.Has(pattern_key)) {
    args.Integer("num-layers", 1);
    return ReadPattern(args.Text(pattern_key, ""), pattern_key, &network, &run->setup.stages);
  }
  if (model == "t5") {
    const std::int64_t encoder =
        args.Integer("encoder-num-layers", args.Integer("num-layers", 1, 1, kMostLayers), 1, kMostLayers);
    const std::int64_t decoder = args.Integer("decoder-num-layers", encoder, 1, kMostLayers);
    network.encoder_layers = static_cast<std::size_t>(encoder);
    network.layers.assign(network.encoder_layers, {});
    network.layers.resize(static_cast<std::size_t>(encoder + decoder), {.cross_attention = true});
    return;
  }
  const auto layers = static_cast<std::size_t>(args.Needed("num-layers", kMostLayers));
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

NetworkShape& ReadNetwork(Arguments& args, const std::string& model, MegatronRun* run) {
  NetworkShape& network = run->setup.network;
  ReadWidths(args, &network);
  ReadExperts(args, &network);
  network.sequence = args.Integer("seq-length", args.Integer("decoder-seq-length", 1, 1), 1);
  if (model == "t5") {
    network.encoder_sequence = args.Integer("encoder-seq-length", network.sequence, 1);
    network.sequence = args.Integer("decoder-seq-length", network.encoder_sequence, 1);
  }
  ReadLayers(args, model, run);
  network.is_bert = model == "bert";
  network.has_binary_head = network.is_bert && !args.Flag("bert-no-binary-head");
  const std::string positions = args.Word("position-embedding-type", "learned_absolute",
                                          {"learned_absolute", "rope", "yarn", "mrope", "none", "relative"});
  const bool has_rope =
      positions == "rope" || positions == "yarn" || positions == "mrope" || args.Flag("use-rotary-position-embeddings");
  network.has_rope = has_rope;
  const std::int64_t table = args.Integer("max-position-embeddings", network.sequence, 1);
  network.position_embeddings = positions == "learned_absolute" && !has_rope ? table : 0;
  const std::int64_t divisible = args.Integer("make-vocab-size-divisible-by", 128, 1);
  network.vocabulary = RoundUpTo(TokenizerEntries(args, model), divisible * run->setup.tp);
  return network;
}

// Stages of equal numbers of layers, the embedding and the loss counted as layers where that is asked for.
std::vector<StageShape> EqualStages(Arguments& args, const NetworkShape& network, std::int64_t count) {
  const bool counts_embedding = args.Flag("account-for-embedding-in-pipeline-split");
  const bool counts_loss = args.Flag("account-for-loss-in-pipeline-split");
  const auto layers = static_cast<std::int64_t>(network.layers.size());
  const std::int64_t counted = layers + (counts_embedding ? 1 : 0) + (counts_loss ? 1 : 0);
  std::vector<StageShape> stages(static_cast<std::size_t>(count));
  const std::int64_t first = args.Integer("decoder-first-pipeline-num-layers", -1, 1);
  const std::int64_t last = args.Integer("decoder-last-pipeline-num-layers", -1, 1);
  const std::int64_t ends = (first > 0 ? 1 : 0) + (last > 0 ? 1 : 0);
  const std::int64_t rest = counted - std::max<std::int64_t>(first, 0) - std::max<std::int64_t>(last, 0);
  if (count > ends && (rest < 0 || rest % (count - ends) != 0)) {
    throw InputError("num-layers", fmt::format("is {} (a multiple of the {} stages)", counted, count));
  }
  std::size_t layer = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t size = count > ends ? rest / (count - ends) : 0;
    if (i == 0 && first > 0) size = first;
    if (i == count - 1 && last > 0) size = last;
    if (i == 0 && counts_embedding) --size;
    if (i == count - 1 && counts_loss) --size;
    for (std::int64_t n = 0; n < size; ++n) stages[static_cast<std::size_t>(i)].layers.push_back(layer++);
  }
  return stages;
}

void ReadStages(Arguments& args, MegatronRun* run) {
  TrainingSetup& setup = run->setup;
  const auto layers = static_cast<std::int64_t>(setup.network.layers.size());
  if (const std::int64_t each = args.Integer("num-layers-per-virtual-pipeline-stage", 0); each > 0) {
    setup.vpp = layers / setup.pp / each;
    if (setup.vpp < 1) {
      throw InputError("num-layers-per-virtual-pipeline-stage",
                       fmt::format("is {} (at most {} layers of a pipeline rank)", each, layers / setup.pp));
    }
  }
  setup.vpp = args.Integer("num-virtual-stages-per-pipeline-rank", setup.vpp, 1, kMostStages);
  const std::string layout_key = "pipeline-model-parallel-layout";
  if (args.Has(layout_key) && setup.pp > 1) {
    const std::string layout = args.Text(layout_key, "");
    const std::string expanded = ExpandLayout(layout, layout_key);
    const auto stages = 1 + std::count(expanded.begin(), expanded.end(), '|');
    setup.vpp = std::max<std::int64_t>(stages / setup.pp, 1);
    setup.stages =
        StagesOfLayout(layout, layout_key, setup.network.layers.size(), static_cast<std::size_t>(setup.pp * setup.vpp));
  } else if (setup.stages.empty()) {
    setup.stages = EqualStages(args, setup.network, setup.pp * setup.vpp);
  } else if (const auto parts = static_cast<std::int64_t>(setup.stages.size()); parts != setup.pp * setup.vpp) {
    if (parts > 1 && parts % setup.pp == 0) {
      setup.vpp = parts / setup.pp;
    } else {
      std::vector<std::size_t> all;
      for (const StageShape& stage : setup.stages) all.insert(all.end(), stage.layers.begin(), stage.layers.end());
      setup.stages = EqualStages(args, setup.network, setup.pp * setup.vpp);
    }
  }
  setup.stages.front().has_embedding = true;
  setup.stages.back().has_loss = true;
  setup.stages.back().has_prediction = setup.network.prediction_layers > 0;
  setup.schedule_group = args.Integer("microbatch-group-size-per-virtual-pipeline-stage", 0);
}

// Sequences of a step: the most of a schedule such as "0:384 200B:768 400B:1152".
std::int64_t LargestBatch(Arguments& args) {
  const std::string schedule = args.Text("step-batch-size-schedule", "");
  const std::size_t colon = schedule.rfind(':');
  std::int64_t batch = args.Integer("global-batch-size", 0);
  if (colon != std::string::npos) {
    std::from_chars(schedule.data() + colon + 1, schedule.data() + schedule.size(), batch);
  }
  return batch;
}

// Ranks of a run that does not say how many it has: one node, or more where its length is counted in samples, as of
// trainings of networks for use. Fitted on Megatron-LM's tests.
std::int64_t UsualWorldSize(Arguments& args) {
  if (!args.Has("train-samples")) return 8;
  return LargestBatch(args) >= 1024 ? 128 : 64;
}

void ReadDegrees(Arguments& args, std::int64_t world_size, MegatronRun* run) {
  TrainingSetup& setup = run->setup;
  setup.tp = args.Integer("tensor-model-parallel-size", 1, 1, kMostRanksOfRun);
  setup.pp = args.Integer("pipeline-model-parallel-size", 1, 1, kMostStages);
  setup.cp = args.Integer("context-parallel-size", 1, 1, kMostRanksOfRun);
  setup.ep = args.Integer("expert-model-parallel-size", 1, 1, kMostRanksOfRun);
  setup.etp = args.Integer("expert-tensor-parallel-size", setup.tp, 1, kMostRanksOfRun);
  setup.sequence_parallel = args.Flag("sequence-parallel") && setup.tp > 1;
  const std::int64_t dense = setup.tp * setup.pp * setup.cp;
  const auto check = [](std::int64_t ranks) {
    if (ranks > kMostRanksOfRun) {
      throw InputError(
          "tensor-model-parallel-size",
          fmt::format("and the other degrees make {} ranks of one model (at most {})", ranks, kMostRanksOfRun));
    }
  };
  check(dense);
  check(setup.etp * setup.ep * setup.pp);
  std::int64_t needed = dense;
  if (args.Integer("num-experts", 0) > 0) needed = std::lcm(dense, setup.etp * setup.ep * setup.pp);
  check(needed);
  run->world_size = world_size > 0 ? world_size : RoundUpTo(UsualWorldSize(args), needed);
  if (run->world_size % needed != 0) {
    const std::int64_t taken = RoundUpTo(run->world_size, needed);
    run->unmodelled.push_back(fmt::format("world size: {} is no multiple of {}, the ranks of one model: {} is taken",
                                          run->world_size, needed, taken));
    run->world_size = taken;
  }
  setup.dp = run->world_size / dense;
  setup.pipeline_before_data = args.Flag("use-tp-pp-dp-mapping");
}

void CheckDegrees(const TrainingSetup& setup) {
  const NetworkShape& network = setup.network;
  CheckDegreeDivides("tensor-model-parallel-size", setup.tp, "num-attention-heads", network.heads);
  CheckDegreeDivides("tensor-model-parallel-size", setup.tp, "ffn-hidden-size", network.d_ff);
  CheckDegreeDivides("context-parallel-size", setup.cp, "seq-length", network.sequence);
  if (setup.sequence_parallel) {
    CheckDegreeDivides("tensor-model-parallel-size", setup.tp, "the sequence of a rank", network.sequence / setup.cp);
  }
  if (network.experts > 0) {
    CheckDegreeDivides("expert-model-parallel-size", setup.ep, "num-experts", network.experts);
    CheckDegreeDivides("expert-tensor-parallel-size", setup.etp, "moe-ffn-hidden-size", network.d_expert);
  }
}

void ReadBatch(Arguments& args, MegatronRun* run) {
  TrainingSetup& setup = run->setup;
  setup.micro_batch = args.Integer("micro-batch-size", 1, 1);
  const std::int64_t global = args.Integer("global-batch-size", setup.micro_batch * setup.dp, 1);
  setup.micro_batches = std::max<std::int64_t>(1, global / (setup.micro_batch * setup.dp));
}

void ReadRecompute(Arguments& args, TrainingSetup* setup) {
  Recompute& recompute = setup->recompute;
  if (args.Flag("recompute-activations")) recompute.kind = RecomputeKind::kSelective;
  if (args.Has("recompute-granularity")) {
    recompute.kind = args.Word("recompute-granularity", "", {"full", "selective"}) == "full"
                         ? RecomputeKind::kFull
                         : RecomputeKind::kSelective;
  }
  recompute.is_uniform = args.Word("recompute-method", "uniform", {"uniform", "block"}) == "uniform";
  recompute.layers = args.Integer("recompute-num-layers", 1, 1);
  std::set<std::string> modules = args.Words("recompute-modules");
  if (modules.empty()) modules = {"core_attn"};
  recompute.core_attention = modules.contains("core_attn");
  recompute.expert_activation = modules.contains("moe_act");
  recompute.norms = modules.contains("layernorm");
  recompute.latent_up_projection = modules.contains("mla_up_proj");
  recompute.mlp = modules.contains("mlp");
  if (args.Flag("moe-layer-recompute")) {
    if (recompute.kind == RecomputeKind::kNone) recompute.kind = RecomputeKind::kSelective;
    modules.insert("moe");
  }
  recompute.experts = modules.contains("moe");
  recompute.shared_experts = modules.contains("shared_experts");
}

AttentionKernel ReadAttention(Arguments& args, const TrainingSetup& setup) {
  const std::string backend = args.Word("attention-backend", args.Flag("use-flash-attn") ? "flash" : "auto",
                                        {"auto", "flash", "fused", "unfused", "local"});
  if (!setup.transformer_engine || backend == "unfused" || backend == "local") return AttentionKernel::kUnfused;
  if (backend == "flash") return AttentionKernel::kFlash;
  return backend == "fused" ? AttentionKernel::kFused : AttentionKernel::kAutomatic;
}

ProductRecipe ReadRecipe(Arguments& args) {
  const std::string eight =
      args.Word("fp8-recipe", "delayed", {"delayed", "tensorwise", "mxfp8", "blockwise", "custom"});
  args.Word("fp4-recipe", "nvfp4", {"nvfp4", "custom"});
  if (args.Has("fp4-format") || args.Has("fp4")) return ProductRecipe::kNvfp4;
  if (!args.Has("fp8-format") && !args.Has("fp8")) return ProductRecipe::kWhole;
  return eight == "mxfp8" ? ProductRecipe::kMxfp8 : ProductRecipe::kFp8;
}

void ReadOptimizer(Arguments& args, TrainingSetup* setup) {
  const bool is_fp16 = args.Flag("fp16");
  const bool is_bf16 = args.Flag("bf16");
  if (is_fp16 && is_bf16) throw InputError("fp16", "is set beside bf16 (one of them)");
  setup->number_bytes = is_fp16 || is_bf16 ? 2 : 4;
  setup->distributed_optimizer = args.Flag("use-distributed-optimizer");
  setup->optimizer_instances = args.Integer("num-distributed-optimizer-instances", 1, 1);
  const bool sums_in_f32 = args.Flag("accumulate-allreduce-grads-in-fp32") || !is_fp16;
  setup->gradient_bytes = sums_in_f32 && !args.Flag("grad-reduce-in-bf16") ? 4 : 2;
  setup->keeps_f32_gradients = setup->gradient_bytes == 2;
  const auto bytes_of = [&](std::string_view key) {
    return args.Word(key, "fp32", {"fp32", "fp16", "bf16", "fp8"}) == "fp32" ? 4 : 2;
  };
  setup->optimizer_bytes = bytes_of("main-params-dtype") + bytes_of("exp-avg-dtype") + bytes_of("exp-avg-sq-dtype");
  args.Word("main-grads-dtype", "fp32", {"fp32", "bf16"});
  if (args.Flag("optimizer-cpu-offload")) {
    setup->optimizer_on_device = std::clamp(1 - args.Number("optimizer-offload-fraction", 1), 0.0, 1.0);
  }
  setup->matrix_optimizer_bytes = setup->optimizer_bytes;
  const std::string optimizer = args.Word("optimizer", "adam", {"adam", "sgd", "muon", "dist_muon", "adaptive_muon"});
  if (optimizer == "sgd") setup->optimizer_bytes = setup->matrix_optimizer_bytes = 8;
  if (optimizer.find("muon") != std::string::npos) setup->matrix_optimizer_bytes = 8;
  const bool is_fsdp = args.Flag("use-torch-fsdp2") || args.Flag("use-megatron-fsdp");
  const std::string shards = args.Word("data-parallel-sharding-strategy",
                                       is_fsdp && args.Flag("use-torch-fsdp2") ? "optim_grads_params" : "no_shard",
                                       {"no_shard", "optim", "optim_grads", "optim_grads_params"});
  setup->shards_gradients = is_fsdp && shards.starts_with("optim_grads");
  setup->shards_weights = is_fsdp && shards == "optim_grads_params";
  if (is_fsdp) setup->distributed_optimizer = true;
}

void ReadKernels(Arguments& args, TrainingSetup* setup) {
  setup->transformer_engine = args.Word("transformer-impl", "transformer_engine",
                                        {"transformer_engine", "local", "inference_optimized"}) != "local" &&
                              args.Text("spec", "") != "local";
  setup->is_deterministic = args.Flag("deterministic-mode");
  setup->attention = ReadAttention(args, *setup);
  if (args.Flag("cross-entropy-loss-fusion")) {
    const bool is_native = args.Word("cross-entropy-fusion-impl", "native", {"native", "te"}) == "native";
    setup->cross_entropy = is_native ? CrossEntropyKind::kFusedByCompiler : CrossEntropyKind::kKernel;
  }
  setup->hidden_dropout = args.Number("hidden-dropout", 0.1) > 0;
  setup->attention_dropout = args.Number("attention-dropout", 0.1) > 0;
  setup->fuses_weight_gradients = !args.Flag("no-gradient-accumulation-fusion");
  setup->fuses_activation = !args.Flag(setup->network.gated() ? "no-bias-swiglu-fusion" : "no-bias-gelu-fusion");
  setup->fuses_rope = !args.Flag("no-rope-fusion");
  setup->has_attention_mask = !args.Flag("no-create-attention-mask-in-dataloader");
  setup->products = ReadRecipe(args);
  if (args.Has("moe-expert-capacity-factor")) {
    // Experts take no more than their capacity, and as much as that with padding.
    const double factor = args.Number("moe-expert-capacity-factor", 1);
    const bool is_padded = args.Flag("moe-pad-expert-input-to-capacity");
    setup->expert_imbalance = is_padded ? factor : std::min(factor, setup->expert_imbalance);
  }
  setup->overlaps_tensor_parallel = args.Flag("tp-comm-overlap") && setup->tp > 1;
  args.Text("tp-comm-overlap-cfg", "");
  setup->fuses_expert_weights = args.Flag("use-fused-weighted-squared-relu");
  setup->fp8_weights = args.Flag("fp8-param-gather");
  setup->grouped_experts = args.Flag("moe-grouped-gemm");
  const std::string dispatcher =
      args.Word("moe-token-dispatcher-type", "allgather", {"allgather", "alltoall", "alltoall_seq", "flex"});
  setup->dispatcher = dispatcher == "allgather" ? ExpertDispatcher::kAllGather
                      : dispatcher == "flex"    ? ExpertDispatcher::kFlex
                                                : ExpertDispatcher::kAllToAll;
  setup->defers_embedding_gradients = args.Flag("defer-embedding-wgrad-compute");
  setup->deferred_micro_batches = args.Integer("wgrad-deferral-limit", 0);
  setup->fuses_softmax = !args.Flag("no-masked-softmax-fusion");
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  if (args.Flag("perform-rl-step")) {
    setup->inference_cache_bytes = args.Integer("inference-dynamic-batching-buffer-size-gb", 40) * kGiB;
  }
}

void ReadOffload(Arguments& args, Offload* offload) {
  if (!args.Flag("fine-grained-activation-offloading")) return;
  const std::set<std::string> modules = args.Words("offload-modules");
  offload->attention_norm = modules.contains("attn_norm");
  offload->mlp_norm = modules.contains("mlp_norm");
  offload->query_product = modules.contains("qkv_linear");
  offload->core_attention = modules.contains("core_attn");
  offload->attention_output = modules.contains("attn_proj");
  offload->expert_product = modules.contains("expert_fc1");
  offload->expert_activation = modules.contains("moe_act");
}

}  // namespace

namespace {

// Arguments that Megatron-LM refuses, or that have no effect beside the others.
void AddContradictions(Arguments& args, const std::string& model, std::int64_t world_size, MegatronRun* run) {
  const TrainingSetup& setup = run->setup;
  const NetworkShape& network = setup.network;
  const auto add = [run](std::string line) { run->unmodelled.push_back(std::move(line)); };
  if (network.experts == 0 && (setup.ep > 1 || model == "moe" || model == "mixtral")) {
    add(setup.ep > 1 ? fmt::format("expert-model-parallel-size: is {}, but there is no num-experts", setup.ep)
                     : fmt::format("model: is {}, but there is no num-experts", model));
  }
  if (network.experts > 0 && network.top_k > network.experts) {
    add(fmt::format("moe-router-topk: is {}, but num-experts is {}", network.top_k, network.experts));
  }
  const std::int64_t sequences = setup.micro_batch * setup.dp;
  const std::int64_t batch = args.Integer("global-batch-size", sequences, 1);
  if (world_size > 0 && batch % sequences != 0) {
    add(fmt::format("global-batch-size: is {}, which micro-batches of {} on {} data-parallel ranks do not divide",
                    batch, setup.micro_batch, setup.dp));
  }
  static const std::set<std::string> known = {"core_attn", "moe_act", "layernorm",     "mla_up_proj",
                                              "mlp",       "moe",     "shared_experts"};
  for (const std::string& module : args.Words("recompute-modules")) {
    if (!known.contains(module)) {
      add(fmt::format("recompute-modules: {} is not known ({})", Quoted(module), fmt::join(known, ", ")));
    }
  }
}

}  // namespace

MegatronRun ReadMegatronArguments(const JsonValue& arguments, std::int64_t world_size) {
  Arguments args(arguments);
  const std::string model = args.Text("model", "gpt");
  MegatronRun run;
  ReadDegrees(args, world_size, &run);
  ReadBatch(args, &run);
  ReadNetwork(args, model, &run);
  ReadStages(args, &run);
  CheckDegrees(run.setup);
  CheckSetup(run.setup);
  ReadOptimizer(args, &run.setup);
  ReadKernels(args, &run.setup);
  ReadRecompute(args, &run.setup);
  ReadOffload(args, &run.setup.offload);
  for (std::string& line : args.Unmodelled()) run.unmodelled.push_back(std::move(line));
  AddContradictions(args, model, world_size, &run);
  return run;
}

}  // namespace emplace::datasets
