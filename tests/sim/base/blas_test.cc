#include "sim/base/blas.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace emplace {
namespace {

// Restores an environment variable.
class Restored {
 public:
  explicit Restored(const char* name) : name_(name) {
    if (const char* const value = std::getenv(name)) value_ = value;
  }
  ~Restored() {
    if (value_) {
      setenv(name_, value_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  const char* name_;
  std::optional<std::string> value_;
};

std::string Value(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

TEST(BlasTest, KernelsAreChosenForTheVectorSetUnlessTheUserNamedThem) {
#if defined(__x86_64__)
  const Restored type("OPENBLAS_CORETYPE");
  const Restored threads("OPENBLAS_NUM_THREADS");
  unsetenv("OPENBLAS_CORETYPE");
  unsetenv("OPENBLAS_NUM_THREADS");
  ChooseBlasKernels(VectorTarget::kAvx2);
  EXPECT_EQ(Value("OPENBLAS_CORETYPE"), "Haswell");
  EXPECT_EQ(Value("OPENBLAS_NUM_THREADS"), "1");
  ChooseBlasKernels(VectorTarget::kAvx512);  // the variable is set already
  EXPECT_EQ(Value("OPENBLAS_CORETYPE"), "Haswell");
  unsetenv("OPENBLAS_CORETYPE");
  ChooseBlasKernels(VectorTarget::kAvx512);
  EXPECT_EQ(Value("OPENBLAS_CORETYPE"), "SkylakeX");
#else
  GTEST_SKIP() << "OpenBLAS chooses by itself here";
#endif
}

}  // namespace
}  // namespace emplace
