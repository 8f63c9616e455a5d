#include "profiler/torch_plugin.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

TEST(TorchPartTest, IsLoadedOnceAndHasBothFunctions) {
  const TorchHardwareExports& part = LoadTorchHardware();
  EXPECT_EQ(&part, &LoadTorchHardware());
  ASSERT_NE(part.hardware, nullptr);
  EXPECT_NE(part.record_torchscript, nullptr);
  EXPECT_EQ(part.hardware(), &TorchHardware());
}

}  // namespace
}  // namespace emplace
