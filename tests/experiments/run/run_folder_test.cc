#include "experiments/run/run_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "experiments/plan/problem.h"
#include "experiments/run/run_reader.h"
#include "experiments/run/trial_claim.h"
#include "experiments/run/trial_crashes.h"
#include "experiments/version.h"
#include "sim/base/file_io.h"
#include "sim/base/fingerprint.h"
#include "tests/testing/experiments.h"

namespace emplace::testing {
namespace run_folder_test {

namespace fs = std::filesystem;

// A folder of runs with one trial, ready to run.
class RunFolderTest : public ::testing::Test {
 protected:
  RunFolderTest() {
    std::string made = ::testing::TempDir() + "run_folder_XXXXXX";
    runs_ = mkdtemp(made.data());
    Prepare(kExperiment);
  }
  ~RunFolderTest() override { fs::remove_all(runs_); }

  void Prepare(const std::string& experiment) {
    trial_ = experiments::PlanTrials(ReadText(experiment), /*set_up=*/false).trials.at(0);
    folder_ = experiments::PrepareTrialFolder((runs_ / "small").string(), trial_);
  }
  std::string Read(const std::string& name) const { return ReadWholeFile((fs::path(folder_) / name).string()); }
  nlohmann::json ReadJson(const std::string& name) const { return nlohmann::json::parse(Read(name)); }
  bool Exists(const std::string& name) const { return fs::exists(fs::path(folder_) / name); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(fs::path(folder_) / name) << text;
  }

  fs::path runs_;
  experiments::PlannedTrial trial_;
  std::string folder_;
};

TEST_F(RunFolderTest, ATrialIsWhatItsSpecSays) {
  EXPECT_EQ(fs::path(folder_).filename().string(), trial_.id);
  EXPECT_FALSE(experiments::IsFinished(folder_));
  ASSERT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  EXPECT_TRUE(experiments::IsFinished(folder_));
  const nlohmann::json trial = ReadJson("trial.json");
  EXPECT_EQ(trial.at("schema"), "emplace.trial");
  EXPECT_EQ(trial.at("experiment"), "small");
  EXPECT_EQ(trial.at("trial"), trial_.id);
  EXPECT_EQ(trial.at("emplace"), std::string(experiments::Version()));
  EXPECT_EQ(trial.at("revision"), std::string(experiments::Revision()));
  EXPECT_EQ(trial.at("spec"), ReadJson("spec.json"));
  EXPECT_EQ(trial.at("evaluations"), 600);
  EXPECT_FALSE(trial.contains("transfer"));
  const nlohmann::json& graph = trial.at("graphs").at(0);
  EXPECT_EQ(graph.at("num_devices"), 2);
  EXPECT_EQ(graph.at("fitting"), 600);
  EXPECT_FALSE(graph.contains("episodes"));
  const double start = graph.at("start_step_time_us");
  const double best = graph.at("best_step_time_us");
  EXPECT_DOUBLE_EQ(graph.at("improvement_percent"), (start - best) / start * 100);
  EXPECT_LE(graph.at("lower_bound_us"), best);
  EXPECT_EQ(graph.at("trace").front().at(0), 1);
  EXPECT_EQ(graph.at("trace").front().at(1), start);
  EXPECT_EQ(graph.at("trace").back().at(0), 600);
  EXPECT_EQ(graph.at("trace").back().at(1), best);
  // The step time is that of the placement.
  EXPECT_EQ(ReadJson("best_placement.json").at("devices").size(), graph.at("num_ops"));
  const nlohmann::json timing = ReadJson("timing.json");
  EXPECT_EQ(timing.at("schema"), "emplace.timing");
  EXPECT_EQ(timing.at("episodes"), 0);
  EXPECT_TRUE(timing.at("policy_seconds_per_episode").is_null());
  EXPECT_FALSE(Exists("policy.bin"));
  EXPECT_FALSE(Exists("error.txt"));
  const experiments::TrialSummary summary = experiments::SummariseTrial(folder_);
  EXPECT_EQ(summary.best_micros, best);
  const double single = graph.at("single_device_step_time_us");
  EXPECT_DOUBLE_EQ(summary.improvement_percent.value_or(0), (single - best) / single * 100);
  EXPECT_EQ(summary.wall_seconds, timing.at("wall_seconds"));
}

TEST_F(RunFolderTest, AFinishedTrialIsNotRunAgain) {
  Write("trial.json", "not to be touched");
  EXPECT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  EXPECT_EQ(Read("trial.json"), "not to be touched");
}

TEST_F(RunFolderTest, OneProcessAtATimeRunsATrial) {
  auto claim = experiments::TrialClaim::Take(folder_, std::chrono::seconds(60));
  ASSERT_TRUE(claim);
  EXPECT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kBusy);
  EXPECT_FALSE(experiments::IsFinished(folder_));
  claim.reset();
  EXPECT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  EXPECT_FALSE(Exists("lock"));
}

TEST_F(RunFolderTest, AFailureIsOneLineUntilTheTrialIsTriedAgain) {
  // A checkpoint that can be neither read nor moved away.
  fs::create_directories(folder_ + "/checkpoint.bin/in_the_way");
  EXPECT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kFailed);
  EXPECT_FALSE(experiments::IsFinished(folder_));
  EXPECT_EQ(experiments::ReadTrialError(folder_).rfind(folder_ + "/checkpoint.bin: cannot be ", 0), 0U)
      << experiments::ReadTrialError(folder_);
  EXPECT_EQ(Read("error.txt"), experiments::ReadTrialError(folder_) + "\n");
  fs::remove_all(folder_ + "/checkpoint.bin");
  EXPECT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  EXPECT_FALSE(Exists("error.txt"));
  experiments::WriteTrialError(folder_, "two\nlines");
  EXPECT_EQ(Read("error.txt"), "two\\nlines\n");
}

