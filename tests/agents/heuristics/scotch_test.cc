#include "agents/heuristics/partitioners.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace {
namespace scotch_test {

using testing::Devices;
using testing::IsAllowed;
using testing::MakeCluster;
using testing::MakeObservation;
using testing::MakeOp;

std::vector<int> Place(const agents::Observation& observation, const agents::ScotchOptions& options = {},
                       std::uint64_t seed = 1) {
  Rng rng(seed);
  return Devices(agents::PlaceByScotch(observation, options, rng));
}

// Chains of eight ops with `thick` bytes from op to op; `thin` bytes from the end of a chain to the start of the next.
Graph Chains(const std::vector<std::int64_t>& links, std::int64_t thick) {
  GraphBuilder builder("chains");
  for (std::size_t c = 0; c <= links.size(); ++c) {
    for (std::size_t i = 0; i < 8; ++i) {
      OpSpec op = MakeOp(std::to_string(c) + "-" + std::to_string(i), 10, {},
                         {i < 7              ? thick
                          : c < links.size() ? links[c]
                                             : 0});
      if (i > 0) op.inputs.push_back(std::to_string(c) + "-" + std::to_string(i - 1));
      if (i == 0 && c > 0) op.inputs.push_back(std::to_string(c - 1) + "-7");
      builder.Add(op);
    }
  }
  return builder.Build();
}

// The device of each chain; -1 where a chain is split.
std::vector<int> ChainDevices(const std::vector<int>& devices) {
  std::vector<int> of_chain;
  for (std::size_t first = 0; first < devices.size(); first += 8) {
    const auto begin = devices.begin() + static_cast<std::ptrdiff_t>(first);
    of_chain.push_back(std::count(begin, begin + 8, *begin) == 8 ? *begin : -1);
  }
  return of_chain;
}

Graph Independent(int count, double cpu_micros, double gpu_micros) {
  GraphBuilder builder("independent");
  for (int i = 0; i < count; ++i) {
    OpSpec op = MakeOp("op" + std::to_string(i), 0);
    op.time_micros.reset();
    op.kind_times = {{"test-cpu", cpu_micros}, {"test-gpu", gpu_micros}};
    builder.Add(op);
  }
  return builder.Build();
}

TEST(ScotchTest, CutsTheThinEdge) {
  // Halves of 8 ops: the thin edge costs 10, any edge within a chain 1000.
  const std::vector<int> chains = ChainDevices(Place(MakeObservation(Chains({10}, 1000), MakeCluster(2))));
  EXPECT_NE(chains[0], -1);
  EXPECT_NE(chains[1], -1);
  EXPECT_NE(chains[0], chains[1]);
}

TEST(ScotchTest, CutsRightWhereByteSumsOverflow32Bits) {
  const std::int64_t huge = std::int64_t{1} << 40;
  const std::vector<int> chains = ChainDevices(Place(MakeObservation(Chains({huge / 1000}, huge), MakeCluster(2))));
  EXPECT_NE(chains[0], -1);
  EXPECT_NE(chains[1], -1);
  EXPECT_NE(chains[0], chains[1]);
}

TEST(ScotchTest, LoadsDevicesByTheirSpeed) {
  // A CPU that is ten times slower gets one of 11 shares of 110 ops, 10 ops. 3 % of that is less than one op.
  const std::vector<int> devices = Place(MakeObservation(Independent(110, 10, 1), testing::MakeMixedCluster(1)));
  EXPECT_NEAR(static_cast<double>(std::count(devices.begin(), devices.end(), 0)), 10, 1);
}

TEST(ScotchTest, LeavesCpusOutIfAsked) {
  const std::vector<int> devices =
      Place(MakeObservation(Independent(20, 10, 1), testing::MakeMixedCluster(2)), {.accelerators_only = true});
  EXPECT_EQ(std::count(devices.begin(), devices.end(), 0), 0);
  EXPECT_EQ(std::count(devices.begin(), devices.end(), 1), 10);
}

TEST(ScotchTest, PutsTalkativePartsOnCloseDevices) {
  // Devices 0 and 2 share a link of 100 GB/s, all others have 1 GB/s. Chains 0 and 1 exchange 500 bytes, 1 and 2 only
  // 10: chains 0 and 1 belong on devices 0 and 2.
  const Link slow = {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0};
  const Link fast = {.bandwidth_gb_per_s = 100, .latency_micros = 0, .gap_micros = 0};
  const Cluster cluster("uneven", "", MakeCluster(3).devices(),
                        {Link{}, slow, fast, slow, Link{}, slow, fast, slow, Link{}}, Channels::kPerDevice);
  EXPECT_EQ(ChainDevices(Place(MakeObservation(Chains({500, 10}, 1000), cluster)))[2], 1);
}

TEST(ScotchTest, TakesGraphsOfAnySize) {
  EXPECT_TRUE(Place(MakeObservation(Graph(), MakeCluster(4))).empty());
  EXPECT_EQ(Place(MakeObservation(Independent(1, 1, 1), testing::MakeMixedCluster(4))).size(), 1U);
  EXPECT_EQ(Place(MakeObservation(Independent(3, 1, 1), testing::MakeMixedCluster(8))).size(), 3U);
  EXPECT_EQ(Place(MakeObservation(testing::MakeChain(3, 0, 0), MakeCluster(1))), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(Place(MakeObservation(testing::MakeChain(3, 0, 0), MakeCluster(2))).size(), 3U);
}

TEST(ScotchTest, PlacesRandomGraphsWhereAllowedAndTheSameEachTime) {
  Rng rng(5);
  for (int i = 0; i < 50; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 1 + rng.Below(60), .kinds_differ = true});
    const agents::Observation observation = MakeObservation(graph, testing::MakeMixedCluster(1 + rng.Below(8)));
    const agents::ScotchOptions options = {.accelerators_only = i % 2 == 0};
    Rng first(7);
    Rng second(7);
    const Placement placement = agents::PlaceByScotch(observation, options, first);
    EXPECT_TRUE(IsAllowed(observation, placement));
    EXPECT_EQ(placement, agents::PlaceByScotch(observation, options, second));
  }
}

TEST(ScotchTest, ReadsItsOptions) {
  const std::vector<int> devices =
      Devices(testing::FirstProposal(agents::MakeScotchAgent, {{"accelerators_only", "true"}, {"imbalance", "0.01"}},
                                     Independent(20, 10, 1), testing::MakeMixedCluster(2)));
  EXPECT_EQ(std::count(devices.begin(), devices.end(), 0), 0);
  EXPECT_THROW(testing::FirstProposal(agents::MakeScotchAgent, {{"imbalance", "7"}}, Independent(2, 1, 1),
                                      testing::MakeMixedCluster(2)),
               InputError);
}

}  // namespace scotch_test
}  // namespace emplace
