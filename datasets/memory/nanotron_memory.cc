#include "datasets/memory/nanotron_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <set>
#include <string_view>
#include <utility>

#include "datasets/memory/rank_state.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kBytesOfBf16 = 2;
constexpr std::int64_t kBytesOfF32 = 4;

// CUDA takes about this many kernels ahead of the one that runs. As far the program may be ahead of the device, and so
// long PyTorch does not reuse what a collective reads.
constexpr std::int64_t kLaunchQueue = 1024;
// Kernels of half a layer, attention or MLP, in the forward and in the backward pass. Fitted.
constexpr std::int64_t kForwardKernels = 19;
constexpr std::int64_t kBackwardKernels = 26;
// With pipeline stages the program is ahead where the device takes longer for a layer than the program does. Fitted:
// the rate of the device, and what the program takes per rank of tensor parallelism.
constexpr double kFlopPerSecond = 400e12;
constexpr double kSecondsPerRank = 2e-3;
// Else it is while it waits for later stages to take its first micro-batches, from the third one on, unless tensor
// parallelism is as wide as this. Fitted.
constexpr std::uint32_t kFirstAhead = 3;
constexpr std::int64_t kWideTensorParallel = 32;

struct KeptLayer {
  RankProgram::Buffer input = 0;
  std::vector<RankProgram::Buffer> attention_norm, attention, mlp_norm, gate_and_up, active, product;
};

struct KeptMicroBatch {
  std::vector<RankProgram::Buffer> tokens;
  std::vector<KeptLayer> layers;
  std::vector<RankProgram::Buffer> last_norm;  // and its input
  RankProgram::Buffer softmax = 0;
};

class NanotronRank {
 public:
  NanotronRank(const TrainingSetup& setup, std::size_t pipeline_rank, RankProgram* program)
      : setup_(setup),
        network_(setup.network),
        rank_(pipeline_rank),
        stage_(setup.stages[pipeline_rank]),
        program_(*program),
        rows_(setup.micro_batch * setup.network.sequence),
        local_rows_(setup.sequence_parallel ? rows_ / setup.tp : rows_),
        queries_(setup.network.heads * setup.network.head_dim / setup.tp),
        keys_(setup.network.query_groups * setup.network.head_dim / setup.tp),
        width_(setup.network.d_ff / setup.tp) {
    const double layer =
        static_cast<double>(network_.hidden) * static_cast<double>(2 * queries_ + 2 * keys_ + 3 * width_);
    outruns_device_ = setup.pp == 1 || 6 * layer * static_cast<double>(rows_) / kFlopPerSecond >
                                           kSecondsPerRank * static_cast<double>(setup.tp);
  }

  void Run() {
    program_.Mark("before the step");
    AllocateState();
    constexpr int kSteps = 2;
    for (int step = 0; step < kSteps; ++step) {
      RunPasses();
      program_.Synchronize();
      program_.Mark("step of the optimizer");
      if (step == 0) AllocateMoments();
      if (setup_.distributed_optimizer && setup_.dp > 1) GatherWeights();
    }
  }

 private:
  using Buffer = RankProgram::Buffer;

  Buffer New(std::string_view label, std::int64_t bytes, MemoryClass memory_class = MemoryClass::kActivations) {
    return program_.Allocate(label, bytes, memory_class);
  }
  Buffer NewGradient(std::int64_t bytes) { return New("gradients of activations", bytes, MemoryClass::kTemporary); }
  void Free(std::initializer_list<Buffer> buffers) {
    for (const Buffer buffer : buffers) program_.Release(buffer);
  }
  void Free(std::vector<Buffer>* buffers) {
    for (const Buffer buffer : *buffers) program_.Release(buffer);
    buffers->clear();
  }
  // What a collective has read, on a stream of its own.
  void FreeAfterCollective(Buffer buffer) {
    if (IsAhead()) {
      program_.ReleaseLate(buffer, kLaunchQueue);
    } else {
      program_.Release(buffer);
    }
  }
  bool IsAhead() const {
    if (outruns_device_) return true;
    return setup_.pp > 2 && first_micro_batches_ >= kFirstAhead && setup_.tp < kWideTensorParallel;
  }
  void NewWeightGradient(std::int64_t elements) {
    weight_gradients_.push_back(New("gradients in bf16", kBytesOfBf16 * elements, MemoryClass::kGradients));
  }
  // A buffer that stays once it is made.
  void NeedGathered(std::string_view label) {
    if (!setup_.sequence_parallel || !gathered_.insert(label).second) return;
    New(label, kBytesOfBf16 * rows_ * network_.hidden, MemoryClass::kCommunication);
  }
  // Sums the parts of tensor parallel ranks, of which each keeps its rows.
  Buffer Scattered(Buffer whole, std::string_view label, MemoryClass memory_class) {
    if (!setup_.sequence_parallel) return whole;
    const Buffer part = New(label, HiddenBytes(), memory_class);
    FreeAfterCollective(whole);
    return part;
  }
  std::int64_t HiddenBytes() const { return kBytesOfBf16 * local_rows_ * network_.hidden; }
  std::int64_t WholeBytes() const { return kBytesOfBf16 * rows_ * network_.hidden; }

