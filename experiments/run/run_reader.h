#ifndef EMPLACE_EXPERIMENTS_RUN_RUN_READER_H_
#define EMPLACE_EXPERIMENTS_RUN_RUN_READER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/json_value.h"

namespace emplace {

// What run folders hold, as far as a report wants it. Times in µs unless a name says seconds. emplace wrote these
// files, but they are read like anybody's: unknown and missing keys are refused, and so is what does not fit its
// checksum or ID (run_folder.h). Of trial.json and timing.json, version 1 had no checksum.

struct EpisodeTrace {
  double episode = 0;
  bool argmax = false;                      // not used for training
  std::optional<double> entropy = {};       // mean over steps of H / log D
  std::optional<double> final_micros = {};  // step time of the placement that it ended with
  double evaluations = 0;                   // on its graph so far
  std::optional<double> mean_micros = {};   // step time of placements drawn from the policy
};

// What a trial found on one of the graphs that it searched.
struct GraphRecord {
  std::string graph = {};
  double num_ops = 0;
  double num_groups = 0;
  double num_devices = 0;
  std::optional<double> single_device_micros = {};  // of everything on one device; earlier versions did not say
  std::optional<double> start_micros = {};          // of the first placement evaluated
  std::optional<double> best_micros = {};           // none: nothing that fits was found
  std::optional<double> improvement = {};           // percent
  double lower_bound_micros = 0;
  double evaluations = 0;
  std::vector<std::pair<double, double>> trace = {};  // (evaluations, best step time), ascending
  std::vector<EpisodeTrace> episodes = {};            // of learning agents
};

// What the trained policy found on a graph that it was not trained on.
struct TransferRecord {
  std::string graph = {};
  double num_devices = 0;
  std::optional<double> single_device_micros = {};  // as GraphRecord
  std::optional<double> start_micros = {};
  std::optional<double> best_micros = {};
  std::optional<double> improvement = {};   // percent
  std::optional<double> final_micros = {};  // of the placement that the policy ended with
  double evaluations = 0;
};

// A placement that was run for real, and what the simulator said of it.
struct HardwareRecord {
  double simulated_micros = 0;
  double measured_micros = 0;
};

struct TimingRecord {
  double policy_seconds = 0;
  std::optional<double> policy_seconds_per_episode = {};  // none: a search without episodes
  double simulator_seconds = 0;
  double wall_seconds = 0;
  std::vector<HardwareRecord> checks = {};          // during the search; those that fit
  std::optional<double> measured_best_micros = {};  // the best placement at the end
  std::optional<double> interleaved_micros = {};    // MeasuredSteps::interleaved_micros
};

struct TrialRecord {
  std::string id;      // the folder's name
  std::string folder;  // its path
  JsonValue spec;
  std::string label;  // agent.label
  std::string seed;
  std::string version;   // of emplace
  std::string revision;  // git's
  std::vector<GraphRecord> graphs;
  std::vector<TransferRecord> transfers;
  std::optional<TimingRecord> timing;
  std::string placement_fingerprint = {};  // of the text of best_placement.json; "" if none, or not said (version 1)
};

// A trial without trial.json: it failed, is being run, or was stopped.
struct UnfinishedTrial {
  std::string id = {};
  std::string what = {};                  // its cell in words, "" without a readable spec.json
  std::optional<std::string> error = {};  // the first line of error.txt: it failed
  JsonValue spec = {};                    // null without a readable spec.json that is the folder's
};

// RUNS/<experiment>.
struct ExperimentRuns {
  std::string name = {};
  std::string question = {};              // "" if there is none
  std::vector<std::string> metrics = {};  // empty: not said
  std::string published = {};             // a shipped table or a file; "" if none
  std::vector<TrialRecord> trials = {};   // by id
  std::vector<UnfinishedTrial> unfinished = {};
  std::size_t abandoned = 0;           // trials that LeaveOutAbandoned (abandoned_trials.h) left out
  std::vector<std::string> kept = {};  // what KeepTrials (trial_filter.h) left, "budget.evaluations 100"; empty: all
};

// RUNS/EXPERIMENT/ID with a trial.json. Throws InputError, its place a file, if one of its files is broken.
TrialRecord ReadFinishedTrial(const std::string& folder);
// The experiments of a run folder, by name: `path` is one of them (it holds experiment.json) or holds some. Throws
// InputError, its place a file or folder, if there is none, if no trial of any is finished, or if a file is broken.
std::vector<ExperimentRuns> ReadRuns(const std::string& path);

// A scalar as text without quotes, anything else as compact JSON.
std::string PlainText(const JsonValue& value);
// The cell of a trial in words: "placeto, cifar10 7, 3 devices, seed 1".
std::string DescribeSpec(const JsonValue& spec);

}  // namespace emplace

#endif  // EMPLACE_EXPERIMENTS_RUN_RUN_READER_H_
