#include "datasets/planner/step_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <variant>

#include "datasets/memory/rank_state.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/suggestion.h"
#include "sim/cost/curves.h"

namespace emplace::datasets {
namespace {

double Number(std::int64_t value) { return static_cast<double>(value); }

constexpr double kHalf = 2;    // bytes of a number in half precision
constexpr double kSingle = 4;  // in f32

}  // namespace

StepTimer::StepTimer(const PlanMachine& machine, const FrameworkHabits& habits) : machine_(machine), habits_(habits) {
  machine_.between.bandwidth_gb_per_s *= habits.network_share;
}

StepTimer::Key StepTimer::KeyOf(PieceKind piece, const LayerKind& layer, const TrainingSetup& setup) const {
  return {static_cast<std::int64_t>(piece),
          static_cast<std::int64_t>(layer.mixer),
          static_cast<std::int64_t>(layer.feed_forward),
          layer.cross_attention ? 1 : 0,
          layer.window,
          setup.micro_batch,
          setup.network.sequence,
          setup.tp,
          setup.cp,
          setup.ep,
          setup.etp,
          setup.sequence_parallel ? 1 : 0,
          PipelineCrosses(machine_, setup) ? 1 : 0,
          static_cast<std::int64_t>(setup.products)};
}

const Passes& StepTimer::Cached(const Key& key, auto make) {
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_.emplace(key, make()).first->second;
}

// The parameters of one layer, or of what the flags of a stage without layers say.
StepTimer::Parameters StepTimer::CountParameters(const TrainingSetup& setup, const StageShape& stage) {
  const LayerKind layer = stage.layers.empty() ? LayerKind() : setup.network.layers[stage.layers[0]];
  Key key = KeyOf(stage.layers.empty() ? PieceKind::kEnds : PieceKind::kLayer, layer, setup);
  key[5] = (stage.has_embedding ? 1 : 0) + (stage.has_loss ? 2 : 0) + (stage.has_prediction ? 4 : 0);
  const auto found = parameters_.find(key);
  if (found != parameters_.end()) return found->second;
  TrainingSetup alone = setup;
  alone.pp = alone.vpp = 1;
  alone.stages = {stage};
  Parameters parameters;
  for (const RankParameter& parameter : ParametersOf(alone, 0)) {
    (parameter.is_expert ? parameters.of_experts : parameters.shared) += Number(parameter.elements);
  }
  return parameters_.emplace(key, parameters).first->second;
}

StepTimer::Parameters StepTimer::ParametersOfRank(const TrainingSetup& setup, std::size_t rank) {
  Parameters sum;
  StageShape ends;
  const auto add = [&](const StageShape& stage) {
    const Parameters part = CountParameters(setup, stage);
    sum.shared += part.shared;
    sum.of_experts += part.of_experts;
  };
  for (const std::size_t i : StagesOf(setup, rank)) {
    const StageShape& stage = setup.stages[i];
    for (const std::size_t layer : stage.layers) add({.layers = {layer}});
    ends.has_embedding |= stage.has_embedding;
    ends.has_loss |= stage.has_loss;
    ends.has_prediction |= stage.has_prediction;
  }
  add(ends);
  return sum;
}

const Passes& StepTimer::OfLayer(const TrainingSetup& setup, std::size_t layer) {
  const LayerKind& kind = setup.network.layers[layer];
  return Cached(KeyOf(PieceKind::kLayer, kind, setup), [&] { return LayerPasses(machine_, habits_, setup, kind); });
}

const Passes& StepTimer::OfEmbedding(const TrainingSetup& setup) {
  return Cached(KeyOf(PieceKind::kEmbedding, LayerKind(), setup),
                [&] { return EmbeddingPasses(machine_, habits_, setup); });
}

const Passes& StepTimer::OfLoss(const TrainingSetup& setup) {
  return Cached(KeyOf(PieceKind::kLoss, LayerKind(), setup), [&] { return LossPasses(machine_, habits_, setup); });
}

Passes StepTimer::StagePasses(const TrainingSetup& setup, std::size_t stage_number) {
  Passes passes;
  const StageShape& stage = setup.stages[stage_number];
  const Recompute& recompute = setup.recompute;
  const bool gathers = setup.shards_weights;
  const std::int64_t shards = setup.dp * setup.cp / setup.optimizer_instances;
  const RankGroup shard_group = machine_.GroupOf(shards, setup.tp);
  const double layer_bytes =
      Number(GatheredUnitsOf(setup, stage_number % static_cast<std::size_t>(setup.pp)).layer_bytes);
  for (std::size_t i = 0; i < stage.layers.size(); ++i) {
    Passes layer = OfLayer(setup, stage.layers[i]);
    const bool is_recomputed = recompute.kind == RecomputeKind::kFull &&
                               (recompute.is_uniform || i < static_cast<std::size_t>(recompute.layers));
    if (is_recomputed) layer.backward += layer.forward;
    if (gathers) {
      const double gather =
          CollectiveMicros(machine_, CollectiveKind::kAllGather, shard_group, layer_bytes, habits_.network_step_micros);
      const double scatter = CollectiveMicros(machine_, CollectiveKind::kReduceScatter, shard_group,
                                              layer_bytes * Number(setup.gradient_bytes) / Number(setup.number_bytes),
                                              habits_.network_step_micros);
      layer.forward.weights += std::max(0.0, gather - layer.forward.micros());
      layer.backward.weights += std::max(0.0, gather + scatter - layer.backward.micros());
    }
    passes += layer;
  }
  if (stage.has_embedding) passes += OfEmbedding(setup);
  if (stage.has_loss) passes += OfLoss(setup);
  if (stage.has_prediction) {
    for (std::size_t i = 0; i < setup.network.prediction_layers; ++i) {
      passes += OfLayer(setup, setup.network.layers.size() - 1);
      passes += OfLoss(setup);
    }
  }
  return passes;
}

std::vector<std::int64_t> StepTimer::BalancedStages(const TrainingSetup& setup) {
  std::vector<double> layers;
  for (std::size_t i = 0; i < setup.network.layers.size(); ++i) {
    Passes layer = OfLayer(setup, i);
    if (setup.recompute.kind == RecomputeKind::kFull) layer.backward += layer.forward;
    layers.push_back(layer.micros());
  }
  const double first = OfEmbedding(setup).micros();
  const double loss = OfLoss(setup).micros();
  const double last = loss + static_cast<double>(setup.network.prediction_layers) * (layers.back() + loss);
  const auto stages = static_cast<std::size_t>(setup.pp * setup.vpp);
  // Fills stages up to a limit, at least one layer in each; empty if some layers are left over.
  const auto fill = [&](double limit) {
    std::vector<std::int64_t> counts(stages);
    std::size_t next = 0;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      double sum = (stage == 0 ? first : 0) + (stage + 1 == stages ? last : 0);
      while (next < layers.size() && layers.size() - next >= stages - stage &&
             (counts[stage] == 0 || sum + layers[next] <= limit)) {
        sum += layers[next++];
        ++counts[stage];
      }
      if (sum > limit) return std::vector<std::int64_t>();
    }
    return next == layers.size() ? counts : std::vector<std::int64_t>();
  };
  double low = 0;
  double high = first + last;
  for (const double layer : layers) high += layer;
  std::vector<std::int64_t> best = fill(high);
  constexpr int kSteps = 20;
  for (int i = 0; i < kSteps; ++i) {
    const double middle = (low + high) / 2;
    std::vector<std::int64_t> counts = fill(middle);
    if (counts.empty()) {
      low = middle;
    } else {
      high = middle;
      best = std::move(counts);
    }
  }
  return best;
}

