#ifndef EMPLACE_AGENTS_RL_DOPPLER_DOPPLER_H_
#define EMPLACE_AGENTS_RL_DOPPLER_DOPPLER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "agents/agent.h"
#include "agents/rl/doppler/dual_policy.h"

namespace emplace::agents {

// How stage II explores: draws from the softmax, or the most likely choice except with probability epsilon.
enum class DopplerSampling : std::uint8_t { kSoftmax, kEpsilonGreedy };

// DOPPLER: two policies assign groups to devices one after another. SEL selects a group whose producers are assigned,
// and PLC its device, by what the devices have to do until then (PartialSchedule). An episode is one such assignment,
// and its placement is evaluated once.
//   Stage I, imitation: episodes without evaluation, in which the gradient makes the critical-path policy's choices
//     likelier. Decisions are uniform with a probability that falls from 1 to 0, else the most likely ones.
//   Stage II: REINFORCE on the evaluator, -A ln(probability of the decisions) - entropy * H, means over steps.
//   Stage III is the same with an evaluator that measures, from a loaded policy: `fine_tune`.
// One agent learns on one graph or on several, and can be applied to others, also with another number of devices.
// Source: Yao et al. 2026 (DOPPLER, ICLR), and its authors' code for features, widths, rates and exploration.
// Deviations, and choices where these are silent:
// - A = (R - mean) / deviation over the last `baseline_episodes` rewards, at most 3; theirs is the mean over all step
//   times so far minus the step time, discounted by 0.99 a step;
// - stage II draws from the softmax by default; an epsilon of 0.2 puts a fifth of all groups on random devices;
// - fewer episodes of stage I, a higher rate in stage II and no entropy: the best of those tried (docs/agents.md);
// - an update is over `batch` episodes; theirs is over one;
// - features of groups are normalised over the graph, not over the ready ones, so scores are computed once an episode;
// - messages are means over neighbours without edge features; theirs has an edge network and a GRU. Means replace sums
//   over paths and devices. ReLU replaces LeakyReLU. Widths are smaller: 32, not 128;
// - ours are the features 5 to 10 of a device and 5 and 6 of a group: devices may differ in speed, links and memory;
// - the teacher chooses the device where the group ends first, which differs from starting first on unequal devices;
// - a tensor is sent to a device once, and transfers of a sender wait for each other, as in the simulator;
// - a device without room for a group is not chosen while another one has it;
// - with a start there is no stage I; the start's devices get the constant of start_prior.h on their logits;
// - it places on accelerators only unless `use_cpus`.
struct DopplerOptions {
  DualPolicyOptions network;
  std::size_t imitation_episodes = 100;
  double imitation_rate = 1e-3;
  std::size_t batch = 4;
  double learning_rate = 3e-3;  // decreasing to 0
  DopplerSampling sampling = DopplerSampling::kSoftmax;
  double epsilon = 0.2;  // of kEpsilonGreedy, decreasing to 0
  double entropy_weight = 0;
  std::size_t baseline_episodes = 100;
  double clip = 1;  // norm of a gradient
  bool final_evaluation = true;
  bool use_cpus = false;
  bool fine_tune = false;
};

std::unique_ptr<Agent> MakeDopplerAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_DOPPLER_DOPPLER_H_
