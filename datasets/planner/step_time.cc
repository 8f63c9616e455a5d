#include "datasets/planner/step_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "datasets/memory/rank_state.h"
#include "sim/base/check.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_simulator.h"

namespace emplace::datasets {
namespace {

double AsDouble(std::int64_t value) { return static_cast<double>(value); }

// Whether passes of other micro-batches run while a rank sends.
bool SendsBeside(const TrainingSetup& setup) {
  return setup.vpp > 1 || setup.order == PipelineOrder::kZbV || setup.order == PipelineOrder::kDualPipe;
}

}  // namespace

StepTimer::StepTimer(const PlanMachine& machine, const FrameworkHabits& habits) : machine_(machine), habits_(habits) {
  machine_.between.bandwidth_gb_per_s *= habits.network_share;
  for (std::size_t kind = 0; kind < std::max<std::size_t>(1, machine_.kinds.size()); ++kind) {
    machines_.push_back(machine_.AllOfKind(kind));
  }
}

std::size_t StepTimer::KindOfRank(const TrainingSetup& setup, std::size_t pipeline_rank) const {
  const std::int64_t group = setup.tp * setup.cp;
  const auto rank = static_cast<std::int64_t>(pipeline_rank);
  if (!setup.pipeline_before_data) return machine_.SlowestKind(rank * group * setup.dp, group * setup.dp);
  std::size_t slowest = machines_.size();
  for (std::int64_t replica = 0; replica < setup.dp; ++replica) {
    slowest = std::min(slowest, machine_.SlowestKind((replica * setup.pp + rank) * group, group));
  }
  return slowest;
}

StepTimer::Key StepTimer::KeyOf(PieceKind piece, const LayerKind& layer, const TrainingSetup& setup,
                                std::size_t kind) const {
  return {static_cast<std::int64_t>(piece),
          static_cast<std::int64_t>(layer.mixer),
          static_cast<std::int64_t>(layer.feed_forward),
          layer.cross_attention ? 1 : 0,
          layer.module >= 0 ? -1 - layer.module : layer.window,
          setup.micro_batch,
          setup.network.sequence,
          setup.tp,
          setup.cp,
          setup.ep,
          setup.etp,
          setup.sequence_parallel ? 1 : 0,
          PipelineCrosses(machine_, setup) ? 1 : 0,
          static_cast<std::int64_t>(setup.products),
          setup.lora.rank,
          setup.lora.targets,
          layer.passes_gradient ? 1 : 0,
          static_cast<std::int64_t>(kind)};
}

const Passes& StepTimer::Cached(const Key& key, auto make) {
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_.emplace(key, make()).first->second;
}

// The parameters of one layer, or of what the flags of a stage without layers say.
StepTimer::HeldParameters StepTimer::CountParameters(const TrainingSetup& setup, const StageShape& stage) {
  const LayerKind layer = stage.layers.empty() ? LayerKind() : setup.network.layers[stage.layers[0]];
  Key key = KeyOf(stage.layers.empty() ? PieceKind::kEnds : PieceKind::kLayer, layer, setup, 0);
  key[5] = (stage.has_embedding ? 1 : 0) + (stage.has_loss ? 2 : 0) + (stage.has_prediction ? 4 : 0);
  const auto found = parameters_.find(key);
  if (found != parameters_.end()) return found->second;
  TrainingSetup alone = setup;
  alone.pp = alone.vpp = 1;
  alone.order = PipelineOrder::kOneForwardOneBackward;
  alone.stages = {stage};
  HeldParameters parameters;
  for (const RankParameter& parameter : ParametersOf(alone, 0)) {
    const auto add = [&](Parameters* to) {
      (parameter.is_expert ? to->of_experts : to->shared) += AsDouble(parameter.elements);
    };
    add(&parameters.all);
    if (!parameter.is_frozen) add(&parameters.trained);
  }
  return parameters_.emplace(key, parameters).first->second;
}

StepTimer::Parameters& StepTimer::Parameters::operator+=(const Parameters& other) {
  shared += other.shared;
  of_experts += other.of_experts;
  return *this;
}

StepTimer::Parameters StepTimer::TrainedParametersOfRank(const TrainingSetup& setup, std::size_t rank) {
  Parameters sum;
  StageShape ends;
  const auto add = [&](const StageShape& stage) { sum += CountParameters(setup, stage).trained; };
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

const Passes& StepTimer::OfLayer(const TrainingSetup& setup, const LayerKind& layer, std::size_t kind) {
  return Cached(KeyOf(PieceKind::kLayer, layer, setup, kind),
                [&] { return LayerPasses(machines_[kind], habits_, setup, layer); });
}

Passes StepTimer::OfPrediction(const TrainingSetup& setup, std::size_t kind) {
  Passes passes;
  for (const LayerKind& layer : setup.network.layers_of_prediction()) passes += OfLayer(setup, layer, kind);
  passes += OfLoss(setup, kind);
  return passes;
}

const Passes& StepTimer::OfEmbedding(const TrainingSetup& setup, std::size_t kind) {
  return Cached(KeyOf(PieceKind::kEmbedding, LayerKind(), setup, kind),
                [&] { return EmbeddingPasses(machines_[kind], habits_, setup); });
}

const Passes& StepTimer::OfLoss(const TrainingSetup& setup, std::size_t kind) {
  return Cached(KeyOf(PieceKind::kLoss, LayerKind(), setup, kind),
                [&] { return LossPasses(machines_[kind], habits_, setup); });
}

PassTime StepTimer::AgainOf(const TrainingSetup& setup, const Passes& layer, std::size_t position) const {
  const Recompute& recompute = setup.recompute;
  switch (recompute.kind) {
    case RecomputeKind::kNone:
      break;
    case RecomputeKind::kFull:
      if (recompute.is_uniform || position < static_cast<std::size_t>(recompute.layers)) return layer.forward;
      break;
    case RecomputeKind::kSelective: {
      if (habits_.memory != TrainingFramework::kTorchtitan) {
        return recompute.core_attention ? layer.core_attention : PassTime();
      }
      // torchtitan keeps what attention returns, every second product, and what is scattered.
      PassTime again;
      again.products = (layer.forward.products - layer.core_attention.products) / 2;
      again.elementwise = layer.forward.elementwise;
      again.tensor = layer.forward.tensor / 2;
      return again;
    }
  }
  return {};
}

Passes StepTimer::StagePasses(const TrainingSetup& setup, std::size_t stage_number) {
  Passes passes;
  const StageShape& stage = setup.stages[stage_number];
  const std::size_t kind = KindOfRank(setup, PipelineRankOf(setup, stage_number));
  const bool gathers = setup.shards_weights;
  const std::int64_t shards = setup.dp * setup.cp / setup.optimizer_instances;
  const RankGroup shard_group = machine_.GroupOf(shards, setup.tp);
  const GatheredUnits units = GatheredUnitsOf(setup, PipelineRankOf(setup, stage_number));
  for (std::size_t i = 0; i < stage.layers.size(); ++i) {
    Passes layer = OfLayer(setup, setup.network.layers[stage.layers[i]], kind);
    layer.backward += AgainOf(setup, layer, i);
    if (gathers) {
      const double gather = CollectiveMicros(machine_, CollectiveKind::kAllGather, shard_group,
                                             AsDouble(units.layer_bytes), habits_.network_step_micros);
      const double scatter = CollectiveMicros(machine_, CollectiveKind::kReduceScatter, shard_group,
                                              AsDouble(units.layer_gradient_bytes), habits_.network_step_micros);
      layer.forward.weights += std::max(0.0, gather - layer.forward.micros());
      layer.backward.weights += std::max(0.0, gather + scatter - layer.backward.micros());
    }
    passes += layer;
  }
  if (stage.has_embedding) passes += OfEmbedding(setup, kind);
  if (stage.has_loss) passes += OfLoss(setup, kind);
  if (stage.has_prediction) {
    for (std::size_t i = 0; i < setup.network.prediction_layers; ++i) {
      passes += OfPrediction(setup, kind);
    }
  }
  return passes;
}

std::vector<std::int64_t> StepTimer::BalancedStages(const TrainingSetup& setup) {
  const auto stages = static_cast<std::size_t>(setup.pp * setup.vpp);
  std::vector<std::size_t> kinds;  // of the stages
  for (std::size_t stage = 0; stage < stages; ++stage) {
    kinds.push_back(KindOfRank(setup, PipelineRankOf(setup, stage)));
  }
  const auto layer_micros = [&](std::size_t i, std::size_t kind) {
    Passes layer = OfLayer(setup, setup.network.layers[i], kind);
    layer.backward += AgainOf(setup, layer, 0);
    return layer.micros();
  };
  const std::size_t layers = setup.network.layers.size();
  std::vector<std::vector<double>> micros(machines_.size(), std::vector<double>(layers));  // by kind and layer
  for (const std::size_t kind : kinds) {
    if (micros[kind][0] > 0) continue;
    for (std::size_t i = 0; i < layers; ++i) micros[kind][i] = layer_micros(i, kind);
  }
  const double first = OfEmbedding(setup, kinds.front()).micros();
  const double loss = OfLoss(setup, kinds.back()).micros();
  const double further = setup.network.prediction_layers > 0 ? OfPrediction(setup, kinds.back()).micros() : 0;
  const double last = loss + AsDouble(static_cast<std::int64_t>(setup.network.prediction_layers)) * further;
  // Fills stages up to a limit, at least one layer in each; empty if some layers are left over.
  const auto fill = [&](double limit) {
    std::vector<std::int64_t> counts(stages);
    std::size_t next = 0;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      const std::vector<double>& own = micros[kinds[stage]];
      double sum = (stage == 0 ? first : 0) + (stage + 1 == stages ? last : 0);
      while (next < layers && layers - next >= stages - stage && (counts[stage] == 0 || sum + own[next] <= limit)) {
        sum += own[next++];
        ++counts[stage];
      }
      if (sum > limit) return std::vector<std::int64_t>();
    }
    return next == layers ? counts : std::vector<std::int64_t>();
  };
  double low = 0;
  double high = first + last;
  for (std::size_t i = 0; i < layers; ++i) {
    high += std::ranges::max(micros, {}, [&](const std::vector<double>& of) { return of[i]; })[i];
  }
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

StepTimer::Exchange StepTimer::ExchangeOf(const TrainingSetup& setup, std::size_t pipeline_rank,
                                          const Parameters& parameters, const Passes& last) const {
  Exchange result;
  const std::int64_t replicas = setup.dp * setup.cp;
  const std::int64_t expert_replicas = std::max<std::int64_t>(1, replicas * setup.tp / (setup.ep * setup.etp));
  const auto exchange = [&](CollectiveKind kind, double bytes) {
    return CollectiveMicros(machine_, kind, machine_.GroupOf(replicas, setup.tp), bytes * parameters.shared,
                            habits_.network_step_micros) +
           CollectiveMicros(machine_, kind, machine_.GroupOf(expert_replicas, setup.ep * setup.etp),
                            bytes * parameters.of_experts, habits_.network_step_micros);
  };
  const auto exposed = [](double micros, double share, const PassTime& beside) {
    return std::max(0.0, micros - share * beside.micros());
  };
  const double gradient = AsDouble(setup.gradient_bytes);
  double divided = 1;  // parts of the optimizer's state
  double expert_divided = 1;
  if (setup.distributed_optimizer || setup.shards_weights) {
    divided = AsDouble(replicas) / AsDouble(setup.optimizer_instances);
    expert_divided = std::max(1.0, AsDouble(expert_replicas) / AsDouble(setup.optimizer_instances));
  }
  if (setup.shards_weights) {  // exchanged layer by layer
  } else if (setup.distributed_optimizer) {
    const double layers = AsDouble(static_cast<std::int64_t>(setup.network.layers.size())) / AsDouble(setup.pp);
    const double latencies =
        layers * habits_.gathers_of_layer * exchange(CollectiveKind::kAllGather, 1 / std::max(1.0, parameters.shared));
    result.gradients =
        exposed(exchange(CollectiveKind::kReduceScatter, gradient), habits_.gradient_overlap, last.backward);
    result.weights = exposed(exchange(CollectiveKind::kAllGather, AsDouble(setup.number_bytes)) + latencies,
                             habits_.parameter_overlap, last.forward);
  } else {
    result.gradients = exposed(exchange(CollectiveKind::kAllReduce, gradient), habits_.gradient_overlap, last.backward);
  }
  // Adam reads gradients, weights in f32 and both moments, and writes all but the gradients, and weights in half
  // precision. The norm of the gradients reads them before it, and they are set to zero behind it.
  constexpr double kBytesOfAdam = 7 * 4 + 2;
  const PlanMachine& machine = machines_[KindOfRank(setup, pipeline_rank)];
  const double state = parameters.shared / divided + parameters.of_experts / expert_divided;
  const double gradients = setup.shards_gradients || setup.shards_weights ? state : parameters.sum();
  result.optimizer = StreamMicros(machine, setup, kBytesOfAdam * state + gradient * (state + gradients));
  return result;
}

std::vector<StageTime> StepTimer::StageTimes(const TrainingSetup& setup) {
  std::vector<StageTime> times;
  for (std::size_t i = 0; i < setup.stages.size(); ++i) {
    const Passes passes = StagePasses(setup, i);
    times.push_back({.forward = passes.forward.micros(),
                     .backward = passes.backward.micros(),
                     .weight_gradients = passes.weight_gradients});
  }
  return times;
}

namespace {

// The largest of a micro-batch between two stages, before tensor parallelism divides it.
double StageMessageBytes(const TrainingSetup& setup) {
  const double rows = AsDouble(setup.micro_batch) * AsDouble(setup.network.sequence) / AsDouble(setup.cp);
  const ModuleNetwork* const modules = setup.network.modules.get();
  if (modules == nullptr) return AsDouble(setup.number_bytes) * rows * AsDouble(setup.network.hidden);
  double largest = 0;
  for (const StageShape& stage : setup.stages) {
    if (stage.layers.empty() || stage.has_loss) continue;
    const auto sent = static_cast<double>(modules->layers[stage.layers.back()].sent_bytes);
    largest = std::max(largest, sent * AsDouble(setup.micro_batch) / AsDouble(modules->batch));
  }
  return largest;
}

}  // namespace

double StepTimer::StageMessageMicros(const TrainingSetup& setup) const {
  if (setup.pp == 1) return 0;
  const double whole = StageMessageBytes(setup);
  // Tensor-parallel ranks send a part each. Without sequence parallelism they then gather the whole (Narayanan et al.
  // 2021, section 4.1).
  const double bytes = whole / AsDouble(setup.tp);
  const double gather = setup.sequence_parallel
                            ? 0
                            : CollectiveMicros(machine_, CollectiveKind::kAllGather, machine_.GroupOf(setup.tp, 1),
                                               whole, habits_.network_step_micros);
  return habits_.message_micros + MessageMicros(machine_, PipelineStride(setup), bytes) + gather;
}

const PieceTraffic& StepTimer::TrafficOf(PieceKind kind, const LayerKind& layer, const TrainingSetup& setup) {
  const Key key = KeyOf(kind, layer, setup, 0);
  const auto found = traffic_.find(key);
  if (found != traffic_.end()) return found->second;
  PieceTraffic made = kind == PieceKind::kLayer       ? LayerTraffic(machine_, habits_, setup, layer)
                      : kind == PieceKind::kEmbedding ? EmbeddingTraffic(machine_, habits_, setup)
                                                      : LossTraffic(machine_, habits_, setup);
  return traffic_.emplace(key, std::move(made)).first->second;
}

std::vector<RankTraffic> StepTimer::Traffic(const TrainingSetup& setup, std::size_t pipeline_rank) {
  std::vector<RankTraffic> traffic;
  const double micro_batches = AsDouble(setup.micro_batches);
  const auto add = [&](std::string_view group, CollectiveKind kind, double calls, double bytes) {
    AddTraffic({.group = group, .kind = kind, .calls = calls, .bytes = calls * bytes}, &traffic);
  };
  const auto add_all = [&](const std::vector<RankTraffic>& rows, double times) {
    for (RankTraffic row : rows) {
      row.calls *= times;
      row.bytes *= times;
      AddTraffic(row, &traffic);
    }
  };
  const auto add_piece = [&](PieceKind kind, const LayerKind& layer, bool is_recomputed) {
    const PieceTraffic& piece = TrafficOf(kind, layer, setup);
    add_all(piece.forward, micro_batches * (is_recomputed ? 2 : 1));
    add_all(piece.backward, micro_batches);
  };
  const double gradient = AsDouble(setup.gradient_bytes);
  const double number = AsDouble(setup.number_bytes);
  const bool has_replicas = setup.dp * setup.cp > 1;
  // FSDP gathers a unit for its forward pass and, unless it keeps it as it does what is outside of layers, for the
  // backward pass again.
  const auto add_unit = [&](const StageShape& unit, double gatherings) {
    if (!setup.shards_weights || !has_replicas) return;
    const HeldParameters of = CountParameters(setup, unit);
    add("data", CollectiveKind::kAllGather, gatherings * micro_batches, number * of.all.sum());
    if (of.trained.sum() == 0) return;
    add("data", CollectiveKind::kReduceScatter, micro_batches, gradient * of.trained.sum());
  };
  for (const std::size_t number_of_stage : StagesOf(setup, pipeline_rank)) {
    const StageShape& stage = setup.stages[number_of_stage];
    for (std::size_t i = 0; i < stage.layers.size(); ++i) {
      const Recompute& recompute = setup.recompute;
      const bool is_recomputed = recompute.kind == RecomputeKind::kFull &&
                                 (recompute.is_uniform || i < static_cast<std::size_t>(recompute.layers));
      add_piece(PieceKind::kLayer, setup.network.layers[stage.layers[i]], is_recomputed);
      add_unit({.layers = {stage.layers[i]}}, 2);
    }
    if (stage.has_embedding) add_piece(PieceKind::kEmbedding, LayerKind(), false);
    if (stage.has_loss) add_piece(PieceKind::kLoss, LayerKind(), false);
    for (std::size_t i = 0; stage.has_prediction && i < setup.network.prediction_layers; ++i) {
      for (const LayerKind& layer : setup.network.layers_of_prediction()) add_piece(PieceKind::kLayer, layer, false);
      add_piece(PieceKind::kLoss, LayerKind(), false);
    }
    StageShape ends = stage;
    ends.layers.clear();
    add_unit(ends, 1);
    if (setup.pp == 1) continue;
    const double message = StageMessageBytes(setup);
    const bool is_first = number_of_stage == 0;
    const bool is_last = number_of_stage + 1 == setup.stages.size();
    const double ways = (is_first ? 0 : 1) + (is_last ? 0 : 1);
    add("pipeline", CollectiveKind::kSendReceive, ways * micro_batches, message / AsDouble(setup.tp));
    if (setup.tp > 1 && !setup.sequence_parallel) {
      add("tensor", CollectiveKind::kAllGather, ways * micro_batches, message);
    }
  }
  if (setup.shards_weights || !has_replicas) return traffic;
  const Parameters own = TrainedParametersOfRank(setup, pipeline_rank);
  const std::int64_t expert_replicas = setup.dp * setup.cp * setup.tp / (setup.ep * setup.etp);
  const double elements = own.shared + (expert_replicas > 1 ? own.of_experts : 0);
  if (setup.distributed_optimizer) {
    add("data", CollectiveKind::kReduceScatter, 1, gradient * elements);
    add("data", CollectiveKind::kAllGather, 1, number * elements);
  } else {
    add("data", CollectiveKind::kAllReduce, 1, gradient * elements);
  }
  return traffic;
}

std::vector<Passes> StepTimer::RankPasses(const TrainingSetup& setup) {
  std::vector<Passes> ranks(static_cast<std::size_t>(setup.pp));
  for (std::size_t i = 0; i < setup.stages.size(); ++i) {
    const Passes stage = StagePasses(setup, i);
    if (setup.order != PipelineOrder::kDualPipe) {
      ranks[PipelineRankOf(setup, i)] += stage;
      continue;
    }
    // Each of the two ranks of a stage runs half of the micro-batches.
    for (const std::size_t rank : {i, ranks.size() - 1 - i}) ranks[rank] += stage * 0.5;
  }
  // DualPipe exchanges the tokens of one micro-batch beside the products of another one.
  for (Passes& passes : ranks) {
    if (setup.order != PipelineOrder::kDualPipe) break;
    for (PassTime* pass : {&passes.forward, &passes.backward}) pass->experts -= std::min(pass->experts, pass->products);
  }
  return ranks;
}

namespace {

// What one more rank makes a pipeline wait: `forward`, `input` and `weight` are its passes of one micro-batch.
double RankBubble(const TrainingSetup& setup, double forward, double input, double weight) {
  switch (setup.order) {
    case PipelineOrder::kOneForwardOneBackward:
      // Narayanan et al. 2021, section 2.2: each of vpp stages of a rank fills the pipeline with a part of its passes.
      return (forward + input + weight) / AsDouble(setup.vpp);
    case PipelineOrder::kGpipe:
      return forward + input + weight;
    case PipelineOrder::kZbH1:
      // Qi et al. 2024 (ICLR), table 1, where no weight gradient takes longer than the forward pass.
      return input + std::max(0.0, forward - weight);
    case PipelineOrder::kZbV: {
      // Passes of one of the two stages; with fewer micro-batches than fill the pipeline, of both.
      const double full = std::max({forward, input, 2 * (input - weight)}) / 2;
      const double missing =
          AsDouble(2 * setup.pp - 1 - setup.micro_batches) / AsDouble(std::max<std::int64_t>(1, setup.pp - 1));
      return full + std::clamp(missing, 0.0, 1.0) * (std::max(forward, input) - full);
    }
    case PipelineOrder::kDualPipe: {
      // DeepSeek-AI 2024, table 2, of all ranks: (pp / 2 - 1) (F&B + B - 3 W). A forward and a backward pass side by
      // side, F&B, are taken for as long as one after the other.
      const double of_one = std::max(0.0, forward + 2 * input - weight);
      return of_one * (AsDouble(setup.pp) / 2 - 1) / AsDouble(setup.pp - 1);
    }
  }
  return 0;
}

}  // namespace

// What is added to each step, and to each micro-batch of large jobs.
double StepTimer::FixedMicros(const TrainingSetup& setup) const {
  double micros = habits_.step_micros;
  constexpr std::int64_t kFewMicroBatches = 8;
  constexpr std::int64_t kLargeJob = 512;
  const bool is_large = machine_.gpus() >= kLargeJob;
  const bool replicas_cross = setup.dp > 1 && setup.dp * setup.tp * setup.cp > machine_.gpus_per_node;
  const bool is_delayed =
      is_large || (replicas_cross && !setup.distributed_optimizer && setup.micro_batches > kFewMicroBatches);
  if (PipelineCrosses(machine_, setup) && is_delayed) {
    micros += habits_.pipeline_delay_micros * AsDouble(setup.micro_batches) *
              static_cast<double>(std::min<std::int64_t>(setup.pp - 1, 2));
  }
  if (is_large && replicas_cross) micros += habits_.large_job_micros;
  return micros;
}

StepTime StepTimer::Time(const TrainingSetup& setup) {
  const std::vector<Passes> ranks = RankPasses(setup);
  const double micro_batches = AsDouble(setup.micro_batches);
  std::size_t slowest = 0;
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i].micros() > ranks[slowest].micros()) slowest = i;
  }
  StepTime step;
  PassTime both = ranks[slowest].forward;
  both += ranks[slowest].backward;
  step.passes = both * micro_batches;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == slowest) continue;
    step.bubble += RankBubble(setup, ranks[i].forward.micros(), ranks[i].input_gradients(), ranks[i].weight_gradients);
  }
  if (setup.pp > 1) {
    const double message = StageMessageMicros(setup);
    step.messages = 2 * message * ((SendsBeside(setup) ? 0 : micro_batches) + AsDouble(setup.pp) - 1);
  }
  // The parameters of the rank that trains the most.
  Parameters most;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Parameters own = TrainedParametersOfRank(setup, i);
    if (own.sum() <= most.sum()) continue;
    most = own;
    largest = i;
  }
  const Exchange exchange = ExchangeOf(setup, largest, most, ranks[slowest]);
  step.gradients = exchange.gradients + exchange.weights;
  step.optimizer = exchange.optimizer;
  step.other = FixedMicros(setup);
  step.micros = step.passes.micros() + step.bubble + step.messages + step.gradients + step.optimizer + step.other;
  return step;
}

