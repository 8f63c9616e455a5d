#ifndef EMPLACE_AGENTS_RL_PLANNER_OPTIONS_H_
#define EMPLACE_AGENTS_RL_PLANNER_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "sim/base/options.h"

namespace emplace::agents {

enum class GrouperKind : std::uint8_t { kLearned, kRandom, kNone };
enum class PlacerKind : std::uint8_t { kAttention, kEncoder, kNone };

// Settings of the agents hierarchical and coloc_rl (planner.h). Defaults are those of Mirhoseini et al. 2018: sizes
// from section 3, "Architecture of the Policy Network", the rest from its "Training Details", but for what is marked.
struct PlannerOptions {
  GrouperKind grouper = GrouperKind::kLearned;
  PlacerKind placer = PlacerKind::kAttention;
  std::size_t groups = 256;         // at most as many as there are ops
  std::size_t kind_width = 20;      // of the embedding of an op's kind, for the Grouper: section 2
  std::size_t grouper_hidden = 64;  // units of its layer
  std::size_t hidden = 256;         // of each direction of the Placer's encoder, a multiple of 8
  double temperature = 10;          // T
  double bound = 5;                 // C; 0: none
  std::size_t groupings = 1;        // m of an update: equations 4 and 6
  std::size_t samples = 4;          // k placements of each
  bool step_per_reward = false;     // a step for each placement of an update: figure 3
  double learning_rate = 0.1;
  double final_learning_rate = 0.1;  // linear between; the paper's is fixed, so the same unless it is set
  double clip = 1;
  double entropy_weight = 0;  // on the mean over groups; not in the paper; Placeto A.7 does not give that of its RNN
  double final_entropy_weight = 0;
  double baseline_decay = 0.9;       // of the published code; the paper has an "exponential moving average"
  bool baseline_at_failure = false;  // B starts at -10, what does not fit is worth; else at the first rewards' mean
  double noise = 0.1;                // the largest of each row
  std::size_t noise_updates = 500;   // as the next of the paper's 1,000 updates, whatever the budget is
  std::size_t drop_invalid_after = 500;
  bool raw_features = false;       // of ops, as the paper has them; ours are scaled, and those of groups always are
  bool mask_empty_groups = false;  // the device of a group without ops is drawn, and not learned from
  std::size_t shuffle = 0;         // the Placer gets the groups in the order drawn with this seed; 0: as they are
  bool final_evaluation = true;
  bool use_cpus = true;
};

// Both read all of them and refuse what is not theirs.
PlannerOptions ReadHierarchicalOptions(OptionReader& reader);
PlannerOptions ReadColocRlOptions(OptionReader& reader);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PLANNER_OPTIONS_H_
