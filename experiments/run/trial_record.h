#ifndef EMPLACE_EXPERIMENTS_RUN_TRIAL_RECORD_H_
#define EMPLACE_EXPERIMENTS_RUN_TRIAL_RECORD_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/json_fields.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {

// Advice about a damaged trial.json.
inline constexpr std::string_view kRunAgain = "without trial.json and timing.json the same sweep runs the trial again";

// The content of trial.json and timing.json, for writing and reading. Each struct has one list of its fields for both
// (json_struct.h). Times in µs unless a name says seconds; counts are stored as doubles.

// EpisodesLeftOut in trial.json.
struct LeftOutTrace {
  double episodes = 0;
  std::optional<double> final_micros = {};
  std::optional<double> mean_micros = {};
  std::optional<double> entropy = {};
  std::optional<double> gradient_norm = {};

  static void Fields(auto& visit, auto& self) {
    const auto visit_known = [&visit](std::string_view key, auto& value) {
      visit(key, value, {.optional = true, .written = value.has_value()});
    };
    visit("episodes", self.episodes);
    visit_known("step_time_us", self.final_micros);
    visit_known("mean_step_time_us", self.mean_micros);
    visit_known("entropy", self.entropy);
    visit_known("gradient_norm", self.gradient_norm);
  }
};

// EpisodeRecord in trial.json. Archives of runs lack the values that no page reads.
struct EpisodeTrace {
  double episode = 0;
  bool argmax = false;                      // not used for training
  std::optional<double> entropy = {};       // mean over steps of H / log D
  std::optional<double> final_micros = {};  // step time of the episode's last placement
  double evaluations = 0;                   // evaluations on its graph so far
  std::optional<double> mean_micros = {};   // mean step time of placements sampled from the policy
  std::optional<double> best_micros = {};   // shortest step time in the episode
  // Not in the file where the agent does not know them:
  std::optional<double> gradient_norm = {};    // norm for the episode's update, before clipping
  std::optional<double> grouper_entropy = {};  // like `entropy`, of the choice of groups
  std::optional<double> tied = {};             // decisions with several most likely choices
  std::optional<LeftOutTrace> left_out = {};   // episodes without a record, before this one

  static void Fields(auto& visit, auto& self) {
    visit("episode", self.episode);
    visit("evaluations", self.evaluations);
    visit("argmax", self.argmax);
    visit("step_time_us", self.final_micros, {.optional = true});
    visit("best_step_time_us", self.best_micros, {.optional = true});
    visit("mean_step_time_us", self.mean_micros, {.optional = true});
    visit("entropy", self.entropy, {.optional = true});
    const auto visit_known = [&visit](std::string_view key, auto& value) {
      visit(key, value, {.optional = true, .written = value.has_value()});
    };
    visit_known("gradient_norm", self.gradient_norm);
    visit_known("grouper_entropy", self.grouper_entropy);
    visit_known("tied", self.tied);
    visit_known("left_out", self.left_out);
  }
};

// The first fields of a graph's record, searched or transferred to.
void AboutGraph(auto& visit, auto& record) {
  visit("graph", record.graph);
  visit("num_ops", record.num_ops);
  visit("num_groups", record.num_groups);
  visit("num_devices", record.num_devices);
  visit("single_device_step_time_us", record.single_device_micros, {.optional = true});
  visit("start_step_time_us", record.start_micros);
}

void AboutBest(auto& visit, auto& record) {
  visit("best_step_time_us", record.best_micros);
  visit("improvement_percent", record.improvement, {.low = -1e18});
  visit("beaten_by_one_device_us", record.beaten_by_one_device_micros,
        {.optional = true, .written = record.beaten_by_one_device_micros.has_value()});
}

// The result of a trial on one of its searched graphs.
struct GraphRecord {
  std::string graph = {};
  double num_ops = 0;
  double num_groups = 0;
  double num_devices = 0;
  std::optional<double> single_device_micros =
      {};                                   // step time with everything on one device; not recorded by earlier versions
  std::optional<double> start_micros = {};  // step time of the first placement evaluated
  std::optional<double> best_micros = {};   // none: nothing that fits was found
  std::optional<double> improvement = {};   // percent
  // Everything on one accelerator fits, and takes this, which is less than the best; none: it is not so.
  std::optional<double> beaten_by_one_device_micros = {};
  // What moving single ops gives where the trial moves whole modules (agents::MicrosOfSingleOps); none elsewhere.
  std::optional<double> single_ops_micros = {};
  double lower_bound_micros = 0;
  std::string lower_bound_method = {};  // "": not recorded by earlier versions, whose bound was the simple one
  double evaluations = 0;
  double fitting = 0;                                 // evaluations whose placement fits
  std::optional<double> saturated = {};               // evaluations at the floor of the reward; none: it has no floor
  std::string warning = {};                           // warning about many such evaluations; "": none
  std::vector<std::pair<double, double>> trace = {};  // (evaluations, best step time), ascending; archives may lack it
  std::vector<EpisodeTrace> episodes = {};            // episodes of learning agents
  bool finished = true;  // not in the file; set by the maker of a record of a running search

  static void Fields(auto& visit, auto& self) {
    AboutGraph(visit, self);
    AboutBest(visit, self);
    visit("single_ops_step_time_us", self.single_ops_micros,
          {.optional = true, .written = self.single_ops_micros.has_value()});
    visit("lower_bound_us", self.lower_bound_micros);
    visit("lower_bound_method", self.lower_bound_method,
          {.optional = true, .written = !self.lower_bound_method.empty()});
    visit("evaluations", self.evaluations);
    visit("fitting", self.fitting);
    visit("saturated", self.saturated, {.optional = true, .written = self.saturated.has_value()});
    visit("warning", self.warning, {.optional = true, .written = !self.warning.empty()});
    visit("trace", self.trace, {.optional = true, .allowed = "[evaluations, step time]"});
    visit("episodes", self.episodes, {.optional = true, .written = !self.episodes.empty()});
  }
};

