#include "sim/base/json_struct.h"

#include <gmock/gmock.h>

#include <string>

#include "sim/base/json_text.h"
#include "tests/testing/errors.h"

namespace emplace::testing {

enum class Colour { kRed, kBlue };

struct Dot {
  double x = 0;
  std::optional<double> y = {};
  Colour colour = Colour::kRed;

  static void Fields(auto& visit, auto& self) {
    visit("x", self.x, {.needed = "a number", .low = -5, .high = 5});
    visit("y", self.y, {.optional = true});
    visit("colour", self.colour, {.optional = true, .written = self.colour != Colour::kRed});
  }
};

struct Drawing {
  std::string title;
  std::vector<Dot> dots;
  std::pair<double, std::string> scale;
  OptionMap set;
  bool open = false;
  std::optional<std::uint64_t> count;

  static void Fields(auto& visit, auto& self) {
    visit("title", self.title, {.null_if_empty = true});
    visit("dots", self.dots, {.allowed = "at least one dot", .not_empty = true});
    visit("scale", self.scale, {.allowed = "[factor, unit]"});
    visit("set", self.set, {.optional = true, .written = !self.set.empty(), .integers = true});
    visit("ends", self.open, {.optional = true, .written = self.open, .word = "open"});
    visit("count", self.count, {.written = self.count.has_value(), .most = 9, .unless = "dots"});
  }
};

}  // namespace emplace::testing

namespace emplace {

template <>
struct EnumNames<testing::Colour> {
  static constexpr std::pair<testing::Colour, std::string_view> kNames[] = {{testing::Colour::kRed, "red"},
                                                                            {testing::Colour::kBlue, "blue"}};
  static constexpr std::string_view kAllowed = "red or blue";
};

namespace testing {
namespace {

Drawing Read(const std::string& text) { return ReadFields<Drawing>(JsonNode(ParseJson(text))); }

std::string RefusalOfJson(const std::string& text) {
  return ErrorOf([&text] { Read(text); });
}

TEST(JsonStructTest, OneListWritesAndReads) {
  for (const std::string text :
       {R"({"title":null,"dots":[{"x":1,"y":null}],"scale":[2,"mm"]})",
        R"({"title":"t","dots":[{"x":1.5,"y":7},{"x":2,"y":null,"colour":"blue"}],"scale":[0.5,"m"],)"
        R"("set":{"a":3,"b":"c"},"ends":"open","count":9})"}) {
    EXPECT_EQ(JsonText({FieldsToJson(Read(text))}), text);
  }
}

TEST(JsonStructTest, WhatDoesNotFitTheListIsRefused) {
  const std::string scale = R"(,"scale":[2,"mm"])";
  const std::string dots = R"({"title":"t","dots":[{"x":1}])";
  EXPECT_EQ(RefusalOfJson("{}"), "title: is missing");
  EXPECT_EQ(RefusalOfJson(dots + R"(,"scales":3})"),
            "scales: unknown key (title, dots, scale, set, ends, count); did you mean scale?");
  EXPECT_EQ(RefusalOfJson(R"({"title":3})"), "title: is the number 3 (a string)");
  EXPECT_EQ(RefusalOfJson(R"({"title":"t","dots":[]})"), "dots: is a list of 0 elements (at least one dot)");
  EXPECT_EQ(RefusalOfJson(R"({"title":"t","dots":[{}]})"), "dots[0].x: is missing (a number)");
  EXPECT_EQ(RefusalOfJson(R"({"title":"t","dots":[{"x":6}]})"), "dots[0].x: is the number 6 (a number from -5 to 5)");
  EXPECT_EQ(RefusalOfJson(R"({"title":"t","dots":[{"x":1,"colour":"pink"}]})"),
            "dots[0].colour: is the text \"pink\" (red or blue)");
  EXPECT_EQ(RefusalOfJson(dots + R"(,"scale":[2]})"), "scale: is a list of 1 element ([factor, unit])");
  EXPECT_EQ(RefusalOfJson(dots + scale + R"(,"set":{"a":[]}})"),
            "set.a: is not a plain value (a string, a number, true or false)");
  EXPECT_EQ(RefusalOfJson(dots + scale + R"(,"count":10})"), "count: is the number 10 (an integer from 0 to 9)");
  EXPECT_EQ(RefusalOfJson(dots + scale + R"(,"count":null})"), "count: is null (an integer from 0 to 9)");
}

TEST(JsonStructTest, TheCallerMayReadFurtherKeys) {
  const JsonValue root = ParseJson(R"({"version":1,"x":1,"checksum":"a"})");
  EXPECT_EQ(ReadFields<Dot>(JsonNode(root), {"version"}, {"checksum"}).x, 1);
  EXPECT_EQ(ErrorOf([&root] { ReadFields<Dot>(JsonNode(root), {"version"}); }),
            "checksum: unknown key (version, x, y, colour)");
}

TEST(JsonStructTest, AnEnumHasItsNameInAFile) {
  EXPECT_EQ(ReadEnum<Colour>(JsonNode(ParseJson("\"blue\""))), Colour::kBlue);
  EXPECT_EQ(NameOf(Colour::kRed), "red");
  EXPECT_EQ(EnumOfName<Colour>("green"), std::nullopt);
  EXPECT_EQ(ErrorOf([] { ReadEnum<Colour>(JsonNode(ParseJson("\"green\""))); }),
            ErrorOf([] { JsonNode(ParseJson("\"green\"")).Refuse("red or blue"); }));
}

}  // namespace
}  // namespace testing
}  // namespace emplace
