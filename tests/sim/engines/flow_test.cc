#include "sim/engines/flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/rng.h"
#include "sim/simulator.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/slow_flows.h"

namespace emplace {
namespace flow_test {

using ::emplace::testing::Build;
using ::emplace::testing::MeasuredCosts;
using ::emplace::testing::RowOfDevices;
using ::testing::ElementsAre;

// Each device is joined to a switch of its own, and these to each other by links of `trunk` GB/s.
Cluster TwoNodes(double trunk) {
  std::vector<Topology::Link> links;
  const auto join = [&](std::uint32_t a, std::uint32_t b, double gb_per_s, double latency) {
    links.push_back({a, b, gb_per_s, latency});
    links.push_back({b, a, gb_per_s, latency});
  };
  for (const std::uint32_t device : {0U, 1U}) join(device, 4, 2, 0.5);
  for (const std::uint32_t device : {2U, 3U}) join(device, 5, 2, 0.5);
  join(4, 5, trunk, 1);
  return Cluster("two", "", RowOfDevices(4), Topology(4, {"left", "right"}, links), Channels::kPerDevice);
}

struct Told {
  StepResult result;
  Timeline timeline;
};

Told Simulate(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Placement& placement,
              const std::string& engine) {
  const Simulator simulator(graph, cluster, costs, {.engine = engine, .start_times = true});
  return {simulator.Run(placement), simulator.Record(placement)};
}

std::vector<double> Arrivals(const Timeline& timeline) {
  std::vector<double> arrivals;
  for (const Timeline::Transfer& transfer : timeline.transfers) arrivals.push_back(transfer.arrival_micros);
  return arrivals;
}

// Two ops of 10 µs send 6,000 bytes each from the left to the right, 2 µs of latency on the way.
Graph TwoSenders() {
  const auto op = [](const std::string& name, const std::string& reads, double micros) {
    OpSpec spec;
    spec.name = name;
    spec.kind = "work";
    spec.time_micros = micros;
    if (reads.empty()) {
      spec.outputs.emplace_back().size = Bytes{6000};
    } else {
      spec.inputs = {reads};
    }
    return spec;
  };
  return Build({op("a", "", 10), op("b", "", 10), op("c", "a:0", 1), op("d", "b:0", 1)});
}

Placement Placed(const Graph& graph, const std::map<std::string, std::uint32_t>& devices) {
  Placement placement(graph.num_ops());
  for (const auto& [name, device] : devices) placement[*graph.FindOp(name)] = MakeId<DeviceId>(device);
  return placement;
}

TEST(FlowEngineTest, FlowsShareTheLinkBetweenTheNodes) {
  const Graph graph = TwoSenders();
  const Placement placement = Placed(graph, {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}});
  // 2 GB/s are 2,000 bytes in a µs: alone 3 µs, and as the trunk has room for both, so together.
  const Cluster wide = TwoNodes(4);
  EXPECT_THAT(Arrivals(Simulate(graph, wide, MeasuredCosts(graph, wide), placement, "flow").timeline),
              ElementsAre(15, 15));
  // The trunk has 2 GB/s for both: 6 µs.
  const Cluster narrow = TwoNodes(2);
  const Told told = Simulate(graph, narrow, MeasuredCosts(graph, narrow), placement, "flow");
  EXPECT_THAT(Arrivals(told.timeline), ElementsAre(18, 18));
  EXPECT_EQ(told.result.step_time_micros, 19);
  // fifo lets each have all of it.
  EXPECT_THAT(Arrivals(Simulate(graph, narrow, MeasuredCosts(graph, narrow), placement, "fifo").timeline),
              ElementsAre(15, 15));
  // Opposite directions do not share.
  const Placement against = Placed(graph, {{"a", 0}, {"b", 2}, {"c", 2}, {"d", 1}});
  EXPECT_THAT(Arrivals(Simulate(graph, narrow, MeasuredCosts(graph, narrow), against, "flow").timeline),
              ElementsAre(15, 15));
}

TEST(FlowEngineTest, FedDevicesShareLinksToo) {
  const Graph graph = TwoSenders();
  const Placement placement = Placed(graph, {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}});
  const Cluster narrow = TwoNodes(2);
  std::vector<Device> devices = narrow.devices();
  for (Device& device : devices) {
    device.issue = IssueLane{.lane = "one", .host_micros = 1, .launch_latency_micros = 2, .max_queued = 0};
  }
  const Cluster fed("fed", "", devices, narrow.topology(), Channels::kPerDevice);
  // One thread issues a at 0 and b at 1: they end at 13 and 14. Both flows share the trunk from 16 on: 2,000 bytes of
  // the first are through, then each has 1,000 in a us.
  const Told told = Simulate(graph, fed, MeasuredCosts(graph, fed), placement, "flow");
  EXPECT_THAT(Arrivals(told.timeline), ElementsAre(20, 21));
  EXPECT_EQ(told.result.step_time_micros, 25);  // issued at 21, launched at 24
  EXPECT_EQ(told.timeline.issued.size(), 4U);
}

