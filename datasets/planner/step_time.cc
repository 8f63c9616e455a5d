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

std::vector<FrameworkHabits> MakeAllHabits() {
  std::vector<FrameworkHabits> habits = {
      {.name = "megatron",
       .elementwise = 2.6,
       .layer_host_micros = 1600,
       .tensor_host_share = 0.04,
       .host_exponent = 4,
       .gradient_overlap = 0.9,
       .parameter_overlap = 0.9,
       .message_micros = 50},
      {.name = "nanotron",
       .elementwise = 0.5,
       .layer_host_micros = 2078,
       .message_micros = 1306,
       .pipeline_host_micros = 1086,
       .large_job_micros = 1.08e6,
       .pipeline_delay_micros = 0.58e6,
       .gathers_of_layer = 0.82,
       .network_step_micros = 28,
       .network_share = 0.66,
       .step_micros = 57000,
       .retry_factor = 3,
       .fuses_weight_gradients = false,
       .has_hopper_attention = false,
       .interleaves = false,
       .has_context_parallel = false,
       .recomputes = false,
       .orders_ranks = false,
       .balances_stages = false,
       .memory = TrainingFramework::kNanotron},
  };
  // NVIDIA's recipes of 2025 and 2026 for Megatron-LM: Megatron-Bridge's and those of MLPerf.
  FrameworkHabits bridge = habits[0];
  bridge.name = "megatron-bridge";
  bridge.grouped_share = 0.57;
  bridge.tensor_overlap = 0.76;
  habits.push_back(std::move(bridge));
  FrameworkHabits fsdp = {.name = "fsdp",
                          .kernel_share = 0.92,
                          .elementwise = 0.58,
                          .layer_host_micros = 190,
                          .gradient_overlap = 0.5,
                          .parameter_overlap = 0.3,
                          .network_step_micros = 22,
                          .network_share = 0.33,
                          .step_micros = 64000,
                          .gathers_inputs_again = false,
                          .fuses_weight_gradients = false,
                          .has_hopper_attention = false,
                          .zero = {2, 3},
                          .has_tensor_parallel = false,
                          .has_pipelines = false,
                          .interleaves = false,
                          .has_context_parallel = false,
                          .orders_ranks = false};
  FrameworkHabits torchtitan = fsdp;
  torchtitan.name = "torchtitan";
  torchtitan.zero = {3};
  torchtitan.has_tensor_parallel = torchtitan.has_pipelines = torchtitan.shards_in_pipelines = true;
  torchtitan.interleaves = torchtitan.has_context_parallel = true;
  torchtitan.recomputes_layers = false;
  torchtitan.memory = TrainingFramework::kTorchtitan;
  FrameworkHabits pytorch = torchtitan;  // its DDP, fully_shard, parallelize_module and pipelining
  pytorch.name = "pytorch";
  pytorch.zero = {0, 1, 2, 3};
  pytorch.recomputes_layers = true;
  pytorch.has_context_parallel = false;
  pytorch.step_micros = 0;  // FSDP's is of large Transformers
  pytorch.memory = TrainingFramework::kMegatron;
  FrameworkHabits deepspeed = fsdp;  // nothing measured is at hand
  deepspeed.name = "deepspeed";
  deepspeed.zero = {0, 1, 2, 3};
  habits.push_back(std::move(fsdp));
  habits.push_back(std::move(deepspeed));
  habits.push_back(std::move(torchtitan));
  habits.push_back(std::move(pytorch));
  return habits;
}

const std::vector<FrameworkHabits>& AllHabits() {
  static const std::vector<FrameworkHabits> habits = MakeAllHabits();
  return habits;
}

double Number(std::int64_t value) { return static_cast<double>(value); }

// From a rank to that of the next stage.
std::int64_t PipelineStride(const TrainingSetup& setup) {
  return setup.tp * setup.cp * (setup.pipeline_before_data ? 1 : setup.dp);
}

// The rate of products and attention in a step that runs for long, relative to that of kernels that were measured
// alone: GPUs lower their clocks when they draw all of their power for long. The large products of a GB200, whose
// curves a GB300 has too, were measured at a lowered clock. docs/results/plan.md says on which rows each was fitted.
double SustainedShare(std::string_view device) {
  struct Sustained {
    std::string_view device;  // the beginning of a kind's name
    double share;
  };
  constexpr Sustained kSustained[] = {{"a100", 0.80},  {"h100", 0.74}, {"h200", 0.74}, {"b200", 0.66},
                                      {"gb200", 0.98}, {"b300", 0.80}, {"gb300", 1.32}};
  constexpr double kOthers = 0.75;
  for (const Sustained& of : kSustained) {
    if (device.starts_with(of.device)) return of.share;
  }
  return kOthers;
}

// The same of products in fewer bits, relative to products in half precision. Fitted as docs/results/plan.md says.
double RecipeShare(ProductRecipe recipe) {
  switch (recipe) {
    case ProductRecipe::kFp8:
      return 1.10;
    case ProductRecipe::kMxfp8:
      return 1.04;
    case ProductRecipe::kNvfp4:
      return 0.60;
    case ProductRecipe::kWhole:
      break;
  }
  return 1;
}