TEST_F(RunFolderTest, ASpecThatIsNotTheTrialsIsNotRunAndWrittenAgain) {
  const std::string spec = Read("spec.json");
  const std::string changed = Replaced(spec, "\"annealing\",\"set\"", "\"random\",\"set\"");
  Write("spec.json", changed);
  EXPECT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kFailed);
  EXPECT_EQ(experiments::ReadTrialError(folder_).rfind(folder_ + "/spec.json: is the spec of trial ", 0), 0U)
      << experiments::ReadTrialError(folder_);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(experiments::PrepareTrialFolder((runs_ / "small").string(), trial_), folder_);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("; written again\n"), std::string::npos);
  EXPECT_EQ(Read("spec.json"), spec);
  EXPECT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
}

TEST_F(RunFolderTest, WhatATrialWroteIsReadAgain) {
  ASSERT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  const experiments::TrialRecord trial = experiments::ReadFinishedTrial(folder_);
  EXPECT_EQ(trial.id, trial_.id);
  EXPECT_EQ(trial.placement_fingerprint, FingerprintText(Read("best_placement.json")));
  EXPECT_TRUE(trial.timing);
  EXPECT_EQ(experiments::ReadFinishedTrial(folder_ + "/").id, trial_.id);
  const std::string whole = Read("trial.json");
  Write("trial.json", Replaced(whole, "\"fitting\":600", "\"fitting\":601"));
  EXPECT_NE(
      ErrorOf([&] { experiments::SummariseTrial(folder_); }).find("trial.json: checksum: is not that of the rest"),
      std::string::npos);
  // The same content gives the same bytes.
  fs::remove(folder_ + "/trial.json");
  EXPECT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  EXPECT_EQ(Read("trial.json"), whole);
}

TEST_F(RunFolderTest, ACheckpointThatCannotBeReadIsGivenUp) {
  ASSERT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  const std::string whole = Read("trial.json");
  fs::remove(folder_ + "/trial.json");
  Write("checkpoint.bin", "damaged");
  const std::string half = "trial.json." + std::to_string(getpid()) + ".0.tmp";
  const std::string ours = "spec.json." + std::to_string(getpid()) + ".0.tmp";
  Write(half, "half");
  Write("spec.json.99999999.0.tmp", "half");
  Write(ours, "being written");
  const int writer = open((folder_ + "/" + ours).c_str(), O_RDWR);
  ASSERT_EQ(flock(writer, LOCK_EX | LOCK_NB), 0);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("; starting again\n"), std::string::npos);
  EXPECT_EQ(Read("trial.json"), whole);
  EXPECT_FALSE(Exists(half));
  EXPECT_FALSE(Exists("spec.json.99999999.0.tmp"));
  EXPECT_TRUE(Exists(ours));
  close(writer);
}

