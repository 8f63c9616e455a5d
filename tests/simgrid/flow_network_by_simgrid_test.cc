#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/rng.h"
#include "tests/testing/simgrid_flows.h"

namespace emplace {
namespace {

constexpr std::size_t kPatterns = 300;

// 1 to 6 links and 1 to 12 chains of 1 to 3 flows, none of which shares a link with another pattern: SimGrid simulates
// all of them at once.
struct Patterns {
  std::vector<double> bytes_per_ns;
  std::vector<testing::FlowChain> chains;
};

Patterns RandomPatterns(Rng& rng) {
  Patterns patterns;
  for (std::size_t i = 0; i < kPatterns; ++i) {
    const std::size_t first = patterns.bytes_per_ns.size();
    const std::size_t links = 1 + rng.Below(6);
    for (std::size_t k = 0; k < links; ++k) {
      const bool is_round = rng.Below(2) == 0;
      patterns.bytes_per_ns.push_back(is_round ? static_cast<double>(1 + rng.Below(4)) : 0.5 + 50 * rng.Uniform());
    }
    const std::size_t chains = 1 + rng.Below(12);
    for (std::size_t k = 0; k < chains; ++k) {
      testing::FlowChain& chain = patterns.chains.emplace_back();
      chain.start_ns = static_cast<std::int64_t>(rng.Below(4) * 50'000);
      chain.flows.resize(1 + rng.Below(3));
      for (testing::FlowChain::Flow& flow : chain.flows) {
        flow.bytes = static_cast<std::int64_t>((1 + rng.Below(5)) * (rng.Below(2) == 0 ? 100'000 : 137'111));
        for (std::size_t link = 0; link < links; ++link) {
          if (rng.Below(3) == 0) flow.route.push_back(static_cast<std::uint32_t>(first + link));
        }
        if (flow.route.empty()) flow.route.push_back(static_cast<std::uint32_t>(first));
      }
    }
  }
  return patterns;
}

// Ends of flows here are whole ns, and each that was rounded may move those behind it: a few ns of hundreds of
// thousands.
TEST(FlowNetworkBySimGridTest, EqualsSimGridOn300Patterns) {
  Rng rng(29);
  const Patterns patterns = RandomPatterns(rng);
  const auto ours = testing::SimulateChains(patterns.bytes_per_ns, patterns.chains).ends_ns;
  const testing::SimGridRun theirs = testing::SimulateBySimGrid(patterns.bytes_per_ns, patterns.chains);
  double furthest = 0;
  std::size_t flows = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    for (std::size_t k = 0; k < ours[i].size(); ++k) {
      const double apart = std::abs(static_cast<double>(ours[i][k]) - theirs.ends_ns[i][k]);
      EXPECT_LE(apart, 10) << "chain " << i << ", flow " << k << ": " << ours[i][k] << ", " << theirs.ends_ns[i][k];
      furthest = std::max(furthest, apart);
      ++flows;
    }
  }
  RecordProperty("flows", static_cast<int>(flows));
  RecordProperty("furthest_ps", static_cast<int>(furthest * 1000));
}

}  // namespace
}  // namespace emplace
