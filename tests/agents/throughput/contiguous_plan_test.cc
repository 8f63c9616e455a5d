#include "agents/throughput/contiguous_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

using agents::MakeStageCosts;
using agents::PlanContiguous;
using agents::StageCosts;

constexpr double kNever = std::numeric_limits<double>::infinity();

// Pairs of ops of which the first must not be on a later stage than the second. Ops of the backward half here are
// exactly those of the backward pass.
std::vector<std::pair<std::size_t, std::size_t>> StageOrder(const Graph& graph) {
  std::set<std::size_t> with_forward;
  const auto is_backward = [&](std::size_t op) { return graph.op(MakeId<OpId>(op)).pass == Pass::kBackward; };
  const auto class_of = [&](std::size_t op) { return Index(graph.colocation_class(MakeId<OpId>(op))); };
  for (std::size_t op = 0; op < graph.num_ops(); ++op) {
    if (!is_backward(op)) with_forward.insert(class_of(op));
  }
  std::vector<std::pair<std::size_t, std::size_t>> order;
  const auto add = [&](std::size_t from, std::size_t to) {
    if (is_backward(from) != is_backward(to)) return;
    if (!is_backward(from)) {
      order.emplace_back(from, to);
    } else if (with_forward.count(class_of(from)) * with_forward.count(class_of(to)) == 0) {
      order.emplace_back(to, from);
    }
  };
  for (std::size_t op = 0; op < graph.num_ops(); ++op) {
    for (const TensorId tensor : graph.inputs(MakeId<OpId>(op))) add(Index(graph.tensor(tensor).producer), op);
    for (const OpId other : graph.control_inputs(MakeId<OpId>(op))) add(Index(other), op);
  }
  return order;
}

// The least largest load of all placements that are contiguous for some order of the devices, one by one.
double LeastOneByOne(const Graph& graph, const StageCosts& costs) {
  const std::size_t num_devices = costs.num_devices();
  const auto order = StageOrder(graph);
  std::vector<std::int64_t> memory(num_devices, std::numeric_limits<std::int64_t>::max());
  for (const agents::DeviceClass& of_class : costs.classes) {
    for (const DeviceId device : of_class.devices) {
      if (of_class.memory) memory[Index(device)] = of_class.memory->count;
    }
  }
  Placement placement(graph.num_ops());
  const auto is_allowed = [&] {
    for (std::size_t op = 0; op < graph.num_ops(); ++op) {
      if (placement[MakeId<OpId>(op)] != placement[graph.colocation_class(MakeId<OpId>(op))]) return false;
    }
    std::vector<std::size_t> stage(num_devices);
    std::iota(stage.begin(), stage.end(), std::size_t{0});
    do {
      if (std::all_of(order.begin(), order.end(), [&](const auto& pair) {
            return stage[Index(placement[MakeId<OpId>(pair.first)])] <=
                   stage[Index(placement[MakeId<OpId>(pair.second)])];
          })) {
        return true;
      }
    } while (std::next_permutation(stage.begin(), stage.end()));
    return false;
  };
  double least = kNever;
  while (true) {
    const std::vector<agents::StageLoad> loads = agents::StageLoads(costs, placement);
    double most = 0;
    for (std::size_t d = 0; d < num_devices; ++d) {
      most = std::max(most, loads[d].micros());
      if (loads[d].bytes.count > memory[d]) most = kNever;
    }
    if (most < least && is_allowed()) least = most;
    std::size_t op = 0;
    for (; op < graph.num_ops(); ++op) {  // the next placement, as a number in base num_devices
      DeviceId& device = placement[MakeId<OpId>(op)];
      device = MakeId<DeviceId>((Index(device) + 1) % num_devices);
      if (Index(device) != 0) break;
    }
    if (op == graph.num_ops()) return least;
  }
}

