#include "experiments/report/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/base/rng.h"
#include "sim/base/statistics.h"

namespace emplace::testing {
namespace {

TEST(StatisticsTest, TheSignedRankTestIsExactForFewDifferences) {
  // Hollander and Wolfe 1973, p. 29: nine patients' depression before and after a tranquillizer. Sizes by rank: .432
  // .. 1.02; the two negative ones, -.08 and -.01, have ranks 3 and 2: rank sum 45 - 5 = 40. Subsets of 1..9 that sum
  // to at most 5: {}, 1, 2, 3, 12, 4, 13, 5, 14, 23: ten of 512, twice: 20 / 512.
  const double differences[] = {1.83 - 0.878, 0.50 - 0.647, 1.62 - 0.598, 2.48 - 2.05, 1.68 - 1.06,
                                1.88 - 1.29,  1.55 - 1.06,  3.06 - 3.14,  1.30 - 1.29};
  const experiments::WilcoxonResult result = experiments::WilcoxonSignedRank(differences);
  EXPECT_TRUE(result.is_exact);
  EXPECT_EQ(result.n, 9U);
  EXPECT_EQ(result.rank_sum, 40);
  EXPECT_DOUBLE_EQ(result.p_value, 20.0 / 512);
}

TEST(StatisticsTest, EqualSizesShareRanks) {
  // Ranks of 1 1 1 2 are 2 2 2 4; positive: 2 + 2 + 4 = 8, so negative 2. Of the 16 subsets {} and each of the three
  // twos sum to at most 2: twice 4 / 16.
  const double differences[] = {1, 1, -1, 2, 0};
  const experiments::WilcoxonResult result = experiments::WilcoxonSignedRank(differences);
  EXPECT_TRUE(result.is_exact);
  EXPECT_EQ(result.n, 4U);
  EXPECT_EQ(result.rank_sum, 8);
  EXPECT_DOUBLE_EQ(result.p_value, 8.0 / 16);
  // Two ties share rank 1.5: sums of at most 1.5 are {}, {1.5} and the other {1.5}.
  const double halves[] = {1, -1, -3, -4, -5, -6};
  EXPECT_DOUBLE_EQ(experiments::WilcoxonSignedRank(halves).p_value, 6.0 / 64);
}

TEST(StatisticsTest, TheNormalApproximationMeetsTheExactTestAtItsLimit) {
  // A hundred differences still give an exact p. With one more, the approximation is used.
  std::vector<double> differences;
  for (int i = 1; i <= 100; ++i) differences.push_back(i % 5 < 2 ? -i : i);
  const experiments::WilcoxonResult exact = experiments::WilcoxonSignedRank(differences);
  ASSERT_TRUE(exact.is_exact);
  // scipy.stats.wilcoxon: exact, then with the continuity correction.
  EXPECT_EQ(exact.rank_sum, 3030);
  EXPECT_NEAR(exact.p_value, 0.08280202852519, 1e-13);
  differences.push_back(101);
  const experiments::WilcoxonResult approximate = experiments::WilcoxonSignedRank(differences);
  EXPECT_FALSE(approximate.is_exact);
  EXPECT_NEAR(approximate.p_value, 0.06008922254503, 1e-13);
}

TEST(StatisticsTest, NoDifferenceIsNoEvidence) {
  EXPECT_EQ(experiments::WilcoxonSignedRank({}).p_value, 1);
  const double zeros[] = {0, 0};
  EXPECT_EQ(experiments::WilcoxonSignedRank(zeros).p_value, 1);
  const double balanced[] = {1, -1};
  EXPECT_EQ(experiments::WilcoxonSignedRank(balanced).p_value, 1);
}

TEST(StatisticsTest, TheTestDoesNotDependOnTheSign) {
  Rng rng(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> differences;
    std::vector<double> negated;
    for (int i = 0; i < 5 + round; ++i) {
      differences.push_back(rng.Uniform() - 0.4);
      negated.push_back(-differences.back());
    }
    EXPECT_DOUBLE_EQ(experiments::WilcoxonSignedRank(differences).p_value,
                     experiments::WilcoxonSignedRank(negated).p_value);
  }
}

TEST(StatisticsTest, HolmMultipliesTheSmallestByTheirNumberAndNeverTurnsBack) {
  // Ascending: .01 x 4, .02 x 3, .03 x 2 (0.06 again), .9 x 1.
  const double p_values[] = {0.03, 0.01, 0.9, 0.02};
  const std::vector<double> adjusted = experiments::HolmAdjusted(p_values);
  EXPECT_DOUBLE_EQ(adjusted[1], 0.04);
  EXPECT_DOUBLE_EQ(adjusted[3], 0.06);
  EXPECT_DOUBLE_EQ(adjusted[0], 0.06);
  EXPECT_DOUBLE_EQ(adjusted[2], 0.9);
  // .04 x 1 would be less than .03 x 2.
  const double two[] = {0.03, 0.04};
  EXPECT_DOUBLE_EQ(experiments::HolmAdjusted(two)[1], 0.06);
  const double large[] = {0.7, 0.8};
  EXPECT_EQ(experiments::HolmAdjusted(large)[0], 1);
}

TEST(StatisticsTest, QuantilesAreLinearBetweenNeighbours) {
  const double sorted[] = {0, 10, 20, 40};
  EXPECT_EQ(SortedQuantile(sorted, 0), 0);
  EXPECT_EQ(SortedQuantile(sorted, 0.5), 15);  // position 1.5
  EXPECT_EQ(SortedQuantile(sorted, 1), 40);
}

TEST(StatisticsTest, MeansAreOverStrataOfColumns) {
  // Columns 2 (of 1 and 3) and 6: stratum mean 4; the other stratum is 10: 7 in all.
  const experiments::Stratum first = {{{"a", {{1}, {3}}}}, {{"a", {{6}}}}};
  const experiments::Stratum second = {{{"x", {{10}}}}};
  const experiments::Stratum strata[] = {first, second};
  const auto estimate = experiments::EstimateMean(strata);
  ASSERT_TRUE(estimate);
  EXPECT_EQ(estimate->mean, 7);
  EXPECT_EQ(estimate->observations, 4U);
  EXPECT_EQ(estimate->graphs, 2U);
  // Only the first column varies: 1, 2 or 3 with probabilities 1/4, 1/2, 1/4. It has a quarter of the weight.
  ASSERT_TRUE(estimate->interval);
  EXPECT_EQ(estimate->interval->low, 6.75);
  EXPECT_EQ(estimate->interval->high, 7.25);
}

TEST(StatisticsTest, NestedMeansAreOverSeedsThenRowsThenGraphs) {
  // Rows 2 (of 1 and 3) and 6: 4; the other graph is 10.
  const experiments::NestedDifferences graphs = {{{1, 3}, {6}}, {{10}}};
  EXPECT_EQ(experiments::MeansOfGraphs(graphs), (std::vector<double>{4, 10}));
  const experiments::Estimate estimate = experiments::EstimateNestedMean(graphs);
  EXPECT_EQ(estimate.mean, 7);
  EXPECT_EQ(estimate.observations, 4U);
  EXPECT_EQ(estimate.graphs, 2U);
  // The first graph twice, with its smaller seeds only, has probability 1/64; the second one twice 1/4.
  ASSERT_TRUE(estimate.interval);
  EXPECT_GE(estimate.interval->low, 3.5);
  EXPECT_LT(estimate.interval->low, 4);
  EXPECT_EQ(estimate.interval->high, 10);
}

TEST(StatisticsTest, NestedMeansOfOneGraphVaryWithItsSeeds) {
  const experiments::Estimate estimate = experiments::EstimateNestedMean({{{0, 8}, {5}}});
  ASSERT_TRUE(estimate.interval);
  EXPECT_EQ(estimate.interval->low, 2.5);
  EXPECT_EQ(estimate.interval->high, 6.5);
  EXPECT_FALSE(experiments::EstimateNestedMean({{{5}, {6}}}).interval);
}

TEST(StatisticsTest, ANegatedEstimateHasItsIntervalTurned) {
  const experiments::Estimate negated = experiments::Negated({.mean = 2, .interval = experiments::Interval{1, 5}});
  EXPECT_EQ(negated.mean, -2);
  EXPECT_EQ(negated.interval->low, -5);
  EXPECT_EQ(negated.interval->high, -1);
}

TEST(StatisticsTest, ARatioIsOfSums) {
  // (10 + 20) / (1 + 4), not the mean of 10 and 5.
  const experiments::Sample sample = {{"a", {{10, 1}}}, {"b", {{20, 4}}}};
  EXPECT_EQ(experiments::SampleMean(sample), 6);
  EXPECT_EQ(experiments::EstimateMean(sample)->mean, 6);
  EXPECT_EQ(experiments::SampleMean({{"a", {{10, 0}}}}), 0);
}

TEST(StatisticsTest, OneObservationHasNoInterval) {
  const auto estimate = experiments::EstimateMean(experiments::Sample{{"a", {{5}}}});
  ASSERT_TRUE(estimate);
  EXPECT_FALSE(estimate->interval);
  EXPECT_FALSE(experiments::EstimateMean(experiments::Sample{}));
  EXPECT_FALSE(experiments::EstimateMean(experiments::Sample{{"a", {}}}));
}

TEST(StatisticsTest, GraphsAreDrawnBeforeSeeds) {
  // Two graphs far apart, many equal seeds. Drawing 40 observations one by one would give 50 +- 16; drawing graphs
  // gives 0, 50 or 100 with probabilities 1/4, 1/2, 1/4.
  experiments::Sample sample;
  sample["a"].assign(20, {0});
  sample["b"].assign(20, {100});
  const auto estimate = experiments::EstimateMean(sample);
  EXPECT_EQ(estimate->mean, 50);
  EXPECT_EQ(estimate->interval->low, 0);
  EXPECT_EQ(estimate->interval->high, 100);
}

TEST(StatisticsTest, ColumnsShareTheirGraphs) {
  // Graph a is +10 in one column and -10 in the other: since both are drawn together, they cancel in every draw.
  const experiments::Stratum stratum = {{{"a", {{10}}}, {"b", {{-10}}}}, {{"a", {{-10}}}, {"b", {{10}}}}};
  const auto estimate = experiments::EstimateMean(std::span(&stratum, 1));
  EXPECT_EQ(estimate->interval->low, 0);
  EXPECT_EQ(estimate->interval->high, 0);
}

TEST(StatisticsTest, IntervalsCoverTheMeanAsOftenAsTheySaySlow) {
  // Samples of 40 uniform numbers (mean 0.5): the percentile interval of 95 % covers in 92 to 97 % of 400 repetitions
  // (standard error of the count: 1.1 points).
  Rng rng(8);
  int covered = 0;
  for (int round = 0; round < 400; ++round) {
    experiments::Sample sample;
    for (int g = 0; g < 40; ++g) sample[std::to_string(g)].push_back({rng.Uniform()});
    const auto estimate = experiments::EstimateMean(sample, rng.Next());
    covered += estimate->interval->low <= 0.5 && 0.5 <= estimate->interval->high ? 1 : 0;
  }
  EXPECT_GE(covered, 364);
  EXPECT_LE(covered, 392);
}

TEST(StatisticsTest, TheSameSeedGivesTheSameInterval) {
  experiments::Sample sample;
  for (int g = 0; g < 7; ++g) sample[std::to_string(g)] = {{std::sqrt(g)}, {std::cbrt(g)}};
  EXPECT_EQ(experiments::EstimateMean(sample)->interval->low, experiments::EstimateMean(sample)->interval->low);
  EXPECT_NE(experiments::EstimateMean(sample, 1)->interval->low, experiments::EstimateMean(sample, 2)->interval->low);
}

}  // namespace
}  // namespace emplace::testing
