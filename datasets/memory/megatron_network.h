#ifndef EMPLACE_DATASETS_MEMORY_MEGATRON_NETWORK_H_
#define EMPLACE_DATASETS_MEMORY_MEGATRON_NETWORK_H_

#include <string>

#include "datasets/memory/megatron_argument_reader.h"
#include "datasets/memory/training_setup.h"

namespace emplace::datasets {

// Sets the network, and the stages where a hybrid layer pattern names them. The vocabulary is padded for the tensor
// ranks, so `setup->tp` is set before. `model` is a model of Megatron-LM's: gpt, bert, t5 and so on.
void ReadMegatronNetwork(MegatronArgumentReader& args, const std::string& model, TrainingSetup* setup);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_MEGATRON_NETWORK_H_
