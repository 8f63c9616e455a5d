#include "experiments/run/trial_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "agents/bounds/lower_bound.h"
#include "agents/objective.h"
#include "experiments/version.h"
#include "sim/base/fingerprint.h"
#include "sim/bounds.h"
#include "sim/formats/result_json.h"

namespace emplace::experiments {
namespace {

std::optional<double> Improvement(double start, std::optional<double> best) {
  if (!best || !(start > 0)) return std::nullopt;
  return (start - *best) / start * 100;
}

double Count(std::size_t count) { return static_cast<double>(count); }

// To six significant digits. Curves need no more, and further digits would be most of the file.
double SixDigits(double value) {
  const std::string text = fmt::format("{:.5e}", value);
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}
std::optional<double> SixDigits(const std::optional<double>& value) {
  return value ? std::optional(SixDigits(*value)) : std::nullopt;
}

LeftOutTrace TraceOf(const agents::EpisodesLeftOut& means) {
  return {.episodes = Count(means.episodes),
          .final_micros = SixDigits(means.final_micros),
          .mean_micros = SixDigits(means.mean_micros),
          .entropy = SixDigits(means.entropy),
          .gradient_norm = SixDigits(means.gradient_norm)};
}

EpisodeTrace TraceOf(const agents::EpisodeRecord& record) {
  return {.episode = Count(record.episode),
          .argmax = record.argmax,
          .entropy = SixDigits(record.entropy),
          .final_micros = SixDigits(record.final_micros),
          .evaluations = Count(record.evaluations),
          .mean_micros = SixDigits(record.mean_micros),
          .best_micros = SixDigits(record.best_micros),
          .gradient_norm = SixDigits(record.gradient_norm),
          .grouper_entropy = SixDigits(record.grouper_entropy),
          .tied = record.tied ? std::optional(Count(*record.tied)) : std::nullopt,
          .left_out = record.left_out ? std::optional(TraceOf(*record.left_out)) : std::nullopt};
}

// To whole microseconds, in which CPU time is measured.
double WholeMicros(double seconds) { return std::round(seconds * 1e6) / 1e6; }

// The common fields of a graph's record, searched or transferred to.
template <typename Record>
Record RecordOf(const agents::SearchProblem& problem, const agents::GraphResult& result) {
  Record record;
  record.graph = problem.name.empty() ? problem.graph.name() : problem.name;
  record.num_ops = Count(problem.graph.num_ops());
  record.num_groups = Count(result.num_groups);
  record.num_devices = Count(problem.cluster.num_devices());
  record.single_device_micros = result.single_device_micros;
  record.start_micros = result.start_micros;
  if (result.best) record.best_micros = result.trace.back().second;
  record.improvement = Improvement(result.start_micros, record.best_micros);
  if (result.WorseThanOneDevice()) record.beaten_by_one_device_micros = result.one_device_micros;
  record.evaluations = Count(result.evaluations);
  return record;
}

void SetLowerBound(const agents::SearchSpec& spec, const agents::SearchProblem& problem,
                   const agents::GraphResult& result, GraphRecord* record) {
  const agents::ObjectiveContext context = {.graph = problem.graph,
                                            .cluster = problem.cluster,
                                            .costs = problem.costs,
                                            .settings = spec,
                                            .schedule = spec.pipeline};
  const agents::ObjectiveEntry& objective = agents::ObjectiveOf(spec);
  if (objective.bound != nullptr) {
    const agents::LowerBound bound = objective.bound(context);
    record->lower_bound_micros = bound.micros;
    record->lower_bound_method = bound.method;
  } else if (result.best) {
    const StepReport report = objective.make(context)->Report(*result.best, result.best_result);
    record->lower_bound_micros = report.lower_bound_micros;
    record->lower_bound_method = report.lower_bound_method;
  } else {
    const Bounds bounds = ComputeBounds(problem.graph, problem.cluster, problem.costs);  // bounds of one micro-batch
    record->lower_bound_micros = bounds.lower_bound_micros;
    record->lower_bound_method = bounds.lower_bound_method;
  }
}

GraphRecord SearchedGraph(const agents::SearchSpec& spec, const agents::SearchProblem& problem,
                          const agents::GraphResult& result) {
  auto record = RecordOf<GraphRecord>(problem, result);
  SetLowerBound(spec, problem, result, &record);
  record.fitting = Count(result.fitting);
  if (result.saturated) record.saturated = Count(*result.saturated);
  record.warning = agents::RewardWarning(result);
  for (const auto& [evaluations, micros] : result.trace) record.trace.emplace_back(Count(evaluations), micros);
  for (const agents::EpisodeRecord& episode : result.episodes) record.episodes.push_back(TraceOf(episode));
  return record;
}

}  // namespace

JsonValue TrialToJson(const std::string& id, const JsonValue& spec_json, const agents::SearchSpec& spec,
                      const agents::SearchResult& result, std::string_view placement) {
  TrialRecord trial;
  if (const JsonValue* name = FindMember(spec_json, "experiment")) trial.experiment = *name;
  trial.id = id;
  trial.version = Version();
  trial.revision = Revision();
  trial.spec = spec_json;
  trial.graphs = {SearchedGraph(spec, spec.problem, result)};
  trial.graphs.front().single_ops_micros = result.single_ops_micros;
  for (std::size_t i = 0; i < spec.also.size(); ++i) {
    trial.graphs.push_back(SearchedGraph(spec, spec.also[i], result.also[i]));
  }
  for (const GraphRecord& graph : trial.graphs) trial.evaluations += graph.evaluations;
  for (std::size_t i = 0; i < spec.transfer.size(); ++i) {
    trial.transfers.push_back(RecordOf<TransferRecord>(spec.transfer[i], result.transfer[i]));
    trial.transfers.back().final_micros = result.transfer[i].final_micros;
  }
  if (!placement.empty()) trial.placement_fingerprint = FingerprintText(placement);
  return TrialRecordToJson(trial);
}

JsonValue TimingToJson(const agents::SearchResult& result, const std::optional<MeasuredSteps>& measured) {
  TimingRecord timing{.policy_seconds = WholeMicros(result.times.policy),
                      .simulator_seconds = WholeMicros(result.times.simulator),
                      .wall_seconds = WholeMicros(result.times.wall),
                      .episodes = Count(result.num_episodes),
                      .hardware = measured};
  for (const agents::GraphResult& also : result.also) timing.episodes += Count(also.num_episodes);
  if (timing.episodes > 0) timing.policy_seconds_per_episode = timing.policy_seconds / timing.episodes;
  return TimingRecordToJson(timing);
}

}  // namespace emplace::experiments