TEST_F(RunFolderTest, ACheckpointIsGoneOnFrom) {
  ASSERT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  const std::string whole = Read("trial.json");
  fs::remove(folder_ + "/trial.json");
  fs::remove(folder_ + "/progress.jsonl");
  // The checkpoint is of a complete search, so nothing is run and no progress is reported.
  EXPECT_EQ(experiments::RunTrialFolder(folder_ + "/"), experiments::TrialOutcome::kDone);
  EXPECT_EQ(Read("trial.json"), whole);
  EXPECT_EQ(Read("progress.jsonl"), "");
}

TEST_F(RunFolderTest, WhenTheResultIsKnownOnlyItsFilesAreLeft) {
  int called = 0;
  const auto publishing = [&] {
    ++called;
    EXPECT_NE(Read("progress.jsonl").find("\"evaluations\":600"), std::string::npos);
    EXPECT_FALSE(Exists("trial.json"));
    EXPECT_FALSE(Exists("best_placement.json"));
    EXPECT_TRUE(Exists("lock"));
  };
  EXPECT_EQ(experiments::RunTrialFolder(folder_, {.publishing = publishing}), experiments::TrialOutcome::kDone);
  EXPECT_EQ(called, 1);
  EXPECT_TRUE(Exists("trial.json"));
  // A finished trial is not published again.
  EXPECT_EQ(experiments::RunTrialFolder(folder_, {.publishing = publishing}), experiments::TrialOutcome::kDone);
  EXPECT_EQ(called, 1);
}

TEST_F(RunFolderTest, ProgressGrowsALineAtATime) {
  ASSERT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  std::istringstream lines(Read("progress.jsonl"));
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);) last = nlohmann::json::parse(line);
  EXPECT_EQ(last.at("evaluations"), 600);
  EXPECT_EQ(last.at("budget"), 600);
}

TEST_F(RunFolderTest, AnInterruptedTrialGoesOnFromItsCheckpoint) {
  Prepare(WithLine("budget: {evaluations: 3000}"));
  int asked = 0;
  const auto interrupt = [&asked] { return ++asked == 5; };
  ASSERT_EQ(experiments::RunTrialFolder(folder_, {.interrupt = interrupt}), experiments::TrialOutcome::kInterrupted);
  EXPECT_TRUE(Exists("checkpoint.bin"));
  EXPECT_FALSE(Exists("lock"));
  EXPECT_FALSE(Exists("error.txt"));
  ASSERT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  const std::string whole = Read("trial.json");
  fs::remove_all(folder_);
  Prepare(WithLine("budget: {evaluations: 3000}"));
  ASSERT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  EXPECT_EQ(Read("trial.json"), whole);
}

// Runs the trial, and lets another process do something meanwhile.
TEST_F(RunFolderTest, ATrialThatRanTwiceIsCompared) {
  ASSERT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  const std::string whole = Read("trial.json");
  fs::remove(folder_ + "/trial.json");
  fs::remove(folder_ + "/checkpoint.bin");
  const auto publish = [&](const std::string& text) {
    return [this, text] {
      if (!Exists("trial.json")) Write("trial.json", text);
      return false;
    };
  };
  EXPECT_EQ(experiments::RunTrialFolder(folder_, {.interrupt = publish(whole)}), experiments::TrialOutcome::kDone);
  EXPECT_FALSE(Exists(std::string(experiments::kDifferencesFile)));
  fs::remove(folder_ + "/trial.json");
  fs::remove(folder_ + "/checkpoint.bin");
  EXPECT_EQ(experiments::RunTrialFolder(folder_, {.interrupt = publish("other\n")}),
            experiments::TrialOutcome::kDiffers);
  EXPECT_EQ(Read("trial.json"), "other\n");
  EXPECT_EQ(Read(std::string(experiments::kDifferencesFile)).rfind("trial.json: ", 0), 0U);
}

