#include "agents/throughput/ideals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "sim/base/rng.h"
#include "tests/testing/errors.h"

namespace emplace::testing {
namespace {

using agents::Ideals;
using Before = std::vector<std::vector<std::size_t>>;

// Every subset that holds the predecessors of its members, as a bit mask.
std::set<std::size_t> IdealsOneByOne(const Before& before) {
  std::set<std::size_t> ideals;
  for (std::size_t set = 0; set < std::size_t{1} << before.size(); ++set) {
    bool is_ideal = true;
    for (std::size_t unit = 0; unit < before.size(); ++unit) {
      for (const std::size_t earlier : before[unit]) {
        if ((set >> unit & 1U) != 0 && (set >> earlier & 1U) == 0) is_ideal = false;
      }
    }
    if (is_ideal) ideals.insert(set);
  }
  return ideals;
}

TEST(IdealsTest, AreThoseOfEverySmallOrder) {
  Rng rng(1);
  for (int round = 0; round < 100; ++round) {
    Before before(rng.Below(9));
    for (std::size_t unit = 0; unit < before.size(); ++unit) {
      for (std::size_t earlier = 0; earlier < unit; ++earlier) {
        if (rng.Below(3) == 0) before[unit].push_back(earlier);
      }
    }
    const Ideals ideals(before, 1000);
    const std::set<std::size_t> expected = IdealsOneByOne(before);
    ASSERT_EQ(ideals.size(), expected.size());
    // The members of each ideal, over all steps that lead to it.
    std::vector<std::size_t> members(ideals.size(), 0);
    std::set<std::size_t> found;
    for (std::size_t ideal = 0; ideal < ideals.size(); ++ideal) {
      found.insert(members[ideal]);
      std::size_t addable = 0;
      for (const Ideals::Step& step : ideals.steps(ideal)) {
        const std::size_t grown = members[ideal] | std::size_t{1} << step.unit;
        EXPECT_GT(step.next, ideal);
        EXPECT_TRUE(members[step.next] == 0 || members[step.next] == grown);
        members[step.next] = grown;
        ++addable;
      }
      std::size_t expected_addable = 0;
      for (std::size_t unit = 0; unit < before.size(); ++unit) {
        if ((members[ideal] >> unit & 1U) != 0) continue;
        expected_addable += expected.count(members[ideal] | std::size_t{1} << unit);
      }
      EXPECT_EQ(addable, expected_addable);
    }
    EXPECT_EQ(found, expected);
    EXPECT_EQ(members.back(), (std::size_t{1} << before.size()) - 1);
  }
}

TEST(IdealsTest, TooManyAreRefused) {
  // Two chains of 3 have 16 ideals, ten units without an order 1,024.
  const Before chains = {{}, {0}, {1}, {}, {3}, {4}};
  EXPECT_EQ(Ideals(chains, 16).size(), 16U);
  EXPECT_EQ(ErrorOf([&] { Ideals(chains, 15); }),
            "ideals: the 6 units of the graph have more than 15 ideals (at most 15: merge ops with "
            "--grouping merge_and_colocate --groups N, or set linear=true)");
  EXPECT_EQ(Ideals(Before(10), 1024).size(), 1024U);
  EXPECT_THAT(ErrorOf([&] { Ideals(Before(10), 1023); }), ::testing::HasSubstr("have at least 2^10 ideals"));
  EXPECT_THAT(ErrorOf([&] { Ideals(Before(100'000), 1'000'000); }), ::testing::HasSubstr("at least 2^100000 ideals"));
  EXPECT_THAT(ErrorOf([&] { Ideals(Before(5), 5); }), ::testing::HasSubstr("have more than 5 ideals (at most 5:"));
}

}  // namespace
}  // namespace emplace::testing
