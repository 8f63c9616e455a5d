#include "tests/testing/runs.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "experiments/plan/checked_json.h"
#include "sim/base/json_text.h"

namespace emplace::testing {
namespace {

using Json = nlohmann::ordered_json;

Json Spec(const SampleTrial& trial) {
  Json devices = Json::array();
  for (int d = 0; d < trial.devices; ++d) devices.push_back(fmt::format("gpu:{}", d));
  return {{"schema", "emplace.trial_spec"},
          {"version", 1},
          {"experiment", "demo"},
          {"graph", {{"dataset", trial.dataset}, {"seed", 42}, {"index", trial.index}}},
          {"grouping", {{"name", "merge_and_colocate"}, {"groups", 0}}},
          {"cluster", {{"name", "p2.8xlarge"}, {"devices", devices}}},
          {"engine", trial.engine},
          {"costs", "roofline"},
          {"agent", {{"label", trial.label}, {"name", trial.name}, {"set", Json::object()}}},
          {"budget", {{"evaluations", 10 + trial.index}}},
          {"reward", "runtime"},
          {"seed", trial.seed}};
}

std::string GraphName(const SampleTrial& trial) { return fmt::format("{}_{:02}", trial.dataset, trial.index); }

std::optional<double> Improvement(const SampleTrial& trial) {
  if (!trial.best) return std::nullopt;
  return (trial.start - *trial.best) / trial.start * 100;
}

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

// As emplace writes it: compact, with a checksum.
std::string WithChecksum(const Json& json) {
  JsonValue value = ParseJson(json.dump());
  experiments::AddChecksum(std::get_if<JsonObject>(&value.data));
  std::string text;
  AppendJson(&text, value);
  return text;
}

}  // namespace

std::string SpecJson(const SampleTrial& trial) { return Spec(trial).dump(); }

std::string TrialJson(const SampleTrial& trial) {
  Json episodes = Json::array();
  for (const experiments::EpisodeTrace& episode : trial.episodes) {
    episodes.push_back({{"episode", episode.episode},
                        {"evaluations", episode.evaluations},
                        {"argmax", episode.argmax},
                        {"step_time_us", OrNull(episode.final_micros)},
                        {"best_step_time_us", trial.start},
                        {"mean_step_time_us", OrNull(episode.mean_micros)},
                        {"entropy", OrNull(episode.entropy)}});
  }
  const Json graph = {{"graph", GraphName(trial)},
                      {"num_ops", 100},
                      {"num_groups", 10},
                      {"num_devices", trial.devices},
                      {"single_device_step_time_us", OrNull(trial.single_device)},
                      {"start_step_time_us", trial.start},
                      {"best_step_time_us", OrNull(trial.best)},
                      {"improvement_percent", OrNull(Improvement(trial))},
                      {"lower_bound_us", 400},
                      {"evaluations", trial.trace.back().first},
                      {"fitting", 10},
                      {"trace", trial.trace},
                      {"episodes", episodes}};
  return WithChecksum({{"schema", "emplace.trial"},
                       {"version", 2},
                       {"experiment", "demo"},
                       {"trial", SampleId(trial)},
                       {"emplace", "0.1.0"},
                       {"revision", "abc"},
                       {"spec", Spec(trial)},
                       {"graphs", {graph}},
                       {"transfer", Json::array()},
                       {"evaluations", 10},
                       {"best_placement_fingerprint", nullptr}});
}

std::string TimingJson(const SampleTrial& trial) {
  return WithChecksum({{"schema", "emplace.timing"},
                       {"version", 2},
                       {"policy_seconds", 20 * trial.policy_seconds},
                       {"simulator_seconds", 1.5},
                       {"wall_seconds", 50},
                       {"episodes", 20},
                       {"policy_seconds_per_episode", trial.policy_seconds}});
}

std::string SampleId(const SampleTrial& trial) { return experiments::TrialId(ParseJson(SpecJson(trial))); }

experiments::TrialRecord MakeRecord(const SampleTrial& trial) {
  experiments::TrialRecord record;
  record.id = SampleId(trial);
  record.spec = ParseJson(SpecJson(trial));
  record.label = trial.label;
  record.seed = std::to_string(trial.seed);
  record.version = "0.1.0";
  record.revision = "abc";
  record.graphs.push_back({.graph = GraphName(trial),
                           .num_ops = 100,
                           .num_groups = 10,
                           .num_devices = static_cast<double>(trial.devices),
                           .single_device_micros = trial.single_device,
                           .start_micros = trial.start,
                           .best_micros = trial.best,
                           .improvement = Improvement(trial),
                           .lower_bound_micros = 400,
                           .evaluations = trial.trace.back().first,
                           .trace = trial.trace,
                           .episodes = trial.episodes});
  record.timing = experiments::TimingRecord{.policy_seconds = 20 * trial.policy_seconds,
                                            .policy_seconds_per_episode = trial.policy_seconds,
                                            .simulator_seconds = 1.5,
                                            .wall_seconds = 50};
  return record;
}

std::vector<experiments::TrialRecord> MakeRecords(const std::vector<SampleTrial>& trials) {
  std::vector<experiments::TrialRecord> records;
  records.reserve(trials.size());
  for (const SampleTrial& trial : trials) records.push_back(MakeRecord(trial));
  return records;
}

void WriteText(const std::string& file, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  std::ofstream(file) << text;
}

void WriteRuns(const std::string& folder, const std::vector<SampleTrial>& trials, const std::string& more) {
  WriteText(
      folder + "/demo/experiment.json",
      R"({"schema": "emplace.experiment", "version": 1, "name": "demo", "question": "Is <b> better?")" + more + "}");
  for (const SampleTrial& trial : trials) {
    const std::string at = folder + "/demo/" + SampleId(trial) + "/";
    WriteText(at + "spec.json", SpecJson(trial));
    WriteText(at + "trial.json", TrialJson(trial));
    WriteText(at + "timing.json", TimingJson(trial));
  }
}

}  // namespace emplace::testing
