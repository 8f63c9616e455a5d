#include "agents/saved_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/check.h"

namespace emplace {
namespace {

TEST(SavedTextTest, WeightsAreKeptToTheBit) {
  const std::vector<float> weights = {0.1F, -0.0F, 1e-45F, -3e38F, 10.0F};
  std::stringstream stream;
  agents::SaveFloats(stream, weights);
  stream << "next";
  EXPECT_EQ(agents::LoadFloats(stream), weights);
  EXPECT_NO_THROW(agents::ExpectWord(stream, "next"));
  std::istringstream cut("3 abcdefgh");
  EXPECT_THROW(agents::LoadFloats(cut), InputError);
}

TEST(SavedTextTest, NumbersAndHeadsAreReadAsTheyAreWritten) {
  const auto number = [](const std::string& text) {
    std::istringstream in(text);
    return agents::LoadNumber(in);
  };
  EXPECT_EQ(number("0"), 0U);
  EXPECT_EQ(number(" \n18446744073709551615 "), ~std::uint64_t{0});
  for (const char* const text : {"", "x", "-1", "+1", "01", "18446744073709551616", "184467440737095516150"}) {
    EXPECT_THROW(number(text), InputError) << text;
  }
  std::istringstream in("emplace.thing 5 rest");
  EXPECT_NO_THROW(agents::ExpectHead(in, "emplace.thing", "5"));
  EXPECT_NO_THROW(agents::ExpectWord(in, "rest"));
}

TEST(SavedTextTest, ATextOfAnyCharactersIsKeptAndALongerOneRefused) {
  std::stringstream stream;
  agents::SaveText(stream, "two\nlines ");
  stream << "next";
  EXPECT_EQ(agents::LoadText(stream, 10), "two\nlines ");
  EXPECT_NO_THROW(agents::ExpectWord(stream, "next"));
  std::istringstream longer("11 two\nlines !");
  EXPECT_THROW(agents::LoadText(longer, 10), InputError);
}

}  // namespace
}  // namespace emplace