  void AllocateState() {
    for (const RankParameter& parameter : ParametersOf(setup_, rank_)) {
      elements_.push_back(parameter.elements);
      all_elements_ += parameter.elements;
      const std::int64_t shards = setup_.distributed_optimizer ? setup_.dp : 1;
      shards_.push_back((parameter.elements + shards - 1) / shards);
      all_shards_ += shards_.back();
    }
    for (const std::int64_t elements : elements_) New("weights", kBytesOfBf16 * elements, MemoryClass::kWeights);
    if (!setup_.distributed_optimizer && setup_.dp > 1) {
      for (const std::int64_t elements : elements_) {
        New("buckets of gradients", kBytesOfBf16 * elements, MemoryClass::kCommunication);
      }
    }
    New("buffer of gradients", kBytesOfF32 * all_elements_, MemoryClass::kGradients);
    New("weights in f32", kBytesOfF32 * all_shards_, MemoryClass::kOptimizer);
    for (int i = 0; i < 2; ++i) New("workspaces of cuBLAS", std::int64_t{32} << 20, MemoryClass::kTemporary);
    for (std::size_t i = 0; i < stage_.layers.size(); ++i) {
      New("angles of rotary embeddings", 2 * kBytesOfF32 * network_.sequence * network_.head_dim / 2,
          MemoryClass::kTemporary);
    }
  }

  void AllocateMoments() {
    for (const std::int64_t elements : shards_) {
      for (int i = 0; i < 2; ++i) New("moments of the optimizer", kBytesOfF32 * elements, MemoryClass::kOptimizer);
    }
  }

  // torch.distributed.all_gather takes a list, beside which NCCL's backend has a copy in one piece.
  void GatherWeights() {
    std::vector<Buffer> buffers;
    for (std::int64_t i = 0; i <= setup_.dp; ++i) {
      buffers.push_back(New("gathered weights", kBytesOfBf16 * all_shards_, MemoryClass::kCommunication));
    }
    buffers.push_back(New("gathered weights", kBytesOfBf16 * all_shards_ * setup_.dp, MemoryClass::kCommunication));
    Free(&buffers);
  }

  // One forward and one backward pass by turns, after as many forward passes as there are stages behind.
  void RunPasses() {
    const std::int64_t count = std::min(setup_.micro_batches, setup_.pp > 1 ? 2 * setup_.pp + 1 : 2);
    const std::int64_t behind = std::min(setup_.pp - 1 - static_cast<std::int64_t>(rank_), count);
    std::deque<KeptMicroBatch> flights;
    std::int64_t started = 0;
    first_micro_batches_ = 0;
    const auto forward = [&] {
      if (started <= behind) ++first_micro_batches_;
      program_.Mark(fmt::format("forward pass of micro-batch {}, stage {}", started++, rank_));
      flights.push_back(Forward());
    };
    while (started < behind) forward();
    for (std::int64_t i = 0; i < count; ++i) {
      if (started < count) forward();
      first_micro_batches_ = 0;
      program_.Mark(fmt::format("backward pass of micro-batch {}, stage {}", i, rank_));
      Backward(&flights.front());
      flights.pop_front();
    }
  }

