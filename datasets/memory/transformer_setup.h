#ifndef EMPLACE_DATASETS_MEMORY_TRANSFORMER_SETUP_H_
#define EMPLACE_DATASETS_MEMORY_TRANSFORMER_SETUP_H_

#include <cstdint>
#include <string>

#include "datasets/lora.h"
#include "datasets/memory/training_setup.h"
#include "datasets/models/transformer.h"
#include "datasets/parallel_plan.h"

namespace emplace::datasets {

// RMS norms, rotary embeddings, and gated MLPs without experts: what nanotron and torchtitan are modelled for.
bool IsLlama(const TransformerNetwork& network);

// The adapters of a fine-tuning; none with rank 0. `is_joined`: as ReadLora has it. Throws InputError, at PREFIX and
// the field, on modules that the network does not have, or whose adapters are not modelled.
LoraAdapters LoraOf(const TransformerNetwork& network, std::int64_t rank, const std::string& targets, bool is_joined,
                    const std::string& prefix);

// How the framework trains the network by the plan, with the kernels and the precision that it has unless it is told
// otherwise: bf16, sums of gradients and the optimizer's state in f32, fused attention, no dropout. Throws InputError
// on a plan that does not fit the network, or that the framework refuses: degrees that do not divide what they are to
// divide, and unknown stages.
TrainingSetup MakeTrainingSetup(const TransformerNetwork& network, const ParallelPlan& plan, std::int64_t sequence,
                                TrainingFramework framework = TrainingFramework::kMegatron);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_TRANSFORMER_SETUP_H_