namespace {

std::string_view ScheduleOf(PipelineOrder order) {
  switch (order) {
    case PipelineOrder::kGpipe:
      return "gpipe";
    case PipelineOrder::kZbH1:
      return "zb-h1";
    case PipelineOrder::kZbV:
      return "zb-v";
    case PipelineOrder::kOneForwardOneBackward:
    case PipelineOrder::kDualPipe:
      break;
  }
  return "1f1b";
}

// What a simulated step is made of, in us.
struct PipelineStep {
  double all = 0;
  double communication = 0;  // that nothing hides, gradients included
  double gradients = 0;
  // After `repeats` more of what made `this` longer than `shorter`.
  PipelineStep Extend(const PipelineStep& shorter, double repeats) const {
    const auto extend = [&](double PipelineStep::*part) {
      return this->*part + repeats * (this->*part - shorter.*part);
    };
    return {.all = extend(&PipelineStep::all),
            .communication = extend(&PipelineStep::communication),
            .gradients = gradients};
  }
};

PipelineStep RunPipeline(const ScheduleName& name, std::size_t ranks, std::int64_t micro_batches,
                         const PipelineModel& model) {
  const auto micros = [](Duration time) { return static_cast<double>(time.count()) / 1000; };
  const ScheduleResult result =
      SimulateSchedule(MakeSchedule(name, ranks, static_cast<std::size_t>(micro_batches)), model);
  Duration end{};  // of the last pass
  for (const ScheduleResult::RankResult& rank : result.ranks) end = std::max(end, rank.end);
  // The optimizers start together, and each gathers weights behind its own.
  Duration optimizer{};
  for (std::size_t i = ranks; i < 2 * ranks; ++i) optimizer = std::max(optimizer, model.final_ops[i].time);
  return {.all = micros(result.step_time),
          .communication = micros(result.exposed_communication),
          .gradients = micros(result.step_time - end - optimizer)};
}

}  // namespace

