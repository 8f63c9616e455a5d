#ifndef EMPLACE_AGENTS_RL_POST_POST_H_
#define EMPLACE_AGENTS_RL_POST_POST_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "agents/agent.h"

namespace emplace::agents {

// Post: an independent distribution over devices for each group (PlacementTable), moved towards the fastest placements
// drawn from it. Every `batch` samples, ten steps up the PPO objective of those; every `window` samples, the
// distributions of the fastest tenth of those are taken instead, mixed with uniform ones (the cross-entropy method).
// A placement that does not fit counts 100 s, as there. The last evaluation is of the likeliest placement.
// Source: Gao et al. 2018, "Post: Device Placement with Cross-Entropy Minimization and Proximal Policy Optimization",
// algorithm 1 and section 4, whose settings are the defaults. Where the paper is silent or cannot be meant:
// - an advantage is (b - T) / b, not b - T, which depends on the unit of time; `advantage` chooses;
// - beta is halved where the KL divergence (mean over groups) ends under its target / 1.5, and doubled over 1.5 times
//   the target: the rule of Schulman et al. 2017, section 4;
// - b is the mean over all samples so far; only placements that fit are fastest, where there are any;
// - it learns on groups, where the paper says operations;
// - it places on accelerators alone, where the paper has the CPU among its devices (section 3.1), unless `use_cpus`.
enum class PostMethod : std::uint8_t { kPost, kPpo, kCrossEntropy, kPolicyGradient };
enum class PostAdvantage : std::uint8_t { kRelative, kStandardized, kRaw };

struct PostOptions {
  PostMethod method = PostMethod::kPost;
  std::size_t batch = 12;   // K
  std::size_t window = 60;  // N_s
  double learning_rate = 1;
  std::size_t steps = 10;
  double elite = 0.1;            // rho
  double uniform = 0.1;          // epsilon, down to 0 at the end
  double beta = 1;               // at first
  double divergence = 0.03;      // KL target
  bool ppo_every_batch = false;  // also where the cross-entropy step follows: the prose of section 4, not algorithm 1
  PostAdvantage advantage = PostAdvantage::kRelative;
  bool final_evaluation = true;
  bool use_cpus = false;
};

// What is learned once so many samples were drawn.
struct PostUpdates {
  bool climbs = false;   // PPO, or the step taken in its place, over the last batch
  bool crosses = false;  // cross-entropy over the last window
  bool operator==(const PostUpdates&) const = default;
};
PostUpdates UpdatesDue(const PostOptions& options, std::size_t samples);

std::unique_ptr<Agent> MakePostAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_POST_POST_H_
