#include "experiments/run/run_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/plan/checked_json.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"
#include "tests/testing/errors.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace run_reader_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RunReaderTest : public ::testing::Test {
 protected:
  RunReaderTest() {
    std::string made = ::testing::TempDir() + "run_reader_XXXXXX";  // unique, since tests run in parallel
    folder_ = std::string(mkdtemp(made.data())) + "/runs";
  }
  ~RunReaderTest() override { std::filesystem::remove_all(std::filesystem::path(folder_).parent_path()); }
  std::string File(const SampleTrial& trial, const std::string& name) const {
    return folder_ + "/demo/" + SampleId(trial) + "/" + name;
  }
  std::string Error() const {
    return ErrorOf([this] { experiments::ReadRuns(folder_); });
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
  const auto runs = experiments::ReadRuns(folder_);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].name, "demo");
  EXPECT_EQ(runs[0].question, "Is <b> better?");
  EXPECT_THAT(runs[0].metrics, ElementsAre("improvement"));
  EXPECT_EQ(runs[0].published, "thesis");
  ASSERT_EQ(runs[0].trials.size(), 1U);
  const experiments::TrialRecord& trial = runs[0].trials[0];
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
  WriteText(folder_ + "/other/experiment.json", R"({"schema": "emplace.experiment", "version": 1, "name": "other"})");
  EXPECT_EQ(experiments::ReadRuns(folder_).size(), 2U);
  for (const char* const end : {"/demo", "/demo/"}) {
    const auto one = experiments::ReadRuns(folder_ + end);
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
  const auto runs = experiments::ReadRuns(folder_);
  EXPECT_EQ(runs[0].trials.size(), 1U);
  ASSERT_EQ(runs[0].unfinished.size(), 3U);
  EXPECT_EQ(runs[0].unfinished[0].what, "");
  for (const experiments::UnfinishedTrial& trial : runs[0].unfinished) {
    if (trial.id == SampleId(failed)) {
      EXPECT_EQ(trial.error, "loss is NaN");
    } else if (trial.id == SampleId(running)) {
      EXPECT_FALSE(trial.error);
      EXPECT_EQ(trial.what, "x, cifar10 3, 4 devices, seed 3");
      EXPECT_EQ(trial.folder, folder_ + "/demo/" + SampleId(running));
    }
  }
}

TEST_F(RunReaderTest, OneExperimentIsReadBeforeAnyTrialIsFinished) {
  WriteRuns(folder_, {{}});
  std::filesystem::remove(File({}, "trial.json"));
  const auto runs = experiments::ReadExperiment(folder_ + "/demo");
  EXPECT_EQ(runs.name, "demo");
  EXPECT_TRUE(runs.trials.empty());
  ASSERT_EQ(runs.unfinished.size(), 1U);
  const auto missing = experiments::WithMissingTrials(runs);
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0].folder, folder_ + "/demo/" + SampleId({}));
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
  EXPECT_EQ(ErrorWith("\"graph\":\"cifar10_00\",", ""), file + "graphs[0].graph: is missing");
  EXPECT_THAT(ErrorWith("[10,800]", "[10]"), HasSubstr(file + "graphs[0].trace[1]: is a list of 1 element"));
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

TEST_F(RunReaderTest, AKeyThatIsMisspeltIsRefused) {
  const std::string file = File({}, "trial.json") + ": ";
  EXPECT_THAT(ErrorWith("\"revision\":\"abc\"", "\"revision\":\"abc\",\"new\":[1]"),
              HasSubstr(file + "new: unknown key (schema, version, experiment, "));
  EXPECT_THAT(ErrorWith("\"best_step_time_us\"", "\"best_step_tine_us\""),
              HasSubstr(file + "graphs[0].best_step_tine_us: unknown key (graph, num_ops, "));
  EXPECT_EQ(ErrorWith("\"lower_bound_us\":400,", ""), file + "graphs[0].lower_bound_us: is missing");
  EXPECT_THAT(ErrorWith("\"checksum\"", "\"checksun\""), HasSubstr(file + "checksun: unknown key ("));
  WriteRuns(folder_, {{}});
  WriteText(File({}, "timing.json"), Replaced(TimingJson({}), "wall_seconds", "wall_second"));
  EXPECT_THAT(Error(), HasSubstr("timing.json: wall_second: unknown key (schema, version, policy_seconds, "));
  std::filesystem::remove(File({}, "timing.json"));
  EXPECT_FALSE(experiments::ReadRuns(folder_)[0].trials[0].timing);
}

TEST_F(RunReaderTest, ANumberThatWasChangedIsRefused) {
  const std::string refusal =
      "checksum: is not that of the rest of the file, which is damaged or was changed (without trial.json and "
      "timing.json the same sweep runs the trial again)";
  EXPECT_EQ(ErrorWith("\"best_step_time_us\":800", "\"best_step_time_us\":700"),
            File({}, "trial.json") + ": " + refusal);
  EXPECT_EQ(ErrorWith("\"emplace\":\"0.1.0\"", "\"emplace\":\"0.1.1\""), File({}, "trial.json") + ": " + refusal);
  WriteRuns(folder_, {{}});
  WriteText(File({}, "timing.json"), Replaced(TimingJson({}), "\"policy_seconds\":40", "\"policy_seconds\":41"));
  EXPECT_EQ(Error(), File({}, "timing.json") + ": " + refusal);
  // White space changes no checksum.
  WriteText(File({}, "timing.json"), "\n " + Replaced(TimingJson({}), "\"version\":2,", "\"version\" : 2 ,\n\t"));
  EXPECT_EQ(Error(), "(no error)");
}

