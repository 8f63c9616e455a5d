#include "datasets/memory/torchtitan_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "datasets/memory/rank_state.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kTitanBf16 = 2;  // bytes
constexpr std::int64_t kTitanF32 = 4;

}  // namespace

TorchtitanRank::TorchtitanRank(const TrainingSetup& setup, std::size_t pipeline_rank, RankProgram* program)
    : setup_(setup),
      network_(setup.network),
      program_(*program),
      reshards_(setup.shards_weights && setup.pp == 1),
      shards_(setup.distributed_optimizer ? setup.dp * setup.cp / setup.optimizer_instances : 1),
      rows_(setup.micro_batch * setup.network.sequence / setup.cp),
      local_rows_(setup.sequence_parallel ? rows_ / setup.tp : rows_),
      queries_(setup.network.heads * setup.network.head_dim / setup.tp),
      keys_(std::max(setup.network.query_groups, setup.tp) * setup.network.head_dim / setup.tp),
      width_(setup.network.d_ff / setup.tp) {
  program_.ExpandSegments();  // as its scripts have it
  std::int64_t all = 0;
  for (const RankParameter& parameter : ParametersOf(setup, pipeline_rank)) all += parameter.elements;
  const std::int64_t of_layer = network_.hidden * (2 * queries_ + 2 * keys_ + (network_.gated() ? 3 : 2) * width_ + 2);
  for (const std::size_t stage : StagesOf(setup, pipeline_rank)) {
    for (const std::size_t layer : setup.stages[stage].layers) {
      layers_[layer].elements = of_layer;
      all -= of_layer;
    }
  }
  root_.elements = std::max<std::int64_t>(0, all);
  const auto add = [&](const Unit& unit) {
    New("weights in f32", kTitanF32 * unit.elements / shards_, MemoryClass::kWeights);
  };
  add(root_);
  for (const auto& [layer, unit] : layers_) add(unit);
  // FSDP2 gathers weights on a stream of its own, from whose memory they are copied. The last gathered unit is kept
  // until the next one has come in, and other streams do not take the memory: it stays reserved for the root and a
  // layer.
  if (shards_ > 1) {
    program_.UsePool(true);
    for (const std::int64_t elements : {std::max(root_.elements, of_layer), of_layer}) {
      New("weights that come in", kTitanBf16 * (elements + elements / shards_), MemoryClass::kCommunication);
    }
    program_.UsePool(false);
  }
  for (int i = 0; i < 2; ++i) New("workspaces of cuBLAS", std::int64_t{32} << 20, MemoryClass::kTemporary);
}

TorchtitanRank::Buffer TorchtitanRank::New(std::string_view label, std::int64_t bytes, MemoryClass memory_class) {
  return program_.Allocate(label, bytes, memory_class);
}

void TorchtitanRank::Free(std::vector<Buffer>* buffers) {
  for (const Buffer buffer : *buffers) program_.Release(buffer);
  buffers->clear();
}

// The weights in bf16.
void TorchtitanRank::Gather(Unit* unit) {
  if (!unit->gathered.empty() || unit->elements == 0) return;
  unit->gathered.push_back(New("gathered weights", kTitanBf16 * unit->elements, MemoryClass::kCommunication));
}

