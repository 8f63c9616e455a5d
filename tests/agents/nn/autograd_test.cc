#include "agents/nn/autograd.h"

#include <gtest/gtest.h>

#include "sim/check.h"
#include "tests/testing/networks.h"

namespace emplace {
namespace {

TEST(AutogradTest, AnUnknownDeviceIsRefused) {
  const Network network(testing::AllNetworks()[0].options);
  try {
    MakeAutogradNetwork(network, "tpu");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "--torch-device: is \"tpu\" (cpu or cuda)");
  }
}

TEST(AutogradTest, LibTorchRunsOnAFastBlas) {
#ifdef EMPLACE_SANITIZED
  GTEST_SKIP() << "sanitizers are slow";
#endif
  EXPECT_GE(MatrixProductGflops(512), 10)
      << "LibTorch runs on a slow BLAS: install libopenblas0-pthread (update-alternatives --display libblas.so.3-"
      << "x86_64-linux-gnu)";
}

}  // namespace
}  // namespace emplace
