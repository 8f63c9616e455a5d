#include "experiments/run_reader.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "sim/json_text.h"
#include "tests/testing/errors.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace run_reader_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RunReaderTest : public ::testing::Test {
 protected:
  RunReaderTest() {
    std::string made = ::testing::TempDir() + "run_reader_XXXXXX";  // tests run beside each other
    folder_ = std::string(mkdtemp(made.data())) + "/runs";
  }
  ~RunReaderTest() override { std::filesystem::remove_all(std::filesystem::path(folder_).parent_path()); }
  std::string File(const SampleTrial& trial, const std::string& name) const {
    return folder_ + "/demo/" + SampleId(trial) + "/" + name;
  }
  std::string Error() const {
    return ErrorOf([this] { ReadRuns(folder_); });
  }
  // The error for a trial.json in which `from` became `to`.
  std::string ErrorWith(const std::string& from, const std::string& to) const {
    WriteRuns(folder_, {{}});
    WriteText(File({}, "trial.json"), Replaced(TrialJson({}), from, to));
    return Error();
  }

  std::string folder_;
};

TEST_F(RunReaderTest, TrialsAreReadWhole) {
  const SampleTrial sample = {.label = "mine", .devices = 5, .episodes = {{0, true, 0.5}, {1, false, std::nullopt}}};
  WriteRuns(folder_, {sample}, R"(, "metrics": ["improvement"], "published": "thesis")");
  const auto runs = ReadRuns(folder_);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].name, "demo");
  EXPECT_EQ(runs[0].question, "Is <b> better?");
  EXPECT_THAT(runs[0].metrics, ElementsAre("improvement"));
  EXPECT_EQ(runs[0].published, "thesis");
  ASSERT_EQ(runs[0].trials.size(), 1U);
  const TrialRecord& trial = runs[0].trials[0];
  EXPECT_EQ(trial.id, SampleId(sample));
  EXPECT_EQ(trial.label, "mine");
  EXPECT_EQ(trial.seed, "1");
  EXPECT_EQ(trial.revision, "abc");
  ASSERT_EQ(trial.graphs.size(), 1U);
  EXPECT_EQ(trial.graphs[0].graph, "cifar10_00");
  EXPECT_EQ(trial.graphs[0].num_devices, 5);
  EXPECT_EQ(trial.graphs[0].improvement, 20);
  EXPECT_THAT(trial.graphs[0].trace, ElementsAre(std::pair(1, 1000), std::pair(10, 800)));
  ASSERT_EQ(trial.graphs[0].episodes.size(), 2U);
  EXPECT_TRUE(trial.graphs[0].episodes[0].argmax);
  EXPECT_EQ(trial.graphs[0].episodes[0].entropy, 0.5);
  EXPECT_FALSE(trial.graphs[0].episodes[1].entropy);
  ASSERT_TRUE(trial.timing);
  EXPECT_EQ(trial.timing->policy_seconds_per_episode, 2);
}

TEST_F(RunReaderTest, OneExperimentOrAFolderOfThem) {
  WriteRuns(folder_, {{.seed = 1}, {.seed = 2}});
  WriteText(folder_ + "/other/experiment.json", R"({"name": "other"})");
  EXPECT_EQ(ReadRuns(folder_).size(), 2U);
  for (const char* const end : {"/demo", "/demo/"}) {
    const auto one = ReadRuns(folder_ + end);
    ASSERT_EQ(one.size(), 1U);
    EXPECT_EQ(one[0].trials.size(), 2U);
    EXPECT_LT(one[0].trials[0].id, one[0].trials[1].id);
  }
}

