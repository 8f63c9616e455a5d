#ifndef EMPLACE_EXPERIMENTS_REPORT_COMPARISON_H_
#define EMPLACE_EXPERIMENTS_REPORT_COMPARISON_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/grid.h"
#include "experiments/report/paired_tests.h"
#include "experiments/report/statistics.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// An agent in the comparison at the start of a report.
struct ComparedAgent {
  std::string label;
  bool is_control = false;  // IsControl
  Estimate improvement;     // %
};

// An agent excluded from the comparison: some of its trials failed or are not finished, it solved too few problems, or
// (nullopt) did not try all of the columns.
struct LeftOutAgent {
  std::string label;
  std::optional<std::size_t> solved = {};
  bool failed = false;
  bool unfinished = false;
};

// Compares all agents on the same problems. A problem is a graph in a column of the grid. It is solved by finding a
// placement that fits in memory.
struct Comparison {
  PairedQuantity quantity = PairedQuantity::kImprovement;
  std::vector<ComparedAgent> contenders = {};  // best first; ties by label
  std::optional<double> bound = {};            // the improvement of the lower bound, averaged like the contenders'
  std::vector<PairedTest> tests = {};  // tests of the first agent against each other one, over the shared problems
  std::size_t columns = 0;             // number of columns of the tables
  std::size_t all_columns = 0;         // number of columns with trials
  std::size_t problems = 0;            // solved by every contender
  std::size_t all_problems = 0;        // tried by any contender in the columns compared
  std::vector<LeftOutAgent> left_out = {};
  std::size_t unfinished = 0;  // trials of the contenders that are not finished: every agent has some
};

// Whether a trial's agent is a control: its decisions are random, or the same for every graph.
bool IsControl(const TrialRecord& trial);

// Compares the improvement, on graphs not trained on if every agent was applied to some. The columns are those with the
// most (agent, column) pairs of agents that tried all of them. The agent that solved the fewest problems is left out
// until at least half of the problems are solved by every agent. nullopt if the improvement of an agent's placement is
// not known, or nothing was found. Agents with a failed or unfinished trial are left out: they did not solve what the
// others did, so they can neither lead nor be led. But where that leaves one agent or none, unfinished ones count.
std::optional<Comparison> CompareAgents(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                        const std::vector<UnfinishedTrial>& unfinished = {});

// The test between two agents; null if there is none.
const PairedTest* FindTest(const std::vector<PairedTest>& tests, const std::string& a, const std::string& b);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_COMPARISON_H_
