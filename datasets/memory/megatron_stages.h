#ifndef EMPLACE_DATASETS_MEMORY_MEGATRON_STAGES_H_
#define EMPLACE_DATASETS_MEMORY_MEGATRON_STAGES_H_

#include "datasets/memory/megatron_argument_reader.h"
#include "datasets/memory/training_setup.h"

namespace emplace::datasets {

// Sets the stages of the pipeline, the virtual ones of each rank included, once the network and the degrees are set.
// `setup->stages` holds those of a hybrid layer pattern, if there are any.
void ReadMegatronStages(MegatronArgumentReader& args, TrainingSetup* setup);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_MEGATRON_STAGES_H_
