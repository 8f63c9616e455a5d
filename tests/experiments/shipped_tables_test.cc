#include "experiments/shipped_tables.h"

#include <gtest/gtest.h>

#include <string>

namespace emplace::testing {
namespace {

TEST(ShippedTablesTest, EachBeginsWithItsQuestion) {
  for (const std::string name : {"calibration", "networks", "thesis"}) {
    const std::string text(experiments::ShippedTable(name));
    EXPECT_TRUE(text.starts_with("# ")) << name;
    EXPECT_EQ(text.substr(0, text.find('\n')).back(), '?') << name;
  }
}

}  // namespace
}  // namespace emplace::testing
