#include "agents/python/python_agent.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "agents/agent.h"
#include "agents/python/agent_process.h"
#include "agents/search.h"
#include "sim/base/check.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace python_agent_test {

using agents::AgentProcess;
namespace fs = std::filesystem;

// A folder with a module, which Python finds.
class PythonAgentTest : public ::testing::Test {
 protected:
  PythonAgentTest() {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "agents_of_a_test.py") << R"py(
class Last:
    def propose(self, problem, rng):
        return [[problem.num_devices - 1] * problem.num_groups]
    def observe(self, problem, placements, results):
        self.seen = [float(step) for step in results.step_us]
    def finished(self):
        return hasattr(self, "seen")
    def note(self):
        return "saw %g us" % self.seen[0]

class Fails(Last):
    def propose(self, problem, rng):
        return 1 / 0

class Loud(Last):
    def note(self):
        return "a\nb\x1b[2J\u202e\ud800" + 999 * "\u00e9"

class Leaves(Last):
    def propose(self, problem, rng):
        raise SystemExit(3)

class Busy(Last):
    def spend(self):
        import time
        start = time.process_time()
        while time.process_time() < start + 0.3:
            pass
    def propose(self, problem, rng):
        self.spend()
        return super().propose(problem, rng)

class BusyAtFirst(Last):
    def __init__(self):
        Busy().spend()

class BusyElsewhere(Last):
    def propose(self, problem, rng):
        import subprocess, sys
        code = "import time\nwhile time.process_time() < 0.3: pass"
        subprocess.run([sys.executable, "-c", code])
        self.child = subprocess.Popen([sys.executable, "-c", code + "\ntime.sleep(60)"])
        taken = 0  # ticks of 10 ms, usr and sys
        while taken < 28:
            taken = sum(map(int, open("/proc/%d/stat" % self.child.pid).read().split()[13:15]))
        return super().propose(problem, rng)

class Learner:
    """Tries each device for all groups on every graph; the best on average is its policy."""
    def __init__(self, busy=0):
        self.sums, self.tried, self.applies, self.applied, self.busy = {}, {}, None, False, busy
        self.graphs = 0
    def propose(self, problem, rng):
        if self.applies is None:
            self.device = self.tried.get(problem.index, 0) % problem.num_devices
            self.tried[problem.index] = self.device + 1
        else:
            self.device = self.applies
            if self.busy:
                Busy().spend()
        return [[self.device] * problem.num_groups]
    def observe(self, problem, placements, results):
        self.sums[self.device] = self.sums.get(self.device, 0) + float(results.step_us[0])
        self.graphs = problem.num_graphs
        self.applied = self.applies is not None
    def finished(self):
        return self.applied or (len(self.tried) > 0 and self.tried == dict.fromkeys(range(self.graphs), 2))
    def policy(self):
        return min(self.sums, key=self.sums.get)
    def load_policy(self, policy):
        self.applies = policy

class Mute(Last):
    def note(self):
        raise ValueError("no word")

class Hangs(Last):
    def observe(self, problem, placements, results):
        import time
        time.sleep(600)

class Deaf(Last):
    def __init__(self):
        import os, time
        os.close(3)
        time.sleep(60)
)py";
    if (const char* const before = std::getenv("PYTHONPATH")) before_ = before;
    setenv("PYTHONPATH", folder_.c_str(), 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  }
  ~PythonAgentTest() override {
    setenv("PYTHONPATH", before_.c_str(), 1);
    fs::remove_all(folder_);
  }

  static agents::SearchResult Search(const std::string& agent, const std::function<bool()>& stop = {}) {
    const Graph graph = MakeChain(3, 10, 1000);
    const Cluster cluster = TwoDevices();
    const CostTable costs(graph, cluster, *MakeCostModel("measured"));
    agents::SearchSpec spec{{}, {.graph = graph, .cluster = cluster, .costs = costs}};
    spec.agent = agent;
    spec.stop = stop;
    return agents::RunSearch(spec);
  }

  fs::path folder_ = fs::path(::testing::TempDir()) / "emplace_python_agent_test";
  std::string before_;
};

TEST_F(PythonAgentTest, LearnsOnSeveralGraphsAndIsAppliedToOthers) {
  const Cluster cluster = TwoDevices();
  const Graph first = MakeChain(3, 10, 1000);
  const Graph second = MakeChain(5, 10, 1000);
  const Graph third = MakeChain(4, 10, 1000);
  const auto problem = [&](const Graph& graph) {
    return agents::SearchProblem{
        .graph = graph, .cluster = cluster, .costs = CostTable(graph, cluster, *MakeCostModel("measured"))};
  };
  agents::SearchSpec spec{{}, problem(first)};
  spec.agent = "agents_of_a_test:Learner";
  spec.also.push_back(problem(second));
  spec.transfer.push_back(problem(third));
  const agents::SearchResult result = agents::RunSearch(spec);
  EXPECT_EQ(result.evaluations, 2U);  // each device
  ASSERT_EQ(result.also.size(), 1U);
  EXPECT_EQ(result.also[0].evaluations, 2U);
  ASSERT_EQ(result.transfer.size(), 1U);
  EXPECT_EQ(result.transfer[0].evaluations, 1U);
  EXPECT_THAT(result.policy, ::testing::StartsWith("emplace.policy 2 agents_of_a_test:Learner "));
  // The process of the agent that applies the policy counts.
  spec.agent_options = {{"busy", "1"}};
  EXPECT_GE(agents::RunSearch(spec).times.policy, 0.3);
  // A policy is only for its own class, and undamaged.
  const auto load = [](const std::string& agent, const std::string& text) {
    std::istringstream in(text);
    agents::MakeAgent(agent, {}, {})->LoadPolicy(in);
  };
  load("agents_of_a_test:Learner", result.policy);
  EXPECT_THAT(ErrorOf([&] { load("agents_of_a_test:Last", result.policy); }),
              ::testing::HasSubstr("is a policy of agent agents_of_a_test:Learner"));
  std::string damaged = result.policy;
  damaged.back() = damaged.back() == 'A' ? 'B' : 'A';
  EXPECT_THAT(ErrorOf([&] { load("agents_of_a_test:Learner", damaged); }), ::testing::HasSubstr("checksum"));
  EXPECT_FALSE(agents::MakeAgent("agents_of_a_test:Last", {}, {})->HasPolicy());
  EXPECT_TRUE(agents::MakeAgent("agents_of_a_test:Learner", {}, {})->HasPolicy());  // known without a process
}

