// emplace reproduce.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/samples.h"
#include "tests/testing/errors.h"

namespace emplace::testing {
namespace reproduce_test {

using ::testing::HasSubstr;

// Two rows of three methods with two seeds: 12 trials of milliseconds.
constexpr const char* kTiny = R"(# Is it as published?
schema: emplace.experiment
version: 1
name: tiny
graphs: {model: rnnlm, set: {hidden: 64, steps: 2}, grouping: {name: merge_and_colocate, groups: 20}}
cluster: {name: post-8k80, gpus: 2}
costs: roofline
agent: {name: annealing}
budget: {evaluations: 300}
seeds: [1, 2]
metrics: [step_time]
published: figures.yaml
sweep:
  cluster.gpus: [2, 4]
  agent:
    - {label: one, name: single_device}
    - {label: annealing, name: annealing}
    - {label: walk, name: random_walk}
)";

constexpr const char* kFigures = R"(schema: emplace.published
version: 1
name: figures
source: Someone 2020
baselines: [{agent.label: one}]
figures:
  - {match: {num_devices: 3, agent.label: one}, metric: step_time, value: 10, place: "table 1, RNNLM, 2 GPUs, Single"}
  - {match: {num_devices: 3, agent.label: annealing}, metric: step_time, value: 8, place: "table 1, RNNLM, 2 GPUs, SA"}
  - {match: {num_devices: 3, agent.label: tabu}, metric: step_time, value: 9, place: "table 1, RNNLM, 2 GPUs, Tabu"}
  - {match: {num_devices: 5, agent.label: one}, metric: step_time, missing: out of memory, place: "table 1, RNNLM, 4 GPUs, Single"}
  - {match: {num_devices: 5, agent.label: annealing}, metric: step_time, value: 7, place: "table 1, RNNLM, 4 GPUs, SA"}
  - {match: {num_devices: 9, agent.label: annealing}, metric: step_time, value: 7, place: "table 1, RNNLM, 8 GPUs, SA"}
)";

class ReproduceTest : public EmplaceTest {
 protected:
  ReproduceTest() {
    Write("tiny.yaml", kTiny);
    Write("figures.yaml", kFigures);
  }
};

TEST_F(ReproduceTest, PrintsOursBesideThePublished) {
  Write("few.yaml", R"(# Is it?
schema: emplace.networks
version: 1
networks:
  - {network: "GPT-2, smallest", model: gpt, set: {batch: 1}, parameters: 124.4e+6, source: "Radford et al. 2019"}
)");
  const Ran ran = Emplace("reproduce models --from few.yaml -o table.csv table.md");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("124.4"), std::string::npos);
  EXPECT_NE(Read("table.csv").find("\"GPT-2, smallest\",gpt batch=1,1395,,,124.4,124.4,+0.0,"), std::string::npos)
      << Read("table.csv");
  EXPECT_NE(Read("table.md").find("| GPT-2, smallest |"), std::string::npos) << Read("table.md");
}

