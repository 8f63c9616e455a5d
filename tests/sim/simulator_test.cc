#include "sim/simulator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/bounds.h"
#include "sim/graph_algorithms.h"
#include "tests/testing/graphs.h"
#include "tests/testing/reference_simulator.h"

namespace emplace {
namespace simulator_test {

using ::emplace::testing::MakeCluster;
using ::emplace::testing::MeasuredCosts;
using ::emplace::testing::RandomDag;
using ::emplace::testing::RandomDagOptions;
using ::emplace::testing::RandomPlacement;

#ifdef EMPLACE_SANITIZED
constexpr int kRandomDags = 600;
constexpr int kRandomDagsOfASetting = 120;
#else
constexpr int kRandomDags = 2'000;
constexpr int kRandomDagsOfASetting = 2'000;
#endif
constexpr int kRandomDagsOfASlowTest = 10'000;

Link RandomLink(Rng& rng) {
  return {.bandwidth_gb_per_s = rng.Below(2) == 0 ? 1.0 : 0.25 * static_cast<double>(rng.Between(1, 9)),
          .latency_micros = static_cast<double>(rng.Below(3)),
          .gap_micros = rng.Below(2) == 0 ? 0.0 : static_cast<double>(rng.Below(3)) / 2};
}

// 1 to 8 devices of one or two kinds; links all equal or all different; one channel per device or per pair.
Cluster RandomCluster(Rng& rng) {
  const std::size_t count = 1 + rng.Below(8);
  const bool mixed = rng.Below(2) == 0 && count > 1;
  std::vector<Device> devices;
  for (std::size_t i = 0; i < count; ++i) {
    const bool cpu = mixed && i % 3 == 0;
    devices.push_back({.name = fmt::format("d{}", i),
                       .kind = cpu ? "test-cpu" : "test-gpu",
                       .memory = Bytes{static_cast<std::int64_t>(rng.Below(200'000))},
                       .op_gap_micros = static_cast<double>(rng.Below(3)),
                       .is_cpu = cpu});
  }
  const bool alike = rng.Below(2) == 0;
  std::vector<Link> links(count * count, RandomLink(rng));
  if (!alike) {
    for (Link& link : links) link = RandomLink(rng);
  }
  if (rng.Below(3) == 0) {
    for (Link& link : links) {
      if (rng.Below(2) == 0) continue;
      link.knee = Bytes{rng.Between(1, 2000)};
      link.beyond_gb_per_s = 0.3 * static_cast<double>(rng.Between(1, 9));
    }
  }
  return Cluster("random", "", std::move(devices), std::move(links),
                 rng.Below(3) == 0 ? Channels::kPerPair : Channels::kPerDevice);
}

RandomDagOptions RandomOptions(Rng& rng, bool mixed) {
  RandomDagOptions options;
  options.num_ops = 2 + rng.Below(rng.Below(8) == 0 ? 199 : 40);
  options.max_inputs = 1 + rng.Below(4);
  options.kinds_differ = mixed;
  options.memory = rng.Below(2) == 0;
  options.fractional = rng.Below(3) == 0;
  options.zero_time_probability = rng.Below(2) == 0 ? 0.2 : 0.6;
  return options;
}

// A problem to simulate, with its parts kept alive.
struct Problem {
  Graph graph;
  Cluster cluster;
  CostTable costs;
  Placement placement;
};

Problem RandomProblem(Rng& rng) {
  Cluster cluster = RandomCluster(rng);
  const bool mixed = cluster.devices()[0].is_cpu;
  Graph graph = RandomDag(rng, RandomOptions(rng, mixed));
  CostTable costs = MeasuredCosts(graph, cluster);
  Placement placement = RandomPlacement(rng, graph, cluster, costs);
  return {std::move(graph), std::move(cluster), std::move(costs), std::move(placement)};
}

StepResult RunFifo(const Problem& problem) {
  const Simulator simulator(problem.graph, problem.cluster, problem.costs, {.start_times = true});
  return simulator.Run(problem.placement);
}

// Expects that the fast engine and the slow one agree exactly. *expected gets the common result.
void ExpectAgreement(const Problem& problem, testing::ReferenceResult* expected) {
  *expected = testing::SimulateSlowly(problem.graph, problem.cluster, problem.costs, problem.placement);
  const StepResult result = RunFifo(problem);
  ASSERT_EQ(result.step_time_micros, static_cast<double>(expected->step_time_ns) / 1000.0);
  for (std::size_t op = 0; op < problem.graph.num_ops(); ++op) {
    ASSERT_EQ(result.start_micros[op], static_cast<double>(expected->start_ns[op]) / 1000.0) << "op " << op;
  }
  for (std::size_t d = 0; d < problem.cluster.num_devices(); ++d) {
    ASSERT_EQ(result.peak_memory[d].count, expected->peak_bytes[d]) << "device " << d;
  }
  // Runs that do not follow memory have code of their own.
  const SimOptions without_memory{.peak_memory = false, .start_times = true};
  const StepResult plain =
      Simulator(problem.graph, problem.cluster, problem.costs, without_memory).Run(problem.placement);
  ASSERT_EQ(plain.step_time_micros, result.step_time_micros);
  ASSERT_EQ(plain.start_micros, result.start_micros);
  const auto sends_itself = [](const Device& device) { return device.issue && !device.copy_engine; };
  if (std::ranges::any_of(problem.cluster.devices(), sends_itself)) return;
  // Without a topology no link is shared.
  const SimOptions options{.engine = "flow", .start_times = true};
  ASSERT_EQ(Simulator(problem.graph, problem.cluster, problem.costs, options).Run(problem.placement), result);
}

void ExpectAgreementOnRandomDags(int dags) {
  Rng rng(1);
  std::size_t ties = 0;
  for (int i = 0; i < dags; ++i) {
    testing::ReferenceResult expected;
    ASSERT_NO_FATAL_FAILURE(ExpectAgreement(RandomProblem(rng), &expected)) << "graph " << i;
    std::vector<std::int64_t> starts = expected.start_ns;
    std::sort(starts.begin(), starts.end());
    if (std::adjacent_find(starts.begin(), starts.end()) != starts.end()) ++ties;
  }
  EXPECT_GT(ties, static_cast<std::size_t>(dags) / 2) << "ties are meant to be common";
}

TEST(SimulatorTest, AgreesExactlyWithTheReferenceOnThousandsOfRandomDags) { ExpectAgreementOnRandomDags(kRandomDags); }
TEST(SimulatorTest, AgreesExactlyWithTheReferenceOnThousandsOfRandomDagsSlow) {
  ExpectAgreementOnRandomDags(kRandomDagsOfASlowTest);
}

TEST(SimulatorTest, AgreesExactlyWithTheReferenceWhereNeighboursSlowEachOther) {
  Rng rng(9);
  int slowed = 0;
  for (int i = 0; i < kRandomDagsOfASetting; ++i) {
    const Cluster cluster = RandomCluster(rng);
    RandomDagOptions options = RandomOptions(rng, cluster.devices()[0].is_cpu);
    options.classes = true;
    const Graph graph = RandomDag(rng, options);
    const CostTable alone = MeasuredCosts(graph, cluster);
    const Placement placement = RandomPlacement(rng, graph, cluster, alone);
    const CostTable beside =
        testing::ContendedCosts(graph, cluster, {{OpClass::kCopy, 1.5 + rng.Uniform()}, {OpClass::kElementwise, 1.25}});
    testing::ReferenceResult expected;
    ASSERT_NO_FATAL_FAILURE(ExpectAgreement({graph, cluster, beside, placement}, &expected)) << "graph " << i;
    if (RunFifo({graph, cluster, alone, placement}).start_micros !=
        RunFifo({graph, cluster, beside, placement}).start_micros) {
      ++slowed;
    }
  }
  EXPECT_GT(slowed, kRandomDagsOfASetting / 2) << "contention is meant to be common";
}

TEST(SimulatorTest, AgreesExactlyWithTheReferenceWhereDevicesSendByThemselvesLengthy) {
  Rng rng(10);
  int later = 0;
  for (int i = 0; i < kRandomDagsOfASetting; ++i) {
    const Problem with_engines = RandomProblem(rng);
    std::vector<Device> devices = with_engines.cluster.devices();
    for (Device& device : devices) device.copy_engine = rng.Below(3) == 0;
    std::vector<Link> links;
    for (std::size_t from = 0; from < devices.size(); ++from) {
      for (std::size_t to = 0; to < devices.size(); ++to) {
        links.push_back(with_engines.cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to)));
      }
    }
    const Cluster cluster("random", "", devices, links, with_engines.cluster.channels());
    const Problem without = {with_engines.graph, cluster, MeasuredCosts(with_engines.graph, cluster),
                             with_engines.placement};
    testing::ReferenceResult expected;
    ASSERT_NO_FATAL_FAILURE(ExpectAgreement(without, &expected)) << "graph " << i;
    if (RunFifo(without).start_micros != RunFifo(with_engines).start_micros) ++later;
  }
  EXPECT_GT(later, kRandomDagsOfASetting / 4) << "waiting for one's own transfers is meant to be common";
}

void ExpectAgreementWhereIssueLanesFeedDevices(int dags) {
  Rng rng(11);
  int earlier = 0;
  int limited = 0;
  for (int i = 0; i < dags; ++i) {
    const Cluster plain = RandomCluster(rng);
    RandomDagOptions options = RandomOptions(rng, plain.devices()[0].is_cpu);
    options.host_times = true;
    options.classes = rng.Below(4) == 0;
    const Graph graph = RandomDag(rng, options);
    const Cluster cluster = testing::WithIssueLanes(rng, plain);
    const CostTable costs = options.classes
                                ? testing::ContendedCosts(graph, cluster, {{OpClass::kCopy, 1.5 + rng.Uniform()}})
                                : MeasuredCosts(graph, cluster);
    const Problem problem{graph, cluster, costs, RandomPlacement(rng, graph, cluster, costs)};
    testing::ReferenceResult expected;
    ASSERT_NO_FATAL_FAILURE(ExpectAgreement(problem, &expected)) << "graph " << i;
    // Effects of lanes and of their limits.
    const CostTable without = MeasuredCosts(graph, plain);
    const double plain_step = RunFifo({graph, plain, without, problem.placement}).step_time_micros;
    if (static_cast<double>(expected.step_time_ns) / 1000.0 < plain_step) ++earlier;
    std::vector<Device> unlimited = cluster.devices();
    for (Device& device : unlimited) {
      if (device.issue) device.issue->max_queued = 0;
    }
    std::vector<Link> links;
    for (std::size_t k = 0; k < unlimited.size() * unlimited.size(); ++k) {
      links.push_back(cluster.link(MakeId<DeviceId>(k / unlimited.size()), MakeId<DeviceId>(k % unlimited.size())));
    }
    const Cluster open("lanes", "", unlimited, links, cluster.channels());
    if (RunFifo(problem).start_micros != RunFifo({graph, open, costs, problem.placement}).start_micros) ++limited;
  }
  EXPECT_GT(earlier, dags / 20) << "running ahead is meant to be common";
  EXPECT_GT(limited, dags / 20) << "full queues are meant to be common";
}

TEST(SimulatorTest, AgreesExactlyWithTheReferenceWhereIssueLanesFeedDevicesLengthy) {
  ExpectAgreementWhereIssueLanesFeedDevices(kRandomDags);
}
TEST(SimulatorTest, AgreesExactlyWithTheReferenceWhereIssueLanesFeedDevicesSlow) {
  ExpectAgreementWhereIssueLanesFeedDevices(kRandomDagsOfASlowTest);
}

TEST(SimulatorTest, FitsMemoryExactlyWhenNoPeakIsOverItsDevice) {
  Rng rng(2);
  int fitting = 0;
  for (int i = 0; i < 500; ++i) {
    const Problem problem = RandomProblem(rng);
    const StepResult result = RunFifo(problem);
    bool fits = true;
    for (std::size_t d = 0; d < problem.cluster.num_devices(); ++d) {
      fits = fits && result.peak_memory[d] <= *problem.cluster.devices()[d].memory;
    }
    ASSERT_EQ(result.fits_memory, fits);
    fitting += fits ? 1 : 0;
  }
  EXPECT_GT(fitting, 20);
  EXPECT_LT(fitting, 480);
}

// All ops in sequence: an upper bound of any schedule.
double SerialMicros(const Problem& problem) {
  double total = 0;
  double slowest_gap = 0;
  for (const Device& device : problem.cluster.devices()) slowest_gap = std::max(slowest_gap, device.op_gap_micros);
  for (std::size_t i = 0; i < problem.graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    total += problem.costs.Micros(op, problem.placement[op]) + slowest_gap + 0.001;
    for (const OpId consumer : problem.graph.control_consumers(op)) {
      total += problem.cluster.link(problem.placement[op], problem.placement[consumer]).latency_micros;
    }
    for (std::size_t k = 0; k < problem.graph.num_outputs(op); ++k) {
      const TensorId tensor = MakeId<TensorId>(Index(problem.graph.first_output(op)) + k);
      for (std::size_t d = 0; d < problem.cluster.num_devices(); ++d) {
        const Link& link = problem.cluster.link(problem.placement[op], MakeId<DeviceId>(d));
        total += link.latency_micros + link.gap_micros + 0.001 +
                 link.MicrosOf(static_cast<double>(problem.graph.tensor(tensor).size.count));
      }
    }
  }
  return total;
}

TEST(SimulatorTest, StepTimeLiesBetweenTheBoundsOnEveryGraph) {
  Rng rng(3);
  for (int i = 0; i < 1000; ++i) {
    const Problem problem = RandomProblem(rng);
    const double step = RunFifo(problem).step_time_micros;
    const Bounds bounds = ComputeBounds(problem.graph, problem.cluster, problem.costs);
    ASSERT_LE(bounds.critical_path_micros, step);
    ASSERT_LE(bounds.lower_bound_micros, step);
    for (const DeviceLoad& load : ComputeLoads(problem.graph, problem.cluster, problem.costs, problem.placement)) {
      ASSERT_LE(load.busy_micros, step + 1e-6);
    }
    ASSERT_LE(step, SerialMicros(problem));
  }
}

TEST(SimulatorTest, RenamingADeviceInPlaceChangesNothing) {
  Rng rng(4);
  for (int i = 0; i < 300; ++i) {
    Problem problem = RandomProblem(rng);
    const StepResult before = RunFifo(problem);
    std::vector<Device> devices = problem.cluster.devices();
    std::vector<Link> links;
    for (std::size_t from = 0; from < devices.size(); ++from) {
      for (std::size_t to = 0; to < devices.size(); ++to) {
        links.push_back(problem.cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to)));
      }
    }
    for (std::size_t d = 0; d < devices.size(); ++d) devices[d].name = fmt::format("z{}", devices.size() - d);
    problem.cluster = Cluster("renamed", "", devices, links, problem.cluster.channels());
    ASSERT_EQ(RunFifo(problem), before);
  }
}

TEST(SimulatorTest, OneDeviceTakesTheSumOfOpTimesAndInnerGaps) {
  Rng rng(5);
  for (int i = 0; i < 300; ++i) {
    RandomDagOptions options = RandomOptions(rng, false);
    options.fractional = false;
    const Graph graph = RandomDag(rng, options);
    const Cluster cluster = MakeCluster(1, {}, 2);
    const CostTable costs = MeasuredCosts(graph, cluster);
    const StepResult result = Simulator(graph, cluster, costs, {.start_times = true}).Run(Placement(graph.num_ops()));
    // A gap of 2 us follows every op of non-zero time; it counts if another op starts after it. Ops of zero time at the
    // end do start after it, so the last gap counts exactly if the last op to start takes no time.
    double sum = 0;
    double last_start = -1;
    bool last_takes_time = false;
    for (std::size_t op = 0; op < graph.num_ops(); ++op) {
      const double micros = costs.Micros(MakeId<OpId>(op), MakeId<DeviceId>(0));
      sum += micros == 0 ? 0 : micros + 2;
      if (result.start_micros[op] > last_start) {
        last_start = result.start_micros[op];
        last_takes_time = false;
      }
      if (result.start_micros[op] == last_start && micros != 0) last_takes_time = true;
    }
    ASSERT_EQ(result.step_time_micros, sum - (last_takes_time ? 2 : 0));
  }
}

TEST(SimulatorTest, TheOrderOfOpsAndEdgesInTheFileChangesNothing) {
  Rng rng(6);
  for (int i = 0; i < 300; ++i) {
    const Problem problem = RandomProblem(rng);
    const StepResult before = RunFifo(problem);
    // The same ops, added in another order, with their inputs in another order.
    std::vector<OpSpec> specs;
    for (std::size_t k = 0; k < problem.graph.num_ops(); ++k) {
      const OpId id = MakeId<OpId>(k);
      const Op& op = problem.graph.op(id);
      OpSpec spec;
      spec.name = op.name;
      spec.kind = op.kind;
      spec.temp = op.temp;
      spec.persistent = op.persistent;
      spec.time_micros = op.time_micros;
      for (const KindTime& time : op.kind_times) spec.kind_times.emplace_back(time.kind, time.micros);
      for (std::size_t o = 0; o < problem.graph.num_outputs(id); ++o) {
        const TensorId tensor = MakeId<TensorId>(Index(problem.graph.first_output(id)) + o);
        spec.outputs.push_back({.size = problem.graph.tensor(tensor).size, .shape = {}});
      }
      for (const TensorId input : problem.graph.inputs(id)) {
        const Tensor& tensor = problem.graph.tensor(input);
        spec.inputs.push_back(fmt::format("{}:{}", problem.graph.op(tensor.producer).name, tensor.output_index));
      }
      for (const OpId producer : problem.graph.control_inputs(id)) {
        spec.control_inputs.emplace_back(problem.graph.op(producer).name);
      }
      rng.Shuffle(spec.inputs);
      specs.push_back(std::move(spec));
    }
    rng.Shuffle(specs);
    GraphBuilder builder("shuffled");
    for (OpSpec& spec : specs) builder.Add(spec);
    const Graph graph = builder.Build();
    ASSERT_EQ(RunFifo({graph, problem.cluster, MeasuredCosts(graph, problem.cluster), problem.placement}), before);
  }
}

TEST(SimulatorTest, AWorkspaceCarriesNothingFromRunToRun) {
  Rng rng(7);
  for (const char* const engine : {"fifo", "placeto-reference"}) {
    const Cluster cluster = MakeCluster(4, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 1}, 2);
    const Graph graph = RandomDag(rng, {.num_ops = 150, .memory = true});
    const CostTable costs = MeasuredCosts(graph, cluster);
    const Simulator simulator(graph, cluster, costs, {.engine = engine, .start_times = true});
    const auto workspace = simulator.MakeWorkspace();
    StepResult reused;
    for (int i = 0; i < 50; ++i) {
      const Placement placement = RandomPlacement(rng, graph, cluster, costs);
      simulator.Run(placement.devices(), *workspace, &reused);
      ASSERT_EQ(reused, simulator.Run(placement)) << engine;
    }
  }
}

