#ifndef EMPLACE_AGENTS_ENVIRONMENT_H_
#define EMPLACE_AGENTS_ENVIRONMENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "agents/reward.h"
#include "agents/throughput/stage_costs.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/evaluator.h"
#include "sim/graph.h"
#include "sim/grouping.h"
#include "sim/placement.h"

namespace emplace::agents {

// The problem as input of an agent: groups, devices, and the devices allowed for each group.
struct Observation {
  Graph graph;  // the coarse graph: its OpId i is group i, ids are a topological order
  Cluster cluster;
  std::vector<double> time_micros;     // [num_groups, num_devices]; NaN where not allowed
  std::vector<std::uint8_t> allowed;   // [num_groups, num_devices]; agents sample from it
  std::vector<Bytes> persistent;       // [num_groups]
  std::vector<Bytes> temp;             // [num_groups]: largest temporary bytes of a member
  std::vector<Bytes> output;           // [num_groups]: bytes of all outputs of all members
  std::vector<DeviceId> accelerators;  // devices other than CPUs; every device, if all are CPUs

  std::size_t num_groups() const { return graph.num_ops(); }
  std::size_t num_devices() const { return cluster.num_devices(); }
  double TimeMicros(std::size_t group, std::size_t device) const { return time_micros[group * num_devices() + device]; }
  bool Allowed(std::size_t group, std::size_t device) const { return allowed[group * num_devices() + device] != 0; }
  // The device of `devices` where the group is allowed and fastest. If it is allowed on none of them, its fastest
  // allowed device of the cluster. Ties go to the smaller id.
  DeviceId Fastest(std::size_t group, std::span<const DeviceId> devices) const;
};

// The result of one proposed placement, and its reward.
struct Outcome {
  StepResult result;
  double reward = 0;
};

// Combines grouping, evaluator and reward: an agent proposes placements of groups and receives their rewards. Counts
// evaluations.
class Environment {
 public:
  // Keeps a reference only to `evaluator`, which must outlive the object. The memory of the reward is the cluster's.
  // `threads` evaluate a batch together; results do not depend on their number. `index` is the number of this graph
  // among those that the agent learns on. Throws InputError if two devices that agents may use have no link, or a group
  // is allowed on no device.
  Environment(const Graph& graph, const Cluster& cluster, const CostTable& costs, Grouping grouping,
              const Evaluator& evaluator, const RewardOptions& reward = {}, std::size_t threads = 1,
              std::size_t index = 0);
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  const Observation& observation() const { return observation_; }
  // The number of this graph among those that the agent learns on together.
  std::size_t index() const { return index_; }
  const Graph& op_graph() const { return graph_; }
  const CostTable& costs() const { return costs_; }
  const Grouping& grouping() const { return grouping_; }
  const RewardOptions& reward() const { return reward_; }

  // A placement of the op graph as one of groups: each group on the device where most of its members are by time, or
  // its fastest if it is not allowed there.
  Placement OfGroups(const Placement& ops) const;
  // A placement of the op graph from which agents may start, as OfGroups() has it.
  void SetStart(const Placement& ops);
  const std::optional<Placement>& start() const { return start_; }  // none: not set

  // Says that the evaluator answers with the largest load of a device, of these costs, which must outlive the object,
  // and of which options they are. Agents may then look at what makes a load large.
  void SetStageCosts(const StageCosts& costs, const StageCostOptions& options) {
    stage_costs_ = &costs;
    stage_options_ = options;
  }
  const StageCosts* stage_costs() const { return stage_costs_; }  // null: the evaluator answers with the step time
  const StageCostOptions& stage_options() const { return stage_options_; }

  // One outcome per placement of groups, in order.
  // Requires: every group is on a device where it is allowed.
  std::vector<Outcome> Evaluate(std::span<const Placement> placements);
  std::size_t evaluations() const { return evaluations_; }

 private:
  Graph graph_;
  CostTable costs_;
  Grouping grouping_;
  const Evaluator& evaluator_;
  RewardOptions reward_;
  std::size_t threads_;
  std::size_t index_;
  std::size_t evaluations_ = 0;
  std::vector<std::unique_ptr<Evaluator::Workspace>> workspaces_;  // one for each thread, reused by later batches
  Observation observation_;
  std::optional<Placement> start_;
  const StageCosts* stage_costs_ = nullptr;
  StageCostOptions stage_options_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_ENVIRONMENT_H_
