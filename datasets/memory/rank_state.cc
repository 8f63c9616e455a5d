#include "datasets/memory/rank_state.h"

#include <algorithm>
#include <set>
#include <utility>

namespace emplace::datasets {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class ParameterList {
 public:
  explicit ParameterList(const TrainingSetup& setup) : setup_(setup), network_(setup.network) {}

  void AddEmbedding() {
    if (network_.modules) return AddModules(network_.modules->before, /*is_matrix=*/false);
    if (network_.image_tokens > 0) AddImages();
    Add(network_.vocabulary / setup_.tp * network_.hidden);
    if (network_.position_embeddings > 0) Add(network_.position_embeddings * network_.hidden);
    if (network_.is_bert) Add(2 * network_.hidden);  // of token types
  }

  // `has_embedding`: the rank holds the embedding too, whose weights a tied head shares.
  void AddLoss(bool has_embedding) {
    if (network_.modules) {
      AddModules(network_.modules->after, /*is_matrix=*/false);
      if (!has_embedding && network_.is_tied) Add(network_.modules->tied_elements);
      return;
    }
    if (network_.is_bert) {
      AddLinear(network_.hidden, network_.hidden, 1);
      AddNorm(network_.hidden);
      AddVector(network_.vocabulary / setup_.tp);
      if (network_.has_binary_head) {
        AddLinear(network_.hidden, network_.hidden, 1);
        AddLinear(network_.hidden, 2, 1);
      }
    }
    if (network_.encoder_layers > 0 && network_.image_tokens == 0) AddVector(network_.vocabulary / setup_.tp);
    if (!has_embedding || !network_.is_tied) Add(network_.vocabulary / setup_.tp * network_.hidden);
  }

  void AddNorm(std::int64_t width) {
    AddVector(width);
    if (!network_.is_rms_norm) AddVector(width);
  }

  void AddLayer(const LayerKind& layer) {
    if (layer.module >= 0) {
      return AddModules(network_.modules->layers[static_cast<std::size_t>(layer.module)], /*is_matrix=*/true);
    }
    if (layer.mixer == Mixer::kAttention) AddAttention(layer.cross_attention);
    if (layer.mixer == Mixer::kLatentAttention) AddLatentAttention();
    if (layer.mixer == Mixer::kMamba) AddMamba();
    if (layer.feed_forward == FeedForwardKind::kDense) {
      AddNorm(network_.hidden);
      AddFeedForward(network_.d_ff, setup_.tp, /*is_expert=*/false, network_.hidden);
    }
    if (layer.feed_forward == FeedForwardKind::kExperts) AddExperts();
  }

  void AddPrediction(const LayerKind& layer) {
    const std::size_t count = network_.shares_prediction_layer ? 1 : network_.prediction_layers;
    for (std::size_t i = 0; i < count; ++i) {
      AddNorm(network_.hidden);
      AddNorm(network_.hidden);
      Add(2 * network_.hidden * network_.hidden / setup_.tp, false, true);
      AddLayer(layer);
      AddNorm(network_.hidden);
    }
  }

  std::vector<RankParameter> Take() { return std::move(parameters_); }

 private:
  void Add(std::int64_t elements, bool is_expert = false, bool is_matrix = false) {
    parameters_.push_back(
        {.elements = elements, .is_expert = is_expert, .is_matrix = is_matrix, .is_frozen = network_.is_frozen});
  }
  // Patches, a class token, positions and a norm in front of the encoder's layers, or another network; then the MLP.
  void AddImages() {
    if (network_.patch_elements > 0) {
      Add(network_.patch_elements * network_.hidden);
      AddVector(network_.hidden);
      Add(network_.image_tokens * network_.hidden);
      AddNorm(network_.hidden);
    }
    if (network_.frozen_encoder_elements > 0) Add(network_.frozen_encoder_elements);
    const std::size_t first = parameters_.size();
    Add(network_.image_width * network_.image_hidden / setup_.tp, false, true);
    Add(network_.image_hidden * network_.hidden / setup_.tp, false, true);
    AddVector(network_.image_hidden / setup_.tp);
    AddVector(network_.hidden);
    for (std::size_t i = first; i < parameters_.size(); ++i) parameters_[i].is_frozen = false;
  }
  void AddModules(const ModulePiece& piece, bool is_matrix) {
    for (const ModuleWeight& weight : piece.weights) {
      Add(weight.is_divided ? weight.elements / setup_.tp : weight.elements, false, is_matrix);
    }
  }
  void AddVector(std::int64_t elements) { Add(elements); }
  // From `in` to `out` numbers, one of which tensor parallelism divides.
  void AddLinear(std::int64_t in, std::int64_t out, std::int64_t parts, bool divides_bias = true) {
    Add(in * out / parts, false, true);
    if (network_.has_bias) AddVector(divides_bias ? out / parts : out);
  }

