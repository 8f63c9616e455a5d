#include "datasets/memory/transformer_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "datasets/memory/nanotron_memory.h"
#include "datasets/memory/training_memory.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

LayerKind KindOf(const TransformerNetwork& network, std::int64_t layer) {
  const LayerParts parts = network.PartsOf(layer);
  const Mixer attention = network.latent ? Mixer::kLatentAttention : Mixer::kAttention;
  return {.mixer = parts.mamba       ? Mixer::kMamba
                   : parts.attention ? attention
                                     : Mixer::kNone,
          .feed_forward = parts.experts ? FeedForwardKind::kExperts
                          : parts.mlp   ? FeedForwardKind::kDense
                                        : FeedForwardKind::kNone,
          .cross_attention = network.encoder_layers > 0,
          .window = parts.attention ? network.WindowOf(layer) : 0};
}

NetworkShape ShapeOf(const TransformerNetwork& network, std::int64_t sequence) {
  NetworkShape shape;
  shape.hidden = network.d_model;
  shape.heads = network.heads;
  shape.query_groups = network.kv_heads;
  shape.head_dim = network.head_width;
  shape.d_ff = network.d_ff;
  shape.vocabulary = network.vocabulary;
  shape.sequence = sequence;
  shape.encoder_sequence = network.encoder_layers > 0 ? sequence : 0;
  shape.position_embeddings = network.positions == PositionKind::kLearned ? network.max_positions : 0;
  shape.activation = network.gated                                        ? MlpActivation::kSwiglu
                     : network.activation == ActivationKind::kSquaredRelu ? MlpActivation::kSquaredRelu
                                                                          : MlpActivation::kGelu;
  shape.has_bias = network.mlp_bias;
  shape.is_rms_norm = network.norm == NormKind::kRms;
  shape.norms_queries = network.qk_norm || network.latent.has_value();
  shape.has_rope = network.positions == PositionKind::kRotary;
  shape.is_tied = network.tied;
  shape.experts = network.experts.count;
  shape.top_k = network.experts.top_k;
  shape.load_imbalance = network.experts.load_imbalance;
  shape.d_expert = network.experts.d_expert;
  shape.d_shared_expert = network.experts.shared > 0 ? network.experts.d_shared : 0;
  shape.expert_latent = network.experts.latent;
  if (const auto& mamba = network.mamba) {
    shape.mamba_heads = mamba->heads;
    shape.mamba_head_dim = mamba->head_width;
    shape.mamba_groups = mamba->groups;
    shape.mamba_state = mamba->state;
    shape.mamba_kernel = mamba->kernel;
    shape.mamba_chunk = mamba->chunk;
    shape.mamba_conv_bias = mamba->conv_bias;
  }
  if (network.latent) {
    shape.query_rank = network.latent->q_rank;
    shape.key_rank = network.latent->kv_rank;
    shape.nope_dim = network.latent->nope_width;
    shape.rope_dim = network.latent->rope_width;
    shape.value_dim = network.latent->value_width;
  }
  shape.encoder_layers = static_cast<std::size_t>(network.encoder_layers);
  shape.prediction_layers = static_cast<std::size_t>(network.mtp_layers);
  shape.layers.assign(shape.encoder_layers, {});
  shape.shares_prediction_layer = network.mtp_shared;
  for (std::int64_t i = 0; i < network.layers; ++i) shape.layers.push_back(KindOf(network, i));
  if (!network.mtp_pattern.empty()) {
    for (std::int64_t i = 0; i < network.layers_of_mtp(); ++i) {
      shape.prediction.push_back(KindOf(network, network.layers + i));
    }
  }
  return shape;
}

// The layer that a number or a module's path names, as of "model.layers.3.mlp"; none if it is no layer's.
std::optional<std::int64_t> LayerNumber(const JsonValue& part) {
  if (const auto* const number = part.As<std::int64_t>()) return *number;
  const auto* const path = part.As<std::string>();
  if (path == nullptr) return std::nullopt;
  for (std::size_t i = 0; i + 1 < path->size(); ++i) {
    if ((*path)[i] != '.') continue;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(path->data() + i + 1, path->data() + path->size(), number);
    if (error == std::errc() && (end == path->data() + path->size() || *end == '.')) return number;
  }
  return std::nullopt;
}

