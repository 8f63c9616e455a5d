#include "agents/bounds/lower_bound.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "agents/bounds/energetic_bound.h"
#include "agents/bounds/path_bound.h"
#include "agents/bounds/relaxation.h"
#include "agents/bounds/work_program.h"
#include "sim/base/check.h"
#include "sim/bounds.h"
#include "sim/grouping.h"
#include "sim/simulator.h"

namespace emplace::agents {
namespace {

// Beyond these, branch and bound is not worth its time.
constexpr std::size_t kMostClasses = 64;
constexpr std::size_t kMostDevices = 16;

// Ancestors that a head counts, and values of each end of an interval: less for large graphs.
std::size_t Reach(std::size_t num_ops) { return num_ops <= 20'000 ? 256 : 32; }
std::size_t Grid(std::size_t num_ops) { return num_ops <= 2'000 ? 64 : num_ops <= 20'000 ? 32 : 12; }

// The thread that issues most issues for so long at least, in ns: B11.
std::int64_t IssueBound(const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  std::set<std::string_view> named;
  std::int64_t lanes = 0;
  const bool has_ranks = cluster.has_issue_lanes() && graph.has_ranks();
  for (const Device& device : cluster.devices()) {
    if (!device.issue) continue;
    const bool is_shared = !device.issue->lane.empty() && !has_ranks;
    if (!is_shared || named.insert(device.issue->lane).second) ++lanes;
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; lanes > 0 && i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    if (graph.CollectiveOf(op)) continue;  // no lane issues it: K14
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t d = 0; d < cluster.num_devices() && least > 0; ++d) {
      const DeviceId device = MakeId<DeviceId>(d);
      if (std::isnan(costs.Micros(op, device))) continue;
      const auto& issue = cluster.devices()[d].issue;
      const double own = issue ? costs.HostMicros(op, costs.KindIndex(device)) : 0;
      least = std::min(least, DurationFromMicros(issue && std::isnan(own) ? issue->host_micros : own).count());
    }
    total += least;
  }
  return lanes > 0 ? (total + lanes - 1) / lanes : 0;
}

std::vector<Bound> Quick(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Relaxation& problem,
                         const Windows& windows, const Prices& prices) {
  const Bounds simple = ComputeBounds(graph, cluster, costs);
  std::vector<Bound> bounds = {{kCriticalPathBound, DurationFromMicros(simple.critical_path_micros).count()},
                               {kWorkBound, WorkBound(problem, prices)},
                               {kPathBound, PathBound(problem, windows)}};
  const std::int64_t known = Best(bounds).nanos;
  bounds.push_back({kEnergeticBound, EnergeticBound(problem, windows, prices, Grid(graph.num_ops()), known)});
  if (cluster.has_issue_lanes()) bounds.push_back({kIssueBound, IssueBound(graph, cluster, costs)});
  return bounds;
}

// The two arguments of sim/bounds.h. An engine that does not round may finish up to half a nanosecond an op earlier, so
// neither bound exceeds the best known step (B4).
std::vector<Bound> Simple(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                          const BoundReport& report) {
  const Bounds simple = ComputeBounds(graph, cluster, costs);
  const std::int64_t most = report.best ? report.best_nanos : std::numeric_limits<std::int64_t>::max();
  const double share = 1000 * simple.work_micros / static_cast<double>(cluster.num_devices());
  return {{kCriticalPathBound, std::min(most, DurationFromMicros(simple.critical_path_micros).count())},
          {kWorkBound, std::min(most, static_cast<std::int64_t>(share))}};
}

}  // namespace

bool HasOnlySimpleBounds(std::string_view engine) { return engine == "placeto-reference"; }

LowerBound FindLowerBound(const Graph& graph, const Cluster& cluster, const CostTable& costs, std::string_view engine) {
  if (HasOnlySimpleBounds(engine) || cluster.has_free_links()) {
    const Bounds simple = ComputeBounds(graph, cluster, costs);
    return {simple.lower_bound_micros, simple.lower_bound_method};
  }
  const Bound best = Best(QuickBounds(graph, cluster, costs));
  return {MicrosFromDuration(Duration(best.nanos)), best.method};
}

void AddLowerBound(const Graph& graph, const Cluster& cluster, const CostTable& costs, StepReport* report) {
  if (report->schedule || HasOnlySimpleBounds(report->engine)) return;
  const LowerBound bound = FindLowerBound(graph, cluster, costs, report->engine);
  report->lower_bound_micros = bound.micros;
  report->lower_bound_method = bound.method;
}

bool CanBeExact(const Graph& graph, const Cluster& cluster) {
  return ColocationClasses(graph).num_groups() <= kMostClasses && cluster.num_devices() <= kMostDevices &&
         !cluster.has_free_links();
}

const Bound& Best(const std::vector<Bound>& bounds) {
  EMPLACE_CHECK(!bounds.empty());
  return *std::max_element(bounds.begin(), bounds.end(),
                           [](const Bound& a, const Bound& b) { return a.nanos < b.nanos; });
}

std::vector<Bound> QuickBounds(const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  const Relaxation problem(graph, cluster, costs);
  return Quick(graph, cluster, costs, problem, ComputeWindows(problem, Reach(graph.num_ops())), FindPrices(problem));
}

BoundReport ProveBound(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                       const BoundOptions& options) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point began = Clock::now();
  const auto left = [&] { return options.seconds - std::chrono::duration<double>(Clock::now() - began).count(); };
  BoundReport report;
  if (options.start) {
    const StepResult step = Simulator(graph, cluster, costs, options.simulation).Run(*options.start);
    if (step.fits_memory) {
      report.best = options.start;
      report.best_nanos = DurationFromMicros(step.step_time_micros).count();
    }
  }
  const auto done = [&] { return report.best && Best(report.bounds).nanos >= report.best_nanos; };
  if (HasOnlySimpleBounds(options.simulation.engine) || cluster.has_free_links()) {
    report.bounds = Simple(graph, cluster, costs, report);
    report.optimal = done();
    return report;
  }
  const Relaxation problem(graph, cluster, costs);
  const Windows windows = ComputeWindows(problem, Reach(graph.num_ops()));
  const Prices prices = FindPrices(problem);
  report.bounds = Quick(graph, cluster, costs, problem, windows, prices);

