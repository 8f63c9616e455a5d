// Runs tools/gpu_check with fake commands: which commands it calls, and its results when a stage fails or takes too
// long. The real commands are only tested on a machine with a GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/testing/run_program.h"

namespace emplace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Reports one GPU, or two, and nothing else.
constexpr const char* kFakeSmi = R"sh(#!/bin/sh
case "$*" in
  -L) echo "GPU 0: NVIDIA H200 (UUID: GPU-1)"; [ -z "$TWO_GPUS" ] || echo "GPU 1: NVIDIA H200 (UUID: GPU-2)" ;;
  *query-gpu=name\ *) echo "NVIDIA H200" ;;
  *query-gpu=compute_cap*) echo 9.0 ;;
  *) echo "Product Name : NVIDIA H200" ;;
esac
)sh";

// Records its arguments, and builds programs that do the same.
constexpr const char* kFakeCmake = R"sh(#!/bin/sh
echo "cmake $* arch=$TORCH_CUDA_ARCH_LIST" >> "$NOTES"
[ "$1" = --build ] || exit 0
case "$*" in *emplace_python*) [ -z "$FAIL_PYTHON" ] || exit 3 ;; esac
case "$*" in *profiler_test*) [ -z "$FAIL_TESTS" ] || { echo "error: no such header"; exit 3; } ;; esac
mkdir -p "$2/tests/bench"
for program in emplace tests/profiler_test tests/bench/emplace_bench; do
  cp "$FAKES/built" "$2/$program"
done
)sh";

constexpr const char* kFakeBuilt = R"sh(#!/bin/sh
echo "$(basename "$0") $*${EMPLACE_TEST_DEVICE:+ on }$EMPLACE_TEST_DEVICE" >> "$NOTES"
case "$*" in
  *gtest_filter*) echo "$TEST_OUTPUT" ;;
  "validate"*) for last; do case "$before" in --*timeline) echo {} > "$last" ;; esac; before=$last; done ;;
esac
case "$*" in
  "profile"*nmt*) [ -z "$SLOW_PROFILE" ] || sleep 60 ;;
  "validate"*) echo '{"cases": 25}' ;;
esac
)sh";

// Has no PyTorch, which takes seconds to load where it is installed; the tool that needs it has an answer of its own.
constexpr const char* kFakePython = R"sh(#!/bin/sh
case "$*" in
  *torch_profiles*) echo "python3 $*" >> "$NOTES"; echo "${PROFILERS:-resnet on cuda}"; exit ${PROFILERS_STATUS:-0} ;;
  *torch_plans*) echo "python3 $*" >> "$NOTES"; echo "fsdp on 2 of cuda"; exit 0 ;;
esac
exit 1
)sh";

class GpuCheckTest : public ProgramTest {
 protected:
  GpuCheckTest() : ProgramTest(EMPLACE_BINARY) {
    Shell("mkdir bin none build results");
    Write("bin/nvidia-smi", kFakeSmi);
    Write("bin/cmake", kFakeCmake);
    Write("bin/built", kFakeBuilt);
    Write("bin/python3", kFakePython);
    Shell("chmod +x bin/*");
  }

  // Runs in the test's folder, with `settings` in front of the command.
  Ran Check(const std::string& arguments, const std::string& settings = "") const {
    return Shell(settings + " NOTES=$PWD/notes FAKES=$PWD/bin PATH=$PWD/bin:$PATH EMPLACE_BUILD=$PWD/build " +
                 "EMPLACE_RESULTS=$PWD/results " EMPLACE_TEST_SOURCE_DIR "/../tools/gpu_check " + arguments);
  }

  // The outcome of each stage in results/box/summary.json.
  std::map<std::string, std::string> Outcomes() const {
    std::map<std::string, std::string> outcomes;
    const auto summary = nlohmann::json::parse(Read("results/box/summary.json"));
    EXPECT_EQ(summary.at("schema"), "emplace.gpu_check");
    for (const auto& stage : summary.at("stages")) {
      EXPECT_LE(stage.at("elapsed_s").get<int>(), stage.at("limit_s").get<int>() + 3);
      outcomes[stage.at("name")] = stage.at("outcome");
    }
    return outcomes;
  }
};

TEST_F(GpuCheckTest, WithoutAGpuSaysSoInOneLineLengthy) {
  Write("bin/nvidia-smi", "#!/bin/sh\necho No devices were found\nexit 6\n");
  const Ran ran = Check("box");
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.err, "tools/gpu_check: no NVIDIA GPU was found (nvidia-smi -L lists none)\n");
  EXPECT_EQ(ran.out, "");
  EXPECT_FALSE(Exists("results/box"));
}

