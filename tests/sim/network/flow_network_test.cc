#include "sim/network/flow_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/base/rng.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;

struct Transfer {
  std::int64_t start = 0;
  std::vector<std::uint32_t> route;
  std::int64_t bytes = 0;
};

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
    under_way[network.Start(transfers[i].start, transfers[i].route, transfers[i].bytes)] = i;
  }
  end_until(std::nullopt);
  return ends;
}

// The same with all rates computed anew at every start and end, by searching all links.
class SlowReference {
 public:
  SlowReference(std::vector<double> capacities, std::vector<Transfer> transfers)
      : capacities_(std::move(capacities)), transfers_(std::move(transfers)), flows_(transfers_.size()) {}

  std::vector<std::int64_t> Ends() {
    std::size_t left = transfers_.size();
    while (left > 0) {
      std::int64_t next = kNever;
      for (std::size_t i = 0; i < flows_.size(); ++i) {
        if (!flows_[i].is_over) next = std::min(next, flows_[i].is_started ? flows_[i].end : transfers_[i].start);
      }
      for (std::size_t i = 0; i < flows_.size(); ++i) {
        Flow& flow = flows_[i];
        if (flow.is_started && !flow.is_over && flow.end == next) {
          flow.is_over = true;
          --left;
        } else if (!flow.is_started && transfers_[i].start == next) {
          flow = {.is_started = true, .bytes = static_cast<double>(transfers_[i].bytes), .since = next};
          flow.is_on_links = flow.bytes > 0 && !transfers_[i].route.empty();
          if (!flow.is_on_links) flow.end = next;
        }
      }
      SetRates(next);
    }
    std::vector<std::int64_t> ends;
    for (const Flow& flow : flows_) ends.push_back(flow.end);
    return ends;
  }

 private:
  static constexpr std::int64_t kNever = std::int64_t{1} << 62;
  struct Flow {
    bool is_started = false;
    bool is_over = false;
    double bytes = 0;
    std::int64_t since = 0;
    double rate = 0;
    std::int64_t end = kNever;
    bool is_on_links = true;
  };

  bool Runs(std::size_t i) const { return flows_[i].is_started && !flows_[i].is_over && flows_[i].is_on_links; }
  bool Uses(std::size_t i, std::size_t link) const {
    const auto& route = transfers_[i].route;
    return Runs(i) && std::find(route.begin(), route.end(), link) != route.end();
  }

  void SetRates(std::int64_t now) {
    std::vector<std::size_t> part(capacities_.size());  // links that flows connect have the same number
    for (std::size_t l = 0; l < part.size(); ++l) part[l] = l;
    for (std::size_t round = 0; round < part.size(); ++round) {
      for (std::size_t i = 0; i < flows_.size(); ++i) {
        if (!Runs(i)) continue;
        for (const std::uint32_t a : transfers_[i].route) {
          for (const std::uint32_t b : transfers_[i].route) part[a] = std::min(part[a], part[b]);
        }
      }
    }
    for (std::size_t p = 0; p < part.size(); ++p) SetRatesOf(p, part, now);
  }

  void SetRatesOf(std::size_t p, const std::vector<std::size_t>& part, std::int64_t now) {
    std::vector<double> left = capacities_;
    std::vector<char> has_rate(flows_.size());
    double last = 0;
    while (true) {
      std::optional<std::pair<double, std::size_t>> smallest;
      for (std::size_t l = 0; l < left.size(); ++l) {
        double open = 0;
        for (std::size_t i = 0; i < flows_.size(); ++i) open += Uses(i, l) && has_rate[i] == 0 ? 1 : 0;
        if (part[l] != p || open == 0) continue;
        const std::pair<double, std::size_t> share{left[l] / open, l};
        if (!smallest || share < *smallest) smallest = share;
      }
      if (!smallest) return;
      last = std::max(last, smallest->first);
      for (std::size_t i = 0; i < flows_.size(); ++i) {
        if (!Uses(i, smallest->second) || has_rate[i] != 0) continue;
        has_rate[i] = 1;
        for (const std::uint32_t link : transfers_[i].route) left[link] -= last;
        Flow& flow = flows_[i];
        if (flow.rate == last) continue;
        flow.bytes = std::max(0.0, flow.bytes - flow.rate * static_cast<double>(now - flow.since));
        flow.since = now;
        flow.rate = last;
        flow.end = now + static_cast<std::int64_t>(std::floor(flow.bytes / last + 0.5));
      }
    }
  }

  std::vector<double> capacities_;
  std::vector<Transfer> transfers_;
  std::vector<Flow> flows_;
};

TEST(FlowNetworkTest, FlowsShareALink) {
  // Alone 10 bytes per ns; the second starts when half of the first is over, and both have 5 until the first ends.
  EXPECT_THAT(Ends({10}, {{0, {0}, 1000}, {50, {0}, 1000}}), ElementsAre(150, 200));
  EXPECT_THAT(Ends({10}, {{0, {0}, 1000}, {0, {0}, 1000}, {0, {0}, 500}}), ElementsAre(250, 250, 150));
  EXPECT_THAT(Ends({10}, {{7, {0}, 0}, {9, {}, 1000}}), ElementsAre(7, 9));
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
    }
    ASSERT_EQ(Ends(capacities, transfers), SlowReference(capacities, transfers).Ends()) << "case " << repeat;
  }
}

}  // namespace
}  // namespace emplace