  void AddAttention(bool has_cross_attention) {
    const std::int64_t queries = network_.heads * network_.head_dim;
    const std::int64_t keys = std::max(network_.query_groups, setup_.tp) * network_.head_dim;
    AddNorm(network_.hidden);
    AddLinear(network_.hidden, queries + 2 * keys, setup_.tp);
    if (network_.norms_queries) {
      AddNorm(network_.head_dim);
      AddNorm(network_.head_dim);
    }
    AddLinear(queries, network_.hidden, setup_.tp, /*divides_bias=*/false);
    if (!has_cross_attention) return;
    AddNorm(network_.hidden);
    AddLinear(network_.hidden, queries, setup_.tp);
    AddLinear(network_.hidden, 2 * keys, setup_.tp);
    AddLinear(queries, network_.hidden, setup_.tp, /*divides_bias=*/false);
  }

  void AddLatentAttention() {
    const std::int64_t query = network_.nope_dim + network_.rope_dim;
    AddNorm(network_.hidden);
    if (network_.query_rank > 0) {
      Add(network_.hidden * network_.query_rank, false, true);
      if (network_.norms_queries) AddNorm(network_.query_rank);
      Add(network_.query_rank * network_.heads * query / setup_.tp, false, true);
    } else {
      Add(network_.hidden * network_.heads * query / setup_.tp, false, true);
    }
    Add(network_.hidden * (network_.key_rank + network_.rope_dim), false, true);
    if (network_.norms_queries) AddNorm(network_.key_rank);
    Add(network_.key_rank * network_.heads * (network_.nope_dim + network_.value_dim) / setup_.tp, false, true);
    AddLinear(network_.heads * network_.value_dim, network_.hidden, setup_.tp, /*divides_bias=*/false);
  }

  void AddMamba() {
    const std::int64_t inner = network_.mamba_heads * network_.mamba_head_dim;
    const std::int64_t states = 2 * network_.mamba_groups * network_.mamba_state;
    AddNorm(network_.hidden);
    Add(network_.hidden * (2 * inner + states + network_.mamba_heads) / setup_.tp, false, true);
    Add((inner + states) / setup_.tp * 4, false, true);  // of the convolution
    AddVector((inner + states) / setup_.tp);
    for (int i = 0; i < 3; ++i) AddVector(network_.mamba_heads / setup_.tp);
    AddVector(inner / setup_.tp);
    Add(inner * network_.hidden / setup_.tp, false, true);
  }

  void AddFeedForward(std::int64_t width, std::int64_t parts, bool is_expert, std::int64_t hidden) {
    Add(hidden * width * (network_.gated() ? 2 : 1) / parts, is_expert, true);
    if (network_.has_bias) Add(width * (network_.gated() ? 2 : 1) / parts, is_expert);
    Add(width * hidden / parts, is_expert, true);
    if (network_.has_bias) Add(hidden, is_expert);
  }

  void AddExperts() {
    AddNorm(network_.hidden);
    Add(network_.experts * network_.hidden, false, true);  // of the router
    const std::int64_t width = network_.expert_latent > 0 ? network_.expert_latent : network_.hidden;
    for (std::int64_t i = 0; i < network_.experts / setup_.ep; ++i) {
      AddFeedForward(network_.d_expert, setup_.etp, /*is_expert=*/true, width);
    }
    if (network_.expert_latent > 0) {
      AddLinear(network_.hidden, width, 1);
      AddLinear(width, network_.hidden, 1);
    }
    if (network_.d_shared_expert > 0) AddFeedForward(network_.d_shared_expert, setup_.tp, false, network_.hidden);
  }