TEST_F(GpuCheckTest, ADryRunPrintsThePlanAndRunsNothingLengthy) {
  const Ran ran = Check("--dry-run box");
  EXPECT_EQ(ran.status, 0) << ran.err;
  for (const std::string stage :
       {"describe", "configure", "build", "GPU tests", "profile inception_v3", "validate resnet", "validate nmt",
        "cuda:0 alone", "et.profile beside emplace profile", "plans on two GPUs", "profile a TorchScript module",
        "simulator speed", "updates on cuda", "sgdp on cuda", "hierarchical on cuda", "coloc_rl on cuda"}) {
    EXPECT_THAT(ran.out, HasSubstr("\n" + stage + " (at most "));
  }
  EXPECT_THAT(ran.out, HasSubstr("emplace validate --graph $B/nmt.json.gz --random 25 --groups 40 --mostly cuda:0 "
                                 "--devices cuda:0,cpu:0 --profile $R/profile.json.gz"));
  EXPECT_THAT(ran.out, Not(HasSubstr("unpack")));
  EXPECT_FALSE(Exists("notes"));
  EXPECT_FALSE(Exists("results/box"));
}

TEST_F(GpuCheckTest, RefusesWhatIsNoNameAndNoNumberLengthy) {
  for (const std::string argument : {"--fast", "a/b", "'a b'"}) {
    const Ran ran = Check(argument);
    EXPECT_EQ(ran.status, 2) << argument;
    EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
  }
  const Ran ran = Check("box", "EMPLACE_SECONDS=soon");
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.err, "tools/gpu_check: EMPLACE_SECONDS is soon (a whole number of seconds)\n");
}

TEST_F(GpuCheckTest, RunsEveryStageAndLeavesItsResultsLengthy) {
  const Ran ran = Check("box");
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err << Read("results/box/README.md");
  for (const auto& [stage, outcome] : Outcomes()) EXPECT_EQ(outcome, "done") << stage;
  const std::string notes = Read("notes");
  EXPECT_THAT(notes, HasSubstr("-DEMPLACE_REQUIRE_CUPTI=ON -DEMPLACE_WARNINGS_ARE_ERRORS=OFF arch=9.0\n"));
  EXPECT_THAT(notes, HasSubstr("emplace generate resnet --set batch=8 image_size=64 -o "));
  EXPECT_THAT(notes, HasSubstr("profiler_test --gtest_filter=*Cuda*:OpRunner* on cuda:0\n"));
  EXPECT_THAT(notes, HasSubstr("--torch-device cuda"));
  EXPECT_EQ(nlohmann::json::parse(Read("results/box/nmt.validation.json")).at("cases"), 25);
  EXPECT_THAT(Read("results/box/updates_cuda.txt"), HasSubstr("seconds "));
  EXPECT_TRUE(Exists("results/box/nmt.timeline.json.gz"));
  for (const std::string network : {"nmt_4", "resnet_16", "inception_v3_64", "rnnlm_1", "bert_256"}) {
    EXPECT_TRUE(Exists("results/box/alone/" + network + ".validation.json")) << network;
  }
  EXPECT_THAT(notes, HasSubstr("emplace generate bert --set batch=64 layers=2 -o "));
  EXPECT_TRUE(Exists("results/box/nmt.simulated_timeline.json.gz"));
  for (const std::string agent : {"sgdp", "hierarchical", "coloc_rl"}) {
    EXPECT_THAT(Read("results/box/updates_" + agent + "_cpu.txt"), HasSubstr("seconds "));
    EXPECT_THAT(notes, HasSubstr("--agent " + agent + " --evaluations 41 "));
  }
  EXPECT_THAT(Read("results/box/machine.txt"), HasSubstr("Product Name : NVIDIA H200"));
  EXPECT_THAT(Read("results/box/README.md"), HasSubstr("| validate inception_v3 | done |"));
  EXPECT_THAT(notes, HasSubstr("--target emplace_python -j "));
  EXPECT_THAT(notes, HasSubstr("/emplace --device cuda resnet mixer lstm\n"));
  EXPECT_EQ(Read("results/box/profilers.txt"), "resnet on cuda\n");
}

TEST_F(GpuCheckTest, RunsPlansWhereThereAreTwoGpusLengthy) {
  EXPECT_EQ(Check("box").status, 0);
  EXPECT_EQ(Outcomes().count("plans on two GPUs"), 0);
  EXPECT_EQ(Check("box", "TWO_GPUS=1").status, 0);
  EXPECT_EQ(Outcomes().at("plans on two GPUs"), "done");
  EXPECT_THAT(Read("notes"), HasSubstr("python3 tools/torch_plans --device cuda\n"));
  EXPECT_EQ(Read("results/box/plans.txt"), "fsdp on 2 of cuda\n");
}

TEST_F(GpuCheckTest, SaysWhyTheProfilersAreNotComparedAndGoesOnLengthy) {
  const std::string stage = "et.profile beside emplace profile";
  EXPECT_EQ(Check("box", "PROFILERS='no \"torch\" here' PROFILERS_STATUS=77").status, 1);
  EXPECT_EQ(Outcomes().at(stage), "skipped (no torch here)");
  EXPECT_EQ(Outcomes().at("updates on cuda"), "done");
  EXPECT_FALSE(Exists("results/box/profilers.txt"));
  EXPECT_EQ(Check("box", "FAIL_PYTHON=1").status, 1);
  EXPECT_THAT(Outcomes().at(stage), HasSubstr("skipped (the Python package cannot be built for "));
}

