#include "agents/nn/torch_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/errors.h"

namespace emplace {
namespace {

TEST(TorchPartTest, TheLibraryHoldsEveryNetwork) {
  const agents::TorchExports& part = agents::LoadTorch();
  EXPECT_NE(part.make, nullptr);
  EXPECT_NE(part.make_sequence, nullptr);
  EXPECT_NE(part.make_graph_transformer, nullptr);
  EXPECT_EQ(&agents::LoadTorch(), &part);
}

TEST(TorchPartTest, AnUnknownDeviceIsRefused) {
  EXPECT_EQ(testing::ErrorOf([] { agents::CheckTorchDevice("tpu"); }), "torch device: is \"tpu\" (cpu or cuda)");
  EXPECT_EQ(testing::ErrorOf([] { agents::CheckTorchDevice("cpu"); }), "(no error)");
}

TEST(TorchPartTest, AGpuIsRefusedWhereThereIsNone) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is one";
  EXPECT_EQ(testing::ErrorOf([] { agents::CheckTorchDevice("cuda"); }),
            "torch device: is \"cuda\", and LibTorch finds no CUDA device (cpu)");
}

}  // namespace
}  // namespace emplace
