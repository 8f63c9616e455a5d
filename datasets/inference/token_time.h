#ifndef EMPLACE_DATASETS_INFERENCE_TOKEN_TIME_H_
#define EMPLACE_DATASETS_INFERENCE_TOKEN_TIME_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "datasets/inference/inference_model.h"
#include "sim/device_catalog.h"

namespace emplace::datasets {

// What one pass through the network computes: `tokens` new tokens behind `depth` tokens in the caches of each of
// `sequences` texts.
struct InferencePass {
  double tokens = 1;     // of all texts together
  double sequences = 1;  // that share the pass
  double depth = 0;
  double key_bytes = 2;  // of a number in the caches
  double value_bytes = 2;
};

// What llama.cpp reaches on a device, beside the data-sheet rates of its kind.
struct InferenceRates {
  double bytes_per_micro = 0;           // reading weights
  double cache_bytes_per_micro = 0;     // reading caches
  double flop_per_micro = 0;            // products with weights of 4 to 16 bits
  double attention_flop_per_micro = 0;  // attention
  double layer_micros = 0;              // launches of a layer's kernels that nothing hides
  double expert_micros = 0;             // as much again for choosing experts and gathering what they give
};

// The rates of a kind of device: of the data sheet's bandwidth and f16 arithmetic the part that llama.cpp reaches on
// its family (NVIDIA, Apple, AMD, Intel, CPU), as measured by others (docs/home.md). None where the kind has no rates.
std::optional<InferenceRates> RatesOf(const DeviceKind& kind);

// The same with the read rate and FLOP rate that were measured: of the models of some runs of llama-bench the bytes a
// microsecond that generating a token comes to, beside the launches of a layer that the family has, and the FLOP a
// microsecond of prompts. `token_micros` is what a token takes beside its weights, if models of several sizes tell;
// else 0, and the launches are those of the family for as many layers as models of `parameters` usually have.
InferenceRates MeasuredRates(const DeviceKind& kind, double bytes_per_micro, double flop_per_micro, double token_micros,
                             double model_bytes, double parameters);

// A pass through some weights, in us: they are read once for all tokens while the first is computed, and the others
// are computed after it. Products take 2 FLOP a weight and token. Of the weights all tokens together read one share,
// and each of them uses another.
double WeightMicros(const WeightPart& part, double read_share, const InferencePass& pass, const InferenceRates& rates,
                    double used_share = 1);

// A pass through a layer without its experts: weights, caches, launches.
double LayerMicros(const InferenceModel& model, const InferenceLayer& layer, const InferencePass& pass,
                   const InferenceRates& rates);
// A pass through the experts of a layer. Tokens choose evenly: n of them read 1 - (1 - k/E)^n of E experts.
double ExpertMicros(const InferenceModel& model, const InferenceLayer& layer, const InferencePass& pass,
                    const InferenceRates& rates);
// The logits of one token of each text.
double OutputMicros(const InferenceModel& model, const InferencePass& pass, const InferenceRates& rates);

// Cells of a layer's caches, as llama.cpp allocates them for one text of `context` tokens: multiples of 256, and with a
// window no more than it and a micro-batch of `micro_batch` tokens take.
std::int64_t CacheCells(const InferenceLayer& layer, std::int64_t context, std::int64_t sequences,
                        std::int64_t micro_batch);
// Bytes of a layer's caches.
std::int64_t CacheBytes(const InferenceLayer& layer, const InferencePass& pass, std::int64_t context,
                        std::int64_t micro_batch);
// What a device has to do in a pass over a prompt.
struct DevicePart {
  bool has_layers = true;
  bool has_experts = true;  // of the layers, where they have any
  bool has_output = false;
  bool is_client = false;  // it reads the tokens and gets the logits
  // Every layer is on an accelerator, and there are several: llama.cpp then keeps four copies of what a device is sent.
  bool is_pipelined = false;
};
// Buffers of llama.cpp for a pass of `micro_batch` tokens with fused attention: what one layer holds at its peak, or
// the logits, and the masks of `context` cells. As llama-fit-params has them, within 15 % (docs/home.md).
std::int64_t ComputeBytes(const InferenceModel& model, const DevicePart& part, std::int64_t context,
                          std::int64_t micro_batch);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_INFERENCE_TOKEN_TIME_H_
