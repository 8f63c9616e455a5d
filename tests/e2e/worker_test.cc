// emplace worker, status and submit.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/rng.h"
#include "tests/e2e/samples.h"
#include "tests/testing/errors.h"

namespace emplace::testing {
namespace worker_test {

// Searches of about 100 ms.
constexpr const char* kPlanned = R"(# Who is best?
schema: emplace.experiment
version: 1
name: quick
graphs: {model: rnnlm, set: {hidden: 64, steps: 2}, grouping: {groups: 20}}
cluster: {name: post-8k80, gpus: 2}
costs: roofline
agent: {name: annealing}
budget: {evaluations: 1500}
seeds: [1, 2]
sweep:
  agent.name: [annealing, random_walk]
)";

class WorkerTest : public EmplaceTest {
 protected:
  WorkerTest() { Write("x.yaml", kPlanned); }

  std::size_t Count(const std::string& pattern) const {
    const std::string files = Shell("ls -d " + pattern + " 2>/dev/null; true").out;
    return static_cast<std::size_t>(std::count(files.begin(), files.end(), '\n'));
  }
  // One agent's trials of seconds, one for each seed, in r.
  void PlanLongTrials(const std::string& seeds) const {
    Write("x.yaml", Replaced(Replaced(kPlanned, "evaluations: 1500", "evaluations: 200000"), ", random_walk]", "]"));
    Write("x.yaml", Replaced(Read("x.yaml"), "seeds: [1, 2]", seeds));
    ASSERT_EQ(Emplace("sweep x.yaml -o r --plan").status, 0);
  }
  void KillWorkers(std::size_t kills_in_all, const std::string& evaluations);
  // Checksums of what the seed determines.
  std::string Results(const std::string& runs) const {
    return Shell("cd " + runs +
                 "/quick && sha256sum $(ls */spec.json */trial.json */best_placement.json */policy.bin " +
                 "2>/dev/null)")
        .out;
  }
  nlohmann::json Status(const std::string& runs) const {
    const Ran ran = Emplace("status " + runs + " --json");
    EXPECT_EQ(ran.status, 0) << ran.err;
    return nlohmann::json::parse(ran.out).at("experiments").at(0);
  }
};

TEST_F(WorkerTest, WorkersGiveTheBytesOfASweepLengthy) {
  ASSERT_EQ(Emplace("sweep x.yaml -o whole").status, 0);
  const Ran planned = Emplace("sweep x.yaml -o r --plan");
  EXPECT_EQ(planned.out, "quick: 4 trials in 2 cells; emplace worker r/quick\n");
  EXPECT_EQ(Status("r").at("waiting"), nlohmann::json::parse(R"([{"reason": "not started", "trials": 4}])"));
  const Ran ran =
      Shell("$emplace worker r/quick --jobs 1 & $emplace worker r --jobs 1; status=$?; wait $! && exit $status");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(Results("r"), Results("whole"));
  EXPECT_EQ(Count("r/quick/*/lock"), 0U);
  const nlohmann::json status = Status("r");
  EXPECT_EQ(status.at("trials"), 4);
  EXPECT_EQ(status.at("finished"), 4);
  EXPECT_TRUE(status.at("waiting").empty());
  EXPECT_EQ(Emplace("status r").out, "quick: 4 of 4 trials finished, 0 running, 0 waiting, 0 failed\n");
}

TEST_F(WorkerTest, WhatIsNotPlannedIsRefused) {
  ExpectRefused(Emplace("worker nowhere"), "nowhere: there is no such folder");
  ExpectRefused(Emplace("status c.yaml"), "c.yaml: is not a folder (a folder that `emplace sweep` wrote)");
  const std::string none =
      ".: holds no planned sweep (a folder that `emplace sweep` or `emplace submit` wrote: it has plan.jsonl)";
  ExpectRefused(Emplace("worker ."), none);
  ExpectRefused(Emplace("status ."), none);
  ASSERT_EQ(Emplace("sweep x.yaml -o r --plan").status, 0);
  Shell("sed -i 's/\"emplace\":\"/\"emplace\":\"0.0./' r/quick/plan.jsonl");
  const Ran other = Emplace("worker r");
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("r/quick: was planned by emplace 0.0."), std::string::npos) << other.err;
  Shell("sed -i '2s/annealing/random/' r/quick/plan.jsonl");
  const Ran damaged = Emplace("worker r");
  EXPECT_EQ(damaged.status, 2);
  EXPECT_NE(damaged.err.find("plan.jsonl: is damaged or was changed"), std::string::npos) << damaged.err;
}

