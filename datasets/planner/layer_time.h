#ifndef EMPLACE_DATASETS_PLANNER_LAYER_TIME_H_
#define EMPLACE_DATASETS_PLANNER_LAYER_TIME_H_

#include <vector>

#include "datasets/memory/training_setup.h"
#include "datasets/planner/framework_habits.h"
#include "datasets/planner/plan_machine.h"
#include "datasets/planner/rank_traffic.h"
#include "sim/device_catalog.h"

namespace emplace::datasets {

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

// Both passes of a micro-batch through a part of the network.
struct Passes {
  PassTime forward;
  PassTime backward;
  double weight_gradients = 0;  // part of `backward` that no other stage waits for
  PassTime core_attention;      // part of `forward`: scores, softmax and context
  double micros() const { return forward.micros() + backward.micros(); }
  // The part of the backward pass that the stage before waits for.
  double input_gradients() const { return backward.micros() - weight_gradients; }
  Passes operator*(double factor) const;
  Passes& operator+=(const Passes& other);
};

// Multiplications that the scan of one of Mamba's layers takes for a token in the forward pass, on all of its ranks
// (Dao & Gu 2024, "Transformers are SSMs", section 6): in a chunk of q tokens the products of C and B, q * state for a
// token and a group; of these and the values, q * width for a token and a head; and to and from a head's states,
// state * width each. `causal`: the part of the pairs of tokens in a chunk that is counted.
double ScanProducts(const NetworkShape& network, double causal);

// The passes of a layer on one rank, without recomputation and what ZeRO 3 gathers. Throws InputError on a recipe of
// products for which the device has no rate.
Passes LayerPasses(const PlanMachine& machine, const FrameworkHabits& habits, const TrainingSetup& setup,
                   const LayerKind& layer);
// Those of the embedding, and of the last norm, the head, and a cross-entropy that computes in f32.
Passes EmbeddingPasses(const PlanMachine& machine, const FrameworkHabits& habits, const TrainingSetup& setup);
Passes LossPasses(const PlanMachine& machine, const FrameworkHabits& habits, const TrainingSetup& setup);

// What both passes exchange with other ranks, but for weights and their gradients.
struct PieceTraffic {
  std::vector<RankTraffic> forward;
  std::vector<RankTraffic> backward;
};
PieceTraffic LayerTraffic(const PlanMachine& machine, const FrameworkHabits& habits, const TrainingSetup& setup,
                          const LayerKind& layer);
PieceTraffic EmbeddingTraffic(const PlanMachine& machine, const FrameworkHabits& habits, const TrainingSetup& setup);
PieceTraffic LossTraffic(const PlanMachine& machine, const FrameworkHabits& habits, const TrainingSetup& setup);

// The time of a kernel that moves so many bytes.
double StreamMicros(const PlanMachine& machine, const TrainingSetup& setup, double bytes);

// From a rank to that of the next stage, and whether the stages of a pipeline are on several nodes.
std::int64_t PipelineStride(const TrainingSetup& setup);
bool PipelineCrosses(const PlanMachine& machine, const TrainingSetup& setup);

// In which the device computes products of weights.
Precision PrecisionOf(const TrainingSetup& setup);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_LAYER_TIME_H_