// The result of the trained policy on a graph not trained on.
struct TransferRecord {
  std::string graph = {};
  double num_ops = 0;
  double num_groups = 0;
  double num_devices = 0;
  std::optional<double> single_device_micros = {};  // see GraphRecord
  std::optional<double> start_micros = {};
  std::optional<double> best_micros = {};
  std::optional<double> improvement = {};                  // percent
  std::optional<double> beaten_by_one_device_micros = {};  // see GraphRecord
  std::optional<double> final_micros = {};  // step time of the policy's last placement; none if it does not fit
  double evaluations = 0;

  static void Fields(auto& visit, auto& self) {
    AboutGraph(visit, self);
    visit("step_time_us", self.final_micros);
    AboutBest(visit, self);
    visit("evaluations", self.evaluations);
  }
};

// The improvement in tables, tests, curves and figures: the reduction of the step time relative to the same graph with
// everything on the fastest device, in percent. The reference is the same for every agent, wherever its search started.
// Negative: slower than one device. nullopt if one of the times is not known.
std::optional<double> ImprovementPercent(const std::optional<double>& single_device_micros,
                                         const std::optional<double>& micros);

// One placement that was measured on hardware during a search.
struct HardwareCheck {
  std::size_t evaluation = 0;  // number of the evaluation, from 1; with periodic validation, of those before it
  double simulated_micros = 0;
  std::optional<double> measured_micros;  // none: it does not fit

  static void Fields(auto& visit, auto& self) {
    visit("evaluation", self.evaluation, {.allowed = "a number from 0 to 1e+18"});
    visit("simulated_us", self.simulated_micros);
    visit("measured_us", self.measured_micros);
  }
  static void SavedFields(auto& state, auto& self) {
    state(self.evaluation, self.simulated_micros, self.measured_micros);
    state.NewLine();
  }
};

// Hardware measurements of the search, and of the best placement at the end.
struct MeasuredSteps {
  std::vector<HardwareCheck> checks;
  std::optional<double> best_micros;
  std::optional<double> interleaved_micros;  // ValidationCase::interleaved of the best
  // What periodic validation adds: ValidationSummaryOfSearch.
  std::optional<double> hardware_seconds = {};
  std::optional<double> error_before = {};
  std::optional<double> error_after = {};

  static void Fields(auto& visit, auto& self) {
    visit("checks", self.checks);
    visit("best_step_time_us", self.best_micros);
    visit("best_interleaved_us", self.interleaved_micros,
          {.optional = true, .written = self.interleaved_micros.has_value()});
    visit("hardware_s", self.hardware_seconds, {.optional = true, .written = self.hardware_seconds.has_value()});
    visit("error_before", self.error_before, {.optional = true, .written = self.error_before.has_value()});
    visit("error_after", self.error_after, {.optional = true, .written = self.error_after.has_value()});
  }
};

// timing.json.
struct TimingRecord {
  double policy_seconds = 0;
  std::optional<double> policy_seconds_per_episode = {};  // none: a search without episodes
  double simulator_seconds = 0;
  double wall_seconds = 0;
  double episodes = 0;
  std::optional<MeasuredSteps> hardware = {};  // none: nothing was measured on hardware

  static void Fields(auto& visit, auto& self) {
    visit("policy_seconds", self.policy_seconds);
    visit("simulator_seconds", self.simulator_seconds);
    visit("wall_seconds", self.wall_seconds);
    visit("episodes", self.episodes);
    visit("policy_seconds_per_episode", self.policy_seconds_per_episode);
    visit("hardware", self.hardware, {.optional = true, .written = self.hardware.has_value()});
  }
};

// trial.json, and data from the other files of its folder.
struct TrialRecord {
  std::string id;      // the folder's name
  std::string folder;  // its path
  JsonValue spec;
  std::string label;     // agent.label of the spec
  std::string seed;      // seed in the spec
  std::string version;   // version of emplace
  std::string revision;  // git revision
  std::vector<GraphRecord> graphs;
  std::vector<TransferRecord> transfers;
  std::optional<TimingRecord> timing;
  std::string placement_fingerprint = {};  // of the text of best_placement.json; "" if none, or not recorded (version
                                           // 1)
  JsonValue experiment = {};               // its name, as in the spec; null: not given
  double evaluations = 0;                  // total over all graphs, without transfers

  static void Fields(auto& visit, auto& self) {
    const bool has_experiment = self.experiment.template As<std::monostate>() == nullptr;
    visit("experiment", self.experiment, {.optional = true, .written = has_experiment});
    visit("trial", self.id);
    visit("emplace", self.version);
    visit("revision", self.revision);
    visit("spec", self.spec);
    visit("graphs", self.graphs);
    visit("transfer", self.transfers, {.optional = true, .written = !self.transfers.empty()});
    visit("evaluations", self.evaluations);
    visit("best_placement_fingerprint", self.placement_fingerprint, {.optional = true, .null_if_empty = true});
  }
};

// The files in version 2. Compared with version 1, it adds `best_placement_fingerprint` in trial.json and `checksum`
// (checked_json.h) in both.
JsonValue TrialRecordToJson(const TrialRecord& trial);
JsonValue TimingRecordToJson(const TimingRecord& timing);
// Both also read version 1. They throw InputError, its place a path, on unknown and missing keys, on wrong types, and
// if the checksum or ID does not match.
TrialRecord ReadTrialRecord(const JsonNode& root);
TimingRecord ReadTimingRecord(const JsonNode& root);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_TRIAL_RECORD_H_
