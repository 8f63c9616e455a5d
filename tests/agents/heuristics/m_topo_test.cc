#include "agents/heuristics/m_topo.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "sim/base/check.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace {
namespace m_topo_test {

using testing::Devices;
using testing::IsAllowed;
using testing::MakeObservation;
using testing::MakeOp;

// Four ops in a row that need 10, 20, 30 and 40 bytes: as outputs, temporary and persistent bytes.
Graph FourOps() {
  GraphBuilder builder("four");
  builder.Add(MakeOp("a", 1, {}, {10}));
  builder.Add(MakeOp("b", 1, {"a"}, {20}));
  OpSpec c = MakeOp("c", 1, {"b"});
  c.temp = Bytes{30};
  builder.Add(c);
  OpSpec d = MakeOp("d", 1, {"c"});
  d.persistent = Bytes{40};
  builder.Add(d);
  return builder.Build();
}

Cluster TwoOf(std::int64_t bytes) {
  return testing::MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{bytes});
}

TEST(MTopoTest, FillsUpToTheShareAndTheLargestGroup) {
  // Cap: floor(100 / 2) + 40 = 90. Device 0 takes 10 + 20 + 30 = 60; 40 more would be 100.
  EXPECT_EQ(Devices(PlaceByMTopo(MakeObservation(FourOps(), TwoOf(1)), {})), (std::vector<int>{0, 0, 0, 1}));
  // Four devices: floor(100 / 4) + 40 = 65. 60 fit, 40 more do not.
  EXPECT_EQ(Devices(PlaceByMTopo(MakeObservation(FourOps(), testing::MakeCluster(4)), {})),
            (std::vector<int>{0, 0, 0, 1}));
}

TEST(MTopoTest, FillsUpToTheCapacityOtherwise) {
  // 10 + 20 fit in 50, 30 more do not; the last device takes 30 and 40 although they are too much for it.
  EXPECT_EQ(Devices(PlaceByMTopo(MakeObservation(FourOps(), TwoOf(50)), {.uniform = false})),
            (std::vector<int>{0, 0, 1, 1}));
  // A device that is too small for the first group is left for good.
  EXPECT_EQ(Devices(PlaceByMTopo(MakeObservation(FourOps(), TwoOf(5)), {.uniform = false})),
            (std::vector<int>{1, 1, 1, 1}));
}

TEST(MTopoTest, LeavesGroupsThatRunElsewhereOutOfTheCount) {
  GraphBuilder builder("mixed");
  OpSpec cpu = MakeOp("a", 1, {}, {1000});
  cpu.time_micros.reset();
  cpu.kind_times = {{"test-cpu", 1}};
  builder.Add(cpu);
  builder.Add(MakeOp("b", 1, {"a"}, {10}));
  const Observation observation = MakeObservation(builder.Build(), testing::MakeMixedCluster(2, Bytes{10}));
  EXPECT_EQ(Devices(PlaceByMTopo(observation, {.uniform = false})), (std::vector<int>{0, 1}));
}

TEST(MTopoTest, PlacesRandomGraphsWhereAllowed) {
  Rng rng(5);
  for (int i = 0; i < 50; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 1 + rng.Below(60), .kinds_differ = true, .memory = true});
    const Observation observation = MakeObservation(graph, testing::MakeMixedCluster(1 + rng.Below(8), Bytes{20000}));
    EXPECT_TRUE(IsAllowed(observation, PlaceByMTopo(observation, {.uniform = i % 2 == 0})));
  }
  const Observation empty = MakeObservation(Graph(), testing::TwoDevices());
  EXPECT_EQ(PlaceByMTopo(empty, {}).num_ops(), 0U);
}

TEST(MTopoTest, ReadsItsOptions) {
  // The numbers of the two tests above.
  EXPECT_EQ(Devices(testing::FirstProposal(MakeMTopoAgent, {}, FourOps(), TwoOf(50))), (std::vector<int>{0, 0, 0, 1}));
  EXPECT_EQ(Devices(testing::FirstProposal(MakeMTopoAgent, {{"uniform", "false"}}, FourOps(), TwoOf(50))),
            (std::vector<int>{0, 0, 1, 1}));
  EXPECT_THROW(testing::FirstProposal(MakeMTopoAgent, {{"cap", "1"}}, FourOps(), TwoOf(50)), InputError);
}

}  // namespace m_topo_test
}  // namespace emplace
