#include "datasets/memory/training_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "datasets/memory/layer_memory.h"
#include "datasets/memory/nanotron_memory.h"
#include "datasets/memory/rank_state.h"
#include "datasets/memory/tape.h"
#include "datasets/memory/torchtitan_memory.h"
#include "sim/base/check.h"
#include "sim/schedule/schedule.h"

namespace emplace::datasets {
namespace {

// One micro-batch of a stage, between its forward and its backward pass.
struct Flight {
  explicit Flight(RankProgram* program) : tape(program) {}
  Tape tape;
  Tape::Tensor input = 0;
  std::optional<Tape::Tensor> encoded;  // what the encoder returned, where another stage has sent it
  Tape::Tensor output = 0;
  bool holds_output = false;
  std::vector<Tape::Tensor> losses;
};

class StepWriter {
 public:
  StepWriter(const TrainingSetup& setup, std::size_t pipeline_rank, RankProgram* program)
      : setup_(setup),
        units_(GatheredUnitsOf(setup, pipeline_rank)),
        program_(*program),
        layers_(setup, setup.network.sequence),
        encoder_(setup, setup.network.encoder_sequence > 0 ? setup.network.encoder_sequence : setup.network.sequence) {}

  void Forward(std::size_t stage, std::uint32_t micro_batch) {
    program_.Mark(fmt::format("forward pass of micro-batch {}, stage {}", micro_batch, stage));
    const StageShape& shape = setup_.stages[stage];
    auto flight = std::make_unique<Flight>(&program_);
    Tape& tape = flight->tape;
    tape.trains_all = !setup_.lora.exist();
    const bool has_mask = shape.has_embedding || shape.has_loss;
    const RankProgram::Buffer mask =
        program_.Allocate("attention mask", has_mask ? layers_.AttentionMaskBytes() : 0, MemoryClass::kActivations);
    // FSDP holds the layer that runs and the one that it gathers meanwhile.
    const RankProgram::Buffer gathered =
        program_.Allocate("gathered weights", units_.root_bytes + 2 * units_.layer_bytes, MemoryClass::kCommunication);
    const bool is_encoder = !shape.layers.empty() && shape.layers.front() < setup_.network.encoder_layers;
    if (shape.has_embedding) {
      flight->input = FirstInput(tape, is_encoder);
    } else {
      flight->input = tape.New("inputs of stages", layers_.InputBytes(shape), MemoryClass::kActivations);
    }
    Tape::Tensor hidden = RunLayers(shape, flight.get(), tape.View(flight->input));
    if (shape.has_loss) {
      hidden = Finish(shape, flight.get(), hidden);
    }
    flight->output = hidden;
    tape.Drop(hidden);
    program_.Release(mask);
    program_.Release(gathered);
    flights_[{stage, micro_batch}] = std::move(flight);
  }

  void Backward(std::size_t stage, std::uint32_t micro_batch) {
    program_.Mark(fmt::format("backward pass of micro-batch {}, stage {}", micro_batch, stage));
    const auto found = flights_.find({stage, micro_batch});
    Flight& flight = *found->second;
    if (setup_.stages[stage].has_loss && Defers(micro_batch)) {
      program_.Allocate("deferred gradients of logits", layers_.LogitBytes(), MemoryClass::kLogits);
    }
    const RankProgram::Buffer gathered =
        program_.Allocate("gathered weights", units_.root_bytes + 2 * units_.layer_bytes, MemoryClass::kCommunication);
    const RankProgram::Buffer unsharded = program_.Allocate("gradients before they are scattered",
                                                            units_.layer_gradient_bytes, MemoryClass::kCommunication);
    // Beside the layer in use, the device holds one that comes back from the host, and the last one, which never left.
    const auto layers = static_cast<std::int64_t>(std::max<std::size_t>(1, setup_.stages[stage].layers.size()));
    const RankProgram::Buffer returned = program_.Allocate(
        "activations from the host", 2 * flight.tape.moved_bytes() / layers, MemoryClass::kActivations);
    program_.Release(flight.tape.Backward(flight.output, flight.input, 0));
    program_.Release(returned);
    program_.Release(gathered);
    program_.Release(unsharded);
    flight.tape.Drop(flight.input);
    if (flight.encoded) {
      program_.Release(flight.tape.TakeGradient(*flight.encoded));
      flight.tape.Drop(*flight.encoded);
    }
    flights_.erase(found);
  }

