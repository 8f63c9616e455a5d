#include "sim/base/json_build.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>

#include "sim/base/json_text.h"

namespace emplace::testing {
namespace {

TEST(JsonBuildTest, MembersAreInTheOrderInWhichTheyWereAdded) {
  JsonObject object;
  AddMember(&object, "b", "text");
  AddMember(&object, "a", true);
  AddMember(&object, "none", std::optional<double>());
  AddMember(&object, "half", std::optional<double>(0.5));
  AddMember(&object, "list", JsonList{ToJson(1), ToJson(2)});
  EXPECT_EQ(JsonText(ToJson(object)), R"({"b":"text","a":true,"none":null,"half":0.5,"list":[1,2]})");
}

TEST(JsonBuildTest, IntegersAreSignedWhereTheyFitAsReadersHaveThem) {
  EXPECT_NE(ToJson(std::uint64_t{7}).As<std::int64_t>(), nullptr);
  EXPECT_NE(ToJson(std::int8_t{-7}).As<std::int64_t>(), nullptr);
  EXPECT_NE(ToJson(std::numeric_limits<std::uint64_t>::max()).As<std::uint64_t>(), nullptr);
}

}  // namespace
}  // namespace emplace::testing