void CheckEachLayerOnce(const std::vector<StageShape>& stages, std::size_t layers) {
  std::vector<std::size_t> times(layers);
  for (const StageShape& stage : stages) {
    for (const std::size_t layer : stage.layers) ++times[layer];
  }
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (times[layer] == 1) continue;
    throw InputError("stages", fmt::format("hold layer {} {} (each of the {} layers once)", layer,
                                           times[layer] == 0 ? "nowhere" : "more than once", layers));
  }
}

std::vector<StageShape> StagesOf(const ParallelPlan& plan, std::size_t layers) {
  const auto count = static_cast<std::size_t>(plan.pp * plan.vpp);
  std::vector<StageShape> stages(count);
  if (plan.stages.empty()) {
    // The first stage has the embedding, and the last one the loss: they may have no layers.
    if (layers + 2 < count || (count < 3 && layers < count)) {
      throw InputError("pp", fmt::format("times vpp is {} (at most the {} layers of the network, the embedding and the "
                                         "loss)",
                                         count, layers));
    }
    // The stages in the middle take one layer more where the layers cannot be divided.
    std::size_t layer = 0;
    const std::size_t more = layers % count;
    const std::size_t first_with_more = (count - more) / 2;
    for (std::size_t i = 0; i < count; ++i) {
      const bool has_more = i >= first_with_more && i < first_with_more + more;
      for (std::size_t n = 0; n < layers / count + (has_more ? 1 : 0); ++n) stages[i].layers.push_back(layer++);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < plan.stages[i].size(); ++j) {
        const std::optional<std::int64_t> layer = LayerNumber(plan.stages[i][j]);
        if (!layer) continue;
        if (*layer < 0 || *layer >= static_cast<std::int64_t>(layers)) {
          throw InputError(fmt::format("stages[{}][{}]", i, j), fmt::format("is {} (the number of a layer, 0 to {})",
                                                                            JsonText(plan.stages[i][j]), layers - 1));
        }
        const auto number = static_cast<std::size_t>(*layer);
        // Several paths can be of one layer.
        const bool is_path = plan.stages[i][j].As<std::string>() != nullptr;
        if (!is_path || stages[i].layers.empty() || stages[i].layers.back() != number) {
          stages[i].layers.push_back(number);
        }
      }
    }
  }
  CheckEachLayerOnce(stages, layers);
  stages.front().has_embedding = true;
  stages.back().has_loss = true;
  return stages;
}

PipelineOrder OrderOf(const ParallelPlan& plan) {
  if (plan.pp == 1 || plan.schedule == "1f1b" || plan.schedule.starts_with("interleaved")) {
    return PipelineOrder::kOneForwardOneBackward;
  }
  if (plan.schedule == "gpipe") return PipelineOrder::kGpipe;
  if (plan.schedule == "zb-h1") return PipelineOrder::kZbH1;
  if (plan.schedule == "zb-v") return PipelineOrder::kZbV;
  if (plan.schedule == kDualPipe) return PipelineOrder::kDualPipe;
  throw InputError("schedule", fmt::format("is {} (1f1b, interleaved, gpipe, zb-h1, zb-v or dualpipe)", plan.schedule));
}

void CheckDegrees(const TransformerNetwork& network, const ParallelPlan& plan, std::int64_t sequence) {
  CheckDegreeDivides("tp", plan.tp, "heads", network.heads);
  CheckDegreeDivides("tp", plan.tp, "d_ff", network.d_ff);
  CheckDegreeDivides("cp", plan.cp, "the sequence", sequence);
  if (const auto& mamba = network.mamba) {
    CheckDegreeDivides("tp", plan.tp, "groups of mamba", mamba->groups);
    // Each rank of context parallelism runs the convolution and the scan over all tokens, with a part of the heads.
    CheckDegreeDivides("cp", plan.tp * plan.cp, "heads of mamba over tp", mamba->heads);
  }
  if (plan.cp > 1 && network.encoder_layers > 0) {
    throw InputError("cp", fmt::format("is {} (1: the network has an encoder)", plan.cp));
  }
  if (plan.sequence_parallel) CheckDegreeDivides("tp", plan.tp, "the sequence of a rank", sequence / plan.cp);
  if (network.positions == PositionKind::kLearned && network.max_positions > 0 && sequence > network.max_positions) {
    throw InputError("sequence",
                     fmt::format("is {} (at most the {} positions of the network)", sequence, network.max_positions));
  }
  const PipelineOrder order = OrderOf(plan);
  const std::int64_t stages_of_rank = order == PipelineOrder::kZbV ? 2 : 1;
  if (order != PipelineOrder::kOneForwardOneBackward && plan.vpp != stages_of_rank) {
    throw InputError("vpp", fmt::format("is {} ({} with {})", plan.vpp, stages_of_rank, plan.schedule));
  }
  if (order == PipelineOrder::kDualPipe) {
    // Half of the micro-batches begin at each end, and a rank has one stage from each end.
    if (plan.pp % 2 != 0) throw InputError("pp", fmt::format("is {} (an even number with dualpipe)", plan.pp));
    if (plan.grad_accumulation % 2 != 0 || plan.grad_accumulation < 2 * plan.pp) {
      throw InputError("grad_accumulation", fmt::format("is {} (an even number of at least 2 pp, which is {}, with "
                                                        "dualpipe)",
                                                        plan.grad_accumulation, 2 * plan.pp));
    }
  }
  if (plan.ep > 1 && network.experts.count == 0) {
    throw InputError("ep", fmt::format("is {}, but the network has no experts (1)", plan.ep));
  }
  if (network.experts.count > 0) {
    CheckDegreeDivides("ep", plan.ep, "the experts", network.experts.count);
    CheckDegreeDivides("etp", plan.etp, "d_expert", network.experts.d_expert);
    CheckDegreeDivides("ep", plan.ep * plan.etp, "dp times cp times tp", plan.dp * plan.cp * plan.tp);
  }
}

