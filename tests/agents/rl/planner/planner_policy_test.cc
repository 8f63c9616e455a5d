#include "agents/rl/planner/planner_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <set>

#include "agents/rl/categorical.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/problem.h"

namespace emplace {
namespace {

using ::testing::HasSubstr;

// A graph with some ops that run only on one kind of device.
struct MixedProblem : testing::Problem {
  static Graph MakeGraph() {
    Rng rng(12);
    return testing::RandomDag(rng, {.num_ops = 14, .kinds_differ = true});
  }
  MixedProblem() : Problem(MakeGraph(), testing::MakeMixedCluster(2)) {}
};

struct Variant {
  const char* name;
  agents::PlannerOptions options;
  bool noisy;
};
std::ostream& operator<<(std::ostream& out, const Variant& variant) { return out << variant.name; }

agents::PlannerOptions Small(agents::PlannerOptions options) {
  options.hidden = 8;
  options.grouper_hidden = 16;
  if (options.groups == agents::PlannerOptions{}.groups) options.groups = 5;
  options.noise = 0.8;
  options.temperature = 1;
  return options;
}

class PlannerPolicyTest : public ::testing::TestWithParam<Variant> {
 protected:
  PlannerPolicyTest()
      : policy_(Small(GetParam().options), problem_.graph.num_ops(), problem_.cluster.num_devices(), "cpu") {
    Rng rng(5);
    policy_.See(problem_.env, 17);
    policy_.DrawWeights(rng);
    draw_ = policy_.Draw({.count = 7, .argmax = false, .noisy = GetParam().noisy}, "test", rng);
  }

  // The loss whose gradient AddGradient() adds, without the entropy.
  double Loss(const std::vector<double>& weights) {
    const std::vector<double> log_odds = policy_.LogOdds(draw_);
    double loss = 0;
    for (std::size_t j = 0; j < weights.size(); ++j) loss -= weights[j] * log_odds[j];
    return loss;
  }

