#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/base/rng.h"
#include "sim/bounds.h"
#include "sim/network/collective_times.h"
#include "sim/placement.h"
#include "sim/simulator.h"
#include "sim/step_explanation.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace collectives_test {

using ::emplace::testing::Build;
using ::emplace::testing::ErrorOf;
using ::emplace::testing::MeasuredCosts;
using ::emplace::testing::RowOfDevices;
using ::testing::HasSubstr;

OpSpec Work(const std::string& name, double micros, const std::vector<std::string>& inputs, std::int64_t bytes = 1000) {
  OpSpec spec;
  spec.name = name;
  spec.kind = "work";
  spec.time_micros = micros;
  spec.inputs = inputs;
  spec.outputs.emplace_back().size = Bytes{bytes};
  return spec;
}

OpSpec Member(const std::string& name, const std::string& group, const std::string& input, std::int64_t bytes,
              const std::string& kind = "all_reduce") {
  OpSpec spec = Work(name, 0, {input}, bytes);
  spec.time_micros.reset();
  spec.kind = kind;
  spec.attrs = R"({"group":")" + group + R"("})";
  return spec;
}

// Launches of 10 µs; 10 GB/s.
Cluster Devices(std::size_t count) {
  return Cluster::Uniform("alike", RowOfDevices(count), {.bandwidth_gb_per_s = 10, .latency_micros = 1})
      .WithCollectiveCosts({.launch_micros = 10, .local_gb_per_s = 1000});
}

Placement Placed(const Graph& graph, const std::map<std::string, std::uint32_t>& devices) {
  Placement placement(graph.num_ops());
  for (const auto& [name, device] : devices) placement[*graph.FindOp(name)] = MakeId<DeviceId>(device);
  return placement;
}

struct Runs {
  Timeline timeline;
  const Graph& graph;
  double start(const std::string& name) const { return Of(name).start_micros; }
  double end(const std::string& name) const { return Of(name).end_micros; }
  const Timeline::OpRun& Of(const std::string& name) const {
    const OpId op = *graph.FindOp(name);
    return *std::find_if(timeline.ops.begin(), timeline.ops.end(), [op](const auto& run) { return run.op == op; });
  }
};

Runs Record(const Graph& graph, const Cluster& cluster, const Placement& placement, const SimOptions& options = {}) {
  const CostTable costs = MeasuredCosts(graph, cluster);
  CheckPlacement(placement, graph, cluster, costs);
  return {Simulator(graph, cluster, costs, options).Record(placement), graph};
}

// A device has its gradient after 5 µs, the other one after 30; each goes on with other work of 50 µs beside.
Graph Reduction() {
  return Build({Work("x0", 5, {}), Work("x1", 30, {}), Work("beside0", 50, {"x0:0"}), Work("beside1", 50, {"x1:0"}),
                Member("r0", "g", "x0:0", 200'000), Member("r1", "g", "x1:0", 200'000), Work("y0", 2, {"r0:0"}),
                Work("y1", 2, {"r1:0"})});
}
const std::map<std::string, std::uint32_t> kTwoDevices = {{"x1", 1}, {"beside1", 1}, {"r1", 1}, {"y1", 1}};

TEST(CollectivesTest, StartWhenAllHaveArrivedAndRunBesideOps) {
  const Graph graph = Reduction();
  const Cluster cluster = Devices(2);
  for (const std::string engine : {"fifo", "flow"}) {
    const Runs runs = Record(graph, cluster, Placed(graph, kTwoDevices), {.engine = engine});
    EXPECT_EQ(runs.start("r0"), 30);
    EXPECT_EQ(runs.start("r1"), 30);
    EXPECT_EQ(runs.start("beside0"), 5);
    // Messages of 1,000 bytes take the fast protocol: 3.6 µs, two hops of 1 µs, 0.1 µs of bytes at a quarter of the
    // rate.
    const double takes = 10 + 0.001 + 3.6 + 2 * 1.0 + 0.4;
    EXPECT_NEAR(runs.end("r0"), 30 + takes, 0.001);
    EXPECT_EQ(runs.end("r0"), runs.end("r1"));
    EXPECT_EQ(runs.start("y0"), 55);  // the device was busy
    EXPECT_EQ(runs.start("y1"), 80);
  }
}

