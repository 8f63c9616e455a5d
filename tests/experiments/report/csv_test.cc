#include "experiments/report/csv.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "tests/testing/runs.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> Lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::size_t Commas(const std::string& line) {
  // Counts commas outside quotes.
  std::size_t commas = 0;
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) ++commas;
  }
  return commas;
}

TEST(ReportCsvTest, ThereIsALineForEachTrialAndGraph) {
  experiments::ExperimentRuns runs{.name = "demo"};
  runs.trials = MakeRecords({{.label = "a, b", .episodes = {{0, false, 0.25}}}, {.seed = 2, .best = std::nullopt}});
  runs.trials[0].transfers.push_back(
      {.graph = "t", .num_devices = 2, .single_device_micros = 100, .best_micros = 91, .improvement = 7});
  std::ostringstream out;
  experiments::WriteTrialsCsv(out, {runs});
  const auto lines = Lines(out.str());
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[0], StartsWith("experiment,trial,agent,"));
  EXPECT_THAT(lines[1], HasSubstr(",\"a, b\",random,"));
  EXPECT_THAT(lines[1], HasSubstr(",cifar10_00,0,2,100,10,1000,800,20,400,10,0.25,2,40,1.5,50,1000,20"));
  EXPECT_THAT(lines[2], HasSubstr(",t,1,2,,,,91,9,,0,,,,,,100,7"));
  EXPECT_THAT(lines[3], HasSubstr(",cifar10_00,0,2,100,10,1000,,,400,10,,2,40,1.5,50,1000,"));
  for (const std::string& line : lines) EXPECT_EQ(Commas(line), Commas(lines[0])) << line;
}

TEST(ReportCsvTest, ThereIsALineForEachCellOfATable) {
  experiments::ExperimentRuns runs{.name = "demo", .metrics = {"improvement"}, .published = "thesis"};
  runs.trials =
      MakeRecords({{.label = "p", .name = "placeto", .devices = 3}, {.label = "p", .name = "placeto", .devices = 5}});
  std::ostringstream out;
  experiments::WriteTableCsv(out, {runs});
  const auto lines = Lines(out.str());
  // Improvement, then the thesis's metric, for which the published table has figures.
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_EQ(lines[1], "demo,improvement,p,3 GPUs,num_devices=3,,20,,,1,1,,,1,1");
  EXPECT_EQ(
      lines[4],
      "demo,thesis_improvement,p,3 GPUs,num_devices=3,,20,,,1,1,24.585,\"table 4.3, cifar10, Placeto, 3 devices\",1,1");
  EXPECT_EQ(lines[6], "demo,thesis_improvement,p,average,,\"num_devices=3,5\",20,,,2,1,,,2,2");
  for (const std::string& line : lines) EXPECT_EQ(Commas(line), Commas(lines[0])) << line;
}

TEST(ReportCsvTest, ThereIsALineForEachPairedTest) {
  experiments::ExperimentRuns runs{.name = "demo"};
  std::vector<SampleTrial> samples;
  for (int devices = 3; devices <= 5; ++devices) {
    for (int seed = 1; seed <= 2; ++seed) {
      samples.push_back({.label = "a", .devices = devices, .seed = seed, .best = 800.0 + 10 * devices + seed});
      samples.push_back({.label = "b", .devices = devices, .seed = seed, .best = 700.0});
    }
  }
  runs.trials = MakeRecords(samples);
  std::ostringstream out;
  experiments::WriteTestsCsv(out, {runs});
  const auto lines = Lines(out.str());
  // One dataset, two agents: the improvement and the log of the step time.
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[1], StartsWith("demo,improvement,,b,a,14.1"));
  // Six pairs: 2 / 2^6. Three problems: 2 / 2^3. One graph.
  EXPECT_THAT(lines[1], HasSubstr(",6,0.03125,0.03125,3,0.25,1,1,1"));
  EXPECT_THAT(lines[2], StartsWith("demo,log_step_time,,b,a,18.4"));
  for (const std::string& line : lines) EXPECT_EQ(Commas(line), Commas(lines[0])) << line;
}

}  // namespace
}  // namespace emplace::testing