  // Takes the input over, which the backward pass frees, and returns the output.
  Buffer ForwardLayer(Buffer input, KeptLayer* kept) {
    const std::int64_t all = queries_ + 2 * keys_;
    kept->input = input;
    kept->attention_norm = {New("outputs of norms", HiddenBytes()),
                            New("statistics of norms", kBytesOfF32 * local_rows_)};
    NeedGathered("gathered rows");
    const Buffer products = New("queries, keys and values", kBytesOfBf16 * rows_ * all);
    const Buffer transposed = New("queries, keys and values", kBytesOfBf16 * rows_ * all);
    // The unrotated keys and values stay, as the runs show.
    kept->attention.push_back(New("keys and values", kBytesOfBf16 * rows_ * 2 * keys_));
    kept->attention.push_back(New("rotated keys and values", kBytesOfBf16 * rows_ * 2 * keys_));
    kept->attention.push_back(New("rotated queries", kBytesOfBf16 * rows_ * queries_));
    Free({transposed});
    kept->attention.push_back(New("outputs of attention", kBytesOfBf16 * rows_ * queries_));
    kept->attention.push_back(New("statistics of attention", kBytesOfF32 * rows_ * network_.heads / setup_.tp));
    const Buffer copied = New("outputs of attention", setup_.micro_batch > 1 ? kBytesOfBf16 * rows_ * queries_ : 0);
    Buffer output = New("outputs of products", WholeBytes());
    Free({copied});
    output = Scattered(output, "outputs of products", MemoryClass::kActivations);
    Free({products});
    program_.Launch(kForwardKernels);
    const Buffer sum = New("hidden states", HiddenBytes());
    Free({output});

    kept->mlp_norm = {New("outputs of norms", HiddenBytes()), New("statistics of norms", kBytesOfF32 * local_rows_),
                      sum};
    kept->gate_and_up = {New("outputs of products", kBytesOfBf16 * rows_ * 2 * width_)};
    kept->active = {New("outputs of activations", kBytesOfBf16 * rows_ * width_)};
    kept->product = {New("inputs of products", kBytesOfBf16 * rows_ * width_)};
    output = Scattered(New("outputs of products", WholeBytes()), "outputs of products", MemoryClass::kActivations);
    const Buffer result = New("hidden states", HiddenBytes());
    Free({output});
    program_.Launch(kForwardKernels);
    return result;
  }

  void FreeLayer(KeptLayer* kept) {
    for (auto* buffers : {&kept->attention_norm, &kept->attention, &kept->mlp_norm, &kept->gate_and_up, &kept->active,
                          &kept->product}) {
      Free(buffers);
    }
  }

  // From the gradient of a column-parallel product's output, which it frees, to that of its input.
  Buffer BackwardColumn(Buffer gradient, std::int64_t elements) {
    const Buffer whole = NewGradient(WholeBytes());
    if (!setup_.sequence_parallel) {
      NewWeightGradient(elements);
      Free({gradient});
      return whole;
    }
    const Buffer part = NewGradient(HiddenBytes());
    NewWeightGradient(elements);
    Free({gradient});
    FreeAfterCollective(whole);
    return part;
  }

  // Back through a norm, whose input the residual goes past: returns the sum of both gradients.
  Buffer BackwardNorm(Buffer gradient, Buffer of_residual) {
    const Buffer of_input = NewGradient(HiddenBytes());
    NewWeightGradient(network_.hidden);
    Free({gradient});
    const Buffer sum = NewGradient(HiddenBytes());
    Free({of_residual, of_input});
    return sum;
  }