  MixedProblem problem_;
  agents::PlannerPolicy policy_;
  agents::PlannerDraw draw_;
};

TEST_P(PlannerPolicyTest, TheLossHasTheLogProbabilityOfThePlacementThatWasMeasured) {
  ASSERT_EQ(draw_.log_odds.size(), 7U);
  const std::vector<double> again = policy_.LogOdds(draw_);
  ASSERT_EQ(again.size(), 7U);
  for (std::size_t j = 0; j < 7; ++j) {
    EXPECT_LT(again[j], -1);
    EXPECT_NEAR(again[j], draw_.log_odds[j], 1e-5) << j;
  }
  // The placements to measure follow the actions, and are allowed.
  const std::vector<Placement> placements = policy_.Placements(draw_, problem_.env.observation());
  ASSERT_EQ(placements.size(), 7U);
  for (const Placement& placement : placements) {
    for (std::size_t op = 0; op < problem_.graph.num_ops(); ++op) {
      EXPECT_TRUE(problem_.env.observation().Allowed(op, Index(placement[MakeId<OpId>(op)])));
    }
  }
  // The second placement's actions have a different probability from the first's, so the comparison above is
  // meaningful.
  agents::GroupingDraw& first = draw_.groupings.front();
  if (first.devices.empty()) {
    first.groups = draw_.groupings[1].groups;
  } else {
    for (std::size_t at = 0; at < first.devices.size(); at += first.count) first.devices[at] = first.devices[at + 1];
  }
  EXPECT_GT(std::abs(policy_.LogOdds(draw_)[0] - again[0]), 1e-4);
}

TEST_P(PlannerPolicyTest, TheGradientIsThatOfTheLossByFiniteDifferences) {
  const std::vector<double> weights = {0.5, -0.2, 0, 0.7, -1, 0.1, 0.3};
  std::vector<float> gradient(policy_.num_parameters());
  policy_.AddGradient(draw_, weights, {}, gradient);
  const auto check = [&](std::span<float> values, std::span<const float> of_values) {
    Rng rng(3);
    for (int direction = 0; direction < 6; ++direction) {
      std::vector<float> step(values.size());
      double slope = 0;
      double length = 0;
      for (std::size_t i = 0; i < step.size(); ++i) {
        step[i] = static_cast<float>(rng.Uniform() - 0.5);
        slope += static_cast<double>(step[i]) * of_values[i];
        length += static_cast<double>(of_values[i]) * of_values[i];
      }
      ASSERT_GT(length, 0);
      const std::vector<float> before(values.begin(), values.end());
      constexpr float kStep = 2e-3F;
      const auto loss_at = [&](float share) {
        for (std::size_t i = 0; i < step.size(); ++i) values[i] = before[i] + share * step[i];
        policy_.Pack();
        return Loss(weights);
      };
      const double measured = (loss_at(kStep) - loss_at(-kStep)) / (2 * static_cast<double>(kStep));
      std::copy(before.begin(), before.end(), values.begin());
      policy_.Pack();
      EXPECT_NEAR(measured, slope, 0.02 * std::sqrt(length)) << direction;
    }
  };
  const std::size_t of_grouper = policy_.grouper_weights().size();
  const std::span<const float> all(gradient);
  if (of_grouper > 0) check(policy_.grouper_weights(), all.first(of_grouper));
  if (of_grouper < all.size()) check(policy_.placer_weights(), all.subspan(of_grouper));
}

TEST_P(PlannerPolicyTest, WhatSamplingComputedGivesTheGradientsOfPassesDoneAnew) {
  const std::vector<double> weights = {0.5, -0.2, 0, 0.7, -1, 0.1, 0.3};
  std::vector<float> kept(policy_.num_parameters());
  policy_.AddGradient(draw_, weights, {.entropy = 0.2, .excess = 3}, kept);
  policy_.Pack();  // the same weights, as if they had changed
  std::vector<float> anew(policy_.num_parameters());
  policy_.AddGradient(draw_, weights, {.entropy = 0.2, .excess = 3}, anew);
  double largest = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_NEAR(kept[i], anew[i], 1e-5) << i;
    largest = std::max(largest, static_cast<double>(std::abs(kept[i])));
  }
  EXPECT_GT(largest, 0.01);
}

TEST_P(PlannerPolicyTest, TheGroupersEntropyIsTheMeanOverNodes) {
  const bool has_both = GetParam().options.grouper == agents::GrouperKind::kLearned &&
                        GetParam().options.placer != agents::PlacerKind::kNone;
  ASSERT_EQ(draw_.grouper_entropy.has_value(), has_both);
  if (!has_both) return;
  double sum = 0;
  for (const agents::GroupingDraw& grouping : draw_.groupings) {
    const agents::Matrix& odds = grouping.group_odds;
    ASSERT_EQ(odds.rows(), problem_.graph.num_ops());
    for (std::size_t node = 0; node < odds.rows(); ++node) {
      const std::vector<double> row(odds.values(node).begin(), odds.values(node).end());
      sum += agents::RelativeEntropy(row, row.size()) / static_cast<double>(2 * odds.rows());
    }
  }
  EXPECT_NEAR(*draw_.grouper_entropy, sum, 1e-6);
}

TEST_P(PlannerPolicyTest, TiesOfTheLikeliestPlacementAreCountedAndTakenAtRandom) {
  // Weights of 0 make all choices equally likely.
  std::ranges::fill(policy_.grouper_weights(), 0.0F);
  std::ranges::fill(policy_.placer_weights(), 0.0F);
  policy_.Pack();
  std::set<std::vector<std::uint32_t>> drawn;
  Rng rng(2);
  for (int i = 0; i < 4; ++i) {
    const agents::PlannerDraw draw = policy_.Draw({.count = 1, .argmax = true}, "test", rng);
    EXPECT_GT(draw.tied, 0U);
    const agents::GroupingDraw& grouping = draw.groupings.front();
    drawn.insert(grouping.devices.empty() ? grouping.groups : grouping.devices);
  }
  EXPECT_GT(drawn.size(), 1U);
  EXPECT_EQ(draw_.tied, 0U);  // it was sampled
}

// Uses the RNN, whose probabilities do not depend on the drawn actions.
TEST(PlannerPolicyEntropyTest, TheGradientOfTheEntropyIsThatOfItsMeanByFiniteDifferences) {
  Rng of_graph(12);
  const testing::Problem problem(testing::RandomDag(of_graph, {.num_ops = 9}), testing::MakeCluster(3));
  agents::PlannerPolicy policy(
      Small({.grouper = agents::GrouperKind::kNone, .placer = agents::PlacerKind::kEncoder, .bound = 0}),
      problem.graph.num_ops(), 3, "cpu");
  Rng rng(5);
  policy.See(problem.env, 17);
  policy.DrawWeights(rng);
  const auto draw = [&] {
    Rng same(6);
    return policy.Draw({.count = 1, .argmax = false, .noisy = false}, "test", same);
  };
  constexpr double kWeight = 0.7;
  std::vector<float> gradient(policy.num_parameters());
  const std::vector<double> none = {0};
  policy.AddGradient(draw(), none, {.entropy = kWeight}, gradient);
  const std::span<float> values = policy.placer_weights();
  const std::vector<float> before(values.begin(), values.end());
  double length = 0;
  for (const float g : gradient) length += static_cast<double>(g) * g;
  ASSERT_GT(length, 0);
  // Along the gradient the loss changes by share * |gradient|^2.
  const auto loss_at = [&](double share) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = before[i] + static_cast<float>(share) * gradient[i];
    policy.Pack();
    return -kWeight * draw().entropy * std::log(3.0);
  };
  const double step = 1e-2 / std::sqrt(length);
  EXPECT_NEAR((loss_at(step) - loss_at(-step)) / (2 * step), length, 0.02 * length);
}