 private:
  // Whether the gradients of the head's weights wait for the end of the step.
  bool Defers(std::uint32_t micro_batch) const {
    return setup_.defers_embedding_gradients &&
           (setup_.deferred_micro_batches == 0 || micro_batch < setup_.deferred_micro_batches);
  }

  Tape::Tensor FirstInput(Tape& tape, bool is_encoder) const {
    const NetworkShape& network = setup_.network;
    if (network.patch_elements > 0) return encoder_.Patches(tape);
    if (network.image_tokens > 0) return layers_.TextBehindImages(tape, nullptr);
    return (is_encoder ? encoder_ : layers_).Embedding(tape);
  }

  Tape::Tensor RunLayers(const StageShape& shape, Flight* flight, Tape::Tensor hidden) {
    Tape& tape = flight->tape;
    const Recompute& recompute = setup_.recompute;
    std::size_t i = 0;
    const std::size_t first_decoder = setup_.network.encoder_layers;
    const auto is_decoder = [&](std::size_t n) { return first_decoder > 0 && shape.layers[n] >= first_decoder; };
    std::optional<Tape::Tensor> encoded;
    while (i < shape.layers.size()) {
      const bool has_images = setup_.network.image_tokens > 0;
      if (is_decoder(i) && shape.layers[i] > first_decoder && !encoded && !has_images) {
        flight->encoded = tape.New("inputs of stages", encoder_.HiddenBytes());
        encoded = tape.View(*flight->encoded);
      }
      if (is_decoder(i) && shape.layers[i] == first_decoder && has_images) {
        const Tape::Tensor both = layers_.TextBehindImages(tape, &hidden);
        tape.Drop(hidden);
        hidden = both;
      } else if (is_decoder(i) && shape.layers[i] == first_decoder) {
        if (encoded) tape.Drop(*encoded);
        encoded = encoder_.Norm(tape, hidden);
        tape.Drop(hidden);
        hidden = layers_.Embedding(tape);
      }
      std::size_t count = 1;
      bool is_recomputed = false;
      if (recompute.kind == RecomputeKind::kFull) {
        is_recomputed = recompute.is_uniform || i < static_cast<std::size_t>(recompute.layers);
        if (recompute.is_uniform) count = static_cast<std::size_t>(std::max<std::int64_t>(1, recompute.layers));
        count = std::min(count, shape.layers.size() - i);
        // Encoder and decoder are recomputed apart.
        for (std::size_t n = 1; n < count; ++n) {
          if (is_decoder(i + n) != is_decoder(i)) count = n;
        }
      }
      // The hidden state and, of a decoder behind an encoder, what that returned.
      std::vector<Tape::Tensor> inputs = {hidden};
      if (encoded && is_decoder(i)) inputs.push_back(*encoded);
      const auto run = [this, &shape, i, count](Tape& inner, const std::vector<Tape::Tensor>& of) {
        Tape::Tensor state = inner.View(of[0]);
        for (std::size_t n = i; n < i + count; ++n) {
          const std::size_t layer = shape.layers[n];
          const bool is_encoder = layer < setup_.network.encoder_layers;
          const Tape::Tensor next =
              (is_encoder ? encoder_ : layers_).Layer(inner, state, setup_.network.layers[layer], of.back());
          inner.Drop(state);
          state = next;
        }
        return state;
      };
      const Tape::Tensor next = is_recomputed ? tape.Checkpoint("inputs of layers", inputs, run, 0) : run(tape, inputs);
      tape.Drop(hidden);
      hidden = next;
      i += count;
    }
    if (encoded) tape.Drop(*encoded);
    return hidden;
  }

