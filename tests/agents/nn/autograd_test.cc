#include "agents/nn/autograd.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "sim/base/check.h"
#include "tests/testing/networks.h"

namespace emplace {
namespace {

TEST(AutogradTest, AnUnknownDeviceIsRefused) {
  const agents::Network network(testing::AllNetworks()[0].options);
  try {
    agents::MakeAutogradNetwork(network, "tpu");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "torch device: is \"tpu\" (cpu or cuda)");
  }
}

TEST(AutogradTest, LibTorchRunsOnAFastBlas) {
#ifdef EMPLACE_SANITIZED
  GTEST_SKIP() << "sanitizers are slow";
#endif
  EXPECT_GE(agents::MatrixProductGflops(512), 10)
      << "LibTorch runs on a slow BLAS: install libopenblas0-pthread (update-alternatives --display libblas.so.3-"
      << "x86_64-linux-gnu)";
}

TEST(AutogradTest, OpenBlasUsesWhatTheProcessorCanDo) {
  agents::MatrixProductGflops(16);
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) GTEST_SKIP() << "LibTorch runs on another BLAS";
  void* const name = dlsym(library, "openblas_get_corename");
  ASSERT_NE(name, nullptr);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) {
    // OpenBLAS falls back to Prescott, without vectors wider than 128 bits, on processors that it does not recognise.
    EXPECT_STRNE(reinterpret_cast<const char* (*)()>(name)(), "Prescott");
  }
#endif
  dlclose(library);
}

}  // namespace
}  // namespace emplace