// Returns the temporary buffers of the layer, which autograd keeps unless the layer is computed again.
std::vector<TorchtitanRank::Buffer> TorchtitanRank::RunLayer(bool keeps_all, std::vector<Buffer>* kept,
                                                             Buffer* output) {
  std::vector<Buffer> all;
  const bool selects = !keeps_all && setup_.recompute.kind == RecomputeKind::kSelective;
  const auto make = [&](std::string_view label, std::int64_t numbers, bool is_selected = false) {
    const Buffer buffer = New(label, kTitanBf16 * numbers, MemoryClass::kActivations);
    (selects && is_selected ? *kept : all).push_back(buffer);
  };
  // A forward pass that is run again keeps the last of its buffers alone, to which the residual is added in place. What
  // collectives of tensor parallelism read is still in use.
  const bool consumes = !keeps_all && setup_.recompute.kind != RecomputeKind::kNone && !setup_.sequence_parallel;
  const auto consume = [&] {
    if (!consumes) return;
    const Buffer last = all.back();
    all.pop_back();
    Free(&all);
    all.push_back(last);
  };
  const auto gather = [&] {
    if (setup_.sequence_parallel) make("gathered rows", rows_ * network_.hidden);
  };
  make("outputs of norms", local_rows_ * network_.hidden);
  gather();
  // One of every two products is kept.
  make("queries", rows_ * queries_, true);
  make("keys", rows_ * keys_);
  make("values", rows_ * keys_, true);
  make("rotated queries", rows_ * queries_);
  make("rotated keys", rows_ * keys_);
  if (network_.query_groups != network_.heads) {
    for (int i = 0; i < 2; ++i) make("repeated keys and values", rows_ * queries_);
  }
  make("outputs of attention", rows_ * queries_, true);
  make("outputs of products", rows_ * network_.hidden);
  if (setup_.sequence_parallel) make("hidden states", local_rows_ * network_.hidden, true);
  consume();
  make("outputs of norms", local_rows_ * network_.hidden);
  gather();
  make("outputs of gates", rows_ * width_, true);
  make("outputs of products", rows_ * width_);
  make("outputs of activations", rows_ * width_);
  make("inputs of products", rows_ * width_);
  consume();
  if (!consumes) make("outputs of products", rows_ * network_.hidden);  // which nothing needs in the backward pass
  if (setup_.sequence_parallel) make("hidden states", local_rows_ * network_.hidden);
  *output = New("hidden states", kTitanBf16 * local_rows_ * network_.hidden, MemoryClass::kActivations);
  return all;
}

void TorchtitanRank::Forward(std::size_t stage, std::uint32_t micro_batch) {
  program_.Mark(fmt::format("forward pass of micro-batch {}, stage {}", micro_batch, stage));
  const StageShape& shape = setup_.stages[stage];
  Flight flight;
  Gather(&root_);
  Buffer hidden = New("inputs of stages", kTitanBf16 * local_rows_ * network_.hidden, MemoryClass::kActivations);
  for (std::size_t i = 0; i < shape.layers.size(); ++i) {
    Gather(&LayerUnit(shape.layers[i]));
    if (i + 1 < shape.layers.size()) Gather(&LayerUnit(shape.layers[i + 1]));
    flight.inputs.push_back(hidden);
    flight.kept.emplace_back();
    std::vector<Buffer> all = RunLayer(/*keeps_all=*/false, &flight.kept.back(), &hidden);
    if (setup_.recompute.kind == RecomputeKind::kNone) {
      flight.kept.back().insert(flight.kept.back().end(), all.begin(), all.end());
    } else {
      Free(&all);
    }
    // The last layer's are needed again at once.
    if (reshards_ && i + 1 < shape.layers.size()) Free(&LayerUnit(shape.layers[i]).gathered);
  }
  flight.head.push_back(hidden);
  if (shape.has_loss) {
    // A norm of plain operations: numbers in f32 twice, then in bf16.
    const std::int64_t numbers = local_rows_ * network_.hidden;
    for (int i = 0; i < 2; ++i) {
      flight.head.push_back(New("outputs of norms", kTitanF32 * numbers, MemoryClass::kActivations));
    }
    for (int i = 0; i < 2; ++i) {
      flight.head.push_back(New("outputs of norms", kTitanBf16 * numbers, MemoryClass::kActivations));
    }
    const std::int64_t logits = rows_ * network_.vocabulary / setup_.tp;
    const Buffer in_bf16 = New("logits", kTitanBf16 * logits, MemoryClass::kLogits);
    const Buffer in_f32 = New("logits in f32", kTitanF32 * logits, MemoryClass::kLogits);
    flight.softmax = New("softmax of logits in f32", kTitanF32 * logits, MemoryClass::kLogits);
    program_.Release(in_f32);
    program_.Release(in_bf16);
  }
  flights_[{stage, micro_batch}] = std::move(flight);
}

