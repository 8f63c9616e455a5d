// tools/rerun: archived trials come out again, and a result that does not is counted. tools/estimates: trials take as
// long as a dry run says.

#include <gmock/gmock.h>

#include <string>

#include "tests/e2e/python_tool.h"

namespace emplace::testing {
namespace rerun_test {

using ::testing::HasSubstr;

class RerunTest : public PythonToolTest {};

TEST_F(RerunTest, ArchivedTrialsComeOutAgainLengthy) {
  const Ran ran = Tool("rerun", "--trials 2 hierarchical_start");
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("\n| `hierarchical_start` | 50 | 2 | 2 | "));
  // How many hours are estimated here depends on the machine and on what runs beside: in a sanitized build it was 0.1.
  EXPECT_THAT(ran.out,
              ::testing::ContainsRegex(
                  "\n2 of 2 agree. CPU hours of all 50 trials: 0.0 as archived, [0-9]+\\.[0-9] estimated here\n"));
}

TEST_F(RerunTest, AResultThatDoesNotComeOutIsCountedLengthy) {
  ASSERT_EQ(Tool("archive_runs", "--unpack . hierarchical_start").status, 0);
  ASSERT_EQ(Shell("sed -i 's/\"fitting\":[01]/\"fitting\":7/' hierarchical_start/*/trial.json").status, 0);
  ASSERT_EQ(Tool("archive_runs", "--archives . hierarchical_start").status, 0);
  const Ran ran = Tool("rerun", "--trials 1 --archives . hierarchical_start");
  EXPECT_EQ(ran.status, 1) << ran.out << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("\n0 of 1 agree."));
}

TEST_F(RerunTest, BadInputIsOneLineLengthy) {
  ExpectRefused(Tool("rerun", "--archives . none"),
                "none.trials.json.xz: is not an archive of runs (there is no such file)");
  ExpectRefused(Tool("rerun", "--trials 0"), "--trials 0 --jobs 1: 1 or more are expected");
  ExpectRefused(Tool("rerun", "--csv none/x.csv"), "none/x.csv: cannot be written (there is no folder none)");
  ExpectRefused(Tool("rerun", "hierarchical_start", "EMPLACE=./none "), "./none: is not a program");
  ExpectRefused(Tool("rerun", "hierarchical_start", "EMPLACE=/bin/true "), "/bin/true: plans nothing");
}

// Whether they take as long depends on what runs beside them: the tool's table is checked, not its figure.
TEST_F(RerunTest, TrialsAreComparedWithTheirEstimatesLengthy) {
  const Ran ran = Tool("estimates", "--trials 2 --csv x.csv thesis_quick");
  EXPECT_THAT(ran.out,
              ::testing::ContainsRegex("\n\\| `thesis_quick` \\| 18 \\| 2 \\| [012] \\| [0-9.]+ to [0-9.]+ \\|\n"));
  EXPECT_THAT(ran.out, ::testing::ContainsRegex("\n[012] of 2 in their range, [0-9.]+ %; 0 failed\n"));
  EXPECT_EQ(Shell("wc -l < x.csv").out, "3\n");
  ExpectRefused(Tool("estimates", "none"), "none.yaml: no such file");
}

}  // namespace rerun_test
}  // namespace emplace::testing