  // The last norm, and the losses: of the layers that predict further tokens first.
  Tape::Tensor Finish(const StageShape& shape, Flight* flight, Tape::Tensor hidden) {
    Tape& tape = flight->tape;
    Tape::Tensor normed = setup_.network.modules ? tape.View(hidden) : layers_.Norm(tape, hidden);
    tape.Drop(hidden);
    if (setup_.network.is_bert) {
      const Tape::Tensor inner = normed;
      normed = layers_.MaskedHead(tape, inner);
      tape.Drop(inner);
    }
    std::vector<Tape::Tensor> losses;
    Tape::Tensor state = tape.View(normed);
    for (std::size_t i = 0; shape.has_prediction && i < setup_.network.prediction_layers; ++i) {
      const Tape::Tensor next = layers_.Prediction(tape, state);
      tape.Drop(state);
      state = next;
      losses.push_back(layers_.Loss(tape, state));
    }
    tape.Drop(state);
    const Tape::Tensor loss = layers_.Loss(tape, normed);
    tape.Drop(normed);
    if (!losses.empty()) {
      losses.push_back(loss);
      const Tape::Tensor sum = tape.New("losses of positions", tape.bytes(loss));
      tape.Record({.label = "sum of losses", .output = sum, .inputs = losses, .passes_gradient = true});
      for (const Tape::Tensor tensor : losses) tape.Drop(tensor);
      return sum;
    }
    return loss;
  }

