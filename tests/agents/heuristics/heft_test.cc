#include "agents/heuristics/heft.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "agents/heuristics/solver_input.h"
#include "sim/base/check.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace {
namespace {

using testing::Devices;
using testing::IsAllowed;
using testing::MakeCluster;
using testing::MakeObservation;
using testing::MakeOp;

// The example of Topcuoglu et al. 2002, figure 2: ten tasks on three processors, one unit is 1 µs. Names are sorted
// like the tasks' numbers: where precedence allows, task n is op n - 1 in the same order.
agents::Observation PublishedExample() {
  constexpr std::array<std::array<double, 3>, 10> kTimes = {{{14, 16, 9},
                                                             {13, 19, 18},
                                                             {11, 13, 19},
                                                             {13, 8, 17},
                                                             {12, 13, 10},
                                                             {13, 16, 9},
                                                             {7, 15, 11},
                                                             {5, 11, 14},
                                                             {18, 12, 20},
                                                             {21, 7, 16}}};
  struct Edge {
    std::size_t from, to;
    std::int64_t cost;
  };
  const std::vector<Edge> edges = {{1, 2, 18}, {1, 3, 12}, {1, 4, 9},   {1, 5, 11},  {1, 6, 14},
                                   {2, 8, 19}, {2, 9, 16}, {3, 7, 23},  {4, 8, 27},  {4, 9, 23},
                                   {5, 9, 13}, {6, 8, 15}, {7, 10, 17}, {8, 10, 11}, {9, 10, 13}};
  const auto name = [](std::size_t task) { return (task < 10 ? "n0" : "n") + std::to_string(task); };
  std::vector<OpSpec> specs;
  for (std::size_t task = 1; task <= 10; ++task) {
    OpSpec op = MakeOp(name(task), 0, {}, {});
    op.time_micros.reset();
    for (std::size_t p = 0; p < 3; ++p) op.kind_times.emplace_back("p" + std::to_string(p + 1), kTimes[task - 1][p]);
    specs.push_back(op);
  }
  for (const auto& [from, to, cost] : edges) {
    specs[to - 1].inputs.push_back(name(from) + ":" + std::to_string(specs[from - 1].outputs.size()));
    specs[from - 1].outputs.push_back({.size = Bytes{1000 * cost}, .shape = {}});  // at 1 GB/s
  }
  GraphBuilder builder("topcuoglu");
  for (OpSpec& spec : specs) builder.Add(spec);
  std::vector<Device> devices;
  for (const char* kind : {"p1", "p2", "p3"}) devices.push_back({.name = kind, .kind = kind, .memory = {}});
  return MakeObservation(builder.Build(), Cluster::Uniform("three", devices, {.bandwidth_gb_per_s = 1}));
}

TEST(HeftTest, RanksThePublishedExampleAsPublished) {
  // Table 3 of the paper, to its three digits.
  const std::vector<double> published = {108.000, 77.000, 80.000, 80.000, 69.000,
                                         63.333,  42.667, 35.667, 44.333, 14.667};
  const agents::HeftSchedule schedule = agents::ScheduleByHeft(PublishedExample(), {});
  ASSERT_EQ(schedule.ranks.size(), published.size());
  for (std::size_t i = 0; i < published.size(); ++i) EXPECT_NEAR(schedule.ranks[i], published[i], 5e-4) << "n" << i + 1;
}

TEST(HeftTest, SchedulesThePublishedExampleAsPublished) {
  // Figure 3(a) of the paper: P1 runs n2, n8; P2 runs n4, n6, n9, n10; P3 runs n1, n3, n5, n7; schedule length 80.
  const agents::HeftSchedule schedule = agents::ScheduleByHeft(PublishedExample(), {});
  EXPECT_EQ(Devices(schedule.placement), (std::vector<int>{2, 0, 2, 1, 2, 1, 2, 0, 1, 1}));
  EXPECT_EQ(*std::max_element(schedule.end.begin(), schedule.end.end()), Duration(80000));
  EXPECT_EQ(schedule.start[7], Duration(57000));  // n8 on P1 after n6's data, 42 + 15
}

TEST(HeftTest, FillsIdleGaps) {
  // "c" (10 µs) runs only on device 1, all other ops only on device 0. a (10 µs), c and z (5 µs) are a chain with
  // transfers of 20 µs, so their ranks are a > c > z. "zz" (4 µs) has the lowest rank and is placed last. It fits on
  // device 0 between the end of a at 10 and the start of z at 10 + 20 + 10 + 20 = 60.
  GraphBuilder builder("gap");
  const auto op = [&](std::string name, double fast, double slow, std::vector<std::string> inputs) {
    OpSpec spec = MakeOp(std::move(name), 0, std::move(inputs), {20000});
    spec.time_micros.reset();
    if (fast > 0) spec.kind_times.emplace_back("fast", fast);
    if (slow > 0) spec.kind_times.emplace_back("slow", slow);
    builder.Add(spec);
  };
  op("a", 10, 0, {});
  op("c", 0, 10, {"a"});
  op("z", 5, 0, {"c"});
  op("zz", 4, 0, {});
  const Cluster cluster = Cluster::Uniform(
      "two", {{.name = "d0", .kind = "fast", .memory = {}}, {.name = "d1", .kind = "slow", .memory = {}}},
      {.bandwidth_gb_per_s = 1});
  const agents::Observation observation = MakeObservation(builder.Build(), cluster);
  const agents::HeftSchedule schedule = agents::ScheduleByHeft(observation, {});
  const std::size_t z = Index(*observation.graph.FindOp("z"));
  const std::size_t filler = Index(*observation.graph.FindOp("zz"));
  EXPECT_EQ(schedule.start[z], Duration(60000));
  EXPECT_EQ(schedule.start[filler], Duration(10000));
}

TEST(HeftTest, KeepsADeviceIdleForItsGap) {
  // Two independent ops of 3 µs on one device with a gap of 2 µs: the second starts at 5.
  GraphBuilder builder("two");
  builder.Add(MakeOp("a", 3));
  builder.Add(MakeOp("b", 3));
  const agents::Observation observation = MakeObservation(builder.Build(), MakeCluster(1, {}, 2));
  EXPECT_EQ(agents::ScheduleByHeft(observation, {}).start, (std::vector<Duration>{Duration(0), Duration(5000)}));
}

TEST(HeftTest, FiltersByMemoryIfAsked) {
  // A chain of three ops of 1 µs with 40 bytes of output. Transfers take little time, but more than none, so HEFT keeps
  // all ops on device 0. With 100 bytes of memory the third op does not fit there.
  const agents::Observation observation =
      MakeObservation(testing::MakeChain(3, 1, 40),
                      MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{100}));
  EXPECT_EQ(Devices(agents::ScheduleByHeft(observation, {}).placement), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(Devices(agents::ScheduleByHeft(observation, {.memory_filter = true}).placement),
            (std::vector<int>{0, 0, 1}));
}

TEST(HeftTest, TakesTheRoomiestDeviceWhereNoneHasRoom) {
  // 40 bytes each, 50 on a device: the first two fit, then no device has room. For the fourth op, device 1 has more
  // left.
  const agents::Observation observation =
      MakeObservation(testing::MakeChain(4, 1, 40),
                      MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{50}));
  EXPECT_EQ(Devices(agents::ScheduleByHeft(observation, {.memory_filter = true}).placement),
            (std::vector<int>{0, 1, 0, 1}));
}