// Bytes that the cast of one number of half precision moves, to factors by rows and by columns. A scale of a tensor
// needs a pass over it first, to find its largest number.
double CastBytes(ProductRecipe recipe) {
  switch (recipe) {
    case ProductRecipe::kFp8:
      return 2 + 2 + 2 * 1;
    case ProductRecipe::kMxfp8:
      return 2 + 2 * (1 + 1.0 / 32);
    case ProductRecipe::kNvfp4:
      return 2 + 2 + 2 * (0.5 + 1.0 / 16);
    case ProductRecipe::kWhole:
      break;
  }
  return 0;
}

// How much longer FlashAttention-2 takes on a Hopper GPU than the kernels made for it, which the curves describe: up to
// twice as long, and the less so the shorter the sequence (Shah et al. 2024, FlashAttention-3, section 4.1). Both
// numbers are fitted on half of llm-foundry's rows, within the range of that paper (docs/results/plan.md).
double FlashAttention2Factor(std::string_view device, double keys) {
  if (!device.starts_with("h100") && !device.starts_with("h200")) return 1;
  constexpr double kLong = 2;
  constexpr double kHalfOfIt = 4096;  // keys
  return 1 + (kLong - 1) * keys / (keys + kHalfOfIt);
}

// How much longer than `device` a pass takes that the host needs `host` to launch. See FrameworkHabits::host_exponent.
double WaitingFor(double host, double device, double exponent) {
  if (exponent == 0 || device <= 0) return std::max(0.0, host - device);
  return device * (std::pow(1 + std::pow(host / device, exponent), 1 / exponent) - 1);
}

constexpr double kHalf = 2;    // bytes of a number in half precision
constexpr double kSingle = 4;  // in f32

}  // namespace

const FrameworkHabits* FindFrameworkHabits(std::string_view name) {
  const auto found = std::ranges::find(AllHabits(), name, &FrameworkHabits::name);
  return found == AllHabits().end() ? nullptr : &*found;
}

std::vector<std::string_view> FrameworkNames() {
  std::vector<std::string_view> names;
  for (const FrameworkHabits& habits : AllHabits()) names.push_back(habits.name);
  return names;
}

const FrameworkHabits& NamedFramework(const std::string& name, const std::string& place) {
  if (const FrameworkHabits* const habits = FindFrameworkHabits(name)) return *habits;
  const std::vector<std::string_view> names = FrameworkNames();
  throw InputError(place, fmt::format("is {} ({}){}", Quoted(name), fmt::join(names, ", "),
                                      DidYouMean(name, std::vector<std::string>(names.begin(), names.end()))));
}

PassTime& PassTime::operator+=(const PassTime& other) {
  products += other.products;
  elementwise += other.elementwise;
  tensor += other.tensor;
  experts += other.experts;
  weights += other.weights;
  waiting += other.waiting;
  return *this;
}

PassTime PassTime::operator*(double factor) const {
  PassTime scaled = *this;
  for (double* part :
       {&scaled.products, &scaled.elementwise, &scaled.tensor, &scaled.experts, &scaled.weights, &scaled.waiting}) {
    *part *= factor;
  }
  return scaled;
}

StepTimer::Passes& StepTimer::Passes::operator+=(const Passes& other) {
  forward += other.forward;
  backward += other.backward;
  return *this;
}

// Adds up the kernels and collectives of a piece of the network.
struct StepTimer::Piece {
  Piece(const PlanMachine& of_machine, const FrameworkHabits& of_habits, const TrainingSetup& of_setup)
      : machine(of_machine), habits(of_habits), setup(of_setup), network(of_setup.network) {
    const Precision precision = setup.number_bytes == 4 ? Precision::kTf32 : Precision::kBf16;
    element = Number(setup.number_bytes);
    rows = Number(setup.micro_batch) * Number(network.sequence) / Number(setup.cp);
    local_rows = setup.sequence_parallel ? rows / Number(setup.tp) : rows;
    const double share = habits.kernel_share * SustainedShare(machine.device.name);
    whole = {.precision = precision, .element = element, .share = share};
    of_weights = {.precision = PrecisionOf(setup),
                  .element = setup.factor_bytes(),
                  .cast_bytes = CastBytes(setup.products),
                  .share = share * RecipeShare(setup.products)};
    tensor_group = machine.GroupOf(setup.tp, 1);
  }

  // How the factors of a product are given.
  struct Factors {
    Precision precision = Precision::kBf16;
    double element = kHalf;  // bytes
    double cast_bytes = 0;   // moved to make a number of an activation such a factor
    double share = 1;        // of the measured rate that is sustained
  };

