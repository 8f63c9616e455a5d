#include "profiler/cuda_driver.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

// The names are those of NVIDIA's drivers.
TEST(CudaDriverTest, KindsAreModelsWithoutMakerAndSize) {
  EXPECT_EQ(profiler::CudaKind("NVIDIA A100-SXM4-40GB"), "a100");
  EXPECT_EQ(profiler::CudaKind("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(profiler::CudaKind("Tesla V100-SXM2-16GB"), "v100");
  EXPECT_EQ(profiler::CudaKind("Tesla K80"), "k80");
  EXPECT_EQ(profiler::CudaKind("NVIDIA GeForce RTX 4090"), "geforce-rtx-4090");
  EXPECT_EQ(profiler::CudaKind("NVIDIA TITAN V"), "titan-v");
  EXPECT_EQ(profiler::CudaKind(""), "cuda");
}

TEST(CudaDriverTest, ADeviceThatIsNotThereHasNoSize) {
  EXPECT_EQ(profiler::CudaDeviceName(1'000'000), "cuda");
  EXPECT_FALSE(profiler::CudaDeviceMemory(1'000'000));
}

}  // namespace
}  // namespace emplace
