#ifndef EMPLACE_AGENTS_RL_SGDP_SGDP_H_
#define EMPLACE_AGENTS_RL_SGDP_SGDP_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "agents/agent.h"
#include "agents/nn/graph_transformer.h"
#include "agents/rl/sgdp/node_policy.h"

namespace emplace::agents {

// The rewards whose mean and deviation normalise an advantage: all of the graph so far, or those of the update.
enum class SgdpBaseline : std::uint8_t { kCumulative, kBatch };

// SGDP: a graph neural network and a transformer place all nodes at once, each by its own distribution. Training is
// PPO: for every `rollouts` placements, `epochs` steps of Adam minimise
//   -mean over placements of min(r A, clip(r, 1 +- clip) A)  -  entropy * mean over nodes of H.
// r is the ratio of a placement's new to its old probability; `ratio` selects that of each node, for which the mean is
// over nodes too. `entropy_over` selects the sum over nodes. A = (R - mean) / deviation over the
// placements of the update, or over all of that graph so far. One agent learns on one graph or on several, and can be
// applied to others. Without training it evaluates the single device as reference, `zero_shot_samples` sampled
// placements and the most likely one; with fine_tune it is trained further. Several graphs take turns, one update each.
// Source: Zhou et al. 2020 (SGDP, IEEE Micro), sections "End-to-End Placement Policy" and "Experiment", tables 3 and 4.
// Deviations, and choices where the paper is silent:
// - its learning rate, 0.5, is an error or in another unit: 3e-4 is the default, the best of those tried;
// - the text gives no formula of the ratio, whose `joint` reading is the text's action, the decisions at all nodes
//   together. By default it is each node's. With hundreds of nodes that learns more (docs/results/sgdp.md);
// - beside a ratio of each node the published weight on entropy, 0.5, keeps the policy uniform: 0.005 is the default;
// - 800 rollouts in 40 minibatches are interpreted as 40 updates of 20 placements;
// - the paper does not give: the reward (here the problem's, by default -sqrt of the step time in seconds), A as above,
//   gradient norms of at most 1, segments of 128 nodes, an embedding of 64 for the kind of an op;
// - a node's neighbours are the five, of its producers and consumers together, with the most bytes on the edge;
// - kGat replaces the pooling by attention over neighbours and keeps the transformer; the paper names GATs as a
//   possible placement network, and "incorporates an attention of neighbor nodes into a GNN" (figure 2);
// - ids of adjacent nodes are features only with `neighbour_ids`, as those of another graph mean something else. Then
//   they are those of the Hierarchical Planner, whose authors list the same three features;
// - it places on accelerators only unless `use_cpus`, where the paper's devices may include CPUs;
// - `mask`, its "mask attention": each node also samples whether it moves or stays where the best placement so far has
//   it. The paper has no formula; off by default.
struct SgdpOptions {
  GraphTransformerOptions network;  // problem-dependent fields are set for the first graph
  std::size_t rollouts = 20;
  std::size_t epochs = 20;
  double learning_rate = 3e-4;
  double clip_ratio = 0.2;
  double entropy_weight = 0.005;
  PpoRatio ratio = PpoRatio::kNode;
  bool sum_entropy = false;
  SgdpBaseline baseline = SgdpBaseline::kBatch;
  bool neighbour_ids = false;
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
