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

TEST(CudaDriverTest, BoardsAndPartsOfADeviceAreOtherKinds) {
  EXPECT_EQ(profiler::CudaKind("NVIDIA H100 PCIe"), "h100-pcie");
  EXPECT_EQ(profiler::CudaKind("NVIDIA H100 NVL"), "h100-nvl");
  EXPECT_EQ(profiler::CudaKind("NVIDIA A100-PCIE-40GB"), "a100-pcie");
  EXPECT_EQ(profiler::CudaKind("NVIDIA A100 80GB PCIe"), "a100-pcie");
  // The catalogue's P100 is the PCIe board.
  EXPECT_EQ(profiler::CudaKind("Tesla P100-PCIE-16GB"), "p100");
  EXPECT_EQ(profiler::CudaKind("Tesla P100-SXM2-16GB"), "p100-sxm2");
  EXPECT_EQ(profiler::CudaKind("Tesla V100-PCIE-16GB"), "v100-pcie");
  EXPECT_EQ(profiler::CudaKind("NVIDIA H100 80GB HBM3 MIG 1g.10gb"), "h100-mig-1g.10gb");
}

TEST(CudaDriverTest, WithoutADriverNothingIsFound) {
  const profiler::CudaDriver none("libno-such-driver.so.1");
  EXPECT_EQ(none.DeviceName(0), "cuda");
  EXPECT_FALSE(none.FreeMemory(0));
  EXPECT_EQ(none.PciBusId(0), "");
  EXPECT_EQ(none.Version(), "");
  EXPECT_EQ(profiler::ThisCudaDriver().DeviceName(1'000'000), "cuda");
  EXPECT_FALSE(profiler::ThisCudaDriver().FreeMemory(1'000'000));
}

TEST(CudaDriverTest, FreeMemoryIsFoundAndNoContextIsLeft) {
  const profiler::CudaDriver driver(EMPLACE_FAKE_NVIDIA_PATH);
  EXPECT_EQ(driver.Version(), "13.2");
  EXPECT_EQ(driver.DeviceName(0), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(driver.PciBusId(0), "0000:19:00.0");
  for (int repeat = 0; repeat < 2; ++repeat) {  // the fake refuses what is not balanced
    const auto memory = driver.FreeMemory(0);
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory->count, std::int64_t{50} << 30);
  }
  EXPECT_FALSE(driver.FreeMemory(1));
  EXPECT_EQ(driver.DeviceName(1), "cuda");
}

}  // namespace
}  // namespace emplace
