#include "agents/rl/start_prior.h"

#include <gtest/gtest.h>

#include <cmath>

namespace emplace::testing {
namespace {

TEST(StartLogitTest, FourChoicesDifferInTheMean) {
  for (const std::size_t choices : {std::size_t{8}, std::size_t{50}, std::size_t{3000}}) {
    const double weight = 2 * std::exp(agents::StartLogit(choices, 2, 6));  // against six others of weight 1
    EXPECT_NEAR(static_cast<double>(choices) * 6 / (weight + 6), 4, 1e-9) << choices;
  }
}

TEST(StartLogitTest, AtMostHalfOfFewChoicesDiffer) { EXPECT_NEAR(agents::StartLogit(3, 1, 1), 0, 1e-12); }

TEST(StartLogitTest, NothingToChooseNeedsNone) {
  EXPECT_EQ(agents::StartLogit(10, 1, 0), 0);
  EXPECT_EQ(agents::StartLogit(10, 0, 3), 0);
}

}  // namespace
}  // namespace emplace::testing