void CheckFramework(const TransformerNetwork& network, const ParallelPlan& plan, TrainingFramework framework) {
  if (framework == TrainingFramework::kMegatron) return;
  const bool is_nanotron = framework == TrainingFramework::kNanotron;
  const std::string_view name = is_nanotron ? "nanotron" : "torchtitan";
  if (plan.lora > 0) throw InputError("lora", fmt::format("is {}, which is not modelled for {}", plan.lora, name));
  if (!IsLlama(network)) {
    throw InputError("--framework", fmt::format("is {}, of which Llamas are modelled; {} is none", name, network.name));
  }
  const auto refuse = [&](bool is_wrong, std::string_view field, std::int64_t value, std::string_view allowed) {
    if (is_wrong) throw InputError(std::string(field), fmt::format("is {} ({} with {})", value, allowed, name));
  };
  const auto* const recompute = plan.recompute.As<std::string>();
  if (recompute == nullptr || (is_nanotron && *recompute == "selective")) {
    throw InputError("recompute", fmt::format("is {} ({} or full with {})", JsonText(plan.recompute),
                                              is_nanotron ? "none" : "none, selective", name));
  }
  refuse(!is_nanotron && plan.zero == 1, "zero", plan.zero, "0, 2 or 3");
  if (!is_nanotron) return;
  refuse(plan.vpp > 1, "vpp", plan.vpp, "1");
  refuse(plan.cp > 1, "cp", plan.cp, "1");
  refuse(plan.zero > 1, "zero", plan.zero, "0 or 1");
  refuse(plan.dp_replicate > 1, "dp_replicate", plan.dp_replicate, "1");
}

// Layers below the first adapter, and what is below it in its layer, need no gradients of their inputs.
void MarkFrozenLayers(const LoraAdapters& lora, NetworkShape* network) {
  for (LayerKind& layer : network->layers) {
    layer.passes_gradient = false;
    const bool has_attention = layer.mixer == Mixer::kAttention && lora.Has(AdaptedProduct::kQueriesKeysValues);
    const bool has_output = (layer.mixer == Mixer::kAttention || layer.mixer == Mixer::kLatentAttention) &&
                            lora.Has(AdaptedProduct::kAttentionOutput);
    const bool has_mlp = layer.feed_forward != FeedForwardKind::kNone &&
                         (lora.Has(AdaptedProduct::kFirstOfMlp) || lora.Has(AdaptedProduct::kSecondOfMlp));
    if (has_attention || has_output || has_mlp) return;
  }
  throw InputError("lora_targets", "has no module of the network");
}

}  // namespace

