#include "datasets/planner/plan_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

// All parts of a plan, as --only takes them.
OptionMap PartsOf(const ParallelPlan& plan) {
  return {{"dp", fmt::format("{}", plan.dp)},
          {"tp", fmt::format("{}", plan.tp)},
          {"pp", fmt::format("{}", plan.pp)},
          {"vpp", fmt::format("{}", plan.vpp)},
          {"cp", fmt::format("{}", plan.cp)},
          {"ep", fmt::format("{}", plan.ep)},
          {"etp", fmt::format("{}", plan.etp)},
          {"zero", fmt::format("{}", plan.zero)},
          {"micro_batch", fmt::format("{}", plan.micro_batch)},
          {"recompute", plan.recompute_text()},
          {"precision", plan.precision}};
}

// Parts that change together, as the others follow from them.
const std::vector<std::vector<std::string>>& Knobs() {
  static const std::vector<std::vector<std::string>> knobs = {
      {"micro_batch"}, {"recompute"}, {"zero"}, {"vpp"}, {"ep"}, {"etp"}, {"tp", "dp"}, {"pp", "dp"}, {"cp", "dp"}};
  return knobs;
}

bool HasOnePart(const LayerKind& layer) {
  return layer.mixer == Mixer::kMamba || layer.mixer == Mixer::kNone || layer.feed_forward == FeedForwardKind::kNone;
}

// As TransformerNetwork::pattern.
std::string PatternOf(std::span<const LayerKind> layers) {
  std::string pattern;
  for (const LayerKind& layer : layers) {
    if (!HasOnePart(layer) || (layer.mixer != Mixer::kNone && layer.feed_forward != FeedForwardKind::kNone)) {
      throw InputError("network", "has layers of one part and others of two, whose plans are not searched");
    }
    pattern += layer.mixer == Mixer::kMamba                      ? 'M'
               : layer.mixer != Mixer::kNone                     ? '*'
               : layer.feed_forward == FeedForwardKind::kExperts ? 'E'
                                                                 : '-';
  }
  return pattern;
}

}  // namespace

TransformerNetwork NetworkOf(const TrainingSetup& setup) {
  const NetworkShape& shape = setup.network;
  if (shape.is_bert) throw InputError("model", "is bert, whose plans are not searched");
  TransformerNetwork network;
  network.d_model = shape.hidden;
  network.heads = shape.heads;
  network.kv_heads = shape.query_groups;
  network.head_width = shape.head_dim;
  network.d_ff = shape.d_ff;
  network.vocabulary = shape.vocabulary;
  network.gated = shape.gated();
  network.activation = shape.gated()                                     ? ActivationKind::kSilu
                       : shape.activation == MlpActivation::kSquaredRelu ? ActivationKind::kSquaredRelu
                                                                         : ActivationKind::kGelu;
  network.norm = shape.is_rms_norm ? NormKind::kRms : NormKind::kLayer;
  network.qk_norm = shape.norms_queries && shape.key_rank == 0;
  network.positions = shape.has_rope                  ? PositionKind::kRotary
                      : shape.position_embeddings > 0 ? PositionKind::kLearned
                                                      : PositionKind::kNone;
  network.max_positions = shape.position_embeddings;
  network.tied = shape.is_tied;
  network.mlp_bias = network.qkv_bias = network.output_bias = network.norm_bias = shape.has_bias;
  network.mtp_layers = static_cast<std::int64_t>(shape.prediction_layers);
  network.encoder_layers = static_cast<std::int64_t>(shape.encoder_layers);
  network.layers = static_cast<std::int64_t>(shape.layers.size() - shape.encoder_layers);
  if (shape.key_rank > 0) {
    network.latent = LatentAttention{.q_rank = shape.query_rank,
                                     .kv_rank = shape.key_rank,
                                     .nope_width = shape.nope_dim,
                                     .rope_width = shape.rope_dim,
                                     .value_width = shape.value_dim};
  }
  bool has_experts = false;
  const bool has_pattern = std::ranges::any_of(shape.layers, HasOnePart);
  for (const LayerKind& layer : shape.layers) {
    if (layer.feed_forward == FeedForwardKind::kExperts) has_experts = true;
    if (!has_experts && !has_pattern) ++network.experts.dense_first_layers;
  }
  if (has_pattern) {
    network.pattern = PatternOf(shape.layers);
    if (shape.prediction_layers > 0) network.mtp_pattern = PatternOf(shape.layers_of_prediction());
  }
  network.mtp_shared = shape.shares_prediction_layer && shape.prediction_layers > 0;
  if (network.pattern.find('M') != std::string::npos) {
    network.mamba = MambaMixer{.heads = shape.mamba_heads,
                               .head_width = shape.mamba_head_dim,
                               .groups = shape.mamba_groups,
                               .state = shape.mamba_state,
                               .kernel = shape.mamba_kernel,
                               .chunk = shape.mamba_chunk,
                               .conv_bias = shape.mamba_conv_bias};
  }
  if (has_experts) {
    network.experts.count = shape.experts;
    network.experts.top_k = shape.top_k;
    network.experts.d_expert = shape.d_expert;
    network.experts.shared = shape.d_shared_expert > 0 ? 1 : 0;
    network.experts.d_shared = shape.d_shared_expert;
    network.experts.load_imbalance = shape.load_imbalance;
    network.experts.latent = shape.expert_latent;
  } else {
    network.experts = {};
  }
  return network;
}

