#include "experiments/library/plans/plan_estimates.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

#include "datasets/models/named_network.h"
#include "datasets/shipped_clusters.h"
#include "sim/device_catalog.h"

namespace emplace::experiments {
namespace {

using datasets::TransformerNetwork;

constexpr double kHalf = 2;             // bytes of a number in half precision
constexpr double kSingle = 4;           // and in single precision
constexpr double kOptimizerBytes = 12;  // of a parameter: its copy in single precision, and Adam's two moments
constexpr double kGiB = 1 << 30;

enum class BlockOpKind { kProduct, kAttention, kElementwise };

// An op of one layer, on one tensor-parallel rank and for one micro-batch. Counts of numbers, not of bytes.
struct BlockOp {
  BlockOpKind kind;
  double flop;     // of the forward pass
  double inputs;   // activations that it reads
  double outputs;  // and writes
  double weights;  // that it reads
  double kept;     // activations that are kept for its backward pass
};

double TokensOf(const PlanProblem& problem, const PlanSetting& setting) {
  return static_cast<double>(setting.micro_batch * problem.cell.sequence);
}

double LayersOfStage(const PlanProblem& problem, const PlanSetting& setting) {
  const std::int64_t layers = (problem.network.layers + setting.pp - 1) / setting.pp;
  return static_cast<double>(layers);
}

// Micro-batches whose activations the first stage keeps at once.
double InFlight(const PlanSetting& setting) {
  return static_cast<double>(std::min(setting.pp, setting.grad_accumulation));
}

// The ops of a layer, in order.
std::vector<BlockOp> OpsOfLayer(const PlanProblem& problem, const PlanSetting& setting) {
  const TransformerNetwork& network = problem.network;
  const double tokens = TokensOf(problem, setting);
  const auto tp = static_cast<double>(setting.tp);
  const auto width = static_cast<double>(network.d_model);
  const double of_heads = static_cast<double>(network.heads * network.head_width) / tp;
  const double of_keys = static_cast<double>(network.kv_heads * network.head_width) / tp;
  const double hidden = static_cast<double>(network.d_ff) / tp;
  const double projections = network.gated ? 2 : 1;
  const double row = tokens * width / (problem.has_sequence_parallel() ? tp : 1);  // of what tp does not divide
  const auto sequence = static_cast<double>(problem.cell.sequence);
  const double scores = tokens * sequence * static_cast<double>(network.heads) / tp;

  const auto product = [tokens](double inputs, double outputs, double kept) {
    return BlockOp{BlockOpKind::kProduct, 2 * tokens * inputs * outputs,
                   tokens * inputs,       tokens * outputs,
                   inputs * outputs,      kept};
  };
  const auto elementwise = [](double flop_of_each, double inputs, double outputs, double kept) {
    return BlockOp{BlockOpKind::kElementwise, flop_of_each * outputs, inputs, outputs, 0, kept};
  };
  constexpr double kNormFlop = 9;
  constexpr double kActivationFlop = 8;
  constexpr double kSoftmaxFlop = 5;
  const double score_flop = 2 * tokens * sequence * of_heads;  // of one of the two products of attention
  const double queries = tokens * of_heads;
  const double keys = tokens * of_keys;

  std::vector<BlockOp> ops = {elementwise(kNormFlop, row, row, row), product(width, of_heads + 2 * of_keys, row)};
  if (problem.has_fused_attention()) {
    ops.push_back({BlockOpKind::kAttention, 2 * score_flop, queries + 2 * keys, queries, 0, queries + 2 * keys});
  } else {
    ops.push_back({BlockOpKind::kAttention, score_flop, queries + keys, scores, 0, queries + keys});
    ops.push_back(elementwise(kSoftmaxFlop, scores, scores, scores));
    ops.push_back({BlockOpKind::kAttention, score_flop, scores + keys, queries, 0, scores + keys});
  }
  ops.insert(ops.end(), {product(of_heads, width, queries), elementwise(1, 2 * row, row, 0),
                         elementwise(kNormFlop, row, row, row), product(width, projections * hidden, row),
                         elementwise(kActivationFlop, projections * tokens * hidden, tokens * hidden,
                                     projections * tokens * hidden),
                         product(hidden, width, tokens * hidden), elementwise(1, 2 * row, row, 0)});
  return ops;
}

double WeightsOfLayer(const std::vector<BlockOp>& ops) {
  double weights = 0;
  for (const BlockOp& op : ops) weights += op.weights;
  return weights;
}
double KeptOfLayer(const std::vector<BlockOp>& ops) {
  double kept = 0;
  for (const BlockOp& op : ops) kept += op.kept;
  return kept;
}

// Ranks of the groups are neighbours, those of tensor parallelism first, then those of data parallelism.
bool IsInOneNode(const PlanProblem& problem, std::int64_t ranks) { return ranks <= problem.machine.gpus_per_node; }

bool IsA100(const PlanProblem& problem) { return problem.machine.device.name.starts_with("a100"); }

// ---- Calculon

// An efficiency that holds from a number of operations or bytes on.
struct EfficiencyFrom {
  double least;
  double share;
};

struct CalculonNetwork {
  double bytes_per_s;
  double latency_s;
  double all_reduce;  // bytes on the wire of each byte
  double half;        // of an all-gather or a reduce-scatter
  bool without_own;   // a rank does not send its own part

