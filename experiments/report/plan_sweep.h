#ifndef EMPLACE_EXPERIMENTS_REPORT_PLAN_SWEEP_H_
#define EMPLACE_EXPERIMENTS_REPORT_PLAN_SWEEP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "datasets/planner/plan_search.h"
#include "experiments/report/document.h"
#include "sim/base/json_struct.h"

namespace emplace::experiments {

// One question of `emplace plan`. A text that is the path of a file is relative to the experiment's folder.
struct PlanSweepCell {
  std::string network;
  OptionMap set;
  std::string cluster;
  std::int64_t nodes = 1;
  std::optional<std::int64_t> gpus;
  std::int64_t global_batch = 0;
  std::optional<std::int64_t> sequence;
  std::optional<std::string> framework;
  std::optional<std::int64_t> lora;
  std::optional<std::string> lora_targets;
  OptionMap only;
  std::string objective = "step_time";
  std::optional<double> within;
  std::optional<double> price;

  static void Fields(auto& visit, auto& self) {
    constexpr std::int64_t kMost = 1 << 28;
    visit("network", self.network, {.needed = "a network, as `emplace plan` takes it", .not_empty = true});
    visit("set", self.set, {.optional = true, .written = !self.set.empty()});
    visit("cluster", self.cluster, {.needed = "a shipped cluster or a file", .not_empty = true});
    visit("nodes", self.nodes, {.optional = true, .most = 1024});
    visit("gpus", self.gpus, {.optional = true, .written = self.gpus.has_value(), .most = kMost});
    visit("global_batch", self.global_batch, {.needed = "sequences of a step", .most = kMost});
    visit("sequence", self.sequence, {.optional = true, .written = self.sequence.has_value(), .most = kMost});
    visit("framework", self.framework, {.optional = true, .written = self.framework.has_value()});
    visit("lora", self.lora, {.optional = true, .written = self.lora.has_value(), .most = datasets::kMostLoraRank});
    visit("lora_targets", self.lora_targets, {.optional = true, .written = self.lora_targets.has_value()});
    visit("only", self.only, {.optional = true, .written = !self.only.empty()});
    visit("objective", self.objective, {.optional = true});
    visit("within", self.within, {.optional = true, .written = self.within.has_value()});
    visit("price", self.price, {.optional = true, .written = self.price.has_value()});
  }
};

// An experiment whose cells are plans: an `emplace.experiment` with the key `plans`, an object of a cell's fields, each
// a value or a list of values. All combinations are cells, the first list changing slowest.
struct SweepOfPlans {
  std::string path;
  std::string name;
  std::string question;
  std::vector<std::string> swept;  // the fields that have lists
  std::vector<PlanSweepCell> cells;
  std::vector<std::string> ids;  // of the cells: fingerprints of their fields and of the files that they name

  static void Fields(auto& visit, auto& self) {
    visit("path", self.path);
    visit("name", self.name);
    visit("question", self.question);
    visit("swept", self.swept);
    visit("cells", self.cells);
    visit("ids", self.ids);
  }
};

// Whether a file has the key `plans`.
bool IsPlanSweep(const std::string& file);
// Throws InputError.
SweepOfPlans ReadPlanSweep(const std::string& file);

// A cell with its answer, or the reason why there is none.
struct PlanSweepResult {
  PlanSweepCell cell;
  JsonValue answer;  // emplace.plans; null: there is none
  std::string error;
};

// Answers the cells that the folder does not hold yet, and writes each to a file there when it is answered. `on_cell`
// is told how many are done; `is_stopped` ends the sweep, the cell that it interrupts being left for the next time.
void RunPlanSweep(const SweepOfPlans& sweep, const std::string& folder, std::size_t threads,
                  const std::function<void(std::size_t)>& on_cell, const std::function<bool()>& is_stopped);

// The results in the folder, in the order of the cells; those without one are left out.
std::vector<PlanSweepResult> ReadPlanResults(const SweepOfPlans& sweep, const std::string& folder);
// The sweep that a folder holds results of; none: it is no folder of plans.
std::optional<SweepOfPlans> FindPlanSweep(const std::string& folder);

// A row for each cell: what was swept, and the best plan, or the smallest if none fits.
TableBlock PlanSweepTable(const SweepOfPlans& sweep, const std::vector<PlanSweepResult>& results);
ReportDocument PlanSweepReport(const SweepOfPlans& sweep, const std::vector<PlanSweepResult>& results);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_PLAN_SWEEP_H_