TEST(CollectivesTest, EachRankIsIssuedByALaneOfItsOwn) {
  const Graph graph = Reduction();
  const Cluster plain = Devices(2);
  std::vector<Device> devices = plain.devices();
  for (Device& device : devices) {
    device.issue = IssueLane{.lane = "one", .host_micros = 1, .launch_latency_micros = 2, .max_queued = 0};
  }
  const Cluster fed = Cluster::Uniform("fed", devices, {.bandwidth_gb_per_s = 10, .latency_micros = 1})
                          .WithCollectiveCosts({.launch_micros = 10, .local_gb_per_s = 1000});
  const Placement placement = Placed(graph, kTwoDevices);
  const double takes = Record(graph, plain, placement).end("r0") - 30;
  for (const std::string engine : {"fifo", "flow"}) {
    const Runs runs = Record(graph, fed, placement, {.engine = engine});
    EXPECT_EQ(runs.start("x0"), 3);
    EXPECT_EQ(runs.start("x1"), 3);       // with one lane it were 4
    EXPECT_EQ(runs.start("beside0"), 8);  // issued at 1, long before x0 ends
    EXPECT_EQ(runs.start("r0"), 33);      // x1's end, not its issue
    EXPECT_NEAR(runs.end("r0"), 33 + takes, 1e-9);
    EXPECT_EQ(runs.start("y0"), 58);
    EXPECT_EQ(runs.start("y1"), 83);
    EXPECT_EQ(runs.Of("y0").issue_start_micros, runs.end("r0"));
  }
}

TEST(CollectivesTest, ATimeThatTheGraphGivesIsTaken) {
  const Cluster cluster = Devices(2);
  std::vector<OpSpec> specs = {Work("x0", 5, {}), Work("x1", 30, {}), Member("r0", "g", "x0:0", 8),
                               Member("r1", "g", "x1:0", 8)};
  specs[2].time_micros = 7;
  specs[3].time_micros = 9;
  const Graph graph = Build(specs);
  EXPECT_EQ(Record(graph, cluster, Placed(graph, {{"x1", 1}, {"r1", 1}})).end("r0"), 39);
  EXPECT_EQ(MeasuredCollectiveMicros(graph.collectives()[0], Placed(graph, {}).devices(), graph, cluster), 9);
  // It is not work of devices: 35 us on two of them.
  EXPECT_EQ(ComputeBounds(graph, cluster, MeasuredCosts(graph, cluster)).work_micros, 35);
  specs[2].time_micros = specs[3].time_micros = 0;
  const Graph free = Build(specs);
  EXPECT_EQ(Record(free, cluster, Placed(free, {{"x1", 1}, {"r1", 1}})).end("r0"), 30);
}

TEST(CollectivesTest, ADeviceTakesPartInOneAtATime) {
  // a of devices 0 and 1, b of 1 and 2, c of 2 and 3, all from 0 on: a and c run first, then b.
  std::vector<OpSpec> specs;
  std::map<std::string, std::uint32_t> devices;
  const auto add = [&](const std::string& group, std::uint32_t device) {
    const std::string name = group + std::to_string(device);
    specs.push_back(Work("x" + name, 0, {}, 1'000'000));
    specs.push_back(Member(name, group, "x" + name + ":0", 8));
    devices[name] = devices["x" + name] = device;
  };
  for (const std::uint32_t d : {0U, 1U}) add("a", d);
  for (const std::uint32_t d : {1U, 2U}) add("b", d);
  for (const std::uint32_t d : {2U, 3U}) add("c", d);
  const Graph graph = Build(specs);
  const Runs runs = Record(graph, Devices(4), Placed(graph, devices));
  EXPECT_EQ(runs.start("a0"), 0);
  EXPECT_EQ(runs.start("c2"), 0);
  EXPECT_EQ(runs.start("b1"), runs.end("a1"));
  EXPECT_EQ(runs.start("b2"), runs.start("b1"));
}