// Files of version 1 have no checksum; a damaged byte must not turn another file into one of them.
TEST_F(RunReaderTest, FilesOfVersionOneAreStillRead) {
  const auto first_version = [](const std::string& text) {
    JsonValue value = ParseJson(text);
    auto& members = std::get<JsonObject>(value.data);
    members[1].value.data = std::int64_t{1};
    std::erase_if(members, [](const JsonMember& member) {
      return member.key == "checksum" || member.key == "best_placement_fingerprint";
    });
    std::string out;
    AppendJson(&out, value);
    return out;
  };
  WriteRuns(folder_, {{}});
  WriteText(File({}, "trial.json"), first_version(TrialJson({})));
  WriteText(File({}, "timing.json"), first_version(TimingJson({})));
  EXPECT_EQ(Error(), "(no error)");
  WriteText(File({}, "trial.json"), Replaced(TrialJson({}), "\"version\":2", "\"version\":1"));
  EXPECT_THAT(Error(), HasSubstr("trial.json: checksum: is unknown in version 1 (version 2 has one)"));
  // The trial's ID is the checksum of its spec.
  WriteText(File({}, "trial.json"), Replaced(first_version(TrialJson({})), "\"seed\":1}", "\"seed\":2}"));
  EXPECT_THAT(Error(), HasSubstr("trial.json: spec: is that of trial "));
}

TEST_F(RunReaderTest, ASpecThatIsNotItsTrialsIsRefused) {
  WriteRuns(folder_, {{}, {.seed = 2}});
  WriteText(File({}, "spec.json"), Replaced(SpecJson({}), "\"seed\":42", "\"seed\":43"));
  EXPECT_THAT(Error(), HasSubstr(File({}, "spec.json") + ": is the spec of trial "));
  std::filesystem::remove(File({}, "spec.json"));
  EXPECT_EQ(Error(), "(no error)");
  // A spec.json that does not match is ignored if the trial is unfinished.
  std::filesystem::remove(File({}, "trial.json"));
  WriteText(File({}, "spec.json"), Replaced(SpecJson({}), "\"seed\":42", "\"seed\":43"));
  const auto runs = experiments::ReadRuns(folder_);
  ASSERT_EQ(runs[0].unfinished.size(), 1U);
  EXPECT_EQ(runs[0].unfinished[0].what, "");
  // Another trial's result is not accepted as this one's.
  WriteRuns(folder_, {{}, {.seed = 2}});
  WriteText(File({}, "trial.json"), TrialJson({.seed = 2}));
  EXPECT_EQ(Error(),
            File({}, "trial.json") + ": trial: is " + SampleId({.seed = 2}) + ", but the folder " + SampleId({}));
}

// All contents of a report as text.
std::string Shown(const std::vector<experiments::ExperimentRuns>& runs) {
  const experiments::ExperimentRuns& one = runs.at(0);
  const experiments::TrialRecord& trial = one.trials.at(0);
  const experiments::GraphRecord& graph = trial.graphs.at(0);
  std::string spec;
  AppendJson(&spec, trial.spec);
  return fmt::format("{} {} {} {} | {} {} {} {} {} | {} {} {} {} {} | {} {}", one.name, one.question,
                     fmt::join(one.metrics, " "), one.published, trial.id, trial.label, trial.seed, trial.version, spec,
                     graph.graph, graph.best_micros.value_or(-1), graph.improvement.value_or(-1), graph.evaluations,
                     fmt::join(graph.trace, " "), trial.timing ? trial.timing->policy_seconds : -1,
                     trial.timing ? trial.timing->wall_seconds : -1);
}

TEST_F(RunReaderTest, NoBitOfARunFolderFlipsIntoAnotherReport) {
  const SampleTrial sample = {.episodes = {{0, true, 0.5}}};
  WriteRuns(folder_, {sample}, R"(, "metrics": ["improvement"], "published": "thesis")");
  const std::string experiment = folder_ + "/demo/experiment.json";
  JsonValue value = experiments::ReadJsonFile(experiment);
  experiments::AddChecksum(&std::get<JsonObject>(value.data));
  experiments::WriteJsonFile(experiment, value);
  const std::string whole = Shown(experiments::ReadRuns(folder_));
  for (const std::string& file :
       {experiment, File(sample, "trial.json"), File(sample, "timing.json"), File(sample, "spec.json")}) {
    const std::string text = ReadWholeFile(file);
    for (std::size_t bit = 0; bit < 8 * text.size(); bit += 13) {
      std::string flipped = text;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      WriteText(file, flipped);
      std::string shown = whole;
      try {
        shown = Shown(experiments::ReadRuns(folder_));
      } catch (const InputError&) {
      }
      ASSERT_EQ(shown, whole) << file << ", bit " << bit;
    }
    WriteText(file, text);
  }
}

TEST(RunsFolderTest, AFolderThatIsNotThereIsSaid) {
  EXPECT_EQ(ErrorOf([] { experiments::CheckIsRunsFolder("/no/such/folder"); }),
            "/no/such/folder: there is no such folder");
}

}  // namespace run_reader_test
}  // namespace emplace::testing