  const TrainingSetup& setup_;
  GatheredUnits units_;
  RankProgram& program_;
  LayerMemory layers_;
  LayerMemory encoder_;
  std::map<std::pair<std::size_t, std::uint32_t>, std::unique_ptr<Flight>> flights_;
};

// A forward or backward pass of one micro-batch in one stage.
struct StagePass {
  bool is_forward = true;
  std::size_t stage = 0;
  std::uint32_t micro_batch = 0;
};

// The passes of one pipeline rank, one forward and one backward by turns after a number of forward ones. If a rank
// has several stages, each runs a group of micro-batches in turn. Sources: Narayanan et al. 2021, "Efficient
// Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", and Megatron-LM's schedules.
std::vector<StagePass> TurnPasses(const TrainingSetup& setup, std::size_t pipeline_rank, std::int64_t micro_batches) {
  const std::int64_t group = setup.vpp > 1 ? std::max(setup.schedule_group, setup.pp) : micro_batches;
  std::vector<StagePass> forward;
  std::vector<StagePass> backward;
  for (std::int64_t first = 0; first < micro_batches; first += group) {
    for (std::int64_t chunk = 0; chunk < setup.vpp; ++chunk) {
      for (std::int64_t i = first; i < std::min(first + group, micro_batches); ++i) {
        const auto stage = [&](std::int64_t of) { return static_cast<std::size_t>(of * setup.pp) + pipeline_rank; };
        forward.push_back({true, stage(chunk), static_cast<std::uint32_t>(i)});
        backward.push_back({false, stage(setup.vpp - 1 - chunk), static_cast<std::uint32_t>(i)});
      }
    }
  }
  const auto behind = static_cast<std::size_t>(setup.pp) - 1 - pipeline_rank;
  std::size_t ahead = behind;
  if (setup.vpp > 1) ahead = 2 * behind + static_cast<std::size_t>((setup.vpp - 1) * group);
  ahead = std::min(ahead, forward.size());
  std::vector<StagePass> passes(forward.begin(), forward.begin() + static_cast<std::ptrdiff_t>(ahead));
  for (std::size_t i = 0; i < backward.size(); ++i) {
    if (ahead + i < forward.size()) passes.push_back(forward[ahead + i]);
    passes.push_back(backward[i]);
  }
  return passes;
}

// The same of a schedule of `emplace list schedules`. Where the backward pass has two parts, all that it needs is held
// until the second, the gradients of weights.
std::vector<StagePass> SchedulePasses(const char* schedule, const TrainingSetup& setup, std::size_t pipeline_rank,
                                      std::int64_t micro_batches) {
  const PipelineSchedule made =
      MakeSchedule(ParseScheduleName(schedule, "schedule"), static_cast<std::size_t>(setup.pp),
                   static_cast<std::size_t>(micro_batches));
  std::vector<StagePass> passes;
  for (const PipelineAction& action : made.ranks[pipeline_rank]) {
    if (action.kind == ActionKind::kBackwardInput) continue;
    passes.push_back({action.kind == ActionKind::kForward, action.stage, action.micro_batch});
  }
  return passes;
}

// The passes of the two stages that a rank of DualPipe has, by turns, after as many forward passes as it holds
// micro-batches: one more than there are ranks (DeepSeek-AI 2024, table 2).
std::vector<StagePass> DualPipePasses(const TrainingSetup& setup, std::size_t pipeline_rank,
                                      std::int64_t micro_batches) {
  const std::size_t stages[] = {pipeline_rank, static_cast<std::size_t>(setup.pp) - 1 - pipeline_rank};
  const auto pass = [&](bool is_forward, std::int64_t i) {
    return StagePass{is_forward, stages[i % 2], static_cast<std::uint32_t>(i / 2)};
  };
  const std::int64_t ahead = std::min(setup.pp + 1, micro_batches);
  std::vector<StagePass> passes;
  for (std::int64_t i = 0; i < ahead; ++i) passes.push_back(pass(true, i));
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    passes.push_back(pass(false, i));
    if (ahead + i < micro_batches) passes.push_back(pass(true, ahead + i));
  }
  return passes;
}

// The passes of a rank until its peak is reached: the pipeline has then run full a few times.
std::vector<StagePass> PassesOf(const TrainingSetup& setup, std::size_t pipeline_rank) {
  const std::int64_t most = 2 * std::max(setup.schedule_group, setup.pp) + setup.pp;
  const std::int64_t few = std::min(setup.micro_batches, most);
  switch (setup.order) {
    case PipelineOrder::kGpipe:
      return SchedulePasses("gpipe", setup, pipeline_rank, setup.micro_batches);
    case PipelineOrder::kZbH1:
      return SchedulePasses("zb-h1", setup, pipeline_rank, few);
    case PipelineOrder::kZbV:
      return SchedulePasses("zb-v", setup, pipeline_rank, few);
    case PipelineOrder::kDualPipe:
      return DualPipePasses(setup, pipeline_rank, few);
    case PipelineOrder::kOneForwardOneBackward:
      break;
  }
  return TurnPasses(setup, pipeline_rank, few);
}

void WritePasses(const TrainingSetup& setup, std::size_t pipeline_rank, const std::vector<StagePass>& passes,
                 RankProgram* program) {
  StepWriter writer(setup, pipeline_rank, program);
  for (const StagePass& pass : passes) {
    if (pass.is_forward) {
      writer.Forward(pass.stage, pass.micro_batch);
    } else {
      writer.Backward(pass.stage, pass.micro_batch);
    }
  }
}

// What Transformer Engine runs while it captures the graphs of attention: the layers' attention alone, in the order of
// a step (make_graphed_callables).
TrainingSetup OfAttention(TrainingSetup setup) {
  for (LayerKind& layer : setup.network.layers) layer.feed_forward = FeedForwardKind::kNone;
  for (StageShape& stage : setup.stages) stage = {.layers = stage.layers};
  setup.graphs_attention = false;
  return setup;
}

// Two steps: the optimizer's moments are made after the first one.
void WriteTorchtitanSteps(const TrainingSetup& setup, std::size_t pipeline_rank, const std::vector<StagePass>& passes,
                          RankProgram* program) {
  std::map<std::size_t, std::uint32_t> last;  // micro-batch of each stage
  for (const StagePass& pass : passes) last[pass.stage] = std::max(last[pass.stage], pass.micro_batch);
  TorchtitanRank writer(setup, pipeline_rank, program);
  for (int step = 0; step < 2; ++step) {
    for (const StagePass& pass : passes) {
      if (pass.is_forward) {
        writer.Forward(pass.stage, pass.micro_batch);
      } else {
        writer.Backward(pass.stage, pass.micro_batch, pass.micro_batch == last[pass.stage]);
      }
    }
    writer.RunOptimizer();
  }
}

}  // namespace

