#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "profiler/cupti/cupti_session.h"

namespace emplace {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string ErrorOfStart() {
  try {
    profiler::ActivitySession& session = profiler::CuptiSession();
    session.Start();
    session.Stop();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(CuptiPartTest, RecordsOrSaysInOneLineWhyNot) {
#ifdef EMPLACE_HAS_CUPTI
  // Built with CUPTI, so the library exists. Without a driver or a GPU it cannot record.
  EXPECT_THAT(ErrorOfStart(), AnyOf("", HasSubstr("there is no NVIDIA driver (libcuda.so.1 cannot be loaded)"),
                                    HasSubstr("the NVIDIA driver finds no GPU")));
#else
  EXPECT_EQ(ErrorOfStart(), "CUDA devices: built without CUPTI (the CUDA toolkit was not found)");
#endif
}

TEST(CuptiPartTest, WithoutADriverStartFailsAndCanBeTriedAgain) {
#ifdef EMPLACE_HAS_CUPTI
  if (ErrorOfStart().empty()) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(ErrorOfStart(), ErrorOfStart());
  EXPECT_GT(profiler::CuptiSession().NowNs(), 0);  // the clock runs without a GPU
#else
  GTEST_SKIP() << "built without CUPTI";
#endif
}

}  // namespace
}  // namespace emplace
