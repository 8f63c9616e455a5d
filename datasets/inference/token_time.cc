#include "datasets/inference/token_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace emplace::datasets {
namespace {

// Parts of the data sheet's rates that llama.cpp reaches, fitted by hand to rows of others (docs/results/home.md),
// which it compares with all: NVIDIA to RTX 4090, 3060 and 2080 Ti with two models each (geerlingguy/ai-benchmarks),
// GB10 and Apple to DGX Spark and M2 Ultra (llama.cpp's benches, prompts too), AMD's shared memory to llama 7B and 8B
// on Ryzen AI Max+ 395, prompts from 128 tokens on, and for experts to Qwen3 235B there
// (lhl/strix-halo-testing), other cards of AMD and Intel to those of geerlingguy/ai-benchmarks, most of which are
// beside a slow CPU.
struct DeviceFamily {
  std::string_view prefixes;  // of kinds, each between blanks; "": any other
  double read_share;          // of the bandwidth, when weights are read
  double cache_share;         // of the bandwidth, when caches are read
  double flop_share;          // of the f16 rate, in products with weights
  double attention_share;     // of the f16 rate, in attention
  double layer_micros;
  double expert_micros;  // of a layer with experts, beside these
};
constexpr DeviceFamily kDeviceFamilies[] = {
    {" m1 m2 m3 m4 ", 0.75, 0.36, 0.75, 0.45, 120, 30}, {" gb10 ", 0.84, 0.75, 0.38, 0.45, 53, 0},
    {" mi ryzen ", 0.72, 0.50, 0.13, 0.025, 60, 60},    {" rx radeon ", 0.55, 0.40, 0.15, 0.05, 130, 60},
    {" arc ", 0.35, 0.25, 0.15, 0.05, 200, 60},         {"", 0.82, 0.70, 0.60, 0.40, 36, 18},
};
// CPUs: Raspberry Pi 4 and 5 (b4rtaz/distributed-llama, one each): what a token computes takes longer than what it
// reads.
constexpr DeviceFamily kCpuFamily = {"", 0.65, 0.65, 0.20, 0.20, 15, 0};

const DeviceFamily& DeviceFamilyOf(const DeviceKind& kind) {
  if (kind.is_cpu) return kCpuFamily;
  std::string_view name = kind.name;
  const std::size_t letters = name.find_first_of("-");
  if (letters != std::string_view::npos) name = name.substr(0, letters);
  if (name.starts_with("mi")) name = "mi";
  for (const DeviceFamily& family : kDeviceFamilies) {
    if (family.prefixes.find(" " + std::string(name) + " ") != std::string_view::npos) return family;
  }
  return *std::prev(std::end(kDeviceFamilies));
}

double ProductFlop(const DeviceKind& kind) {
  const double half = kind.precisions[static_cast<std::size_t>(Precision::kF16)].peak.count;
  return half > 0 ? half : kind.peak.count;
}

constexpr std::int64_t kCellsAtOnce = 256;

std::int64_t RoundedUp(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

std::optional<InferenceRates> RatesOf(const DeviceKind& kind) {
  const auto bandwidth = static_cast<double>(kind.memory_bandwidth.count);
  const double flop = ProductFlop(kind);
  if (bandwidth <= 0 || flop <= 0) return std::nullopt;
  const DeviceFamily& family = DeviceFamilyOf(kind);
  return InferenceRates{.bytes_per_micro = family.read_share * bandwidth / 1e6,
                        .cache_bytes_per_micro = family.cache_share * bandwidth / 1e6,
                        .flop_per_micro = family.flop_share * flop / 1e6,
                        .attention_flop_per_micro = family.attention_share * flop / 1e6,
                        .layer_micros = family.layer_micros,
                        .expert_micros = family.expert_micros};
}

InferenceRates MeasuredRates(const DeviceKind& kind, double bytes_per_micro, double flop_per_micro, double token_micros,
                             double model_bytes, double parameters) {
  const DeviceFamily& family = DeviceFamilyOf(kind);
  // Llama's of 1, 8 and 70 billion parameters have 16, 32 and 80 layers.
  const double layers = 32 * std::pow(parameters / 8e9, 0.42);
  InferenceRates rates;
  rates.layer_micros = token_micros > 0 ? token_micros / layers : family.layer_micros;
  rates.expert_micros = family.expert_micros;
  rates.bytes_per_micro = bytes_per_micro;
  if (token_micros == 0) {
    const double reading = model_bytes / bytes_per_micro - layers * rates.layer_micros;
    if (reading > 0.2 * model_bytes / bytes_per_micro) {
      rates.bytes_per_micro = model_bytes / reading;
    } else {
      rates.layer_micros = 0;
    }
  }
  rates.cache_bytes_per_micro = rates.bytes_per_micro * family.cache_share / family.read_share;
  rates.flop_per_micro = flop_per_micro;
  rates.attention_flop_per_micro = flop_per_micro * family.attention_share / family.flop_share;
  return rates;
}

double WeightMicros(const WeightPart& part, double read_share, const InferencePass& pass, const InferenceRates& rates,
                    double used_share) {
  const double read = read_share * static_cast<double>(part.bytes()) / rates.bytes_per_micro;
  const double token = 2 * used_share * static_cast<double>(part.elements()) / rates.flop_per_micro;
  return std::max(read, token) + (pass.tokens - 1) * token;
}

double LayerMicros(const InferenceModel& model, const InferenceLayer& layer, const InferencePass& pass,
                   const InferenceRates& rates) {
  if (layer.is_idle) return 0;
  const double seen = layer.window > 0 ? std::min(pass.depth, static_cast<double>(layer.window)) : pass.depth;
  const double cached = seen * pass.sequences *
                        (static_cast<double>(layer.key_width) * pass.key_bytes +
                         static_cast<double>(layer.value_width) * pass.value_bytes);
  // Each head's query meets each key, and its weight each value.
  const double own = pass.tokens / pass.sequences / 2;  // earlier tokens of the pass that a token sees, on average
  const double query_width = layer.key_width > 0 ? static_cast<double>(model.query_width) : 0;
  const double attention_flop = 4 * pass.tokens * (seen + own) * query_width;
  return WeightMicros(layer.attention, 1, pass, rates) + WeightMicros(layer.feed_forward, 1, pass, rates) +
         std::max(cached / rates.cache_bytes_per_micro, attention_flop / rates.attention_flop_per_micro) +
         rates.layer_micros;
}

double ExpertMicros(const InferenceModel& model, const InferenceLayer& layer, const InferencePass& pass,
                    const InferenceRates& rates) {
  if (layer.experts.weights.empty() || layer.is_idle) return 0;
  const double share = model.expert_share();
  const double read = 1 - std::pow(1 - share, pass.tokens);
  return WeightMicros(layer.experts, read, pass, rates, share) + rates.expert_micros;
}

double OutputMicros(const InferenceModel& model, const InferencePass& pass, const InferenceRates& rates) {
  InferencePass last = pass;
  last.tokens = pass.sequences;
  return WeightMicros(model.logits(), 1, last, rates);
}

std::int64_t CacheCells(const InferenceLayer& layer, std::int64_t context, std::int64_t sequences,
                        std::int64_t micro_batch) {
  const std::int64_t cells = RoundedUp(context, kCellsAtOnce);
  if (layer.window <= 0) return cells;
  return std::min(cells, RoundedUp(layer.window * sequences + micro_batch, kCellsAtOnce));
}

std::int64_t CacheBytes(const InferenceLayer& layer, const InferencePass& pass, std::int64_t context,
                        std::int64_t micro_batch) {
  const auto sequences = static_cast<std::int64_t>(pass.sequences);
  const auto cells = static_cast<double>(CacheCells(layer, context * sequences, sequences, micro_batch));
  return std::llround(cells * (static_cast<double>(layer.key_width) * pass.key_bytes +
                               static_cast<double>(layer.value_width) * pass.value_bytes));
}

std::int64_t ComputeBytes(const InferenceModel& model, const DevicePart& part, std::int64_t context,
                          std::int64_t micro_batch) {
  constexpr std::int64_t kF32 = 4;
  constexpr std::int64_t kF16 = 2;
  constexpr std::int64_t kCopies = 4;
  std::int64_t cells = 0;
  for (const bool has_window : {false, true}) {
    const auto layer = std::find_if(model.layers.begin(), model.layers.end(),
                                    [&](const InferenceLayer& each) { return (each.window > 0) == has_window; });
    if (layer != model.layers.end()) cells += CacheCells(*layer, context, 1, micro_batch);
  }
  const std::int64_t mask = cells * micro_batch * kF16;
  const std::int64_t row = micro_batch * model.width * kF32;
  std::int64_t bytes = 0;
  if (part.has_layers) {
    // Queries as the product makes them, rotated, and the result; a bias and a norm make more of them.
    const std::int64_t queries = 3 + (model.has_query_bias ? 1 : 0) + (model.has_query_norm ? 2 : 0);
    std::int64_t widest = queries * micro_batch * model.query_width * kF32;
    // Gate, up, and their product; of experts as many as a token uses, whose results are then weighted.
    if (model.num_experts == 0) {
      widest = std::max(widest, 3 * micro_batch * model.feed_forward * kF32);
    } else if (part.has_experts) {
      const std::int64_t inner = model.used_experts * micro_batch * model.expert_feed_forward * kF32;
      widest = std::max({widest, 3 * inner, inner + 2 * model.used_experts * row});
    }
    bytes = widest + 2 * row + mask;
  } else if (part.is_client) {
    bytes = row;  // the rows of the embedding
  }
  if (part.has_output) {
    const std::int64_t logits = micro_batch * model.vocabulary * kF32;
    bytes = std::max(bytes, logits + (part.is_client ? 2 : 1) * row);
  }
  if (part.is_pipelined && bytes > 0) bytes += kCopies * ((part.has_output ? 2 : 1) * row + mask);
  return bytes;
}

}  // namespace emplace::datasets
