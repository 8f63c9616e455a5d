#include "experiments/spec/hardware_choice.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

TEST(RewardSourceTest, NamesGoBothWays) {
  for (const auto source : {RewardSource::kSimulator, RewardSource::kHardware, RewardSource::kMixed}) {
    EXPECT_EQ(EnumOfName<RewardSource>(NameOf(source)), source);
  }
  EXPECT_FALSE(EnumOfName<RewardSource>("gpu"));
}

TEST(HardwareChoiceTest, TheSimulatorAloneNeedsNoHardware) {
  HardwareChoice choice;
  EXPECT_FALSE(choice.NeedsHardware());
  choice.validate_every = 3;
  EXPECT_TRUE(choice.NeedsHardware());
}

}  // namespace
}  // namespace emplace
