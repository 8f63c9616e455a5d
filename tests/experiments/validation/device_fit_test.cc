#include "experiments/validation/device_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "sim/base/json_text.h"
#include "tests/testing/errors.h"

namespace emplace::testing {
namespace {

using experiments::DeviceFit;
using experiments::FittedCurve;
using experiments::MeasuredShapes;

// Products that take `factor` times as long as the curve of a kind says.
MeasuredShapes Products(const std::string& kind, std::size_t count, double factor) {
  MeasuredShapes measured;
  for (std::size_t i = 0; i < count; ++i) {
    const ProductShape shape = {.m = 128.0 * static_cast<double>(1 + i % 7),
                                .n = 256.0 * static_cast<double>(1 + i % 5),
                                .k = 512.0 * static_cast<double>(1 + i % 3)};
    const double micros = CurveMicros(*FindDeviceKind(kind), Precision::kBf16, shape)->time.micros;
    measured.rows.push_back({{.precision = Precision::kBf16, .shape = shape}, factor * micros});
  }
  return measured;
}

DeviceFit FitTo(const MeasuredShapes& measured) {
  return experiments::FitDevice(*FindDeviceKind("h100"), *FindDeviceCurves("h100"), measured, "test");
}

TEST(DeviceFitTest, ASlowerDeviceIsFittedAndTheRestStays) {
  const DeviceFit fit = FitTo(Products("h100", 100, 1.5));
  ASSERT_EQ(fit.fitted.size(), 1U);
  const FittedCurve& product = fit.fitted[0];
  EXPECT_EQ(product.form, "product");
  EXPECT_EQ(product.precision, "half");
  EXPECT_EQ(product.began_with, "h100");
  EXPECT_EQ(product.rows, 100U);
  EXPECT_EQ(product.shapes, 100U);
  EXPECT_EQ(product.held_out, 20U);
  EXPECT_NEAR(product.median_before, 100 * (1 - 1 / 1.5), 0.1);
  EXPECT_LT(product.median_after, 4);
  EXPECT_FALSE(product.exceeds_sheet);
  EXPECT_FALSE(fit.is_empty());
  EXPECT_THAT(fit.not_seen, ::testing::ElementsAre("convolution", "attention", "decoding", "normalisation", "softmax",
                                                   "elementwise"));
  // The written file, read again, has the same times; so do the curves that were not seen.
  std::ostringstream out;
  WriteDeviceCurves(out, fit.curves);
  const JsonValue root = ParseJson(out.str());
  OwnCurves own;
  own.emplace("h100", ReadDeviceCurves(JsonNode(root)));
  const ProductShape shape = {.m = 512, .n = 512, .k = 1024};
  const DeviceKind& h100 = *FindDeviceKind("h100");
  const double before = CurveMicros(h100, Precision::kBf16, shape)->time.micros;
  EXPECT_NEAR(CurveMicros(h100, Precision::kBf16, shape, 0, &own)->time.micros / before, 1.5, 0.1);
  EXPECT_EQ(CurveMicros(h100, Precision::kF32, shape, 0, &own)->time.micros,
            CurveMicros(h100, Precision::kF32, shape)->time.micros);
  EXPECT_EQ(own.at("h100").product.back().fit.rows, 100);
  EXPECT_THAT(own.at("h100").product.back().fit.source, ::testing::StartsWith("test; on 20 shapes held out"));
}

TEST(DeviceFitTest, TooFewShapesAreNotFitted) {
  MeasuredShapes measured = Products("h100", 7, 1.5);
  measured.Add(Products("h100", 7, 1.5));  // the same shapes again
  const DeviceFit fit = FitTo(measured);
  EXPECT_TRUE(fit.is_empty());
  ASSERT_EQ(fit.fitted.size(), 1U);
  EXPECT_TRUE(fit.fitted[0].is_refused());
  EXPECT_EQ(fit.fitted[0].shapes, 7U);
  EXPECT_EQ(fit.fitted[0].rows, 14U);
  EXPECT_FALSE(FitTo(Products("h100", 8, 1.5)).is_empty());
}

TEST(DeviceFitTest, ACurveThatIsRightStays) {
  const DeviceFit fit = FitTo(Products("h100", 60, 1));
  EXPECT_EQ(fit.fitted[0].fitted, "");
  EXPECT_EQ(fit.curves.product.size(), FindDeviceCurves("h100")->product.size());
  EXPECT_EQ(fit.curves.product[0].fit.source, FindDeviceCurves("h100")->product[0].fit.source);
}

TEST(DeviceFitTest, RowsThatAreFasterThanTheDataSheetAreBelieved) {
  MeasuredShapes measured;
  for (std::size_t i = 1; i <= 40; ++i) {
    const double m = 1024.0 * static_cast<double>(i);
    const double flop = 2 * m * 4096 * 4096;
    measured.rows.push_back({{.precision = Precision::kF32, .shape = ProductShape{.m = m, .n = 4096, .k = 4096}},
                             flop / (2 * 67e6)});  // twice the f32 rate of an H100
  }
  const DeviceFit fit = FitTo(measured);
  EXPECT_TRUE(fit.fitted[0].exceeds_sheet);
  EXPECT_LT(fit.fitted[0].median_after, 10);
  EXPECT_TRUE(fit.curves.product.back().fit.exceeds_sheet);
}

TEST(DeviceFitTest, ConvolutionsHaveACurveOfTheirOwn) {
  MeasuredShapes measured;
  for (std::size_t i = 1; i <= 30; ++i) {
    const ProductShape shape = {
        .m = 3136.0 * static_cast<double>(i), .n = 64, .k = 576, .moved_bytes = 1e6 * static_cast<double>(i)};
    const double micros = CurveMicros(*FindDeviceKind("h100"), Precision::kBf16, shape)->time.micros;
    measured.rows.push_back({{.precision = Precision::kBf16, .shape = shape}, 3 * micros});
  }
  const DeviceFit fit = FitTo(measured);
  ASSERT_EQ(fit.curves.convolution.size(), 1U);
  OwnCurves own;
  own.emplace("h100", fit.curves);
  const ProductShape convolution = {.m = 31360, .n = 64, .k = 576, .moved_bytes = 1e7};
  const DeviceKind& h100 = *FindDeviceKind("h100");
  EXPECT_EQ(CurveMicros(h100, Precision::kBf16, convolution, 0, &own)->form, "convolution");
  EXPECT_NEAR(CurveMicros(h100, Precision::kBf16, convolution, 0, &own)->time.micros /
                  CurveMicros(h100, Precision::kBf16, convolution)->time.micros,
              3, 0.3);
  EXPECT_EQ(CurveMicros(h100, Precision::kBf16, ProductShape{.m = 31360, .n = 64, .k = 576}, 0, &own)->form, "product");
}

TEST(DeviceFitTest, AFileWithTablesOfAnotherSizeIsRefused) {
  std::ostringstream out;
  WriteDeviceCurves(out, *FindDeviceCurves("h100"));
  const auto error_of = [](const std::string& text) {
    const JsonValue root = ParseJson(text);
    return ErrorOf([&] { ReadDeviceCurves(JsonNode(root)); });
  };
  EXPECT_EQ(error_of(out.str()), "(no error)");
  std::string text = out.str();
  const std::size_t tables = text.find("\"tables\":[[") + 11;
  EXPECT_EQ(error_of(std::string(text).insert(tables, "7,")), "product[0].tables[0]: has 55 numbers (54 are expected)");
  EXPECT_EQ(error_of(std::string(text).insert(tables - 1, "[7],")), "product[0].tables: has 5 tables (4 are expected)");
  const std::size_t like = text.find("\"like\": \"") + 9;
  EXPECT_EQ(error_of(std::string(text).insert(like, "x")),
            "like: is \"xh200\", which has no curves (a device kind of datasets/devices)");
  EXPECT_THAT(error_of("{}"), ::testing::StartsWith("kind: is missing"));
}

}  // namespace
}  // namespace emplace::testing