  const TrainingSetup& setup_;
  const NetworkShape& network_;
  std::vector<RankParameter> parameters_;
};

// Ranks that hold the same part of the parameters of layers, or of experts.
std::int64_t Replicas(const TrainingSetup& setup, bool is_expert) {
  const std::int64_t ranks = setup.dp * setup.cp;
  return is_expert ? std::max<std::int64_t>(1, ranks * setup.tp / (setup.ep * setup.etp)) : ranks;
}

// What a rank holds of the optimizer's state of a parameter.
std::int64_t ShardOf(const TrainingSetup& setup, const RankParameter& parameter) {
  if (!setup.distributed_optimizer) return parameter.elements;
  const std::int64_t shards =
      std::max<std::int64_t>(1, Replicas(setup, parameter.is_expert) / setup.optimizer_instances);
  return (parameter.elements + shards - 1) / shards;
}

// Bytes of the optimizer's state of a parameter, per element: weights in f32 and moments.
std::int64_t OptimizerBytes(const TrainingSetup& setup, const RankParameter& parameter) {
  return parameter.is_matrix ? setup.matrix_optimizer_bytes : setup.optimizer_bytes;
}

// Elements of each parameter whose optimizer's state a rank holds.
std::vector<std::int64_t> Shards(const TrainingSetup& setup, const std::vector<RankParameter>& parameters) {
  std::vector<std::int64_t> shards;
  for (const RankParameter& parameter : parameters) shards.push_back(ShardOf(setup, parameter));
  if (!setup.deals_parameters) return shards;
  // Megatron-LM's LayerWiseDistributedOptimizer: from the smallest parameter to the largest, they go to the first rank,
  // the second and so on, and back from the last.
  for (const bool is_expert : {false, true}) {
    std::vector<std::size_t> dealt;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].is_expert == is_expert) dealt.push_back(i);
    }
    std::ranges::stable_sort(dealt, {}, [&](std::size_t i) { return parameters[i].elements; });
    const auto ranks = static_cast<std::size_t>(Replicas(setup, is_expert));
    const auto owner = [&](std::size_t turn) {
      return std::min(turn % (2 * ranks), 2 * ranks - 1 - turn % (2 * ranks));
    };
    std::vector<std::int64_t> bytes(ranks);
    for (std::size_t turn = 0; turn < dealt.size(); ++turn) {
      const RankParameter& parameter = parameters[dealt[turn]];
      bytes[owner(turn)] += parameter.elements * OptimizerBytes(setup, parameter);
    }
    auto rank = static_cast<std::size_t>(std::ranges::max_element(bytes) - bytes.begin());
    if (setup.rank_of_stage >= 0) {
      const std::int64_t inner = is_expert ? setup.etp * setup.ep : setup.tp;
      rank = static_cast<std::size_t>(setup.rank_of_stage / inner) % ranks;
    }
    for (std::size_t turn = 0; turn < dealt.size(); ++turn) {
      shards[dealt[turn]] = owner(turn) == rank ? parameters[dealt[turn]].elements : 0;
    }
  }
  return shards;
}

void AllocateOptimizer(const TrainingSetup& setup, const std::vector<RankParameter>& parameters, RankProgram* program) {
  const std::vector<std::int64_t> shards = Shards(setup, parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].is_frozen) continue;
    const auto elements = static_cast<std::int64_t>(static_cast<double>(shards[i]) * setup.optimizer_on_device);
    const std::int64_t bytes = OptimizerBytes(setup, parameters[i]);
    program->Allocate("weights in f32", setup.number_bytes < 4 ? 4 * elements : 0, MemoryClass::kOptimizer);
    for (std::int64_t left = bytes - 4; left > 0; left -= 4) {
      program->Allocate("moments of the optimizer", std::min<std::int64_t>(left, 4) * elements,
                        MemoryClass::kOptimizer);
    }
  }
}

}  // namespace

std::vector<std::size_t> StagesOf(const TrainingSetup& setup, std::size_t pipeline_rank) {
  std::vector<std::size_t> stages;
  if (setup.order == PipelineOrder::kZbV || setup.order == PipelineOrder::kDualPipe) {
    const std::size_t back = setup.stages.size() - 1 - pipeline_rank;
    return {std::min(pipeline_rank, back), std::max(pipeline_rank, back)};
  }
  for (std::size_t stage = pipeline_rank; stage < setup.stages.size(); stage += static_cast<std::size_t>(setup.pp)) {
    stages.push_back(stage);
  }
  return stages;
}

std::size_t PipelineRankOf(const TrainingSetup& setup, std::size_t stage) {
  const auto ranks = static_cast<std::size_t>(setup.pp);
  const bool is_back = setup.order == PipelineOrder::kZbV && stage >= ranks;
  return is_back ? 2 * ranks - 1 - stage : stage % ranks;
}

