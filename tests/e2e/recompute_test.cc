// tools/recompute: every results page is what its template and the archives give, and a figure that is not is named.

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/e2e/python_tool.h"
#include "tests/testing/reference.h"

namespace emplace::testing {
namespace recompute_test {

namespace fs = std::filesystem;

using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class RecomputeTest : public PythonToolTest {
 protected:
  Ran Recompute(const std::string& arguments) const {
    std::string data;
    if (HasPublicFiles()) data = EMPLACE_REFERENCE_DATA;
    return Tool("recompute", arguments, "EMPLACE=$emplace EMPLACE_REFERENCE_DATA='" + data + "' ");
  }

  // Whether the third-party files that pages are made of are there.
  static bool HasPublicFiles() {
    for (const char* project : {"facebookresearch+param", "facebookresearch+HolisticTraceAnalysis", "AMD-AGI+TraceLens",
                                "VIA-Research+vTrain"}) {
      if (ReferenceFolder(project).empty()) return false;
    }
    return true;
  }

  // Copies the page into the folder of the test, with the first `from` replaced.
  void WriteChanged(const std::string& page, const std::string& from, const std::string& to) const {
    ASSERT_EQ(
        Shell("cp " + Quoted("docs/results/" + page + ".md") + " original.md && cp original.md " + page + ".md").status,
        0);
    std::string text = Read(page + ".md");
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    Write(page + ".md", text.replace(at, from.size(), to));
  }
};

TEST_F(RecomputeTest, EveryFigureOfQuickPagesAgreesLengthy) {
  const Ran ran = Recompute("--differences tuning throughput import");
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
  EXPECT_EQ(ran.err, "");
  for (const std::string page : {"tuning", "throughput", "import"}) {
    EXPECT_THAT(ran.out, ContainsRegex("docs/results/" + page + ".md: [1-9][0-9]* figures agree, 0 differ\n"));
  }
}

// In one process, since pages quote each other and share archives.
TEST_F(RecomputeTest, EveryFigureOfEveryPageAgreesSlow) {
  const Ran ran = Recompute("--differences");
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
  EXPECT_EQ(ran.err, "");
  // The advice quotes the pages.
  for (const std::string page : {"docs/agents.md: "}) {
    const std::size_t at = ran.out.find(page);
    ASSERT_NE(at, std::string::npos) << page;
    EXPECT_THAT(ran.out.substr(at + 1, ran.out.find('\n', at + 1) - at - 1), EndsWith(" figures agree, 0 differ"));
  }
  std::vector<std::string> pages = {"README"};
  for (const auto& entry : fs::directory_iterator(Root() / "experiments/pages")) {
    if (entry.path().extension() == ".py") pages.push_back(entry.path().stem());
  }
  for (const std::string& page : pages) {
    const std::size_t at = ran.out.find("docs/results/" + page + ".md: ");
    ASSERT_NE(at, std::string::npos) << page;
    // These two are of others' files, which need not be there.
    if ((page == "replay" || page == "vtrain") && !HasPublicFiles()) continue;
    EXPECT_THAT(ran.out.substr(at, ran.out.find('\n', at) - at), EndsWith(" figures agree, 0 differ"));
  }
}

TEST_F(RecomputeTest, AChangedDigitIsNamedAndCorrectedLengthy) {
  // A digit of a table, then one in the text.
  WriteChanged("tuning", "| `placeto` | discount 1 | 2.182 |", "| `placeto` | discount 1 | 2.183 |");
  std::string text = Read("tuning.md");
  const std::size_t at = text.find(" % faster than the paper's") - 1;
  const char digit = text[at];
  text[at] = digit == '9' ? '8' : '9';
  Write("tuning.md", text);

  const Ran ran = Recompute("--differences tuning.md");
  EXPECT_EQ(ran.status, 1) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("tuning.md:33: tables.best[`placeto`, nmt]: page 2.183, archive 2.182: differs\n"));
  EXPECT_THAT(ran.out, HasSubstr("tuning.md:9: gain.max: page 1" + std::string(1, text[at]) + ", archive 1" +
                                 std::string(1, digit) + ": differs\n"));
  EXPECT_THAT(ran.out, EndsWith(" 2 differ\n"));

  EXPECT_EQ(Recompute("--write tuning.md").status, 0);
  EXPECT_TRUE(Read("tuning.md") == Read("original.md"));
  EXPECT_EQ(Names(), "original.md tuning.md ");
}

TEST_F(RecomputeTest, ChangedWordsAreNamedLengthy) {
  WriteChanged("tuning", "# Tuning: eight settings", "# Tuning: nine settings");
  const Ran ran = Recompute("--differences tuning.md");
  EXPECT_EQ(ran.status, 1) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("tuning.md:2: words: page '# Tuning: nine settings for ea', archive "
                                 "'# Tuning: eight settings for e': differs\n"));
}

TEST_F(RecomputeTest, BadInputIsOneLineLengthy) {
  ExpectRefused(Recompute("nothing"), "nothing: is not a page (one of accuracy, ");
  Write("other.md", "A page of no template.\n");
  ExpectRefused(Recompute("other.md"), "experiments/pages/other.md.j2: cannot be read (No such file or directory)");
  ExpectRefused(Recompute("post --archives ."),
                "post.trials.json.xz: is not an archive of runs (there is no such file)");
  Write("post.trials.json.xz", "no archive");
  ExpectRefused(Recompute("post --archives ."), "post.trials.json.xz: is not an archive of runs (LZMAError: ");
  // An archive of other runs.
  ASSERT_EQ(Shell("cp " + Quoted("experiments/results/sgdp_ops.trials.json.xz") + " post.trials.json.xz").status, 0);
  ExpectRefused(Recompute("post --archives ."),
                "post: its page has no place for search on ops, sgdp, node ratio (labels");
  ExpectRefused(Tool("recompute", "post", "EMPLACE=./none "), "./none: is not a program");
}

TEST_F(RecomputeTest, APageOfOthersFilesSaysThatItNeedsThem) {
  const Ran of_others = Tool("recompute", "replay", "EMPLACE_REFERENCE_DATA= ");
  EXPECT_EQ(of_others.status, 0) << of_others.err;
  EXPECT_THAT(of_others.out, HasSubstr("EMPLACE_REFERENCE_DATA=FOLDER names others' files\n"));
}

TEST_F(RecomputeTest, NumbersOfATemplateAreListed) {
  const Ran ran = Recompute("--literals post");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, ContainsRegex("experiments/pages/post.md.j2:[0-9]+: 38: .*published are 38 to 57 %"));
}

}  // namespace recompute_test
}  // namespace emplace::testing
