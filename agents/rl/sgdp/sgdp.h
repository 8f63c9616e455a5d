#ifndef EMPLACE_AGENTS_RL_SGDP_SGDP_H_
#define EMPLACE_AGENTS_RL_SGDP_SGDP_H_

#include <cstddef>
#include <memory>

#include "agents/agent.h"
#include "agents/nn/graph_transformer.h"

namespace emplace::agents {

// SGDP: a graph neural network and a transformer place all nodes at once, each by a distribution of its own, and learn
// by PPO: of `rollouts` placements, `epochs` steps of Adam down
//   -mean over placements and nodes of min(r A, clip(r, 1 +- clip) A)  -  entropy * mean over nodes of H,
// r the ratio of a node's new to its old probability, A = (R - mean) / deviation over all placements of that graph so
// far. One agent learns on one graph or on several, and is applied to others: as it is (the single device it is
// measured against, `zero_shot_samples` drawn placements, the likeliest one), or trained further (fine_tune).
// Several graphs take turns, an update each. Source: Zhou et al. 2020 (SGDP, IEEE Micro), sections "End-to-End
// Placement Policy" and "Experiment", tables 3 and 4. Deviations, and where the paper is silent:
// - its learning rate, 0.5, is a slip or another unit: 1e-3 is the default;
// - ratios are of nodes, not of whole placements, whose product overflows (its own text gives no formula);
// - 800 rollouts in 40 minibatches are taken as 40 updates of 20 placements;
// - the reward is what the problem's is (-sqrt of the step time in seconds by default), A as above, a gradient's norm
//   at most 1, segments of 128 nodes, an embedding of 64 for the kind of an op: the paper says nothing of them;
// - a node's neighbours are the five, of its producers and consumers together, that most bytes go to or come from;
// - kGat takes attention over neighbours for the pooling and keeps the transformer; the paper names GATs among what
// could
//   be the placement network, and "incorporates an attention of neighbor nodes into a GNN" (figure 2);
// - no ids of adjacent nodes among its features, which would say nothing about another graph;
// - it places on accelerators alone unless `use_cpus`, where the paper's devices may be CPUs too;
// - `mask`, its "mask attention": each node also draws whether it moves at all or stays where the best placement so far
//   has it. The paper has no formula; off by default.
struct SgdpOptions {
  GraphTransformerOptions network;  // what depends on the problem is set when it is seen
  std::size_t rollouts = 20;
  std::size_t epochs = 20;
  double learning_rate = 1e-3;
  double clip_ratio = 0.2;
  double entropy_weight = 0.5;
  double clip = 1;          // norm of a gradient
  double output_scale = 1;  // factor on the initial weights of the last layer
  bool mask = false;
  std::size_t zero_shot_samples = 10;
  bool final_evaluation = true;
  bool use_cpus = false;
  bool fine_tune = false;
};

std::unique_ptr<Agent> MakeSgdpAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_SGDP_SGDP_H_
