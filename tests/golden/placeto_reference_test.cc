// Compares placeto-reference with runs of the published simulator: step time, start times and peak memory, bit for bit.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/testing/reference_runs.h"

namespace emplace::testing {
namespace {

// Checks every file of a folder and prints the number of runs; the continuous build fails if it is 0.
void CheckFolder(const std::string& folder, const char* what) {
  std::size_t runs = 0;
  std::size_t starts = 0;
  double worst = 0;
  const std::vector<std::string> files = ReferenceFiles(folder);
  for (const std::string& file : files) {
    const ReferenceReport report = CheckReferenceCase(ReadReferenceCase(file));
    runs += report.runs;
    starts += report.starts;
    worst = std::max(worst, report.worst_micros);
    EXPECT_TRUE(report.differences.empty())
        << report.differences.size() << " differences, the first: " << report.differences.front();
  }
  std::printf("reference cases checked: %zu (%s: %zu graphs, %zu start times, worst difference %g us)\n", runs, what,
              files.size(), starts, worst);
  EXPECT_GT(runs, 0U) << "no reference run was found in " << folder;
}

TEST(PlacetoReferenceGoldenTest, EqualsThePublishedSimulatorOnTheCommittedCases) {
  CheckFolder(std::string(EMPLACE_TEST_SOURCE_DIR) + "/golden/placeto-oracle", "committed made graphs");
}

TEST(PlacetoReferenceGoldenTest, EqualsThePublishedSimulatorOnAllMadeGraphs) {
  const std::string data = EMPLACE_REFERENCE_DATA;
  if (ReferenceFiles(data + "/placeto-oracle").empty()) {
    GTEST_SKIP() << "the reference data is absent: set the CMake variable EMPLACE_REFERENCE_DATA";
  }
  CheckFolder(data + "/placeto-oracle", "made graphs");
}

TEST(PlacetoReferenceGoldenTest, EqualsThePublishedSimulatorOnRealGraphs) {
  const std::string data = EMPLACE_REFERENCE_DATA;
  if (ReferenceFiles(data + "/placeto-golden").empty()) {
    GTEST_SKIP() << "the reference data is absent: set the CMake variable EMPLACE_REFERENCE_DATA";
  }
  CheckFolder(data + "/placeto-golden", "real graphs");
}

}  // namespace
}  // namespace emplace::testing
