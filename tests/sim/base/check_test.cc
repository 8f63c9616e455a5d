#include "sim/base/check.h"

#include <gtest/gtest.h>

#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;

TEST(CheckTest, APlaceIsPutInFrontOfTheErrorsOfACall) {
  EXPECT_EQ(WithLocation("agent", [] { return 7; }), 7);
  EXPECT_EQ(ErrorOf([] { WithLocation("agent", []() -> int { throw InputError("set", "is wrong"); }); }),
            "agent: set: is wrong");
}

}  // namespace
}  // namespace emplace
