#include "agents/nn/dropout.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace emplace {
namespace {

TEST(DropoutTest, KeepsItsShare) {
  Rng rng(5);
  std::vector<std::uint8_t> kept(100'003);
  agents::DrawKept(rng, 0.7, kept);
  const double share = std::accumulate(kept.begin(), kept.end(), 0.0) / static_cast<double>(kept.size());
  EXPECT_NEAR(share, 0.3, 0.006);  // four standard deviations
}

TEST(DropoutTest, StatesAndLevelsDropDifferently) {
  EXPECT_NE(agents::DropoutRng(1, 0), agents::DropoutRng(2, 0));
  EXPECT_NE(agents::DropoutRng(1, 0), agents::DropoutRng(1, 1));
}

}  // namespace
}  // namespace emplace
