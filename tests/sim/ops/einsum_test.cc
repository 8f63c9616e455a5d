#include "sim/ops/einsum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;
using ::testing::Pair;

using Shapes = std::vector<std::vector<std::int64_t>>;

TEST(EinsumTest, AnEquationHasATermForEachTensor) {
  const EinsumTerms terms = SplitEinsum(" b...i, ij -> b...j");
  EXPECT_THAT(terms.inputs, ElementsAre("b...i", "ij"));
  EXPECT_EQ(terms.output, "b...j");
  EXPECT_THAT(SplitEinsum("ij,").inputs, ElementsAre("ij", ""));
  EXPECT_EQ(SplitEinsum("ij,").output, std::nullopt);
  EXPECT_THAT(SplitEinsum("").inputs, ElementsAre(""));
  EXPECT_EQ(SplitEinsum("i->").output, "");
}

TEST(EinsumTest, DimensionsHaveLettersOrAPositionFromTheLast) {
  EXPECT_THAT(EinsumLabels("bi", 2), Optional(ElementsAre(Pair('b', 0), Pair('i', 0))));
  EXPECT_THAT(EinsumLabels("b...I", 4),
              Optional(ElementsAre(Pair('b', 0), Pair('\0', 1), Pair('\0', 0), Pair('I', 0))));
  EXPECT_THAT(EinsumLabels("b...", 1), Optional(ElementsAre(Pair('b', 0))));
  EXPECT_THAT(EinsumLabels("", 0), Optional(ElementsAre()));
  for (const char* const wrong : {"b", "bij", "b.", "..b", "bi...j", "......", "b1", "b,", "->"}) {
    EXPECT_EQ(EinsumLabels(wrong, 2), std::nullopt) << wrong;
  }
}

TEST(EinsumTest, TheOutputHasAShapeFromTheEquation) {
  EXPECT_THAT(EinsumShape("bij -> ijb", {{2, 3, 5}}), Optional(ElementsAre(3, 5, 2)));
  EXPECT_THAT(EinsumShape("bij,bjk->bik", {{2, 3, 5}, {2, 5, 7}}), Optional(ElementsAre(2, 3, 7)));
  EXPECT_THAT(EinsumShape("bij,bij->bj", {{2, 3, 1}, {2, 1, 5}}), Optional(ElementsAre(2, 5)));
  EXPECT_THAT(EinsumShape("i,i->i", {{0}, {1}}), Optional(ElementsAre(0)));
  EXPECT_THAT(EinsumShape("ii->i", {{4, 4}}), Optional(ElementsAre(4)));
}

TEST(EinsumTest, WithoutAnArrowTheOutputHasTheLettersThatOccurOnce) {
  EXPECT_THAT(EinsumShape("jbi", {{2, 3, 5}}), Optional(ElementsAre(3, 5, 2)));
  EXPECT_THAT(EinsumShape("ij,jk", {{2, 3}, {3, 4}}), Optional(ElementsAre(2, 4)));
  EXPECT_THAT(EinsumShape("ii", {{4, 4}}), Optional(ElementsAre()));
  EXPECT_THAT(EinsumShape("j...i", {{2, 3, 4, 5}}), Optional(ElementsAre(3, 4, 5, 2)));
}

TEST(EinsumTest, DimensionsWithoutALetterAreBroadcastFromTheLast) {
  EXPECT_THAT(EinsumShape("...ij,...jk", {{6, 2, 3, 4}, {2, 4, 5}}), Optional(ElementsAre(6, 2, 3, 5)));
  EXPECT_THAT(EinsumShape("b...,...->...b", {{2, 3, 5}, {5}}), Optional(ElementsAre(3, 5, 2)));
  EXPECT_THAT(EinsumShape("...ij->i...", {{3, 5}}), Optional(ElementsAre(3)));
  EXPECT_THAT(EinsumShape("...,...->...", {{3, 1}, {1, 5}}), Optional(ElementsAre(3, 5)));
}

TEST(EinsumTest, WhatDoesNotFitHasNoShape) {
  for (const char* const wrong : {"bi->ib", "bijk->k", "bij->q", "bij->bb", "bbi->i", "bij,bij->b", "bij,", "",
                                  "b...->b", "bi1", "b->", "->", "bij->b->i"}) {
    EXPECT_EQ(EinsumShape(wrong, Shapes{{2, 3, 5}}), std::nullopt) << wrong;
  }
  for (const char* const wrong : {"bij", "bij,bik->k", "...ij,...", "bij,bij,bij"}) {
    EXPECT_EQ(EinsumShape(wrong, Shapes{{2, 3, 5}, {4, 7, 5}}), std::nullopt) << wrong;
  }
  EXPECT_EQ(EinsumShape("", {}), std::nullopt);
}

}  // namespace
}  // namespace emplace::testing
