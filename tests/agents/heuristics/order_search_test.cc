#include "agents/heuristics/order_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "sim/base/rng.h"
#include "sim/bounds.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace order_search_test {

using agents::FindOrder;
using agents::OrderedPlacement;

// A random graph; `bytes` of each tensor at most.
Graph RandomTasks(Rng* rng, std::size_t count, std::uint64_t bytes) {
  GraphBuilder builder("tasks");
  for (std::size_t i = 0; i < count; ++i) {
    OpSpec op;
    op.name = "t" + std::to_string(i);
    op.kind = "task";
    op.time_micros = static_cast<double>(1 + rng->Below(9));
    for (std::size_t j = 0; j < i; ++j) {
      if (rng->Below(3) == 0) op.inputs.push_back("t" + std::to_string(j));
    }
    op.outputs = {{.size = Bytes{static_cast<std::int64_t>(bytes == 0 ? 0 : rng->Below(bytes))}, .shape = {}}};
    builder.Add(op);
  }
  return builder.Build();
}

Cluster Machines(std::size_t count, double latency) {
  std::vector<Device> devices;
  for (std::size_t d = 0; d < count; ++d)
    devices.push_back({.name = "d" + std::to_string(d), .kind = "k", .memory = {}});
  Link link{.bandwidth_gb_per_s = 1, .latency_micros = latency};
  link.contention = false;
  return Cluster::Uniform("machines", devices, link);
}

double StepOf(const Graph& graph, const Cluster& cluster, const OrderedPlacement& found) {
  const Graph ordered = WithOrder(graph, found.order);
  const CostTable costs(ordered, cluster, *MakeCostModel("measured"));
  Placement placement(ordered.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    placement[*ordered.FindOp(graph.op(MakeId<OpId>(i)).name)] = found.placement[MakeId<OpId>(i)];
  }
  return Simulator(ordered, cluster, costs).Run(placement).step_time_micros;
}

// The shortest schedule over all sequences of ops, each appended to any device.
double Optimum(const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  const std::size_t n = graph.num_ops();
  std::vector<double> end(n, -1);
  std::vector<std::size_t> device(n, 0);
  std::vector<double> free(cluster.num_devices(), 0);
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t, double)> extend = [&](std::size_t done, double length) {
    if (length >= best) return;
    if (done == n) {
      best = length;
      return;
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (end[i] >= 0) continue;
      const OpId op = MakeId<OpId>(i);
      bool is_ready = true;
      for (const TensorId input : graph.inputs(op)) is_ready &= end[Index(graph.tensor(input).producer)] >= 0;
      if (!is_ready) continue;
      for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
        double start = free[d];
        for (const TensorId input : graph.inputs(op)) {
          const Tensor& tensor = graph.tensor(input);
          const std::size_t from = Index(tensor.producer);
          const Link& link = cluster.link(MakeId<DeviceId>(0), MakeId<DeviceId>(1));
          const double transfer =
              device[from] == d ? 0 : link.latency_micros + link.MicrosOf(static_cast<double>(tensor.size.count));
          start = std::max(start, end[from] + transfer);
        }
        const double before = free[d];
        end[i] = free[d] = start + costs.Micros(op, MakeId<DeviceId>(d));
        device[i] = d;
        extend(done + 1, std::max(length, end[i]));
        end[i] = -1;
        free[d] = before;
        if (d == 0 && before == 0 && done == 0) break;  // devices are alike
      }
    }
  };
  extend(0, 0);
  return best;
}

TEST(OrderSearchTest, SmallProblemsAreSolved) {
  Rng rng(5);
  int solved = 0;
  constexpr int kProblems = 60;
  for (int i = 0; i < kProblems; ++i) {
    const bool is_free = i % 2 == 0;
    const Graph graph = RandomTasks(&rng, 6, is_free ? 0 : 5000);
    const Cluster cluster = Machines(2, is_free ? 0 : 1);
    const CostTable costs(graph, cluster, *MakeCostModel("measured"));
    const OrderedPlacement found = FindOrder(graph, cluster, costs, {.schedules = 3000});
    const double optimum = Optimum(graph, cluster, costs);
    // The engine agrees with the search's reckoning to the nanosecond an op: transfers wait for nothing.
    EXPECT_NEAR(StepOf(graph, cluster, found), found.micros, 0.01) << i;
    EXPECT_GE(found.micros, optimum - 1e-9) << i;
    EXPECT_LE(found.bound_micros, optimum + 1e-9) << i;
    solved += found.micros <= optimum + 1e-9 ? 1 : 0;
  }
  EXPECT_GE(solved, kProblems - 2);
}

TEST(OrderSearchTest, TheSameSeedGivesTheSameOrder) {
  Rng rng(9);
  const Graph graph = RandomTasks(&rng, 40, 0);
  const Cluster cluster = Machines(3, 0);
  const CostTable costs(graph, cluster, *MakeCostModel("measured"));
  const OrderedPlacement one = FindOrder(graph, cluster, costs, {.schedules = 500, .seed = 3});
  const OrderedPlacement two = FindOrder(graph, cluster, costs, {.schedules = 500, .seed = 3});
  EXPECT_EQ(one.placement, two.placement);
  EXPECT_EQ(one.order.ops, two.order.ops);
  const OrderedPlacement more = FindOrder(graph, cluster, costs, {.schedules = 5000, .seed = 3});
  EXPECT_LE(more.micros, one.micros);  // the course does not depend on the budget
  std::size_t listed = 0;
  for (const auto& ops : one.order.ops) listed += ops.size();
  EXPECT_EQ(listed, graph.num_ops());
}

TEST(OrderSearchTest, ColocatedOpsStayTogether) {
  GraphBuilder builder("pair");
  for (const char* const name : {"a", "b", "c"}) {
    OpSpec op;
    op.name = name;
    op.kind = "task";
    op.time_micros = 5;
    if (op.name == "b") op.colocate_with = "a";
    builder.Add(op);
  }
  const Graph graph = builder.Build();
  const Cluster cluster = Machines(2, 0);
  const CostTable costs(graph, cluster, *MakeCostModel("measured"));
  const OrderedPlacement found = FindOrder(graph, cluster, costs, {.schedules = 100});
  EXPECT_EQ(found.placement[*graph.FindOp("a")], found.placement[*graph.FindOp("b")]);
  EXPECT_EQ(found.micros, 10);
}

}  // namespace order_search_test
}  // namespace emplace::testing