TorchtitanRank::Buffer TorchtitanRank::BackwardLayer(std::vector<Buffer>* kept, Buffer input, Buffer gradient) {
  std::vector<Buffer> all;
  if (setup_.recompute.kind != RecomputeKind::kNone) {
    Buffer output = 0;
    all = RunLayer(/*keeps_all=*/true, kept, &output);
    program_.Release(output);
  }
  const auto numbers = [&](std::int64_t count) {
    return New("gradients of activations", kTitanBf16 * count, MemoryClass::kTemporary);
  };
  // The widest moments: of the MLP's gate, product and input, then of attention's inputs.
  std::vector<Buffer> temporary = {numbers(setup_.sequence_parallel ? rows_ * network_.hidden : 0),
                                   numbers(rows_ * width_), numbers(rows_ * width_), numbers(rows_ * width_),
                                   numbers(rows_ * network_.hidden)};
  Free(&temporary);
  temporary = {numbers(rows_ * queries_), numbers(rows_ * queries_), numbers(rows_ * queries_),
               numbers(rows_ * queries_),
               New("sums of flash attention in f32", kTitanF32 * rows_ * queries_, MemoryClass::kTemporary)};
  Free(&temporary);
  const Buffer result = numbers(local_rows_ * network_.hidden);
  Free(&all);
  Free(kept);
  program_.Release(input);
  program_.Release(gradient);
  return result;
}

// Gradients of the whole unit are summed in f32 until the last micro-batch's are scattered.
void TorchtitanRank::AddGradients(Unit* unit, bool is_last) {
  if (unit->elements == 0) return;
  const Buffer in_bf16 =
      New("gradients before they are scattered", kTitanBf16 * unit->elements, MemoryClass::kGradients);
  if (unit->gradients.empty()) {
    unit->gradients.push_back(
        New("gradients before they are scattered", kTitanF32 * unit->elements, MemoryClass::kGradients));
  }
  program_.Release(in_bf16);
  if (!is_last) return;
  // The stream that scatters has memory of its own, which no other stream takes after the step.
  if (!has_optimizer_) New("gradients", kTitanF32 * unit->elements / shards_, MemoryClass::kGradients);
  Free(&unit->gradients);
}

void TorchtitanRank::Backward(std::size_t stage, std::uint32_t micro_batch, bool is_last) {
  program_.Mark(fmt::format("backward pass of micro-batch {}, stage {}", micro_batch, stage));
  const StageShape& shape = setup_.stages[stage];
  const auto found = flights_.find({stage, micro_batch});
  Flight& flight = found->second;
  Gather(&root_);
  if (shape.has_loss) {
    const std::int64_t logits = rows_ * network_.vocabulary / setup_.tp;
    const Buffer of_loss = New("gradients of logits", kTitanF32 * logits, MemoryClass::kLogits);
    const Buffer of_softmax = New("gradients of logits", kTitanF32 * logits, MemoryClass::kLogits);
    program_.Release(of_loss);
    program_.Release(flight.softmax);
    const Buffer in_bf16 = New("gradients of logits", kTitanBf16 * logits, MemoryClass::kLogits);
    program_.Release(of_softmax);
    program_.Touch("gradients of activations", kTitanBf16 * rows_ * network_.hidden);
    program_.Release(in_bf16);
  }
  Free(&flight.head);
  Buffer gradient =
      New("gradients of activations", kTitanBf16 * local_rows_ * network_.hidden, MemoryClass::kTemporary);
  for (std::size_t i = shape.layers.size(); i-- > 0;) {
    Unit& unit = LayerUnit(shape.layers[i]);
    Gather(&unit);
    if (i > 0) Gather(&LayerUnit(shape.layers[i - 1]));
    gradient = BackwardLayer(&flight.kept[i], flight.inputs[i], gradient);
    if (reshards_ || is_last) Free(&unit.gathered);
    AddGradients(&unit, is_last);
  }
  program_.Release(gradient);
  if (shape.has_embedding || shape.has_loss) AddGradients(&root_, is_last);
  if (reshards_ || is_last) Free(&root_.gathered);
  flights_.erase(found);
}

void TorchtitanRank::RunOptimizer() {
  program_.Mark("step of the optimizer");
  if (!has_optimizer_) {
    const auto add = [&](const Unit& unit) {
      for (int i = 0; i < 2; ++i) {
        New("moments of the optimizer", kTitanF32 * unit.elements / shards_, MemoryClass::kOptimizer);
      }
    };
    add(root_);
    for (const auto& [layer, unit] : layers_) add(unit);
  }
  has_optimizer_ = true;
}

}  // namespace emplace::datasets
