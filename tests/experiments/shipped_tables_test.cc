#include "experiments/shipped_tables.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "sim/base/check.h"
#include "sim/formats/cluster_yaml.h"

namespace emplace::testing {
namespace {

TEST(ShippedTablesTest, EachBeginsWithItsQuestion) {
  for (const std::string name : {"calibration", "networks", "thesis"}) {
    const std::string text(ShippedTable(name));
    EXPECT_TRUE(text.starts_with("# ")) << name;
    EXPECT_EQ(text.substr(0, text.find('\n')).back(), '?') << name;
  }
}

JsonValue Parse(const std::string& text) {
  std::istringstream in(text);
  return ParseYaml(in);
}

TEST(ShippedTablesTest, OptionsAreScalarsAsText) {
  const OptionMap options = OptionsFromFields(Parse("{a: 3, b: slice, c: true, d: 0.5}"), "set");
  EXPECT_EQ(options, (OptionMap{{"a", "3"}, {"b", "slice"}, {"c", "true"}, {"d", "0.5"}}));
  try {
    OptionsFromFields(Parse("{a: [1]}"), "set");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "set.a: is no plain value (a string, a number, true or false)");
  }
  EXPECT_THROW(OptionsFromFields(Parse("[1]"), "set"), InputError);
}

}  // namespace
}  // namespace emplace::testing
