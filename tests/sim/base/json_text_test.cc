#include "sim/base/json_text.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "sim/base/json_fields.h"
#include "sim/base/rng.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;
using ::testing::StartsWith;

std::string Compact(const std::string& text) {
  std::string out;
  AppendJson(&out, ParseJson(text));
  return out;
}

std::string QuotedJson(const std::string& text) {
  std::string out;
  AppendQuoted(&out, text);
  return out;
}

TEST(JsonStringTest, IsQuotedAndEscaped) { EXPECT_EQ(JsonString("a\"b\n"), "\"a\\\"b\\n\""); }

TEST(JsonTextTest, WritesNumbersInTheShortestFormThatReadsBack) {
  EXPECT_EQ(NumberText(0.1), "0.1");
  EXPECT_EQ(NumberText(812.4), "812.4");
  EXPECT_EQ(NumberText(9100.0), "9100");
  EXPECT_EQ(NumberText(1227626496.0), "1227626496");
  EXPECT_EQ(NumberText(1e21), "1e+21");
  EXPECT_EQ(NumberText(-0.0), "0");
  EXPECT_EQ(NumberText(std::numeric_limits<double>::denorm_min()), "5e-324");
  Rng rng(1);
  for (int i = 0; i < 10'000; ++i) {
    const auto number = std::bit_cast<double>(rng.Next());
    if (!std::isfinite(number)) continue;
    const JsonValue read = ParseJson(NumberText(number));
    constexpr double kMax = std::numeric_limits<double>::max();
    EXPECT_EQ(JsonNode(read).Number(-kMax, kMax), number);
  }
}

TEST(JsonTextTest, EscapesWhatJsonDoesNotHold) {
  EXPECT_EQ(QuotedJson("a\"b\\c\n\t\x01\x7f/é"), "\"a\\\"b\\\\c\\n\\t\\u0001\\u007f/é\"");
  EXPECT_EQ(*ParseJson(QuotedJson("a\"b\\c\n\t\x01\x7f/é")).As<std::string>(), "a\"b\\c\n\t\x01\x7f/é");
  std::string unchecked;
  AppendQuotedUtf8(&unchecked, "a\"b\x01é");
  EXPECT_EQ(unchecked, QuotedJson("a\"b\x01é"));
  EXPECT_THAT(ErrorOf([] { QuotedJson("\xff"); }), StartsWith("the text \"\\xff\" is not valid UTF-8"));
}