TEST_F(WorkerTest, AStoppedWorkerSavesCheckpointsAndReleasesItsClaimsLengthy) {
  PlanLongTrials("seeds: [1, 2, 3, 4]");
  const Ran ran = Shell(
      "$emplace worker r --jobs 2 & pid=$!; until [ $(ls r/quick/*/progress.jsonl 2>/dev/null | wc -l) = 2 ]; do "
      "sleep 0.01; done; sleep 0.2; kill -TERM $pid; wait $pid");
  EXPECT_EQ(ran.status, 143) << ran.err;
  EXPECT_NE(ran.err.find("; stopped: checkpoints are saved, and other workers go on\n"), std::string::npos) << ran.err;
  EXPECT_EQ(Count("r/quick/*/checkpoint.bin"), 2U);
  EXPECT_EQ(Count("r/quick/*/lock"), 0U);
  EXPECT_EQ(Count("r/quick/*/trial.json"), 0U);
  EXPECT_EQ(Status("r").at("waiting").dump(),
            R"([{"reason":"not started","trials":2},{"reason":"stopped, with a checkpoint","trials":2}])");
}

TEST_F(WorkerTest, AKilledTrialLeavesNoHalfWrittenFileLengthy) {
  PlanLongTrials("seeds: [1]");
  // The trial's process cannot answer the first signal. The second one kills it.
  const Ran ran = Shell(
      "$emplace worker r --jobs 1 & pid=$!; until [ -s r/quick/*/progress.jsonl ]; do sleep 0.01; done; "
      "trial=$(cat /proc/$pid/task/*/children | tr -d ' '); kill -STOP $trial; sleep 0.1; "
      "for folder in r/quick/*/; do echo half >${folder}checkpoint.bin.$trial.7.tmp; done; ls r/quick/*/*.tmp; "
      "kill -TERM $pid; sleep 0.3; kill -TERM $pid; wait $pid");
  EXPECT_EQ(ran.status, 143) << ran.err;
  EXPECT_NE(ran.out.find(".7.tmp\n"), std::string::npos) << ran.out;
  EXPECT_EQ(Count("r/quick/*/*.tmp"), 0U) << ran.out;
  EXPECT_EQ(Count("r/quick/*/lock"), 0U);
  EXPECT_EQ(Count("r/quick/*/trial.json"), 0U);
}

TEST_F(WorkerTest, AMachineOnWhichEverythingFailsStopsLengthy) {
  Write("x.yaml", Replaced(Replaced(kPlanned, "model: rnnlm, set: {hidden: 64, steps: 2}, grouping: {groups: 20}",
                                    "files: [g.json]"),
                           "seeds: [1, 2]", "seeds: [1, 2, 3, 4, 5, 6]"));
  Write("x.yaml",
        Replaced(Replaced(Read("x.yaml"), "name: post-8k80, gpus: 2", "file: c.yaml"), "roofline", "measured"));
  ASSERT_EQ(Emplace("sweep x.yaml -o r --plan").status, 0);
  Shell("mv g.json away.json");
  const Ran ran = Emplace("worker r --jobs 1");
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.err.find("ran 5 trials here, 5 failed; stopped, because they keep failing at once"), std::string::npos)
      << ran.err;
  EXPECT_EQ(Status("r").at("failed").size(), 5U);
  EXPECT_NE(Emplace("status r").out.find("g.json: cannot be read (No such file or directory)"), std::string::npos);
  // Another worker runs the others; failed trials wait for the next sweep.
  Shell("mv away.json g.json");
  EXPECT_EQ(Emplace("worker r").status, 1);
  EXPECT_EQ(Count("r/quick/*/trial.json"), 7U);
  EXPECT_EQ(Emplace("sweep x.yaml -o r").status, 0);
  EXPECT_EQ(Count("r/quick/*/trial.json"), 12U);
}

TEST_F(WorkerTest, AFileSystemThatTakesNoMoreStopsAWorkerAndFailsNoTrialLengthy) {
  ASSERT_EQ(Emplace("sweep x.yaml -o r --plan").status, 0);
  const Ran ran = Shell("ulimit -f 4; $emplace worker r --jobs 1");
  EXPECT_EQ(ran.status, 2) << ran.err;
  EXPECT_NE(ran.err.find(": cannot be written (File too large)\n"), std::string::npos) << ran.err;
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 2) << ran.err;
  EXPECT_EQ(Count("r/quick/*/error.txt"), 0U);
  EXPECT_EQ(Count("r/quick/*/*.tmp"), 0U);
  EXPECT_EQ(Count("r/quick/*/lock"), 0U);
  EXPECT_EQ(Emplace("worker r").status, 0);
}