  double Seconds(double scale, double bytes, std::int64_t ranks) const {
    if (ranks < 2) return 0;
    const double others = without_own ? static_cast<double>(ranks - 1) / static_cast<double>(ranks) : 1;
    return latency_s + bytes * scale * others / bytes_per_s;
  }
};

struct CalculonSystem {
  double matrix_flops;
  double vector_flops;
  double memory_bytes_per_s;
  CalculonNetwork inside;
  CalculonNetwork between;
};
constexpr double kCalculonInside = 0.6;  // efficiencies of its networks
constexpr double kCalculonBetween = 0.9;
constexpr CalculonSystem kCalculonH100 = {1000e12,
                                          120e12,
                                          3072e9,
                                          {450e9 * kCalculonInside, 1e-6, 1, 1.5, false},
                                          {50e9 * kCalculonBetween, 2e-6, 1, 1, true}};
constexpr CalculonSystem kCalculonA100 = {
    312e12, 78e12, 2048e9, {300e9 * kCalculonInside, 1e-6, 2, 1.5, true}, {25e9 * kCalculonBetween, 2e-6, 1, 1, true}};

double ShareAt(std::span<const EfficiencyFrom> shares, double count) {
  for (const auto& [least, share] : shares) {
    if (count >= least) return share;
  }
  return 1;
}

double CalculonSeconds(const CalculonSystem& system, bool is_product, double flop, double bytes) {
  static constexpr EfficiencyFrom kMatrix[] = {{128e9, 0.95}, {16e9, 0.9}, {1e9, 0.6}, {0, 0.1}};
  static constexpr EfficiencyFrom kVector[] = {{16e9, 0.95}, {1e9, 0.5}, {0, 0.1}};
  static constexpr EfficiencyFrom kMemory[] = {{100e6, 0.9}, {10e6, 0.75}, {1e6, 0.6}, {0, 0.3}};
  const double rate =
      is_product ? system.matrix_flops * ShareAt(kMatrix, flop) : system.vector_flops * ShareAt(kVector, flop);
  return flop / rate + bytes / (system.memory_bytes_per_s * ShareAt(kMemory, bytes));
}

// ---- SimuMax

struct SimuMaxNetwork {
  double bytes_per_s;
  double all_reduce;  // efficiencies
  double half;        // of an all-gather or a reduce-scatter
  double message;
  double latency_s;  // of a hop

