#include "datasets/planner/layer_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/base/check.h"
#include "sim/cost/curves.h"

namespace emplace::datasets {
namespace {

double Number(std::int64_t value) { return static_cast<double>(value); }

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

// Bytes that the cast of one number of half precision moves, to factors by rows and by columns, or, beside frozen
// weights, whose gradients would need the others, to one of them. A scale of a tensor needs a pass over it first, to
// find its largest number.
double CastBytes(ProductRecipe recipe, double factors) {
  switch (recipe) {
    case ProductRecipe::kFp8:
      return 2 + 2 + factors * 1;
    case ProductRecipe::kMxfp8:
      return 2 + factors * (1 + 1.0 / 32);
    case ProductRecipe::kNvfp4:
      return 2 + 2 + factors * (0.5 + 1.0 / 16);
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

constexpr double kHalf = 2;  // bytes of a number in half precision

// Adds up the kernels and collectives of a piece of the network.
struct Piece {
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
                  .cast_bytes = CastBytes(setup.products, setup.lora.exist() ? 1 : 2),
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

  // `parts` products with weights, of `m` rows each, and the two of their backward passes. Of frozen weights one is
  // left, the gradient of the input, and the products of the adapters come in addition.
  using Adapters = std::vector<std::int64_t>;  // LoraAdapters::ColumnsOf
  void Product(double m, double n, double k, double parts = 1, const Adapters& adapters = {}) {
    Product(m, n, k, parts, of_weights);
    for (const std::int64_t columns : adapters) Adapt(m, Number(columns), k, parts);
  }
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
    if (factors.cast_bytes > 0) forward.elementwise += Micros(OpShape(), factors.cast_bytes * parts * m * k);
    if (passes_gradient) {
      backward.products += product(m, k, n);
      if (factors.cast_bytes > 0) backward.elementwise += Micros(OpShape(), factors.cast_bytes * parts * m * n);
    }
    if (setup.lora.exist()) return;
    const double weights = parts * n * k;
    const double gradient = Number(setup.gradient_bytes);
    ProductShape of_gradient = {.batch = parts, .m = n, .n = k, .k = m};
    if (habits.fuses_weight_gradients) {
      of_gradient.moved_bytes = factors.element * parts * m * (n + k) + 2 * gradient * weights;
    }
    const double for_weights = grouped * Micros(of_gradient, 0, factors);
    weight_gradients += for_weights;
    backward.products += for_weights;
    if (!habits.fuses_weight_gradients) {
      const double added = Micros(OpShape(), (element + 2 * gradient) * weights);
      backward.elementwise += added;
      weight_gradients += added;
    }
  }

  // An adapter beside `parts` products, whose factors are in half precision whatever the recipe: x A and its product
  // with B, which is scaled and added to `n` of the outputs; their gradients, and that of the input, which is added to
  // what comes through the frozen weights. With so few columns, these products take as long as moving their inputs.
  void Adapt(double m, double n, double k, double parts) {
    const double rank = Number(setup.lora.rank);
    const auto product = [&](double rows_of, double columns, double sums) {
      return Micros(ProductShape{.batch = parts, .m = rows_of, .n = columns, .k = sums}, 0);
    };
    const auto moved = [&](double numbers) { return Micros(OpShape(), element * parts * numbers); };
    constexpr double kScaled = 2;  // read and written
    constexpr double kAdded = 3;   // two are read, one is written
    forward.products += product(m, rank, k) + product(m, n, rank);
    forward.elementwise += moved((kScaled + kAdded) * m * n);
    const double of_weights_of_adapter = product(n, rank, m) + product(rank, k, m);
    weight_gradients += of_weights_of_adapter;
    backward.products += of_weights_of_adapter + product(m, rank, n);
    backward.elementwise += moved(kScaled * m * n);
    if (passes_gradient) {
      backward.products += product(m, k, rank);
      backward.elementwise += moved(kAdded * m * k);
    }
    passes_gradient = true;
  }

  // Moves so many numbers in the forward and in the backward pass.
  void Elementwise(double forward_numbers, double backward_numbers) {
    if (forward_numbers > 0) {
      forward.elementwise += Micros(OpShape(), habits.elementwise * element * forward_numbers);
    }
    if (backward_numbers > 0 && passes_gradient) {
      backward.elementwise += Micros(OpShape(), habits.elementwise * element * backward_numbers);
    }
  }

  void Norm(double of_rows, double width) {
    const RowsShape shape = {.columns = width};
    forward.elementwise += Micros(shape, 2 * element * of_rows * width);
    if (passes_gradient) backward.elementwise += Micros(shape, 3 * element * of_rows * width);
  }

  // What the backward pass does, a gather of the inputs is the scatter of their gradients.
  void TensorExchange(CollectiveKind forward_kind, CollectiveKind backward_kind, double numbers) {
    if (setup.tp == 1) return;
    TensorForward(forward_kind, element * numbers);
    TensorBackward(backward_kind, element * numbers);
  }
  // In front of a product whose weights are divided by outputs. `trains`: these weights, or adapters beside them.
  void EnterTensorPart(bool trains) {
    const double numbers = rows * Number(network.hidden);
    if (setup.sequence_parallel) {
      TensorExchange(CollectiveKind::kAllGather, CollectiveKind::kReduceScatter, numbers);
      if (!trains) return;
      // The backward pass gathers the inputs once more, for the gradients of weights.
      std::vector<RankTraffic> unseen;
      hidden_gathers += Exchange(CollectiveKind::kAllGather, tensor_group, "tensor", element * numbers,
                                 habits.gathers_inputs_again ? &traffic.backward : &unseen);
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
    forward.tensor += Exchange(kind, tensor_group, "tensor", bytes, &traffic.forward);
  }
  void TensorBackward(CollectiveKind kind, double bytes) {
    if (passes_gradient) backward.tensor += Exchange(kind, tensor_group, "tensor", bytes, &traffic.backward);
  }
  double Exchange(CollectiveKind kind, const RankGroup& group, std::string_view name, double bytes,
                  std::vector<RankTraffic>* rows_of_traffic) const {
    if (group.ranks > 1) AddTraffic({.group = name, .kind = kind, .calls = 1, .bytes = bytes}, rows_of_traffic);
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
    if (passes_gradient) backward.products += back;
    if (setup.cp == 1) return;
    // The parts of each step of the ring are added up.
    const double merged = 3 * rows * heads * head_dim * (Number(setup.cp) - 1);
    Elementwise(merged, merged);
    // Keys and values travel around the ring while the attention to those before them runs; the backward pass sends
    // their gradients too.
    const double bytes = element * rows * key_width * (Number(setup.cp) - 1);
    const double steps = (Number(setup.cp) - 1) * MessageMicros(machine, setup.tp, 0);
    const double ring = steps + MessageMicros(machine, setup.tp, bytes);
    const RankTraffic sent = {
        .group = "context", .kind = CollectiveKind::kSendReceive, .calls = Number(setup.cp) - 1, .bytes = bytes};
    AddTraffic(sent, &traffic.forward);
    forward.tensor += std::max(0.0, ring - once);
    if (!passes_gradient) return;
    for (int i = 0; i < 2; ++i) AddTraffic(sent, &traffic.backward);
    backward.tensor += std::max(0.0, 2 * ring - back);
  }

  void CoreAttention(double heads, double key_heads, double head_dim, double key_width, std::int64_t window) {
    core_attention += forward * -1;
    Attention(heads, key_heads, head_dim, key_width, window);
    core_attention += forward;
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
    const RowsShape rows_of_scores = {.columns = shape.keys, .is_softmax = true};
    forward.elementwise += Micros(rows_of_scores, 2 * element * scores);
    if (passes_gradient) {
      backward.products += 2 * product(shape.keys, shape.head_dim, shape.queries);
      backward.products += product(shape.queries, shape.head_dim, shape.keys);
      backward.products += product(shape.queries, shape.keys, shape.head_dim);
      backward.elementwise += Micros(rows_of_scores, 3 * element * scores);
    }
    if (setup.attention_dropout) Elementwise(2.5 * scores, 2.5 * scores);  // with a mask of bytes
  }

  void AttentionBlock(std::int64_t window) {
    const double tp = Number(setup.tp);
    const double hidden = Number(network.hidden);
    const double heads = Number(network.heads) / tp;
    const double key_heads = std::max(1.0, Number(network.query_groups) / tp);
    const double queries = heads * Number(network.head_dim);
    const double keys = key_heads * Number(network.head_dim);
    const Adapters adapters =
        setup.lora.ColumnsOf(AdaptedProduct::kQueriesKeysValues, {Columns(queries), Columns(keys), Columns(keys)});
    Norm(local_rows, hidden);
    EnterTensorPart(Trains(adapters));
    Product(rows, queries + 2 * keys, hidden, 1, adapters);
    if (network.norms_queries) {
      Norm(rows * heads, Number(network.head_dim));
      Norm(rows * key_heads, Number(network.head_dim));
    }
    if (network.has_rope) Elementwise(2 * rows * (queries + keys), 2 * rows * (queries + keys));
    CoreAttention(heads, key_heads, Number(network.head_dim), 2 * keys, window);
    Product(rows, hidden, queries, 1, setup.lora.ColumnsOf(AdaptedProduct::kAttentionOutput, {network.hidden}));
    LeaveTensorPart();
    Residual();
  }
  static std::int64_t Columns(double columns) { return static_cast<std::int64_t>(columns); }
  bool Trains(const Adapters& adapters) const { return !setup.lora.exist() || !adapters.empty(); }

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
    EnterTensorPart(Trains({}));
    Product(rows, heads * (Number(network.nope_dim) + value), Number(network.key_rank));
    Elementwise(4 * rows * heads * query, 4 * rows * heads * query);
    CoreAttention(heads, heads, (query + value) / 2, heads * (query + value), 0);
    Product(rows, hidden, heads * value, 1, setup.lora.ColumnsOf(AdaptedProduct::kAttentionOutput, {network.hidden}));
    LeaveTensorPart();
    Residual();
  }

  // The kernels of mamba-ssm's mamba_split_conv1d_scan_combined, between two products with weights. Bytes of a token,
  // with x, z and y as wide as the heads, B and C as wide as the groups' states, b a number's bytes, and a chunk of q
  // tokens with a state in f32:
  //   convolution of x, B and C: read and written;
  //   a chunk's states: x and B read, the states written; passed on: states read, and written with b;
  //   products of C and B: both read, q numbers in f32 for each group written;
  //   scan: those, x, C, z and the states read, y written, with and without the gate.
  // The norm of y, after it has been copied, reads and writes it. The backward pass computes the convolution, the
  // states and the products of C and B again, and reads and writes a gradient for each tensor.
  void MambaBlock() {
    const double tp = Number(setup.tp);
    const double hidden = Number(network.hidden);
    const double heads = Number(network.mamba_heads) / tp;
    const double inner = heads * Number(network.mamba_head_dim);
    const double groups = Number(network.mamba_groups) / tp;
    const double state = Number(network.mamba_state);  // as wide as B and as C of a group
    const double chunk = Number(network.mamba_chunk);
    Norm(local_rows, hidden);
    EnterTensorPart(Trains({}));
    Product(rows, 2 * inner + 2 * groups * state + heads, hidden);
    ExchangeHeads(2 * inner + 2 * groups * state + heads);
    constexpr double kFloat = 4;
    const double states = inner * state / chunk;  // numbers of a token
    const double convolved = 2 * element * (inner + 2 * groups * state);
    const double chunk_states = element * (inner + groups * state) + kFloat * states;
    const double passed = (kFloat + element) * states;
    const double pairs = 2 * element * groups * state + kFloat * groups * chunk;
    const double scanned = kFloat * groups * chunk + element * (2 * inner + groups * state + states + 2 * inner);
    const double again = convolved + chunk_states + passed + pairs;
    const double once = again + scanned;
    const double flop = 2 * ScanProducts(network, 1) / tp;
    Scan(rows * flop, rows * once, &forward);
    // Twice the products, and those that are computed again.
    if (passes_gradient) Scan(rows * 2.5 * flop, rows * (again + 2 * once), &backward);
    Elementwise(2 * rows * inner, 2 * rows * inner);  // a copy with the tokens first
    Norm(rows, inner);
    ExchangeHeads(inner);
    Product(rows, hidden, inner);
    LeaveTensorPart();
    Residual();
  }

  // The longer of the products and the bytes, at the rate that such kernels reach.
  void Scan(double flop, double bytes, PassTime* pass) const {
    constexpr double kScanShare = 0.23;
    const PrecisionRate rate = RateOf(machine.device, whole.precision);
    const double products = flop / (rate.peak.count / 1e6) / whole.share;
    pass->elementwise += std::max(products, Micros(OpShape(), bytes)) / kScanShare;
  }

  // Context parallelism gives each rank all tokens of a part of the heads, and back.
  void ExchangeHeads(double width) {
    if (setup.cp == 1) return;
    const RankGroup group = machine.GroupOf(setup.cp, setup.tp);
    const double bytes = element * rows * width;
    forward.tensor += Exchange(CollectiveKind::kAllToAll, group, "context", bytes, &traffic.forward);
    if (passes_gradient)
      backward.tensor += Exchange(CollectiveKind::kAllToAll, group, "context", bytes, &traffic.backward);
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
    Product(of_rows, (network.gated() ? 2 : 1) * width, hidden, 1, AdaptersOfFirst(width));
    Activation(of_rows, width);
    Product(of_rows, hidden, width, 1, AdaptersOfSecond(hidden));
  }
  Adapters AdaptersOfFirst(double width) const {
    const std::int64_t columns = Columns(width);
    return network.gated() ? setup.lora.ColumnsOf(AdaptedProduct::kFirstOfMlp, {columns, columns})
                           : setup.lora.ColumnsOf(AdaptedProduct::kFirstOfMlp, {columns});
  }
  Adapters AdaptersOfSecond(double out) const {
    return setup.lora.ColumnsOf(AdaptedProduct::kSecondOfMlp, {Columns(out)});
  }

  void DenseBlock() {
    Norm(local_rows, Number(network.hidden));
    EnterTensorPart(Trains(AdaptersOfFirst(1)));
    FeedForward(rows, Number(network.d_ff) / Number(setup.tp));
    LeaveTensorPart();
    Residual();
  }

  // Each rank sends its tokens to the ranks of their experts, which are `ep` apart from each other's copies.
  void ExpertBlock() {
    const double hidden = Number(network.hidden);
    Norm(local_rows, hidden);
    if (network.d_shared_expert > 0) {
      EnterTensorPart(Trains(AdaptersOfFirst(1)));
      FeedForward(rows, Number(network.d_shared_expert) / Number(setup.tp));
      LeaveTensorPart();
    }
    WholeProduct(local_rows, Number(network.experts), hidden);
    const double latent = network.expert_latent > 0 ? Number(network.expert_latent) : hidden;
    if (network.expert_latent > 0) {
      Product(local_rows, latent, hidden);
      Product(local_rows, hidden, latent);
    }
    const double tokens = setup.sequence_parallel || setup.tp == 1 ? local_rows : rows / Number(setup.tp);
    const double copies = tokens * Number(network.top_k);
    const RankGroup group = machine.GroupOf(setup.ep, setup.etp);
    const RankGroup expert_tensor_group = machine.GroupOf(setup.etp, 1);
    const double bytes = element * copies * latent * SentShare(group);
    for (int i = 0; i < 2; ++i) {  // there and back
      const auto exchange = [&](CollectiveKind forward_kind, CollectiveKind backward_kind, const RankGroup& of,
                                double message) {
        forward.experts += Exchange(forward_kind, of, "expert", message, &traffic.forward);
        if (passes_gradient) backward.experts += Exchange(backward_kind, of, "expert", message, &traffic.backward);
      };
      exchange(CollectiveKind::kAllToAll, CollectiveKind::kAllToAll, group, bytes);
      const double gathered = bytes * Number(setup.etp);
      const auto kind = i == 0 ? CollectiveKind::kAllGather : CollectiveKind::kReduceScatter;
      const auto reverse = i == 0 ? CollectiveKind::kReduceScatter : CollectiveKind::kAllGather;
      exchange(kind, reverse, expert_tensor_group, gathered);
      Elementwise(2 * copies * latent, 2 * copies * latent);
    }
    const double experts = std::max(1.0, Number(network.experts) / Number(setup.ep));
    const double of_expert = copies * Number(setup.etp) / experts * network.load_imbalance;
    const double width = Number(network.d_expert) / Number(setup.etp);
    Product(of_expert, (network.gated() ? 2 : 1) * width, latent, experts, AdaptersOfFirst(width));
    Activation(of_expert * experts, width);
    Product(of_expert, latent, width, experts, AdaptersOfSecond(latent));
    Residual();
  }

  // The part of a token's copies for its experts that crosses the network, where one to a node is enough: of n nodes
  // with equal parts of the experts, n (1 - (1 - 1/n)^k) have one of a token's k on average.
  double SentShare(const RankGroup& group) const {
    const double nodes = Number(group.ranks) / Number(group.per_node);
    const double copies = Number(network.top_k);
    if (!habits.sends_once_to_nodes || nodes <= 1) return 1;
    return nodes * (1 - std::pow(1 - 1 / nodes, copies)) / copies;
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
  // The host's time for the kernels of modules. The framework's constant is for a layer of a Transformer, which has 34
  // kernels in its forward pass.
  double ModuleHostMicros(const ModulePiece& modules, bool is_backward) const {
    constexpr double kKernelsOfLayer = 34;
    const auto kernels = std::ranges::count(modules.kernels, is_backward, &ModuleKernel::is_backward);
    return habits.layer_host_micros * static_cast<double>(kernels) / kKernelsOfLayer;
  }

  void Layer(const LayerKind& kind) {
    if (kind.module >= 0) return Modules(network.modules->layers[static_cast<std::size_t>(kind.module)]);
    passes_gradient = kind.passes_gradient;
    if (kind.mixer == Mixer::kMamba) MambaBlock();
    if (kind.mixer == Mixer::kAttention) AttentionBlock(kind.window);
    if (kind.cross_attention) AttentionBlock(0);
    if (kind.mixer == Mixer::kLatentAttention) LatentAttentionBlock();
    if (kind.feed_forward == FeedForwardKind::kDense) DenseBlock();
    if (kind.feed_forward == FeedForwardKind::kExperts) ExpertBlock();
  }

  void Embedding() {
    if (network.modules) return Modules(network.modules->before);
    passes_gradient = !setup.lora.exist();
    const double numbers = rows * Number(network.hidden);
    Elementwise(2 * numbers, 3 * numbers);
    LeaveTensorPart();
  }

  void Loss() {
    if (network.modules) return Modules(network.modules->after);
    const double vocabulary = Number(network.vocabulary) / Number(setup.tp);
    Norm(local_rows, Number(network.hidden));
    EnterTensorPart(Trains({}));
    WholeProduct(rows, vocabulary, Number(network.hidden));
    constexpr double kForwardPasses = 7;  // of half-precision logits: to f32, the largest, exponentials, their sum
    constexpr double kBackwardPasses = 5;
    Elementwise(kForwardPasses * rows * vocabulary, kBackwardPasses * rows * vocabulary);
  }

  // What is hidden is hidden, and the device waits for the host where that is slower.
  Passes Finish() const {
    Passes passes = {.forward = forward,
                     .backward = backward,
                     .weight_gradients = weight_gradients,
                     .core_attention = core_attention};
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
  double weight_gradients = 0;
  PassTime core_attention;
  PieceTraffic traffic;
  double hidden_gathers = 0;    // beside the products of the backward pass
  bool passes_gradient = true;  // the backward pass goes on below what is added next
};

void CheckRecipe(const PlanMachine& machine, const TrainingSetup& setup) {
  const Precision precision = PrecisionOf(setup);
  if (!setup.casts_products() || machine.device.precisions[static_cast<std::size_t>(precision)].peak.count > 0) return;
  throw InputError("precision", fmt::format("needs products in {}, for which the data sheet of {} has no rate",
                                            Name(precision), machine.device.name));
}

// The host's time for the kernels of modules.
void WaitForModules(const Piece& piece, const ModulePiece& modules, Passes* passes) {
  passes->forward.waiting = std::max(0.0, piece.ModuleHostMicros(modules, false) - passes->forward.micros());
  passes->backward.waiting = std::max(0.0, piece.ModuleHostMicros(modules, true) - passes->backward.micros());
}

}  // namespace

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

Passes& Passes::operator+=(const Passes& other) {
  forward += other.forward;
  backward += other.backward;
  weight_gradients += other.weight_gradients;
  core_attention += other.core_attention;
  return *this;
}

Passes Passes::operator*(double factor) const {
  return {.forward = forward * factor,
          .backward = backward * factor,
          .weight_gradients = factor * weight_gradients,
          .core_attention = core_attention * factor};
}

double ScanProducts(const NetworkShape& network, double causal) {
  const double inner = Number(network.mamba_heads * network.mamba_head_dim);
  const double groups = Number(network.mamba_groups);
  const double state = Number(network.mamba_state);
  return causal * Number(network.mamba_chunk) * (groups * state + inner) + 2 * state * inner;
}

Passes LayerPasses(const PlanMachine& machine, const FrameworkHabits& habits, const TrainingSetup& setup,
                   const LayerKind& layer) {
  CheckRecipe(machine, setup);
  Piece piece(machine, habits, setup);
  piece.Layer(layer);
  Passes passes = piece.Finish();
  if (layer.module >= 0) {
    WaitForModules(piece, setup.network.modules->layers[static_cast<std::size_t>(layer.module)], &passes);
    return passes;
  }
  // The framework's constant is for a layer of attention and an MLP.
  const bool has_one_part = layer.mixer == Mixer::kNone || layer.feed_forward == FeedForwardKind::kNone;
  const double layer_host = habits.layer_host_micros * (has_one_part ? 0.5 : 1);
  double host = layer_host * (1 + habits.tensor_host_share * Number(setup.tp - 1));
  if (PipelineCrosses(machine, setup)) {
    const double nodes = Number(setup.tp) / Number(piece.tensor_group.per_node);
    host = std::max(host, habits.pipeline_host_micros * (1 + Number(setup.tp)) * std::sqrt(nodes));
  }
  for (PassTime* pass : {&passes.forward, &passes.backward}) {
    if (pass->micros() > 0) pass->waiting = WaitingFor(host, pass->micros(), habits.host_exponent);
  }
  return passes;
}

Passes EmbeddingPasses(const PlanMachine& machine, const FrameworkHabits& habits, const TrainingSetup& setup) {
  Piece piece(machine, habits, setup);
  piece.Embedding();
  Passes passes = piece.Finish();
  if (setup.network.modules) WaitForModules(piece, setup.network.modules->before, &passes);
  return passes;
}

Passes LossPasses(const PlanMachine& machine, const FrameworkHabits& habits, const TrainingSetup& setup) {
  Piece piece(machine, habits, setup);
  piece.Loss();
  Passes passes = piece.Finish();
  if (setup.network.modules) WaitForModules(piece, setup.network.modules->after, &passes);
  return passes;
}

PieceTraffic LayerTraffic(const PlanMachine& machine, const FrameworkHabits& habits, const TrainingSetup& setup,
                          const LayerKind& layer) {
  Piece piece(machine, habits, setup);
  piece.Layer(layer);
  return piece.traffic;
}

PieceTraffic EmbeddingTraffic(const PlanMachine& machine, const FrameworkHabits& habits, const TrainingSetup& setup) {
  Piece piece(machine, habits, setup);
  piece.Embedding();
  return piece.traffic;
}

PieceTraffic LossTraffic(const PlanMachine& machine, const FrameworkHabits& habits, const TrainingSetup& setup) {
  Piece piece(machine, habits, setup);
  piece.Loss();
  return piece.traffic;
}

double StreamMicros(const PlanMachine& machine, const TrainingSetup& setup, double bytes) {
  return Piece(machine, FrameworkHabits(), setup).Micros(OpShape(), bytes);
}

std::int64_t PipelineStride(const TrainingSetup& setup) {
  return setup.tp * setup.cp * (setup.pipeline_before_data ? 1 : setup.dp);
}

bool PipelineCrosses(const PlanMachine& machine, const TrainingSetup& setup) {
  return setup.pp > 1 && PipelineStride(setup) * setup.pp > machine.gpus_per_node;
}

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

}  // namespace emplace::datasets