TEST(SimulatorTest, AnEmptyGraphTakesNoTime) {
  const Cluster cluster = MakeCluster(2);
  for (const char* const engine : {"fifo", "placeto-reference"}) {
    const Simulator simulator(Graph(), cluster, MeasuredCosts(Graph(), cluster), {.engine = engine});
    const StepResult result = simulator.Run(Placement(0));
    EXPECT_EQ(result.step_time_micros, 0) << engine;
    EXPECT_EQ(result.peak_memory, std::vector<Bytes>(2)) << engine;
  }
}

TEST(SimulatorTest, AnEmptyGraphTakesNoTimeOnDevicesOfManyKinds) {
  std::vector<Device> devices(8);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    devices[d].name = fmt::format("gpu:{}", d);
    devices[d].kind = fmt::format("kind {}", d);
  }
  const Cluster cluster = Cluster::Uniform("kinds", devices, {.bandwidth_gb_per_s = 1});
  for (const bool peak_memory : {false, true}) {
    const Simulator simulator(Graph(), cluster, MeasuredCosts(Graph(), cluster), {.peak_memory = peak_memory});
    EXPECT_EQ(simulator.Run(Placement(0)).step_time_micros, 0);
  }
}

TEST(SimulatorTest, AnUnknownEngineIsRefusedWithTheKnownOnes) {
  const Cluster cluster = MakeCluster(1);
  try {
    const Simulator refused(Graph(), cluster, MeasuredCosts(Graph(), cluster), {.engine = "fluid"});
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "unknown engine \"fluid\" (fifo, flow, placeto-reference)");
  }
}