  // `scale`: 2 for an all-reduce, 1 for half of one.
  double Seconds(double scale, double bytes, std::int64_t ranks, double sharing) const {
    if (ranks < 2) return 0;
    const auto others = static_cast<double>(ranks - 1);
    const double rate = bytes_per_s * (scale > 1 ? all_reduce : half) / sharing;
    return scale * bytes * others / static_cast<double>(ranks) / rate + latency_s * others * scale;
  }
};

struct SimuMaxSystem {
  double flops;
  double product;  // efficiencies
  double attention;
  double attention_backward;
  double memory_bytes_per_s;
  double memory;       // efficiency
  double loss_memory;  // that of the cross entropy
  double latency_s;    // of an op
  SimuMaxNetwork inside;
  SimuMaxNetwork between;
};
constexpr SimuMaxSystem kSimuMaxH100 = {989e12,
                                        0.70,
                                        0.72,
                                        0.55,
                                        3350 * kGiB,
                                        0.85,
                                        0.80,
                                        20e-6,
                                        {900 * kGiB, 0.55, 0.60, 1.0, 8e-6},
                                        {50 * kGiB, 0.70, 0.70, 0.7, 35e-6}};
constexpr SimuMaxSystem kSimuMaxA100 = {312e12,
                                        0.75,
                                        0.75,
                                        0.75,
                                        2039 * kGiB,
                                        0.70,
                                        0.70,
                                        40e-6,
                                        {300 * kGiB, 0.70, 0.70, 0.7, 40e-6},
                                        {25 * kGiB, 0.60, 0.60, 0.6, 40e-6}};

double SimuMaxOpSeconds(const SimuMaxSystem& system, double efficiency, double flop, double bytes) {
  const double memory = bytes / (system.memory_bytes_per_s * system.memory) + system.latency_s;
  return std::max(flop / (system.flops * efficiency), memory);
}

// Forward and backward pass of an op.
double SimuMaxSeconds(const SimuMaxSystem& system, const BlockOp& op) {
  const double efficiency = op.kind == BlockOpKind::kAttention ? system.attention : system.product;
  const double backward = op.kind == BlockOpKind::kAttention ? system.attention_backward : system.product;
  const double moved = op.inputs + op.outputs;
  const double forward = SimuMaxOpSeconds(system, efficiency, op.flop, kHalf * (moved + op.weights));
  if (op.kind == BlockOpKind::kElementwise)
    return forward + SimuMaxOpSeconds(system, 1, 0, kHalf * (moved + op.outputs));
  if (op.kind == BlockOpKind::kAttention) {
    return forward + SimuMaxOpSeconds(system, backward, 2 * op.flop, kHalf * 2 * moved);
  }
  return forward + SimuMaxOpSeconds(system, backward, op.flop, kHalf * (moved + op.weights)) +
         SimuMaxOpSeconds(system, backward, op.flop, kHalf * moved + kSingle * op.weights);
}

}  // namespace

PlanProblem::PlanProblem(const PlanCell& of)
    : cell(of),
      network(datasets::NamedNetwork(of.network, of.set, of.name)),
      machine(datasets::MakePlanMachine(datasets::LoadCluster(of.cluster), of.nodes, of.gpus)) {}

bool PlanProblem::has_sequence_parallel() const {
  const auto found = cell.fixed.find("sequence_parallel");
  return found == cell.fixed.end() || found->second == "true";
}

bool PlanProblem::has_fused_attention() const {
  const auto found = cell.fixed.find("attention");
  return found == cell.fixed.end() || found->second == "fused";
}

double PlanProblem::memory_bytes() const {
  return machine.memory ? static_cast<double>(machine.memory->count) : std::numeric_limits<double>::infinity();
}

double UsualBytes(const PlanProblem& problem, const PlanSetting& setting) {
  constexpr double kWeightsAndGradients = 4;
  const auto tp = static_cast<double>(setting.tp);
  const double parameters =
      static_cast<double>(datasets::Parameters(problem.network).total) / tp / static_cast<double>(setting.pp);
  const double shards = setting.zero > 0 ? static_cast<double>(setting.dp) : 1;
  const double tokens = TokensOf(problem, setting);
  const auto width = static_cast<double>(problem.network.d_model);
  constexpr double kDivided = 24;  // of the 34 bytes, those that tensor parallelism alone divides
  constexpr double kWhole = 10;
  constexpr double kOfScore = 5;
  const double scores = problem.has_fused_attention() ? 0
                                                      : kOfScore * tokens * static_cast<double>(problem.network.heads) *
                                                            static_cast<double>(problem.cell.sequence) / tp;
  const double of_layer =
      tokens * width * (kDivided / tp + kWhole / (problem.has_sequence_parallel() ? tp : 1)) + scores;
  return parameters * (kWeightsAndGradients + kOptimizerBytes / shards) +
         of_layer * LayersOfStage(problem, setting) * InFlight(setting);
}

PlanEstimate EstimateInThreeTerms(const PlanProblem& problem, const PlanSetting& setting) {
  constexpr double kFlopOfToken = 6;
  constexpr double kReached = 0.5;
  constexpr double kReducesOfLayer = 4;
  const double peak = RateOf(problem.machine.device, Precision::kBf16).peak.count;
  const auto parameters = static_cast<double>(datasets::Parameters(problem.network).total);
  const auto batches = static_cast<double>(setting.grad_accumulation);
  const auto tokens = static_cast<double>(problem.cell.global_batch * problem.cell.sequence);
  const auto bandwidth = [&](std::int64_t ranks) {
    return 1e9 * (IsInOneNode(problem, ranks) ? problem.machine.inside : problem.machine.between).bandwidth_gb_per_s;
  };
  const auto ring = [](std::int64_t ranks) { return 2 * static_cast<double>(ranks - 1) / static_cast<double>(ranks); };
  const double products = kFlopOfToken * parameters * tokens / static_cast<double>(problem.cell.gpus) /
                          (kReached * peak) * (1 + static_cast<double>(setting.pp - 1) / batches);
  const double tensor = kReducesOfLayer * LayersOfStage(problem, setting) * batches * ring(setting.tp) * kHalf *
                        TokensOf(problem, setting) * static_cast<double>(problem.network.d_model) /
                        bandwidth(setting.tp);
  const double data = ring(setting.dp) * kHalf * parameters / static_cast<double>(setting.tp * setting.pp) /
                      bandwidth(setting.tp * setting.dp);
  return {.step_s = products + tensor + data, .bytes = UsualBytes(problem, setting)};
}

PlanEstimate EstimateAsCalculon(const PlanProblem& problem, const PlanSetting& setting) {
  const CalculonSystem& system = IsA100(problem) ? kCalculonA100 : kCalculonH100;
  const std::vector<BlockOp> ops = OpsOfLayer(problem, setting);
  const double blocks = LayersOfStage(problem, setting);
  const auto batches = static_cast<double>(setting.grad_accumulation);
  const double shards = setting.zero > 0 ? static_cast<double>(setting.dp) : 1;
  constexpr double kAdamFlop = 11;

  double passes = 0;
  double optimizer = 0;
  double working = 0;
  for (const BlockOp& op : ops) {
    const bool is_product = op.kind != BlockOpKind::kElementwise;
    const double bytes = kHalf * (op.inputs + op.outputs + op.weights);
    passes += CalculonSeconds(system, is_product, op.flop, bytes);
    // Attention has the gradients of two activations, other products those of an activation and of a weight.
    const bool has_second = op.weights > 0 || op.kind == BlockOpKind::kAttention;
    passes += (has_second ? 2 : 1) * CalculonSeconds(system, is_product, op.flop, bytes);
    if (op.weights > 0) {
      optimizer +=
          CalculonSeconds(system, false, kAdamFlop * op.weights / shards, kOptimizerBytes * op.weights / shards);
    }
    working = std::max(working, kHalf * (op.inputs + op.outputs));
  }
  const double activation = kHalf * TokensOf(problem, setting) * static_cast<double>(problem.network.d_model);
  const auto network = [&](std::int64_t ranks) -> const CalculonNetwork& {
    return IsInOneNode(problem, ranks) ? system.inside : system.between;
  };
  // A block reduces its sums twice in each pass; with sequence parallelism as a scatter and a gather.
  const CalculonNetwork& tensor_net = network(setting.tp);
  const double reduce = problem.has_sequence_parallel()
                            ? 2 * tensor_net.Seconds(tensor_net.half, activation, setting.tp)
                            : tensor_net.Seconds(tensor_net.all_reduce, activation, setting.tp);
  constexpr double kReducesOfBlock = 4;
  const double block = passes + kReducesOfBlock * reduce;
  const double message =
      setting.pp > 1
          ? 2 * network(problem.cell.gpus)
                    .Seconds(1, activation / (problem.has_sequence_parallel() ? static_cast<double>(setting.tp) : 1), 2)
          : 0;
  const double chunk = blocks * block + message;
  const double weights = WeightsOfLayer(ops);
  const CalculonNetwork& data_net = network(setting.tp * setting.dp);
  const double data = setting.zero > 0 ? 2 * data_net.Seconds(data_net.half, kHalf * weights, setting.dp)
                                       : data_net.Seconds(data_net.all_reduce, kHalf * weights, setting.dp);
  // All micro-batches, and the fill of the pipeline.
  const double step = (batches + static_cast<double>(setting.pp - 1)) * chunk + blocks * (data + optimizer);

  const double gradients = kSingle * weights + (blocks - 1) * kHalf * weights / shards;  // whole in one block only
  const double bytes = blocks * weights * (kHalf + kOptimizerBytes / shards) + gradients + 2 * working +
                       kHalf * KeptOfLayer(ops) * blocks * InFlight(setting);
  return {.step_s = step, .bytes = bytes};
}

PlanEstimate EstimateAsSimuMax(const PlanProblem& problem, const PlanSetting& setting) {
  const SimuMaxSystem& system = IsA100(problem) ? kSimuMaxA100 : kSimuMaxH100;
  const TransformerNetwork& network = problem.network;
  const std::vector<BlockOp> ops = OpsOfLayer(problem, setting);
  const double layers = LayersOfStage(problem, setting);
  const double tokens = TokensOf(problem, setting);
  const auto tp = static_cast<double>(setting.tp);
  const auto width = static_cast<double>(network.d_model);
  const double activation = kHalf * tokens * width;
  const auto net = [&](std::int64_t ranks) -> const SimuMaxNetwork& {
    return IsInOneNode(problem, ranks) ? system.inside : system.between;
  };

  const auto of_node = static_cast<double>(problem.machine.gpus_per_node);
  // Ranks of a node that share its network in collectives of this many.
  const auto sharing = [&](std::int64_t ranks) { return IsInOneNode(problem, ranks) ? 1 : std::min(of_node, tp); };

  double layer = 0;
  for (const BlockOp& op : ops) layer += SimuMaxSeconds(system, op);
  const SimuMaxNetwork& tensor_net = net(setting.tp);
  const double tensor_sharing = sharing(setting.tp);
  const double reduce = problem.has_sequence_parallel()
                            ? 2 * tensor_net.Seconds(1, activation, setting.tp, tensor_sharing)
                            : tensor_net.Seconds(2, activation, setting.tp, tensor_sharing);
  constexpr double kReducesOfLayer = 4;
  layer += kReducesOfLayer * reduce;
  // The product of the logits, and the loss, which moves them in single precision.
  const double vocabulary = static_cast<double>(network.vocabulary) / tp;
  const double head = SimuMaxSeconds(system, {BlockOpKind::kProduct, 2 * tokens * width * vocabulary, tokens * width,
                                              tokens * vocabulary, width * vocabulary, 0}) +
                      3 * kSingle * tokens * vocabulary / (system.memory_bytes_per_s * system.loss_memory);

  const auto batches = static_cast<double>(setting.grad_accumulation);
  const auto stages = static_cast<double>(setting.pp);
  const double boundary = activation / (problem.has_sequence_parallel() ? tp : 1);
  const SimuMaxNetwork& message_net = net(problem.cell.gpus);
  const double message_sharing = IsInOneNode(problem, problem.cell.gpus) ? 1 : of_node;
  const double message =
      setting.pp > 1
          ? 2 * (boundary * message_sharing / (message_net.bytes_per_s * message_net.message) + message_net.latency_s)
          : 0;
  const double slowest = layers * layer + head;  // the last stage
  const double all = stages * layers * layer + head;
  // 1F1B: every stage once, and the slowest for each further micro-batch.
  const double pipeline = all + (batches - 1) * slowest + (batches + stages - 1) * message;

  const double weights = layers * WeightsOfLayer(ops) + width * vocabulary;
  const SimuMaxNetwork& data_net = net(setting.tp * setting.dp);
  const double data_sharing = sharing(setting.tp * setting.dp);
  const double data = setting.zero > 0 ? data_net.Seconds(1, kSingle * weights, setting.dp, data_sharing) +
                                             data_net.Seconds(1, kHalf * weights, setting.dp, data_sharing)
                                       : data_net.Seconds(2, kSingle * weights, setting.dp, data_sharing);
  const double shards = setting.zero > 0 ? static_cast<double>(setting.dp) : 1;
  constexpr double kPassesOfOptimizer = 2;  // it reads and writes its state
  const double optimizer =
      kPassesOfOptimizer * kOptimizerBytes * weights / shards / (system.memory_bytes_per_s * system.memory);

  const double kept = kHalf * KeptOfLayer(ops) * layers;
  const double logits = (kHalf + kSingle) * tokens * vocabulary;
  const double state = weights * (kHalf + kSingle + kOptimizerBytes / shards);
  // The first stage has most micro-batches in flight, the last one the logits.
  const double bytes = state + std::max(kept * InFlight(setting), kept + logits);
  return {.step_s = pipeline + data + optimizer, .bytes = bytes};
}

}  // namespace emplace::experiments
