#include "sim/base/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/rng.h"

namespace emplace {
namespace {

TEST(QuantileTest, IsLinearBetweenNeighbours) {
  // Ascending 1 2 4 8: position 0.5 * 3 = 1.5 is half way from 2 to 4; 0.9 * 3 = 2.7 is 4 + 0.7 * 4.
  EXPECT_DOUBLE_EQ(Quantile({8, 1, 4, 2}, 0.5), 3);
  EXPECT_DOUBLE_EQ(Quantile({8, 1, 4, 2}, 0.9), 6.8);
  EXPECT_DOUBLE_EQ(Quantile({8, 1, 4, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(Quantile({8, 1, 4, 2}, 1), 8);
  EXPECT_DOUBLE_EQ(Median({5, 1, 3}), 3);
}

TEST(QuantileTest, OfOneValueIsThatValue) {
  for (const double q : {0.0, 0.1, 0.5, 1.0}) EXPECT_EQ(Quantile({7}, q), 7);
}

TEST(QuantileTest, OfNothingIsRefused) { EXPECT_THROW(Quantile({}, 0.5), InputError); }

TEST(QuantileTest, OfAscendingValuesIsTheSame) {
  const std::vector<double> sorted = {1, 2, 4, 8};
  for (const double q : {0.0, 0.3, 0.5, 0.9, 1.0}) EXPECT_EQ(SortedQuantile(sorted, q), Quantile({8, 4, 2, 1}, q));
}

TEST(QuantileTest, SelectedItIsWhatSortingGives) {
  Rng rng(5);
  for (const std::size_t size : {1U, 2U, 3U, 40U, 2000U}) {
    std::vector<double> values(size);
    for (double& value : values) value = static_cast<double>(rng.Below(size)) / 7;  // some are equal
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    for (const double q : {0.975, 0.0, 0.025, 0.5, 1.0}) {
      EXPECT_EQ(SelectQuantile(values, q), SortedQuantile(sorted, q)) << size << " values, " << q;
    }
    std::sort(values.begin(), values.end());
    EXPECT_EQ(values, sorted);
  }
}

TEST(TrimmedMeanTest, LeavesOutATenthAtEitherEnd) {
  EXPECT_DOUBLE_EQ(TrimmedMean({5, 1, 3}), 3);
  EXPECT_DOUBLE_EQ(TrimmedMean({1000, 1, 2, 3, 4, 5, 6, 7, 8, 9}), 5.5);
  EXPECT_DOUBLE_EQ(TrimmedMean({7}), 7);
  EXPECT_THROW(TrimmedMean({}), InputError);
}

TEST(RanksTest, EqualValuesShareTheMeanOfTheirRanks) {
  EXPECT_EQ(Ranks(std::vector<double>{4, 2, 8, 2}), (std::vector<double>{3, 1.5, 4, 1.5}));
  EXPECT_EQ(Ranks(std::vector<double>{7, 7, 7}), (std::vector<double>{2, 2, 2}));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Ranks(std::vector<double>{infinity, 1, infinity}), (std::vector<double>{2.5, 1, 2.5}));
  EXPECT_TRUE(Ranks({}).empty());
}

}  // namespace
}  // namespace emplace
