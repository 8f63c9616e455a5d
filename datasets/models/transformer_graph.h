#ifndef EMPLACE_DATASETS_MODELS_TRANSFORMER_GRAPH_H_
#define EMPLACE_DATASETS_MODELS_TRANSFORMER_GRAPH_H_

#include <cstdint>
#include <string>

#include "datasets/models/transformer.h"
#include "datasets/training.h"
#include "sim/base/options.h"
#include "sim/graph.h"

namespace emplace::datasets {

// One training step of a TransformerNetwork.
struct TransformerStep {
  std::int64_t batch = 1;  // sequences
  std::int64_t sequence = 4096;
  std::int64_t encoder_sequence = 0;  // tokens that the encoder reads; 0: as many as the decoder
  DType precision = DType::kBf16;
  bool fused_attention = true;
  TrainingOptions training = {.optimizer = "adam", .clip_gradients = true, .average_variables = false};
};

// Declares the options of generator `llama`: the fields of the network, whose defaults are those of *network, and those
// of the step. Calls reader.Finish(). Throws InputError on what does not go together.
void ReadTransformerOptions(OptionReader& reader, TransformerNetwork* network, TransformerStep* step);

// The graph of the step. Layers are named like the modules of Hugging Face's Llama, "model.layers.0.self_attn.q_proj",
// and the variable of each TransformerWeight is its layer's "weight" or "bias", of the same shape. Experts drop no
// token: each has room for load_imbalance times its average share, top_k of all tokens. Cross-entropy keeps
// probabilities in f32. Left out: dropout; what routers add to the loss; the limits that GPT-OSS sets to its gates.
Graph BuildTransformer(const TransformerNetwork& network, const TransformerStep& step);

// `base` with the options read.
Graph MakeTransformer(const TransformerNetwork& base, OptionReader& reader);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MODELS_TRANSFORMER_GRAPH_H_
