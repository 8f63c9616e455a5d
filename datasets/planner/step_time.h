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
  double weight_gradients = 0;  // part of `backward`
};

// Predicts steps of one network on one machine as one framework runs them. Keeps the times of layers that it has seen,
// so that plans which differ in their data and pipeline parallelism alone cost little.
class StepTimer {
 public:
  StepTimer(const PlanMachine& machine, const FrameworkHabits& habits);

  // From the schedule's closed form.
  StepTime Time(const TrainingSetup& setup);

  // Runs the schedule of one pipeline: each pass of each stage, messages that share their sender's link, then the
  // exchange of each rank and the optimizer. Replicas do the same at the same time, and have their parts of the
  // network. DualPipe's step is that of the closed form.
  StepTime Simulate(const TrainingSetup& setup);

  // The passes of each stage, in the order of the network, and a message from one stage to the next; 0 without others.
  std::vector<StageTime> StageTimes(const TrainingSetup& setup);
  double StageMessageMicros(const TrainingSetup& setup) const;

  // What a pipeline rank exchanges in a step.
  std::vector<RankTraffic> Traffic(const TrainingSetup& setup, std::size_t pipeline_rank);

  // How many layers each stage should have so that the slowest one is as fast as can be on its devices, the embedding
  // being work of the first and the loss, with the modules that predict further tokens, of the last.
  std::vector<std::int64_t> BalancedStages(const TrainingSetup& setup);

 private:
  // The kind of the slowest node that the pipeline rank has devices on: its place in `machines_`.
  std::size_t KindOfRank(const TrainingSetup& setup, std::size_t pipeline_rank) const;
  const Passes& OfLayer(const TrainingSetup& setup, const LayerKind& layer, std::size_t kind);
  // The time of the layers of one module that predicts a further token, and of its loss.
  Passes OfPrediction(const TrainingSetup& setup, std::size_t kind);
  const Passes& OfEmbedding(const TrainingSetup& setup, std::size_t kind);
  const Passes& OfLoss(const TrainingSetup& setup, std::size_t kind);
  enum class PieceKind : std::uint8_t { kLayer, kEmbedding, kLoss, kEnds };
  // All that the passes of a piece depend on, for one network.
  using Key = std::array<std::int64_t, 18>;
  Key KeyOf(PieceKind piece, const LayerKind& layer, const TrainingSetup& setup, std::size_t kind) const;
  const Passes& Cached(const Key& key, auto make);
  Passes StagePasses(const TrainingSetup& setup, std::size_t stage);
  // What a layer's backward pass computes again of its forward pass.
  PassTime AgainOf(const TrainingSetup& setup, const Passes& layer, std::size_t position) const;

  // The passes of one micro-batch through all stages of each pipeline rank.
  std::vector<Passes> RankPasses(const TrainingSetup& setup);
  // What follows the passes of a rank.
  struct Exchange {
    double gradients = 0;  // exchange of gradients that the last backward pass does not hide
    double weights = 0;    // gathering of weights that the first forward pass does not hide
    double optimizer = 0;
  };
  // How many a rank holds, of those that all ranks of tensor parallelism share out and of experts.
  struct Parameters {
    double shared = 0;
    double of_experts = 0;
    double sum() const { return shared + of_experts; }
    Parameters& operator+=(const Parameters& other);
  };
  struct HeldParameters {
    Parameters all;
    Parameters trained;
  };
  HeldParameters CountParameters(const TrainingSetup& setup, const StageShape& stage);
  Parameters TrainedParametersOfRank(const TrainingSetup& setup, std::size_t rank);
  // `parameters`: those that are trained.
  Exchange ExchangeOf(const TrainingSetup& setup, std::size_t pipeline_rank, const Parameters& parameters,
                      const Passes& last) const;
  double FixedMicros(const TrainingSetup& setup) const;

  PlanMachine machine_;
  std::vector<PlanMachine> machines_;  // with one kind of node each, the slowest first
  FrameworkHabits habits_;
  std::map<Key, Passes> known_;
  std::map<Key, HeldParameters> parameters_;
  const PieceTraffic& TrafficOf(PieceKind kind, const LayerKind& layer, const TrainingSetup& setup);
  std::map<Key, PieceTraffic> traffic_;
};

// FLOP of products and attention of one step of all ranks, forward and backward, without recomputation, attention whole
// also where a causal mask leaves half of it out: what frameworks compute their MFU from.
double ModelFlop(const TrainingSetup& setup);
// The same with half of the attention, which a causal mask leaves: no step takes fewer.
double LeastFlop(const TrainingSetup& setup);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_STEP_TIME_H_