  bool limited = false;
  for (const Device& device : cluster.devices()) limited = limited || device.memory.has_value();
  if (!done() && left() > 0 && (problem.num_types() > 1 || limited)) {
    const WorkProgramBound work = SolveWorkProgram(graph, cluster, problem, left() / 2);
    if (work.nanos > 0) report.bounds.push_back({kLinearProgramBound, work.nanos});
    if (!work.prices.empty()) {
      const std::int64_t known = Best(report.bounds).nanos;
      const std::int64_t priced = EnergeticBound(problem, windows, work.prices, Grid(graph.num_ops()), known);
      if (priced > known) report.bounds.push_back({kPricedEnergeticBound, priced});
    }
  }
  if (!done() && left() > 0 && CanBeExact(graph, cluster)) {
    ExactOptions exact;
    exact.simulation = options.simulation;
    exact.start = report.best;
    exact.keep_going = [&](const ExactProgress& progress) {
      return left() > 0 && (!options.keep_going || options.keep_going(progress));
    };
    ExactResult result = BranchAndBound(graph, cluster, costs, exact);
    report.nodes = result.nodes;
    if (result.best) {
      report.best = std::move(result.best);
      report.best_nanos = result.best_nanos;
    }
    report.fits = !(result.is_complete && !report.best);
    if (report.fits) report.bounds.push_back({kExactBound, result.bound_nanos});
  }
  report.optimal = done();
  return report;
}

}  // namespace emplace::agents
