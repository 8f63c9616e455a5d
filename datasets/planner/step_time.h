#ifndef EMPLACE_DATASETS_PLANNER_STEP_TIME_H_
#define EMPLACE_DATASETS_PLANNER_STEP_TIME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/memory/training_setup.h"
#include "datasets/planner/plan_machine.h"
#include "datasets/planner/rank_traffic.h"
#include "sim/device_catalog.h"

namespace emplace::datasets {

// How a framework runs a step, beside what a TrainingSetup says of its memory. The numbers are fitted on measured steps
// (docs/results/plan.md says on which); each is the same for all networks, plans and clusters.
struct FrameworkHabits {
  std::string_view name;
  double kernel_share = 1;       // rate of products and attention, beside what the device sustains
  double grouped_share = 1;      // rate of experts' products in half precision, beside that of other products
  double elementwise = 1;        // bytes that ops other than products, attention and norms move, relative to fused ones
  double layer_host_micros = 0;  // host time of a layer's forward pass; its backward pass takes as much
  double tensor_host_share = 0;  // more of it for each further tensor-parallel rank
  // A pass takes (host^p + device^p)^(1/p), since the device waits for some kernels though it is behind with others;
  // with 0 the longer of both times.
  double host_exponent = 0;
  double tensor_overlap = 0;     // part of tensor-parallel collectives that runs beside products
  double gradient_overlap = 0;   // part of the last backward pass that the exchange of gradients runs beside
  double parameter_overlap = 0;  // the same of the forward pass, and the gathering of weights
  double message_micros = 0;     // host time of a message between stages
  // Host time of a layer's pass for each rank of its tensor-parallel group, where the pipeline has stages on several
  // nodes; times the square root of the nodes that the group is on.
  double pipeline_host_micros = 0;
  // Added to the exchange of gradients in jobs of 512 ranks and more.
  double large_job_micros = 0;
  // Added to each micro-batch for a hop between stages on several nodes, of at most two, in jobs of 512 ranks and more,
  // and with more than 8 micro-batches where replicas of a pipeline share no state of the optimizer (ZeRO 0) and are on
  // several nodes.
  double pipeline_delay_micros = 0;
  double gathers_of_layer = 0;     // collectives that gather a layer's weights after the step; 0: none of its own
  double network_step_micros = 0;  // see CollectiveMicros
  double network_share = 1;        // bandwidth between nodes that collectives reach
  double step_micros = 0;          // of each step
  // How much longer a step takes whose allocator would reserve more than the device has, so that it frees what it
  // holds, and tries again.
  double retry_factor = 1;
  bool gathers_inputs_again =
      true;  // sequence parallelism keeps a part of the inputs of products for the backward pass
  bool fuses_weight_gradients = true;  // a weight's gradient is added to the buffer of gradients in the product
  bool has_hopper_attention = true;    // FlashAttention-3 or cuDNN's kernels on H100 and H200; else FlashAttention-2

  // Which plans it can run.
  std::vector<std::int64_t> zero = {0, 1};  // ZeRO's stages
  bool has_tensor_parallel = true;
  bool has_pipelines = true;
  bool shards_in_pipelines = false;  // ZeRO 2 and 3 with several stages
  bool interleaves = true;
  bool has_context_parallel = true;
  bool recomputes = true;
  bool recomputes_layers = true;                            // some of a stage
  bool orders_ranks = true;                                 // pipelines inside of data parallelism too
  bool balances_stages = true;                              // else by a rule of its own
  TrainingFramework memory = TrainingFramework::kMegatron;  // whose model of memory answers
};
// Null if there is none of that name.
const FrameworkHabits* FindFrameworkHabits(std::string_view name);
std::vector<std::string_view> FrameworkNames();
// Throws InputError(place) that lists the names.
const FrameworkHabits& NamedFramework(const std::string& name, const std::string& place);

// What a rank spends a forward or a backward pass of one micro-batch on.
struct PassTime {
  double products = 0;     // matrix products and attention
  double elementwise = 0;  // everything else that runs on the device
  double tensor = 0;       // collectives of tensor and context parallelism that nothing hides
  double experts = 0;      // exchange of tokens between experts
  double weights = 0;      // gathering of weights and scattering of gradients (ZeRO 3) that nothing hides
  double waiting = 0;      // for the host
  double micros() const { return products + elementwise + tensor + experts + weights + waiting; }
  PassTime& operator+=(const PassTime& other);
  PassTime operator*(double factor) const;
};

// A predicted step of the rank that takes longest. The parts add up to `micros`.
struct StepTime {
  double micros = 0;
  PassTime passes;       // of all micro-batches
  double bubble = 0;     // waiting for other stages
  double messages = 0;   // between stages
  double gradients = 0;  // exchange of gradients, and of weights after the step, that nothing hides
  double optimizer = 0;
  double other = 0;  // fixed, or of large jobs
};

// Passes of one micro-batch through a stage, in us.
struct StageTime {
  double forward = 0;
  double backward = 0;
};

// Predicts steps of one network on one machine as one framework runs them. Keeps the times of layers that it has seen,
// so that plans which differ in their data and pipeline parallelism alone cost little.
class StepTimer {
 public:
  StepTimer(const PlanMachine& machine, const FrameworkHabits& habits);