std::int64_t ComputeCapability(std::string_view kind) {
  if (kind.find("a100") != std::string_view::npos || kind.find("a800") != std::string_view::npos) return 80;
  if (kind.find("v100") != std::string_view::npos) return 70;
  if (kind.find("b200") != std::string_view::npos || kind.find("b300") != std::string_view::npos) return 100;
  return 90;
}

void CheckSetup(const TrainingSetup& setup) {
  constexpr std::int64_t kMostStages = 256;
  constexpr std::size_t kMostLayers = 1024;
  constexpr std::int64_t kMostExperts = 8192;
  constexpr double kMostBytes = static_cast<double>(std::int64_t{1} << 50);
  const NetworkShape& network = setup.network;
  if (setup.pp * setup.vpp > kMostStages) {
    throw InputError("stages", fmt::format("are {} (at most {})", setup.pp * setup.vpp, kMostStages));
  }
  if (network.layers.size() > kMostLayers) {
    throw InputError("layers", fmt::format("are {} (at most {})", network.layers.size(), kMostLayers));
  }
  if (network.experts > kMostExperts) {
    throw InputError("experts", fmt::format("are {} (at most {})", network.experts, kMostExperts));
  }
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double sequence = number(std::max(network.sequence, network.encoder_sequence));
  const double rows = number(setup.micro_batch) * sequence;
  const double width =
      std::max({number(network.vocabulary), 2 * number(network.d_ff), 2 * number(network.d_expert),
                3 * number(network.heads) * number(std::max(network.head_dim, network.nope_dim)),
                number(network.hidden) * number(std::max<std::int64_t>(1, network.top_k)),
                number(network.mamba_heads) * number(network.mamba_head_dim) * 4, number(network.d_shared_expert),
                number(network.query_rank), number(network.key_rank)});
  const double largest =
      16 * std::max({rows * width * number(std::max<std::int64_t>(1, network.top_k)),
                     rows * sequence * number(network.heads),
                     number(network.hidden) * width * number(std::max<std::int64_t>(1, network.experts)),
                     rows * number(network.hidden) * number(setup.ep * setup.etp),
                     number(network.position_embeddings) * number(network.hidden),
                     rows * number(network.mamba_state) * number(network.mamba_heads)});
  if (largest > kMostBytes) {
    throw InputError("sizes", fmt::format("make a tensor of {:.3g} bytes (at most 2^50)", largest));
  }
}

void CheckDegreeDivides(std::string_view degree, std::int64_t parts, std::string_view what, std::int64_t whole) {
  if (whole % parts == 0) return;
  throw InputError(std::string(degree), fmt::format("is {} (a divisor of {}, which is {})", parts, what, whole));
}

RankProgram MakeRankProgram(const TrainingSetup& setup, std::size_t pipeline_rank) {
  if (setup.framework == TrainingFramework::kNanotron) return MakeNanotronProgram(setup, pipeline_rank);
  RankProgram program;
  program.Mark("before the step");
  const std::vector<StagePass> passes = PassesOf(setup, pipeline_rank);
  if (setup.framework == TrainingFramework::kTorchtitan) {
    WriteTorchtitanSteps(setup, pipeline_rank, passes, &program);
    return program;
  }
  AllocateState(setup, pipeline_rank, &program);
  if (setup.graphs_attention) WritePasses(OfAttention(setup), pipeline_rank, passes, &program);
  WritePasses(setup, pipeline_rank, passes, &program);
  program.Mark("step of the optimizer");
  RunOptimizer(setup, pipeline_rank, &program);
  return program;
}

