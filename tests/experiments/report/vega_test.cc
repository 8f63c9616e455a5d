#include "experiments/report/vega.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace emplace::experiments::vega {
namespace {

TEST(ReportVegaTest, AChartFitsThePageIfItSaysSo) {
  EXPECT_EQ(Base(10)["autosize"], "pad");
  EXPECT_EQ(FitWidth(Base(10))["autosize"]["type"], "fit-x");
  EXPECT_EQ(Base(10)["signals"][0]["name"], "narrow");
}

TEST(ReportVegaTest, EachNameHasAColour) {
  const Json scale = ColourScale({"a", "b"});
  EXPECT_EQ(scale["domain"].size(), 2U);
  EXPECT_NE(scale["range"][0], scale["range"][1]);
}

TEST(ReportVegaTest, NumbersHaveFiveDigits) {
  EXPECT_EQ(Rounded(4.123456789), 4.1235);
  EXPECT_EQ(Rounded(-123456), -123460);
}

TEST(ReportVegaTest, PartsAreWhatVegaReads) {
  EXPECT_EQ(Field("x", "mean").dump(), R"({"scale":"x","field":"mean"})");
  EXPECT_EQ(Constant(3).dump(), R"({"value":3})");
  EXPECT_EQ(Signal("width").dump(), R"({"signal":"width"})");
  EXPECT_EQ(Printed({{"a", "\xff"}}), "{\"a\":\"\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace emplace::experiments::vega
