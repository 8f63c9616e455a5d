#ifndef EMPLACE_DATASETS_MEMORY_TRAINING_SETUP_H_
#define EMPLACE_DATASETS_MEMORY_TRAINING_SETUP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "datasets/lora.h"
#include "datasets/memory/module_network.h"

namespace emplace::datasets {

// What is trained, into how many parts it is divided, and how the framework goes about it: all that the memory of a
// rank depends on. Counts are of the whole network, and sizes in bytes, unless the name says otherwise.

enum class Mixer : std::uint8_t { kNone, kAttention, kLatentAttention, kMamba };
enum class FeedForwardKind : std::uint8_t { kNone, kDense, kExperts };
struct LayerKind {
  Mixer mixer = Mixer::kAttention;
  FeedForwardKind feed_forward = FeedForwardKind::kDense;
  bool cross_attention = false;  // a decoder's, over what the encoder returned
  std::int64_t window = 0;       // tokens that its attention looks back at; 0: all
  std::int64_t module = -1;      // number of a layer of NetworkShape::modules, which says its work; -1: it is none
  bool passes_gradient = true;   // false: nothing below is trained, which needs the gradient of the layer's input
};

enum class MlpActivation : std::uint8_t { kGelu, kSquaredRelu, kSwiglu };

struct NetworkShape {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t query_groups = 0;
  std::int64_t head_dim = 0;
  std::int64_t d_ff = 0;
  std::int64_t vocabulary = 0;  // padded
  std::int64_t sequence = 0;
  std::int64_t encoder_sequence = 0;     // of an encoder's layers; 0: there is no encoder
  std::int64_t position_embeddings = 0;  // learned ones; 0: none
  MlpActivation activation = MlpActivation::kGelu;
  bool has_bias = true;
  bool is_rms_norm = false;
  bool norms_queries = false;
  bool has_rope = false;
  bool is_tied = true;
  bool is_bert = false;
  bool has_binary_head = false;

  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t d_expert = 0;
  std::int64_t d_shared_expert = 0;  // 0: there is none
  std::int64_t expert_latent = 0;    // width that experts work at; 0: hidden
  double load_imbalance = 1;         // tokens of the busiest expert, relative to the average, in an average step

  std::int64_t query_rank = 0;  // latent attention; 0: queries are not compressed
  std::int64_t key_rank = 0;
  std::int64_t nope_dim = 0;
  std::int64_t rope_dim = 0;
  std::int64_t value_dim = 0;

  std::int64_t mamba_heads = 0;
  std::int64_t mamba_head_dim = 64;
  std::int64_t mamba_groups = 8;
  std::int64_t mamba_state = 128;
  std::int64_t mamba_kernel = 4;
  std::int64_t mamba_chunk = 128;
  bool mamba_conv_bias = true;

  std::vector<LayerKind> layers;  // the encoder's first
  std::size_t encoder_layers = 0;
  std::size_t prediction_layers = 0;  // layers that predict further tokens, each with a loss of its own
  bool shares_prediction_layer = false;
  std::vector<LayerKind> prediction;  // layers of a module that predicts one further token; empty: one like the last

  // Images in front of the text, whose features an MLP projects. The encoder's layers read them as patches, or a
  // network that is not trained, no more than the layers are, has encoded them.
  std::int64_t patch_elements = 0;           // numbers of a patch that the encoder's layers read; 0: they read none
  std::int64_t image_tokens = 0;             // positions of an image; 0: there are no images
  std::int64_t image_width = 0;              // of the features
  std::int64_t image_hidden = 0;             // of the MLP
  std::int64_t frozen_encoder_elements = 0;  // weights of the network that is not trained
  bool is_frozen = false;                    // the MLP alone is trained

  // A network that is no Transformer: its layers, what comes before them and what comes after; else null.
  std::shared_ptr<const ModuleNetwork> modules;

  bool gated() const { return activation == MlpActivation::kSwiglu; }
  std::span<const LayerKind> layers_of_prediction() const {
    return prediction.empty() && !layers.empty() ? std::span(layers).last(1) : std::span(prediction);
  }
};

// A part of the network that one pipeline rank runs at once.
struct StageShape {
  std::vector<std::size_t> layers;
  bool has_embedding = false;
  bool has_loss = false;
  bool has_prediction = false;
};

// kAutomatic: cuDNN's fused attention or flash attention, by the device.
enum class AttentionKernel : std::uint8_t { kAutomatic, kUnfused, kFused, kFlash };
enum class CrossEntropyKind : std::uint8_t { kVocabularyParallel, kFusedByCompiler, kKernel };
enum class ExpertDispatcher : std::uint8_t { kAllGather, kAllToAll, kFlex };
// The order of a pipeline's passes: one forward and one backward in turn, interleaved where a rank has several stages;
// all forward passes first; with weight gradients in idle times, in one stage a rank or in two, there and back; and
// from both ends at once, with each stage on two ranks.
enum class PipelineOrder : std::uint8_t { kOneForwardOneBackward, kGpipe, kZbH1, kZbV, kDualPipe };
enum class RecomputeKind : std::uint8_t { kNone, kSelective, kFull };

struct Recompute {
  RecomputeKind kind = RecomputeKind::kNone;
  bool is_uniform = true;   // of kFull: all layers, in groups; else the first layers of each stage
  std::int64_t layers = 1;  // of kFull: the layers of a group, or the layers that are recomputed
  // The modules of kSelective.
  bool core_attention = false;
  bool expert_activation = false;
  bool norms = false;
  bool latent_up_projection = false;
  bool mlp = false;
  bool experts = false;
  bool shared_experts = false;
};

// Modules whose inputs are moved to the host until their backward pass.
struct Offload {
  bool attention_norm = false;
  bool mlp_norm = false;
  bool query_product = false;
  bool core_attention = false;
  bool attention_output = false;
  bool expert_product = false;
  bool expert_activation = false;
};

// How products of weights are computed: as everything else is, or with factors in 8 bits, with a scale for each tensor
// (kFp8) or for 32 numbers (kMxfp8), or in 4 bits with one for 16 (kNvfp4).
enum class ProductRecipe : std::uint8_t { kWhole, kFp8, kMxfp8, kNvfp4 };

// Whose constants and habits they are.
enum class TrainingFramework : std::uint8_t { kMegatron, kNanotron, kTorchtitan };

struct TrainingSetup {
  TrainingFramework framework = TrainingFramework::kMegatron;
  NetworkShape network;
  std::vector<StageShape> stages;  // pp * vpp, in the order of the network
  std::int64_t most_stages = 0;    // that the framework makes of the network, if pp is more; 0: it makes pp

  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t vpp = 1;
  std::int64_t cp = 1;
  std::int64_t ep = 1;
  std::int64_t etp = 1;
  std::int64_t micro_batch = 1;
  std::int64_t micro_batches = 1;
  bool sequence_parallel = false;
  PipelineOrder order = PipelineOrder::kOneForwardOneBackward;
  std::int64_t schedule_group = 0;    // micro-batches that an interleaved schedule runs in each stage in turn; 0: pp
  bool pipeline_before_data = false;  // ranks of one pipeline are nearer to each other than those of data parallelism

