// emplace sweep.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>

#include "sim/base/rng.h"
#include "tests/e2e/samples.h"
#include "tests/testing/errors.h"

namespace emplace::testing {
namespace {

// Small graphs, searches of about 50 ms.
constexpr const char* kSweep = R"(# Who is best?
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
  agent.name: [annealing, random_walk, local_search]
  cluster.gpus: [2, 4]
exclude: [{agent.name: local_search, cluster.gpus: 4}]
)";

// Searches that can be stopped on their way. Under sanitizers an evaluation takes many times as long.
#ifdef EMPLACE_SANITIZED
constexpr const char* kStopped = "evaluations: 5000";
#else
constexpr const char* kStopped = "evaluations: 30000";
#endif

class SweepTest : public EmplaceTest {
 protected:
  SweepTest() { Write("x.yaml", kSweep); }

  std::string Files(const std::string& pattern) const { return Shell("ls -d " + pattern + " | sort").out; }
  std::size_t Count(const std::string& pattern) const {
    const std::string files = Shell("ls -d " + pattern + " 2>/dev/null; true").out;
    return static_cast<std::size_t>(std::count(files.begin(), files.end(), '\n'));
  }
  void KillAndResume(std::size_t kills_in_all, const std::string& evaluations);
  // Empty if both folders have the same trials with byte-identical results.
  std::string Differences(const std::string& a, const std::string& b) const {
    return Shell("for file in " + a + "/quick/*/trial.json " + a + "/quick/*/best_placement.json; do cmp $file " + b +
                 "/${file#" + a + "/} 2>&1; done; ls " + a + "/quick >la; ls " + b + "/quick >lb; diff la lb; rm la lb")
        .out;
  }
};

TEST_F(SweepTest, RunsEveryCellOnEveryGraphWithEverySeedLengthy) {
  const Ran ran = Emplace("sweep x.yaml -o r");
  EXPECT_EQ(ran.status, 0) << ran.err;
  // 3 agents x 2 clusters - 1, with 2 seeds each.
  EXPECT_EQ(Count("r/quick/*/trial.json"), 10U);
  EXPECT_EQ(Count("r/quick/*/best_placement.json"), 10U);
  EXPECT_TRUE(ran.out.starts_with("Improvement over everything on the fastest device, %\nagent ")) << ran.out;
  EXPECT_NE(ran.out.find(" 2 GPUs  4 GPUs "), std::string::npos) << ran.out;
  for (const char* const row : {"\nannealing ", "\nrandom_walk ", "\nlocal_search "}) {
    EXPECT_NE(ran.out.find(row), std::string::npos) << ran.out;
  }
  EXPECT_NE(ran.out.find("\nemplace report r/quick\n"), std::string::npos) << ran.out;
  EXPECT_NE(ran.err.find("[10/10] "), std::string::npos) << ran.err;
  EXPECT_EQ(nlohmann::json::parse(Read("r/quick/experiment.json")).at("question"), "Who is best?");
  // Again: all trials are finished, and the output is the same.
  const Ran again = Emplace("sweep x.yaml -o r");
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, ran.out);
  EXPECT_NE(again.err.find("10 finished already, 0 to run"), std::string::npos) << again.err;
}

TEST_F(SweepTest, TheResultsDependNeitherOnTheFormatNorOnTheNumberOfProcessesLengthy) {
  ASSERT_EQ(Emplace("sweep x.yaml -o one --jobs 1").status, 0);
  ASSERT_EQ(Emplace("sweep x.yaml -o two --jobs 2").status, 0);
  EXPECT_EQ(Differences("one", "two"), "");
  // The folder's copy of the experiment is a valid experiment in JSON.
  ASSERT_EQ(Shell("$emplace sweep one/quick/experiment.json -o three").status, 0);
  EXPECT_EQ(Differences("one", "three"), "");
  EXPECT_EQ(Shell("cmp one/quick/experiment.json three/quick/experiment.json").status, 0);
}

