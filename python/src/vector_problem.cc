#include "python/src/vector_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>

#include "agents/candidates.h"
#include "agents/environment.h"
#include "sim/base/check.h"
#include "sim/base/fingerprint.h"
#include "sim/graph_adjacency.h"

namespace emplace::python {
namespace {

// Tells problems and costs apart by their devices, options, and what a few placements take and hold.
std::uint64_t NumberOf(const BatchEvaluator& evaluator, const Grouping& grouping, const VectorEnvOptions& options,
                       const VectorProblem& problem) {
  constexpr std::size_t kPlacements = 3;
  Fingerprint fingerprint;
  const auto add = [&fingerprint](const std::string& text) { fingerprint.Add(text); };
  add(fmt::format("{} {} {} {} {}", problem.num_groups, problem.num_devices, options.whole, options.final_reward,
                  std::bit_cast<std::uint64_t>(options.memory_penalty)));
  for (const Device& device : evaluator.cluster().devices()) {
    add(fmt::format("{} {}", device.name, device.memory ? device.memory->count : -1));
  }
  for (std::size_t k = 0; k < kPlacements; ++k) {
    Placement placement(problem.num_groups);
    for (std::size_t group = 0; group < problem.num_groups; ++group) {
      std::size_t device = (k + group * (k + 1)) % problem.num_devices;
      while (!problem.Allows(group, device)) device = (device + 1) % problem.num_devices;
      placement[MakeId<OpId>(group)] = MakeId<DeviceId>(device);
    }
    const StepResult result = evaluator.simulator().Run(grouping.Expand(placement));
    add(fmt::format("{}", std::bit_cast<std::uint64_t>(result.step_time_micros)));
    for (const Bytes& peak : result.peak_memory) add(fmt::format("{}", peak.count));
  }
  return fingerprint.value();
}

void AddFeatures(const agents::Observation& seen, VectorProblem* problem) {
  std::vector<DeviceId> all;
  for (std::size_t d = 0; d < problem->num_devices; ++d) all.push_back(MakeId<DeviceId>(d));
  double largest[3] = {1e-9, 1, 1};
  std::vector<double> values;
  for (std::size_t group = 0; group < problem->num_groups; ++group) {
    values.push_back(seen.TimeMicros(group, Index(seen.Fastest(group, all))));
    values.push_back(static_cast<double>(seen.output[group].count));
    values.push_back(static_cast<double>(seen.persistent[group].count));
    for (std::size_t k = 0; k < 3; ++k) largest[k] = std::max(largest[k], values[3 * group + k]);
    for (std::size_t d = 0; d < problem->num_devices; ++d) problem->allowed.push_back(seen.Allowed(group, d) ? 1 : 0);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    problem->features.push_back(static_cast<float>(values[i] / largest[i % 3]));
  }
}

void AddEdges(const agents::Observation& seen, VectorProblem* problem) {
  std::vector<std::int64_t> targets;
  for (std::size_t group = 0; group < problem->num_groups; ++group) {
    for (const std::uint32_t consumer : seen.graph.adjacency().successors(group)) {
      problem->edges.push_back(static_cast<std::int64_t>(group));
      targets.push_back(consumer);
    }
  }
  problem->edges.insert(problem->edges.end(), targets.begin(), targets.end());
}

}  // namespace

VectorProblem MakeVectorProblem(const BatchEvaluator& evaluator, const Grouping& grouping,
                                const VectorEnvOptions& options) {
  const agents::Environment environment(evaluator.graph(), evaluator.cluster(), evaluator.costs(), grouping,
                                        evaluator.simulator());
  const agents::Observation& seen = environment.observation();
  VectorProblem problem;
  problem.num_groups = seen.num_groups();
  problem.num_devices = seen.num_devices();
  if (problem.num_groups == 0) throw InputError("graph", "has no ops (at least one to place)");
  problem.cost = {.memory = agents::MemoryOf(evaluator.cluster()), .memory_penalty = options.memory_penalty};
  problem.has_limits = problem.cost.SmallestMemory().has_value();
  const Placement start = agents::OnFirstAccelerator(seen);
  for (const DeviceId device : start.devices()) problem.start.push_back(static_cast<std::int16_t>(Index(device)));
  const double micros = evaluator.simulator().Run(grouping.Expand(start)).step_time_micros;
  if (micros > 0) problem.cost.baseline_micros = micros;
  AddFeatures(seen, &problem);
  problem.group_features = GroupFeatures(seen, problem.cost.baseline_micros);
  AddEdges(seen, &problem);
  problem.number = NumberOf(evaluator, grouping, options, problem);
  return problem;
}

}  // namespace emplace::python
