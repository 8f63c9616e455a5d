#ifndef EMPLACE_AGENTS_HEURISTICS_BASELINES_H_
#define EMPLACE_AGENTS_HEURISTICS_BASELINES_H_

#include <memory>

#include "agents/agent.h"

// Placements by simple rules, which searches must beat.
namespace emplace::agents {

// Everything on one accelerator: the one where the sum of all times is least, or the one named by option `device`.
// Groups that may not go there go to their fastest device. Source: Mirhoseini et al. 2018 (Hierarchical Planner),
// section 3.1, "GPU Only".
std::unique_ptr<Agent> MakeSingleDeviceAgent(OptionReader& reader, const AgentContext& context);

// Everything on one CPU: the one where the sum of all times is least; groups that may not go there go to their fastest
// device. Propose throws InputError where the cluster has no CPU. Source: Mirhoseini et al. 2018 (Hierarchical
// Planner), section 3.1, "CPU Only".
std::unique_ptr<Agent> MakeCpuOnlyAgent(OptionReader& reader, const AgentContext& context);

// The i-th group in topological order on accelerator i modulo their number; groups that may not go there go to their
// fastest accelerator, else to their fastest device.
std::unique_ptr<Agent> MakeRoundRobinAgent(OptionReader& reader, const AgentContext& context);

// The topological order cut into one contiguous block per accelerator, blocks of equal time (of each group the mean
// over the accelerators). Groups that may not go to their block's go to their fastest accelerator, else to their
// fastest device. Source: m-TOPO (Jeon et al. 2020, Baechi) with times in place of bytes.
Placement PlaceInBlocks(const Observation& observation);

std::unique_ptr<Agent> MakeBlocksAgent(OptionReader& reader, const AgentContext& context);

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

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_BASELINES_H_
