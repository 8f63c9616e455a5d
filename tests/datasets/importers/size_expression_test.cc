#include "datasets/importers/size_expression.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/testing/errors.h"

namespace emplace::testing {
namespace {

using datasets::EvaluateSize;
using datasets::SizeSymbols;
using datasets::SolveSize;
using datasets::SymbolsIn;

std::int64_t SizeOf(const std::string& text, const SizeSymbols& symbols = {{"s0", 7}, {"s1", 3}}) {
  std::string missing;
  return EvaluateSize(text, symbols, &missing).value();
}

TEST(SizeExpressionTest, BothNotationsOfSympyAreRead) {
  EXPECT_EQ(SizeOf("Mul(Integer(2), Symbol('s0', positive=True, integer=True))"), 14);
  EXPECT_EQ(SizeOf("Add(Symbol('s1', integer=True), Mul(Integer(-1), Integer(1)), evaluate=False)"), 2);
  EXPECT_EQ(SizeOf("2*s0 + 1"), 15);
  EXPECT_EQ(SizeOf("s0**2 - s1"), 46);
  EXPECT_EQ(SizeOf("-s1 + 10"), 7);
  EXPECT_EQ(SizeOf("2*((s0//2))"), 6);
  EXPECT_EQ(SizeOf("(s0 + 1)/2 % 3"), 1);
}

TEST(SizeExpressionTest, DivisionsRoundAsTheirNamesSay) {
  EXPECT_EQ(SizeOf("FloorDiv(s0, 2)"), 3);
  EXPECT_EQ(SizeOf("CeilDiv(s0, 2)"), 4);
  EXPECT_EQ(SizeOf("FloorDiv(-7, 2)"), -4);
  EXPECT_EQ(SizeOf("TruncToInt(Rational(-7, 2))"), -3);
  EXPECT_EQ(SizeOf("floor(s0/2) + ceiling(s0/2)"), 7);
  EXPECT_EQ(SizeOf("Mod(s0, 4)"), 3);
  EXPECT_EQ(SizeOf("PythonMod(-7, 4)"), 1);
  EXPECT_EQ(SizeOf("ModularIndexing(s0, 2, 2)"), 1);  // 7 // 2 is 3, of 2 the rest is 1
  EXPECT_EQ(SizeOf("Max(1, s0, s1) - Min(s0, s1)"), 4);
  EXPECT_EQ(SizeOf("Mul(Rational(1, 2), Pow(s1 + 1, 2))"), 8);  // exact on the way
}

TEST(SizeExpressionTest, AMissingSymbolIsNamed) {
  std::string missing;
  EXPECT_FALSE(EvaluateSize("s0 // (u0 - 1)", {{"s0", 7}}, &missing).has_value());
  EXPECT_EQ(missing, "u0");
  EXPECT_EQ(SymbolsIn("Mul(Symbol('s1'), s0) + s0"), (std::set<std::string>{"s0", "s1"}));
}

TEST(SizeExpressionTest, WhatIsNoSizeIsRefused) {
  const auto error = [](const std::string& text) { return ErrorOf([&] { SizeOf(text); }); };
  EXPECT_EQ(error("2*"), "size \"2*\" is not a size (numbers, symbols, + - * / // % **)");
  EXPECT_EQ(error("s0 s1"), "size \"s0 s1\" is not a size (numbers, symbols, + - * / // % **)");
  EXPECT_EQ(error("s0/2"), "size \"s0/2\" is not a whole number");
  EXPECT_EQ(error("s0//(s1 - 3)"), "size \"s0//(s1 - 3)\" divides by 0");
  EXPECT_EQ(error("s0**64"), "size \"s0**64\" is too large");
  EXPECT_EQ(error("2**s0**9"), "size \"2**s0**9\" has an exponent other than a small whole number");
  EXPECT_EQ(error("Piecewise(1)"), "size \"Piecewise(1)\" calls \"Piecewise\" (not a function of sizes)");
  EXPECT_NE(error(std::string(200, '(')).find("is nested too deeply"), std::string::npos);
  EXPECT_NE(error(std::string(200, '-') + "1").find("is nested too deeply"), std::string::npos);
}

TEST(SizeExpressionTest, ASymbolIsFoundFromASize) {
  EXPECT_EQ(SolveSize("2*s0 + 1", 9, "s0", {}), 4);
  EXPECT_EQ(SolveSize("2*s0 + 1", 8, "s0", {}), std::nullopt);
  EXPECT_EQ(SolveSize("s0*s1", 12, "s0", {{"s1", 3}}), 4);
  EXPECT_EQ(SolveSize("s0//2", 5, "s0", {}), std::nullopt);  // 10 or 11
  EXPECT_EQ(SolveSize("4", 4, "s0", {}), std::nullopt);
}

}  // namespace
}  // namespace emplace::testing
