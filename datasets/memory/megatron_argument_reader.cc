#include "datasets/memory/megatron_argument_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>
#include <variant>

#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

// Arguments that leave the memory of a training step as it is: data, logs, checkpoints, learning rates, times.
constexpr std::string_view kWithoutEffect[] = {
    "apply-layernorm-1p",
    "apply-query-key-layer-scaling",
    "async-ckpt-use-cpu-shm",
    "async-save",
    "async-strategy",
    "attention-softmax-in-fp32",
    "auto-detect-ckpt-format",
    "calculate-per-token-loss",
    "check-for-large-grads",
    "check-weight-hash-across-dp-replicas-interval",
    "clip-grad",
    "dataloader-type",
    "dataset-provider",
    "ddp-average-in-collective",
    "ddp-bucket-size",
    "ddp-num-buckets",
    "ddp-pad-buckets-for-high-nccl-busbw",
    "disable-gloo-process-groups",
    "distributed-backend",
    "distributed-timeout-minutes",
    "empty-unused-memory-level",
    "enable-experimental",
    "eod-mask-loss",
    "export-te-mcore-model",
    "fim-data",
    "fim-rate",
    "fim-spm-rate",
    "finetune",
    "hierarchical-context-parallel-sizes",
    "high-priority-stream-groups",
    "inference-logging-step-interval",
    "init-method-std",
    "is-hybrid-model",
    "language-model-checkpoint",
    "load",
    "logging-level",
    "lr",
    "manual-gc",
    "manual-gc-interval",
    "megatron-fsdp-grad-comm-dtype",
    "megatron-fsdp-main-grads-dtype",
    "megatron-fsdp-main-params-dtype",
    "merge-file",
    "min-lr",
    "mock-data",
    "model",
    "moe-aux-loss-coeff",
    "moe-deepep-num-sms",
    "moe-flex-dispatcher-backend",
    "moe-flex-dispatcher-num-sms",
    "moe-hybridep-num-sms",
    "moe-permute-fusion",
    "moe-router-bias-update-rate",
    "moe-router-dtype",
    "moe-router-enable-expert-bias",
    "moe-router-fusion",
    "moe-router-group-topk",
    "moe-router-load-balancing-type",
    "moe-router-num-groups",
    "moe-router-padding-for-quantization",
    "moe-router-pre-softmax",
    "moe-router-score-function",
    "moe-router-topk-scaling-factor",
    "moe-token-drop-policy",
    "moe-z-loss-coeff",
    "mscale",
    "mscale-all-dim",
    "mtp-loss-scaling-factor",
    "no-bias-gelu-fusion",
    "no-check-for-nan-in-loss-and-grad",
    "no-ckpt-fully-parallel-save",
    "no-ckpt-load-validate-sharding-integrity",
    "no-load-optim",
    "no-load-rng",
    "no-mmap-bin-files",
    "no-persist-layer-norm",
    "no-save-optim",
    "no-use-tokenizer-model-from-checkpoint-args",
    "norm-epsilon",
    "num-workers",
    "overlap-grad-reduce",
    "overlap-p2p-communication-warmup-flush",
    "overlap-param-gather",
    "override-opt-param-scheduler",
    "override-opt_param-scheduler",
    "refit-method",
    "reset-attention-mask",
    "reset-position-ids",
    "rl-generation-lag",
    "rl-partial-rollouts",
    "rotary-base",
    "rotary-interleaved",
    "rotary-percent",
    "rotary-scaling-factor",
    "rotary-seq-len-interpolation-factor",
    "save",
    "save-interval",
    "save-retain-interval",
    "seed",
    "spec",
    "split",
    "step-batch-size-schedule",
    "te-rng-tracker",
    "test-mode",
    "tiktoken-pattern",
    "tokenizer-model",
    "train-iters",
    "train-samples",
    "trust-remote-code",
    "use-checkpoint-args",
    "use-checkpoint-opt_param-scheduler",
    "use-mcore-models",
    "use-persistent-ckpt-worker",
    "use-precision-aware-optimizer",
    "use-rotary-position-embeddings",
    "verify-integrity",
    "vocab-file",
    "weight-decay",
};

// Beginnings of the keys of further such arguments.
constexpr std::string_view kPrefixesWithoutEffect[] = {
    "adam-",      "ckpt-",        "data-",   "decoupled-", "dist-ckpt-", "error-injection-", "eval-",   "exit-",
    "grpo-",      "langrl-",      "log-",    "lr-",        "muon-",      "one-logger",       "profile", "rerun-",
    "straggler-", "tensorboard-", "timing-", "wandb-",
};

