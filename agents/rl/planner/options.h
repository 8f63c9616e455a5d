#ifndef EMPLACE_AGENTS_RL_PLANNER_OPTIONS_H_
#define EMPLACE_AGENTS_RL_PLANNER_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "agents/nn/sequence_network.h"
#include "sim/base/options.h"

namespace emplace::agents {

enum class GrouperKind : std::uint8_t { kLearned, kRandom, kNone };
enum class PlacerKind : std::uint8_t { kAttention, kEncoder, kNone };

// Options of the agents hierarchical and coloc_rl (planner.h). Unless marked, defaults are those of Mirhoseini et al.
// 2018: sizes from section 3, "Architecture of the Policy Network", the rest from its "Training Details".
struct PlannerOptions {
  GrouperKind grouper = GrouperKind::kLearned;
  PlacerKind placer = PlacerKind::kAttention;
  std::size_t groups = 256;         // at most the number of ops
  std::size_t kind_width = 20;      // width of the embedding of an op's kind in the Grouper: section 2
  std::size_t grouper_hidden = 64;  // units of the Grouper's hidden layer
  std::size_t hidden = 256;         // units of each direction of the Placer's encoder, a multiple of 8
  AttentionOver attention = AttentionOver::kStates;
  double temperature = 10;             // T
  double bound = 5;                    // C; 0: none
  std::size_t groupings = 1;           // m per update: equations 4 and 6
  std::size_t samples = 4;             // k placements of each grouping
  bool step_per_reward = false;        // one step for each placement of an update: figure 3
  double learning_rate = 0.001;        // 0.1 in the paper, at which logits reach their bounds at once
  double final_learning_rate = 0.001;  // linear decay; constant unless set, as in the paper
  double excess_weight = 0;            // weight of the excess of raw logits over T: LossWeights; not in the paper
  double clip = 1;
  double entropy_weight =
      0;  // weight of the mean entropy over groups; not in the paper; Placeto A.7 gives no value for its RNN
  double final_entropy_weight = 0;
  double baseline_decay = 0.9;       // value in the published code; the paper has an "exponential moving average"
  bool baseline_at_failure = false;  // B starts at -10, the reward of an invalid placement; else at the mean first
                                     // reward
  double noise = 0.1;                // largest magnitude in each row
  std::size_t noise_updates =
      500;  // relative to the paper's 1,000 updates, whatever the budget; so is drop_invalid_after
  std::size_t drop_invalid_after = 500;
  bool raw_features = false;  // features of ops, unscaled as in the paper; default: scaled, like the features of groups
  bool raw_groups = false;    // the same of groups: counts of kinds and sums of dimensions, as in the paper
  bool mask_empty_groups = false;  // the sampled device of a group without ops is ignored in training
  std::size_t shuffle = 0;         // seed of a random order of the Placer's groups; 0: original order
  bool final_evaluation = true;
  bool use_cpus = true;
};

// Both declare all options and reject those of the other agent.
PlannerOptions ReadHierarchicalOptions(OptionReader& reader);
PlannerOptions ReadColocRlOptions(OptionReader& reader);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PLANNER_OPTIONS_H_