  double Micros(const OpShape& shape, double bytes) const { return Micros(shape, bytes, whole); }
  double Micros(const OpShape& shape, double bytes, const Factors& factors) const {
    const bool is_product =
        std::holds_alternative<ProductShape>(shape) || std::holds_alternative<AttentionShape>(shape);
    const double slower = is_product ? 1 / factors.share : 1;
    if (const auto curved = CurveMicros(machine.device, factors.precision, shape, bytes)) {
      // What was measured may have run at a lower clock than a step does, but never above the peak.
      const auto* const product = std::get_if<ProductShape>(&shape);
      const double flop = product != nullptr ? 2 * product->batch * product->m * product->n * product->k : 0;
      const double least = flop / (RateOf(machine.device, factors.precision).peak.count / 1e6);
      return std::max(least, slower * curved->time.micros);
    }
    const PrecisionRate rate = RateOf(machine.device, factors.precision);
    const auto share = [](const auto& shares, OpClass of, double otherwise) {
      const double value = shares[static_cast<std::size_t>(of)];
      return value > 0 ? value : otherwise;
    };
    constexpr double kUsual = 0.7;
    const auto streamed = [&](double moved, OpClass of) {
      return moved / (Number(machine.device.memory_bandwidth.count) / 1e6) /
             share(machine.device.bandwidth_efficiency, of, kUsual);
    };
    double micros = 0;
    if (const auto* const product = std::get_if<ProductShape>(&shape)) {
      const double flop = 2 * product->batch * product->m * product->n * product->k;
      const double moved = product->batch * (factors.element * (product->m + product->n) * product->k +
                                             element * product->m * product->n);
      micros = std::max(flop / (rate.peak.count / 1e6) / share(rate.efficiency, OpClass::kMatrixProduct, kUsual),
                        streamed(moved, OpClass::kMatrixProduct));
    } else if (const auto* const attention = std::get_if<AttentionShape>(&shape)) {
      const double pairs =
          attention->batch * attention->heads * attention->queries * attention->keys * (attention->causal ? 0.5 : 1);
      const double flop = (attention->backward ? 10 : 4) * pairs * attention->head_dim;
      micros = flop / (rate.peak.count / 1e6) / share(rate.efficiency, OpClass::kAttention, 0.5);
    } else {
      micros = streamed(bytes, OpClass::kElementwise);
    }
    return slower * (machine.device.launch_micros + micros);
  }

  // `parts` products with weights, of `m` rows each, and the two of their backward passes.
  void Product(double m, double n, double k, double parts = 1) { Product(m, n, k, parts, of_weights); }
  // One that is as precise as everything else, whatever the recipe.
  void WholeProduct(double m, double n, double k) { Product(m, n, k, 1, whole); }
  void Product(double m, double n, double k, double parts, const Factors& factors) {
    const double grouped = parts > 1 && !setup.casts_products() ? 1 / habits.grouped_share : 1;
    const auto product = [&](double rows_of, double columns, double sums) {
      ProductShape shape = {.batch = parts, .m = rows_of, .n = columns, .k = sums};
      if (factors.element != element) {
        shape.moved_bytes = parts * (factors.element * (rows_of + columns) * sums + element * rows_of * columns);
      }
      return grouped * Micros(shape, 0, factors);
    };

    forward.products += product(m, n, k);
    backward.products += product(m, k, n);
    const double weights = parts * n * k;
    const double gradient = Number(setup.gradient_bytes);
    ProductShape of_gradient = {.batch = parts, .m = n, .n = k, .k = m};
    if (habits.fuses_weight_gradients) {
      of_gradient.moved_bytes = factors.element * parts * m * (n + k) + 2 * gradient * weights;
    }
    backward.products += grouped * Micros(of_gradient, 0, factors);
    if (factors.cast_bytes > 0) {
      forward.elementwise += Micros(OpShape(), factors.cast_bytes * parts * m * k);
      backward.elementwise += Micros(OpShape(), factors.cast_bytes * parts * m * n);
    }
    if (!habits.fuses_weight_gradients) {
      backward.elementwise += Micros(OpShape(), (element + 2 * gradient) * weights);
    }
  }

  // Moves so many numbers in the forward and in the backward pass.
  void Elementwise(double forward_numbers, double backward_numbers) {
    if (forward_numbers > 0) {
      forward.elementwise += Micros(OpShape(), habits.elementwise * element * forward_numbers);
    }
    if (backward_numbers > 0) {
      backward.elementwise += Micros(OpShape(), habits.elementwise * element * backward_numbers);
    }
  }

  void Norm(double of_rows, double width) {
    const RowsShape shape = {.columns = width};
    forward.elementwise += Micros(shape, 2 * element * of_rows * width);
    backward.elementwise += Micros(shape, 3 * element * of_rows * width);
  }

  // What the backward pass does, a gather of the inputs is the scatter of their gradients.
  void TensorExchange(CollectiveKind forward_kind, CollectiveKind backward_kind, double numbers) {
    if (setup.tp == 1) return;
    TensorForward(forward_kind, element * numbers);
    TensorBackward(backward_kind, element * numbers);
  }
  // In front of a product whose weights are divided by outputs.
  void EnterTensorPart() {
    const double numbers = rows * Number(network.hidden);
    if (setup.sequence_parallel) {
      TensorExchange(CollectiveKind::kAllGather, CollectiveKind::kReduceScatter, numbers);
      // The backward pass gathers the inputs once more, for the gradients of weights.
      std::vector<RankTraffic> unseen;
      hidden_gathers += Exchange(CollectiveKind::kAllGather, tensor_group, "tensor", element * numbers,
                                 habits.gathers_inputs_again ? &backward_traffic : &unseen);
    } else if (setup.tp > 1) {
      TensorBackward(CollectiveKind::kAllReduce, element * numbers);
    }
  }
  void LeaveTensorPart() {
    const double numbers = rows * Number(network.hidden);
    if (setup.sequence_parallel) {
      TensorExchange(CollectiveKind::kReduceScatter, CollectiveKind::kAllGather, numbers);
    } else if (setup.tp > 1) {
      TensorForward(CollectiveKind::kAllReduce, element * numbers);
    }
  }
  void TensorForward(CollectiveKind kind, double bytes) {
    forward.tensor += Exchange(kind, tensor_group, "tensor", bytes, &forward_traffic);
  }
  void TensorBackward(CollectiveKind kind, double bytes) {
    backward.tensor += Exchange(kind, tensor_group, "tensor", bytes, &backward_traffic);
  }
  double Exchange(CollectiveKind kind, const RankGroup& group, std::string_view name, double bytes,
                  std::vector<RankTraffic>* traffic) const {
    if (group.ranks > 1) AddTraffic({.group = name, .kind = kind, .calls = 1, .bytes = bytes}, traffic);
    return CollectiveMicros(machine, kind, group, bytes, habits.network_step_micros);
  }

