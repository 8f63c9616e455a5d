#ifndef EMPLACE_AGENTS_THROUGHPUT_MAX_LOAD_EVALUATOR_H_
#define EMPLACE_AGENTS_THROUGHPUT_MAX_LOAD_EVALUATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "agents/throughput/stage_costs.h"
#include "sim/evaluator.h"
#include "sim/placement.h"

namespace emplace::agents {

// Answers with the largest load of a device (MaxLoad) where the simulator answers with the time of a step: the time per
// micro-batch of a pipeline in its steady state. A device's peak memory is the bytes of its ops (StageLoad). There are
// no start times.
// Cost: O(ops + readers of tensors). RunWith allocates nothing once workspace and result have been used.
class MaxLoadEvaluator : public Evaluator {
 public:
  explicit MaxLoadEvaluator(StageCosts costs);

  const StageCosts& costs() const { return costs_; }

  StepResult Run(const Placement& placement) const override;
  std::unique_ptr<Workspace> MakeWorkspace() const override;
  void RunWith(Workspace& workspace, const Placement& placement, StepResult* result) const override;

 private:
  struct Scratch;
  void AddOps(const Placement& placement, Scratch* scratch) const;
  void AddCrossings(const Placement& placement, Scratch* scratch) const;

  StageCosts costs_;
  std::vector<std::uint32_t> class_of_;       // [num_devices]
  std::vector<std::optional<Bytes>> memory_;  // [num_devices]
  std::vector<std::size_t> first_consumer_;   // [num_crossings + 1]
  std::vector<OpId> consumers_;               // consumers of all crossings
  std::vector<double> crossing_micros_;       // [num_crossings, num_classes]
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_MAX_LOAD_EVALUATOR_H_
