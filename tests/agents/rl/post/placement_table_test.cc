#include "agents/rl/post/placement_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "agents/saved_state.h"
#include "sim/base/check.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two groups on three devices, and a third group that is allowed only on device 1.
agents::PlacementTable MakeTable() {
  const auto device = [](std::size_t d) { return MakeId<DeviceId>(d); };
  return agents::PlacementTable({{device(0), device(1), device(2)}, {device(0), device(1), device(2)}, {device(1)}});
}

// The objective of Climb(), computed from its definition for f = the table's distributions and f' = before's.
double Objective(const agents::PlacementTable& table, const agents::PlacementTable& before,
                 const std::vector<agents::Choices>& samples, const std::vector<double>& advantages, double beta) {
  double objective = 0;
  for (std::size_t n = 0; n < samples.size(); ++n) {
    for (std::size_t m = 0; m < table.num_groups(); ++m) {
      const std::size_t d = samples[n][m];
      objective +=
          table.probabilities(m)[d] / before.probabilities(m)[d] * advantages[n] / static_cast<double>(samples.size());
    }
  }
  for (std::size_t m = 0; m < table.num_groups(); ++m) {
    for (std::size_t d = 0; d < table.probabilities(m).size(); ++d) {
      const double old = before.probabilities(m)[d];
      objective -= beta * old * std::log(old / table.probabilities(m)[d]);
    }
  }
  return objective;
}

// The logits of a table, derived from its probabilities.
std::vector<double> Logits(const agents::PlacementTable& table) {
  std::vector<double> logits;
  for (std::size_t m = 0; m < table.num_groups(); ++m) {
    for (const double p : table.probabilities(m)) logits.push_back(std::log(p));
  }
  return logits;
}

// A table with these logits.
agents::PlacementTable TableOf(const std::vector<double>& logits) {
  std::stringstream saved;
  saved << "3 3 0 1 2 3 0 1 2 1 1 ";
  for (const double logit : logits) agents::SaveDouble(saved, logit);
  agents::PlacementTable table;
  agents::LoadState(saved, &table);
  return table;
}

TEST(PlacementTableTest, StartsUniformAndDrawsWithinTheDevices) {
  const agents::PlacementTable table = MakeTable();
  EXPECT_THAT(table.probabilities(0),
              ElementsAre(DoubleNear(1.0 / 3, 1e-12), DoubleNear(1.0 / 3, 1e-12), DoubleNear(1.0 / 3, 1e-12)));
  EXPECT_THAT(table.probabilities(2), ElementsAre(1));
  EXPECT_NEAR(table.MeanEntropy(), 1, 1e-12);
  Rng rng(1);
  const agents::Choices choices = table.Sample(rng);
  ASSERT_EQ(choices.size(), 3U);
  EXPECT_EQ(choices[2], 0U);  // the group's only device, device 1
  EXPECT_EQ(Index(table.ToPlacement(choices)[MakeId<OpId>(2)]), 1U);
}

TEST(PlacementTableTest, AStepGoesUpTheGradientOfTheObjective) {
  Rng rng(3);
  std::vector<double> logits(7);
  for (double& logit : logits) logit = rng.Uniform();
  const agents::PlacementTable before = TableOf(logits);
  std::vector<agents::Choices> samples;
  std::vector<double> advantages;
  for (int n = 0; n < 5; ++n) {
    samples.push_back(before.Sample(rng));
    advantages.push_back(rng.Uniform() - 0.5);
  }
  constexpr double kBeta = 0.7;
  // Starts from a point other than f', where the divergence has a gradient too. Measures the gradient of the second
  // step by its change of the logits.
  agents::PlacementTable one = before;
  one.Climb(samples, advantages, 0.5, 1, kBeta);
  agents::PlacementTable two = before;
  const double norm = two.Climb(samples, advantages, 0.5, 2, kBeta).gradient_norm;
  const std::vector<double> from = Logits(one);
  const std::vector<double> to = Logits(two);
  // A step leaves the mean of a group's logits as it was, which these logarithms of probabilities do not.
  double squares = 0;
  for (std::size_t m = 0; m < 2; ++m) {
    double mean = 0;
    for (std::size_t i = 3 * m; i < 3 * m + 3; ++i) mean += (to[i] - from[i]) / 3;
    for (std::size_t i = 3 * m; i < 3 * m + 3; ++i) squares += std::pow(to[i] - from[i] - mean, 2);
  }
  EXPECT_NEAR(norm, std::sqrt(squares) / 0.5, 1e-9);
  constexpr double kStep = 1e-6;
  for (std::size_t m = 0; m < 2; ++m) {
    for (std::size_t d = 0; d < 3; ++d) {
      std::vector<double> up = from;
      up[3 * m + d] += kStep;
      std::vector<double> down = from;
      down[3 * m + d] -= kStep;
      const double slope = (Objective(TableOf(up), before, samples, advantages, kBeta) -
                            Objective(TableOf(down), before, samples, advantages, kBeta)) /
                           (2 * kStep);
      // Logits are defined up to a constant for each group, so differences from the group's first logit are compared.
      up = from;
      up[3 * m] += kStep;
      down = from;
      down[3 * m] -= kStep;
      const double first = (Objective(TableOf(up), before, samples, advantages, kBeta) -
                            Objective(TableOf(down), before, samples, advantages, kBeta)) /
                           (2 * kStep);
      const double moved = (to[3 * m + d] - from[3 * m + d]) - (to[3 * m] - from[3 * m]);
      EXPECT_NEAR(moved, 0.5 * (slope - first), 1e-6) << m << ", " << d;
    }
  }
}