  void Attention(double heads, double key_heads, double head_dim, double key_width, std::int64_t window) {
    AttentionShape shape = {.batch = Number(setup.micro_batch),
                            .queries = Number(network.sequence),
                            .keys = Number(network.sequence),
                            .heads = heads,
                            .key_heads = std::min(heads, key_heads),
                            .head_dim = head_dim,
                            .window = Number(window),
                            .causal = !network.is_bert};
    if (setup.attention == AttentionKernel::kUnfused) {
      UnfusedAttention(shape);
      return;
    }
    // Each rank of context parallelism has as much of the causal mask as the others.
    const double keys = window > 0 ? std::min(Number(window), shape.keys) : shape.keys;
    const double share =
        (habits.has_hopper_attention ? 1 : FlashAttention2Factor(machine.device.name, keys)) / Number(setup.cp);
    const double once = share * Micros(shape, 0);
    shape.backward = true;
    const double back = share * Micros(shape, 0);
    forward.products += once;
    backward.products += back;
    if (setup.cp == 1) return;
    // The parts of each step of the ring are added up.
    const double merged = 3 * rows * heads * head_dim * (Number(setup.cp) - 1);
    Elementwise(merged, merged);
    // Keys and values travel around the ring while the attention to those before them runs; the backward pass sends
    // their gradients too.
    const double bytes = element * rows * key_width * (Number(setup.cp) - 1);
    const double steps = (Number(setup.cp) - 1) * MessageMicros(machine, setup.tp, 0);
    const double ring = steps + MessageMicros(machine, setup.tp, bytes);
    RankTraffic sent = {
        .group = "context", .kind = CollectiveKind::kSendReceive, .calls = Number(setup.cp) - 1, .bytes = bytes};
    AddTraffic(sent, &forward_traffic);
    for (int i = 0; i < 2; ++i) AddTraffic(sent, &backward_traffic);
    forward.tensor += std::max(0.0, ring - once);
    backward.tensor += std::max(0.0, 2 * ring - back);
  }

  // Scores are a tensor, whole under a causal mask too, and so are their softmax and what dropout leaves of it.
  void UnfusedAttention(const AttentionShape& shape) {
    const double heads = shape.batch * shape.heads;
    const double scores = heads * shape.queries * shape.keys;
    const auto product = [&](double m, double n, double k) {
      return Micros(ProductShape{.batch = heads, .m = m, .n = n, .k = k}, 0);
    };
    forward.products += product(shape.queries, shape.keys, shape.head_dim);
    forward.products += product(shape.queries, shape.head_dim, shape.keys);
    backward.products += 2 * product(shape.keys, shape.head_dim, shape.queries);
    backward.products += product(shape.queries, shape.head_dim, shape.keys);
    backward.products += product(shape.queries, shape.keys, shape.head_dim);
    const RowsShape rows_of_scores = {.columns = shape.keys, .is_softmax = true};
    forward.elementwise += Micros(rows_of_scores, 2 * element * scores);
    backward.elementwise += Micros(rows_of_scores, 3 * element * scores);
    if (setup.attention_dropout) Elementwise(2.5 * scores, 2.5 * scores);  // with a mask of bytes
  }

  void AttentionBlock(std::int64_t window) {
    const double tp = Number(setup.tp);
    const double hidden = Number(network.hidden);
    const double heads = Number(network.heads) / tp;
    const double key_heads = std::max(1.0, Number(network.query_groups) / tp);
    const double queries = heads * Number(network.head_dim);
    const double keys = key_heads * Number(network.head_dim);
    Norm(local_rows, hidden);
    EnterTensorPart();
    Product(rows, queries + 2 * keys, hidden);
    if (network.norms_queries) {
      Norm(rows * heads, Number(network.head_dim));
      Norm(rows * key_heads, Number(network.head_dim));
    }
    if (network.has_rope) Elementwise(2 * rows * (queries + keys), 2 * rows * (queries + keys));
    Attention(heads, key_heads, Number(network.head_dim), 2 * keys, window);
    Product(rows, hidden, queries);
    LeaveTensorPart();
    Residual();
  }

