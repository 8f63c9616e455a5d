#ifndef EMPLACE_AGENTS_HEURISTICS_EXPERT_H_
#define EMPLACE_AGENTS_HEURISTICS_EXPERT_H_

#include <memory>

#include "agents/agent.h"

namespace emplace {

// What a practitioner would do, read off the layers' names (Op::layer):
//
// 1. With recurrent layers ("lstm<k>" or "rnn<k>" in a layer's name): recurrent layer k, of encoder and decoder alike,
//    on accelerator k modulo their number; "embedding" with layer 0; "attention", "projection", "softmax" and "loss"
//    with the last layer; what has no such layer with the group that it feeds, else with the one that feeds it, else
//    with layer 0.
//
// 2. Image networks (some conv2d reads more than one row, or the file does not say): everything on one accelerator, as
//    single_device.
//
// 3. Anything else: contiguous blocks of equal numbers of layers, in topological order; of equal time, as the agent
//    blocks, where there are no layers.
//
// Gradients and updates carry the layer of their forward op, so they go with it. Groups that may not go to their
// accelerator go to their fastest one, else to their fastest device.
// Sources: Mirhoseini et al. 2018 and Gao et al. 2018 for 1 and 2; 3 is ours, as no paper states a rule.
std::unique_ptr<Agent> MakeExpertAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_HEURISTICS_EXPERT_H_