  // Throws InputError on a network with layers that are not timed (Mamba).
  StepTime Time(const TrainingSetup& setup);

  // The passes of each stage, in the order of the network, and a message from one stage to the next; 0 without others.
  std::vector<StageTime> StageTimes(const TrainingSetup& setup);
  double StageMessageMicros(const TrainingSetup& setup) const;

  // What a pipeline rank exchanges in a step.
  std::vector<RankTraffic> Traffic(const TrainingSetup& setup, std::size_t pipeline_rank);

  // How many layers each stage should have so that the slowest one is as fast as can be, the embedding being work of
  // the first and the loss, with the modules that predict further tokens, of the last.
  std::vector<std::int64_t> BalancedStages(const TrainingSetup& setup);

 private:
  struct Passes {
    PassTime forward;
    PassTime backward;
    Passes& operator+=(const Passes& other);
  };
  // Passes of a layer, or of what comes before the first and behind the last.
  struct Piece;
  // Whether stages of a pipeline are on several nodes.
  bool PipelineCrosses(const TrainingSetup& setup) const;
  const Passes& LayerPasses(const TrainingSetup& setup, std::size_t layer);
  Passes ModulePasses(const TrainingSetup& setup, const ModulePiece& modules) const;
  Passes EmbeddingPasses(const TrainingSetup& setup) const;
  Passes LossPasses(const TrainingSetup& setup) const;
  enum class PieceKind : std::uint8_t { kLayer, kEmbedding, kLoss, kEnds };
  // All that the passes of a piece depend on, for one network.
  using Key = std::array<std::int64_t, 14>;
  Key KeyOf(PieceKind piece, const LayerKind& layer, const TrainingSetup& setup) const;
  const Passes& Cached(const Key& key, auto make);
  Passes StagePasses(const TrainingSetup& setup, std::size_t stage);

  void AddExchange(const TrainingSetup& setup, const Passes& last, StepTime* step);
  // How many a rank holds, of those that all ranks of tensor parallelism share out and of experts.
  struct Parameters {
    double shared = 0;
    double of_experts = 0;
    double sum() const { return shared + of_experts; }
  };
  Parameters CountParameters(const TrainingSetup& setup, const StageShape& stage);
  Parameters ParametersOfRank(const TrainingSetup& setup, std::size_t rank);

  PlanMachine machine_;
  FrameworkHabits habits_;
  std::map<Key, Passes> known_;
  std::map<Key, Parameters> parameters_;
  struct PieceTraffic {
    std::vector<RankTraffic> forward;
    std::vector<RankTraffic> backward;
  };
  const PieceTraffic& TrafficOf(PieceKind kind, const LayerKind& layer, const TrainingSetup& setup);
  std::map<Key, PieceTraffic> traffic_;
};

// In which the device computes products of weights.
Precision PrecisionOf(const TrainingSetup& setup);

// FLOP of products and attention of one step of all ranks, forward and backward, without recomputation, attention whole
// also where a causal mask leaves half of it out: what frameworks compute their MFU from.
double ModelFlop(const TrainingSetup& setup);
// The same with half of the attention, which a causal mask leaves: no step takes fewer.
double LeastFlop(const TrainingSetup& setup);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_STEP_TIME_H_
