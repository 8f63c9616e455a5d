#ifndef EMPLACE_AGENTS_RL_PLACETO_PLACETO_H_
#define EMPLACE_AGENTS_RL_PLACETO_PLACETO_H_

#include <memory>

#include "agents/agent.h"

namespace emplace::agents {

// Placeto: a policy visits the groups of a graph and moves one at a time. After every step the placement is evaluated,
// and the improvement is the reward. Training: REINFORCE with a baseline for each step, an entropy bonus, global norm
// clipping and Adam. The agent learns on one graph or several; the policy can be applied to others. The three agents
// differ in the graph embedding: message passing along the whole graph, GraphSAGE, or P-GNN.
// Source: Addanki et al. 2019 (Placeto), appendix A, and its authors' code; Mitropolitsky 2020 for the other two
// embeddings. Deviations: the reward's sign (EpisodeReturns), the start-time feature (FeatureOptions), and a learning
// rate and an entropy weight that decay to stated ends. Batch normalisation, bounded logits and epsilon-greedy steps,
// which are disabled in the code, are left out. See PlacetoOptions.
std::unique_ptr<Agent> MakePlacetoAgent(OptionReader& reader, const AgentContext& context);
std::unique_ptr<Agent> MakeGraphSageAgent(OptionReader& reader, const AgentContext& context);
std::unique_ptr<Agent> MakePGnnAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PLACETO_PLACETO_H_