TEST(JsonTextTest, KnowsWellFormedUtf8) {
  for (const std::string good : {"", "a", "é", "€", "😀", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsValidUtf8(good)) << good;
  }
  // A lone continuation byte, truncated sequences, overlong forms, a surrogate, above U+10FFFF.
  for (const std::string bad : {"\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xc0\x80", "\xe0\x80\x80",
                                "\xf0\x80\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "é\xff"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << bad;
  }
}

TEST(JsonTextTest, QuotesForMessagesAreCutShortBetweenCharacters) {
  EXPECT_EQ(Quoted("a\"b"), R"("a\"b")");
  const std::string quoted = Quoted(std::string(119, 'x') + "éé");  // byte 120 is inside the first é
  EXPECT_EQ(quoted, "\"" + std::string(119, 'x') + "...\"");
}

TEST(JsonTextTest, BehindTheDocumentThereIsOnlyWhiteSpace) {
  EXPECT_EQ(Compact("{} \t\r\n\n"), "{}");
  const auto refusal = [](const std::string& text) { return ErrorOf([&] { ParseJson(text); }); };
  const std::string nul(1, '\0');
  const std::string said = "not valid JSON: a NUL byte (nothing but white space behind the document)";
  EXPECT_EQ(refusal("{\"a\": 1}" + nul), "line 1, column 9: " + said);
  EXPECT_EQ(refusal("{\"a\": 1}\n\n  " + nul + "{}"), "line 3, column 3: " + said);
  EXPECT_EQ(refusal("{\"a\": " + nul + "1}"), "line 1, column 7: " + said);
  EXPECT_EQ(refusal(nul), "line 1, column 1: " + said);
  EXPECT_THAT(refusal("\"a" + nul + "b\""), StartsWith("line 1, column 3: not valid JSON: a control character"));
  EXPECT_THAT(refusal("{} {}"), StartsWith("line 1, column 4: not valid JSON: "));
  EXPECT_THAT(refusal("1 x"), StartsWith("line 1, column 3: not valid JSON: "));
  // When escaped, it is an ordinary character.
  EXPECT_EQ(*ParseJson(R"("a\u0000b")").As<std::string>(), "a" + nul + "b");
}

TEST(JsonTextTest, ATextOrNumberHasALimit) {
  const auto refusal = [](const std::string& text) {
    return ErrorOf([&] {
      std::istringstream in(text);
      ParseJson(in, {}, {.text_bytes = 10});
    });
  };
  // The end of a text matters, its beginning does not.
  EXPECT_EQ(refusal(R"({"a\"345678": [1234567890, "123456789", true]})"), "(no error)");
  EXPECT_EQ(refusal(R"(["1234567890"])"), "(no error)");
  EXPECT_EQ(refusal(R"(["12345678901"])"),
            "line 1, column 14: is in a text or number that is too long (at most 10 bytes)");
  EXPECT_EQ(refusal("[\n12345678901]"),
            "line 2, column 11: is in a text or number that is too long (at most 10 bytes)");
  EXPECT_EQ(refusal(R"({"a\"345678\"01": 1})"),
            "line 1, column 16: is in a text or number that is too long (at most 10 bytes)");
  EXPECT_EQ(refusal(std::string(1000, ' ') + "1"), "(no error)");
}

TEST(JsonTextTest, ADocumentHasALimitOfValues) {
  const auto refusal = [](const std::string& text, JsonBuilder::Streamed streamed = {}) {
    return ErrorOf([&] {
      std::istringstream in(text);
      ParseJson(in, std::move(streamed), {.values = 3});
    });
  };
  EXPECT_EQ(refusal("[1, 2, 3]"), "(no error)");
  EXPECT_EQ(refusal("[1, 2, 3, 4]"), "[3]: is one value too many (at most 3 of them)");
  EXPECT_EQ(refusal(R"({"a": [1, 2, 3]})"), "a: is one value too many (at most 3 of them)");
  // Values that were taken are freed.
  const auto take = [](const JsonObject&, std::size_t, const JsonValue&) {};
  EXPECT_EQ(refusal(R"({"a": [1, [2], [3], [4, 5], 6], "b": 7})", {"a", take}), "(no error)");
  EXPECT_EQ(refusal(R"({"a": [1, [2, 3, 4, 5]]})", {"a", take}), "a[1][3]: is one value too many (at most 3 of them)");
}

TEST(JsonTextTest, KeepsKeysInOrderAndValuesAsTheyAre) {
  EXPECT_EQ(Compact(R"( {"z": [1, -2, 2.50, 1e3], "a": {"b": null, "c": true}, "s": "x\u00e9"} )"),
            R"({"z":[1,-2,2.5,1000],"a":{"b":null,"c":true},"s":"xé"})");
  EXPECT_EQ(Compact("18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(Compact("36893488147419103232"), "36893488147419103232");
  EXPECT_EQ(Compact("[]"), "[]");
  EXPECT_EQ(Compact("{}"), "{}");
}

TEST(JsonTextTest, CompactTextIsWhatParsingAndWritingMakes) {
  const std::string text = R"( {"z": [1, -2, 2.50, [], {}, 1e3], "a": {"b": null, "c": [true, {"d": "\u00e9\n"}]},
                                "n": 18446744073709551615, "s": ""} )";
  std::string out = "before ";
  AppendCompact(&out, text);
  EXPECT_EQ(out, "before " + Compact(text));
  for (const std::string scalar : {"1", "-0.0", "\"x\"", "null", "[[1],[2,3]]"}) {
    out.clear();
    AppendCompact(&out, scalar);
    EXPECT_EQ(out, Compact(scalar));
  }
  EXPECT_THROW(AppendCompact(&out, "[1,"), JsonSyntaxError);
  EXPECT_THAT(ErrorOf([&] { AppendCompact(&out, std::string(65, '[')); }), StartsWith("is nested too deeply"));
}