TEST_F(PythonAgentTest, SearchesUntilItIsFinished) {
  const agents::SearchResult result = Search("agents_of_a_test:Last");
  ASSERT_TRUE(result.best);
  EXPECT_EQ(Index((*result.best)[OpId{}]), 1U);
  EXPECT_EQ(result.evaluations, 1U);
  EXPECT_THAT(result.note, ::testing::StartsWith("saw "));
}

TEST_F(PythonAgentTest, CpuTimeOfItsProcessIsTheAgents) {
  for (const char* const agent : {"agents_of_a_test:Busy", "agents_of_a_test:BusyAtFirst"}) {
    const agents::SearchResult result = Search(agent);
    EXPECT_GE(result.times.policy, 0.28) << agent;  // ticks of 10 ms
    EXPECT_LT(result.times.simulator, 0.1) << agent;
  }
}

TEST_F(PythonAgentTest, CpuTimeOfProcessesThatItStartsIsTheAgents) {
  EXPECT_GE(Search("agents_of_a_test:BusyElsewhere").times.policy, 0.55);  // one that has ended, and one that runs
}

TEST_F(PythonAgentTest, ANoteThatFailsDoesNotCostTheSearch) {
  const agents::SearchResult result = Search("agents_of_a_test:Mute");
  EXPECT_TRUE(result.best);
  EXPECT_EQ(result.note, "note() failed: ValueError: no word");
}

TEST_F(PythonAgentTest, WhatWasEvaluatedCountsWhereTheAgentNeverAnswersAgainLengthy) {
  const agents::SearchResult result = Search("agents_of_a_test:Hangs", [] { return true; });
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.evaluations, 1U);
  EXPECT_TRUE(result.was_stopped);
  EXPECT_THAT(result.note, ::testing::HasSubstr("did not respond for 5 s"));
}

TEST_F(PythonAgentTest, ExceptionsNameFileAndLine) {
  EXPECT_THAT([] { Search("agents_of_a_test:Fails"); },
              ::testing::ThrowsMessage<InputError>(
                  ::testing::ContainsRegex("agents_of_a_test:Fails: .*agents_of_a_test.py:14: ZeroDivisionError: ")));
  EXPECT_THAT([] { Search("no_module_of_this_name:Last"); },
              ::testing::ThrowsMessage<InputError>(::testing::HasSubstr("ModuleNotFoundError")));
}

TEST_F(PythonAgentTest, NotesAreOneShortLine) {
  const std::string note = Search("agents_of_a_test:Loud").note;
  EXPECT_THAT(note, ::testing::StartsWith("a\\nb\\u001b[2J\\u202e?\u00e9\u00e9"));
  EXPECT_THAT(note, ::testing::EndsWith("\u00e9.."));
  EXPECT_LT(note.size(), 210U);
}

TEST_F(PythonAgentTest, WhatWouldEndPythonIsAnErrorOfTheAgent) {
  EXPECT_THAT(
      [] { Search("agents_of_a_test:Leaves"); },
      ::testing::ThrowsMessage<InputError>(::testing::ContainsRegex("agents_of_a_test.py:[0-9]+: SystemExit: 3")));
}

TEST_F(PythonAgentTest, AProcessThatClosesItsConnectionIsNotWaitedForWithoutEndLengthy) {
  EXPECT_THAT([] { Search("agents_of_a_test:Deaf"); },
              ::testing::ThrowsMessage<InputError>(
                  ::testing::HasSubstr("agents_of_a_test:Deaf: its process closed its connection but kept running")));
}

TEST(PythonAgentNameTest, IsAModuleAndAClass) {
  EXPECT_TRUE(agents::IsPythonAgent("a:B"));
  EXPECT_FALSE(agents::IsPythonAgent("metis"));
  EXPECT_EQ(agents::FindPythonAgent("a.b:C").name, "a.b:C");
  EXPECT_EQ(&agents::FindAgent("a.b:C"), &agents::FindPythonAgent("a.b:C"));
  for (const char* const name : {"a:", ":B", "a:b:c", "a b:C", "1a:C", "a..b:C", "a:/b"}) {
    EXPECT_THROW(agents::FindPythonAgent(name), InputError) << name;
  }
}

TEST(AgentProcessTest, SaysWhyItEnded) {
  setenv("EMPLACE_PYTHON", "/bin/false", 1);
  EXPECT_EQ(agents::AgentPython(), "/bin/false");
  AgentProcess process("m:C");
  EXPECT_THAT(
      [&] {
        process.Ask({{"ask", {std::string("make")}}});
      },
      ::testing::ThrowsMessage<InputError>(::testing::HasSubstr("m:C: its process ended with status 1")));
  setenv("EMPLACE_PYTHON", "/no/such/python", 1);
  EXPECT_THROW(AgentProcess("m:C"), InputError);
  unsetenv("EMPLACE_PYTHON");
}

}  // namespace python_agent_test
}  // namespace emplace::testing