  void LatentAttentionBlock() {
    const double tp = Number(setup.tp);
    const double hidden = Number(network.hidden);
    const double heads = Number(network.heads) / tp;
    const double query = Number(network.nope_dim + network.rope_dim);
    const double value = Number(network.value_dim);
    Norm(local_rows, hidden);
    if (network.query_rank > 0) {
      Product(local_rows, Number(network.query_rank), hidden);
      Norm(local_rows, Number(network.query_rank));
      Product(rows, heads * query, Number(network.query_rank));
    } else {
      Product(rows, heads * query, hidden);
    }
    Product(local_rows, Number(network.key_rank + network.rope_dim), hidden);
    Norm(local_rows, Number(network.key_rank));
    EnterTensorPart();
    Product(rows, heads * (Number(network.nope_dim) + value), Number(network.key_rank));
    Elementwise(4 * rows * heads * query, 4 * rows * heads * query);
    Attention(heads, heads, (query + value) / 2, heads * (query + value), 0);
    Product(rows, hidden, heads * value);
    LeaveTensorPart();
    Residual();
  }

  void Residual() {
    const double numbers = local_rows * Number(network.hidden);
    Elementwise(3 * numbers, 3 * numbers);
  }

  void Activation(double of_rows, double width) {
    const double gated = network.gated() ? 1 : 0;
    Elementwise((2 + gated) * of_rows * width, (3 + 2 * gated) * of_rows * width);
  }

  void FeedForward(double of_rows, double width) {
    const double hidden = Number(network.hidden);
    Product(of_rows, (network.gated() ? 2 : 1) * width, hidden);
    Activation(of_rows, width);
    Product(of_rows, hidden, width);
  }

  void DenseBlock() {
    Norm(local_rows, Number(network.hidden));
    EnterTensorPart();
    FeedForward(rows, Number(network.d_ff) / Number(setup.tp));
    LeaveTensorPart();
    Residual();
  }

  // Each rank sends its tokens to the ranks of their experts, which are `ep` apart from each other's copies.
  void ExpertBlock() {
    const double hidden = Number(network.hidden);
    Norm(local_rows, hidden);
    if (network.d_shared_expert > 0) {
      EnterTensorPart();
      FeedForward(rows, Number(network.d_shared_expert) / Number(setup.tp));
      LeaveTensorPart();
    }
    WholeProduct(local_rows, Number(network.experts), hidden);
    const double tokens = setup.sequence_parallel || setup.tp == 1 ? local_rows : rows / Number(setup.tp);
    const double copies = tokens * Number(network.top_k);
    const RankGroup group = machine.GroupOf(setup.ep, setup.etp);
    const RankGroup expert_tensor_group = machine.GroupOf(setup.etp, 1);
    const double bytes = element * copies * hidden;
    for (int i = 0; i < 2; ++i) {  // there and back
      const auto exchange = [&](CollectiveKind forward_kind, CollectiveKind backward_kind, const RankGroup& of,
                                double message) {
        forward.experts += Exchange(forward_kind, of, "expert", message, &forward_traffic);
        backward.experts += Exchange(backward_kind, of, "expert", message, &backward_traffic);
      };
      exchange(CollectiveKind::kAllToAll, CollectiveKind::kAllToAll, group, bytes);
      const double gathered = bytes * Number(setup.etp);
      const auto kind = i == 0 ? CollectiveKind::kAllGather : CollectiveKind::kReduceScatter;
      const auto reverse = i == 0 ? CollectiveKind::kReduceScatter : CollectiveKind::kAllGather;
      exchange(kind, reverse, expert_tensor_group, gathered);
      Elementwise(2 * copies * hidden, 2 * copies * hidden);
    }
    const double experts = std::max(1.0, Number(network.experts) / Number(setup.ep));
    const double of_expert = copies * Number(setup.etp) / experts * network.load_imbalance;
    const double width = Number(network.d_expert) / Number(setup.etp);
    Product(of_expert, (network.gated() ? 2 : 1) * width, hidden, experts);
    Activation(of_expert * experts, width);
    Product(of_expert, hidden, width, experts);
    Residual();
  }

  // The kernels of modules that a graph has, for another micro-batch than the graph's, and a rank's part of them.
  void Modules(const ModulePiece& modules) {
    const double grown = Number(setup.micro_batch) / Number(network.modules->batch);
    for (const ModuleKernel& kernel : modules.kernels) {
      const double parts = kernel.is_divided ? Number(setup.tp) : 1;
      const double bytes = (kernel.bytes * grown + kernel.fixed_bytes) / parts;
      OpShape shape = kernel.shape;
      if (auto* const product = std::get_if<ProductShape>(&shape)) {
        if (double* const size = SizeOf(product, kernel.grows)) *size *= grown;
        if (double* const size = SizeOf(product, kernel.divided_size)) *size /= parts;
        product->moved_bytes *= grown / parts;
      } else if (auto* const attention = std::get_if<AttentionShape>(&shape)) {
        attention->batch *= grown;
        attention->heads /= parts;
        attention->key_heads /= parts;
      } else if (auto* const indexed = std::get_if<IndexedShape>(&shape)) {
        indexed->elements *= grown / parts;
      }
      Factors factors = whole;
      factors.precision = kernel.precision;
      PassTime& pass = kernel.is_backward ? backward : forward;
      double micros = Micros(shape, bytes, factors);
      const bool is_product =
          std::holds_alternative<ProductShape>(shape) || std::holds_alternative<AttentionShape>(shape);
      if (!is_product && kernel.flop > 0) {  // of ops without curves: recurrences, experts
        constexpr double kUsual = 0.7;
        micros = std::max(
            micros, kernel.flop * grown / parts / kUsual / (RateOf(machine.device, kernel.precision).peak.count / 1e6));
      }
      (is_product ? pass.products : pass.elementwise) += micros;
    }
    if (setup.tp == 1) return;
    for (const double bytes : modules.forward_sums) TensorForward(CollectiveKind::kAllReduce, bytes * grown);
    for (const double bytes : modules.backward_sums) TensorBackward(CollectiveKind::kAllReduce, bytes * grown);
  }
  static double* SizeOf(ProductShape* product, ProductSize size) {
    switch (size) {
      case ProductSize::kNone:
        return nullptr;
      case ProductSize::kBatch:
        return &product->batch;
      case ProductSize::kM:
        return &product->m;
      case ProductSize::kN:
        return &product->n;
      case ProductSize::kK:
        return &product->k;
    }
    return nullptr;
  }
  // Of the host, for the kernels of modules: a layer of a Transformer, which the framework's constant is of, has 34 in
  // its forward pass.
  double ModuleHostMicros(const ModulePiece& modules, bool is_backward) const {
    constexpr double kKernelsOfLayer = 34;
    const auto kernels = std::ranges::count(modules.kernels, is_backward, &ModuleKernel::is_backward);
    return habits.layer_host_micros * static_cast<double>(kernels) / kKernelsOfLayer;
  }