TEST_F(GpuCheckTest, TheNameIsTheGpusAndTheHostsIfNoneIsGivenLengthy) {
  Write("bin/uname", "#!/bin/sh\n[ \"$1\" = -n ] && echo Node7 || echo Linux\n");
  Shell("chmod +x bin/uname");
  EXPECT_EQ(Check("").status, 0);
  EXPECT_TRUE(Exists("results/h200-node7/summary.json"));
}

TEST_F(GpuCheckTest, AFailedStageStopsOnlyWhatNeedsItLengthy) {
  const Ran ran = Check("box", "FAIL_TESTS=1");
  EXPECT_EQ(ran.status, 1);
  const auto outcomes = Outcomes();
  EXPECT_EQ(outcomes.at("build tests"), "failed with status 3");
  EXPECT_EQ(outcomes.at("GPU tests"), "skipped (needs build tests)");
  EXPECT_EQ(outcomes.at("simulator speed"), "skipped (needs build tests)");
  EXPECT_EQ(outcomes.at("validate nmt"), "done");
  EXPECT_THAT(Read("results/box/README.md"), HasSubstr("build tests ended with:\n\n```\nerror: no such header\n```"));
}

TEST_F(GpuCheckTest, ATestThatIsSkippedIsNotDoneLengthy) {
  EXPECT_EQ(Check("box", "TEST_OUTPUT='[  SKIPPED ] CuptiCudaTest.Kernels'").status, 1);
  EXPECT_EQ(Outcomes().at("GPU tests"), "failed with status 1");
  EXPECT_THAT(Read("results/box/gpu_tests.txt"), HasSubstr("CuptiCudaTest.Kernels"));
}

TEST_F(GpuCheckTest, WhatARunBeforeLeftDoesNotPassForThisOnesLengthy) {
  Shell(
      "mkdir -p results/box && touch results/box/old.validation.json results/box/profile.json.gz results/box/notes.md");
  EXPECT_EQ(Check("box", "FAIL_TESTS=1").status, 1);
  EXPECT_FALSE(Exists("results/box/old.validation.json"));
  EXPECT_FALSE(Exists("results/box/profile.json.gz"));  // the fake makes none
  EXPECT_TRUE(Exists("results/box/notes.md"));          // a file of the user's
}

using GpuCheckSlowTest = GpuCheckTest;

TEST_F(GpuCheckSlowTest, EndsInTimeAndSaysWhatWasNotReached) {
  // The first profile would take 60 s of 15. On an idle machine the stages before it take less than a second.
  const Ran ran = Check("box", "SLOW_PROFILE=1 EMPLACE_SECONDS=15");
  EXPECT_EQ(ran.status, 1);
  const auto outcomes = Outcomes();
  EXPECT_EQ(outcomes.at("build"), "done");
  EXPECT_EQ(outcomes.at("profile nmt"), "timed out");
  EXPECT_EQ(outcomes.at("validate nmt"), "skipped (needs profile nmt)");
  EXPECT_EQ(outcomes.at("build tests"), "not reached");
  EXPECT_EQ(outcomes.at("GPU tests"), "not reached");
  EXPECT_EQ(outcomes.at("updates on cuda"), "not reached");
  EXPECT_LE(nlohmann::json::parse(Read("results/box/summary.json")).at("elapsed_s"), 40);
}

TEST_F(GpuCheckTest, PackagesOfAFolderAreUnpackedAndFoundLengthy) {
  if (Shell("command -v dpkg-deb").status != 0) GTEST_SKIP() << "dpkg-deb is not there";
  Shell(
      "mkdir -p one/DEBIAN one/usr/lib/here debs && touch one/usr/lib/here/libone.so && "
      "printf 'Package: one\\nVersion: 1\\nArchitecture: all\\nMaintainer: nobody <n@example.org>\\nDescription: x\\n' "
      "> one/DEBIAN/control && dpkg-deb --build one debs/one.deb");
  const Ran ran = Check("box", "EMPLACE_DEBS=$PWD/debs");
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err << Read("results/box/README.md");
  EXPECT_EQ(Outcomes().at("unpack"), "done");
  EXPECT_TRUE(Exists("build/debs/usr/lib/here/libone.so"));
  EXPECT_THAT(Read("notes"), AllOf(HasSubstr("/build/debs/usr "), HasSubstr("-Wl,-rpath-link,"),
                                   HasSubstr("/build/debs/usr/lib/here")));
}

TEST_F(GpuCheckTest, AFolderWithoutPackagesFailsLengthy) {
  const Ran ran = Check("box", "EMPLACE_DEBS=$PWD/none");
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(Outcomes().at("unpack"), "failed with status 1");
  EXPECT_EQ(Outcomes().at("configure"), "skipped (needs unpack)");
  EXPECT_EQ(Outcomes().at("validate nmt"), "skipped (needs profile nmt)");
}

}  // namespace
}  // namespace emplace::testing
