#ifndef EMPLACE_AGENTS_RL_POST_POST_H_
#define EMPLACE_AGENTS_RL_POST_POST_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "agents/agent.h"

namespace emplace::agents {

// Post: an independent distribution over devices for each group (PlacementTable), moved towards the fastest placements
// sampled from it. Every `batch` samples, ten ascent steps on the PPO objective of those samples. Every `window`
// samples, instead, the distributions of their fastest tenth, mixed with uniform ones (the cross-entropy method). A
// placement that does not fit counts as 100 s, as in the paper. The last evaluation is of the most likely placement.
// Source: Gao et al. 2018, "Post: Device Placement with Cross-Entropy Minimization and Proximal Policy Optimization",
// algorithm 1 and section 4, whose settings are the defaults.
// Where the paper is silent or in error:
// - an advantage is (b - T) / b, not b - T, which depends on the unit of time; `advantage` selects;
// - beta is halved if the KL divergence (mean over groups) ends below its target / 1.5, and doubled above 1.5 times the
//   target: the rule of Schulman et al. 2017, section 4;
// - b is the mean over all samples so far; the fastest are chosen among placements that fit, if there are any;
// - it learns on groups, where the paper uses operations;
// - it places on accelerators only, where the paper includes the CPU (section 3.1), unless `use_cpus`.
enum class PostMethod : std::uint8_t { kPost, kPpo, kCrossEntropy, kPolicyGradient };
enum class PostAdvantage : std::uint8_t { kRelative, kStandardized, kRaw };

struct PostOptions {
  PostMethod method = PostMethod::kPost;
  std::size_t batch = 12;   // K
  std::size_t window = 60;  // N_s
  double learning_rate = 1;
  std::size_t steps = 10;
  double elite = 0.1;            // rho
  double uniform = 0.1;          // epsilon, decreasing to 0
  double beta = 1;               // initial value
  double divergence = 0.03;      // KL target
  bool ppo_every_batch = false;  // also before a cross-entropy step: the text of section 4, not algorithm 1
  PostAdvantage advantage = PostAdvantage::kRelative;
  bool final_evaluation = true;
  bool use_cpus = false;
};

// The updates due after `samples` samples.
struct PostUpdates {
  bool climbs = false;   // PPO, or the step that replaces it, over the last batch
  bool crosses = false;  // cross-entropy over the last window
  bool operator==(const PostUpdates&) const = default;
};
PostUpdates UpdatesDue(const PostOptions& options, std::size_t samples);

std::unique_ptr<Agent> MakePostAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_POST_POST_H_
