#ifndef EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLAN_CELLS_H_
#define EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLAN_CELLS_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json_struct.h"
#include "sim/base/options.h"

namespace emplace::experiments {

// A way to train the network of a cell that somebody ran, or tried to run.
struct PlanSetting {
  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t zero = 0;
  std::int64_t micro_batch = 1;
  std::int64_t grad_accumulation = 1;

  static void Fields(auto& visit, auto& self) {
    constexpr FieldRule kDegree = {.most = 1 << 20};
    visit("dp", self.dp, kDegree);
    visit("tp", self.tp, kDegree);
    visit("pp", self.pp, kDegree);
    visit("zero", self.zero, {.optional = true, .most = 3});
    visit("micro_batch", self.micro_batch, kDegree);
    visit("grad_accumulation", self.grad_accumulation, {.optional = true, .most = 1 << 24});
  }
  auto operator<=>(const PlanSetting&) const = default;
};
// "dp 8, tp 1, pp 1, zero 0, micro-batch 2".
std::string SettingText(const PlanSetting& setting);

// One network on one machine, and how long a step took with each setting. Settings are in the order of their degrees,
// which tells nothing of the measurements.
struct PlanCell {
  std::string name;     // "nanotron-8b-64": the table, the network and the number of accelerators
  std::string table;    // "nanotron"
  std::string network;  // a name that datasets::NamedNetwork knows
  OptionMap set = {};   // its fields with other values
  std::string cluster;  // a shipped one
  std::int64_t nodes = 1;
  std::int64_t gpus = 1;
  std::string framework;  // a row of datasets::FrameworkNames()
  std::int64_t global_batch = 0;
  std::int64_t sequence = 0;
  OptionMap fixed = {};  // parts of plans that all settings share, as `emplace plan --only` has them
  std::vector<PlanSetting> settings = {};
  std::vector<std::optional<double>> step_s = {};  // for each setting; none: it did not run

  std::size_t ran() const;
  std::optional<double> best_step_s() const;  // none: nothing ran
};

// A file of measurements that cells are made of.
struct PlanTable {
  std::string_view name;    // "nanotron"
  std::string_view file;    // under the folder of --data
  std::string_view source;  // whose measurements
};
const std::vector<PlanTable>& PlanTables();

// The cells of every table that `folder` has. Rows that contradict themselves are left out, and of several runs of one
// setting the fastest counts. Throws InputError, whose place starts with the file, and where the folder has no table.
std::vector<PlanCell> ReadPlanCells(const std::string& folder);

// Throws InputError(place) with the names that are like `name`.
const PlanCell& FindPlanCell(const std::vector<PlanCell>& cells, std::string_view name, const std::string& place);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLAN_CELLS_H_