// Arguments that change the memory, and that the model leaves out.
struct UnmodelledArgument {
  std::string_view key;
  std::string_view reason;
};
constexpr UnmodelledArgument kUnmodelled[] = {
    {"cuda-graph-scope", "the memory pools of CUDA graphs are not modelled"},
    {"enable-cuda-graph", "the memory pools of CUDA graphs are not modelled"},
    {"cpu-offloading", "activations that are moved to the host count as kept"},
    {"first-last-layers-bf16", "the first and the last layers count as in fp8"},
    {"cp-comm-type", "messages of context parallelism are not modelled"},
    {"window-size", "windows of attention are not modelled"},
    {"rl-offload-optimizer-during-inference", "the optimizer's state counts as held by the device"},
    {"rl-inference-tensor-model-parallel-size", "the second copy of the network for inference is not modelled"},
    {"img-h", "the network that encodes images is not modelled with several pipeline ranks"},
    {"flextron", "networks of several widths are taken for the widest"},
    {"export-kd-cfg", "the loss of distillation is taken for that of logits"},
    {"use-transformer-engine-op-fuser", "the buffers of fused operations are taken for those of separate ones"},
    {"reuse-grad-buf-for-mxfp8-param-ag", "the buffer of gradients is not reused"},
    {"overlap-moe-expert-parallel-comm", "the second micro-batch that the overlap holds is not modelled"},
    {"moe-shared-expert-overlap", "buffers of the overlap are not modelled"},
    {"delay-wgrad-compute", "inputs that wait for the gradients of weights are not modelled"},
    {"overlap-param-gather-with-optimizer-step", "buffers of the overlap are not modelled"},
};

}  // namespace

MegatronArgumentReader::MegatronArgumentReader(const JsonValue& root) : root_(root) {
  root_.Object("an object of Megatron-LM's arguments");
}

bool MegatronArgumentReader::Has(std::string_view key) {
  read_.emplace(key);
  const JsonValue* const value = FindMember(root_.value(), key);
  return value != nullptr && value->As<std::monostate>() == nullptr;
}

std::int64_t MegatronArgumentReader::Integer(std::string_view key, std::int64_t otherwise, std::int64_t low,
                                             std::int64_t high) {
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
                      high < kMostOfAnyArgument ? fmt::format("an integer from {} to {}", low, high)
                                                : fmt::format("an integer from {}", low));
}

std::int64_t MegatronArgumentReader::Needed(std::string_view key, std::int64_t high) {
  if (!Has(key)) throw InputError(std::string(key), "is missing (an integer from 1)");
  return Integer(key, 0, 1, high);
}

double MegatronArgumentReader::Number(std::string_view key, double otherwise) {
  return Has(key) ? Node(key).Number(0, 1e18, "a number from 0") : otherwise;
}

std::string MegatronArgumentReader::Text(std::string_view key, const std::string& otherwise) {
  return Has(key) ? Node(key).Text() : otherwise;
}

std::string MegatronArgumentReader::Word(std::string_view key, const std::string& otherwise,
                                         std::initializer_list<std::string_view> words) {
  std::string value = Text(key, otherwise);
  if (std::find(words.begin(), words.end(), value) == words.end()) {
    std::string allowed;
    for (const std::string_view word : words) allowed += (allowed.empty() ? "" : ", ") + std::string(word);
    throw InputError(std::string(key), fmt::format("is {} ({})", Quoted(value), allowed));
  }
  return value;
}

std::set<std::string> MegatronArgumentReader::Words(std::string_view key) {
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

std::vector<std::string> MegatronArgumentReader::Unmodelled() const {
  std::vector<std::string> lines;
  for (const auto& [key, value] : root_.Object()) {
    const bool is_off = value.As<std::monostate>() != nullptr || (value.As<bool>() != nullptr && !*value.As<bool>());
    if (is_off || read_.contains(key)) continue;
    if (std::find(std::begin(kWithoutEffect), std::end(kWithoutEffect), key) != std::end(kWithoutEffect)) continue;
    const auto starts_key = [name = std::string_view(key)](std::string_view prefix) {
      return name.starts_with(prefix);
    };
    if (std::ranges::any_of(kPrefixesWithoutEffect, starts_key)) continue;
    const auto* const known = std::ranges::find(kUnmodelled, std::string_view(key), &UnmodelledArgument::key);
    lines.push_back(
        fmt::format("{}: {}", key, known != std::end(kUnmodelled) ? known->reason : "is not known, and is left out"));
  }
  return lines;
}

JsonNode MegatronArgumentReader::Node(std::string_view key) const {
  return {root_, key, *FindMember(root_.value(), key)};
}

}  // namespace emplace::datasets
