#ifndef EMPLACE_DATASETS_MEMORY_RANK_STATE_H_
#define EMPLACE_DATASETS_MEMORY_RANK_STATE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "datasets/memory/rank_program.h"
#include "datasets/memory/training_setup.h"

namespace emplace::datasets {

// The part of one parameter that a rank holds, before data parallelism divides its state.
struct RankParameter {
  std::int64_t elements = 0;
  bool is_expert = false;  // shared by fewer ranks than others
  bool is_matrix = false;  // of a layer
  bool is_frozen = false;  // has no gradient: beside adapters, or in front of what is trained
};

// Parameters of the stages that a pipeline rank runs, in the order of the network.
std::vector<RankParameter> ParametersOf(const TrainingSetup& setup, std::size_t pipeline_rank);

// Stages of a pipeline rank, in the order of the network: of `pp * vpp`, every pp-th; of zb-v and DualPipe one of each
// half, the second half in reverse order.
std::vector<std::size_t> StagesOf(const TrainingSetup& setup, std::size_t pipeline_rank);
// The first rank that has the stage.
std::size_t PipelineRankOf(const TrainingSetup& setup, std::size_t stage);

// Allocates what stays for the whole training: weights, the buffer of gradients, the optimizer's state, and workspaces.
void AllocateState(const TrainingSetup& setup, std::size_t pipeline_rank, RankProgram* program);

// Weights that FSDP gathers: those outside of layers, for the whole pass, and those of a layer. 0 without FSDP.
struct GatheredUnits {
  std::int64_t root_bytes = 0;
  std::int64_t layer_bytes = 0;
  std::int64_t layer_gradient_bytes = 0;  // of a layer, before they are scattered
};
GatheredUnits GatheredUnitsOf(const TrainingSetup& setup, std::size_t pipeline_rank);

// The step of the optimizer.
void RunOptimizer(const TrainingSetup& setup, std::size_t pipeline_rank, RankProgram* program);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_RANK_STATE_H_