void SweepTest::KillAndResume(std::size_t kills_in_all, const std::string& evaluations) {
  Write("x.yaml", Replaced(Replaced(kSweep, "evaluations: 1500", evaluations), "local_search]", "random]"));
  Write("x.yaml", Replaced(Read("x.yaml"), "agent.name: local_search", "agent.name: random"));
  // Learning agents too: they are saved between episodes, with weights, moments and baselines.
  Write("x.yaml", Replaced(Read("x.yaml"), "[annealing, random_walk, random]", "[annealing, placeto, pgnn, random]"));
  ASSERT_EQ(Emplace("sweep x.yaml -o whole --jobs 2").status, 0);
  Rng rng(20);
  std::size_t kills = 0;
  std::size_t rounds = 0;
  while (kills < kills_in_all) {
    const std::string runs = "killed" + std::to_string(rounds++);
    while (kills < kills_in_all && Count(runs + "/quick/*/trial.json") < 14) {
      const std::int64_t milliseconds = rng.Between(5, 400);
      Shell("setsid $emplace sweep x.yaml -o " + runs + " --jobs 2 & pid=$!; sleep " +
            std::to_string(static_cast<double>(milliseconds) / 1000) +
            "; kill -s KILL -- -$pid 2>/dev/null || kill -s KILL $pid 2>/dev/null; wait");
      ++kills;
    }
    const Ran ran = Emplace("sweep x.yaml -o " + runs + " --jobs 2");
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(Differences("whole", runs), "") << "after " << kills << " kills";
    EXPECT_EQ(ran.err.find("starting again"), std::string::npos) << ran.err;
    EXPECT_EQ(Count(runs + "/quick/*/*.tmp"), 0U);
  }
}

TEST_F(SweepTest, KilledAtAnyMomentItEndsWithTheSameBytesLengthy) { KillAndResume(5, "evaluations: 2000"); }
TEST_F(SweepTest, KilledAtAnyMomentItEndsWithTheSameBytesSlow) { KillAndResume(20, "evaluations: 10000"); }

TEST_F(SweepTest, AnInterruptStopsTheTrialsAndTheSameCommandGoesOnLengthy) {
  Write("x.yaml", Replaced(kSweep, "evaluations: 1500", kStopped));
  // Interrupts as soon as a trial has shown progress, however long that takes. `exec` keeps the process ID of `$$`, and
  // the subshell in parentheses is not a child of the sweep.
  const Ran ran = Shell(
      "emplace=$emplace setsid -w sh -c '({ until cat r/quick/*/progress.jsonl 2>/dev/null | grep -q .; do "
      "sleep 0.01; done; kill -s INT -- -$$; } &); exec \"$emplace\" sweep x.yaml -o r --jobs 2' || echo $? >status");
  const Ran children = Shell(
      "for p in /proc/[0-9]*; do [ \"$(readlink $p/cwd)\" = \"$PWD\" ] && tr '\\0' ' ' <$p/cmdline && echo; done | "
      "grep -c '^emplace trial'; true");
  EXPECT_NE(ran.err.find("quick: stopped, "), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find(" of 10 trials are finished; the same command resumes\n"), std::string::npos);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(children.out, "0\n");
  EXPECT_EQ(Count("r/quick/*/error.txt"), 0U);
  EXPECT_LT(Count("r/quick/*/trial.json"), 10U);
  EXPECT_EQ(Emplace("sweep x.yaml -o r").status, 0);
  EXPECT_EQ(Count("r/quick/*/trial.json"), 10U);
}

