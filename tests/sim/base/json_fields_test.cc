#include "sim/base/json_fields.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/base/json_text.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;

TEST(JsonFieldsTest, ReadsMembersByName) {
  const JsonValue root = ParseJson(R"({"text": "x", "real": 2.5, "whole": 3, "list": [1, 2]})");
  const JsonNode node(root);
  const JsonFields fields(node, {"text", "real", "whole", "list", "other"});
  EXPECT_EQ(fields.Get("text", "a string").Text(), "x");
  EXPECT_EQ(fields.Get("real", "a number").Number(0, 3), 2.5);
  EXPECT_EQ(fields.Get("whole", "a number").Number(0, 3), 3.0);
  EXPECT_EQ(fields.Get("whole", "an integer").Integer(3, 3), 3);
  EXPECT_EQ(fields.Get("list", "a list").List().size(), 2U);
  EXPECT_FALSE(fields.Find("other").has_value());
}

TEST(JsonFieldsTest, SaysWhatIsThereAndWhatIsAllowed) {
  const JsonValue root = ParseJson(R"({"a": [{"b": -1, "c": 1.0, "d": null, "e": [], "f": {}, "g": true, "h": ""}]})");
  const JsonNode top(root);
  const JsonFields outer(top, {"a"});
  const JsonNode list = outer.Get("a", "a list");
  const JsonNode element(list, 0, list.List()[0]);
  const JsonFields fields(element, {"b", "c", "d", "e", "f", "g", "h"});
  const auto get = [&](std::string_view key) { return fields.Get(key, "anything"); };
  EXPECT_EQ(ErrorOf([&] { get("b").Number(0, 1e6); }), "a[0].b: is the number -1 (a number from 0 to 1e+06)");
  EXPECT_EQ(ErrorOf([&] { get("b").Integer(0, 9); }), "a[0].b: is the number -1 (an integer from 0 to 9)");
  EXPECT_EQ(ErrorOf([&] { get("b").Integer(0, 9, "a digit"); }), "a[0].b: is the number -1 (a digit)");
  EXPECT_EQ(ErrorOf([&] { get("c").Integer(0, 9); }),
            "a[0].c: is the number 1 (an integer from 0 to 9, written without a point or an exponent)");
  EXPECT_EQ(ErrorOf([&] { get("d").Text(); }), "a[0].d: is null (a string)");
  EXPECT_EQ(ErrorOf([&] { get("e").Object(); }), "a[0].e: is a list of 0 elements (an object)");
  EXPECT_EQ(ErrorOf([&] { get("f").List(); }), "a[0].f: is an object (a list)");
  EXPECT_EQ(ErrorOf([&] { get("g").Number(0, 1); }), "a[0].g: is true (a number from 0 to 1)");
  EXPECT_EQ(ErrorOf([&] { get("h").NonEmptyText(); }), "a[0].h: is the text \"\" (a string that is not empty)");
  EXPECT_EQ(ErrorOf([&] { get("i"); }), "a[0].i: is missing (anything)");
  EXPECT_EQ(ErrorOf([&] { JsonFields(element, {"b", "c"}); }), "a[0].d: unknown key (b, c)");
  EXPECT_EQ(ErrorOf([&] { JsonFields(list, {"b"}); }), "a: is a list of 1 element (an object)");
}

TEST(JsonFieldsTest, MinusZeroIsZero) {
  const JsonValue root = ParseJson("-0.0");
  EXPECT_FALSE(std::signbit(JsonNode(root).Number(0, 1)));
}

TEST(JsonFieldsTest, ChecksSchemaAndVersion) {
  const auto error = [](const std::string& text, bool complete = true) {
    const JsonValue root = ParseJson(text);
    return ErrorOf([&] { CheckSchema(JsonNode(root), "s", complete); });
  };
  EXPECT_EQ(error(R"({"schema": "s", "version": 1})"), "(no error)");
  EXPECT_EQ(error(R"({"version": 1})"), "schema: is missing (\"s\")");
  EXPECT_EQ(error(R"({"version": 1})", false), "(no error)");
  EXPECT_EQ(error(R"({"schema": "t", "version": 1})", false), "schema: is the text \"t\" (\"s\")");
  EXPECT_EQ(error(R"({"schema": "s"})"), "version: is missing (1)");
  EXPECT_EQ(error(R"({"schema": "s", "version": 1.0})"),
            "version: is the number 1 (1, written without a point or an exponent)");
  EXPECT_EQ(error("3"), "is the number 3 (an object of schema \"s\")");
  const auto version = [](const std::string& text) {
    const JsonValue root = ParseJson(text);
    return CheckSchema(JsonNode(root), "s", /*complete=*/false, /*newest=*/2);
  };
  EXPECT_EQ(version(R"({"schema": "s", "version": 2})"), 2);
  EXPECT_EQ(version(R"({"schema": "s"})"), 0);
  EXPECT_EQ(ErrorOf([&] { version(R"({"schema": "s", "version": 3})"); }), "version: is the number 3 (1 to 2)");
}

TEST(JsonFieldsTest, AMemberIsNeededWhateverElseThereIs) {
  const JsonValue root = ParseJson(R"({"a": 1, "other": [2]})");
  const JsonNode node(root);
  EXPECT_EQ(NeedMember(node, "a", "an integer").Integer(0, 5), 1);
  EXPECT_EQ(ErrorOf([&] { NeedMember(node, "b", "an integer"); }), "b: is missing (an integer)");
  const JsonNode other = NeedMember(node, "other", "a list");
  EXPECT_EQ(ErrorOf([&] { NeedMember(other, "c", "a text"); }), "other: is a list of 1 element (an object)");
}

}  // namespace
}  // namespace emplace
