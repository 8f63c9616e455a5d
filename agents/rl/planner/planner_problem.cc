#include "agents/rl/planner/planner_problem.h"

#include <algorithm>
#include <numeric>

#include "agents/candidates.h"
#include "agents/rl/categorical.h"
#include "agents/rl/planner/group_vectors.h"
#include "agents/rl/start_prior.h"
#include "sim/base/rng.h"

namespace emplace::agents {
namespace {

// [num_devices]: devices that a learned group may use. These are the devices allowed for any node, without CPUs if
// `use_cpus` is false. A node that runs only on CPUs goes to a CPU independently of its group.
std::vector<std::uint8_t> UsableDevices(const Observation& seen, const std::vector<std::vector<DeviceId>>& devices,
                                        bool use_cpus) {
  std::vector<std::uint8_t> all(seen.num_devices());
  for (const std::vector<DeviceId>& of_node : devices) {
    for (const DeviceId device : of_node) all[Index(device)] = 1;
  }
  if (use_cpus) return all;
  std::vector<std::uint8_t> accelerators(seen.num_devices());
  for (const DeviceId device : seen.accelerators) accelerators[Index(device)] = all[Index(device)];
  const bool any = std::count(accelerators.begin(), accelerators.end(), 1) > 0;
  return any ? accelerators : all;
}

// Chooses the initial device of each group and, for a fixed grouping, the groups. Where nodes are groups, their devices
// are those of the start. Otherwise groups are assigned to the devices in turn, and nodes go to groups of their device.
void BeginAt(const Placement& start, GrouperKind grouper, std::size_t num_groups, Rng& rng, PlannerProblem* problem) {
  const std::size_t num_devices = problem->usable.size();
  problem->start = start;
  for (std::size_t g = 0; g < num_groups; ++g) {
    problem->home.push_back(grouper == GrouperKind::kNone ? start[MakeId<OpId>(g)] : MakeId<DeviceId>(g % num_devices));
  }
  if (grouper != GrouperKind::kRandom) return;
  for (std::size_t node = 0; node < start.num_ops(); ++node) {
    const std::size_t device = Index(start[MakeId<OpId>(node)]);
    if (device >= num_groups) continue;
    const std::size_t of_device = (num_groups - device - 1) / num_devices + 1;
    problem->fixed_groups[node] = static_cast<std::uint32_t>(device + num_devices * rng.Below(of_device));
  }
}

}  // namespace

void PlannerProblem::AddStartOfNode(std::size_t node, std::span<float> logits) const {
  if (!start) return;
  const DeviceId device = (*start)[MakeId<OpId>(node)];
  const auto chosen = static_cast<std::size_t>(std::ranges::count(home, device));
  const auto more = static_cast<float>(StartLogit(start->num_ops(), chosen, logits.size() - chosen));
  for (std::size_t g = 0; g < logits.size(); ++g) logits[g] += home[g] == device ? more : 0;
}

void PlannerProblem::AddStartOfGroup(std::size_t position, std::span<float> logits) const {
  if (!start) return;
  const std::vector<std::uint8_t>& mask = AllowedAt(position);
  const std::size_t device = Index(home[order[position]]);
  const auto choices = static_cast<std::size_t>(std::ranges::count(mask, 1));
  if (mask[device] != 0) logits[device] += static_cast<float>(StartLogit(order.size(), 1, choices - 1));
}

PlannerProblem MakePlannerProblem(const Environment& env, const PlannerOptions& options, std::size_t num_groups,
                                  std::uint64_t seed) {
  const Observation& seen = env.observation();
  PlannerProblem problem;
  problem.nodes = DescribeNodes(env);
  problem.numbers = OpNumbers(problem.nodes, options.raw_features);
  problem.raw_groups = options.raw_groups;
  problem.devices = SearchDevices(seen, options.use_cpus);
  problem.usable = UsableDevices(seen, problem.devices, options.use_cpus);
  for (const std::vector<DeviceId>& devices : problem.devices) {
    if (options.grouper == GrouperKind::kNone) problem.allowed.push_back(MaskOf(devices, seen.num_devices()));
  }
  Rng rng(seed);
  if (options.grouper != GrouperKind::kLearned) {
    for (std::uint32_t node = 0; node < seen.num_groups(); ++node) {
      problem.fixed_groups.push_back(
          options.grouper == GrouperKind::kNone ? node : static_cast<std::uint32_t>(rng.Below(num_groups)));
    }
  }
  if (env.start()) BeginAt(*env.start(), options.grouper, num_groups, rng, &problem);
  problem.order.resize(num_groups);
  std::iota(problem.order.begin(), problem.order.end(), 0U);
  if (options.shuffle != 0) Rng(options.shuffle).Shuffle(problem.order);
  return problem;
}

}  // namespace emplace::agents