  void Layer(const LayerKind& kind) {
    if (kind.module >= 0) return Modules(network.modules->layers[static_cast<std::size_t>(kind.module)]);
    if (kind.mixer == Mixer::kMamba) throw InputError("network", "has Mamba layers, whose time is not modelled");
    if (kind.mixer == Mixer::kAttention) AttentionBlock(kind.window);
    if (kind.cross_attention) AttentionBlock(0);
    if (kind.mixer == Mixer::kLatentAttention) LatentAttentionBlock();
    if (kind.feed_forward == FeedForwardKind::kDense) DenseBlock();
    if (kind.feed_forward == FeedForwardKind::kExperts) ExpertBlock();
  }

  void Embedding() {
    if (network.modules) return Modules(network.modules->before);
    const double numbers = rows * Number(network.hidden);
    Elementwise(2 * numbers, 3 * numbers);
    LeaveTensorPart();
  }

  // The last norm, the head, and a cross-entropy that computes in f32.
  void Loss() {
    if (network.modules) return Modules(network.modules->after);
    const double vocabulary = Number(network.vocabulary) / Number(setup.tp);
    Norm(local_rows, Number(network.hidden));
    EnterTensorPart();
    WholeProduct(rows, vocabulary, Number(network.hidden));
    constexpr double kForwardPasses = 7;  // of half-precision logits: to f32, the largest, exponentials, their sum
    constexpr double kBackwardPasses = 5;
    Elementwise(kForwardPasses * rows * vocabulary, kBackwardPasses * rows * vocabulary);
  }

  // What is hidden is hidden, and the device waits for the host where that is slower.
  Passes Finish() const {
    Passes passes = {forward, backward};
    passes.backward.tensor += std::max(0.0, hidden_gathers - backward.products / 2);
    for (PassTime* pass : {&passes.forward, &passes.backward}) {
      pass->tensor -= std::min(pass->tensor, pass->products) * habits.tensor_overlap;
    }
    return passes;
  }

  const PlanMachine& machine;
  const FrameworkHabits& habits;
  const TrainingSetup& setup;
  const NetworkShape& network;
  double element = kHalf;
  Factors whole;          // of attention, the router, the head
  Factors of_weights;     // of all other products
  double rows = 0;        // tokens of a micro-batch on a rank, within tensor-parallel parts
  double local_rows = 0;  // between them
  RankGroup tensor_group;
  PassTime forward;
  PassTime backward;
  std::vector<RankTraffic> forward_traffic;
  std::vector<RankTraffic> backward_traffic;
  double hidden_gathers = 0;  // beside the products of the backward pass
};

StepTimer::StepTimer(const PlanMachine& machine, const FrameworkHabits& habits) : machine_(machine), habits_(habits) {
  machine_.between.bandwidth_gb_per_s *= habits.network_share;
}

StepTimer::Key StepTimer::KeyOf(PieceKind piece, const LayerKind& layer, const TrainingSetup& setup) const {
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
          PipelineCrosses(setup) ? 1 : 0,
          static_cast<std::int64_t>(setup.products)};
}