std::vector<RankParameter> ParametersOf(const TrainingSetup& setup, std::size_t pipeline_rank) {
  const NetworkShape& network = setup.network;
  ParameterList list(setup);
  bool has_embedding = false;
  for (const std::size_t i : StagesOf(setup, pipeline_rank)) {
    const StageShape& stage = setup.stages[i];
    if (stage.has_embedding) list.AddEmbedding();
    has_embedding = has_embedding || stage.has_embedding;
    for (const std::size_t layer : stage.layers) list.AddLayer(network.layers[layer]);
    if (stage.has_prediction && !network.layers.empty()) {
      if (!has_embedding) list.AddEmbedding();
      has_embedding = true;
      list.AddPrediction(network.layers.back());
    }
    if (!stage.has_loss) continue;
    if (!network.modules) list.AddNorm(network.hidden);
    if (network.encoder_layers > 0 && network.image_tokens == 0) list.AddNorm(network.hidden);
    list.AddLoss(has_embedding);
  }
  return list.Take();
}

GatheredUnits GatheredUnitsOf(const TrainingSetup& setup, std::size_t pipeline_rank) {
  GatheredUnits units;
  if (!setup.shards_weights) return units;
  std::int64_t all = 0;
  for (const RankParameter& parameter : ParametersOf(setup, pipeline_rank)) {
    all += parameter.elements;
    if (parameter.elements >= setup.network.vocabulary / setup.tp * setup.network.hidden && !parameter.is_matrix) {
      units.root_bytes += setup.number_bytes * parameter.elements;
    }
  }
  std::int64_t layers = 0;
  for (const std::size_t stage : StagesOf(setup, pipeline_rank)) {
    layers += static_cast<std::int64_t>(setup.stages[stage].layers.size());
  }
  if (layers > 0) units.layer_bytes = (setup.number_bytes * all - units.root_bytes) / layers;
  return units;
}

void RunOptimizer(const TrainingSetup& setup, std::size_t pipeline_rank, RankProgram* program) {
  if (!setup.keeps_f32_gradients) return;
  for (const RankParameter& parameter : ParametersOf(setup, pipeline_rank)) {
    program->Allocate("gradients in f32", 4 * ShardOf(setup, parameter), MemoryClass::kOptimizer);
  }
}

