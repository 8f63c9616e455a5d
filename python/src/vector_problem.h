#ifndef EMPLACE_PYTHON_SRC_VECTOR_PROBLEM_H_
#define EMPLACE_PYTHON_SRC_VECTOR_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "agents/reward.h"
#include "python/src/batch_evaluator.h"
#include "python/src/group_features.h"
#include "sim/grouping.h"

namespace emplace::python {

// The treatment of an environment whose episode has ended. Source: Gymnasium 1.1, AutoresetMode.
enum class Autoreset : std::uint8_t {
  kNextStep,  // the next Step() ignores its action and begins an episode
  kSameStep,  // the Step() that ends it begins the next one; the last observation is in final_nodes()
  kDisabled,  // it must be reset before the next Step()
};

// The placement with which an episode begins.
enum class Start : std::uint8_t {
  kSingleDevice,  // everything on the first accelerator
  kRandom,        // random devices
  kBest,          // the placement of the smallest cost since the environments were seeded; at first kSingleDevice
};

struct VectorEnvOptions {
  std::size_t num_envs = 1;
  bool whole = false;  // an action is a placement of all groups; else a device for the next group
  bool graph = false;  // observations are of the whole graph; else of the group that is placed next
  Start start = Start::kSingleDevice;
  bool final_reward = false;   // only the last step of an episode has a reward, the cost with a minus
  double memory_penalty = 10;  // cost of a placement that exceeds memory by the whole memory of a device
  Autoreset autoreset = Autoreset::kNextStep;
  std::size_t threads = 1;
};

// What environments of one problem share.
struct VectorProblem {
  std::size_t num_groups = 0;
  std::size_t num_devices = 0;
  agents::RelativeCost cost;         // its baseline is the first accelerator alone
  bool has_limits = false;           // of memory
  std::vector<std::int16_t> start;   // [num_groups]: the first accelerator
  std::vector<float> features;       // [num_groups, 3]: those that no step changes
  GroupFeatures group_features;      // of the group that is placed next
  std::vector<std::int64_t> edges;   // [2, edges]
  std::vector<std::int8_t> allowed;  // [num_groups, num_devices]
  std::uint64_t number = 0;          // tells problems and costs apart

  bool Allows(std::size_t group, std::size_t device) const { return allowed[group * num_devices + device] != 0; }
};

// Throws InputError as agents::Environment, and on a graph without ops.
VectorProblem MakeVectorProblem(const BatchEvaluator& evaluator, const Grouping& grouping,
                                const VectorEnvOptions& options);

}  // namespace emplace::python

#endif  // EMPLACE_PYTHON_SRC_VECTOR_PROBLEM_H_
