#include "agents/rl/planner/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "agents/rl/read_options.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

void ReadCommon(OptionReader& reader, PlannerOptions* options) {
  ReadCount(reader, "hidden", &options->hidden, 8, 4096, "units of each direction of the encoder, a multiple of 8");
  ReadWord<AttentionOver>(reader, "attention", &options->attention,
                          {{"states", AttentionOver::kStates}, {"keys", AttentionOver::kKeys}},
                          "vectors that attention averages: the encoder's states, or their projections [its code]");
  reader.Read("temperature", &options->temperature, 1e-3, 1e6, "T: logits are C tanh(l / T)");
  reader.Read("bound", &options->bound, 0, 1e6, "C; 0: logits are l / T");
  ReadCount(reader, "samples", &options->samples, 1, 1000, "placements per grouping in an update: k");
  reader.Read("step_per_reward", &options->step_per_reward,
              "one step for each placement of an update instead of one for all [figure 3]");
  reader.Read("learning_rate", &options->learning_rate, 0, 10, "learning rate of Adam at the start [ours; paper: 0.1]");
  const bool falls = options->placer == PlacerKind::kEncoder;
  options->final_learning_rate =
      falls ? std::min(options->final_learning_rate, options->learning_rate) : options->learning_rate;
  reader.Read("final_learning_rate", &options->final_learning_rate, 0, 10,
              "learning rate of Adam at the end; linear in between [paper: the first; of the RNN: Placeto A.7]");
  reader.Read("excess", &options->excess_weight, 0, 1e9,
              "weight of the mean squared excess of logits l over T; needs a bound [ours]");
  reader.Read("clip", &options->clip, 1e-9, 1e9, "largest norm of the gradient of an update");
  reader.Read("entropy", &options->entropy_weight, 0, 1000,
              "weight of the Placer's entropy at the start [ours; of the RNN: Placeto A.7, without a number]");
  reader.Read("final_entropy", &options->final_entropy_weight, 0, 1000,
              "the same at the end; linear in between [ours]");
  reader.Read("baseline_decay", &options->baseline_decay, 0, 1, "decay of the moving average of rewards [its code]");
  reader.Read("baseline_at_failure", &options->baseline_at_failure,
              "start the average at -10, as in its code, not at the first rewards [ours]");
  reader.Read("noise", &options->noise, 0, 1000, "largest noise on a row of logits");
  ReadCount(reader, "noise_updates", &options->noise_updates, 0, 1'000'000'000, "updates with noise");
  ReadCount(reader, "drop_invalid_after", &options->drop_invalid_after, 0, 1'000'000'000,
            "number of updates after which only placements that fit are used for learning");
  reader.Read("raw_groups", &options->raw_groups,
              "count the kinds of a group's ops and sum their dimensions without scaling [ours; paper: true]");
  ReadCount(reader, "shuffle", &options->shuffle, 0, 1'000'000'000,
            "seed of a random order of the groups for the Placer; 0: keep their order [ours; paper: random]");
  reader.Read("final_evaluation", &options->final_evaluation,
              "the last evaluation is that of the likeliest placement [ours]");
  reader.Read("use_cpus", &options->use_cpus, "also use CPUs");
  reader.Finish();
  if (options->hidden % 8 != 0) {
    throw InputError("hidden", fmt::format("is {} (a multiple of 8)", options->hidden));
  }
  if (options->excess_weight > 0 && (options->bound == 0 || options->placer == PlacerKind::kNone)) {
    throw InputError("excess", "needs logits with a bound (0)");
  }
}

}  // namespace

PlannerOptions ReadHierarchicalOptions(OptionReader& reader) {
  PlannerOptions options;
  ReadWord<GrouperKind>(reader, "grouper", &options.grouper,
                        {{"learned", GrouperKind::kLearned}, {"random", GrouperKind::kRandom}},
                        "random: one random grouping, the paper's ablation");
  ReadWord<PlacerKind>(reader, "placer", &options.placer,
                       {{"attention", PlacerKind::kAttention}, {"none", PlacerKind::kNone}},
                       "none: each group is a device, the paper's Simple Planner");
  ReadCount(reader, "groups", &options.groups, 1, 65536, "number of groups, at most the number of ops");
  ReadCount(reader, "groupings", &options.groupings, 1, 1000,
            "groupings sampled for an update: m; with placer=none, each of the m k placements has its own");
  ReadCount(reader, "kind_width", &options.kind_width, 1, 4096, "width of the embedding of an op's kind");
  ReadCount(reader, "grouper_hidden", &options.grouper_hidden, 1, 65536, "units of the Grouper's hidden layer");
  reader.Read("raw_features", &options.raw_features,
              "use dimensions and indices of ops without scaling [ours; paper: true]");
  reader.Read("mask_empty_groups", &options.mask_empty_groups, "do not learn from the devices of empty groups [ours]");
  if (options.grouper == GrouperKind::kRandom && options.placer == PlacerKind::kNone) {
    throw InputError("hierarchical", "grouper=random with placer=none trains nothing (set only one of them)");
  }
  ReadCommon(reader, &options);
  return options;
}

PlannerOptions ReadColocRlOptions(OptionReader& reader) {
  PlannerOptions options;
  options.grouper = GrouperKind::kNone;
  ReadWord<PlacerKind>(reader, "placer", &options.placer,
                       {{"attention", PlacerKind::kAttention}, {"encoder", PlacerKind::kEncoder}},
                       "encoder: the bi-directional RNN that Placeto compares with; unless they are set, hidden is "
                       "then 512 and the learning "
                       "rate falls from 1e-3 to 1e-4 [Placeto A.7], temperature is 1 and bound 0 [ours]");
  if (options.placer == PlacerKind::kEncoder) {
    options.hidden = 512;
    options.temperature = 1;
    options.bound = 0;
    options.learning_rate = 1e-3;
    options.final_learning_rate = 1e-4;
  }
  ReadCommon(reader, &options);
  return options;
}

}  // namespace emplace::agents
