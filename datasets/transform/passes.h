#ifndef EMPLACE_DATASETS_TRANSFORM_PASSES_H_
#define EMPLACE_DATASETS_TRANSFORM_PASSES_H_

#include <cstdint>
#include <string>

#include "datasets/transform/rank_plan.h"

// The passes of Transform(). Each pass changes the step of one rank, and leaves producers before consumers. All throw
// InputError if the graph is not one that they can change.
namespace emplace::datasets {

// `which`: "full", "selective", or layers with commas. See TransformOptions::recompute.
void Recompute(const std::string& which, RankPlan* plan);

// The first of `parts` ranks between which the tensors of attention, MLP and vocabulary are split.
void SplitTensors(std::int64_t parts, RankPlan* plan);

// The first of `parts` ranks between which experts are divided, each with a batch of its own.
void DivideExperts(std::int64_t parts, RankPlan* plan);

// Adds up gradients over replicas, and over parts where they have the same weights.
struct ReductionOptions {
  double bucket_bytes = 0;  // a bucket is full with this many
  bool shard_optimizer = false;
};
void ReduceGradients(const Ranks& ranks, const ReductionOptions& options, RankPlan* plan);

// The half squared norms of gradients that differ between `members` are added up over them before they are a factor of
// clipping. `suffix` is of the new ops' names.
void SumNormsOver(Members members, const std::string& suffix, RankPlan* plan);

// Whether the op is of a mixture's experts: in a scope or module of that name, their gradients and updates.
bool IsOfExperts(const RankOp& op);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_TRANSFORM_PASSES_H_