TEST(CollectivesTest, MembersOfOneDeviceTakeNoTime) {
  const Graph graph = Reduction();
  const Runs runs = Record(graph, Devices(2), Placed(graph, {}));
  EXPECT_EQ(runs.start("r0"), runs.end("r1"));
}

TEST(CollectivesTest, MemoryIsTakenFromStartToEnd) {
  const Graph graph = Build({Work("x0", 5, {}, 100'000), Work("x1", 30, {}, 100'000),
                             Member("r0", "g", "x0:0", 100'000), Member("r1", "g", "x1:0", 100'000)});
  const Cluster cluster = Devices(2);
  const StepResult result =
      Simulator(graph, cluster, MeasuredCosts(graph, cluster)).Run(Placed(graph, {{"x1", 1}, {"r1", 1}}));
  EXPECT_EQ(result.peak_memory[0], Bytes{200'000});
  EXPECT_NEAR(result.step_time_micros, 30 + 10 + 0.1 + 8.4 + 2 * 5.7 + 10, 0.001);  // 100 kB, 2/2 of it at 10 GB/s
}

TEST(CollectivesTest, GroupsNeedLinksAndSomeEnginesRefuseThem) {
  const Graph graph = Reduction();
  std::vector<Link> links(9, {.bandwidth_gb_per_s = 10});
  links[1] = {};
  const Cluster cluster("holes", "", RowOfDevices(3), links, Channels::kPerDevice);
  const CostTable costs = MeasuredCosts(graph, cluster);
  EXPECT_THAT(ErrorOf([&] { CheckPlacement(Placed(graph, kTwoDevices), graph, cluster, costs); }),
              HasSubstr("is in the group \"g\" with \"r0\" on \"d0\", but cluster \"holes\" has no link"));
  EXPECT_EQ(ErrorOf([&] {
              const Placement placement = Placed(graph, {});
              const Simulator simulator(graph, cluster, costs);
              ExplainStep(graph, cluster, costs, placement, simulator.options(), simulator.Record(placement));
            }),
            "graph g has collectives, whose waits are not explained (simulate tells the step)");
  EXPECT_EQ(ErrorOf([&] { Simulator(graph, cluster, costs, {.engine = "placeto-reference"}); }),
            "graph g: engine placeto-reference runs no collectives (use engine fifo)");
}

// Devices on one switch: an expanded collective takes what the model says, but for what NCCL's latencies are.
TEST(CollectivesTest, FlowsOfLargeMessagesTakeWhatTheModelSays) {
  constexpr std::size_t kDevices = 8;
  std::vector<Topology::Link> links;
  for (std::uint32_t d = 0; d < kDevices; ++d) {
    links.push_back({d, kDevices, 200, 0.5});
    links.push_back({kDevices, d, 200, 0.5});
  }
  const Cluster cluster("switch", "", RowOfDevices(kDevices), Topology(kDevices, {"s"}, links), Channels::kPerPair);
  const std::map<std::string, double> tolerance = {
      {"all_reduce", 0.01}, {"reduce_scatter", 0.01}, {"all_gather", 0.01}, {"all_to_all", 0.01}, {"broadcast", 0.45}};
  for (const auto& [kind, allowed] : tolerance) {
    std::vector<OpSpec> specs;
    std::map<std::string, std::uint32_t> devices;
    for (std::uint32_t d = 0; d < kDevices; ++d) {
      const std::string name = "r" + std::to_string(d);
      specs.push_back(Work("x" + name, 1, {}, 800'000'000));
      specs.push_back(Member(name, "g", "x" + name + ":0", 800'000'000, kind));
      devices[name] = devices["x" + name] = d;
    }
    const Graph graph = Build(specs);
    const Placement placement = Placed(graph, devices);
    const double model = Record(graph, cluster, placement, {.engine = "flow"}).end("r0");
    const double ring = Record(graph, cluster, placement, {.engine = "flow", .collectives = "ring"}).end("r0");
    EXPECT_NEAR(ring / model, 1, allowed) << kind;
    // Without a topology nothing is shared, and on one switch neither is.
    EXPECT_NEAR(Record(graph, cluster, placement, {.engine = "fifo", .collectives = "ring"}).end("r0"), ring,
                kind == "all_to_all" ? 1e9 : 0.1)
        << kind;
    if (kind != "all_reduce") continue;
    const double tree = Record(graph, cluster, placement, {.engine = "flow", .collectives = "tree"}).end("r0");
    EXPECT_GT(tree, ring);  // its inner devices receive from two and send to two
    EXPECT_LT(tree, 3 * ring);
  }
}

TEST(CollectivesTest, ATreeWithoutItsLinksIsARing) {
  // Four devices in a circle: the tree would send from 2 to 0.
  std::vector<Link> links(16);
  for (std::size_t d = 0; d < 4; ++d) links[d * 4 + (d + 1) % 4] = {.bandwidth_gb_per_s = 10, .latency_micros = 1};
  const Cluster cluster("circle", "", RowOfDevices(4), links, Channels::kPerDevice);
  std::vector<OpSpec> specs;
  std::map<std::string, std::uint32_t> devices;
  for (std::uint32_t d = 0; d < 4; ++d) {
    const std::string name = "r" + std::to_string(d);
    specs.push_back(Work("x" + name, 1, {}, 1'000'000));
    specs.push_back(Member(name, "g", "x" + name + ":0", 1'000'000));
    devices[name] = devices["x" + name] = d;
  }
  const Graph graph = Build(specs);
  const auto end = [&](const std::string& how) {
    return Record(graph, cluster, Placed(graph, devices), {.engine = "flow", .collectives = how}).end("r0");
  };
  EXPECT_EQ(end("tree"), end("ring"));
}

TEST(CollectivesTest, FlowsShareLinksWithTransfers) {
  // A transfer between the same devices as a ring's, both over links of 10 GB/s: the ring slows down.
  std::vector<Topology::Link> links;
  for (std::uint32_t d = 0; d < 2; ++d) {
    links.push_back({d, 2, 10, 0});
    links.push_back({2, d, 10, 0});
  }
  const Cluster cluster("switch", "", RowOfDevices(2), Topology(2, {"s"}, links), Channels::kPerPair);
  std::vector<OpSpec> specs = {Work("x0", 1, {}, 10'000'000), Work("x1", 1, {}, 10'000'000),
                               Member("r0", "g", "x0:0", 10'000'000), Member("r1", "g", "x1:0", 10'000'000)};
  const auto end = [&](bool with_transfer) {
    std::vector<OpSpec> all = specs;
    std::map<std::string, std::uint32_t> devices = {{"x1", 1}, {"r1", 1}};
    if (with_transfer) {
      all.push_back(Work("big", 1, {}, 100'000'000));
      all.push_back(Work("far", 1, {"big:0"}));
      devices["far"] = 1;
    }
    const Graph graph = Build(all);
    return Record(graph, cluster, Placed(graph, devices), {.engine = "flow", .collectives = "ring"}).end("r0");
  };
  EXPECT_GT(end(true), end(false) + 900);
}

// Lanes of ops in steps; collectives of some lanes in some steps, and edges between lanes.
struct RandomCase {
  Graph graph;
  Placement placement;
};
RandomCase MakeRandomCase(Rng& rng) {
  const std::size_t lanes = 1 + rng.Below(5);
  const std::size_t devices = 1 + rng.Below(4);
  std::vector<OpSpec> specs;
  std::vector<std::string> last(lanes);
  std::vector<std::size_t> lane_of;
  const std::size_t steps = 2 + rng.Below(10);
  for (std::size_t step = 0; step < steps; ++step) {
    const std::vector<std::string> before = last;
    const bool reduces = step > 0 && rng.Below(2) == 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::string name = "s" + std::to_string(step) + "l" + std::to_string(lane);
      const auto bytes = static_cast<std::int64_t>(1 + rng.Below(5'000'000));
      if (reduces && rng.Below(3) != 0) {
        specs.push_back(Member(name, "g" + std::to_string(step) + (lane % 2 == 0 ? "even" : "odd"), before[lane] + ":0",
                               bytes, rng.Below(2) == 0 ? "all_reduce" : "all_gather"));
      } else {
        std::vector<std::string> inputs;
        if (step > 0) inputs.push_back(before[lane] + ":0");
        if (step > 0 && rng.Below(3) == 0) inputs.push_back(before[rng.Below(lanes)] + ":0");
        specs.push_back(Work(name, static_cast<double>(rng.Below(300)), inputs, bytes));
      }
      lane_of.push_back(lane);
      last[lane] = name;
    }
  }
  RandomCase random{Build(specs), Placement(specs.size())};
  for (std::size_t i = 0; i < specs.size(); ++i) {
    random.placement[*random.graph.FindOp(specs[i].name)] = MakeId<DeviceId>(lane_of[i] % devices);
  }
  return random;
}

// Properties of every run by K1 to K5: no time is lost, and none is used twice.
TEST(CollectivesTest, RandomRunsKeepTheRules) {
  std::size_t collectives = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Rng rng(seed);
    const RandomCase random = MakeRandomCase(rng);
    const Graph& graph = random.graph;
    const Cluster cluster = Devices(4);
    const CollectiveTimes times(cluster);
    const CostTable costs = MeasuredCosts(graph, cluster);
    const Simulator simulator(graph, cluster, costs, {.start_times = true});
    const Timeline timeline = simulator.Record(random.placement);
    std::vector<Timeline::OpRun> runs(graph.num_ops());
    for (const auto& run : timeline.ops) runs[Index(run.op)] = run;
    std::map<std::pair<TensorId, DeviceId>, double> arrivals;
    for (const auto& transfer : timeline.transfers) {
      arrivals[{transfer.tensor, transfer.to}] = transfer.arrival_micros;
    }
    const auto arrives = [&](OpId op) {
      double when = 0;
      for (const TensorId input : graph.inputs(op)) {
        const OpId producer = graph.tensor(input).producer;
        when = std::max(when, random.placement[producer] == random.placement[op]
                                  ? runs[Index(producer)].end_micros
                                  : arrivals.at({input, random.placement[op]}));
      }
      return when;
    };
    std::map<DeviceId, std::vector<std::pair<double, double>>> taken;
    for (const Collective& collective : graph.collectives()) {
      ++collectives;
      std::set<DeviceId> devices;
      double last = 0;
      for (const OpId op : collective.members) {
        devices.insert(random.placement[op]);
        last = std::max(last, arrives(op));
      }
      const Timeline::OpRun& first = runs[Index(collective.members.front())];
      const std::vector<DeviceId> distinct(devices.begin(), devices.end());
      const double takes = MicrosFromDuration(times.Of(collective.kind, collective.size, distinct).duration);
      for (const OpId op : collective.members) {
        ASSERT_EQ(runs[Index(op)].start_micros, first.start_micros) << seed;
        ASSERT_NEAR(runs[Index(op)].end_micros, first.start_micros + takes, 1e-6) << seed;
      }
      ASSERT_GE(first.start_micros, last) << seed;
      // It waits for nothing but another collective of one of its devices.
      bool follows = first.start_micros == last;
      for (const Collective& other : graph.collectives()) {
        for (const OpId op : other.members) {
          follows |= devices.contains(random.placement[op]) && runs[Index(op)].end_micros == first.start_micros;
        }
      }
      ASSERT_TRUE(follows) << seed << " " << collective.group;
      for (const DeviceId device : devices) taken[device].emplace_back(first.start_micros, first.end_micros);
    }
    for (auto& [device, intervals] : taken) {
      std::sort(intervals.begin(), intervals.end());
      for (std::size_t i = 1; i < intervals.size(); ++i) {
        ASSERT_GE(intervals[i].first, intervals[i - 1].second) << seed;
      }
    }
  }
  EXPECT_GT(collectives, 3000U);
}

}  // namespace collectives_test
}  // namespace emplace