TEST(FlowEngineTest, RefusesIssueLanesOfDevicesThatSendThemselves) {
  const Graph graph = TwoSenders();
  std::vector<Device> devices = RowOfDevices(2);
  for (Device& device : devices) {
    device.issue = IssueLane{.host_micros = 1};
    device.copy_engine = false;
  }
  const Cluster cluster = Cluster::Uniform("lanes", devices, {.bandwidth_gb_per_s = 1});
  EXPECT_EQ(testing::ErrorOf([&] { Simulator(graph, cluster, MeasuredCosts(graph, cluster), {.engine = "flow"}); }),
            "cluster lanes: device " + devices[0].name +
                " has an issue lane and no copy engine, which engine flow and graphs with collectives do not support "
                "(one of them)");
}

std::int64_t Ns(double micros) { return RoundToInteger(micros * 1000); }

// Arrivals are those of the slow reference for flows that start a latency after each transfer.
void ExpectFairFlows(const Graph& graph, const Cluster& cluster, const Timeline& timeline) {
  std::vector<double> capacities;
  for (const Topology::Link& link : cluster.topology().links()) {
    capacities.push_back(static_cast<double>(RateFromGbPerS(link.bandwidth_gb_per_s).count) / 1e9);
  }
  std::vector<testing::SlowFlow> flows;
  for (const Timeline::Transfer& transfer : timeline.transfers) {
    const Link& link = cluster.link(transfer.from, transfer.to);
    const auto route = cluster.topology().Route(Index(transfer.from), Index(transfer.to));
    const Bytes size = graph.tensor(transfer.tensor).size;
    flows.push_back({.start = Ns(transfer.start_micros) + Ns(link.latency_micros),
                     .route = {route.begin(), route.end()},
                     .bytes = size.count,
                     .alone = TransferDuration(size, link.rate()).count()});
  }
  const std::vector<std::int64_t> ends = testing::SlowFlowEnds(capacities, flows);
  for (std::size_t i = 0; i < ends.size(); ++i) ASSERT_EQ(Ns(timeline.transfers[i].arrival_micros), ends[i]) << i;
}

// docs/model.md, F9 to F11 and F13, with these arrivals: each op starts as soon as it is ready and its device free, and
// of those that wait then it was ready first.
void ExpectOpsInTurn(const Graph& graph, const Cluster& cluster, const Placement& placement, const Timeline& timeline) {
  std::map<std::pair<TensorId, DeviceId>, std::int64_t> arrival;
  for (const Timeline::Transfer& transfer : timeline.transfers) {
    arrival[{transfer.tensor, transfer.to}] = Ns(transfer.arrival_micros);
  }
  std::map<OpId, std::int64_t> end;
  std::map<OpId, std::int64_t> start;
  for (const Timeline::OpRun& run : timeline.ops) {
    end[run.op] = Ns(run.end_micros);
    start[run.op] = Ns(run.start_micros);
  }
  const auto ready = [&](OpId op) {
    std::int64_t when = 0;
    for (const TensorId input : graph.inputs(op)) {
      const OpId producer = graph.tensor(input).producer;
      const bool is_here = placement[producer] == placement[op];
      when = std::max(when, is_here ? end.at(producer) : arrival.at({input, placement[op]}));
    }
    for (const OpId producer : graph.control_inputs(op)) {
      const bool is_here = placement[producer] == placement[op];
      when = std::max(
          when, end.at(producer) + (is_here ? 0 : Ns(cluster.link(placement[producer], placement[op]).latency_micros)));
    }
    return when;
  };
  std::map<DeviceId, std::int64_t> free;
  std::set<OpId> ran;
  for (const Timeline::OpRun& run : timeline.ops) {
    std::int64_t device_free = free[run.device];
    if (!cluster.device(run.device).copy_engine) {
      for (const Timeline::Transfer& sent : timeline.transfers) {
        const OpId producer = graph.tensor(sent.tensor).producer;
        if (sent.from == run.device && ran.count(producer) != 0) {
          device_free = std::max(device_free, Ns(sent.arrival_micros));
        }
      }
    }
    ASSERT_EQ(start.at(run.op), std::max(ready(run.op), device_free)) << "op " << Index(run.op);
    for (const auto& [other, when] : start) {
      if (placement[other] != run.device || when < start.at(run.op) || other == run.op) continue;
      if (when == start.at(run.op) && end.at(other) == when) continue;  // an op of no time, which comes first
      ASSERT_TRUE(std::pair(ready(other), other) > std::pair(ready(run.op), run.op) ||
                  ready(other) >= start.at(run.op));
    }
    ran.insert(run.op);
    const bool takes_time = end.at(run.op) > start.at(run.op);
    free[run.device] = end.at(run.op) + (takes_time ? Ns(cluster.device(run.device).op_gap_micros) : 0);
  }
}

