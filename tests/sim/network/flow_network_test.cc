#include "sim/network/flow_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/base/rng.h"
#include "tests/testing/slow_flows.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;

using Transfer = testing::SlowFlow;

// The end of each transfer.
std::vector<std::int64_t> Ends(const std::vector<double>& capacities, const std::vector<Transfer>& transfers) {
  FlowNetwork network(capacities);
  std::vector<std::size_t> order(transfers.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return transfers[a].start < transfers[b].start; });
  std::vector<std::int64_t> ends(transfers.size());
  std::map<FlowNetwork::Flow, std::size_t> under_way;
  const auto end_until = [&](std::optional<std::int64_t> time) {
    while (const std::optional<std::int64_t> next = network.NextEnd()) {
      if (time && *next > *time) break;
      const std::size_t i = under_way.at(network.End());
      ends[i] = *next;
    }
  };
  for (const std::size_t i : order) {
    end_until(transfers[i].start);
    under_way[network.Start(transfers[i].start, transfers[i].route, transfers[i].bytes, transfers[i].alone)] = i;
  }
  end_until(std::nullopt);
  return ends;
}

TEST(FlowNetworkTest, FlowsShareALink) {
  // Alone 10 bytes per ns; the second starts when half of the first is over, and both have 5 until the first ends.
  EXPECT_THAT(Ends({10}, {{0, {0}, 1000}, {50, {0}, 1000}}), ElementsAre(150, 200));
  EXPECT_THAT(Ends({10}, {{0, {0}, 1000}, {0, {0}, 1000}, {0, {0}, 500}}), ElementsAre(250, 250, 150));
  EXPECT_THAT(Ends({10}, {{7, {0}, 0}, {9, {}, 1000}}), ElementsAre(7, 9));
}

TEST(FlowNetworkTest, AFlowThatNeverSharesTakesWhatItTakesAlone) {
  EXPECT_THAT(Ends({10}, {{.start = 0, .route = {0}, .bytes = 1000, .alone = 101}}), ElementsAre(101));
  // Shared from 50 on, half of it is left.
  EXPECT_THAT(Ends({10}, {{.start = 0, .route = {0}, .bytes = 1000, .alone = 101}, {50, {0}, 10000}}),
              ElementsAre(150, 1100));
}

TEST(FlowNetworkTest, ClearedItBeginsAnew) {
  FlowNetwork network(std::vector<double>{10});
  network.Start(500, std::vector<std::uint32_t>{0}, 1000);
  network.Clear();
  EXPECT_FALSE(network.NextEnd());
  network.Start(3, std::vector<std::uint32_t>{0}, 1000);
  EXPECT_EQ(network.NextEnd(), 103);
}

// A takes links 0 and 1, B link 0, C link 1 of 30: A and B have 5 of the 10 of link 0, C has the 25 that A leaves.
TEST(FlowNetworkTest, WhatAFlowCannotUseOthersDo) {
  FlowNetwork network(std::vector<double>{10, 30});
  const std::vector<std::uint32_t> both = {0, 1};
  const auto a = network.Start(0, both, 1000);
  const auto b = network.Start(0, std::vector<std::uint32_t>{0}, 1000);
  const auto c = network.Start(0, std::vector<std::uint32_t>{1}, 1000);
  EXPECT_EQ(network.NextEnd(), 40);
  EXPECT_EQ(network.Rate(a), 5);
  EXPECT_EQ(network.Rate(b), 5);
  EXPECT_EQ(network.Rate(c), 25);
  EXPECT_EQ(network.End(), c);
  EXPECT_EQ(network.NextEnd(), 200);
  EXPECT_EQ(network.End(), a);  // both end then; the one that started first
  EXPECT_EQ(network.End(), b);
  EXPECT_EQ(network.num_flows(), 0U);
  EXPECT_FALSE(network.NextEnd());
}

TEST(FlowNetworkTest, EqualsTheSlowReferenceOn10000RandomCases) {
  Rng rng(17);
  for (int repeat = 0; repeat < 10'000; ++repeat) {
    std::vector<double> capacities(1 + rng.Below(7));
    for (double& capacity : capacities) {
      capacity = rng.Below(2) == 0 ? static_cast<double>(1 + rng.Below(4)) : 0.1 + 30 * rng.Uniform();
    }
    std::vector<Transfer> transfers(1 + rng.Below(10));
    for (Transfer& transfer : transfers) {
      transfer.start = static_cast<std::int64_t>(rng.Below(4) * 50);
      transfer.bytes = static_cast<std::int64_t>(rng.Below(5) * (rng.Below(2) == 0 ? 100 : 137));
      for (std::uint32_t link = 0; link < capacities.size(); ++link) {
        if (rng.Below(3) == 0) transfer.route.push_back(link);
      }
      if (transfer.route.empty() || rng.Below(2) == 0) continue;
      // Rounded another way.
      double smallest = capacities[transfer.route[0]];
      for (const std::uint32_t link : transfer.route) smallest = std::min(smallest, capacities[link]);
      transfer.alone = static_cast<std::int64_t>(static_cast<double>(transfer.bytes) / smallest) + 1;
    }
    ASSERT_EQ(Ends(capacities, transfers), testing::SlowFlowEnds(capacities, transfers)) << "case " << repeat;
  }
}

// There are so many flows at once that shares are in a heap, and that the ends of most of them change together.
TEST(FlowNetworkTest, EqualsTheSlowReferenceWithManyFlowsLengthy) {
  Rng rng(19);
  for (int repeat = 0; repeat < 40; ++repeat) {
    std::vector<double> capacities(20 + rng.Below(40));
    for (double& capacity : capacities) {
      capacity = rng.Below(2) == 0 ? static_cast<double>(1 + rng.Below(20)) : 0.1 + 30 * rng.Uniform();
    }
    std::vector<Transfer> transfers(60 + rng.Below(60));
    for (Transfer& transfer : transfers) {
      transfer.start = static_cast<std::int64_t>(rng.Below(4) * 50);
      transfer.bytes = static_cast<std::int64_t>(rng.Below(5) * (rng.Below(2) == 0 ? 100 : 137));
      for (std::uint32_t link = 0; link < capacities.size(); ++link) {
        if (rng.Below(capacities.size()) < 1 + rng.Below(6)) transfer.route.push_back(link);
      }
    }
    ASSERT_EQ(Ends(capacities, transfers), testing::SlowFlowEnds(capacities, transfers)) << "case " << repeat;
  }
}

// A number that is used again may have a longer route than before.
TEST(FlowNetworkTest, ANumberIsUsedAgainWithALongerRoute) {
  FlowNetwork network(std::vector<double>{10, 10, 5});
  const auto first = network.Start(0, std::vector<std::uint32_t>{0}, 100);
  const auto other = network.Start(0, std::vector<std::uint32_t>{1}, 1000);
  EXPECT_EQ(network.End(), first);
  EXPECT_EQ(network.Start(10, std::vector<std::uint32_t>{0, 1, 2}, 100), first);
  EXPECT_EQ(network.NextEnd(), 30);
  EXPECT_EQ(network.Rate(first), 5);
  EXPECT_EQ(network.Rate(other), 5);
  EXPECT_EQ(network.End(), first);
  EXPECT_EQ(network.NextEnd(), 110);
}

}  // namespace
}  // namespace emplace