// The exchange of gradients and the optimizer, of the pipeline rank with the most parameters.
void StepTimer::AddExchange(const TrainingSetup& setup, const Passes& last, StepTime* step) {
  Parameters most;
  for (std::size_t i = 0; i < static_cast<std::size_t>(setup.pp); ++i) {
    const Parameters own = ParametersOfRank(setup, i);
    if (own.sum() > most.sum()) most = own;
  }
  const std::int64_t replicas = setup.dp * setup.cp;
  const std::int64_t expert_replicas = std::max<std::int64_t>(1, replicas * setup.tp / (setup.ep * setup.etp));
  const auto exchange = [&](CollectiveKind kind, double bytes) {
    return CollectiveMicros(machine_, kind, machine_.GroupOf(replicas, setup.tp), bytes * most.shared,
                            habits_.network_step_micros) +
           CollectiveMicros(machine_, kind, machine_.GroupOf(expert_replicas, setup.ep * setup.etp),
                            bytes * most.of_experts, habits_.network_step_micros);
  };
  const auto exposed = [](double micros, double share, const PassTime& beside) {
    return std::max(0.0, micros - share * beside.micros());
  };
  const double gradient = Number(setup.gradient_bytes);
  double divided = 1;  // parts of the optimizer's state
  double expert_divided = 1;
  if (setup.distributed_optimizer || setup.shards_weights) {
    divided = Number(replicas) / Number(setup.optimizer_instances);
    expert_divided = std::max(1.0, Number(expert_replicas) / Number(setup.optimizer_instances));
  }
  if (setup.shards_weights) {  // exchanged layer by layer
  } else if (setup.distributed_optimizer) {
    const double layers = Number(static_cast<std::int64_t>(setup.network.layers.size())) / Number(setup.pp);
    const double latencies =
        layers * habits_.gathers_of_layer * exchange(CollectiveKind::kAllGather, 1 / std::max(1.0, most.shared));
    step->gradients =
        exposed(exchange(CollectiveKind::kReduceScatter, gradient), habits_.gradient_overlap, last.backward) +
        exposed(exchange(CollectiveKind::kAllGather, Number(setup.number_bytes)) + latencies, habits_.parameter_overlap,
                last.forward);
  } else {
    step->gradients = exposed(exchange(CollectiveKind::kAllReduce, gradient), habits_.gradient_overlap, last.backward);
  }
  // Adam reads gradients, weights in f32 and both moments, and writes all but the gradients, and weights in half
  // precision. The norm of the gradients reads them before it, and they are set to zero behind it.
  constexpr double kBytesOfAdam = 7 * kSingle + kHalf;
  const double state = most.shared / divided + most.of_experts / expert_divided;
  const double gradients = setup.shards_gradients || setup.shards_weights ? state : most.sum();
  step->optimizer = StreamMicros(machine_, setup, kBytesOfAdam * state + gradient * (state + gradients));
}

