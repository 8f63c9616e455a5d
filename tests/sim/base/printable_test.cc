#include "sim/base/printable.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/base/check.h"

namespace emplace {
namespace {

TEST(PrintableTest, WhatIsPrintableStays) {
  for (const std::string text : {"", "plain \"text\" \\ with 'marks'", "gr\u00fc\u00df \u4f60\u597d \U0001f600"}) {
    EXPECT_EQ(Printable(text), text);
  }
}

TEST(PrintableTest, ControlsOfBothSetsAreEscaped) {
  EXPECT_EQ(Printable("a\nb\tc\rd\x1b[31m\x7f"), "a\\nb\\tc\\u000dd\\u001b[31m\\u007f");
  EXPECT_EQ(Printable(std::string("a\0b", 3)), "a\\u0000b");
  // U+0080 to U+009F; U+009B begins a terminal command.
  EXPECT_EQ(Printable("\u0080\u009b2J\u009f\u00a0"), "\\u0080\\u009b2J\\u009f\u00a0");
}

TEST(PrintableTest, MarksThatTurnTheDirectionAndEndsOfLinesAreEscaped) {
  EXPECT_EQ(Printable("\u061c\u200e\u200f"), "\\u061c\\u200e\\u200f");
  EXPECT_EQ(Printable("\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u202f"),
            "\\u2028\\u2029\\u202a\\u202b\\u202c\\u202d\\u202e\u202f");
  EXPECT_EQ(Printable("\u2065\u2066\u2067\u2068\u2069"), "\u2065\\u2066\\u2067\\u2068\\u2069");
}

TEST(PrintableTest, BytesThatAreNoUtf8AreEscapedOneByOne) {
  // A single byte, a long form of '/', half a surrogate pair, the beginning of a character.
  EXPECT_EQ(Printable("\x80"), "\\x80");
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(Printable("a\xe2\x82"), "a\\xe2\\x82");
  EXPECT_EQ(Printable("\xe2\x82\xac"), "\u20ac");
}

TEST(PrintableTest, WhatIsPrintableAlreadyStaysAsItIs) {
  const std::string once = Printable("a\n\x1b\u202e\xff\\n");
  EXPECT_EQ(Printable(once), once);
}

TEST(PrintableTest, AnInputErrorIsPrintable) {
  const InputError error("a\nb", "is \x1b[31m\u202e");
  EXPECT_STREQ(error.what(), "a\\nb: is \\u001b[31m\\u202e");
  EXPECT_STREQ(error.In("\u009b").what(), "\\u009b: a\\nb: is \\u001b[31m\\u202e");
}

// The Unicode standard, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.
TEST(PrintableTest, ALongTextIsShortenedInTheMiddle) {
  const std::string text = std::string(3000, 'a') + std::string(1000, 'b');
  EXPECT_EQ(Shortened(text), text);
  EXPECT_EQ(Shortened(std::string(3000, 'a') + std::string(1'000'000, 'x') + std::string(1000, 'b')),
            std::string(3000, 'a') + "..." + std::string(1000, 'b'));
  // Not inside a character.
  std::string wide;
  for (int i = 0; i < 3000; ++i) wide += "\u20ac";
  for (const char* const begin : {"", "a", "ab"}) {
    const std::string shortened = Shortened(begin + wide);
    EXPECT_LE(shortened.size(), 4003U);
    EXPECT_EQ(Printable(shortened), shortened);
  }
  EXPECT_LE(std::string(InputError(std::string(1 << 20, 'k'), "unknown key (name, kind)").what()).size(), 4003U);
  EXPECT_TRUE(
      std::string(InputError(std::string(1 << 20, 'k'), "unknown key (a)").what()).ends_with("kkk: unknown key (a)"));
}

TEST(PrintableTest, WellFormedSequencesHaveTheirLength) {
  EXPECT_EQ(Utf8Length("a"), 1U);
  EXPECT_EQ(Utf8Length("\u00e9t"), 2U);
  EXPECT_EQ(Utf8Length("\u20ac"), 3U);
  EXPECT_EQ(Utf8Length("\U0001f600"), 4U);
  for (const std::string_view broken : {"", "\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    EXPECT_EQ(Utf8Length(broken), 0U) << Printable(broken);
  }
}

TEST(PrintableTest, CountsAreEnglish) {
  EXPECT_EQ(Counted(1, "trial"), "1 trial");
  EXPECT_EQ(Counted(0, "trial"), "0 trials");
  EXPECT_EQ(Counted(2, "process"), "2 processes");
  EXPECT_EQ(Counted(4, "micro-batch"), "4 micro-batches");
}

}  // namespace
}  // namespace emplace