TEST(SimulatorTest, TheTimelineTellsWhatTheResultSays) {
  Rng rng(8);
  for (int i = 0; i < 100; ++i) {
    const Problem problem = RandomProblem(rng);
    const Simulator simulator(problem.graph, problem.cluster, problem.costs, {.start_times = true});
    const StepResult result = simulator.Run(problem.placement);
    const Timeline timeline = simulator.Record(problem.placement);
    ASSERT_EQ(timeline.ops.size(), problem.graph.num_ops());
    for (const Timeline::OpRun& run : timeline.ops) {
      ASSERT_EQ(run.start_micros, result.start_micros[Index(run.op)]);
      ASSERT_EQ(run.device, problem.placement[run.op]);
      ASSERT_LE(run.end_micros, result.step_time_micros);
    }
    std::size_t sent = 0;
    for (const DeviceLoad& load : ComputeLoads(problem.graph, problem.cluster, problem.costs, problem.placement)) {
      sent += load.tensors_sent;
    }
    ASSERT_EQ(timeline.transfers.size(), sent);
    std::vector<Bytes> peak(problem.cluster.num_devices());
    for (const Timeline::MemorySample& sample : timeline.memory) {
      peak[Index(sample.device)] = std::max(peak[Index(sample.device)], sample.in_use);
    }
    ASSERT_EQ(peak, result.peak_memory);
  }
}

TEST(SimulatorTest, EveryEngineIsFoundByItsNameAndGivesTheSameForOneOp) {
  const Graph graph = testing::MakeChain(1, 10, 4);
  const Cluster cluster = testing::TwoDevices();
  const CostTable costs = testing::MeasuredCosts(graph, cluster);
  for (const EngineEntry& engine : AllEngines()) {
    const Simulator simulator(graph, cluster, costs, {.engine = std::string(engine.name)});
    EXPECT_EQ(simulator.Run(Placement(1)).step_time_micros, 10) << engine.name;
  }
}

}  // namespace simulator_test
}  // namespace emplace
