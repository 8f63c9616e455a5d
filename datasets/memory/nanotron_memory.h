#ifndef EMPLACE_DATASETS_MEMORY_NANOTRON_MEMORY_H_
#define EMPLACE_DATASETS_MEMORY_NANOTRON_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "datasets/memory/rank_program.h"
#include "datasets/memory/training_setup.h"

namespace emplace::datasets {

// Two steps of one pipeline rank as nanotron runs a Llama: the state of the optimizer is made after the first one, in
// the memory that its activations have left. docs/memory.md says what is modelled.
RankProgram MakeNanotronProgram(const TrainingSetup& setup, std::size_t pipeline_rank);

// The stages that nanotron cuts a network into: each takes blocks until it has its share of the cost, which a layer's
// and the head's weights are. Fewer than `pp` if the blocks are used up before.
std::vector<StageShape> NanotronStages(const NetworkShape& network, std::int64_t pp);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_NANOTRON_MEMORY_H_
