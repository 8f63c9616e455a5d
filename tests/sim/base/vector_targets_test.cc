#include "sim/base/vector_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "sim/base/check.h"

namespace emplace {
namespace {

using ::testing::HasSubstr;

class VectorTargetsTest : public ::testing::Test {
 protected:
  void TearDown() override {
    unsetenv("EMPLACE_VECTORS");
    ChooseVectorTarget(SupportedVectorTargets().back());
  }
};

std::string ErrorOfEnvironment(const char* value) {
  setenv("EMPLACE_VECTORS", value, 1);
  try {
    ChooseVectorTargetByEnvironment();
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

TEST_F(VectorTargetsTest, TheBestOfTheProcessorRuns) {
  EXPECT_EQ(SupportedVectorTargets().front(), VectorTarget::kBaseline);
  EXPECT_EQ(ChosenVectorTarget(), SupportedVectorTargets().back());
#if defined(__x86_64__)
  EXPECT_EQ(__builtin_cpu_supports("avx512f") != 0, SupportedVectorTargets().back() == VectorTarget::kAvx512);
#endif
}

TEST_F(VectorTargetsTest, EachSupportedTargetCanBeChosenInAnyOrder) {
  for (const VectorTarget first : SupportedVectorTargets()) {
    for (const VectorTarget second : SupportedVectorTargets()) {
      ChooseVectorTarget(first);
      EXPECT_EQ(ChosenVectorTarget(), first);
      ChooseVectorTarget(second);
      EXPECT_EQ(ChosenVectorTarget(), second);
    }
  }
}

TEST_F(VectorTargetsTest, TheEnvironmentNamesATarget) {
  for (const VectorTarget target : SupportedVectorTargets()) {
    EXPECT_EQ(ErrorOfEnvironment(std::string(VectorTargetName(target)).c_str()), "none");
    EXPECT_EQ(ChosenVectorTarget(), target);
  }
}

TEST_F(VectorTargetsTest, AnUnsetOrEmptyEnvironmentChangesNothing) {
  ChooseVectorTarget(VectorTarget::kBaseline);
  EXPECT_EQ(ErrorOfEnvironment(""), "none");
  EXPECT_EQ(ChosenVectorTarget(), VectorTarget::kBaseline);
  unsetenv("EMPLACE_VECTORS");
  ChooseVectorTargetByEnvironment();
  EXPECT_EQ(ChosenVectorTarget(), VectorTarget::kBaseline);
}

TEST_F(VectorTargetsTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  const std::string error = ErrorOfEnvironment("sse9");
  EXPECT_THAT(error, HasSubstr("EMPLACE_VECTORS: unknown instruction set \"sse9\" (baseline"));
  EXPECT_EQ(ChosenVectorTarget(), SupportedVectorTargets().back());
}

TEST_F(VectorTargetsTest, ATargetThatTheProcessorLacksIsRefused) {
  if (SupportedVectorTargets().back() == VectorTarget::kAvx512) GTEST_SKIP() << "this processor has them all";
  EXPECT_THAT(ErrorOfEnvironment("avx512"), HasSubstr("EMPLACE_VECTORS: avx512 is not among"));
}

}  // namespace
}  // namespace emplace
