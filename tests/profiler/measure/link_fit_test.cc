#include "profiler/measure/link_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/rng.h"

namespace emplace {
namespace link_fit_test {

using ::testing::HasSubstr;

// Sizes 1 KiB to 256 MiB in powers of 4, in bytes.
std::vector<double> Sizes() {
  std::vector<double> sizes;
  for (double size = 1024; size <= 268435456; size *= 4) sizes.push_back(size);
  return sizes;
}

profiler::LinkSample Sample(double size, double micros) { return {Bytes{static_cast<std::int64_t>(size)}, micros}; }

std::string ErrorOf(const std::vector<profiler::LinkSample>& samples) {
  try {
    profiler::FitLink(samples, "cuda:0 -> cpu:0");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(FitLinkTest, FindsALineThatIsThere) {
  // 8 us and 50 GB/s: 50000 bytes a us.
  std::vector<profiler::LinkSample> samples;
  for (const double size : Sizes()) samples.push_back(Sample(size, 8 + size / 50000));
  const profiler::LinkFit fit = profiler::FitLink(samples, "");
  EXPECT_NEAR(fit.latency_micros, 8, 1e-9);
  EXPECT_NEAR(fit.bandwidth_gb_per_s, 50, 1e-9);
  EXPECT_EQ(fit.samples, 10);
  EXPECT_EQ(fit.residuals.size(), 10U);
  EXPECT_LT(fit.largest_residual, 1e-12);
}

TEST(FitLinkTest, TwoPointsGiveTheLineThroughThem) {
  // 1000 bytes take 3 us, 5000 take 5: 2 us for 4000 bytes more, so 0.5 us per 1000 and a latency of 2.5 us.
  const profiler::LinkFit fit = profiler::FitLink(std::vector{Sample(1000, 3), Sample(5000, 5)}, "");
  EXPECT_NEAR(fit.latency_micros, 2.5, 1e-12);
  EXPECT_NEAR(fit.bandwidth_gb_per_s, 2, 1e-12);
}

TEST(FitLinkTest, AnInterruptedCopyDoesNotMatter) {
  std::vector<profiler::LinkSample> samples;
  for (const double size : Sizes()) {
    for (const double slower : {1.0, 1.0, 40.0}) samples.push_back(Sample(size, slower * (8 + size / 50000)));
  }
  const profiler::LinkFit fit = profiler::FitLink(samples, "");
  EXPECT_NEAR(fit.latency_micros, 8, 1e-9);
  EXPECT_NEAR(fit.bandwidth_gb_per_s, 50, 1e-9);
  EXPECT_EQ(fit.samples, 30);
}

TEST(FitLinkTest, SmallSizesCountAsMuchAsLargeOnes) {
  // 1 % of noise on the largest copy is 54 us; a fit of absolute errors would shift the latency by microseconds.
  std::vector<profiler::LinkSample> samples;
  Rng rng(7);
  for (const double size : Sizes()) {
    samples.push_back(Sample(size, (8 + size / 50000) * (0.99 + 0.02 * rng.Uniform())));
  }
  const profiler::LinkFit fit = profiler::FitLink(samples, "");
  EXPECT_NEAR(fit.latency_micros, 8, 0.16);
  EXPECT_NEAR(fit.bandwidth_gb_per_s, 50, 1);
  EXPECT_LT(fit.largest_residual, 0.025);
}

TEST(FitLinkTest, FindsAKneeThatIsThere) {
  // Small copies run at 20 GB/s, what is beyond 256 KiB at 4: out of a cache, and out of memory.
  std::vector<profiler::LinkSample> samples;
  for (const double size : Sizes()) {
    samples.push_back(Sample(size, 2 + std::min(size, 262144.0) / 20000 + std::max(size - 262144, 0.0) / 4000));
  }
  const profiler::LinkFit fit = profiler::FitLink(samples, "");
  EXPECT_NEAR(fit.latency_micros, 2, 1e-9);
  EXPECT_NEAR(fit.bandwidth_gb_per_s, 20, 1e-6);
  EXPECT_EQ(fit.knee, Bytes{262144});
  EXPECT_NEAR(fit.beyond_gb_per_s, 4, 1e-9);
  EXPECT_LT(fit.largest_residual, 1e-9);
  EXPECT_NEAR(fit.Micros(Bytes{100000}), 7, 1e-9);
  EXPECT_NEAR(fit.Micros(Bytes{1'000'000}), 2 + 262144 / 20000.0 + 737856 / 4000.0, 1e-6);
}

TEST(FitLinkTest, NearlyALineAndTooFewSizesHaveNoKnee) {
  std::vector<profiler::LinkSample> nearly;
  for (const double size : Sizes()) {
    nearly.push_back(Sample(size, 2 + std::min(size, 262144.0) / 20000 + std::max(size - 262144, 0.0) / 18000));
  }
  EXPECT_EQ(profiler::FitLink(nearly, "").knee, Bytes{0});
  EXPECT_EQ(profiler::FitLink(nearly, "").beyond_gb_per_s, 0);
  const std::vector four = {Sample(1000, 1), Sample(4000, 4), Sample(16000, 160), Sample(64000, 640)};
  EXPECT_EQ(profiler::FitLink(four, "").knee, Bytes{0});
  EXPECT_GT(profiler::FitLink(four, "").largest_residual, 0.1);
}

TEST(FitLinkTest, WithAKneeALatencyBelowZeroIsZeroToo) {
  // 1 us less than the parts take: a latency of -1.
  std::vector<profiler::LinkSample> samples;
  for (const double size : Sizes()) {
    if (size < 16384) continue;
    samples.push_back(Sample(size, -1 + std::min(size, 262144.0) / 4000 + std::max(size - 262144, 0.0) / 20000));
  }
  const profiler::LinkFit fit = profiler::FitLink(samples, "");
  EXPECT_EQ(fit.latency_micros, 0);
  EXPECT_GT(fit.knee.count, 0);
  EXPECT_NEAR(fit.beyond_gb_per_s, 20, 0.5);
}

TEST(FitLinkTest, NoOtherLineHasLessSquaredRelativeError) {
  // A saw that neither a line nor one with a knee fits.
  std::vector<profiler::LinkSample> samples;
  for (const double size : Sizes()) {
    samples.push_back(Sample(size, (2 + size / 20000) * (samples.size() % 2 == 0 ? 0.8 : 1.2)));
  }
  const auto error = [&](double latency, double gb_per_s) {
    double sum = 0;
    for (const profiler::LinkSample& sample : samples) {
      const double fitted = latency + static_cast<double>(sample.size.count) / (gb_per_s * 1000);
      sum += std::pow(fitted / sample.micros - 1, 2);
    }
    return sum;
  };
  const profiler::LinkFit fit = profiler::FitLink(samples, "");
  ASSERT_EQ(fit.knee, Bytes{0});
  const double least = error(fit.latency_micros, fit.bandwidth_gb_per_s);
  for (const double a : {0.99, 1.0, 1.01}) {
    for (const double b : {0.99, 1.0, 1.01}) {
      EXPECT_GE(error(fit.latency_micros * a, fit.bandwidth_gb_per_s * b), least * (1 - 1e-12));
    }
  }
  EXPECT_GT(fit.largest_residual, 0.1);
}

TEST(FitLinkTest, ResidualsAreRelativeAndSigned) {
  // The line passes through 0, since the latency would be negative: sizes 1, 2 (1000 bytes) take 1 and 4 us. x = size /
  // time = 1, 0.5; slope = (1 + 0.5) / (1 + 0.25) = 1.2 us per 1000 bytes. Fitted 1.2 and 2.4: +20 % and -40 %.
  const profiler::LinkFit fit = profiler::FitLink(std::vector{Sample(2000, 4), Sample(1000, 1)}, "");
  EXPECT_EQ(fit.latency_micros, 0);
  EXPECT_NEAR(fit.bandwidth_gb_per_s, 1 / 1.2, 1e-12);
  ASSERT_EQ(fit.residuals.size(), 2U);
  EXPECT_EQ(fit.residuals[0].size, Bytes{1000});
  EXPECT_NEAR(fit.residuals[0].relative, 0.2, 1e-12);
  EXPECT_NEAR(fit.residuals[1].relative, -0.4, 1e-12);
  EXPECT_NEAR(fit.largest_residual, 0.4, 1e-12);
}

TEST(FitLinkTest, RefusesWhatHasNoLineAndNamesTheLink) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("cuda:0 -> cpu:0: copies of 0 sizes were measured (expected at least 2"));
  EXPECT_THAT(ErrorOf({Sample(1000, 3), Sample(1000, 4)}), HasSubstr("copies of 1 sizes were measured"));
  EXPECT_THAT(ErrorOf({Sample(1000, 3), Sample(4000, 0)}), HasSubstr("a copy of 4000 bytes took 0.000000 us"));
  EXPECT_THAT(ErrorOf({Sample(0, 3), Sample(4000, 4)}), HasSubstr("a copy of 0 bytes took 3.000000 us"));
  EXPECT_THAT(ErrorOf({Sample(1000, 5), Sample(4000, 5)}),
              HasSubstr("copies of 4000 bytes take no longer than those of 1000: there is no bandwidth to be fitted"));
  EXPECT_THAT(ErrorOf({Sample(1000, 5), Sample(4000, 1)}), HasSubstr("take no longer"));
}

}  // namespace link_fit_test
}  // namespace emplace
