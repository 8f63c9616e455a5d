#include "experiments/run/trial_json.h"

#include <optional>
#include <utility>

#include "experiments/run/checked_json.h"
#include "experiments/run/json_build.h"
#include "experiments/version.h"
#include "sim/base/fingerprint.h"
#include "sim/bounds.h"

namespace emplace {
namespace {

std::optional<double> Improvement(double start, std::optional<double> best) {
  if (!best || !(start > 0)) return std::nullopt;
  return (start - *best) / start * 100;
}

std::optional<double> BestMicros(const GraphResult& result) {
  if (!result.best) return std::nullopt;
  return result.trace.back().second;
}

JsonObject AboutGraph(const TrialProblem& problem, const GraphResult& result) {
  JsonObject json;
  AddMember(&json, "graph", problem.graph.name());
  AddMember(&json, "num_ops", problem.graph.num_ops());
  AddMember(&json, "num_groups", result.num_groups);
  AddMember(&json, "num_devices", problem.cluster.num_devices());
  AddMember(&json, "single_device_step_time_us", result.single_device_micros);
  AddMember(&json, "start_step_time_us", result.start_micros);
  return json;
}

JsonList TraceToJson(const GraphResult& result) {
  JsonList trace;
  for (const auto& [evaluations, micros] : result.trace) {
    trace.push_back({JsonList{ToJson(evaluations), ToJson(micros)}});
  }
  return trace;
}

JsonList EpisodesToJson(const GraphResult& result) {
  JsonList episodes;
  for (const EpisodeRecord& record : result.episodes) {
    JsonObject json;
    AddMember(&json, "episode", record.episode);
    AddMember(&json, "evaluations", record.evaluations);
    AddMember(&json, "argmax", record.argmax);
    AddMember(&json, "step_time_us", record.final_micros);
    AddMember(&json, "best_step_time_us", record.best_micros);
    AddMember(&json, "mean_step_time_us", record.mean_micros);
    AddMember(&json, "entropy", record.entropy);
    episodes.push_back({std::move(json)});
  }
  return episodes;
}

JsonValue GraphToJson(const TrialProblem& problem, const GraphResult& result) {
  JsonObject json = AboutGraph(problem, result);
  const std::optional<double> best = BestMicros(result);
  AddMember(&json, "best_step_time_us", best);
  AddMember(&json, "improvement_percent", Improvement(result.start_micros, best));
  AddMember(&json, "lower_bound_us", ComputeBounds(problem.graph, problem.cluster, problem.costs).lower_bound_micros);
  AddMember(&json, "evaluations", result.evaluations);
  AddMember(&json, "fitting", result.fitting);
  AddMember(&json, "trace", TraceToJson(result));
  if (!result.episodes.empty()) AddMember(&json, "episodes", EpisodesToJson(result));
  return {std::move(json)};
}

JsonValue TransferToJson(const TrialProblem& problem, const GraphResult& result) {
  JsonObject json = AboutGraph(problem, result);
  const std::optional<double> best = BestMicros(result);
  AddMember(&json, "step_time_us", result.final_micros);
  AddMember(&json, "best_step_time_us", best);
  AddMember(&json, "improvement_percent", Improvement(result.start_micros, best));
  AddMember(&json, "evaluations", result.evaluations);
  return {std::move(json)};
}

JsonObject MeasuredToJson(const MeasuredSteps& measured) {
  JsonList checks;
  for (const HardwareCheck& check : measured.checks) {
    JsonObject json;
    AddMember(&json, "evaluation", check.evaluation);
    AddMember(&json, "simulated_us", check.simulated_micros);
    AddMember(&json, "measured_us", check.measured_micros);
    checks.push_back({std::move(json)});
  }
  JsonObject json;
  AddMember(&json, "checks", std::move(checks));
  AddMember(&json, "best_step_time_us", measured.best_micros);
  if (measured.interleaved_micros) AddMember(&json, "best_interleaved_us", *measured.interleaved_micros);
  return json;
}

}  // namespace

JsonValue TrialToJson(const std::string& id, const JsonValue& spec_json, const TrialSpec& spec,
                      const TrialResult& result, std::string_view placement) {
  JsonObject json;
  AddMember(&json, "schema", "emplace.trial");
  AddMember(&json, "version", 2);
  if (const JsonValue* name = FindMember(spec_json, "experiment")) AddMember(&json, "experiment", *name);
  AddMember(&json, "trial", id);
  AddMember(&json, "emplace", Version());
  AddMember(&json, "revision", Revision());
  AddMember(&json, "spec", spec_json);
  std::size_t evaluations = result.evaluations;
  JsonList graphs = {GraphToJson(spec.problem, result)};
  for (std::size_t i = 0; i < spec.also.size(); ++i) {
    graphs.push_back(GraphToJson(spec.also[i], result.also[i]));
    evaluations += result.also[i].evaluations;
  }
  AddMember(&json, "graphs", std::move(graphs));
  if (!spec.transfer.empty()) {
    JsonList transfer;
    for (std::size_t i = 0; i < spec.transfer.size(); ++i) {
      transfer.push_back(TransferToJson(spec.transfer[i], result.transfer[i]));
    }
    AddMember(&json, "transfer", std::move(transfer));
  }
  AddMember(&json, "evaluations", evaluations);
  AddMember(&json, "best_placement_fingerprint",
            placement.empty() ? JsonValue{std::monostate()} : ToJson(FingerprintText(placement)));
  AddChecksum(&json);
  return {std::move(json)};
}

JsonValue TimingToJson(const TrialResult& result, const std::optional<MeasuredSteps>& measured) {
  std::size_t episodes = result.episodes.size();
  for (const GraphResult& also : result.also) episodes += also.episodes.size();
  JsonObject json;
  AddMember(&json, "schema", "emplace.timing");
  AddMember(&json, "version", 2);
  AddMember(&json, "policy_seconds", result.times.policy);
  AddMember(&json, "simulator_seconds", result.times.simulator);
  AddMember(&json, "wall_seconds", result.times.wall);
  AddMember(&json, "episodes", episodes);
  AddMember(&json, "policy_seconds_per_episode",
            episodes > 0 ? std::optional(result.times.policy / static_cast<double>(episodes)) : std::nullopt);
  if (measured) AddMember(&json, "hardware", MeasuredToJson(*measured));
  AddChecksum(&json);
  return {std::move(json)};
}

}  // namespace emplace