std::vector<StageTime> StepTimer::StageTimes(const TrainingSetup& setup) {
  std::vector<StageTime> times;
  for (std::size_t i = 0; i < setup.stages.size(); ++i) {
    const Passes passes = StagePasses(setup, i);
    times.push_back({.forward = passes.forward.micros(), .backward = passes.backward.micros()});
  }
  return times;
}

double StepTimer::StageMessageMicros(const TrainingSetup& setup) const {
  if (setup.pp == 1) return 0;
  const double rows = Number(setup.micro_batch) * Number(setup.network.sequence) / Number(setup.cp);
  const double whole = Number(setup.number_bytes) * rows * Number(setup.network.hidden);
  // Tensor-parallel ranks send a part each. Without sequence parallelism they then gather the whole (Narayanan et al.
  // 2021, section 4.1).
  const double bytes = whole / Number(setup.tp);
  const double gather = setup.sequence_parallel
                            ? 0
                            : CollectiveMicros(machine_, CollectiveKind::kAllGather, machine_.GroupOf(setup.tp, 1),
                                               whole, habits_.network_step_micros);
  return habits_.message_micros + MessageMicros(machine_, PipelineStride(setup), bytes) + gather;
}

StepTime StepTimer::Time(const TrainingSetup& setup) {
  std::vector<Passes> ranks(static_cast<std::size_t>(setup.pp));
  for (std::size_t i = 0; i < setup.stages.size(); ++i) ranks[i % ranks.size()] += StagePasses(setup, i);
  const double micro_batches = Number(setup.micro_batches);
  std::size_t slowest = 0;
  double sum = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    sum += ranks[i].micros();
    if (ranks[i].micros() > ranks[slowest].micros()) slowest = i;
  }
  StepTime step;
  PassTime both = ranks[slowest].forward;
  both += ranks[slowest].backward;
  step.passes = both * micro_batches;
  // Narayanan et al. 2021, section 2.2: each of vpp stages of a rank fills the pipeline with a part of its passes.
  step.bubble = (sum - both.micros()) / Number(setup.vpp);
  if (setup.pp > 1) {
    const double message = StageMessageMicros(setup);
    // Interleaved schedules send while other stages of the rank run.
    step.messages = 2 * message * ((setup.vpp > 1 ? 0 : micro_batches) + Number(setup.pp) - 1);
  }
  AddExchange(setup, ranks[slowest], &step);
  step.other = habits_.step_micros;
  constexpr std::int64_t kFewMicroBatches = 8;
  constexpr std::int64_t kLargeJob = 512;
  const bool is_large = machine_.gpus() >= kLargeJob;
  const bool replicas_cross = setup.dp > 1 && setup.dp * setup.tp * setup.cp > machine_.gpus_per_node;
  const bool is_delayed =
      is_large || (replicas_cross && !setup.distributed_optimizer && setup.micro_batches > kFewMicroBatches);
  if (PipelineCrosses(machine_, setup) && is_delayed) {
    step.other +=
        habits_.pipeline_delay_micros * micro_batches * static_cast<double>(std::min<std::int64_t>(setup.pp - 1, 2));
  }
  if (is_large && replicas_cross) step.other += habits_.large_job_micros;
  step.micros = step.passes.micros() + step.bubble + step.messages + step.gradients + step.optimizer + step.other;
  return step;
}

