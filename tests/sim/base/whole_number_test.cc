#include "sim/base/whole_number.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace emplace {
namespace {

TEST(WholeNumberTest, OnlyWhatAWriterWritesIsANumber) {
  EXPECT_EQ(WholeNumber<std::uint64_t>("0"), 0U);
  EXPECT_EQ(WholeNumber<std::uint64_t>("18446744073709551615"), ~std::uint64_t{0});
  EXPECT_EQ(WholeNumber<std::int64_t>("-10"), -10);
  EXPECT_EQ(WholeNumber<double>("0.5"), 0.5);
  EXPECT_EQ(WholeNumber<double>("1e+30"), 1e30);
  for (const char* const text : {"", " 5", "5 ", "+5", "05", "00", "-05", "5x", "-", "18446744073709551616", "\t5"}) {
    EXPECT_EQ(WholeNumber<std::int64_t>(text), std::nullopt) << text;
    EXPECT_EQ(WholeNumber<std::uint64_t>(text), std::nullopt) << text;
  }
  EXPECT_EQ(WholeNumber<double>("00.5"), std::nullopt);
  EXPECT_EQ(WholeNumber<double>("inf"), std::nullopt);
  EXPECT_EQ(WholeNumber<double>("1.5.2"), std::nullopt);
}

}  // namespace
}  // namespace emplace