// Blocks of 64 KiB are read: places and texts on both sides of their ends.
TEST(JsonTextTest, ReadsAcrossBlocks) {
  for (const std::size_t before : {65'520U, 65'530U, 65'535U, 65'536U, 65'537U, 131'072U}) {
    const std::string spaces = "[" + std::string(before - 1, ' ');
    std::istringstream good(spaces + R"("text of some length", 1234567890123, "\u00e9é"])");
    EXPECT_EQ(JsonText(ParseJson(good)), R"(["text of some length",1234567890123,"éé"])");
    const auto refusal = [&](const std::string& text) {
      return ErrorOf([&] {
        std::istringstream in(text);
        ParseJson(in);
      });
    };
    EXPECT_THAT(refusal("\n" + spaces + "x]"),
                StartsWith("line 2, column " + std::to_string(before + 1) + ": not valid JSON"));
    EXPECT_THAT(refusal(spaces + "\n\n1, x]"), StartsWith("line 3, column 4: not valid JSON"));
    EXPECT_THAT(refusal(spaces + R"("\x"])"), StartsWith("line 1, column " + std::to_string(before + 2)));
    EXPECT_EQ(refusal(spaces + "12345e678]"), R"([0]: is the number "12345e678" (a number below 1.8e308))");
    EXPECT_THAT(refusal(spaces),
                StartsWith("line 1, column " + std::to_string(before + 1) + ": not valid JSON: it ends"));
  }
}