namespace {

// `attention`: the part of scores that is counted.
double FlopWith(const TrainingSetup& setup, double attention) {
  const NetworkShape& network = setup.network;
  const double sequence = Number(network.sequence);
  const double hidden = Number(network.hidden);
  double of_token = 0;  // multiplications of a token in the forward pass
  const auto add = [&](const LayerKind& layer) {
    const double heads = Number(network.heads);
    if (layer.mixer == Mixer::kAttention) {
      const double queries = heads * Number(network.head_dim);
      const double keys = Number(network.query_groups) * Number(network.head_dim);
      const double seen = layer.window > 0 ? std::min(sequence, Number(layer.window)) : sequence;
      of_token += hidden * (2 * queries + 2 * keys) + 2 * attention * seen * queries;
      if (layer.cross_attention) of_token += hidden * (2 * queries + 2 * keys) + 2 * attention * sequence * queries;
    }
    if (layer.mixer == Mixer::kLatentAttention) {
      const double query = Number(network.nope_dim + network.rope_dim);
      const double value = Number(network.value_dim);
      const double rank = Number(network.query_rank);
      of_token += rank > 0 ? rank * (hidden + heads * query) : hidden * heads * query;
      of_token += hidden * Number(network.key_rank + network.rope_dim) +
                  Number(network.key_rank) * heads * (Number(network.nope_dim) + value) + heads * value * hidden +
                  attention * sequence * heads * (query + value);
    }
    const double products = network.gated() ? 3 : 2;
    if (layer.feed_forward == FeedForwardKind::kDense) of_token += products * hidden * Number(network.d_ff);
    if (layer.feed_forward == FeedForwardKind::kExperts) {
      of_token +=
          hidden * Number(network.experts) +
          products * hidden * (Number(network.top_k) * Number(network.d_expert) + Number(network.d_shared_expert));
    }
  };
  for (const LayerKind& layer : network.layers) add(layer);
  // A module that predicts one more token has a layer behind a product of two hidden states.
  for (std::size_t i = 0; i < network.prediction_layers; ++i) {
    add(network.layers.back());
    of_token += 2 * hidden * hidden;
  }
  of_token += hidden * Number(network.vocabulary) * (1 + Number(static_cast<std::int64_t>(network.prediction_layers)));
  constexpr double kFlopOfStep = 6;  // two of each multiplication, in the forward pass and twice in the backward pass
  return kFlopOfStep * of_token * sequence * Number(setup.micro_batch) * Number(setup.micro_batches) * Number(setup.dp);
}

}  // namespace

double ModelFlop(const TrainingSetup& setup) { return FlopWith(setup, 1); }
double LeastFlop(const TrainingSetup& setup) { return FlopWith(setup, 0.5); }

}  // namespace emplace::datasets