// A random forward half, and a backward op for most of its ops: in the group of its forward op, or in none.
Graph RandomTrainingGraph(Rng& rng, std::size_t num_forward) {
  std::vector<OpSpec> specs;
  std::vector<std::vector<std::size_t>> readers(num_forward);
  for (std::size_t i = 0; i < num_forward; ++i) {
    std::vector<std::string> inputs;
    for (std::size_t j = 0; j < i; ++j) {
      if (rng.Below(3) != 0) continue;
      inputs.push_back(fmt::format("f{}", j));
      readers[j].push_back(i);
    }
    specs.push_back(MakeOp(fmt::format("f{}", i), static_cast<double>(rng.Below(6)), inputs, {rng.Between(0, 3000)}));
  }
  std::vector<bool> has_gradient(num_forward, false);
  for (std::size_t i = num_forward; i-- > 0;) {
    if (rng.Below(5) == 0) continue;
    has_gradient[i] = true;
    std::vector<std::string> inputs = {fmt::format("f{}", i)};
    for (const std::size_t reader : readers[i]) {
      if (has_gradient[reader]) inputs.push_back(fmt::format("g{}", reader));
    }
    OpSpec spec = MakeOp(fmt::format("g{}", i), static_cast<double>(rng.Below(6)), inputs, {rng.Between(0, 3000)});
    spec.pass = Pass::kBackward;
    if (rng.Below(3) != 0) spec.colocate_with = fmt::format("f{}", i);
    specs.push_back(spec);
  }
  return Build(specs);
}

// Two accelerators that differ in memory, and a CPU.
Cluster UnequalCluster(std::optional<Bytes> memory) {
  return Cluster::Uniform("c",
                          {{.name = "gpu:0", .kind = "test-gpu", .memory = memory},
                           {.name = "cpu:0", .kind = "test-cpu", .memory = std::nullopt, .is_cpu = true},
                           {.name = "gpu:1", .kind = "test-gpu", .memory = std::nullopt}},
                          {.bandwidth_gb_per_s = 2, .latency_micros = 0.5, .gap_micros = 0});
}

void ExpectOptimal(const Graph& graph, const Cluster& cluster, const agents::UnitOptions& units) {
  const StageCosts costs = MakeStageCosts(graph, cluster, MeasuredCosts(graph, cluster));
  const double least = LeastOneByOne(graph, costs);
  const auto plan = PlanContiguous(graph, ColocationClasses(graph), costs, {.units = units});
  ASSERT_EQ(plan.has_value(), least != kNever);
  if (!plan) return;
  EXPECT_NEAR(plan->max_load_micros, least, 1e-9);
  EXPECT_EQ(plan->max_load_micros, MaxLoad(costs, plan->placement));
  CheckPlacement(plan->placement, graph, cluster, MeasuredCosts(graph, cluster));
  const auto linear = PlanContiguous(graph, ColocationClasses(graph), costs, {.linear = true, .units = units});
  EXPECT_GE(linear ? linear->max_load_micros : kNever, least - 1e-9);
}

TEST(ContiguousPlanTest, NoSplitOfARandomGraphIsBetter) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const std::size_t num_ops = 1 + rng.Below(7);
    const bool colocated = round % 3 == 0;
    ExpectOptimal(RandomDag(rng, {.num_ops = num_ops, .kinds_differ = true, .colocated = colocated}),
                  MakeMixedCluster(2), {});
    ExpectOptimal(RandomDag(rng, {.num_ops = num_ops, .colocated = colocated}), MakeCluster(2), {});
  }
}

TEST(ContiguousPlanTest, NoSplitOfATrainingGraphIsBetter) {
  Rng rng(2);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const Graph graph = RandomTrainingGraph(rng, 1 + rng.Below(4));
    ExpectOptimal(graph, MakeMixedCluster(2), {});
    ExpectOptimal(graph, MakeCluster(3), {.join_free = false});
  }
}

