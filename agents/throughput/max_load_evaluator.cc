#include "agents/throughput/max_load_evaluator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/base/check.h"

namespace emplace::agents {

struct MaxLoadEvaluator::Scratch : Workspace {
  std::vector<StageLoad> loads;       // [num_devices]
  std::vector<std::size_t> paid;      // [num_devices]: the last crossing that the device paid for, and 1
  std::vector<std::uint32_t> payers;  // devices charged for a crossing
};

MaxLoadEvaluator::MaxLoadEvaluator(StageCosts costs)
    : costs_(std::move(costs)), class_of_(costs_.num_devices()), memory_(costs_.num_devices()) {
  for (std::size_t c = 0; c < costs_.classes.size(); ++c) {
    for (const DeviceId device : costs_.classes[c].devices) {
      class_of_[Index(device)] = static_cast<std::uint32_t>(c);
      memory_[Index(device)] = costs_.classes[c].memory;
    }
  }
  first_consumer_.push_back(0);
  for (const Crossing& crossing : costs_.crossings) {
    consumers_.insert(consumers_.end(), crossing.consumers.begin(), crossing.consumers.end());
    first_consumer_.push_back(consumers_.size());
    crossing_micros_.insert(crossing_micros_.end(), crossing.micros.begin(), crossing.micros.end());
  }
}

std::unique_ptr<Evaluator::Workspace> MaxLoadEvaluator::MakeWorkspace() const { return std::make_unique<Scratch>(); }

StepResult MaxLoadEvaluator::Run(const Placement& placement) const {
  Scratch scratch;
  StepResult result;
  RunWith(scratch, placement, &result);
  return result;
}

void MaxLoadEvaluator::AddOps(const Placement& placement, Scratch* scratch) const {
  for (std::size_t op = 0; op < costs_.num_ops(); ++op) {
    const std::size_t device = Index(placement[MakeId<OpId>(op)]);
    StageLoad& load = scratch->loads[device];
    const double micros = costs_.classes[class_of_[device]].op_micros[op];
    if (std::isnan(micros)) {
      load.op_micros = std::numeric_limits<double>::infinity();
    } else {
      load.op_micros += micros;
    }
    load.bytes += costs_.bytes[op];
  }
}

// In the order of StageLoads, so that sums are the same to the bit.
void MaxLoadEvaluator::AddCrossings(const Placement& placement, Scratch* scratch) const {
  const std::size_t num_classes = costs_.classes.size();
  for (std::size_t i = 0; i < costs_.crossings.size(); ++i) {
    const auto home = static_cast<std::uint32_t>(Index(placement[costs_.crossings[i].producer]));
    scratch->paid[home] = i + 1;
    scratch->payers.clear();
    for (std::size_t k = first_consumer_[i]; k < first_consumer_[i + 1]; ++k) {
      const auto device = static_cast<std::uint32_t>(Index(placement[consumers_[k]]));
      if (scratch->paid[device] == i + 1) continue;
      scratch->paid[device] = i + 1;
      scratch->payers.push_back(device);
    }
    if (scratch->payers.empty()) continue;
    scratch->payers.push_back(home);
    for (const std::uint32_t device : scratch->payers) {
      scratch->loads[device].crossing_micros += crossing_micros_[i * num_classes + class_of_[device]];
    }
  }
}

void MaxLoadEvaluator::RunWith(Workspace& workspace, const Placement& placement, StepResult* result) const {
  EMPLACE_CHECK_EQ(placement.num_ops(), costs_.num_ops());
  auto& scratch = static_cast<Scratch&>(workspace);
  scratch.loads.assign(class_of_.size(), {});
  scratch.paid.assign(class_of_.size(), 0);
  AddOps(placement, &scratch);
  AddCrossings(placement, &scratch);
  result->step_time_micros = 0;
  result->runs = true;
  result->fits_memory = true;
  result->peak_memory.clear();
  for (std::size_t d = 0; d < scratch.loads.size(); ++d) {
    result->step_time_micros = std::max(result->step_time_micros, scratch.loads[d].micros());
    result->peak_memory.push_back(scratch.loads[d].bytes);
    result->fits_memory = result->fits_memory && (!memory_[d] || scratch.loads[d].bytes <= *memory_[d]);
  }
  result->start_micros.clear();
}

}  // namespace emplace::agents
