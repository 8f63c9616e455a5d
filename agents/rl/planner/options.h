#ifndef EMPLACE_AGENTS_RL_PLANNER_OPTIONS_H_
#define EMPLACE_AGENTS_RL_PLANNER_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "sim/options.h"

namespace emplace {

enum class GrouperKind : std::uint8_t { kLearned, kRandom, kNone };
enum class PlacerKind : std::uint8_t { kAttention, kEncoder, kNone };

// Settings of the agents hierarchical and coloc_rl (planner.h).
struct PlannerOptions {
  GrouperKind grouper = GrouperKind::kLearned;
  PlacerKind placer = PlacerKind::kAttention;
  std::size_t groups = 256;  // at most as many as there are ops
  std::size_t hidden = 256;  // of each direction of the Placer's encoder
  double temperature = 10;   // T
  double bound = 5;          // C; 0: none
  std::size_t samples = 4;   // k placements an update
  double learning_rate = 0.1;
  double final_learning_rate = 0.1;  // linear between
  double clip = 1;
  double entropy_weight = 0;
  double final_entropy_weight = 0;
  double baseline_decay = 0.9;
  bool baseline_at_failure = false;  // B starts at -10, what does not fit is worth; else at the first rewards' mean
  double noise = 0.1;                // the largest of each row
  std::size_t noise_updates = 500;
  std::size_t drop_invalid_after = 500;
  bool raw_features = false;
  bool shuffle = false;  // the Placer gets the groups in an order drawn once
  bool final_evaluation = true;
  bool use_cpus = true;
};

// Both read all of them and refuse what is not theirs.
PlannerOptions ReadHierarchicalOptions(OptionReader& reader);
PlannerOptions ReadColocRlOptions(OptionReader& reader);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_RL_PLANNER_OPTIONS_H_