TEST_F(SweepTest, ATrialThatFailsIsReportedAndTheOthersFinish) {
  ASSERT_EQ(Emplace("sweep x.yaml -o r").status, 0);
  const std::string broken = Shell("ls -d r/quick/*/ | head -1 | tr -d '\\n'").out;
  // A checkpoint that can be neither read nor moved away.
  ASSERT_EQ(Shell("rm -r r/quick/*/trial.json " + broken + "checkpoint.bin && mkdir -p " + broken +
                  "checkpoint.bin/in_the_way")
                .status,
            0);
  const Ran ran = Emplace("sweep x.yaml -o r");
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(Count("r/quick/*/trial.json"), 9U);
  EXPECT_NE(ran.err.find(": FAILED: "), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("quick: 1 of 10 trials failed"), std::string::npos) << ran.err;
  EXPECT_NE(ran.out.find(" (1 of 2)"), std::string::npos) << ran.out;
  EXPECT_TRUE(IsOneLine(Read(broken + "error.txt"))) << Read(broken + "error.txt");
  EXPECT_NE(Read(broken + "error.txt").find("checkpoint.bin"), std::string::npos);
  // The trial is run again.
  ASSERT_EQ(Shell("rm -r " + broken + "checkpoint.bin").status, 0);
  EXPECT_EQ(Emplace("sweep x.yaml -o r").status, 0);
  EXPECT_FALSE(Exists(broken + "error.txt"));
}

