#include "experiments/spec/hardware_choice.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

TEST(RewardSourceTest, NamesGoBothWays) {
  for (const auto source : {experiments::RewardSource::kSimulator, experiments::RewardSource::kHardware,
                            experiments::RewardSource::kMixed}) {
    EXPECT_EQ(EnumOfName<experiments::RewardSource>(NameOf(source)), source);
  }
  EXPECT_FALSE(EnumOfName<experiments::RewardSource>("gpu"));
}

TEST(HardwareChoiceTest, TheSimulatorAloneNeedsNoHardware) {
  experiments::HardwareChoice choice;
  EXPECT_FALSE(choice.NeedsHardware());
  choice.validate_every = 3;
  EXPECT_TRUE(choice.NeedsHardware());
}

}  // namespace
}  // namespace emplace
