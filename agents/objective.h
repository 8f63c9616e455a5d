#ifndef EMPLACE_AGENTS_OBJECTIVE_H_
#define EMPLACE_AGENTS_OBJECTIVE_H_

#include <span>
#include <string_view>

#include "agents/throughput/stage_costs.h"
#include "sim/base/options.h"

namespace emplace::agents {

// What a search makes small, of placements that fit. Rewards are computed from it, whichever it is.
struct Objective {
  std::string_view name = "step_time";  // a name of AllObjectives()
  StageCostOptions load = {};           // throughput: which links and bytes count

  bool is_max_load() const { return name != "step_time"; }
};

// A row of `emplace list objectives`.
struct ObjectiveEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  void (*read)(OptionReader& reader, Objective* objective) = nullptr;  // its own options
};
std::span<const ObjectiveEntry> AllObjectives();

// NAME, or NAME:KEY=VALUE,KEY=VALUE with the objective's own options; "" is step_time. Throws InputError.
Objective ParseObjective(std::string_view text);

// The options of stage costs, as dp_contiguous has them too.
void ReadStageCostOptions(OptionReader& reader, StageCostOptions* options);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_OBJECTIVE_H_