TEST_F(RunFolderTest, AProcessThatLostItsClaimLeavesTheFolderAlone) {
  // The claim becomes another's during the search. The lease is short, so that the loss is noticed soon.
  const auto lose = [this] {
    Write("lock", "{\"host\": \"other\", \"instance\": \"other\"}");
    usleep(300'000);
    return false;
  };
  EXPECT_EQ(experiments::RunTrialFolder(folder_, {.lease = std::chrono::milliseconds(300), .interrupt = lose}),
            experiments::TrialOutcome::kLost);
  EXPECT_FALSE(Exists("trial.json"));
  EXPECT_FALSE(Exists("best_placement.json"));
  EXPECT_FALSE(Exists("error.txt"));
  EXPECT_EQ(Read("lock"), "{\"host\": \"other\", \"instance\": \"other\"}");
}

TEST_F(RunFolderTest, AFailedTrialIsForgotten) {
  experiments::WriteTrialError(folder_, "it broke");
  experiments::RecordCrash(folder_, {.how = "ended"});
  experiments::ForgetTrialError(folder_);
  EXPECT_FALSE(Exists("error.txt"));
  EXPECT_FALSE(Exists("crashes.jsonl"));
}

TEST_F(RunFolderTest, WhereNothingFitsThereIsNoBest) {
  // 120,000 words of 16,000 numbers are 7 GB, twice with their gradients: too much for one card.
  Prepare(WithLine("graphs: {model: rnnlm, set: {hidden: 16384, steps: 1, layers: 1}}",
                   WithLine("cluster: {name: post-8k80, devices: [\"gpu:0\"]}", WithLine("budget: {evaluations: 3}"))));
  ASSERT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  const nlohmann::json graph = ReadJson("trial.json").at("graphs").at(0);
  EXPECT_TRUE(graph.at("best_step_time_us").is_null());
  EXPECT_TRUE(graph.at("improvement_percent").is_null());
  EXPECT_EQ(graph.at("fitting"), 0);
  EXPECT_EQ(graph.at("trace").size(), 0U);
  EXPECT_FALSE(Exists("best_placement.json"));
  EXPECT_FALSE(experiments::SummariseTrial(folder_).best_micros);
}

TEST_F(RunFolderTest, AllGraphsThatAnAgentHadTogetherAreThere) {
  Prepare(WithLine("graphs: {dataset: cifar10, index: [2, 5], together: true}", WithLine("agent: {name: random}")));
  ASSERT_EQ(experiments::RunTrialFolder(folder_), experiments::TrialOutcome::kDone);
  const nlohmann::json trial = ReadJson("trial.json");
  ASSERT_EQ(trial.at("graphs").size(), 2U);
  EXPECT_EQ(trial.at("graphs").at(1).at("graph"), "cifar10_05");
  EXPECT_EQ(trial.at("evaluations"), 1200);
}

TEST_F(RunFolderTest, TheExperimentIsKeptAsJsonWithItsQuestion) {
  const experiments::ExperimentSpec experiment = ReadText(kExperiment);
  experiments::WriteExperimentFile((runs_ / "small").string(), experiment);
  const std::string text = ReadWholeFile((runs_ / "small/experiment.json").string());
  EXPECT_EQ(nlohmann::json::parse(text).at("question"), "Is it small?");
  // The written text is an experiment too, with the same trials.
  const experiments::ExperimentSpec again = ReadText(text);
  EXPECT_EQ(again.question, "Is it small?");
  EXPECT_EQ(experiments::PlanTrials(again).trials.at(0).id, trial_.id);
}

TEST_F(RunFolderTest, AFolderThatCannotBeMadeIsSaid) {
  Write("file", "");
  const std::string below = folder_ + "/file";
  EXPECT_EQ(ErrorOf([&] { experiments::PrepareTrialFolder(below, trial_); }),
            below + "/" + trial_.id + ": cannot be created (Not a directory)");
  Write("trial.json", "{}");
  EXPECT_EQ(ErrorOf([&] { experiments::SummariseTrial(folder_); }),
            folder_ + "/trial.json: schema: is missing (\"emplace.trial\")");
}

}  // namespace run_folder_test
}  // namespace emplace::testing