void AllocateState(const TrainingSetup& setup, std::size_t pipeline_rank, RankProgram* program) {
  const std::vector<RankParameter> parameters = ParametersOf(setup, pipeline_rank);
  const bool has_buffer = setup.distributed_optimizer;
  for (const bool is_expert : {false, true}) {
    std::int64_t weights = 0;
    std::int64_t gradients = 0;
    for (const RankParameter& parameter : parameters) {
      if (parameter.is_expert != is_expert) continue;
      weights += setup.shards_weights ? ShardOf(setup, parameter) : parameter.elements;
      if (!parameter.is_frozen) gradients += setup.shards_gradients ? ShardOf(setup, parameter) : parameter.elements;
      if (!has_buffer) program->Allocate("weights", setup.number_bytes * parameter.elements, MemoryClass::kWeights);
    }
    if (has_buffer) program->Allocate("weights", setup.number_bytes * weights, MemoryClass::kWeights);
    program->Allocate("buffer of gradients", setup.gradient_bytes * gradients, MemoryClass::kGradients);
  }
  AllocateOptimizer(setup, parameters, program);
  if (setup.has_teacher) {
    for (const RankParameter& parameter : parameters) {
      program->Allocate("weights of the teacher", setup.number_bytes * parameter.elements, MemoryClass::kWeights);
    }
  }

  // cuBLAS's workspaces of Transformer Engine, and of PyTorch for the threads of forward and backward.
  const std::int64_t engine_workspace = (setup.compute_capability >= 90 ? 32 : 4) * kMiB;
  if (setup.transformer_engine) {
    for (int i = 0; i < (setup.grouped_experts ? 5 : 1); ++i) {
      program->Allocate("workspaces of Transformer Engine", engine_workspace, MemoryClass::kTemporary);
    }
  }
  // Gradients that are added to the buffer at once still need a tensor that autograd passes on: one of each shape.
  if (setup.transformer_engine && setup.fuses_weight_gradients) {
    std::set<std::int64_t> sizes;
    for (const RankParameter& parameter : parameters) {
      if (parameter.is_matrix && !parameter.is_frozen) sizes.insert(parameter.elements);
    }
    for (const std::int64_t elements : sizes) {
      program->Allocate("stand-ins for gradients of weights", setup.number_bytes * elements, MemoryClass::kTemporary);
    }
  }
  // Weights in bf16 are cast once a step. GPUs before Blackwell need them transposed too, and scales of blocks belong
  // to rows or to columns.
  if (setup.casts_products() && !setup.fp8_weights) {
    std::int64_t elements = 0;
    for (const RankParameter& parameter : parameters) elements += parameter.is_matrix ? parameter.elements : 0;
    const double copies = setup.products == ProductRecipe::kFp8 && setup.compute_capability >= 100 ? 1 : 2;
    program->Allocate("weights in 8 or 4 bits",
                      static_cast<std::int64_t>(copies * setup.factor_bytes() * static_cast<double>(elements)),
                      MemoryClass::kWeights);
  }
  if (setup.overlaps_tensor_parallel) {
    // Three workspaces in place of one, and a buffer for each product of a layer that is overlapped, both ways.
    program->Allocate("workspaces of Transformer Engine", 2 * engine_workspace, MemoryClass::kTemporary);
    for (int i = 0; i < 8; ++i) {
      program->Allocate(
          "buffers of overlapped tensor parallelism",
          setup.number_bytes * setup.micro_batch * (setup.network.sequence / setup.cp) * setup.network.hidden,
          MemoryClass::kCommunication);
    }
  }
  bool has_products = !setup.transformer_engine || setup.attention == AttentionKernel::kUnfused;
  for (const std::size_t i : StagesOf(setup, pipeline_rank)) {
    has_products = has_products || setup.stages[i].has_loss;
    for (const std::size_t layer : setup.stages[i].layers) {
      has_products = has_products || setup.network.layers[layer].feed_forward == FeedForwardKind::kExperts;
    }
  }
  // PyTorch's default: 32 MiB on Hopper, and 8 MiB and 128 KiB on others; the mean of both where the device is not
  // known.
  constexpr std::int64_t kUsualWorkspace = 8 * kMiB + kMiB / 8;
  constexpr std::int64_t kLargeWorkspace = 32 * kMiB;
  std::int64_t workspace = setup.compute_capability == 90 ? kLargeWorkspace : kUsualWorkspace;
  if (!setup.knows_device) workspace = (kUsualWorkspace + kLargeWorkspace) / 2;
  if (setup.is_deterministic) workspace = kLargeWorkspace;
  for (int i = 0; has_products && i < 2; ++i) {
    program->Allocate("workspaces of cuBLAS", workspace, MemoryClass::kTemporary);
  }

  if (setup.network.is_bert && setup.stages[StagesOf(setup, pipeline_rank).back()].has_loss) {
    // BERT's head is torch.nn.Linear with a bias, which PyTorch gives to cuBLASLt, with a workspace apart.
    program->Allocate("workspaces of cuBLAS", (setup.compute_capability >= 90 ? 32 : 1) * kMiB,
                      MemoryClass::kTemporary);
  }

  if (setup.dispatcher == ExpertDispatcher::kFlex && setup.network.experts > 0) {
    // Buffers that every rank of expert parallelism can write to, of tokens that leave and that come back.
    const std::int64_t tokens =
        setup.micro_batch * (setup.network.sequence / setup.cp) / (setup.sequence_parallel ? setup.tp : 1);
    const std::int64_t width = setup.network.expert_latent > 0 ? setup.network.expert_latent : setup.network.hidden;
    for (int i = 0; i < 2; ++i) {
      program->Allocate("buffers of expert parallelism", setup.number_bytes * tokens * setup.ep * width,
                        MemoryClass::kCommunication);
    }
  }

  // Megatron-LM's own buffer, which its attention and its gathers of rows share.
  const std::int64_t sequence = setup.network.sequence / setup.cp;
  std::int64_t shared = 0;
  if (!setup.transformer_engine) {
    const std::int64_t longest = std::max(sequence, setup.network.encoder_sequence / setup.cp);
    shared = setup.number_bytes * setup.micro_batch * setup.network.heads / setup.tp * longest * longest;
  }
  if (setup.sequence_parallel) {
    shared = std::max(shared, setup.number_bytes * setup.micro_batch * sequence * setup.network.hidden);
  }
  program->Allocate("shared buffer of attention and gathers", shared, MemoryClass::kTemporary);

  program->Allocate("keys and values of inference", setup.inference_cache_bytes, MemoryClass::kTemporary);

  // Messages between stages that the last step has left.
  if (setup.pp > 1) {
    const std::int64_t rows = setup.micro_batch * sequence / (setup.sequence_parallel ? setup.tp : 1);
    for (std::int64_t i = 0; i < 2 * setup.vpp; ++i) {
      program->Allocate("messages between stages", setup.number_bytes * rows * setup.network.hidden,
                        MemoryClass::kCommunication);
    }
  }
}

}  // namespace emplace::datasets
