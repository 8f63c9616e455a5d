#include "sim/base/json_options.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/base/json_text.h"
#include "tests/testing/errors.h"

namespace emplace::testing {
namespace {

TEST(JsonOptionsTest, OptionsAreScalarsAsText) {
  const OptionMap options = OptionsFromFields(ParseJson(R"({"a": 3, "b": "slice", "c": true, "d": 0.5})"), "set");
  EXPECT_EQ(options, (OptionMap{{"a", "3"}, {"b", "slice"}, {"c", "true"}, {"d", "0.5"}}));
  EXPECT_EQ(ErrorOf([] { OptionsFromFields(ParseJson(R"({"a": [1]})"), "set"); }),
            "set.a: is not a plain value (a string, a number, true or false)");
  EXPECT_EQ(ErrorOf([] { OptionsFromFields(ParseJson("[1]"), "set"); }), "set: is not an object (option: value)");
}

TEST(JsonOptionsTest, OnlyWhatReadsAsAnIntegerIsWrittenAsOne) {
  const OptionMap options = {{"a", "3"}, {"b", "03"}, {"c", "-7"}, {"d", "0.5"}, {"e", ""}};
  EXPECT_EQ(JsonText({OptionsToJson(options, true)}), R"({"a":3,"b":"03","c":-7,"d":"0.5","e":""})");
  EXPECT_EQ(JsonText({OptionsToJson({{"a", "3"}}, false)}), R"({"a":"3"})");
}

}  // namespace
}  // namespace emplace::testing