StepTime StepTimer::Simulate(const TrainingSetup& setup) {
  if (setup.pp == 1 || setup.order == PipelineOrder::kDualPipe) return Time(setup);
  const auto ranks = static_cast<std::size_t>(setup.pp);
  const ScheduleName name = setup.vpp > 1 && setup.order == PipelineOrder::kOneForwardOneBackward
                                ? ParseScheduleName(fmt::format("interleaved:{}", setup.vpp), "schedule")
                                : ParseScheduleName(ScheduleOf(setup.order), "schedule");
  std::vector<PipelineStage> stages;
  for (const StageTime& stage : StageTimes(setup)) {
    stages.push_back({.forward = DurationFromMicros(stage.forward),
                      .backward_input = DurationFromMicros(stage.backward - stage.weight_gradients),
                      .backward_weight = DurationFromMicros(stage.weight_gradients)});
  }
  const Duration message = DurationFromMicros(StageMessageMicros(setup));
  PipelineModel model = ChainModel(RankOfStage(name, ranks), stages, {.forward = message, .backward = message});
  // Messages in both directions share the link of their sender, which waits for them unless it sends beside its passes.
  model.num_channels = ranks;
  for (PipelineMessage& sent : model.messages) sent.route.channel = sent.route.from;
  for (PipelineModel::Rank& rank : model.ranks) rank.copy_engine = SendsBeside(setup);
  // Gradients of a rank are exchanged when its passes are over. The optimizers wait for the norm of all gradients.
  const std::vector<Passes> passes = RankPasses(setup);
  std::vector<Exchange> exchanges;
  for (std::size_t i = 0; i < ranks; ++i) {
    exchanges.push_back(ExchangeOf(setup, i, TrainedParametersOfRank(setup, i), passes[i]));
  }
  std::vector<std::size_t> all_gradients(ranks);
  std::iota(all_gradients.begin(), all_gradients.end(), std::size_t{0});
  const auto collective = [&](std::size_t rank, double micros, std::vector<std::size_t> reads) {
    model.final_ops.push_back({.rank = rank, .reads = std::move(reads), .collective = model.final_collectives.size()});
    model.final_collectives.push_back({.num_members = 1, .time = DurationFromMicros(micros)});
  };
  for (std::size_t i = 0; i < ranks; ++i) collective(i, exchanges[i].gradients, {});
  for (std::size_t i = 0; i < ranks; ++i) {
    model.final_ops.push_back({.rank = i, .time = DurationFromMicros(exchanges[i].optimizer), .reads = all_gradients});
  }
  for (std::size_t i = 0; i < ranks; ++i) collective(i, exchanges[i].weights, {ranks + i});

  // Schedules repeat themselves every `pp` micro-batches once they have run full.
  constexpr std::int64_t kFullRounds = 6;
  const std::int64_t few = kFullRounds * setup.pp + setup.micro_batches % setup.pp;
  PipelineStep run = RunPipeline(name, ranks, std::min(setup.micro_batches, few + setup.pp), model);
  if (setup.micro_batches > few + setup.pp) {
    const double repeats = AsDouble(setup.micro_batches - few - setup.pp) / AsDouble(setup.pp);
    run = run.Extend(RunPipeline(name, ranks, few, model), repeats);
  }

  StepTime step = Time(setup);
  step.optimizer = 0;
  for (const Exchange& exchange : exchanges) step.optimizer = std::max(step.optimizer, exchange.optimizer);
  step.gradients = std::min(run.gradients, run.communication);
  step.messages = run.communication - step.gradients;
  step.bubble = run.all - run.communication - step.optimizer - step.passes.micros();
  step.micros = run.all + step.other;
  return step;
}