TEST_P(PlannerPolicyTest, EachGroupingHasItsPlacementsAndAllAreCounted) {
  const bool places = GetParam().options.placer != agents::PlacerKind::kNone;
  // 4 placements of the first grouping and 3 of the second, or one of each.
  ASSERT_EQ(draw_.groupings.size(), places ? 2U : 7U);
  EXPECT_EQ(draw_.groupings.front().count, places ? 4U : 1U);
  EXPECT_EQ(draw_.groupings.back().count, places ? 3U : 1U);
  EXPECT_GT(draw_.entropy, 0.3);
  EXPECT_LE(draw_.entropy, 1);
  if (GetParam().options.grouper == agents::GrouperKind::kLearned) {
    EXPECT_NE(draw_.groupings.front().groups, draw_.groupings.back().groups);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Variants, PlannerPolicyTest,
    ::testing::Values(
        Variant{"Hierarchical", {}, false}, Variant{"Noisy", {}, true},
        Variant{"NoisyAndShuffled", {.shuffle = 3}, true},
        Variant{"OverKeys", {.attention = agents::AttentionOver::kKeys}, true},
        Variant{"Masked", {.groups = 14, .mask_empty_groups = true, .shuffle = 3}, true},
        Variant{"RandomGrouper", {.grouper = agents::GrouperKind::kRandom, .shuffle = 3}, true},
        Variant{"Simple", {.placer = agents::PlacerKind::kNone}, true},
        Variant{"ColocRl", {.grouper = agents::GrouperKind::kNone, .shuffle = 3}, true},
        Variant{
            "Rnn", {.grouper = agents::GrouperKind::kNone, .placer = agents::PlacerKind::kEncoder, .bound = 0}, true}),
    [](const auto& of) { return of.param.name; });

TEST(PlannerPolicyOrderTest, AShuffleIsAnOrderOfTheSameGroups) {
  MixedProblem problem;
  std::set<std::vector<float>> all_rows;
  std::set<std::vector<float>> leading;
  for (const std::uint64_t shuffle : {0U, 1U, 2U, 3U}) {
    agents::PlannerPolicy policy(Small({.grouper = agents::GrouperKind::kNone, .shuffle = shuffle}),
                                 problem.graph.num_ops(), problem.cluster.num_devices(), "cpu");
    Rng rng(4);
    policy.See(problem.env, 1);
    policy.DrawWeights(rng);
    const agents::PlannerDraw draw = policy.Draw({.count = 1}, "test", rng);
    const agents::Matrix& vectors = draw.groupings.front().vectors;
    std::set<std::vector<float>> rows;
    for (std::size_t p = 0; p < vectors.rows(); ++p) rows.emplace(vectors.values(p).begin(), vectors.values(p).end());
    if (shuffle == 0) {
      all_rows = rows;
    } else {
      EXPECT_EQ(rows, all_rows) << shuffle;
    }
    leading.insert({vectors.values(0).begin(), vectors.values(0).end()});
  }
  EXPECT_GT(leading.size(), 1U);
}

// With a mask, the draw is the same, but the devices of groups without ops are not learned from.
TEST(PlannerPolicyMaskTest, EmptyGroupsAreDrawnAndNotLearnedFrom) {
  const MixedProblem problem;
  std::vector<agents::PlannerDraw> draws;
  for (const bool mask : {false, true}) {
    agents::PlannerOptions options = Small({.mask_empty_groups = mask});
    options.groups = 14;
    agents::PlannerPolicy policy(options, problem.graph.num_ops(), problem.cluster.num_devices(), "cpu");
    Rng rng(4);
    policy.See(problem.env, 1);
    policy.DrawWeights(rng);
    draws.push_back(policy.Draw({.count = 1}, "test", rng));
  }
  const agents::GroupingDraw& grouping = draws[0].groupings[0];
  EXPECT_EQ(grouping.devices, draws[1].groupings[0].devices);
  EXPECT_EQ(grouping.counts, std::vector<std::uint8_t>(14, 1));
  const std::vector<std::uint8_t>& counts = draws[1].groupings[0].counts;
  for (std::size_t group = 0; group < 14; ++group) {
    const bool has_nodes = std::ranges::find(grouping.groups, group) != grouping.groups.end();
    EXPECT_EQ(counts[group], has_nodes ? 1 : 0) << group;
  }
  EXPECT_LT(std::ranges::count(counts, 1), 14);
  EXPECT_LT(draws[0].log_odds[0], draws[1].log_odds[0]);
}

// Ops that run only on a CPU do not make it available to the groups of other ops.
TEST(PlannerPolicyDevicesTest, WithoutCpusOnlyWhatRunsNowhereElseIsOnOne) {
  const MixedProblem problem;
  const agents::Observation& seen = problem.env.observation();
  agents::PlannerPolicy policy(Small({.use_cpus = false}), problem.graph.num_ops(), problem.cluster.num_devices(),
                               "cpu");
  Rng rng(4);
  policy.See(problem.env, 1);
  policy.DrawWeights(rng);
  const agents::PlannerDraw draw = policy.Draw({.count = 40, .noisy = true}, "test", rng);
  const auto is_accelerator = [&](DeviceId device) {
    return std::ranges::find(seen.accelerators, device) != seen.accelerators.end();
  };
  std::size_t on_cpu = 0;
  for (const Placement& placement : policy.Placements(draw, seen)) {
    for (std::size_t op = 0; op < seen.num_groups(); ++op) {
      const bool needs_cpu =
          std::ranges::none_of(seen.accelerators, [&](DeviceId device) { return seen.Allowed(op, Index(device)); });
      EXPECT_EQ(is_accelerator(placement[MakeId<OpId>(op)]), !needs_cpu) << op;
      on_cpu += needs_cpu ? 1 : 0;
    }
  }
  EXPECT_GT(on_cpu, 0U);
}

TEST(PlannerPolicyFiniteTest, AWeightThatIsNotFiniteIsNamed) {
  MixedProblem problem;
  agents::PlannerPolicy policy(Small({}), problem.graph.num_ops(), problem.cluster.num_devices(), "cpu");
  Rng rng(4);
  policy.See(problem.env, 1);
  policy.DrawWeights(rng);
  std::ranges::fill(policy.placer_weights(), std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(testing::ErrorOf([&] { policy.Draw({.count = 1}, "hierarchical, update 3", rng); }),
              HasSubstr("hierarchical, update 3: tensor logits of the Placer"));
}

}  // namespace
}  // namespace emplace
