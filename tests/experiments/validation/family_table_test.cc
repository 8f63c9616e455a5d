#include "experiments/validation/family_table.h"

#include <gtest/gtest.h>

#include <string>

#include "datasets/families/enas_macro.h"

namespace emplace::testing {
namespace {

TEST(FamilyTableTest, SpreadsAreThoseOfASample) {
  const experiments::Spread spread = experiments::SpreadOf({1, 2, 6});
  EXPECT_EQ(spread.least, 1);
  EXPECT_EQ(spread.mean, 3);
  EXPECT_DOUBLE_EQ(spread.sd * spread.sd, (4 + 1 + 9) / 2.0);
  EXPECT_EQ(spread.most, 6);
  EXPECT_EQ(experiments::SpreadOf({0.1, 0.1, 0.1, 0.1}).sd, 0);
  EXPECT_EQ(experiments::SpreadOf({5}).sd, 0);
}

TEST(FamilyTableTest, TheGapIsWhatIsLeftAboveTheBound) {
  Rng rng(7);
  std::vector<datasets::FamilyMember> members;
  members.push_back({.graph = datasets::BuildEnasMacro("one", datasets::EnasMacroNetwork::Draw(rng), 4),
                     .num_groups = 20,
                     .drawn = {}});
  const std::vector<experiments::FamilyRow> rows = experiments::MakeFamilyTable(members, "post-8k80", {1, 4});
  ASSERT_EQ(rows.size(), 7U);
  EXPECT_EQ(rows[0].spread.mean, static_cast<double>(members[0].graph.num_ops()));
  EXPECT_EQ(rows[1].spread.mean, 20);
  EXPECT_EQ(rows[5].quantity, "gap to the bound of 1, %");
  // On one device the bound is the sum of the op times; the step also has the gaps between them.
  EXPECT_GT(rows[5].spread.mean, 0);
  EXPECT_LT(rows[5].spread.mean, 100);
  EXPECT_GE(rows[6].spread.mean, rows[5].spread.mean);
}

}  // namespace
}  // namespace emplace::testing
