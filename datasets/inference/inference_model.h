#ifndef EMPLACE_DATASETS_INFERENCE_INFERENCE_MODEL_H_
#define EMPLACE_DATASETS_INFERENCE_INFERENCE_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/inference/gguf.h"
#include "sim/graph.h"

namespace emplace::datasets {

// Weights of one type: those of one or several tensors.
struct StoredWeights {
  const GgmlType* type = nullptr;
  std::int64_t bytes = 0;
  std::int64_t elements = 0;
};

// Weights that are on one device and are read together.
struct WeightPart {
  std::vector<StoredWeights> weights;  // in the order in which their types first occur

  void Add(const GgufTensor& tensor);
  std::int64_t bytes() const;
  std::int64_t elements() const;
};

// A layer of a Transformer that generates tokens.
struct InferenceLayer {
  WeightPart attention;     // with its norms
  WeightPart feed_forward;  // that of every token: an MLP, the shared experts, the router
  WeightPart experts;       // routed experts, of which a token reads a part
  WeightPart idle;          // what generating does not read, such as a module that predicts further tokens
  // Numbers that a token leaves in the caches of keys and of values.
  std::int64_t key_width = 0;
  std::int64_t value_width = 0;
  std::int64_t window = 0;  // tokens that a token looks back at; 0: all
  bool is_idle = false;     // the layer takes no part, and has no cache
};

// A network as llama.cpp runs it.
struct InferenceModel {
  std::string name;
  std::string architecture;
  std::int64_t width = 0;  // of what layers hand on
  std::int64_t vocabulary = 0;
  std::int64_t heads = 0;         // the largest number of a layer
  std::int64_t feed_forward = 0;  // width of the widest MLP
  std::int64_t expert_feed_forward = 0;
  std::int64_t query_width = 0;  // of the queries of all heads
  bool has_query_bias = false;
  bool has_query_norm = false;
  std::int64_t context_length = 0;  // tokens that the model was trained for
  std::int64_t num_experts = 0;     // 0: none
  std::int64_t used_experts = 0;    // of a token
  std::vector<InferenceLayer> layers;
  WeightPart embedding;  // a token reads a row
  WeightPart output;     // the last norm and the logits' weights
  bool is_tied = false;  // the logits' weights are the embedding: the device of the output holds a copy of it
  std::vector<GgufTensor> tensors;  // all of the file, in its order

  // The part of the experts that a token reads.
  double expert_share() const;
  std::int64_t weight_bytes() const;  // of all tensors, each once
  // What the device of the output reads of each token.
  const WeightPart& logits() const { return is_tied ? embedding : output; }
};

// The layer that a tensor is of; none: the embedding, or what the output reads.
std::optional<std::int64_t> GgufLayerOf(std::string_view tensor);
// Whether a tensor holds routed experts.
bool IsOfExperts(std::string_view tensor);
// Whether a tensor that is of no layer is read by the output.
bool IsOfOutput(std::string_view tensor);

// The network of a GGUF file. What was not understood, and does not matter, is added to `notes`. Throws InputError on
// an architecture that is none of llama.cpp's Transformers that generate tokens, or whose layers differ from what this
// knows; and on what is missing.
InferenceModel ReadInferenceModel(const GgufHeader& header, std::vector<std::string>* notes);

// The kind of ops that hold weights (op_catalog.h).
inline constexpr std::string_view kStoredWeights = "stored_weights";

// The graph of generating one token: the embedding, the attention, feed-forward part and experts of each layer, and the
// output, in the names of their tensors. Persistent bytes are those of the tensors, and add up to them.
Graph InferenceGraph(const InferenceModel& model);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_INFERENCE_INFERENCE_MODEL_H_
