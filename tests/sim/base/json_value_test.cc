#include "sim/base/json_value.h"

#include <gmock/gmock.h>

#include <sstream>
#include <string>
#include <vector>

#include "sim/base/json_text.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;

JsonValue Number(std::int64_t number) { return {number}; }

TEST(JsonValueTest, PutsAValueTogetherFromEvents) {
  // {"a": [1, {}], "b": 2}
  JsonBuilder builder;
  builder.BeginObject();
  builder.Key("a");
  builder.BeginList();
  builder.Scalar(Number(1));
  EXPECT_EQ(builder.Place(), "a[1]");
  builder.BeginObject();
  builder.Key("deep");
  EXPECT_EQ(builder.Place(), "a[1].deep");
  builder.Scalar(Number(3));
  builder.End();
  builder.End();
  builder.Key("b");
  builder.Scalar(Number(2));
  builder.End();

  const JsonValue value = builder.Take();
  const JsonObject& root = *value.As<JsonObject>();
  ASSERT_EQ(root.size(), 2U);
  EXPECT_EQ(root[0].key, "a");
  EXPECT_EQ(root[0].value.As<JsonList>()->size(), 2U);
  EXPECT_EQ(*root[1].value.As<std::int64_t>(), 2);
}

TEST(JsonValueTest, FindsTheFirstDuplicateKeyAmongFewAndMany) {
  for (const int count : {3, 5000}) {
    JsonBuilder builder;
    builder.BeginObject();
    builder.Key("list");
    builder.BeginList();
    builder.BeginObject();
    for (int i = 0; i < count; ++i) {
      builder.Key("k" + std::to_string(i));
      builder.Scalar(Number(i));
    }
    for (const char* again : {"k2", "k1"}) {
      builder.Key(again);
      builder.Scalar(Number(0));
    }
    EXPECT_EQ(ErrorOf([&] { builder.End(); }), "list[0].k2: duplicate key (each key once)") << count;
  }
}

TEST(JsonValueTest, HandsOutTheMembersOfAStreamedObjectOneByOne) {
  std::vector<std::string> seen;
  std::istringstream in(R"({"first": 7, "ops": {"a": 1, "b": {"ops": 2}, "a": [3]}, "last": {"ops": 8}})");
  const auto take = [&](const JsonObject& root, const std::string& key, const JsonValue& member) {
    EXPECT_EQ(root.size(), 1U);
    seen.push_back(key + JsonText(member));
  };
  EXPECT_EQ(JsonLimitsOf(InputKind::kGraph).values, LimitsOf(InputKind::kGraph).values);
  const JsonValue value = ParseJson(in, {.key = "ops", .take_member = take}, {.values = 4});
  EXPECT_THAT(seen, ::testing::ElementsAre("a1", "b{\"ops\":2}", "a[3]"));
  EXPECT_EQ(JsonText(value), R"({"first":7,"ops":{},"last":{"ops":8}})");
}

TEST(JsonValueTest, HandsOutTheElementsOfAStreamedListOneByOne) {
  // {"first": 7, "ops": [5, [6]], "last": {"ops": [8]}}: only the root's list is streamed.
  std::vector<std::size_t> indices;
  std::size_t members_before = 0;
  JsonBuilder builder({.key = "ops", .take = [&](const JsonObject& root, std::size_t index, const JsonValue& element) {
                         members_before = root.size();
                         indices.push_back(index);
                         EXPECT_EQ(element.As<JsonList>() != nullptr, index == 1);
                       }});
  builder.BeginObject();
  builder.Key("first");
  builder.Scalar(Number(7));
  builder.Key("ops");
  builder.BeginList();
  builder.Scalar(Number(5));
  EXPECT_EQ(builder.Place(), "ops[1]");
  builder.BeginList();
  builder.Scalar(Number(6));
  builder.End();
  builder.End();
  builder.Key("last");
  builder.BeginObject();
  builder.Key("ops");
  builder.BeginList();
  builder.Scalar(Number(8));
  builder.End();
  builder.End();
  builder.End();
  EXPECT_THAT(indices, ::testing::ElementsAre(0, 1));
  EXPECT_EQ(members_before, 1U);
  const JsonValue value = builder.Take();
  EXPECT_TRUE((*value.As<JsonObject>())[1].value.As<JsonList>()->empty());
}

TEST(JsonValueTest, RefusesWhatIsNestedTooDeeply) {
  JsonBuilder builder;
  for (std::size_t i = 0; i < JsonBuilder::kMaxDepth; ++i) builder.BeginList();
  EXPECT_THAT(ErrorOf([&] { builder.BeginList(); }),
              ::testing::EndsWith("[0]: is nested too deeply (at most 64 levels)"));
}

TEST(JsonValueTest, PlacesQuoteWhatIsNoPlainWord) {
  EXPECT_EQ(PlaceOfKey("", "ops"), "ops");
  EXPECT_EQ(PlaceOfKey("a", "time_us"), "a.time_us");
  EXPECT_EQ(PlaceOfKey("a", "xeon-e5"), "a.xeon-e5");
  EXPECT_EQ(PlaceOfKey("a", "conv0/w"), R"(a["conv0/w"])");
  EXPECT_EQ(PlaceOfKey("a", ""), R"(a[""])");
  EXPECT_EQ(PlaceOfMember("a", "b"), R"(a["b"])");
  EXPECT_EQ(PlaceOfIndex("a", 3), "a[3]");
}

TEST(JsonValueTest, PathsOfKeysAndIndicesLeadToValues) {
  const JsonValue root = ParseJson(R"({"a": {"b": [1, [2, 3]], "c": "text"}, "d": [{"e": 4}], "f[0]": 5})");
  const auto at = [&root](std::string_view path) {
    const JsonValue* value = FindPath(root, path);
    return value == nullptr ? "nothing" : JsonText(*value);
  };
  EXPECT_EQ(at("a.c"), "\"text\"");
  EXPECT_EQ(at("a.b"), "[1,[2,3]]");
  EXPECT_EQ(at("a.b[1][0]"), "2");
  EXPECT_EQ(at("d[0].e"), "4");
  EXPECT_EQ(at("f[0]"), "5");
  EXPECT_EQ(FindPath(root, ""), &root);
  for (const char* const path : {"a.d", "a.c.d", "b", "a.b[2]", "a.b[-1]", "a.b[]", "a.b[1", "a.c[0]", "a.b]", "[0]"}) {
    EXPECT_EQ(at(path), "nothing") << path;
  }
  EXPECT_EQ(FindMember(root, "a"), FindPath(root, "a"));
  EXPECT_EQ(FindMember(*FindPath(root, "a.c"), "a"), nullptr);
}

}  // namespace
}  // namespace emplace