void WorkerTest::KillWorkers(std::size_t kills_in_all, const std::string& evaluations) {
  Write("x.yaml", Replaced(Replaced(kPlanned, "evaluations: 1500", evaluations), "[annealing, random_walk]",
                           "[annealing, placeto, random_walk]"));
  Write("x.yaml", Replaced(Read("x.yaml"), "seeds: [1, 2]", "seeds: [1, 2, 3, 4]"));
  ASSERT_EQ(Emplace("sweep x.yaml -o whole --jobs 2").status, 0);
  Rng rng(26);
  std::size_t kills = 0;
  std::size_t rounds = 0;
  while (kills < kills_in_all) {
    const std::string runs = "killed" + std::to_string(rounds++);
    ASSERT_EQ(Emplace("sweep x.yaml -o " + runs + " --plan").status, 0);
    // Each kill takes one of three workers with its trials, and another begins in its place.
    std::string script = "start() { setsid $emplace worker " + runs +
                         " --jobs 1 2>>log & }; start; a=$!; start; b=$!; "
                         "start; c=$!; ";
    for (int i = 0; i < 10 && kills < kills_in_all; ++i, ++kills) {
      const std::string victim(1, static_cast<char>('a' + rng.Between(0, 2)));
      // Before setsid a worker has no group of its own, and is killed by its process ID: one that went on unnoticed
      // would still hold a trial when the three others have ended.
      script += "sleep " + std::to_string(static_cast<double>(rng.Between(5, 300)) / 1000);
      script += "; { kill -s KILL -- -$" + victim + " || kill -s KILL $" + victim + "; } 2>/dev/null; start; ";
      script += victim + "=$!; ";
    }
    const Ran ran = Shell(script + "wait $a && wait $b && wait $c; ended=$?; cat log >&2; exit $ended");
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(Results(runs), Results("whole")) << "after " << kills << " kills";
    EXPECT_EQ(Count(runs + "/quick/*/trial.json"), 12U) << ran.err;
    EXPECT_EQ(Count(runs + "/quick/*/*.tmp"), 0U);
    EXPECT_EQ(Count(runs + "/quick/*/lock*"), 0U);
    EXPECT_EQ(Count(runs + "/quick/*/differences.txt"), 0U);
    EXPECT_EQ(Emplace("worker " + runs).status, 0);
  }
}

TEST_F(WorkerTest, ThreeWorkersKilledAtAnyMomentEndWithTheSameBytesLengthy) { KillWorkers(5, "evaluations: 3000"); }
TEST_F(WorkerTest, ThreeWorkersKilledAtAnyMomentEndWithTheSameBytesSlow) { KillWorkers(20, "evaluations: 10000"); }

TEST_F(WorkerTest, SubmitPrintsAScriptForSlurmAndForOthers) {
  const std::string here = Shell("pwd | tr -d '\\n'").out;
  const Ran slurm = Emplace(
      "submit x.yaml -o r --slurm --partition=cpu -t 1:00:00 --comment='two words' --workers 50 --jobs 4 --print");
  EXPECT_EQ(slurm.status, 0) << slurm.err;
  EXPECT_EQ(slurm.out,
            "#!/bin/sh\n"
            "#SBATCH --job-name=emplace-quick\n"
            "#SBATCH --array=1-4\n"  // no more workers than trials
            "#SBATCH --ntasks=1\n"
            "#SBATCH --cpus-per-task=4\n"
            "#SBATCH --requeue\n"
            "#SBATCH --open-mode=append\n"
            "#SBATCH --output=" +
                here +
                "/r/quick/workers/%A_%a.log\n"
                "#SBATCH --partition=cpu\n"
                "#SBATCH -t 1:00:00\n"
                "#SBATCH \"--comment=two words\"\n"
                "# A stopped worker (SIGTERM) saves checkpoints; a requeued one goes on where it was.\n"
                "exec '" EMPLACE_BINARY "' worker '" +
                here + "/r/quick' --jobs \"${SLURM_CPUS_PER_TASK:-4}\"\n");
  const Ran shell = Emplace("submit x.yaml -o s --print --lease 300");
  EXPECT_EQ(shell.status, 0) << shell.err;
  Write("worker.sh", shell.out);
  EXPECT_NE(shell.out.find(" --jobs 1 --lease 300\n"), std::string::npos) << shell.out;
  EXPECT_EQ(Shell("sh worker.sh").status, 0);
  EXPECT_EQ(Count("s/quick/*/trial.json"), 4U);
}

TEST_F(WorkerTest, SubmitRefusesWhatItCannotStartLengthy) {
  const std::string before = Names();
  ExpectRefused(Emplace("submit x.yaml"),
                "--slurm: is missing (or --print, for a shell script that any scheduler can start)");
  ExpectRefused(Emplace("submit x.yaml --print --partition=cpu"),
                "unknown: --partition=cpu (options of sbatch need --slurm; see emplace submit --help)");
  ExpectRefused(Emplace("submit x.yaml more --slurm --print"), "unknown: more (see emplace submit --help)");
  ExpectRefused(Shell("PATH= $emplace submit x.yaml --slurm"),
                "--slurm: there is no sbatch in PATH (Slurm's client; --print shows the script)");
  EXPECT_EQ(Names(), before);
  Shell(
      "mkdir bin && printf '#!/bin/sh\\necho sbatch: error: no partition >&2; exit 1\\n' >bin/sbatch && chmod +x "
      "bin/sbatch");
  ExpectRefused(Shell("PATH=$PWD/bin:$PATH $emplace submit x.yaml --slurm"), "sbatch: sbatch: error: no partition");
  Shell("printf '#!/bin/sh\\necho 12\\n' >bin/sbatch");
  const Ran ran = Shell("PATH=$PWD/bin:$PATH $emplace submit x.yaml --slurm --workers 2");
  EXPECT_EQ(ran.out, "quick: 4 trials in 2 cells; job 12 with 2 workers\nemplace status runs/quick\n") << ran.err;
}

}  // namespace worker_test
}  // namespace emplace::testing