TEST(ContiguousPlanTest, NoSplitThatFitsIsBetter) {
  Rng rng(3);
  int infeasible = 0;
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const Graph graph = RandomDag(rng, {.num_ops = 1 + rng.Below(6), .memory = true, .colocated = round % 2 == 0});
    const Bytes memory{rng.Between(1, 40'000)};
    ExpectOptimal(graph, UnequalCluster(memory), {.join_free = false});
    const Cluster small = MakeCluster(2, {.bandwidth_gb_per_s = 1}, 0, memory);
    ExpectOptimal(graph, small, {.join_free = false});
    const StageCosts costs = MakeStageCosts(graph, small, MeasuredCosts(graph, small));
    infeasible += PlanContiguous(graph, ColocationClasses(graph), costs) ? 0 : 1;
  }
  EXPECT_GT(infeasible, 10);
  EXPECT_LT(infeasible, 190);
}

TEST(ContiguousPlanTest, StagesGoToDevicesInTheirOrder) {
  const Graph graph = MakeChain(6, 10, 1000);
  const Cluster cluster = MakeCluster(3);
  const auto plan =
      PlanContiguous(graph, ColocationClasses(graph), MakeStageCosts(graph, cluster, MeasuredCosts(graph, cluster)));
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->max_load_micros, 22);  // two ops and two tensors
  EXPECT_EQ(plan->num_units, 6U);
  EXPECT_EQ(plan->num_ideals, 7U);
  std::vector<std::size_t> devices;
  for (const DeviceId device : plan->placement.devices()) devices.push_back(Index(device));
  EXPECT_EQ(devices, (std::vector<std::size_t>{0, 0, 1, 1, 2, 2}));
}

TEST(ContiguousPlanTest, DevicesMayStayEmpty) {
  // A cut costs more than it saves.
  const Graph graph = MakeChain(2, 1, 1'000'000);
  const Cluster cluster = MakeCluster(4);
  const auto plan =
      PlanContiguous(graph, ColocationClasses(graph), MakeStageCosts(graph, cluster, MeasuredCosts(graph, cluster)));
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->max_load_micros, 2);
  EXPECT_EQ(plan->placement, Placement(2));
}

TEST(ContiguousPlanTest, OneOrderHasFewIdeals) {
  const Graph graph = MakeForkJoin(40, 1, 0);
  const Cluster cluster = MakeCluster(2);
  const StageCosts costs = MakeStageCosts(graph, cluster, MeasuredCosts(graph, cluster));
  EXPECT_EQ(ErrorOf([&] { PlanContiguous(graph, ColocationClasses(graph), costs); }),
            "ideals: the 42 units of the graph have at least 2^40 ideals (at most 60000: merge ops with "
            "--grouping merge_and_colocate --groups N, or set linear=true)");
  const auto plan = PlanContiguous(graph, ColocationClasses(graph), costs, {.linear = true});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->num_ideals, 43U);
  EXPECT_EQ(plan->max_load_micros, 21);
}

TEST(ContiguousPlanTest, TooManySortsOfDevicesAreRefused) {
  std::vector<Device> devices;
  devices.reserve(9);
  for (int i = 0; i < 9; ++i) {
    devices.push_back({.name = fmt::format("gpu:{}", i), .kind = "test-gpu", .memory = Bytes{1000 + i}});
  }
  const Cluster cluster = Cluster::Uniform("c", devices, {.bandwidth_gb_per_s = 1});
  const Graph graph = MakeChain(2, 1, 0);
  EXPECT_EQ(ErrorOf([&] {
              PlanContiguous(graph, ColocationClasses(graph),
                             MakeStageCosts(graph, cluster, MeasuredCosts(graph, cluster)));
            }),
            "devices: are of 9 classes (at most 8 that differ in kind, memory or links)");
}

TEST(ContiguousPlanTest, TooLargeATableIsRefused) {
  // 8 classes of 15 devices: 16^8 numbers of devices in use.
  std::vector<Device> devices;
  devices.reserve(120);
  for (int i = 0; i < 120; ++i) {
    devices.push_back({.name = fmt::format("gpu:{}", i), .kind = "test-gpu", .memory = Bytes{1000 + i % 8}});
  }
  const Cluster cluster = Cluster::Uniform("c", devices, {.bandwidth_gb_per_s = 1});
  const Graph graph = MakeChain(2, 1, 0);
  EXPECT_EQ(
      ErrorOf([&] {
        PlanContiguous(graph, ColocationClasses(graph), MakeStageCosts(graph, cluster, MeasuredCosts(graph, cluster)));
      }),
      "devices: 3 ideals and 8 classes of devices need a table of 1.3e+10 entries (at most 1e+08: fewer groups, or "
      "fewer devices)");
}

}  // namespace
}  // namespace emplace::testing
