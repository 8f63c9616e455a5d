// Every bound against every placement of small random problems.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "agents/bounds/branch_and_bound.h"
#include "agents/bounds/energetic_bound.h"
#include "agents/bounds/lower_bound.h"
#include "agents/bounds/path_bound.h"
#include "agents/bounds/relaxation.h"
#include "agents/bounds/work_program.h"
#include "sim/base/check.h"
#include "sim/base/rng.h"
#include "sim/bounds.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using namespace agents;

// Up to 7 ops; devices that differ in kind, gap and memory; links that differ, some missing; both rules of channels.
Cluster RandomCluster(Rng& rng, std::size_t num_devices) {
  const bool alike = rng.Below(3) == 0;
  const bool tight = rng.Below(3) == 0;
  const bool serial = rng.Below(6) == 0;
  std::vector<Device> devices;
  const auto gap = static_cast<double>(rng.Below(3)) * 0.7;
  for (std::size_t d = 0; d < num_devices; ++d) {
    const bool cpu = !alike && rng.Below(3) == 0;
    Device device{"d" + std::to_string(d), cpu ? "test-cpu" : "test-gpu", std::nullopt};
    device.is_cpu = cpu;
    device.op_gap_micros = alike || rng.Below(3) != 0 ? gap : static_cast<double>(rng.Below(3));
    if (tight) device.memory = Bytes{rng.Between(2, 14) * 1000};
    device.copy_engine = !serial;
    devices.push_back(device);
  }
  Link common{.bandwidth_gb_per_s = 0.25 * static_cast<double>(1 + rng.Below(16)),
              .latency_micros = static_cast<double>(rng.Below(3)),
              .gap_micros = static_cast<double>(rng.Below(2))};
  if (rng.Below(4) == 0) {
    common.knee = Bytes{rng.Between(1, 2000)};
    common.beyond_gb_per_s = 0.25 * static_cast<double>(1 + rng.Below(16));
  }
  std::vector<Link> links(num_devices * num_devices, common);
  if (!alike) {
    for (Link& link : links) {
      if (rng.Below(4) == 0) link.bandwidth_gb_per_s = 0.25;
      if (rng.Below(12) == 0) link.bandwidth_gb_per_s = 0;
    }
  }
  return Cluster("random", "", std::move(devices), std::move(links),
                 rng.Below(2) == 0 ? Channels::kPerDevice : Channels::kPerPair);
}

struct Optimum {
  std::optional<std::int64_t> any;   // optimum over all placements, in ns
  std::optional<std::int64_t> fits;  // optimum over those that fit
};

Optimum TryAll(const Graph& graph, const Cluster& cluster, const CostTable& costs, const SimOptions& options = {}) {
  const Simulator simulator(graph, cluster, costs, options);
  Optimum optimum;
  Placement placement(graph.num_ops());
  while (true) {
    bool runs = true;
    try {
      CheckPlacement(placement, graph, cluster, costs);
    } catch (const InputError&) {
      runs = false;
    }
    if (runs) {
      const StepResult step = simulator.Run(placement);
      const std::int64_t nanos = DurationFromMicros(step.step_time_micros).count();
      optimum.any = std::min(optimum.any.value_or(nanos), nanos);
      if (step.fits_memory) optimum.fits = std::min(optimum.fits.value_or(nanos), nanos);
    }
    std::size_t at = 0;
    while (at < graph.num_ops()) {
      DeviceId& device = placement[MakeId<OpId>(at)];
      if (Index(device) + 1 < cluster.num_devices()) {
        device = MakeId<DeviceId>(Index(device) + 1);
        break;
      }
      device = DeviceId{};
      ++at;
    }
    if (at == graph.num_ops()) return optimum;
  }
}

struct Tally {
  std::size_t tried = 0;       // problems
  std::size_t tight = 0;       // problems in which memory changes the optimum
  std::size_t impossible = 0;  // problems in which nothing fits
  std::size_t exact = 0;       // problems in which a bound without search equals the optimum
  std::size_t better = 0;      // problems in which it is above max(critical path, work / devices)
};