TEST(PlacementTableTest, TheDivergenceIsThatFromTheOldToTheNewMeanOverGroups) {
  agents::PlacementTable table = TableOf({std::log(0.5), std::log(0.25), std::log(0.25), 0, 0, 0, 0});
  const agents::PlacementTable before = table;
  const double divergence =
      table.Climb(std::vector<agents::Choices>{{0, 1, 0}}, std::vector<double>{1}, 1, 3, 0.1).divergence;
  double expected = 0;
  for (std::size_t m = 0; m < 3; ++m) {
    for (std::size_t d = 0; d < before.probabilities(m).size(); ++d) {
      expected += before.probabilities(m)[d] * std::log(before.probabilities(m)[d] / table.probabilities(m)[d]) / 3;
    }
  }
  EXPECT_NEAR(divergence, expected, 1e-12);
  EXPECT_GT(divergence, 0.01);
}

TEST(PlacementTableTest, CrossEntropyTakesTheSharesOfTheElite) {
  agents::PlacementTable table = MakeTable();
  table.CrossEntropy(std::vector<agents::Choices>{{2, 0, 0}}, 0.1);
  // docs/agents.md, post: an elite of one gives 0.9 + 0.1 / D.
  EXPECT_NEAR(table.probabilities(0)[2], 0.9 + 0.1 / 3, 1e-12);
  EXPECT_NEAR(table.probabilities(0)[0], 0.1 / 3, 1e-12);
  table.CrossEntropy(std::vector<agents::Choices>{{2, 0, 0}, {1, 0, 0}, {2, 0, 0}, {2, 1, 0}}, 0);
  EXPECT_NEAR(table.probabilities(0)[2], 0.75, 1e-5);
  EXPECT_NEAR(table.probabilities(0)[1], 0.25, 1e-5);
  EXPECT_NEAR(table.probabilities(0)[0], 1e-6, 1e-8);  // not 0, whose logit would be infinite
  EXPECT_EQ(table.Likeliest(), (agents::Choices{2, 0, 0}));
  double sum = 0;
  for (const double p : table.probabilities(1)) sum += p;
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(PlacementTableTest, SavedAndLoadedItIsTheSame) {
  agents::PlacementTable table = MakeTable();
  table.CrossEntropy(std::vector<agents::Choices>{{2, 0, 0}, {1, 0, 0}}, 0.3);
  std::stringstream saved;
  agents::SaveState(saved, table);
  agents::PlacementTable loaded;
  agents::LoadState(saved, &loaded);
  for (std::size_t m = 0; m < 3; ++m) {
    for (std::size_t d = 0; d < table.probabilities(m).size(); ++d) {
      EXPECT_EQ(loaded.probabilities(m)[d], table.probabilities(m)[d]);
    }
  }
  std::stringstream broken("2 0");
  EXPECT_THROW(agents::LoadState(broken, &loaded), InputError);
}

TEST(PlacementTableTest, ALogitThatIsNoLongerFiniteStopsIt) {
  agents::PlacementTable table = MakeTable();
  EXPECT_THAT(testing::ErrorOf([&] {
                table.Climb(std::vector<agents::Choices>{{0, 0, 0}},
                            std::vector<double>{std::numeric_limits<double>::infinity()}, 1, 2, 0);
              }),
              HasSubstr("post: tensor logits of group 0 holds"));
}

}  // namespace
}  // namespace emplace
