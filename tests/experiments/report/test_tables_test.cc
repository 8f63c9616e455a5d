#include "experiments/report/test_tables.h"

#include <gmock/gmock.h>

#include "tests/testing/runs.h"

namespace emplace::testing {
namespace report_tests_test {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Six graphs on which c is always faster than b, and b than a.
std::vector<experiments::TrialRecord> ThreeAgents() {
  std::vector<SampleTrial> trials;
  for (int index = 0; index < 6; ++index) {
    trials.push_back({.label = "a", .index = index, .best = 900.0 + index});
    trials.push_back({.label = "b", .index = index, .best = 800.0 - index});
    trials.push_back({.label = "c", .index = index, .best = 700.0 - 3 * index});
  }
  return MakeRecords(trials);
}

std::vector<experiments::PairedTest> Tests(const std::vector<experiments::TrialRecord>& trials) {
  return experiments::MakePairedTests(trials, experiments::MakeReportGrid(trials), {0},
                                      experiments::PairedQuantity::kImprovement);
}

TEST(ReportTestsTest, TheMatrixIsAntisymmetricWithTheSamePValues) {
  const experiments::TableBlock block = experiments::TestMatrix(Tests(ThreeAgents()), {"c", "b", "a"}, "caption");
  EXPECT_EQ(block.caption, "caption; 6 pairs, 6 graphs");
  EXPECT_THAT(block.header, ElementsAre("row minus column", "c", "b", "a"));
  ASSERT_EQ(block.rows.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(block.rows[i][i + 1].text, "");
    for (std::size_t j = 0; j < i; ++j) {
      const experiments::TextCell& below = block.rows[i][j + 1];
      const experiments::TextCell& above = block.rows[j][i + 1];
      EXPECT_EQ(above.text.substr(1), below.text.substr(1));
      EXPECT_EQ(above.text[0], '+');
      EXPECT_EQ(below.text[0], '-');
      // After the interval.
      EXPECT_THAT(below.details, ElementsAre(HasSubstr("[-"), above.details[1], above.details[2]));
      // Six of six in one direction: 2 / 2^6, three tests.
      EXPECT_THAT(above.details[1], EndsWith("p 0.094"));
      EXPECT_EQ(above.details[2], "graphs: p 0.094");
    }
  }
}

TEST(ReportTestsTest, SureDifferencesAreBoldAndColoured) {
  std::vector<experiments::TrialRecord> trials = ThreeAgents();
  std::erase_if(trials, [](const experiments::TrialRecord& trial) { return trial.label == "a"; });
  const experiments::TableBlock block = experiments::TestMatrix(Tests(trials), {"c", "b"}, "");
  // One test: 2 / 2^6 = 0.031.
  EXPECT_TRUE(block.rows[0][2].strong);
  EXPECT_EQ(block.rows[0][2].tone, experiments::CellTone::kBetter);
  EXPECT_EQ(block.rows[1][1].tone, experiments::CellTone::kWorse);
  EXPECT_FALSE(experiments::TestMatrix(Tests(ThreeAgents()), {"c", "b", "a"}, "").rows[0][2].strong);
}

TEST(ReportTestsTest, CellsCountTheirPairsWhereTheyAreNotTheUsualOnes) {
  std::vector<experiments::TrialRecord> trials = ThreeAgents();
  std::erase_if(trials, [](const experiments::TrialRecord& trial) {
    return trial.label == "a" && trial.graphs[0].graph == "cifar10_05";
  });
  const experiments::TableBlock block = experiments::TestMatrix(Tests(trials), {"c", "b", "a"}, "caption");
  EXPECT_EQ(block.caption, "caption; 5 pairs, 5 graphs, unless a cell says otherwise");
  EXPECT_EQ(block.rows[0][2].details.back(), "6 pairs, 6 graphs");
  EXPECT_THAT(block.rows[0][3].details.back(), StartsWith("graphs: p "));
}

TEST(ReportTestsTest, AgentsWithoutACommonPairHaveADash) {
  const auto trials =
      MakeRecords({{.label = "a"}, {.label = "b"}, {.label = "b", .seed = 2}, {.label = "c", .seed = 2}});
  const experiments::TableBlock block = experiments::TestMatrix(Tests(trials), {"a", "b", "c"}, "");
  EXPECT_EQ(block.rows[0][3].text, "–");
  EXPECT_NE(block.rows[1][3].text, "–");
}

TEST(ReportTestsTest, EachDatasetHasAFoldedMatrixOfItsOwn) {
  const auto trials =
      MakeRecords({{.label = "a"}, {.label = "b"}, {.label = "a", .dataset = "nmt"}, {.label = "b", .dataset = "nmt"}});
  const auto blocks = experiments::TestBlocks(trials, experiments::MakeReportGrid(trials), {"a", "b"});
  ASSERT_EQ(blocks.size(), 5U);  // heading, explanation, three matrices
  EXPECT_FALSE(std::get<experiments::TableBlock>(blocks[2]).folded);
  EXPECT_TRUE(std::get<experiments::TableBlock>(blocks[4]).folded);
  EXPECT_THAT(std::get<experiments::TableBlock>(blocks[4]).caption, HasSubstr("nmt"));
  const auto alone = MakeRecords({{.label = "a"}});
  EXPECT_TRUE(experiments::TestBlocks(alone, experiments::MakeReportGrid(alone), {"a"}).empty());
}

}  // namespace report_tests_test
}  // namespace emplace::testing