TEST_F(ReproduceTest, OneRowRunsItsTrialsInTheFoldersOfAWholeSweepLengthy) {
  const Ran ran = Emplace("reproduce post rnnlm-2-gpus --from tiny.yaml -o r -o t.csv t.md");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err.rfind("tiny: 6 of 12 trials; 0 finished already, 6 to run in ", 0), 0U) << ran.err;
  EXPECT_EQ(ran.out.rfind("RNNLM, 2 GPUs (table 1): Step time of the best placement, ms\n\nmethod ", 0), 0U) << ran.out;
  for (const char* const part :
       {"ours / one", "published / one", "\ntabu       not in the experiment",
        "Of 1 pair that the paper orders, 1 ordered", "\nPublished: Someone 2020.\n", "\nemplace report r/tiny\n"}) {
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
  }
  EXPECT_NE(Read("t.csv").find(",not in the experiment,9,,one,,0.9,,,\"table 1, RNNLM, 2 GPUs, Tabu\"\n"),
            std::string::npos)
      << Read("t.csv");
  EXPECT_NE(Read("t.md").find("| tabu | not in the experiment | 9 |"), std::string::npos) << Read("t.md");
  EXPECT_EQ(Shell("ls r/tiny/*/trial.json | wc -l").out, "6\n");
  // Again: nothing is left to run, and the answer is the same.
  const Ran again = Emplace("reproduce post \"RNNLM, 2 GPUs\" --from tiny.yaml -o r");
  EXPECT_NE(again.err.find("6 finished already, 0 to run"), std::string::npos) << again.err;
  EXPECT_EQ(again.out, ran.out);
  // A report, and then a sweep of the whole, go on from there.
  EXPECT_EQ(Emplace("report r/tiny").status, 0);
  const Ran sweep = Emplace("sweep tiny.yaml -o r");
  EXPECT_NE(sweep.err.find("6 finished already, 6 to run"), std::string::npos) << sweep.err;
  EXPECT_EQ(sweep.err.find("does not have"), std::string::npos) << sweep.err;
  ASSERT_EQ(Emplace("sweep tiny.yaml -o whole").status, 0);
  EXPECT_EQ(Shell("cd r/tiny && for f in */trial.json experiment.json plan.jsonl; do cmp $f ../../whole/tiny/$f; done; "
                  "ls | grep -v report >../../a; ls ../../whole/tiny | diff - ../../a")
                .out,
            "");
}

TEST_F(ReproduceTest, WithoutARowAllAreRunAndWhatTheExperimentLacksIsSaid) {
  const Ran ran = Emplace("reproduce post --from tiny.yaml --seed 2 -o r");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err.rfind("tiny: 6 of 12 trials; ", 0), 0U) << ran.err;
  EXPECT_NE(ran.out.find("\nRNNLM, 4 GPUs (table 1)"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("out of memory"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("\nNot in the experiment: RNNLM, 8 GPUs (table 1).\n"), std::string::npos) << ran.out;
}

TEST_F(ReproduceTest, TheListOfRowsRunsNothing) {
  const std::string before = Names();
  const Ran ran = Emplace("reproduce post --from tiny.yaml --list -o r");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("row           in the paper            trials  finished ")) << ran.out;
  EXPECT_THAT(ran.out, ::testing::ContainsRegex(
                           "\nrnnlm-2-gpus  table 1: RNNLM, 2 GPUs       6         0  +[0-9.]+ [a-z]+ to "));
  EXPECT_THAT(ran.out, ::testing::ContainsRegex("\nrnnlm-8-gpus  table 1: RNNLM, 8 GPUs       0         0  +-\n"));
  EXPECT_EQ(Names(), before);
}

TEST_F(ReproduceTest, RefusesWhatItDoesNotKnowLengthy) {
  const Ran ran = Emplace("reproduce miracles");
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
  EXPECT_EQ(ran.err.rfind("unknown comparison \"miracles\" (models, calibration, families, hierarchical, ", 0), 0U)
      << ran.err;
  Write("bad.yaml", "schema: emplace.calibration\nversion: 1\nfigures: 3\n");
  ExpectRefused(Emplace("reproduce calibration --from bad.yaml"),
                "bad.yaml: figures: is the number 3 (a list of figures)");
  ExpectRefused(Emplace("reproduce models --seed 2"), "--seed: is not for models");
  ExpectRefused(Emplace("reproduce models --list"), "--list: is not for models");
  ExpectRefused(Emplace("reproduce families --jobs 2"), "--jobs: is not for families");
  ExpectRefused(Emplace("reproduce families cifar10"), "cifar10: is not for families");
  ExpectRefused(Emplace("reproduce families --seed 1 2"), "--seed: is given 2 times (once)");
  ExpectRefused(Emplace("reproduce families --from bad.yaml"), "--from: is not for families");
  ExpectRefused(Emplace("reproduce models -o table.txt"),
                "table.txt: has no known format (a name that ends in .csv, .md or .tex)");
}