  // Takes the gradient of the output over, and returns that of the input.
  Buffer BackwardLayer(KeptLayer* kept, Buffer gradient) {
    if (setup_.recompute.kind == RecomputeKind::kFull) {
      Free({ForwardLayer(kept->input, kept)});
    }
    NeedGathered("gathered gradients");
    const Buffer of_product = NewGradient(kBytesOfBf16 * rows_ * width_);
    NewWeightGradient(network_.hidden * width_);
    Free(&kept->product);
    const Buffer of_active = NewGradient(kBytesOfBf16 * rows_ * width_);
    const Buffer of_up = NewGradient(kBytesOfBf16 * rows_ * width_);
    Free({of_product});
    Free(&kept->active);
    const Buffer of_gate = NewGradient(kBytesOfBf16 * rows_ * width_);
    Free({of_active});
    const Buffer of_both = NewGradient(kBytesOfBf16 * rows_ * 2 * width_);
    Free({of_gate, of_up});
    Free(&kept->gate_and_up);
    const Buffer of_norm = BackwardColumn(of_both, 2 * network_.hidden * width_);
    const Buffer of_sum = BackwardNorm(of_norm, gradient);
    Free(&kept->mlp_norm);
    program_.Launch(kBackwardKernels);

    const std::int64_t all = queries_ + 2 * keys_;
    Buffer of_attention = NewGradient(kBytesOfBf16 * rows_ * queries_);
    const bool is_copied = setup_.micro_batch > 1;
    const Buffer copied = New("outputs of attention", is_copied ? kBytesOfBf16 * rows_ * queries_ : 0);
    NewWeightGradient(network_.hidden * queries_);
    Free({copied});
    if (is_copied) {
      const Buffer transposed = NewGradient(kBytesOfBf16 * rows_ * queries_);
      Free({of_attention});
      of_attention = transposed;
    }
    const Buffer of_queries = NewGradient(kBytesOfBf16 * rows_ * queries_);
    const Buffer of_keys = NewGradient(kBytesOfBf16 * rows_ * keys_);
    const Buffer of_values = NewGradient(kBytesOfBf16 * rows_ * keys_);
    const Buffer sums = New("sums of flash attention in f32", kBytesOfF32 * rows_ * queries_, MemoryClass::kTemporary);
    const Buffer dots = New("sums of flash attention in f32", kBytesOfF32 * rows_ * network_.heads / setup_.tp,
                            MemoryClass::kTemporary);
    Free({sums, dots, of_attention});
    const Buffer of_keys_and_values = NewGradient(kBytesOfBf16 * rows_ * 2 * keys_);
    Free({of_keys, of_values});
    Free(&kept->attention);
    const Buffer of_unrotated = NewGradient(kBytesOfBf16 * rows_ * queries_);
    Free({of_queries});
    const Buffer of_stacked = NewGradient(kBytesOfBf16 * rows_ * 2 * keys_);
    Free({of_keys_and_values});
    const Buffer of_transposed = NewGradient(kBytesOfBf16 * rows_ * all);
    Free({of_unrotated, of_stacked});
    const Buffer of_products = NewGradient(kBytesOfBf16 * rows_ * all);
    Free({of_transposed});
    const Buffer of_input_norm = BackwardColumn(of_products, network_.hidden * all);
    const Buffer result = BackwardNorm(of_input_norm, of_sum);
    Free(&kept->attention_norm);
    Free({kept->input});
    program_.Launch(kBackwardKernels);
    return result;
  }

  KeptMicroBatch Forward() {
    KeptMicroBatch kept;
    for (int i = 0; i < 3; ++i) kept.tokens.push_back(New("tokens", 8 * rows_));
    Buffer hidden = 0;
    if (stage_.has_embedding) {
      hidden = New("embeddings", WholeBytes());
      if (setup_.tp > 1) {
        const Buffer masked = New("embeddings", WholeBytes());
        Free({hidden});
        hidden = Scattered(masked, "embeddings", MemoryClass::kActivations);
      }
    } else {
      program_.Synchronize();  // for the shape of the message
      hidden = New("inputs of stages", HiddenBytes());
    }
    for (std::size_t i = 0; i < stage_.layers.size(); ++i) {
      KeptLayer layer;
      hidden = ForwardLayer(hidden, &layer);
      if (setup_.recompute.kind == RecomputeKind::kFull) FreeLayer(&layer);
      kept.layers.push_back(std::move(layer));
    }
    if (!stage_.has_loss) {
      Free({hidden});
      return kept;
    }
    kept.last_norm = {New("outputs of norms", HiddenBytes()), New("statistics of norms", kBytesOfF32 * local_rows_),
                      hidden};
    const std::int64_t logits = rows_ * network_.vocabulary / setup_.tp;
    NeedGathered("gathered rows");
    const Buffer in_bf16 = New("logits", kBytesOfBf16 * logits, MemoryClass::kLogits);
    const Buffer in_f32 = New("logits in f32", kBytesOfF32 * logits, MemoryClass::kLogits);
    Free({in_bf16});
    const Buffer maxima = New("maxima of logits", kBytesOfF32 * rows_, MemoryClass::kLogits);
    program_.Touch("maxima of logits", 8 * rows_, MemoryClass::kLogits);
    kept.softmax = New("softmax of logits in f32", kBytesOfF32 * logits, MemoryClass::kLogits);
    Free({maxima, in_f32});
    return kept;
  }

