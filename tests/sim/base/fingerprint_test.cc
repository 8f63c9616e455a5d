#include "sim/base/fingerprint.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

TEST(FingerprintTest, PiecesAreToldApartAndOneTextIsOnePiece) {
  Fingerprint one;
  one.Add("ab");
  one.Add("c");
  Fingerprint other;
  other.Add("a");
  other.Add("bc");
  EXPECT_NE(one.value(), other.value());
  Fingerprint text;
  text.Add("abc");
  EXPECT_EQ(FingerprintOf("abc"), text.value());
}

// FNV-1a of one byte of 0, the end of an empty piece: the offset basis times the prime, modulo 2^64.
TEST(FingerprintTest, AnEmptyTextHasTheValueOfOneStep) {
  EXPECT_EQ(FingerprintOf(""), 0xcbf29ce484222325ULL * 0x100000001b3ULL);
  EXPECT_EQ(FingerprintText(""), "af63bd4c8601b7df");
}

}  // namespace
}  // namespace emplace
