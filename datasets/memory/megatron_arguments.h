#ifndef EMPLACE_DATASETS_MEMORY_MEGATRON_ARGUMENTS_H_
#define EMPLACE_DATASETS_MEMORY_MEGATRON_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "datasets/memory/training_setup.h"
#include "sim/base/json_value.h"

namespace emplace::datasets {

struct MegatronRun {
  TrainingSetup setup;
  std::int64_t world_size = 0;
  // One line for each argument that is not known, or that changes the memory in a way that is not modelled.
  std::vector<std::string> unmodelled;
};

// The run that Megatron-LM's arguments describe: an object of them without their leading dashes, and the key "model".
// `world_size` 0: not known; 8 ranks, 64 where the length of the training is counted in samples (128 where a step
// takes 1,024 sequences or more), or as many as a model needs if that is more. Throws InputError on a value that is not
// allowed, and on sizes that do not divide each other.
MegatronRun ReadMegatronArguments(const JsonValue& arguments, std::int64_t world_size);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_MEGATRON_ARGUMENTS_H_
