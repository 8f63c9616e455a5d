#ifndef EMPLACE_TESTS_TESTING_RUNS_H_
#define EMPLACE_TESTS_TESTING_RUNS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::testing {

// A trial for tests of reports: one graph, times in µs.
struct SampleTrial {
  std::string label = "random";
  std::string name = "random";
  std::string dataset = "cifar10";
  int index = 0;
  int devices = 2;
  int seed = 1;
  std::optional<double> single_device = 1000;
  double start = 1000;
  std::optional<double> best = 800;
  double policy_seconds = 2;  // per episode
  std::vector<std::pair<double, double>> trace = {{1, 1000}, {10, 800}};
  std::vector<experiments::EpisodeTrace> episodes = {};
  std::string engine = "fifo";
};

// The contents of the trial's files.
std::string SpecJson(const SampleTrial& trial);
std::string TrialJson(const SampleTrial& trial);
std::string TimingJson(const SampleTrial& trial);
// The ID of a trial with this spec.
std::string SampleId(const SampleTrial& trial);

// The record that ReadRuns makes of these files.
experiments::TrialRecord MakeRecord(const SampleTrial& trial);
std::vector<experiments::TrialRecord> MakeRecords(const std::vector<SampleTrial>& trials);

// Writes RUNS/demo: experiment.json (an object with `more` members) and the trials' folders.
void WriteRuns(const std::string& folder, const std::vector<SampleTrial>& trials, const std::string& more = "");
void WriteText(const std::string& file, const std::string& text);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_RUNS_H_