TEST_F(RunReaderTest, TrialsThatFailedOrAreNotFinishedAreNamed) {
  const SampleTrial failed = {.seed = 2};
  const SampleTrial running = {.label = "x", .index = 3, .devices = 4, .seed = 3};
  WriteRuns(folder_, {{}, failed, running});
  std::filesystem::remove(File(failed, "trial.json"));
  std::filesystem::remove(File(running, "trial.json"));
  WriteText(File(failed, "error.txt"), "loss is NaN\nmore\n");
  WriteText(folder_ + "/demo/0000000000000000/error.txt", "no spec");
  const auto runs = ReadRuns(folder_);
  EXPECT_EQ(runs[0].trials.size(), 1U);
  ASSERT_EQ(runs[0].unfinished.size(), 3U);
  EXPECT_EQ(runs[0].unfinished[0].what, "");
  for (const UnfinishedTrial& trial : runs[0].unfinished) {
    if (trial.id == SampleId(failed)) {
      EXPECT_EQ(trial.error, "loss is NaN");
    } else if (trial.id == SampleId(running)) {
      EXPECT_FALSE(trial.error);
      EXPECT_EQ(trial.what, "x, cifar10 3, 4 devices, seed 3");
    }
  }
}

TEST_F(RunReaderTest, AFolderWithoutRunsIsRefused) {
  EXPECT_EQ(Error(), folder_ + ": there is no such folder");
  std::filesystem::create_directories(folder_);
  EXPECT_THAT(Error(), HasSubstr("holds no experiment"));
  WriteRuns(folder_, {{}});
  std::filesystem::remove(File({}, "trial.json"));
  EXPECT_EQ(Error(), folder_ + ": no trial is finished (a folder with a trial.json)");
}

TEST_F(RunReaderTest, BrokenFilesAreNamedWithThePlace) {
  const std::string file = File({}, "trial.json") + ": ";
  EXPECT_EQ(ErrorWith("\"graph\":\"cifar10_00\",", ""), file + "graphs[0].graph: is missing (a string)");
  EXPECT_THAT(ErrorWith("[10.0,800.0]", "[10]"), HasSubstr(file + "graphs[0].trace[1]: is a list of 1 element"));
  EXPECT_THAT(ErrorWith("\"num_ops\":100", "\"num_ops\":\"x\""), HasSubstr(file + "graphs[0].num_ops: is the text"));
  EXPECT_THAT(ErrorWith("emplace.trial\"", "emplace.result\""), HasSubstr(file + "schema"));
  EXPECT_THAT(ErrorWith("\"seed\":1", "\"sed\":1"), HasSubstr(file + "spec.seed: is missing"));
  EXPECT_THAT(ErrorWith("\"seed\":1", "\"seed\":1,\"seed\":1"), HasSubstr(file + "spec.seed: duplicate key"));
  EXPECT_THAT(ErrorWith("{\"schema\":\"emplace.trial\"", "{"), HasSubstr(file + "line 1"));
  WriteRuns(folder_, {{}});
  WriteText(File({}, "timing.json"), "{}");
  EXPECT_THAT(Error(), HasSubstr("timing.json: schema"));
  WriteRuns(folder_, {{}});
  WriteText(folder_ + "/demo/experiment.json", "[");
  EXPECT_THAT(Error(), HasSubstr("experiment.json: line 1"));
}

TEST_F(RunReaderTest, UnknownKeysAndMissingTimingAreLetPass) {
  EXPECT_EQ(ErrorWith("\"revision\":\"abc\"", "\"revision\":\"abc\",\"new\":[1]"), "(no error)");
  std::filesystem::remove(File({}, "timing.json"));
  EXPECT_FALSE(ReadRuns(folder_)[0].trials[0].timing);
}

TEST_F(RunReaderTest, PathsLeadToValues) {
  const JsonValue root = ParseJson(R"({"a": {"b": [1, 2], "c": "text"}})");
  EXPECT_EQ(PlainText(*FindPath(root, "a.c")), "text");
  EXPECT_EQ(PlainText(*FindPath(root, "a.b")), "[1,2]");
  EXPECT_EQ(FindPath(root, "a.d"), nullptr);
  EXPECT_EQ(FindPath(root, "a.c.d"), nullptr);
}

}  // namespace run_reader_test
}  // namespace emplace::testing