  bool casts_products() const { return products != ProductRecipe::kWhole; }
  // The bytes of a number in a factor of a product of weights, with its part of the scales.
  double factor_bytes() const {
    switch (products) {
      case ProductRecipe::kFp8:
        return 1;
      case ProductRecipe::kMxfp8:
        return 1 + 1.0 / 32;
      case ProductRecipe::kNvfp4:
        return 0.5 + 1.0 / 16;
      case ProductRecipe::kWhole:
        break;
    }
    return static_cast<double>(number_bytes);
  }
  std::int64_t ranks() const { return dp * tp * pp * cp; }
  // Tokens of the fullest rank's experts in the worst micro-batch, relative to the average: 1 where a rank has all
  // experts, and the more, the more ranks share them. Fitted on Megatron-LM's tests.
  double expert_imbalance() const {
    if (pads_experts) return expert_capacity;
    const double imbalance = 1 + 0.3 * (1 - 1 / static_cast<double>(ep));
    return expert_capacity > 0 && expert_capacity < imbalance ? expert_capacity : imbalance;
  }

  // State.
  std::int64_t number_bytes = 2;  // of a weight and of an activation: bf16 and f16, or f32
  bool distributed_optimizer = false;
  std::int64_t optimizer_instances = 1;      // groups of ranks that each hold the whole state of the optimizer
  bool deals_parameters = false;             // whole ones to the ranks, in place of equal parts of each
  std::int64_t rank_of_stage = -1;           // whose memory it is, if the ranks differ; -1: the fullest one's
  bool shards_gradients = false;             // ZeRO 2: the ranks share gradients too
  bool shards_weights = false;               // ZeRO 3, FSDP: and weights, which they gather layer by layer
  std::int64_t gradient_bytes = 4;           // of a number in the buffer of gradients
  std::int64_t optimizer_bytes = 12;         // of a parameter: weights and moments in f32
  std::int64_t matrix_optimizer_bytes = 12;  // of a parameter that is a matrix, other than of embeddings
  double optimizer_on_device = 1;            // part of its state that the host does not hold
  bool keeps_f32_gradients = false;          // made by the optimizer's step, and kept until the next
  bool fp8_weights = false;

  // Kernels.
  bool transformer_engine = true;
  AttentionKernel attention = AttentionKernel::kAutomatic;
  bool fuses_softmax = true;  // of unfused attention without Transformer Engine; else it keeps f32 numbers
  CrossEntropyKind cross_entropy = CrossEntropyKind::kVocabularyParallel;
  bool hidden_dropout = true;
  bool attention_dropout = true;
  bool fuses_weight_gradients = true;
  bool fuses_activation = true;
  bool fuses_expert_weights = false;  // the router's weights with an activation that is not gated
  bool fuses_rope = true;
  bool has_attention_mask = true;  // made for each micro-batch
  bool has_teacher = false;        // another network of these sizes, whose logits the loss compares with
  ProductRecipe products = ProductRecipe::kWhole;
  bool overlaps_tensor_parallel = false;  // with buffers of Transformer Engine's own
  bool grouped_experts = false;
  // An expert takes no more tokens than this, relative to the average, and with padding exactly as many; 0: no limit.
  double expert_capacity = 0;
  bool pads_experts = false;
  ExpertDispatcher dispatcher = ExpertDispatcher::kAllGather;
  bool defers_embedding_gradients = false;
  std::int64_t deferred_micro_batches = 0;  // 0: all
  Recompute recompute;
  Offload offload;
  bool graphs_attention = false;  // runs it as CUDA graphs, which are captured before the first step
  LoraAdapters lora;
  std::int64_t inference_cache_bytes = 0;  // keys and values of a run that generates its own data

  // Device.
  bool is_deterministic = false;  // cuBLAS then has the workspaces that its documentation asks for
  std::int64_t compute_capability = 90;
  bool knows_device = true;  // else cuBLAS's workspaces are of a size between those of Hopper and of others
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_TRAINING_SETUP_H_
