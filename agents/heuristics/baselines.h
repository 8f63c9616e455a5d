#ifndef EMPLACE_AGENTS_HEURISTICS_BASELINES_H_
#define EMPLACE_AGENTS_HEURISTICS_BASELINES_H_

#include <memory>

#include "agents/agent.h"

// Placements by simple rules, as baselines of searches.
namespace emplace::agents {

// Every group on one accelerator: the one with the smallest total time, or the one named by option `device`. A group
// not allowed there goes to its fastest device. Source: Mirhoseini et al. 2018 (Hierarchical Planner), section 3.1,
// "GPU Only".
std::unique_ptr<Agent> MakeSingleDeviceAgent(OptionReader& reader, const AgentContext& context);

// Every group on one CPU, the one with the smallest total time. A group not allowed there goes to its fastest device.
// Propose throws InputError if the cluster has no CPU. Source: Mirhoseini et al. 2018 (Hierarchical Planner), section
// 3.1, "CPU Only".
std::unique_ptr<Agent> MakeCpuOnlyAgent(OptionReader& reader, const AgentContext& context);

// The i-th group in topological order on accelerator i modulo their number. A group not allowed there goes to its
// fastest accelerator, else to its fastest device.
std::unique_ptr<Agent> MakeRoundRobinAgent(OptionReader& reader, const AgentContext& context);

// Splits the topological order into one contiguous block per accelerator. Blocks have equal total time, with each
// group's mean time over the accelerators. A group not allowed on its block's accelerator goes to its fastest
// accelerator, else to its fastest device. Source: m-TOPO (Jeon et al. 2020, Baechi) with times instead of bytes.
Placement PlaceInBlocks(const Observation& observation);

std::unique_ptr<Agent> MakeBlocksAgent(OptionReader& reader, const AgentContext& context);

// The placement a practitioner would choose from the layers' names (Op::layer):
//
// 1. With recurrent layers ("lstm<k>" or "rnn<k>" in a layer's name): recurrent layer k, of encoder and decoder alike,
//    on accelerator k modulo their number. "embedding" goes with layer 0. "attention", "projection", "softmax" and
//    "loss" go with the last layer. Any other group goes with a consumer, else with a producer, else with layer 0.
//
// 2. Image networks (some conv2d reads more than one row, or its shape is unknown): everything on one accelerator, as
//    single_device.
//
// 3. Anything else: contiguous blocks with equal numbers of layers, in topological order. Without layers, blocks of
//    equal time, as the agent blocks.
//
// Gradients and updates have the layer of their forward op, so they are placed with it. A group not allowed on its
// accelerator goes to its fastest accelerator, else to its fastest device.
// Sources: Mirhoseini et al. 2018 and Gao et al. 2018 for 1 and 2; 3 is ours, as no paper states a rule.
std::unique_ptr<Agent> MakeExpertAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_BASELINES_H_
