#include "sim/base/registry.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/testing/errors.h"

namespace emplace::testing {
namespace {

struct Row {
  std::string_view name;
  int value;
};
constexpr Row kRows[] = {{"one", 1}, {"two", 2}};

TEST(RegistryTest, FindsTheRowWithTheName) {
  EXPECT_EQ(&FindByName(kRows, "two", "number"), &kRows[1]);
  EXPECT_EQ(FindByName(std::span<const Row>(kRows), "one", "number").value, 1);
}

TEST(RegistryTest, AnUnknownNameListsTheKnownOnes) {
  EXPECT_EQ(ErrorOf([] { FindByName(kRows, "six", "number"); }), "unknown number \"six\" (one, two)");
  EXPECT_EQ(ErrorOf([] { FindByName(kRows, "", "number", "x.yaml"); }), "x.yaml: unknown number \"\" (one, two)");
  EXPECT_EQ(ErrorOf([] { FindByName(std::span<const Row>(), "six", "number"); }), "unknown number \"six\" ()");
}

TEST(RegistryTest, ListsNamesAndTexts) {
  EXPECT_EQ(Listed(kRows), "one, two");
  EXPECT_EQ(Listed(std::vector<std::string>{"a", "b"}), "a, b");
  EXPECT_EQ(Listed(std::vector<std::string_view>{}), "");
}

}  // namespace
}  // namespace emplace::testing