TEST(HeftTest, SchedulesOfRandomGraphsAreValid) {
  Rng rng(5);
  for (int i = 0; i < 100; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 1 + rng.Below(60), .kinds_differ = true});
    const agents::Observation observation = MakeObservation(graph, testing::MakeMixedCluster(1 + rng.Below(4)));
    const agents::HeftSchedule schedule = agents::ScheduleByHeft(observation, {});
    ASSERT_TRUE(IsAllowed(observation, schedule.placement));
    for (const agents::GroupEdge& edge : agents::GroupEdges(graph)) {
      const Duration transfer = agents::LinkTime(observation.cluster, schedule.placement[MakeId<OpId>(edge.from)],
                                                 schedule.placement[MakeId<OpId>(edge.to)], Bytes{edge.bytes});
      EXPECT_LE(schedule.end[edge.from] + transfer, schedule.start[edge.to]);
    }
    for (std::size_t a = 0; a < graph.num_ops(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        // An op of no duration occupies no interval, so others may overlap it.
        if (schedule.start[a] == schedule.end[a] || schedule.start[b] == schedule.end[b]) continue;
        if (schedule.placement.devices()[a] != schedule.placement.devices()[b]) continue;
        EXPECT_TRUE(schedule.end[a] <= schedule.start[b] || schedule.end[b] <= schedule.start[a]) << a << " and " << b;
      }
    }
  }
}

TEST(HeftTest, ReadsItsOptions) {
  const Graph chain = testing::MakeChain(3, 1, 40);
  const Cluster cluster =
      MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{100});
  EXPECT_EQ(Devices(testing::FirstProposal(agents::MakeHeftAgent, {}, chain, cluster)), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(Devices(testing::FirstProposal(agents::MakeHeftAgent, {{"memory_filter", "true"}}, chain, cluster)),
            (std::vector<int>{0, 0, 1}));
  EXPECT_THROW(testing::FirstProposal(agents::MakeHeftAgent, {{"memory", "1"}}, chain, cluster), InputError);
}

}  // namespace
}  // namespace emplace
