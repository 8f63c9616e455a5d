#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "datasets/shipped_clusters.h"
#include "sim/network/collective_times.h"
#include "tests/testing/reference.h"

namespace emplace {
namespace all_reduce_test {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// Measured all-reduces of A100s. The cluster's three numbers were fitted to 1 MiB and 1 GiB of 2 and 8 GPUs; all other
// sizes, and all of 4 GPUs, are held out.
TEST(AllReduceTest, MeasuredAllReducesOfA100sAreWithinTenPercentInTheMedian) {
  const std::string folder = emplace::testing::ReferenceFolder("VIA-Research+vTrain");
  if (folder.empty()) GTEST_SKIP() << "the reference data is absent: set the CMake variable EMPLACE_REFERENCE_DATA";
  const CollectiveTimes times(datasets::LoadCluster("dgx-a100"));
  for (const std::size_t gpus : {std::size_t{2}, std::size_t{4}, std::size_t{8}}) {
    std::ifstream file(folder + "/trace_a100_AR_GPU" + std::to_string(gpus) + "_1M_1024M_LUT");
    std::string line;
    std::getline(file, line);
    std::vector<DeviceId> devices;
    for (std::size_t i = 1; i <= gpus; ++i) devices.push_back(MakeId<DeviceId>(i));
    std::vector<double> errors;
    while (std::getline(file, line)) {
      const std::int64_t bytes = std::stoll(line);
      if (gpus != 4 && (bytes == kMiB || bytes == 1024 * kMiB)) continue;
      std::size_t at = 0;
      for (int comma = 0; comma < 3; ++comma) at = line.find(',', at) + 1;
      const double measured = std::stod(line.substr(at)) / 1000;
      const auto predicted = times.Of(CollectiveKind::kAllReduce, Bytes{bytes}, devices).duration;
      errors.push_back(std::fabs(MicrosFromDuration(predicted) / measured - 1));
    }
    ASSERT_GE(errors.size(), 1022U);
    std::sort(errors.begin(), errors.end());
    const double median = errors[errors.size() / 2];
    const double p90 = errors[errors.size() * 9 / 10];
    RecordProperty("median_" + std::to_string(gpus), std::to_string(median));
    RecordProperty("p90_" + std::to_string(gpus), std::to_string(p90));
    std::printf("%zu GPUs: median %.4f, p90 %.4f, largest %.4f\n", gpus, median, p90, errors.back());
    EXPECT_LT(median, 0.10) << gpus;
    EXPECT_LT(p90, 0.10) << gpus;
  }
}

}  // namespace all_reduce_test
}  // namespace emplace