std::vector<RankPeak> PipelinePeaks(const TrainingSetup& setup) {
  std::vector<RankPeak> peaks;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(setup.pp); ++rank) {
    peaks.push_back(PeakOf(MakeRankProgram(setup, rank)));
  }
  return peaks;
}

std::int64_t NeededBytes(const TrainingSetup& setup, const RankPeak& peak) {
  return setup.framework == TrainingFramework::kNanotron ? peak.allocated_bytes : peak.reserved_bytes;
}

std::int64_t OutsideBytes(const TrainingSetup& setup) {
  constexpr std::int64_t kFragmentBytes = std::int64_t{12} << 30;  // and what collectives still read
  return kContextBytes + (setup.framework == TrainingFramework::kNanotron ? kFragmentBytes : 0);
}

std::string WhyRefused(const TrainingSetup& setup) {
  if (setup.framework != TrainingFramework::kNanotron) return "";
  if (setup.most_stages > 0) {
    return fmt::format("pp: is {} (at most {}, as nanotron cuts the stages)", setup.pp, setup.most_stages);
  }
  if (setup.micro_batches >= setup.pp - 1) return "";
  return fmt::format("grad_accumulation: is {} (pp - 1 or more, which is {}, with nanotron)", setup.micro_batches,
                     setup.pp - 1);
}

std::optional<FittingChange> FindFittingChange(const TrainingSetup& setup, std::int64_t bytes) {
  struct Change {
    std::string_view name;
    bool is_possible;
    void (*apply)(TrainingSetup* setup);
  };
  const bool has_data_ranks = setup.dp * setup.cp > 1;
  // What costs least time comes first.
  const Change all[] = {
      {"sequence parallelism",
       !setup.sequence_parallel && setup.tp > 1 && setup.network.sequence / setup.cp % setup.tp == 0,
       [](TrainingSetup* s) { s->sequence_parallel = true; }},
      {"a distributed optimizer (zero 1)",
       !setup.distributed_optimizer && has_data_ranks && setup.framework != TrainingFramework::kTorchtitan,
       [](TrainingSetup* s) { s->distributed_optimizer = true; }},
      {"micro-batches of one sequence", setup.micro_batch > 1,
       [](TrainingSetup* s) {
         s->micro_batches *= s->micro_batch;
         s->micro_batch = 1;
       }},
      {"full recomputation", setup.recompute.kind != RecomputeKind::kFull,
       [](TrainingSetup* s) { s->recompute = {.kind = RecomputeKind::kFull}; }},
      {"sharded weights (zero 3)",
       !setup.shards_weights && setup.pp == 1 && has_data_ranks && setup.framework != TrainingFramework::kNanotron,
       [](TrainingSetup* s) { s->distributed_optimizer = s->shards_gradients = s->shards_weights = true; }},
  };
  std::vector<Change> changes;
  std::ranges::copy_if(all, std::back_inserter(changes), &Change::is_possible);
  // Sets of changes as bits: the smallest first, then those whose last change comes first.
  std::vector<unsigned> sets((std::size_t{1} << changes.size()) - 1);
  std::iota(sets.begin(), sets.end(), 1U);
  std::ranges::stable_sort(sets, {}, [](unsigned set) { return std::popcount(set); });
  for (const unsigned set : sets) {
    FittingChange found;
    TrainingSetup changed = setup;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if ((set >> i & 1U) == 0) continue;
      changes[i].apply(&changed);
      found.text += (found.text.empty() ? "" : " and ") + std::string(changes[i].name);
    }
    for (const RankPeak& peak : PipelinePeaks(changed)) {
      found.needed_bytes = std::max(found.needed_bytes, NeededBytes(changed, peak));
    }
    if (found.needed_bytes <= bytes) return found;
  }
  return std::nullopt;
}

}  // namespace emplace::datasets