LoraAdapters LoraOf(const TransformerNetwork& network, std::int64_t rank, const std::string& targets, bool is_joined,
                    const std::string& prefix) {
  const std::string place = prefix + (prefix == "--" ? "lora-targets" : "lora_targets");
  if (rank == 0) {
    if (targets.empty()) return {};
    throw InputError(place, fmt::format("needs a rank ({}lora)", prefix));
  }
  LoraAdapters lora = ReadLora(rank, targets, is_joined, network.gated, place);
  if (network.encoder_layers > 0) {
    throw InputError(prefix + "lora", fmt::format("does not go with {}, which has an encoder", network.name));
  }
  if (network.mamba || network.experts.latent > 0) {
    throw InputError(prefix + "lora", fmt::format("does not go with {}, which has {}", network.name,
                                                  network.mamba ? "layers of Mamba" : "latent experts"));
  }
  if (network.latent && lora.Has(AdaptedProduct::kQueriesKeysValues)) {
    throw InputError(place, fmt::format("has queries, keys or values, which {} compresses: adapters of latent "
                                        "attention are not modelled (o_proj, gate_proj, up_proj, down_proj)",
                                        network.name));
  }
  return lora;
}

bool IsLlama(const TransformerNetwork& network) {
  return network.gated && network.norm == NormKind::kRms && network.positions == PositionKind::kRotary &&
         network.encoder_layers == 0 && network.pattern.empty() && !network.latent && network.experts.count == 0 &&
         network.mtp_layers == 0 && !network.qk_norm;
}

TrainingSetup MakeTrainingSetup(const TransformerNetwork& network, const ParallelPlan& plan, std::int64_t sequence,
                                TrainingFramework framework) {
  CheckDegrees(network, plan, sequence);
  const bool is_nanotron = framework == TrainingFramework::kNanotron;
  CheckFramework(network, plan, framework);
  TrainingSetup setup;
  setup.framework = framework;
  setup.network = ShapeOf(network, sequence);
  const std::int64_t padding = framework == TrainingFramework::kMegatron ? 128 * plan.tp : plan.tp;
  setup.network.vocabulary = (network.vocabulary + padding - 1) / padding * padding;
  if (is_nanotron && plan.stages.empty()) {
    setup.stages = NanotronStages(setup.network, plan.pp);
    if (setup.stages.size() < static_cast<std::size_t>(plan.pp)) {
      setup.pp = plan.pp;
      setup.most_stages = static_cast<std::int64_t>(setup.stages.size());
      if (plan.pp > network.layers) throw InputError("", WhyRefused(setup));
      setup.stages = StagesOf(plan, setup.network.layers.size());
    }
  } else {
    setup.stages = StagesOf(plan, setup.network.layers.size());
  }
  setup.stages.back().has_prediction = network.mtp_layers > 0;
  setup.dp = plan.dp;
  setup.tp = plan.tp;
  setup.pp = plan.pp;
  setup.vpp = plan.vpp;
  setup.cp = plan.cp;
  setup.ep = plan.ep;
  setup.etp = plan.etp;
  setup.order = OrderOf(plan);
  setup.micro_batch = plan.micro_batch;
  setup.micro_batches = plan.grad_accumulation;
  setup.sequence_parallel = plan.sequence_parallel && plan.tp > 1;
  const auto recipe = std::ranges::find(kProductRecipes, plan.precision);
  setup.products = static_cast<ProductRecipe>(recipe - kProductRecipes.begin());
  if (plan.lora > 0) {
    setup.lora = LoraOf(network, plan.lora, plan.lora_targets, framework == TrainingFramework::kMegatron, "");
    MarkFrozenLayers(setup.lora, &setup.network);
  }
  const auto place = [&](std::string_view degree) { return std::ranges::find(plan.rank_order, degree); };
  setup.pipeline_before_data = place("pp") < place("dp");
  setup.distributed_optimizer = plan.zero > 0;
  setup.optimizer_instances = plan.dp_replicate;
  setup.shards_gradients = plan.zero >= 2;
  setup.shards_weights = plan.zero == 3;
  setup.hidden_dropout = false;
  setup.attention_dropout = false;
  setup.has_attention_mask = false;
  setup.grouped_experts = network.experts.count > 0;
  setup.dispatcher = ExpertDispatcher::kAllToAll;
  setup.fuses_expert_weights = network.activation == ActivationKind::kSquaredRelu;  // as in NVIDIA's recipes
  if (const auto* const text = plan.recompute.As<std::string>()) {
    if (*text == "full") setup.recompute.kind = RecomputeKind::kFull;
    if (*text == "selective") {
      setup.recompute.kind = RecomputeKind::kSelective;
      setup.recompute.core_attention = true;
    }
  } else if (const auto* const count = plan.recompute.As<std::int64_t>(); count != nullptr && *count > 0) {
    setup.recompute = {.kind = RecomputeKind::kFull, .is_uniform = false, .layers = *count};
  }
  CheckSetup(setup);
  return setup;
}

}  // namespace emplace::datasets
