#ifndef EMPLACE_DATASETS_MEMORY_TRAINING_MEMORY_H_
#define EMPLACE_DATASETS_MEMORY_TRAINING_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/memory/rank_program.h"
#include "datasets/memory/training_setup.h"

namespace emplace::datasets {

// The compute capability of a kind of GPU (80 for A100), by which cuBLAS and Transformer Engine choose their kernels
// and workspaces.
std::int64_t ComputeCapability(std::string_view kind);

// Throws InputError on a setup whose step is too large to write down, or whose tensors would have over 2^50 bytes.
void CheckSetup(const TrainingSetup& setup);
// Throws InputError(DEGREE) unless `what`, which is `whole`, can be divided into `parts`.
void CheckDegreeDivides(std::string_view degree, std::int64_t parts, std::string_view what, std::int64_t whole);

// A training step of one pipeline rank, once its state exists: forward and backward passes in the order of the
// schedule.
RankProgram MakeRankProgram(const TrainingSetup& setup, std::size_t pipeline_rank);

// The peak of each pipeline rank. Ranks of one pipeline stage that differ in their other places have the same.
std::vector<RankPeak> PipelinePeaks(const TrainingSetup& setup);

// What a device needs to have for a rank, beside what lies outside of PyTorch's allocator: what that has reserved; with
// nanotron, whose allocator gives back much of it when memory runs out, what it has allocated.
std::int64_t NeededBytes(const TrainingSetup& setup, const RankPeak& peak);

// What CUDA's context and NCCL's buffers take of a device's memory, an estimate.
inline constexpr std::int64_t kContextBytes = std::int64_t{1} << 30;
// What a rank cannot use of its device's memory: CUDA's context and NCCL's buffers, an estimate; with nanotron
// fragments, too, and what collectives still read (fitted: docs/results/truth_memory.md).
std::int64_t OutsideBytes(const TrainingSetup& setup);

// Why the framework refuses to start with this setup: the field of the plan, and what is wrong with it; "" if it does
// not. Its memory is then that of stages with as many layers each.
std::string WhyRefused(const TrainingSetup& setup);

// The fewest of these changes that make every rank need no more than `bytes`, in words, with the most that a rank then
// needs: sequence parallelism, a distributed optimizer, micro-batches of one sequence, full recomputation,
// sharded weights. Among equally many, the first in this order; none if all together do not suffice.
struct FittingChange {
  std::string text;
  std::int64_t needed_bytes = 0;
};
std::optional<FittingChange> FindFittingChange(const TrainingSetup& setup, std::int64_t bytes);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_TRAINING_MEMORY_H_
