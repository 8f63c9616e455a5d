#include "agents/nn/flush_denormals.h"

#include <gtest/gtest.h>

#include <limits>

namespace emplace {
namespace {

#if defined(__SSE2__)
TEST(FlushDenormalsTest, WhatIsTooSmallIsZeroWhileItLivesAndNoLonger) {
  volatile float tiny = std::numeric_limits<float>::denorm_min();
  volatile double small = std::numeric_limits<double>::min();
  EXPECT_GT(tiny * 1.0F, 0.0F);
  {
    const agents::FlushDenormals flush;
    EXPECT_EQ(tiny * 1.0F, 0.0F);
    EXPECT_EQ(small * 0.5, 0.0);
  }
  EXPECT_GT(tiny * 1.0F, 0.0F);
  EXPECT_GT(small * 0.5, 0.0);
}
#endif

}  // namespace
}  // namespace emplace
