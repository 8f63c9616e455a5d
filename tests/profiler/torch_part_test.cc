#include "profiler/torch_part.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

TEST(TorchPartTest, IsLoadedOnceAndHasBothFunctions) {
  const TorchHardwarePart& part = LoadTorchHardware();
  EXPECT_EQ(&part, &LoadTorchHardware());
  ASSERT_NE(part.hardware, nullptr);
  EXPECT_NE(part.record_torchscript, nullptr);
  EXPECT_EQ(part.hardware(), &TorchHardware());
}

}  // namespace
}  // namespace emplace