ParallelPlan PlanOf(const TrainingSetup& setup) {
  ParallelPlan plan;
  plan.dp = setup.dp;
  plan.dp_replicate = setup.optimizer_instances;
  plan.tp = setup.tp;
  plan.pp = setup.pp;
  plan.vpp = setup.vpp;
  plan.cp = setup.cp;
  plan.ep = setup.ep;
  plan.etp = setup.network.experts > 0 ? setup.etp : 1;
  plan.zero = setup.shards_weights ? 3 : setup.shards_gradients ? 2 : setup.distributed_optimizer ? 1 : 0;
  plan.micro_batch = setup.micro_batch;
  plan.grad_accumulation = setup.micro_batches;
  plan.sequence_parallel = setup.sequence_parallel;
  plan.precision = kProductRecipes[static_cast<std::size_t>(setup.products)];
  plan.schedule = setup.vpp > 1 ? "interleaved" : "1f1b";
  if (setup.recompute.kind == RecomputeKind::kSelective) plan.recompute = ToJson("selective");
  if (setup.recompute.kind == RecomputeKind::kFull) {
    plan.recompute = setup.recompute.is_uniform ? ToJson("full") : ToJson(setup.recompute.layers);
  }
  if (setup.pp > 1) {
    for (const StageShape& stage : setup.stages) plan.AddStage(stage.layers);
  }
  return plan;
}

PlanCheck CheckPlan(const PlanQuestion& question, const ParallelPlan& plan) {
  if (plan.devices() != question.machine.gpus()) {
    throw InputError("dp", fmt::format("times tp, pp and cp is {} (the {} accelerators of {})", plan.devices(),
                                       question.machine.gpus(), question.machine.name));
  }
  PlanCheck check;
  try {
    check.checked = ScorePlan(question, plan);
  } catch (const InputError& error) {
    check.illegal = error.what();
  }
  PlanQuestion alike = question;
  alike.only["precision"] = plan.precision;
  check.answer = SearchPlans(alike);
  check.answer.notes = PlanNotes(question, plan.pp > 1 ? plan.schedule : "");
  const OptionMap parts = PartsOf(plan);
  // Not for less than predictions err.
  constexpr double kLeastGain = 0.95;
  constexpr std::size_t kSimulated = 10;
  for (const std::vector<std::string>& knob : Knobs()) {
    PlanQuestion changed = question;
    changed.best = 1;
    changed.simulated = kSimulated;
    changed.only = parts;
    for (const std::string& part : knob) changed.only.erase(part);
    PlanAnswer found;
    try {
      found = SearchPlans(changed);
    } catch (const InputError&) {  // no plan is legal with this change
      continue;
    }
    const auto best = std::ranges::min_element(found.plans, {}, [](const ScoredPlan& of) { return of.time.micros; });
    if (best == found.plans.end()) continue;
    const bool helps =
        !check.checked || !check.checked->fits || best->time.micros < kLeastGain * check.checked->time.micros;
    const OptionMap others = PartsOf(best->plan);
    std::string text;
    for (const auto& [part, value] : others) {
      if (value != parts.at(part)) {
        text += fmt::format("{}{} {} instead of {}", text.empty() ? "" : ", ", part, value, parts.at(part));
      }
    }
    if (helps && !text.empty()) check.helping.push_back({.text = text, .plan = *best});
  }
  std::ranges::stable_sort(check.helping, {}, [](const PlanChange& change) { return change.plan.time.micros; });
  return check;
}

}  // namespace emplace::datasets