TEST(FlowEngineTest, EqualsTheReferenceOnRandomTreesSlow) {
  Rng rng(23);
  int shared = 0;
  for (int i = 0; i < 10'000; ++i) {
    const Cluster cluster = testing::RandomTree(rng);
    testing::RandomDagOptions options;
    options.num_ops = 2 + rng.Below(30);
    options.max_inputs = 1 + rng.Below(3);
    options.zero_time_probability = 0.1;
    const Graph graph = testing::RandomDag(rng, options);
    const CostTable costs = MeasuredCosts(graph, cluster);
    const Placement placement = testing::RandomPlacement(rng, graph, cluster, costs);
    const Told told = Simulate(graph, cluster, costs, placement, "flow");
    ASSERT_EQ(told.timeline.ops.size(), graph.num_ops());
    ASSERT_NO_FATAL_FAILURE(ExpectFairFlows(graph, cluster, told.timeline)) << "case " << i;
    ASSERT_NO_FATAL_FAILURE(ExpectOpsInTurn(graph, cluster, placement, told.timeline)) << "case " << i;
    const Told alone = Simulate(graph, cluster, costs, placement, "fifo");
    shared += told.result.step_time_micros != alone.result.step_time_micros ? 1 : 0;
  }
  EXPECT_GT(shared, 1000) << "shared links are meant to be common";
}

// A switch for each ordered pair: no link is in two routes.
TEST(FlowEngineTest, WhereNoLinkIsSharedItGivesFifosAnswers) {
  Rng rng(24);
  for (int i = 0; i < 500; ++i) {
    const std::size_t n = 2 + rng.Below(4);
    std::vector<Topology::Link> links;
    std::vector<std::string> switches;
    for (std::uint32_t a = 0; a < n; ++a) {
      for (std::uint32_t b = 0; b < n; ++b) {
        if (a == b) continue;
        const auto hub = static_cast<std::uint32_t>(n + switches.size());
        switches.push_back("s" + std::to_string(hub));
        const double rate = 0.3 * static_cast<double>(1 + rng.Below(9));
        links.push_back({a, hub, rate, static_cast<double>(rng.Below(3)) / 2});
        links.push_back({hub, b, rate + 1, static_cast<double>(rng.Below(3)) / 2});
      }
    }
    std::vector<Device> devices = RowOfDevices(n);
    for (Device& device : devices) device.memory = Bytes{static_cast<std::int64_t>(rng.Below(100'000))};
    const Cluster cluster("mesh", "", devices, Topology(n, switches, links),
                          rng.Below(2) == 0 ? Channels::kPerPair : Channels::kPerDevice);
    testing::RandomDagOptions options;
    options.num_ops = 2 + rng.Below(40);
    options.memory = true;
    const Graph graph = testing::RandomDag(rng, options);
    const CostTable costs = MeasuredCosts(graph, cluster);
    const Placement placement = testing::RandomPlacement(rng, graph, cluster, costs);
    ASSERT_EQ(Simulate(graph, cluster, costs, placement, "flow").result,
              Simulate(graph, cluster, costs, placement, "fifo").result)
        << "case " << i;
  }
}

}  // namespace flow_test
}  // namespace emplace