  void Backward(KeptMicroBatch* kept) {
    Buffer gradient = 0;
    if (stage_.has_loss) {
      const std::int64_t columns = network_.vocabulary / setup_.tp;
      const Buffer of_logits = New("gradients of logits", kBytesOfBf16 * rows_ * columns, MemoryClass::kLogits);
      Free({kept->softmax});
      const Buffer of_norm = BackwardColumn(of_logits, columns * network_.hidden);
      gradient = NewGradient(HiddenBytes());
      NewWeightGradient(network_.hidden);
      Free({of_norm});
      Free(&kept->last_norm);
    } else {
      if (!outruns_device_) program_.Synchronize();  // for the shape of the message
      gradient = NewGradient(HiddenBytes());
    }
    for (std::size_t i = kept->layers.size(); i-- > 0;) gradient = BackwardLayer(&kept->layers[i], gradient);
    if (stage_.has_embedding) {
      if (setup_.tp > 1) {
        const Buffer whole = NewGradient(WholeBytes());
        FreeAfterCollective(gradient);
        gradient = NewGradient(WholeBytes());
        Free({whole});
      }
      const std::int64_t elements = network_.vocabulary / setup_.tp * network_.hidden;
      if (network_.is_tied && stage_.has_loss) {  // added to that of the head
        program_.Touch("gradients in bf16", kBytesOfBf16 * elements, MemoryClass::kGradients);
      } else {
        NewWeightGradient(elements);
      }
    }
    Free({gradient});
    Free(&kept->tokens);
    Free(&weight_gradients_);
  }

  const TrainingSetup& setup_;
  const NetworkShape& network_;
  std::size_t rank_;
  const StageShape& stage_;
  RankProgram& program_;
  std::int64_t rows_;        // of a micro-batch
  std::int64_t local_rows_;  // between products
  std::int64_t queries_;     // width of the rank's
  std::int64_t keys_;
  std::int64_t width_;
  bool outruns_device_ = false;
  std::uint32_t first_micro_batches_ = 0;  // forward passes of the step before the first backward pass
  std::set<std::string_view> gathered_;
  std::vector<Buffer> weight_gradients_;
  std::vector<std::int64_t> elements_;  // of each parameter
  std::vector<std::int64_t> shards_;    // what the rank's optimizer has of them
  std::int64_t all_elements_ = 0;
  std::int64_t all_shards_ = 0;
};

}  // namespace

RankProgram MakeNanotronProgram(const TrainingSetup& setup, std::size_t pipeline_rank) {
  RankProgram program;
  NanotronRank(setup, pipeline_rank, &program).Run();
  return program;
}

std::vector<StageShape> NanotronStages(const NetworkShape& network, std::int64_t pp) {
  const std::int64_t heads = network.heads + network.query_groups;
  const auto layer = static_cast<double>(network.hidden * (2 * heads * network.head_dim + 3 * network.d_ff));
  const auto head = static_cast<double>(network.vocabulary * network.hidden);
  const double all = layer * static_cast<double>(network.layers.size()) + head;
  std::vector<StageShape> stages(static_cast<std::size_t>(pp));
  std::size_t stage = 0;
  double cost = 0;
  stages[0].has_embedding = true;
  const auto add = [&](double more) {
    cost += more;
    const double share = all * static_cast<double>(stage + 1) / static_cast<double>(pp);
    if (cost >= share && stage + 1 < stages.size()) ++stage;
  };
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    stages[stage].layers.push_back(i);
    add(layer);
  }
  add(0);  // the last norm
  stages[stage].has_loss = true;
  for (const double more : {head, 0.0}) add(more);  // the cast of the logits and the loss can stand in later stages
  stages.resize(stage + 1);
  return stages;
}

}  // namespace emplace::datasets