// Kills whoever runs one of the trials, again and again.
TEST_F(SweepTest, ATrialThatCrashesThreeTimesIsReportedAndTheOthersFinishLengthy) {
  // The search lasts until it is killed, however slowly that happens. So there are few trials.
  Write("x.yaml", Replaced(kSweep, "evaluations: 1500", "evaluations: 30000"));
  Write("x.yaml", Replaced(Read("x.yaml"), "[annealing, random_walk, local_search]", "[annealing, random_walk]"));
  Write("x.yaml", Replaced(Read("x.yaml"),
                           "  cluster.gpus: [2, 4]\nexclude: [{agent.name: local_search, cluster.gpus: 4}]\n", ""));
  ASSERT_EQ(Emplace("sweep x.yaml -o r --plan").status, 0);
  const std::string victim = Shell("ls -d r/quick/*/ | head -1 | tr -d '\\n'").out;
  const Ran ran = Shell("$emplace sweep x.yaml -o r --jobs 2 & pid=$!; until [ -e " + victim +
                        "error.txt ]; do process=$(sed -n 's/.*\"process\":\\([0-9]*\\).*/\\1/p' " + victim +
                        "lock 2>/dev/null); [ -z \"$process\" ] || kill -9 $process; sleep 0.05; done; wait $pid");
  EXPECT_EQ(ran.status, 1) << ran.err;
  EXPECT_EQ(Count("r/quick/*/trial.json"), 3U);
  const std::string error = Read(victim + "error.txt");
  EXPECT_EQ(error.rfind("crashed 3 times (crashes.jsonl has its log), last on ", 0), 0U) << error;
  EXPECT_NE(error.find(": ended by signal 9 (Killed)\n"), std::string::npos) << error;
  EXPECT_NE(ran.err.find("ended by signal 9 (Killed); it will be retried"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("FAILED: crashed 3 times"), std::string::npos) << ran.err;
  EXPECT_EQ(Shell("wc -l <" + victim + "crashes.jsonl").out, "3\n");
  // The same command tries it again, and forgets the crashes.
  EXPECT_EQ(Emplace("sweep x.yaml -o r").status, 0);
  EXPECT_FALSE(Exists(victim + "crashes.jsonl"));
}

TEST_F(SweepTest, TwoSweepsOnOneFolderShareTheTrialsLengthy) {
  const Ran ran = Shell(
      "$emplace sweep x.yaml -o r --jobs 1 2>other & $emplace sweep x.yaml -o r --jobs 1; status=$?; "
      "wait $! && exit $status");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(Count("r/quick/*/trial.json"), 10U);
  // A trial that was run twice would have this line twice.
  EXPECT_EQ(Shell("grep -h '\"evaluations\":1,' r/quick/*/progress.jsonl | wc -l").out, "10\n");
}

TEST_F(SweepTest, ADryRunListsTheTrialsAndWritesNothingLengthy) {
  const std::string before = Names();
  const Ran ran = Emplace("sweep x.yaml -o r --dry-run --jobs 3");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(Names(), before);
  EXPECT_TRUE(
      ran.out.starts_with("trial             agent         agent.name    cluster.gpus  graph  seed  evaluations "))
      << ran.out;
  EXPECT_NE(ran.out.find(" to 0."), std::string::npos) << ran.out;  // a range of seconds
  EXPECT_NE(ran.out.find("\nquick: 10 trials in 5 cells, 1 cell excluded; "), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find(" in 3 processes"), std::string::npos) << ran.out;
  // The listed trials are those that run.
  ASSERT_EQ(Emplace("sweep x.yaml -o r").status, 0);
  Write("listed", ran.out);
  EXPECT_EQ(Shell("for id in $(ls r/quick | grep -v json); do grep -q \"^$id \" listed || echo $id; done").out, "");
}

// The agent refuses the short search of the dry run's time estimate: five passes and 2 groups.
TEST_F(SweepTest, ADryRunAcceptsWhatASweepAcceptsAndRefusesTheRest) {
  const auto with = [&](const std::string& budget) {
    Write("p.yaml", R"(# Do five passes fit?
schema: emplace.experiment
version: 1
name: passes
graphs: {model: rnnlm, set: {hidden: 64, steps: 2}, grouping: {name: merge_and_colocate, groups: 2}}
cluster: {name: post-8k80, gpus: 2}
costs: roofline
agent: {name: placeto, set: {passes: 5}}
budget: )" + budget + "\n");
    return Emplace("sweep p.yaml -o p --dry-run");
  };
  EXPECT_EQ(with("{evaluations: 100}").status, 0);
  EXPECT_EQ(with("{episodes: 10}").status, 0);
  EXPECT_EQ(with("{evaluations: 5}").err,
            "p.yaml: budget: placeto: 5 evaluations end within the first episode (at least 11: 1 + groups * passes * "
            "workers), on graph rnnlm of 2 groups\n");
}

TEST_F(SweepTest, ADryRunKnowsOfSearchesThatEndBeforeTheirBudget) {
  const auto range = [&](const std::string& set) {
    Write("e.yaml",
          "{schema: emplace.experiment, version: 1, name: e, graphs: {files: [g.json]}, cluster: {file: c.yaml}, "
          "agent: {name: placeto, set: {" +
              set + "}}, budget: {episodes: 20000}}");
    const std::string out = Emplace("sweep e.yaml --dry-run").out;
    std::smatch found;
    EXPECT_TRUE(std::regex_search(out, found, std::regex("  ([0-9.e+-]+) to ([0-9.e+-]+)\n"))) << out;
    return std::pair(std::stod(found[1]), std::stod(found[2]));
  };
  const auto [one_low, one_high] = range("episodes: 1");
  EXPECT_LT(one_low * 50, one_high);
  const auto [low, high] = range("passes: 1");
  EXPECT_GT(low * 50, high);
}

TEST_F(SweepTest, AClusterFileNeedsNoNameAndAReportNotTheFilesOfItsTrials) {
  Write("nameless.yaml", Replaced(kCluster, "name: two\n", ""));
  Write("e.yaml",
        "{schema: emplace.experiment, version: 1, name: e, graphs: {files: [g.json]}, cluster: {file: nameless.yaml}, "
        "agent: {name: annealing}, budget: {evaluations: 20}}");
  const Ran ran = Emplace("sweep e.yaml -o r");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(Shell("cat r/e/*/spec.json").out.find("\"name\":\"nameless\""), std::string::npos);
  ASSERT_EQ(Emplace("report r/e -o e.html").status, 0);
  EXPECT_EQ(Shell("cat e.md").out.find("No picture"), std::string::npos);
  Write("nameless.yaml", kCluster);
  EXPECT_EQ(Emplace("report r/e -o e.html").status, 0);
  EXPECT_NE(Shell("cat e.md").out.find("has changed since the trial was planned"), std::string::npos);
  Shell("rm nameless.yaml");
  EXPECT_EQ(Emplace("report r/e -o e.html").status, 0);
  EXPECT_NE(Shell("cat e.md").out.find("No picture of annealing"), std::string::npos);
}

TEST_F(SweepTest, ABudgetIsAskedOfEveryGraphOfManyGroups) {
  // Both have four ops. Those of the first make two groups, for which four evaluations are an episode.
  const auto graph = [](const std::string& name, const std::string& with) {
    return R"({"schema": "emplace.graph", "version": 1, "name": ")" + name + R"(", "ops": [
  {"name": "a", "kind": "test", "time_us": 1, "outputs": [8]},
  {"name": "b", "kind": "test", "time_us": 1, "inputs": ["a"], "outputs": [8])" +
           with + R"(},
  {"name": "c", "kind": "test", "time_us": 1, "inputs": ["b"], "outputs": [8])" +
           with + R"(},
  {"name": "d", "kind": "test", "time_us": 1, "inputs": ["c"]}]})";
  };
  Write("together.json", graph("together", R"(, "colocate_with": "a")"));
  Write("apart.json", graph("apart", ""));
  const auto planned = [&](const std::string& files) {
    Write("x.yaml",
          "{schema: emplace.experiment, version: 1, name: x, graphs: {files: [" + files +
              "], grouping: {name: merge_and_colocate, groups: 4}}, cluster: {file: c.yaml}, agent: {name: placeto, "
              "set: {passes: 1}}, budget: {evaluations: 4}}");
    return Emplace("sweep x.yaml -o r --dry-run");
  };
  EXPECT_EQ(planned("together.json").err, "");
  EXPECT_EQ(planned("together.json, apart.json").err,
            "x.yaml: budget: placeto: 4 evaluations end within the first episode (at least 5: 1 + groups * passes * "
            "workers), on graph apart of 4 groups\n");
}

