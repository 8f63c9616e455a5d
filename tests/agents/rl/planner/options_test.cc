#include "agents/rl/planner/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agents/agent.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;
using ::testing::HasSubstr;

TEST(PlannerOptionsTest, WhatLearnsNothingIsRefused) {
  EXPECT_THAT(ErrorOf([] {
                agents::MakeAgent("hierarchical", {{"grouper", "random"}, {"placer", "none"}}, {});
              }),
              HasSubstr("trains nothing"));
  EXPECT_EQ(ErrorOf([] { agents::MakeAgent("coloc_rl", {{"hidden", "12"}}, {}); }), "hidden: is 12 (a multiple of 8)");
}

TEST(PlannerOptionsTest, APenaltyOnLogitsWithoutABoundIsRefused) {
  const auto refusal = [](const char* agent, OptionMap options) {
    options["excess"] = "1";
    return ErrorOf([&] { agents::MakeAgent(agent, options, {}); });
  };
  EXPECT_EQ(refusal("coloc_rl", {{"placer", "encoder"}}), "excess: needs logits with a bound (0)");
  EXPECT_EQ(refusal("hierarchical", {{"placer", "none"}}), "excess: needs logits with a bound (0)");
  EXPECT_EQ(refusal("hierarchical", {{"bound", "0"}}), "excess: needs logits with a bound (0)");
  EXPECT_EQ(refusal("hierarchical", {}), "(no error)");
}

TEST(PlannerOptionsTest, ThePapersSettingsAreTheDefaultsExceptTheRate) {
  const OptionMap none;
  OptionReader reader(none, "hierarchical");
  const agents::PlannerOptions options = agents::ReadHierarchicalOptions(reader);
  // docs/agents.md, hierarchical: 256 groups, 4 placements, Adam (at 0.1 in the paper), T = 10, C = 5, noise of 0.1 for
  // 500 updates.
  EXPECT_EQ(options.groups, 256U);
  EXPECT_EQ(options.samples, 4U);
  EXPECT_EQ(options.learning_rate, 0.001);
  EXPECT_EQ(options.final_learning_rate, 0.001);
  EXPECT_EQ(options.attention, agents::AttentionOver::kStates);
  EXPECT_EQ(options.excess_weight, 0);
  EXPECT_EQ(options.temperature, 10);
  EXPECT_EQ(options.bound, 5);
  EXPECT_EQ(options.noise, 0.1);
  EXPECT_EQ(options.noise_updates, 500U);
  EXPECT_EQ(options.drop_invalid_after, 500U);
}

TEST(PlannerOptionsTest, TheRnnOfPlacetosComparisonHasItsOwn) {
  const OptionMap encoder = {{"placer", "encoder"}};
  OptionReader reader(encoder, "coloc_rl");
  const agents::PlannerOptions options = agents::ReadColocRlOptions(reader);
  EXPECT_EQ(options.hidden, 512U);
  EXPECT_EQ(options.learning_rate, 1e-3);
  EXPECT_EQ(options.final_learning_rate, 1e-4);
}

TEST(PlannerOptionsTest, ARateThatIsSetIsFixedAndTheRnnsFallsNoLowerThanItIs) {
  const OptionMap high = {{"learning_rate", "0.3"}};
  OptionReader planner(high, "hierarchical");
  EXPECT_EQ(agents::ReadHierarchicalOptions(planner).final_learning_rate, 0.3);
  const OptionMap low = {{"learning_rate", "0.003"}};
  OptionReader lower(low, "hierarchical");
  EXPECT_EQ(agents::ReadHierarchicalOptions(lower).final_learning_rate, 0.003);
  const OptionMap falling = {{"learning_rate", "0.003"}, {"final_learning_rate", "0.001"}};
  OptionReader both(falling, "coloc_rl");
  EXPECT_EQ(agents::ReadColocRlOptions(both).final_learning_rate, 0.001);
  const OptionMap tiny = {{"placer", "encoder"}, {"learning_rate", "0.00001"}};
  OptionReader encoder(tiny, "coloc_rl");
  EXPECT_EQ(agents::ReadColocRlOptions(encoder).final_learning_rate, 0.00001);
}

}  // namespace
}  // namespace emplace
