#include "sim/cost/curve_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "sim/cost/curves.h"

namespace emplace {
namespace {

// The device of a shipped kind in half precision.
CurveDevice HalfOf(const std::string& kind) {
  return CurveKeyOf(*FindDeviceKind(kind), Precision::kBf16, *FindDeviceCurves(kind))->device;
}

const Curve<ProductForm>& HalfProducts(const std::string& kind) {
  std::string owner;
  return *FindCurve(*FindDeviceCurves(kind), &DeviceCurves::product, "half", nullptr, &owner);
}

// Rows of a device whose times are those of a curve, times a factor.
std::vector<ProductRow> RowsFrom(const Curve<ProductForm>& curve, const CurveDevice& device, std::size_t count,
                                 double factor = 1) {
  std::vector<ProductRow> rows;
  for (std::size_t i = 0; i < count; ++i) {
    const double d = static_cast<double>(i);
    const ProductShape shape = {.m = std::round(std::pow(2, 4 + std::fmod(1.7 * d, 9))),
                                .n = std::round(std::pow(2, 7 + std::fmod(2.3 * d, 6))),
                                .k = std::round(std::pow(2, 7 + std::fmod(3.1 * d, 6)))};
    rows.push_back({device, shape, factor * Time(curve, device, shape).formula_micros});
  }
  return rows;
}

double WorstMiss(const Curve<ProductForm>& curve, const std::vector<ProductRow>& rows) {
  double worst = 0;
  for (const ProductRow& row : rows) {
    worst = std::max(worst, std::abs(std::log(Time(curve, row.device, row.shape).formula_micros / row.micros)));
  }
  return worst;
}

TEST(CurveFitTest, ParametersAreFoundAgainFromThoseOfAnotherDevice) {
  const CurveDevice device = HalfOf("a100");
  Curve<ProductForm> truth = HalfProducts("a100");
  truth.form.rate *= 0.6;
  truth.form.launch_us *= 2;
  const std::vector<ProductRow> rows = RowsFrom(truth, device, 120);
  const Curve<ProductForm> fitted = FitParameters(HalfProducts("a100"), rows);
  EXPECT_NEAR(fitted.form.rate / truth.form.rate, 1, 0.06);
  EXPECT_LT(WorstMiss(fitted, rows), 0.05);
  EXPECT_GT(WorstMiss(HalfProducts("a100"), rows), 0.4);
  // The tables stay.
  EXPECT_EQ(fitted.tables, HalfProducts("a100").tables);
}

TEST(CurveFitTest, WhatTheRowsDoNotTellStaysAsItWas) {
  const Curve<ProductForm>& from = HalfProducts("a100");
  const CurveDevice device = HalfOf("a100");
  std::vector<ProductRow> rows;  // large ones alone: the rate
  for (const double m : {4096, 5120, 6144, 8192, 9216, 10240, 12288, 16384}) {
    const ProductShape shape = {.m = m, .n = 8192, .k = 8192};
    rows.push_back({device, shape, 1.3 * Time(from, device, shape).formula_micros});
  }
  const Curve<ProductForm> fitted = FitParameters(from, rows);
  EXPECT_LT(WorstMiss(fitted, rows), 0.05);
  EXPECT_NEAR(fitted.form.launch_us / from.form.launch_us, 1, 0.1);
  EXPECT_NEAR(fitted.form.write / from.form.write, 1, 0.1);
}

TEST(CurveFitTest, TablesTakeWhatParametersCannotSay) {
  const CurveDevice device = HalfOf("a100");
  Curve<ProductForm> truth = HalfProducts("a100");
  for (std::size_t i = 0; i < truth.tables[2].size(); ++i) truth.tables[2][i] += i % 2 == 0 ? 20 : -20;
  const std::vector<ProductRow> rows = RowsFrom(truth, device, 400);
  const Curve<ProductForm> with = FitTables(HalfProducts("a100"), rows);
  EXPECT_LT(WorstMiss(with, rows), WorstMiss(HalfProducts("a100"), rows) / 2);
  EXPECT_EQ(with.form.rate, HalfProducts("a100").form.rate);
  for (const std::vector<double>& table : with.tables) {
    for (const double percent : table) EXPECT_EQ(percent, std::round(percent));
  }
}

TEST(CurveFitTest, StreamsAndAttentionAreFittedToo) {
  const DeviceCurves& common = *FindDeviceCurves("common");
  const CurveDevice device = HalfOf("h100");
  std::vector<StreamRow> streams;
  for (double bytes = 1e5; bytes < 2e9; bytes *= 2) {
    streams.push_back({device, {.bytes = bytes}, 7 + bytes / (0.5 * device.bytes_per_us)});
  }
  const Curve<StreamForm> stream = FitParameters(common.elementwise[0], streams);
  for (const StreamRow& row : streams) {
    EXPECT_NEAR(Time(stream, device, row.shape).formula_micros / row.micros, 1, 0.2) << row.shape.bytes;
  }
  std::vector<AttentionRow> attention;
  std::vector<AttentionRow> decoding;
  for (double length = 256; length <= 16384; length *= 2) {
    for (const double heads : {8, 32}) {
      AttentionShape shape = {.batch = 1,
                              .queries = length,
                              .keys = length,
                              .heads = heads,
                              .key_heads = 8,
                              .head_dim = 128,
                              .causal = true};
      attention.push_back({device, shape, 1.5 * Time(common.attention[0], device, shape).formula_micros});
      shape.queries = 1;
      decoding.push_back({device, shape, 0.7 * Time(common.decoding[0], device, shape).formula_micros});
    }
  }
  const auto fitted = FitTables(FitParameters(common.attention[0], attention), attention);
  const auto decodes = FitTables(FitParameters(common.decoding[0], decoding), decoding);
  for (std::size_t i = 0; i < attention.size(); ++i) {
    EXPECT_NEAR(Time(fitted, device, attention[i].shape).formula_micros / attention[i].micros, 1, 0.1) << i;
    EXPECT_NEAR(Time(decodes, device, decoding[i].shape).formula_micros / decoding[i].micros, 1, 0.1) << i;
  }
}

}  // namespace
}  // namespace emplace