namespace {

// FLOP of both passes of the batch that the modules were captured with.
double FlopOfModules(const ModuleNetwork& modules, double attention) {
  double flop = 0;
  const auto add = [&](const ModulePiece& piece) {
    for (const ModuleKernel& kernel : piece.kernels) {
      if (const auto* const product = std::get_if<ProductShape>(&kernel.shape)) {
        flop += 2 * product->batch * product->m * product->n * product->k;
      } else if (const auto* const of = std::get_if<AttentionShape>(&kernel.shape)) {
        flop += (of->causal ? attention : 1) * (of->backward ? 8 : 4) * of->batch * of->heads * of->queries * of->keys *
                of->head_dim;
      }
    }
  };
  add(modules.before);
  for (const ModulePiece& layer : modules.layers) add(layer);
  add(modules.after);
  return flop;
}

// `attention`: the part of scores that is counted.
double FlopWith(const TrainingSetup& setup, double attention) {
  const NetworkShape& network = setup.network;
  const double samples = AsDouble(setup.micro_batch) * AsDouble(setup.micro_batches) * AsDouble(setup.dp);
  if (network.modules) return FlopOfModules(*network.modules, attention) * samples / AsDouble(network.modules->batch);
  const double sequence = AsDouble(network.sequence);
  const double hidden = AsDouble(network.hidden);
  // Multiplications of a token. A product has one of each weight in the forward pass and two in the backward pass, of
  // which frozen weights leave one, the gradient of the input, or none below the first adapter; the products of
  // attention have no weights.
  const LoraAdapters& lora = setup.lora;
  const double rank = AsDouble(lora.rank);
  double of_token = 0;
  bool passes_gradient = true;
  const auto product = [&](double in, double out, const std::vector<std::int64_t>& adapters = {}, double times = 1) {
    of_token += times * in * out * (1 + (passes_gradient ? 1 : 0) + (lora.exist() ? 0 : 1));
    for (const std::int64_t columns : adapters) {
      of_token += times * rank * ((passes_gradient ? 3 : 2) * in + 3 * AsDouble(columns));
      passes_gradient = true;
    }
  };
  const auto scores = [&](double numbers) { of_token += numbers * (passes_gradient ? 3 : 1); };
  const auto feed_forward = [&](double in, std::int64_t width, double times) {
    const bool is_gated = network.gated();
    product(in, (is_gated ? 2 : 1) * AsDouble(width),
            is_gated ? lora.ColumnsOf(AdaptedProduct::kFirstOfMlp, {width, width})
                     : lora.ColumnsOf(AdaptedProduct::kFirstOfMlp, {width}),
            times);
    product(AsDouble(width), in, lora.ColumnsOf(AdaptedProduct::kSecondOfMlp, {network.hidden}), times);
  };
  const auto output = [&](double in) {
    product(in, hidden, lora.ColumnsOf(AdaptedProduct::kAttentionOutput, {network.hidden}));
  };
  const auto add = [&](const LayerKind& layer) {
    passes_gradient = layer.passes_gradient;
    const double heads = AsDouble(network.heads);
    if (layer.mixer == Mixer::kAttention) {
      const std::int64_t queries = network.heads * network.head_dim;
      const std::int64_t keys = network.query_groups * network.head_dim;
      const auto block = [&](double seen) {
        product(hidden, AsDouble(queries + 2 * keys),
                lora.ColumnsOf(AdaptedProduct::kQueriesKeysValues, {queries, keys, keys}));
        scores(2 * attention * seen * AsDouble(queries));
        output(AsDouble(queries));
      };
      block(layer.window > 0 ? std::min(sequence, AsDouble(layer.window)) : sequence);
      if (layer.cross_attention) block(sequence);
    }
    if (layer.mixer == Mixer::kLatentAttention) {
      const double query = AsDouble(network.nope_dim + network.rope_dim);
      const double value = AsDouble(network.value_dim);
      const double query_rank = AsDouble(network.query_rank);
      product(1, query_rank > 0 ? query_rank * (hidden + heads * query) : hidden * heads * query);
      product(hidden, AsDouble(network.key_rank + network.rope_dim));
      product(AsDouble(network.key_rank), heads * (AsDouble(network.nope_dim) + value));
      scores(attention * sequence * heads * (query + value));
      output(heads * value);
    }
    if (layer.mixer == Mixer::kMamba) {
      const double inner = AsDouble(network.mamba_heads * network.mamba_head_dim);
      const double states = 2 * AsDouble(network.mamba_groups * network.mamba_state);
      product(hidden, 2 * inner + states + AsDouble(network.mamba_heads));
      scores(ScanProducts(network, attention));
      product(inner, hidden);
    }
    if (layer.feed_forward == FeedForwardKind::kDense) feed_forward(hidden, network.d_ff, 1);
    if (layer.feed_forward == FeedForwardKind::kExperts) {
      product(hidden, AsDouble(network.experts) + 2 * AsDouble(network.expert_latent));
      const double width = network.expert_latent > 0 ? AsDouble(network.expert_latent) : hidden;
      feed_forward(width, network.d_expert, AsDouble(network.top_k));
      if (network.d_shared_expert > 0) feed_forward(hidden, network.d_shared_expert, 1);
    }
  };
  for (const LayerKind& layer : network.layers) add(layer);
  // A module that predicts one more token has a layer behind a product of two hidden states.
  for (std::size_t i = 0; i < network.prediction_layers; ++i) {
    for (const LayerKind& layer : network.layers_of_prediction()) add(layer);
    product(2 * hidden, hidden);
  }
  product(hidden, AsDouble(network.vocabulary) * (1 + AsDouble(static_cast<std::int64_t>(network.prediction_layers))));
  constexpr double kFlopOfMultiplication = 2;  // and an addition
  return kFlopOfMultiplication * of_token * sequence * samples;
}

}  // namespace

double ModelFlop(const TrainingSetup& setup) { return FlopWith(setup, 1); }
double LeastFlop(const TrainingSetup& setup) { return FlopWith(setup, 0.5); }

}  // namespace emplace::datasets
