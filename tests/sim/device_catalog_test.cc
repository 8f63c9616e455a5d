#include "sim/device_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace emplace {
namespace {

using ::testing::ElementsAre;

TEST(DeviceCatalogTest, HoldsTheKindsOfTheContract) {
  std::vector<std::string> names;
  for (const DeviceKind& kind : AllDeviceKinds()) names.push_back(kind.name);
  // What people have at home follows.
  EXPECT_THAT(std::vector(names.begin(), names.begin() + 32),
              ElementsAre("k40", "k80", "p100", "p4", "v100", "v100-pcie", "t4", "rtx-2080-ti", "a100", "a100-40",
                          "a100-pcie", "a100-pcie-40", "a10", "l4", "l40s", "rtx-4090", "h100", "h100-pcie", "h200",
                          "b200", "gb200", "b300", "gb300", "rtx-pro-6000", "mi100", "mi210", "mi250", "mi300x",
                          "haswell-2300", "xeon-e5-2686v4", "broadwell-8c", "cpu-core"));
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
  for (const char* const name :
       {"rtx-2060", "rtx-3060", "rtx-3090", "rtx-4070", "rtx-5090", "p40", "mi50", "rx-7900-xtx", "arc-b580", "m1",
        "m2-ultra", "m4-max", "ryzen-ai-max-395", "gb10", "cpu-ddr4-2ch", "cpu-ddr5-12ch", "raspberry-pi-5"}) {
    EXPECT_NE(FindDeviceKind(name), nullptr) << name;
  }
}

TEST(DeviceCatalogTest, HomeDevicesHaveTheRatesOfTheirDataSheets) {
  EXPECT_EQ(FindDeviceKind("rtx-3090")->memory_bandwidth.count, 936'000'000'000);
  EXPECT_DOUBLE_EQ(RateOf(*FindDeviceKind("rtx-3090"), Precision::kF16).peak.count, 71.2e12);
  EXPECT_DOUBLE_EQ(RateOf(*FindDeviceKind("m2-ultra"), Precision::kF16).peak.count, 27.2e12);  // as f32
  EXPECT_EQ(FindDeviceKind("m2-ultra")->memory, BytesFromGib(192));
  EXPECT_FALSE(FindDeviceKind("ryzen-ai-max-395")->is_cpu);
  EXPECT_TRUE(FindDeviceKind("raspberry-pi-5")->is_cpu);
}

TEST(DeviceCatalogTest, EveryKindIsCompleteAndStatesItsSource) {
  for (const DeviceKind& kind : AllDeviceKinds()) {
    EXPECT_FALSE(kind.summary.empty()) << kind.name;
    EXPECT_FALSE(kind.source.empty()) << kind.name;
    EXPECT_GT(kind.peak.count, 1e9) << kind.name;
    EXPECT_GT(kind.memory_bandwidth.count, 1'000'000'000) << kind.name;
    EXPECT_GT(kind.launch_micros, 0) << kind.name;
    EXPECT_TRUE(kind.memory.has_value()) << kind.name;
    for (std::size_t i = 0; i < kNumOpClasses; ++i) {
      EXPECT_GT(kind.compute_efficiency[i], 0) << kind.name;
      EXPECT_LE(kind.compute_efficiency[i], 1) << kind.name;
      EXPECT_GT(kind.bandwidth_efficiency[i], 0) << kind.name;
      EXPECT_LE(kind.bandwidth_efficiency[i], 1) << kind.name;
    }
    EXPECT_EQ(FindDeviceKind(kind.name), &kind);
  }
  EXPECT_EQ(FindDeviceKind("tpu"), nullptr);
}

TEST(DeviceCatalogTest, HalfAK80IsHalfItsBoard) {
  // Board: 8.74 TFLOP/s, 480 GB/s.
  EXPECT_DOUBLE_EQ(FindDeviceKind("k80")->peak.count, 8.74e12 / 2);
  EXPECT_EQ(FindDeviceKind("k80")->memory_bandwidth.count, 480'000'000'000 / 2);
}

TEST(DeviceCatalogTest, OnlyCpuKindsAreCpus) {
  for (const DeviceKind& kind : AllDeviceKinds()) {
    const bool cpu = kind.name == "haswell-2300" || kind.name == "xeon-e5-2686v4" || kind.name == "broadwell-8c" ||
                     kind.name == "cpu-core" || kind.name.starts_with("cpu-ddr") ||
                     kind.name.starts_with("raspberry-pi");
    EXPECT_EQ(kind.is_cpu, cpu) << kind.name;
  }
}

TEST(DeviceCatalogTest, AnUnknownKindIsACpuIfItsNameSaysSo) {
  EXPECT_TRUE(LooksLikeCpu("dnnp-cpu", "d0"));
  EXPECT_TRUE(LooksLikeCpu("x", "/device:CPU:0"));
  EXPECT_FALSE(LooksLikeCpu("pipedream-gpu", "gpu:0"));
}

double PeakOf(const std::string& kind, Precision precision) {
  return RateOf(*FindDeviceKind(kind), precision).peak.count / 1e12;
}

TEST(DeviceCatalogTest, ProductsHaveARateInEachPrecision) {
  // Data sheets: an H100 has 67 TFLOP/s of f32, and 989 of TF32 and 1979 of bf16 with sparsity.
  EXPECT_DOUBLE_EQ(PeakOf("h100", Precision::kF32), 67);
  EXPECT_DOUBLE_EQ(PeakOf("h100", Precision::kTf32), 494.7);
  EXPECT_DOUBLE_EQ(PeakOf("h100", Precision::kBf16), 989.4);
  EXPECT_DOUBLE_EQ(PeakOf("v100", Precision::kF16), 125);
  EXPECT_DOUBLE_EQ(PeakOf("v100", Precision::kBf16), 15.7) << "Volta has no bf16 of its own";
  EXPECT_DOUBLE_EQ(PeakOf("v100", Precision::kTf32), 15.7);
  EXPECT_DOUBLE_EQ(PeakOf("k80", Precision::kF16), 4.37);
  // 3958 TOPS with sparsity; Volta's tensor cores multiply no integers.
  EXPECT_DOUBLE_EQ(PeakOf("h100", Precision::kI8), 1979);
  EXPECT_DOUBLE_EQ(PeakOf("a100", Precision::kI8), 624);
  EXPECT_DOUBLE_EQ(PeakOf("v100", Precision::kI8), 125) << "as f16";
  EXPECT_DOUBLE_EQ(PeakOf("k80", Precision::kI8), 4.37) << "as f16, which it computes as f32";
  // A B300 has half more for f4 than a B200, and next to nothing for integers.
  EXPECT_DOUBLE_EQ(PeakOf("h100", Precision::kF8), 1979);
  EXPECT_DOUBLE_EQ(PeakOf("b200", Precision::kF8), 4500);
  EXPECT_DOUBLE_EQ(PeakOf("b200", Precision::kF4), 9000);
  EXPECT_DOUBLE_EQ(PeakOf("b300", Precision::kF4), 13500);
  EXPECT_DOUBLE_EQ(PeakOf("b300", Precision::kI8), 156);
  EXPECT_DOUBLE_EQ(PeakOf("h100", Precision::kF4), 1979) << "as f8";
  EXPECT_DOUBLE_EQ(PeakOf("a100", Precision::kF8), 312) << "as f16";
  for (const DeviceKind& kind : AllDeviceKinds()) {
    for (std::size_t i = 0; i < kNumPrecisions; ++i) {
      const PrecisionRate rate = RateOf(kind, static_cast<Precision>(i));
      EXPECT_GE(rate.peak.count, RateOf(kind, Precision::kF32).peak.count) << kind.name;
      for (const double part : rate.efficiency) {
        EXPECT_GT(part, 0) << kind.name;
        EXPECT_LE(part, 1) << kind.name;
      }
    }
    // TF32 is what `peak` is where there is such a thing.
    EXPECT_EQ(RateOf(kind, Precision::kTf32).peak.count, kind.peak.count) << kind.name;
  }
}

TEST(DeviceCatalogTest, EveryPrecisionHasAName) {
  for (std::size_t i = 0; i < kNumPrecisions; ++i) {
    EXPECT_EQ(PrecisionFromName(Name(static_cast<Precision>(i))), static_cast<Precision>(i));
  }
  EXPECT_EQ(PrecisionFromName("f64"), std::nullopt);
}

TEST(DeviceCatalogTest, EveryOpClassHasAName) {
  for (std::size_t i = 0; i < kNumOpClasses; ++i) EXPECT_FALSE(Name(static_cast<OpClass>(i)).empty());
}

}  // namespace
}  // namespace emplace
