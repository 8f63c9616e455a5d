#ifndef EMPLACE_DATASETS_INFERENCE_QUANTISED_MODEL_H_
#define EMPLACE_DATASETS_INFERENCE_QUANTISED_MODEL_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "datasets/inference/gguf.h"
#include "datasets/inference/inference_model.h"
#include "datasets/models/transformer.h"

namespace emplace::datasets {

// The names of quantisations that QuantisedModel knows, as llama-quantize has them: q4_k_m, q8_0, f16, ..
std::span<const std::string_view> AllQuantisations();

// The GGUF header of a network as llama.cpp's converter and llama-quantize write it, without a file: names, shapes and
// types of its tensors (its function llama_tensor_get_type, without an importance matrix). Vectors and routers
// stay f32; rows that are no multiple of a type's block have the next type that fits. Throws InputError("--quantise")
// on an unknown name, and on networks that llama.cpp would not run as a Transformer that generates text.
GgufHeader QuantisedHeader(const TransformerNetwork& network, std::string_view quantisation);
// The same as a model.
InferenceModel QuantisedModel(const TransformerNetwork& network, std::string_view quantisation);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_INFERENCE_QUANTISED_MODEL_H_