const StepTimer::Passes& StepTimer::Cached(const Key& key, auto make) {
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

bool StepTimer::PipelineCrosses(const TrainingSetup& setup) const {
  return setup.pp > 1 && PipelineStride(setup) * setup.pp > machine_.gpus_per_node;
}

const StepTimer::Passes& StepTimer::LayerPasses(const TrainingSetup& setup, std::size_t layer) {
  const LayerKind& kind = setup.network.layers[layer];
  return Cached(KeyOf(PieceKind::kLayer, kind, setup), [&] {
    if (kind.module >= 0)
      return ModulePasses(setup, setup.network.modules->layers[static_cast<std::size_t>(kind.module)]);
    Piece piece(machine_, habits_, setup);
    piece.Layer(kind);
    Passes passes = piece.Finish();
    double host = habits_.layer_host_micros * (1 + habits_.tensor_host_share * Number(setup.tp - 1));
    if (PipelineCrosses(setup)) {
      const double nodes = Number(setup.tp) / Number(piece.tensor_group.per_node);
      host = std::max(host, habits_.pipeline_host_micros * (1 + Number(setup.tp)) * std::sqrt(nodes));
    }
    for (PassTime* pass : {&passes.forward, &passes.backward}) {
      pass->waiting = WaitingFor(host, pass->micros(), habits_.host_exponent);
    }
    return passes;
  });
}

StepTimer::Passes StepTimer::ModulePasses(const TrainingSetup& setup, const ModulePiece& modules) const {
  Piece piece(machine_, habits_, setup);
  piece.Modules(modules);
  Passes passes = piece.Finish();
  passes.forward.waiting = std::max(0.0, piece.ModuleHostMicros(modules, false) - passes.forward.micros());
  passes.backward.waiting = std::max(0.0, piece.ModuleHostMicros(modules, true) - passes.backward.micros());
  return passes;
}

StepTimer::Passes StepTimer::EmbeddingPasses(const TrainingSetup& setup) const {
  if (setup.network.modules) return ModulePasses(setup, setup.network.modules->before);
  Piece piece(machine_, habits_, setup);
  piece.Embedding();
  return piece.Finish();
}

StepTimer::Passes StepTimer::LossPasses(const TrainingSetup& setup) const {
  if (setup.network.modules) return ModulePasses(setup, setup.network.modules->after);
  Piece piece(machine_, habits_, setup);
  piece.Loss();
  return piece.Finish();
}

StepTimer::Passes StepTimer::StagePasses(const TrainingSetup& setup, std::size_t stage_number) {
  Passes passes;
  const StageShape& stage = setup.stages[stage_number];
  const Recompute& recompute = setup.recompute;
  const bool gathers = setup.shards_weights;
  const std::int64_t shards = setup.dp * setup.cp / setup.optimizer_instances;
  const RankGroup shard_group = machine_.GroupOf(shards, setup.tp);
  const double layer_bytes =
      Number(GatheredUnitsOf(setup, stage_number % static_cast<std::size_t>(setup.pp)).layer_bytes);
  for (std::size_t i = 0; i < stage.layers.size(); ++i) {
    Passes layer = LayerPasses(setup, stage.layers[i]);
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
  if (stage.has_embedding)
    passes += Cached(KeyOf(PieceKind::kEmbedding, LayerKind(), setup), [&] { return EmbeddingPasses(setup); });
  if (stage.has_loss) passes += Cached(KeyOf(PieceKind::kLoss, LayerKind(), setup), [&] { return LossPasses(setup); });
  if (stage.has_prediction) {
    for (std::size_t i = 0; i < setup.network.prediction_layers; ++i) {
      passes += LayerPasses(setup, setup.network.layers.size() - 1);
      passes += Cached(KeyOf(PieceKind::kLoss, LayerKind(), setup), [&] { return LossPasses(setup); });
    }
  }
  return passes;
}

std::vector<std::int64_t> StepTimer::BalancedStages(const TrainingSetup& setup) {
  const auto micros = [](const Passes& passes) { return passes.forward.micros() + passes.backward.micros(); };
  std::vector<double> layers;
  for (std::size_t i = 0; i < setup.network.layers.size(); ++i) {
    Passes layer = LayerPasses(setup, i);
    if (setup.recompute.kind == RecomputeKind::kFull) layer.backward += layer.forward;
    layers.push_back(micros(layer));
  }
  const double first =
      micros(Cached(KeyOf(PieceKind::kEmbedding, LayerKind(), setup), [&] { return EmbeddingPasses(setup); }));
  const double loss = micros(Cached(KeyOf(PieceKind::kLoss, LayerKind(), setup), [&] { return LossPasses(setup); }));
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
  const Piece piece(machine_, habits_, setup);
  const double state = most.shared / divided + most.of_experts / expert_divided;
  const double gradients = setup.shards_gradients || setup.shards_weights ? state : most.sum();
  step->optimizer = piece.Micros(OpShape(), kBytesOfAdam * state + gradient * (state + gradients));
}

std::vector<StageTime> StepTimer::StageTimes(const TrainingSetup& setup) {
  std::vector<StageTime> times;
  for (std::size_t i = 0; i < setup.stages.size(); ++i) {
    const Passes passes = StagePasses(setup, i);
    times.push_back({.forward = passes.forward.micros(), .backward = passes.backward.micros()});
  }
  return times;
}

namespace {

// The largest of a micro-batch between two stages, before tensor parallelism divides it.
double StageMessageBytes(const TrainingSetup& setup) {
  const double rows = Number(setup.micro_batch) * Number(setup.network.sequence) / Number(setup.cp);
  const ModuleNetwork* const modules = setup.network.modules.get();
  if (modules == nullptr) return Number(setup.number_bytes) * rows * Number(setup.network.hidden);
  double largest = 0;
  for (const StageShape& stage : setup.stages) {
    if (stage.layers.empty() || stage.has_loss) continue;
    const auto sent = static_cast<double>(modules->layers[stage.layers.back()].sent_bytes);
    largest = std::max(largest, sent * Number(setup.micro_batch) / Number(modules->batch));
  }
  return largest;
}

}  // namespace

double StepTimer::StageMessageMicros(const TrainingSetup& setup) const {
  if (setup.pp == 1) return 0;
  const double whole = StageMessageBytes(setup);
  // Tensor-parallel ranks send a part each. Without sequence parallelism they then gather the whole (Narayanan et al.
  // 2021, section 4.1).
  const double bytes = whole / Number(setup.tp);
  const double gather = setup.sequence_parallel
                            ? 0
                            : CollectiveMicros(machine_, CollectiveKind::kAllGather, machine_.GroupOf(setup.tp, 1),
                                               whole, habits_.network_step_micros);
  return habits_.message_micros + MessageMicros(machine_, PipelineStride(setup), bytes) + gather;
}

const StepTimer::PieceTraffic& StepTimer::TrafficOf(PieceKind kind, const LayerKind& layer,
                                                    const TrainingSetup& setup) {
  const Key key = KeyOf(kind, layer, setup);
  const auto found = traffic_.find(key);
  if (found != traffic_.end()) return found->second;
  Piece piece(machine_, habits_, setup);
  if (kind == PieceKind::kEmbedding) piece.Embedding();
  if (kind == PieceKind::kLayer) piece.Layer(layer);
  if (kind == PieceKind::kLoss) piece.Loss();
  return traffic_.emplace(key, PieceTraffic{piece.forward_traffic, piece.backward_traffic}).first->second;
}

std::vector<RankTraffic> StepTimer::Traffic(const TrainingSetup& setup, std::size_t pipeline_rank) {
  std::vector<RankTraffic> traffic;
  const double micro_batches = Number(setup.micro_batches);
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
  const double gradient = Number(setup.gradient_bytes);
  const double number = Number(setup.number_bytes);
  const bool has_replicas = setup.dp * setup.cp > 1;
  // FSDP gathers a unit for its forward pass and, unless it keeps it as it does what is outside of layers, for the
  // backward pass again.
  const auto add_unit = [&](const StageShape& unit, double gatherings) {
    if (!setup.shards_weights || !has_replicas) return;
    const double elements = CountParameters(setup, unit).sum();
    add("data", CollectiveKind::kAllGather, gatherings * micro_batches, number * elements);
    add("data", CollectiveKind::kReduceScatter, micro_batches, gradient * elements);
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
      add_piece(PieceKind::kLayer, setup.network.layers.back(), false);
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
    add("pipeline", CollectiveKind::kSendReceive, ways * micro_batches, message / Number(setup.tp));
    if (setup.tp > 1 && !setup.sequence_parallel) {
      add("tensor", CollectiveKind::kAllGather, ways * micro_batches, message);
    }
  }
  if (setup.shards_weights || !has_replicas) return traffic;
  const Parameters own = ParametersOfRank(setup, pipeline_rank);
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

StepTime StepTimer::Time(const TrainingSetup& setup) {
  const Precision precision = PrecisionOf(setup);
  if (setup.casts_products() && machine_.device.precisions[static_cast<std::size_t>(precision)].peak.count <= 0) {
    throw InputError("precision", fmt::format("needs products in {}, for which the data sheet of {} has no rate",
                                              Name(precision), machine_.device.name));
  }
  std::vector<Passes> ranks(static_cast<std::size_t>(setup.pp));
  for (std::size_t i = 0; i < setup.stages.size(); ++i) ranks[i % ranks.size()] += StagePasses(setup, i);
  const double micro_batches = Number(setup.micro_batches);
  std::size_t slowest = 0;
  double sum = 0;
  const auto micros = [](const Passes& passes) { return passes.forward.micros() + passes.backward.micros(); };
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    sum += micros(ranks[i]);
    if (micros(ranks[i]) > micros(ranks[slowest])) slowest = i;
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
  if (PipelineCrosses(setup) && is_delayed) {
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
  const double samples = Number(setup.micro_batch) * Number(setup.micro_batches) * Number(setup.dp);
  if (network.modules) {
    double flop = 0;
    const auto add_kernels = [&](const ModulePiece& piece) {
      for (const ModuleKernel& kernel : piece.kernels) {
        if (const auto* const product = std::get_if<ProductShape>(&kernel.shape)) {
          flop += 2 * product->batch * product->m * product->n * product->k;
        } else if (const auto* const of = std::get_if<AttentionShape>(&kernel.shape)) {
          flop += (of->causal ? attention : 1) * (of->backward ? 8 : 4) * of->batch * of->heads * of->queries *
                  of->keys * of->head_dim;
        }
      }
    };
    add_kernels(network.modules->before);
    for (const ModulePiece& layer : network.modules->layers) add_kernels(layer);
    add_kernels(network.modules->after);
    return flop * samples / Number(network.modules->batch);
  }
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
  return kFlopOfStep * of_token * sequence * samples;
}

}  // namespace

Precision PrecisionOf(const TrainingSetup& setup) {
  switch (setup.products) {
    case ProductRecipe::kFp8:
    case ProductRecipe::kMxfp8:
      return Precision::kF8;
    case ProductRecipe::kNvfp4:
      return Precision::kF4;
    case ProductRecipe::kWhole:
      break;
  }
  return setup.number_bytes == 4 ? Precision::kTf32 : Precision::kBf16;
}

double ModelFlop(const TrainingSetup& setup) { return FlopWith(setup, 1); }
double LeastFlop(const TrainingSetup& setup) { return FlopWith(setup, 0.5); }

}  // namespace emplace::datasets
