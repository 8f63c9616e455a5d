#ifndef EMPLACE_AGENTS_HEURISTICS_EXPERT_H_
#define EMPLACE_AGENTS_HEURISTICS_EXPERT_H_

#include <memory>

#include "agents/agent.h"

namespace emplace {

// What a practitioner would do, read off the layers' names (Op::layer):
// - with recurrent layers, "lstm<k>" in a layer's name: recurrent layer k, of encoder and decoder alike, on accelerator
// k
//   modulo their number; "embedding" with layer 0; "attention", "projection", "softmax" and "loss" with the last layer;
//   what has no such layer goes with the group that it feeds, else with the one that feeds it, else on the first;
// - convolutional networks (a layer's op is a conv2d): everything on one accelerator, as single_device;
// - other layered models, and graphs without layers: contiguous blocks of the layers in topological order, blocks of
// equal numbers
//   of layers (of equal time where there are no layers, as the agent blocks).
// Gradients and updates carry the layer of their forward op, so they go with it.
// Sources: Mirhoseini et al. 2018 and Gao et al. 2018 for the first two; the third is ours, as no paper states one.
std::unique_ptr<Agent> MakeExpertAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_HEURISTICS_EXPERT_H_