TEST(JsonTextTest, TheLimitIsOfOneTextNotOfWhatStandsBetween) {
  const auto refusal = [](const std::string& text) {
    return ErrorOf([&] {
      std::istringstream in(text);
      ParseJson(in, {}, {.text_bytes = 100'000});
    });
  };
  std::string lists;
  for (int i = 0; i < 100'000; ++i) lists += "[],\n";
  EXPECT_EQ(refusal("[" + lists + "1]"), "(no error)");
  EXPECT_EQ(refusal("[1," + std::string(90'000, ' ') + "\"" + std::string(100'000, 'x') + "\"]"), "(no error)");
  // White space may be no longer than a text: a file of blanks would be read to its end.
  EXPECT_THAT(refusal("[1," + std::string(400'000, ' ') + "2]"),
              ::testing::EndsWith("is in white space that is too long (at most 100000 bytes)"));
  // While it is read: the text begins at column 2 of line 100,002.
  const std::string said = "is in a text or number that is too long (at most 100000 bytes)";
  for (const char filler : {'x', ' ', ','}) {
    EXPECT_EQ(refusal("[" + lists + "\n\"" + std::string(400'000, filler) + "\"]"),
              "line 100002, column 100002: " + said);
  }
}

TEST(JsonTextTest, SaysWhatIsWrongWithABrokenText) {
  const auto refusal = [](const std::string& text) { return ErrorOf([&] { ParseJson(text); }); };
  const std::string control = "not valid JSON: a control character in a text (an escape, such as \\n)";
  EXPECT_EQ(refusal("[\"a\nb\"]"), "line 1, column 4: " + control);
  EXPECT_EQ(refusal("[\"a\x01\"]"), "line 1, column 4: " + control);
  EXPECT_THAT(refusal(R"(["a\x"])"), ::testing::HasSubstr("line 1, column 4: not valid JSON: invalid escape"));
  EXPECT_THAT(refusal("[\"a\xff\"]"), ::testing::HasSubstr("not valid JSON: ill-formed UTF-8 in a text"));
  const std::string nul(1, '\0');
  EXPECT_EQ(refusal("[1e400" + nul + "]"), R"([0]: is the number "1e400" (a number below 1.8e308))");
}

TEST(JsonTextTest, HalfOfASurrogatePairIsNoText) {
  EXPECT_EQ(Compact(R"("\ud83d\ude00")"), "\"😀\"");
  for (const std::string half : {R"("\ud83d")", R"("\ude00")", R"("\ud83dx")", R"(["\ude00\ud83d"])"}) {
    EXPECT_THROW(Compact(half), JsonSyntaxError) << half;
  }
}

TEST(JsonTextTest, TellsASyntaxErrorFromOtherFaults) {
  EXPECT_THROW(ParseJson("{"), JsonSyntaxError);
  EXPECT_THROW(ParseJson(""), JsonSyntaxError);
  EXPECT_THROW(ParseJson("{} {}"), JsonSyntaxError);
  EXPECT_EQ(ErrorOf([] { ParseJson(R"({"a": [0, 1e400]})"); }),
            R"(a[1]: is the number "1e400" (a number below 1.8e308))");
  try {
    ParseJson(R"({"a": 1, "a": 2})");
    FAIL() << "a duplicate key was taken";
  } catch (const JsonSyntaxError& error) {
    FAIL() << error.what();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "a: duplicate key (each key once)");
  }
}

// The content of a document, as one line for each event.
class Listing : public JsonEvents {
 public:
  void Null() override { Add("null"); }
  void Flag(bool value) override { Add(value ? "true" : "false"); }
  void Integer(std::int64_t value) override { Add("i" + std::to_string(value)); }
  void Integer(std::uint64_t value) override { Add("u" + std::to_string(value)); }
  void Number(double, std::string_view text) override { Add("n" + std::string(text)); }
  void Text(std::string_view text) override { Add("'" + std::string(text)); }
  void BeginList() override { Add("["); }
  void BeginObject() override { Add("{"); }
  void Key(std::string_view key) override { Add(std::string(key) + ":"); }
  void End() override { Add("."); }
  std::string Place() const override { return "event " + std::to_string(count_); }
  const std::string& text() const { return text_; }

 private:
  void Add(const std::string& event) {
    ++count_;
    text_ += event + " ";
  }
  std::string text_;
  std::size_t count_ = 0;
};

TEST(ReadJsonEventsTest, TellsOfEveryValueInOrder) {
  std::istringstream in(R"({"a": [1, -2, 18446744073709551615, 2.50, 1e3, "x", null], "b": {"c": true}} )");
  Listing listing;
  ReadJsonEvents(in, &listing);
  EXPECT_EQ(listing.text(), "{ a: [ i1 i-2 u18446744073709551615 n2.50 n1e3 'x null . b: { c: true . . ");
}

TEST(ReadJsonEventsTest, RefusesWhatParseJsonRefuses) {
  const auto refusal = [](const std::string& text, std::size_t most = 100) {
    return ErrorOf([&] {
      std::istringstream in(text);
      Listing listing;
      ReadJsonEvents(in, &listing, most);
    });
  };
  EXPECT_THAT(refusal("[1, x]"), StartsWith("line 1, column 5: not valid JSON: "));
  EXPECT_EQ(refusal("[1, 1e400]"), R"(event 2: is the number "1e400" (a number below 1.8e308))");
  EXPECT_THAT(refusal("[\"" + std::string(50, 'x') + "\"]", 20), ::testing::HasSubstr("too long (at most 20 bytes)"));
}

TEST(JsonTextTest, SaysLineAndColumn) {
  EXPECT_THAT(ErrorOf([] { ParseJson("{\n \"a\": x}"); }), StartsWith("line 2, column 7: not valid JSON: "));
}

}  // namespace
}  // namespace emplace
