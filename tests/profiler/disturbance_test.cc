#include "profiler/disturbance.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

using Seconds = std::chrono::duration<double>;

// At so many seconds.
DisturbanceWatch::Time At(double seconds) {
  return DisturbanceWatch::Time() + std::chrono::duration_cast<DisturbanceWatch::Time::duration>(Seconds(seconds));
}

TEST(DisturbanceWatchTest, CalmIsNearTheFastestOfTheLastMinute) {
  DisturbanceWatch watch(0.1);
  EXPECT_TRUE(watch.IsCalm(30, At(0)));  // nothing is known yet
  EXPECT_TRUE(watch.IsCalm(20, At(1)));
  EXPECT_FALSE(watch.IsCalm(30, At(2)));
  EXPECT_FALSE(watch.IsCalm(22.1, At(3)));
  EXPECT_TRUE(watch.IsCalm(21.9, At(4)));
  EXPECT_TRUE(watch.IsCalm(20.5, At(50)));
  EXPECT_FALSE(watch.IsCalm(22.4, At(60.9)));
  EXPECT_TRUE(watch.IsCalm(22.4, At(61.1)));  // the 20 is forgotten; 20.5 is the fastest now
  EXPECT_FALSE(watch.IsCalm(22.6, At(61.2)));
}

TEST(DisturbanceWatchTest, ACoreThatIsSlowForGoodIsCalmAgainAfterAMinute) {
  DisturbanceWatch watch(0.1);
  EXPECT_TRUE(watch.IsCalm(10, At(0)));
  for (int second = 1; second <= 60; ++second) EXPECT_FALSE(watch.IsCalm(15, At(second))) << second;
  EXPECT_TRUE(watch.IsCalm(15, At(61)));
}

TEST(CoreProbeTest, TakesTime) {
  const double micros = CoreProbeMicros();
  EXPECT_GT(micros, 1);
  EXPECT_LT(micros, 1e6);
}

}  // namespace
}  // namespace emplace
