#include "agents/saved_text.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "sim/base/check.h"

namespace emplace {
namespace {

TEST(SavedTextTest, WeightsAreKeptToTheBit) {
  const std::vector<float> weights = {0.1F, -0.0F, 1e-45F, -3e38F, 10.0F};
  std::stringstream stream;
  SaveFloats(stream, weights);
  stream << "next";
  EXPECT_EQ(LoadFloats(stream), weights);
  EXPECT_NO_THROW(ExpectWord(stream, "next"));
  std::istringstream cut("3 abcdefgh");
  EXPECT_THROW(LoadFloats(cut), InputError);
}

TEST(SavedTextTest, ATextOfAnyCharactersIsKeptAndALongerOneRefused) {
  std::stringstream stream;
  SaveText(stream, "two\nlines ");
  stream << "next";
  EXPECT_EQ(LoadText(stream, 10), "two\nlines ");
  EXPECT_NO_THROW(ExpectWord(stream, "next"));
  std::istringstream longer("11 two\nlines !");
  EXPECT_THROW(LoadText(longer, 10), InputError);
}

}  // namespace
}  // namespace emplace