TEST_F(SweepTest, BadExperimentsAreRefusedAndNothingIsWrittenLengthy) {
  const std::string before = Names();
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& line) {
    Write("x.yaml", Replaced(kSweep, from, to));
    for (const char* const more : {"", " --dry-run"}) {
      ExpectRefused(Emplace(std::string("sweep x.yaml -o r") + more), line);
    }
    EXPECT_EQ(Names(), before);
  };
  refused("version: 1", "version: 2", "x.yaml: version: is the number 2 (1)");
  refused("[annealing,", "[3, annealing,", "x.yaml: sweep[\"agent.name\"][0]: is the number 3 (an agent)");
  refused("gpus: [2, 4]", "gpus: [2, 4, 40]",
          "x.yaml: sweep[\"cluster.gpus\"][2]: cluster post-8k80 has 8 accelerators, not 40");
  refused("model: rnnlm, set: {hidden: 64, steps: 2}", "files: [no.json]",
          "x.yaml: graphs.files[0]: " + Shell("pwd | tr -d '\\n'").out +
              "/no.json: cannot be read (No such file or directory)");
  Write("x.yaml", kSweep);
  ExpectRefused(Emplace("sweep nowhere.yaml"), "nowhere.yaml: cannot be read (No such file or directory)");
  ExpectRefused(Emplace("sweep x.yaml -o c.yaml"), "c.yaml: is not a folder");
  EXPECT_EQ(Emplace("sweep x.yaml --jobs 0").status, 2);
  EXPECT_EQ(Names(), before);
}

TEST_F(SweepTest, TheCommandForOneTrialIsHidden) {
  EXPECT_EQ(Shell("$emplace --help | grep -c '^  trial '").out, "0\n");
  EXPECT_EQ(Emplace("nonsense").err.find("trial"), std::string::npos);
  EXPECT_EQ(Emplace("trial nowhere").status, 2);
}

}  // namespace
}  // namespace emplace::testing
