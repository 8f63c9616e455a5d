#ifndef EMPLACE_EXPERIMENTS_TRIAL_H_
#define EMPLACE_EXPERIMENTS_TRIAL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agents/agent.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/grouping.h"
#include "sim/options.h"
#include "sim/placement.h"

namespace emplace {

// One search: graph x cluster x agent x seed.
struct TrialSpec {
  Graph graph;
  Cluster cluster;
  CostTable costs;
  std::string engine = "fifo";
  std::string agent = {};
  OptionMap agent_options = {};
  std::string grouping = {};                    // a grouper's name; "": what the agent wants
  std::optional<Grouping> given_grouping = {};  // instead of a grouper's
  std::size_t max_groups = 256;
  std::size_t evaluations = 0;  // 0: what the agent's row says
  std::string reward = "runtime";
  std::uint64_t seed = 1;
  std::size_t threads = 1;      // the answer does not depend on it
  std::string checkpoint = {};  // a file to resume from and to save to now and then; "": none
};

struct TrialProgress {
  std::size_t evaluations = 0;
  std::size_t budget = 0;
  std::optional<double> best_micros;  // of placements that fit
};

struct TrialResult {
  std::size_t evaluations = 0;
  std::size_t num_groups = 0;
  std::size_t fitting = 0;        // evaluations whose placement fits
  std::optional<Placement> best;  // op-level, the fastest that fits; ties go to the first found
  StepResult best_result;
  std::optional<double> smallest_overflow_bytes;  // where nothing fits: of the nearest, summed over devices
};

// The propose/observe loop: until the budget is spent or the agent is finished. Same spec, same result.
// Throws InputError on an unknown agent, option, grouping, reward or engine, and on a checkpoint of another spec.
TrialResult RunTrial(const TrialSpec& spec, const std::function<void(const TrialProgress&)>& on_progress = {});

}  // namespace emplace

#endif  // EMPLACE_EXPERIMENTS_TRIAL_H_
