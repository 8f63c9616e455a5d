#include "profiler/torch_plugin.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

TEST(TorchPartTest, IsLoadedOnceAndHasBothFunctions) {
  const profiler::TorchHardwareExports& part = profiler::LoadTorchHardware();
  EXPECT_EQ(&part, &profiler::LoadTorchHardware());
  ASSERT_NE(part.hardware, nullptr);
  EXPECT_NE(part.record_torchscript, nullptr);
  EXPECT_EQ(part.hardware(), &profiler::TorchHardware());
}

}  // namespace
}  // namespace emplace