void CheckProblem(std::uint64_t seed, Tally* tally) {
  Rng rng(seed);
  const std::size_t num_devices = 2 + rng.Below(2);
  const std::size_t num_ops = 1 + rng.Below(num_devices == 2 ? 7 : 5);
  const Graph graph = testing::RandomDag(rng, {.num_ops = num_ops,
                                               .max_inputs = 2,
                                               .max_outputs = 2,
                                               .control_probability = 0.2,
                                               .zero_time_probability = 0.15,
                                               .max_micros = 1 + static_cast<std::int64_t>(rng.Below(12)),
                                               .kinds_differ = rng.Below(2) == 0,
                                               .memory = rng.Below(2) == 0,
                                               .fractional = rng.Below(2) == 0,
                                               .classes = true,
                                               .colocated = rng.Below(2) == 0});
  Cluster cluster = RandomCluster(rng, num_devices);
  Rng lanes(seed);
  if (seed % 5 == 0) cluster = testing::WithIssueLanes(lanes, cluster);
  std::optional<CostTable> costs;
  try {
    costs.emplace(rng.Below(4) == 0 ? testing::ContendedCosts(graph, cluster, {{OpClass::kMatrixProduct, 1.5}})
                                    : testing::MeasuredCosts(graph, cluster));
  } catch (const InputError&) {
    return;  // an op has no time on these devices
  }
  const Optimum optimum = TryAll(graph, cluster, *costs);
  if (!optimum.any) return;  // links are missing where they are needed
  ++tally->tried;
  SCOPED_TRACE(seed);

  std::int64_t strongest = 0;
  for (const Bound& bound : QuickBounds(graph, cluster, *costs)) {
    EXPECT_LE(bound.nanos, *optimum.any) << bound.method;
    strongest = std::max(strongest, bound.nanos);
  }
  if (DurationFromMicros(ComputeBounds(graph, cluster, *costs).lower_bound_micros).count() < strongest) ++tally->better;
  if (strongest == *optimum.any) ++tally->exact;
  const Relaxation problem(graph, cluster, *costs);
  for (const std::size_t reach : {1U, 2U, 4U}) {
    const Windows windows = ComputeWindows(problem, reach);
    EXPECT_LE(PathBound(problem, windows), *optimum.any) << reach;
    EXPECT_LE(EnergeticBound(problem, windows, FindPrices(problem), 16, 0), *optimum.any) << reach;
  }
  if (optimum.fits) {
    EXPECT_LE(SolveWorkProgram(graph, cluster, problem, 10).nanos, *optimum.fits);
    if (*optimum.fits > *optimum.any) ++tally->tight;
  }

  const ExactResult exact = BranchAndBound(graph, cluster, *costs, {});
  ASSERT_TRUE(exact.is_complete);
  ASSERT_EQ(exact.best.has_value(), optimum.fits.has_value());
  if (!optimum.fits) {
    ++tally->impossible;
    EXPECT_FALSE(ProveBound(graph, cluster, *costs, {}).fits);
    return;
  }
  EXPECT_EQ(exact.best_nanos, *optimum.fits);
  EXPECT_EQ(exact.bound_nanos, *optimum.fits);
  CheckPlacement(*exact.best, graph, cluster, *costs);
  const StepResult again = Simulator(graph, cluster, *costs).Run(*exact.best);
  EXPECT_EQ(DurationFromMicros(again.step_time_micros).count(), exact.best_nanos);
  EXPECT_TRUE(again.fits_memory);

  // A search that stops early still tells the truth.
  for (const std::size_t nodes : {1U, 3U, 10U}) {
    const ExactResult stopped = BranchAndBound(graph, cluster, *costs, {.start = std::nullopt, .max_nodes = nodes});
    EXPECT_LE(stopped.bound_nanos, *optimum.fits) << nodes;
  }
  const BoundReport report = ProveBound(graph, cluster, *costs, {});
  EXPECT_TRUE(report.optimal);
  EXPECT_EQ(Best(report.bounds).nanos, *optimum.fits);
}

