#include "experiments/report/report_vega.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace emplace::vega {
namespace {

TEST(ReportVegaTest, AChartFitsThePageIfItSaysSo) {
  EXPECT_EQ(experiments::Base(10)["autosize"], "pad");
  EXPECT_EQ(experiments::FitWidth(experiments::Base(10))["autosize"]["type"], "fit-x");
  EXPECT_EQ(experiments::Base(10)["signals"][0]["name"], "narrow");
}

TEST(ReportVegaTest, EachNameHasAColour) {
  const experiments::Json scale = experiments::ColourScale({"a", "b"});
  EXPECT_EQ(scale["domain"].size(), 2U);
  EXPECT_NE(scale["range"][0], scale["range"][1]);
}

TEST(ReportVegaTest, NumbersHaveFiveDigits) {
  EXPECT_EQ(experiments::Rounded(4.123456789), 4.1235);
  EXPECT_EQ(experiments::Rounded(-123456), -123460);
}

TEST(ReportVegaTest, PartsAreWhatVegaReads) {
  EXPECT_EQ(experiments::Field("x", "mean").dump(), R"({"scale":"x","field":"mean"})");
  EXPECT_EQ(experiments::Constant(3).dump(), R"({"value":3})");
  EXPECT_EQ(experiments::Signal("width").dump(), R"({"signal":"width"})");
  EXPECT_EQ(experiments::Printed({{"a", "\xff"}}), "{\"a\":\"\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace emplace::vega
