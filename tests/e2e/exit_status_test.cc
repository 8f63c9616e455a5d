// The table of exit statuses in docs/concepts.md, and whether it is true.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

std::string Concepts() {
  std::ifstream in(std::string(EMPLACE_TEST_SOURCE_DIR) + "/../docs/concepts.md");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The first cells of the table behind `heading`, without its backquotes.
std::set<std::string> FirstCells(const std::string& heading) {
  const std::string page = Concepts();
  std::istringstream lines(page.substr(page.find(heading)));
  std::set<std::string> cells;
  bool is_within = false;
  for (std::string line; std::getline(lines, line);) {
    const bool is_row = line.starts_with("| ") || line.starts_with("|-");
    if (is_within && !is_row) break;
    is_within = is_within || is_row;
    if (!line.starts_with("| ")) continue;
    std::string cell = line.substr(2, line.find(" |", 2) - 2);
    std::erase(cell, '`');
    cells.insert(cell);
  }
  cells.erase("command");
  cells.erase("status");
  return cells;
}

class ExitStatusTest : public EmplaceTest {
 protected:
  // So little memory that nothing fits.
  void ShrinkMemory() { ASSERT_EQ(Shell("sed -i 's/memory_gib: 1/memory_gib: 0.000001/' c.yaml").status, 0); }
  void PlanTrialThatFails() {
    Write("x.yaml", R"(schema: emplace.experiment
version: 1
name: fails
graphs: {files: [g.json]}
cluster: {file: c.yaml}
agent: {name: random_walk}
budget: {evaluations: 5}
)");
    ASSERT_EQ(Emplace("sweep x.yaml -o r --plan").status, 0);
    ASSERT_EQ(Shell("mkdir -p $(ls -d r/fails/*/)checkpoint.bin/in_the_way").status, 0);
  }
};

TEST_F(ExitStatusTest, TheTableHasEveryStatus) {
  EXPECT_EQ(FirstCells("## Exit statuses"), (std::set<std::string>{"0", "1", "2", "70", "71", "128 + N"}));
}

// Each row of "These commands can exit with status 1" is tried here, or in the test that is named.
TEST_F(ExitStatusTest, CommandsThatSayNoExitWithOne) {
  std::set<std::string> tried = {"validate",       // ValidateTest.TheBoundIsOnTheMedianErrorLengthy
                                 "replay",         // ReplayTest
                                 "library check",  // LibraryCommandTest.WhatDoesNotFitIsAnHonestNo
                                 "library score",  // needs a search that is killed
                                 "plan",           // PlanTest.WhatCannotBeIsToldInOneLine
                                 "what-if"};       // ExplainTest.WhatIfHoldsThePlacementOrSearchesAgain
  PlanTrialThatFails();
  for (const auto& [command, arguments] :
       std::map<std::string, std::string>{{"sweep", "x.yaml -o r"}, {"worker", "r"}}) {
    const Ran ran = Emplace(command + " " + arguments);
    EXPECT_EQ(ran.status, 1) << command << ran.err;
    tried.insert(command);
  }
  ShrinkMemory();
  const std::string problem = " --graph g.json --cluster c.yaml ";
  for (const auto& [command, arguments] :
       std::map<std::string, std::string>{{"place", "--agent local_search -o x.json"},
                                          {"compare", "--agents local_search,random_walk --evaluations 5"},
                                          {"bound", ""}}) {
    const Ran ran = Emplace(command + problem + arguments);
    EXPECT_EQ(ran.status, 1) << command << ran.err;
    EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
    tried.insert(command);
  }
  EXPECT_EQ(FirstCells("These commands can exit with status 1"), tried);
  EXPECT_EQ(Emplace("simulate" + problem + "--placement p.json").status, 0);
  EXPECT_EQ(Emplace("explain" + problem + "--placement p.json").status, 0);
}

TEST_F(ExitStatusTest, ComparePrintsItsTableAllTheSame) {
  ShrinkMemory();
  const Ran ran = Emplace("compare --graph g.json --cluster c.yaml --agents random_walk --evaluations 5 --csv");
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.out, HasSubstr("random_walk"));
  EXPECT_EQ(ran.err, "g.json: no agent found a placement that fits\n");
}

