#include "experiments/validation/placement_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/rng.h"
#include "sim/grouping.h"
#include "sim/simulator.h"

namespace emplace::experiments {
namespace {

// Wraps the simulator and records the evaluated placements in order. With one thread the order is that of the agent.
class Recorder : public Evaluator {
 public:
  Recorder(const agents::SearchSpec& spec, bool start_times)
      : simulator_(spec.problem.graph, spec.problem.cluster, spec.problem.costs,
                   {.engine = spec.engine, .peak_memory = true, .start_times = start_times}) {}

  StepResult Run(const Placement& placement) const override {
    StepResult result = simulator_.Run(placement);
    ++evaluations_;
    const std::span<const DeviceId> devices = placement.devices();
    if (seen_.insert({devices.begin(), devices.end()}).second) {
      tried_.push_back({evaluations_, result.fits_memory, result.step_time_micros, placement});
    }
    return result;
  }

  struct Tried {
    std::size_t evaluation = 0;
    bool fits = false;
    double micros = 0;
    Placement placement;
  };
  const std::vector<Tried>& tried() const { return tried_; }

 private:
  Simulator simulator_;
  mutable std::size_t evaluations_ = 0;
  mutable std::set<std::vector<DeviceId>> seen_;
  mutable std::vector<Tried> tried_;
};

// The positions of `count` placements with times from the best to twice that: for each of the evenly spaced times
// between, the nearest one that is left.
std::vector<std::size_t> Stratified(const std::vector<Recorder::Tried>& tried, std::size_t count) {
  std::vector<std::size_t> left(tried.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  std::stable_sort(left.begin(), left.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(!tried[a].fits, tried[a].micros) < std::pair(!tried[b].fits, tried[b].micros);
  });
  const auto end = std::find_if(left.begin(), left.end(), [&](std::size_t i) { return !tried[i].fits; });
  const auto fitting = static_cast<std::size_t>(end - left.begin());
  count = std::min(count, tried.size());
  const std::size_t spaced = std::min(count, fitting);
  std::vector<std::size_t> chosen;
  if (spaced > 0) {
    const double best = tried[left.front()].micros;
    const double most = std::min(2 * best, tried[left[fitting - 1]].micros);
    std::vector<std::size_t> times(left.begin(), end);  // ascending; what is chosen is taken out
    for (std::size_t k = 0; k < spaced; ++k) {
      const double share = spaced == 1 ? 0 : static_cast<double>(k) / static_cast<double>(spaced - 1);
      const double target = best + share * (most - best);
      const auto nearest = std::min_element(times.begin(), times.end(), [&](std::size_t a, std::size_t b) {
        return std::abs(tried[a].micros - target) < std::abs(tried[b].micros - target);
      });
      chosen.push_back(*nearest);
      times.erase(nearest);
    }
  }
  for (std::size_t k = fitting; chosen.size() < count; ++k) chosen.push_back(left[k]);
  return chosen;
}

}  // namespace

std::vector<SampledPlacement> RandomPlacements(const agents::SearchProblem& problem, std::size_t count,
                                               std::uint64_t seed, std::optional<DeviceId> mostly) {
  const Grouping grouping = agents::MakeGrouping(problem, agents::FindAgent("random"));
  std::vector<std::vector<DeviceId>> allowed(grouping.num_groups());
  for (std::size_t group = 0; group < grouping.num_groups(); ++group) {
    for (std::size_t d = 0; d < problem.cluster.num_devices(); ++d) {
      const DeviceId device = MakeId<DeviceId>(d);
      const auto members = grouping.members(group);
      if (std::all_of(members.begin(), members.end(), [&](OpId op) { return problem.costs.Allowed(op, device); })) {
        allowed[group].push_back(device);
      }
    }
    if (allowed[group].empty()) {
      throw InputError("grouping", fmt::format("no device has a time for all ops of group {}", group));
    }
  }
  Rng rng(seed);
  std::vector<SampledPlacement> sampled;
  for (std::size_t i = 0; i < count; ++i) {
    Placement groups(grouping.num_groups());
    for (std::size_t group = 0; group < grouping.num_groups(); ++group) {
      const std::vector<DeviceId>& devices = allowed[group];
      DeviceId device = devices[rng.Below(devices.size())];
      constexpr std::uint64_t kOneIn = 20;
      if (mostly && rng.Below(kOneIn) > 0 && std::find(devices.begin(), devices.end(), *mostly) != devices.end()) {
        device = *mostly;
      }
      groups[MakeId<OpId>(group)] = device;
    }
    sampled.push_back({fmt::format("random {}", i), grouping.Expand(groups)});
  }
  return sampled;
}

std::vector<SampledPlacement> AgentPlacements(const agents::SearchSpec& spec, std::size_t count) {
  EMPLACE_CHECK(count > 0);
  const Recorder recorder(spec, /*start_times=*/true);
  agents::SearchSpec recorded = spec;
  recorded.evaluator = &recorder;
  recorded.threads = 1;
  agents::RunSearch(recorded);
  const std::vector<Recorder::Tried>& tried = recorder.tried();
  std::vector<SampledPlacement> sampled;
  for (const std::size_t i : Stratified(tried, count)) {
    sampled.push_back({fmt::format("{}, evaluation {}", spec.agent, tried[i].evaluation), tried[i].placement});
  }
  return sampled;
}

}  // namespace emplace::experiments
