#ifndef EMPLACE_DATASETS_PLANNER_STEP_TIME_H_
#define EMPLACE_DATASETS_PLANNER_STEP_TIME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "datasets/memory/training_setup.h"
#include "datasets/planner/framework_habits.h"
#include "datasets/planner/layer_time.h"
#include "datasets/planner/plan_machine.h"

namespace emplace::datasets {

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

  // How many layers each stage should have so that the slowest one is as fast as can be, the embedding being work of
  // the first and the loss, with the modules that predict further tokens, of the last.
  std::vector<std::int64_t> BalancedStages(const TrainingSetup& setup);

 private:
  enum class PieceKind : std::uint8_t { kLayer, kEmbedding, kLoss, kEnds };
  // All that the passes of a piece depend on, for one network.
  using Key = std::array<std::int64_t, 14>;
  Key KeyOf(PieceKind piece, const LayerKind& layer, const TrainingSetup& setup) const;
  const Passes& Cached(const Key& key, auto make);
  const Passes& OfLayer(const TrainingSetup& setup, std::size_t layer);
  const Passes& OfEmbedding(const TrainingSetup& setup);
  const Passes& OfLoss(const TrainingSetup& setup);
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
};

// FLOP of products and attention of one step of all ranks, forward and backward, without recomputation, attention whole
// also where a causal mask leaves half of it out: what frameworks compute their MFU from.
double ModelFlop(const TrainingSetup& setup);
// The same with half of the attention, which a causal mask leaves: no step takes fewer.
double LeastFlop(const TrainingSetup& setup);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_STEP_TIME_H_