// What a command keeps if a signal comes in the middle, twice, as `timeout` sends it. It has begun once it catches the
// signal (/proc/PID/status has a mask of caught signals, in which SIGTERM is bit 14).
TEST_F(ExitStatusTest, SignalsEndASearchAndTheBestSoFarIsKept) {
  const auto stopped = [this](const std::string& command, const std::string& signal) {
    return Shell("$emplace " + command +
                 " --graph g.json --cluster c.yaml --evaluations 1000000000000 & pid=$!; "
                 "until [ $((0x$(sed -n 's/^SigCgt:\t//p' /proc/$pid/status) >> 14 & 1)) = 1 ]; do sleep 0.01; done; "
                 "sleep 0.1; kill -" +
                 signal + " $pid; kill -" + signal + " $pid 2>/dev/null; wait $pid");
  };
  for (const std::string signal : {"TERM", "INT"}) {
    const std::string cause = signal == "TERM" ? "SIGTERM" : "Ctrl-C";
    const Ran place = stopped("place --agent annealing -o best.json", signal);
    EXPECT_EQ(place.status, 0) << place.err;
    EXPECT_THAT(place.err, HasSubstr("by " + cause + ": the best so far is kept\n"));
    EXPECT_EQ(Emplace("simulate --graph g.json --cluster c.yaml --placement best.json").status, 0);
    const Ran compare = stopped("compare --agents annealing", signal);
    EXPECT_EQ(compare.status, 0) << compare.err;
    EXPECT_THAT(compare.err, HasSubstr("stopped by " + cause + ": the table has the agents that were done"));
  }
  ShrinkMemory();
  const Ran nothing = stopped("place --agent annealing -o none.json", "TERM");
  EXPECT_EQ(nothing.status, 143) << nothing.err;
  EXPECT_THAT(nothing.err, HasSubstr("by SIGTERM: there is nothing to keep\n"));
  EXPECT_FALSE(Exists("none.json"));
  EXPECT_EQ(stopped("compare --agents annealing", "INT").status, 130);
}

// Slurm and terminals signal every process, the agent's too.
TEST_F(ExitStatusTest, ASignalToAllProcessesKeepsTheBestOfAnAgentInPython) {
  Write("agents_here.py", R"(
class Last:
    def propose(self, problem, rng):
        return [[problem.num_devices - 1] * problem.num_groups]
    def observe(self, problem, placements, results):
        open("begun", "w").close()
)");
  const Ran ran = Shell(
      "PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 setsid $emplace place --graph g.json --cluster c.yaml --agent "
      "agents_here:Last --evaluations 1000000000 -o best.json & pid=$!; "
      "until [ -e begun ] || [ ! -d /proc/$pid ]; do sleep 0.02; done; kill -s TERM -- -$pid; wait $pid");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("by SIGTERM: the best so far is kept\n"));
  EXPECT_TRUE(Exists("best.json"));
}

TEST_F(ExitStatusTest, AnAgentInPythonThatHangsOrRaisesDoesNotCostTheOthersLengthy) {
  Write("agents_here.py", R"(
import time
class Hangs:
    def propose(self, problem, rng):
        return [[problem.num_devices - 1] * problem.num_groups]
    def observe(self, problem, placements, results):
        time.sleep(600)
class Raises(Hangs):
    def propose(self, problem, rng):
        raise ValueError("no idea")
)");
  const std::string of = "PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 $emplace ";
  const std::string problem = " --graph g.json --cluster c.yaml --seconds 0.2 ";
  const Ran compared = Shell(of + "compare" + problem + "--agents agents_here:Hangs,agents_here:Raises,metis --json");
  EXPECT_EQ(compared.status, 0) << compared.err;
  EXPECT_THAT(compared.err, HasSubstr("warning: agents_here:Hangs: did not respond for 5 s"));
  EXPECT_THAT(compared.err, HasSubstr("left out: agents_here:Raises: "));
  const nlohmann::json rows = nlohmann::json::parse(compared.out).at("results");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_THAT(rows[0].at("stopped").get<std::string>(), HasSubstr("did not respond"));
  EXPECT_FALSE(rows[1].contains("stopped"));
  const Ran placed = Shell(of + "place" + problem + "--agent agents_here:Hangs --json -o p2.json");
  EXPECT_EQ(placed.status, 0);
  EXPECT_THAT(placed.err, HasSubstr("warning: agents_here:Hangs: did not respond for 5 s"));
  EXPECT_EQ(Shell(of + "compare" + problem + "--agents agents_here:Raises").status, 2);  // nobody was judged
}

TEST_F(ExitStatusTest, NoGpusAreNotTheCpu) {
  Write("c.yaml", R"(schema: emplace.cluster
version: 1
name: mixed
devices:
  - {name: "cpu:0", kind: cpu-core}
  - {name: "gpu:0", kind: k80, count: 2}
link: {bandwidth_gb_per_s: 1}
)");
  const std::string place = "place --graph g.json --cluster c.yaml --agent single_device -o best.json ";
  ExpectRefused(Emplace(place + "--gpus 0"),
                "--gpus: is 0, which leaves only the CPU (at least 1, or --devices cpu:0)");
  ExpectRefused(Emplace("compare --graph g.json --cluster c.yaml --agents random --gpus 1,0"),
                "--gpus: is 0, which leaves only the CPU (at least 1, or --devices cpu:0)");
  EXPECT_EQ(Emplace(place + "--devices cpu:0").status, 0);
  EXPECT_EQ(Emplace(place + "--devices cpu:0 --gpus 0").status, 0);
  EXPECT_EQ(Emplace(place + "--gpus 1").status, 0);
}

}  // namespace
}  // namespace emplace::testing