TEST_F(ReproduceTest, RefusesBadRowsAndFilesBeforeAnythingIsWrittenLengthy) {
  const std::string tiny = "reproduce post --from tiny.yaml ";
  const std::string before = Names();
  ExpectRefused(Emplace("reproduce post rnnlm --from tiny.yaml"),
                "post: unknown row \"rnnlm\" (rnnlm-2-gpus, rnnlm-4-gpus, rnnlm-8-gpus)");
  ExpectRefused(Emplace("reproduce post rnnlm-8-gpus --from tiny.yaml"),
                "post rnnlm-8-gpus: tiny.yaml has no trial of it");
  ExpectRefused(Emplace(tiny + "--seed 7"), "--seed 7: is not a seed of tiny.yaml (1, 2)");
  ExpectRefused(Emplace(tiny + "-o t.html"),
                "t.html: is neither a table (a name that ends in .csv, .md or .tex) nor a folder of runs");
  ExpectRefused(Emplace(tiny + "-o t.md rnnlm-2-gpus"),
                "rnnlm-2-gpus: is a row, not a folder of runs (rows go before -o)");
  ExpectRefused(Emplace(tiny + "-o a -o b"), "b: is a second folder of runs, beside a (one)");
  ExpectRefused(Emplace(tiny + "-o no/t.md"), "no/t.md: cannot be written (there is no folder no)");
  ExpectRefused(Emplace("reproduce post --from nowhere.yaml"),
                "nowhere.yaml: cannot be read (No such file or directory)");
  EXPECT_EQ(Names(), before);
  Write("tiny.yaml", Replaced(kTiny, "published: figures.yaml\n", ""));
  ExpectRefused(
      Emplace(tiny),
      "tiny.yaml: names no table of published figures (published: a table of experiments/published, or a file)");
  Write("tiny.yaml", kTiny);
  Write("figures.yaml", Replaced(kFigures, "value: 10", "value: ten"));
  const Ran ran = Emplace(tiny);
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.err.find("figures.yaml: figures[0].value: is the text \"ten\""), std::string::npos) << ran.err;
  EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
  EXPECT_EQ(Names(), before);
}

// A row of the shipped experiment: a sweep of its file finds the trials. A row of ratios follows, and is in
// docs/experiments.md.
TEST_F(ReproduceTest, AShippedRowIsPartOfItsExperimentSlow) {
  const Ran ran = Emplace("reproduce placeto inception-v3 --seed 1 -o r");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, ::testing::ContainsRegex("\nsingle device +[0-9]+ +3002\n")) << ran.out;
  const std::string finished = Shell("ls r/placeto/*/*/trial.json r/placeto/*/trial.json 2>/dev/null | wc -l").out;
  EXPECT_NE(finished, "0\n");
  ASSERT_EQ(Emplace("sweep " EMPLACE_TEST_SOURCE_DIR "/../experiments/configs/placeto.yaml -o r --plan").status, 0);
  EXPECT_EQ(Emplace("status r/placeto").out.rfind("placeto: " + finished.substr(0, finished.size() - 1) + " of ", 0),
            0U)
      << Emplace("status r/placeto").out;
}

// The policy gradient with an RNN stays: it takes a minute or two, all others together some seconds.
TEST_F(ReproduceTest, ArchivedTrialsOfARowComeOutAgainSlow) {
  ASSERT_EQ(Shell(EMPLACE_PYTHON_PROGRAM " " EMPLACE_TEST_SOURCE_DIR "/../tools/archive_runs --unpack r post").status,
            0);
  const std::string row = "reproduce post resnet-50-2-gpus --seed 1 -o r";
  const Ran archived = Emplace(row);
  ASSERT_EQ(archived.status, 0) << archived.err;
  EXPECT_THAT(archived.err, HasSubstr("14 finished already, 0 to run"));

  ASSERT_EQ(Shell("grep -rL --include=spec.json '\"coloc_rl\"' r/post | xargs -n 1 dirname | xargs rm -r").status, 0);
  const Ran again = Emplace(row);
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("1 finished already, 13 to run"));
  EXPECT_EQ(again.out, archived.out);
}

}  // namespace reproduce_test
}  // namespace emplace::testing
