#include <gtest/gtest.h>

#include "sim/grouping.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

TEST(IdentityGrouperTest, EveryOpIsAGroupButColocatedOnesShareOne) {
  GraphBuilder builder("g");
  builder.Add(testing::MakeOp("a", 1));
  builder.Add(testing::MakeOp("b", 1));
  OpSpec c = testing::MakeOp("c", 1);
  c.colocate_with = "a";
  builder.Add(c);
  const Grouping grouping = ColocationClasses(builder.Build());
  EXPECT_EQ(grouping.num_groups(), 2U);
  EXPECT_EQ(grouping.group_of(MakeId<OpId>(2)), 0U);
}

}  // namespace
}  // namespace emplace