TEST(ExhaustiveTest, NoPlacementOfThousandsOfSmallProblemsBeatsABoundLengthy) {
#ifdef EMPLACE_SANITIZED
  constexpr std::size_t kProblems = 300;
#else
  constexpr std::size_t kProblems = 3000;
#endif
  Tally tally;
  for (std::uint64_t seed = 1; seed <= kProblems && !HasFailure(); ++seed) CheckProblem(seed, &tally);
  EXPECT_GE(tally.tried, kProblems * 2 / 3);
  EXPECT_GE(tally.tight, kProblems / 60);
  EXPECT_GE(tally.impossible, kProblems / 60);
  EXPECT_GE(tally.exact, kProblems / 6);
  EXPECT_GE(tally.better, kProblems / 6);
  RecordProperty("tried", static_cast<int>(tally.tried));
  std::printf("tried %zu tight %zu impossible %zu exact %zu better %zu\n", tally.tried, tally.tight, tally.impossible,
              tally.exact, tally.better);
}

// Two CPUs and two GPUs, whose transfers share the link between them.
Cluster SharedLink(Rng& rng) {
  std::vector<Device> devices;
  std::vector<Topology::Link> links;
  for (std::uint32_t d = 0; d < 4; ++d) {
    devices.push_back({"d" + std::to_string(d), d < 2 ? "test-cpu" : "test-gpu", std::nullopt});
    devices.back().is_cpu = d < 2;
    if (rng.Below(4) == 0) devices.back().memory = Bytes{rng.Between(4, 20) * 1000};
    const std::uint32_t hub = d < 2 ? 4 : 5;
    links.push_back({d, hub, 4, 0});
    links.push_back({hub, d, 4, 0});
  }
  const double rate = 0.25 * static_cast<double>(1 + rng.Below(8));
  links.push_back({4, 5, rate, 0.5});
  links.push_back({5, 4, rate, 0.5});
  return Cluster("shared", "", devices, Topology(4, {"left", "right"}, links), Channels::kPerDevice);
}

// Three ops that only CPUs run, each read by one that only GPUs run: all tensors take the link.
Graph CrossingGraph(Rng& rng) {
  std::vector<OpSpec> ops;
  for (int i = 0; i < 3; ++i) {
    const std::string name = "a" + std::to_string(i);
    ops.push_back(testing::MakeOp(name, 0, {}, {rng.Between(1, 8) * 1000}));
    ops.push_back(testing::MakeOp("b" + std::to_string(i), 0, {name}));
    for (const bool is_first : {true, false}) {
      OpSpec& op = ops[ops.size() - (is_first ? 2 : 1)];
      op.time_micros.reset();
      op.kind_times = {{is_first ? "test-cpu" : "test-gpu", static_cast<double>(rng.Between(1, 12))}};
      if (rng.Below(3) == 0) op.persistent = Bytes{rng.Between(1, 6) * 1000};
    }
  }
  return testing::Build(ops);
}

// The arguments rely on what flows cannot beat, and branch and bound judges whole placements by the engine itself.
TEST(ExhaustiveTest, NoPlacementBeatsABoundOfEngineFlowWhereTransfersShareALink) {
  std::size_t tried = 0;
  std::size_t differ = 0;  // problems whose optimum is not that of fifo
  for (std::uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const Cluster cluster = SharedLink(rng);
    const Graph graph = CrossingGraph(rng);
    const CostTable costs = testing::MeasuredCosts(graph, cluster);
    const SimOptions flow{.engine = "flow"};
    const Optimum optimum = TryAll(graph, cluster, costs, flow);
    if (!optimum.any) continue;
    ++tried;
    if (TryAll(graph, cluster, costs).any != optimum.any) ++differ;
    for (const Bound& bound : QuickBounds(graph, cluster, costs)) EXPECT_LE(bound.nanos, *optimum.any) << bound.method;
    const BoundReport report = ProveBound(graph, cluster, costs, {.simulation = flow});
    ASSERT_EQ(report.fits, optimum.fits.has_value());
    if (!optimum.fits) continue;
    EXPECT_TRUE(report.optimal);
    EXPECT_EQ(report.best_nanos, *optimum.fits);
    for (const Bound& bound : report.bounds) EXPECT_LE(bound.nanos, *optimum.fits) << bound.method;
  }
  EXPECT_EQ(tried, 40U);
  EXPECT_GE(differ, 8U);
}

}  // namespace
}  // namespace emplace
