#include "experiments/report/metrics.h"

#include <algorithm>
#include <iterator>

#include "experiments/library/known_results.h"
#include "experiments/plan/metric_names.h"
#include "sim/base/registry.h"

namespace emplace::experiments {
namespace {

using Scores = std::vector<GraphScore>;

// The value of `value_of` for each graph, without graphs where it is nullopt.
template <typename Records, typename ValueOf>
Scores OfEachGraph(const Records& records, const ValueOf& value_of) {
  Scores scores;
  for (const auto& record : records) {
    if (const std::optional<double> value = value_of(record)) scores.push_back({record.graph, {*value, 1}});
  }
  return scores;
}

Scores OfTheTrial(const TrialRecord& trial, double TimingRecord::*seconds) {
  if (!trial.timing) return {};
  return {{trial.graphs[0].graph, {(*trial.timing).*seconds, 1}}};
}

std::optional<double> MeanTrainingEntropy(const GraphRecord& record) {
  double sum = 0;
  double count = 0;
  const auto add = [&](double episodes, const std::optional<double>& entropy) {
    sum += episodes * entropy.value_or(0);
    count += entropy ? episodes : 0;
  };
  for (const EpisodeTrace& episode : record.episodes) {
    if (episode.left_out) add(episode.left_out->episodes, episode.left_out->entropy);
    if (!episode.argmax) add(1, episode.entropy);
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::optional<double> InitialEntropy(const GraphRecord& record) {
  if (record.episodes.empty()) return std::nullopt;
  return record.episodes.front().entropy;
}

// The improvement in the last episode, if that is an argmax episode, which evaluates the policy.
std::optional<double> FinalImprovement(const GraphRecord& record) {
  if (record.episodes.empty() || !record.episodes.back().argmax) return std::nullopt;
  return ImprovementPercent(record.single_device_micros, record.episodes.back().final_micros);
}

std::optional<double> BoundRatio(const GraphRecord& record) {
  if (!record.best_micros || record.lower_bound_micros <= 0) return std::nullopt;
  return *record.best_micros / record.lower_bound_micros;
}

// The same after kEvaluations evaluations. This equals a search with that budget if the agent does not depend on its
// budget.
template <std::size_t kEvaluations>
Scores BoundRatiosAfter(const TrialRecord& trial) {
  return OfEachGraph(trial.graphs, [](const GraphRecord& record) -> std::optional<double> {
    std::optional<double> best;
    for (const auto& [evaluations, micros] : record.trace) {
      if (evaluations <= static_cast<double>(kEvaluations)) best = micros;
    }
    if (!best || !record.best_micros || record.lower_bound_micros <= 0) return std::nullopt;
    return *best / record.lower_bound_micros;
  });
}

// At most kRatioOfNothing, so that an agent gains nothing by finding nothing.
Scores BestKnownRatios(const TrialRecord& trial) {
  const JsonValue* const instance = FindPath(trial.spec, "graph.instance");
  const KnownResult* const known = instance == nullptr ? nullptr : FindKnownResult(*instance->As<std::string>());
  if (known == nullptr) return {};
  return OfEachGraph(trial.graphs, [known](const GraphRecord& record) -> std::optional<double> {
    if (!record.best_micros) return kRatioOfNothing;
    const double best = *record.best_micros * 1000;
    return known->step_time_ns > 0 ? std::min(kRatioOfNothing, best / static_cast<double>(known->step_time_ns))
           : best > 0              ? kRatioOfNothing
                                   : 1;
  });
}

// Mean of best so far / lower bound, from the first evaluation that found something to the end of the budget. After an
// early stop the best value is kept.
Scores CurveAreas(const TrialRecord& trial) {
  const JsonValue* const budget = FindPath(trial.spec, "budget.evaluations");
  const auto* const given = budget == nullptr ? nullptr : budget->As<std::int64_t>();
  return OfEachGraph(trial.graphs, [given](const GraphRecord& record) -> std::optional<double> {
    if (!record.best_micros || record.trace.empty() || record.lower_bound_micros <= 0) return std::nullopt;
    const double end = std::max(given == nullptr ? 0.0 : static_cast<double>(*given), record.evaluations);
    double area = 0;
    for (std::size_t i = 0; i < record.trace.size(); ++i) {
      const double until = i + 1 < record.trace.size() ? record.trace[i + 1].first : end + 1;
      area += (until - record.trace[i].first) * record.trace[i].second;
    }
    return area / (end + 1 - record.trace[0].first) / record.lower_bound_micros;
  });
}

Scores StepTimes(const TrialRecord& trial) {
  return OfEachGraph(trial.graphs, [](const GraphRecord& record) { return record.best_micros; });
}
Scores Improvements(const TrialRecord& trial) {
  return OfEachGraph(trial.graphs, [](const GraphRecord& record) {
    return ImprovementPercent(record.single_device_micros, record.best_micros);
  });
}
Scores ThesisImprovements(const TrialRecord& trial) {
  return OfEachGraph(trial.graphs, [](const GraphRecord& record) { return record.improvement; });
}
Scores TransferImprovements(const TrialRecord& trial) {
  return OfEachGraph(trial.transfers, [](const TransferRecord& record) {
    return ImprovementPercent(record.single_device_micros, record.best_micros);
  });
}
Scores TransferFinals(const TrialRecord& trial) {
  return OfEachGraph(trial.transfers, [](const TransferRecord& record) {
    return ImprovementPercent(record.single_device_micros, record.final_micros);
  });
}
Scores FinalImprovements(const TrialRecord& trial) { return OfEachGraph(trial.graphs, FinalImprovement); }
Scores InitialEntropies(const TrialRecord& trial) { return OfEachGraph(trial.graphs, InitialEntropy); }
Scores Evaluations(const TrialRecord& trial) {
  return OfEachGraph(trial.graphs, [](const GraphRecord& record) { return std::optional(record.evaluations); });
}
Scores OpCounts(const TrialRecord& trial) {
  return OfEachGraph(trial.graphs, [](const GraphRecord& record) { return std::optional(record.num_ops); });
}
Scores Entropies(const TrialRecord& trial) { return OfEachGraph(trial.graphs, MeanTrainingEntropy); }
Scores BoundRatios(const TrialRecord& trial) { return OfEachGraph(trial.graphs, BoundRatio); }
Scores PolicySeconds(const TrialRecord& trial) {
  if (!trial.timing || !trial.timing->policy_seconds_per_episode) return {};
  return {{trial.graphs[0].graph, {*trial.timing->policy_seconds_per_episode, 1}}};
}
Scores PolicySecondsInAll(const TrialRecord& trial) { return OfTheTrial(trial, &TimingRecord::policy_seconds); }
// Time of policy and simulator, assuming equal times of evaluations, until the best so far is within this factor of the
// final best of the first graph.
constexpr double kNearTheEnd = 1.05;
Scores SearchSeconds(const TrialRecord& trial) {
  const GraphRecord& record = trial.graphs[0];
  if (!trial.timing || !record.best_micros || record.evaluations <= 0) return {};
  for (const auto& [evaluations, micros] : record.trace) {
    if (micros > kNearTheEnd * *record.best_micros) continue;
    const double seconds = trial.timing->policy_seconds + trial.timing->simulator_seconds;
    return {{record.graph, {seconds * evaluations / record.evaluations, 1}}};
  }
  return {};
}
Scores SimulatorSeconds(const TrialRecord& trial) { return OfTheTrial(trial, &TimingRecord::simulator_seconds); }
Scores WallSeconds(const TrialRecord& trial) { return OfTheTrial(trial, &TimingRecord::wall_seconds); }

// The measured time of the best placement. Its simulated time is the best only if the simulator gave the rewards.
Scores HardwareTimes(const TrialRecord& trial) {
  if (!trial.timing || !trial.timing->hardware || !trial.timing->hardware->best_micros) return {};
  return {{trial.graphs[0].graph, {*trial.timing->hardware->best_micros, 1}}};
}

Scores ImprovementsPerSecond(const TrialRecord& trial) {
  if (!trial.timing || !trial.timing->policy_seconds_per_episode) return {};
  Scores scores = ThesisImprovements(trial);
  for (GraphScore& score : scores) {
    score.score = {std::max(0.0, score.score.value), *trial.timing->policy_seconds_per_episode};
  }
  return scores;
}

constexpr const char* kImprovement = "improvement";
constexpr const char* kSameAsImprovement = "single_device_improvement";
constexpr const char* kPapers = "thesis_improvement";
constexpr const char* kImprovementTitle = "Improvement over everything on the fastest device";

constexpr MetricEntry kMetrics[] = {
    {"step_time", "Step time of the best placement", "ms", 1e-3, true, StepTimes},
    {"step_time_best", "Step time of the best placement, best seed", "ms", 1e-3, true, StepTimes, OfSeeds::kBest},
    {"step_time_median", "Step time of the best placement, median of seeds", "ms", 1e-3, true, StepTimes,
     OfSeeds::kMedian},
    {"step_time_worst", "Step time of the best placement, worst seed", "ms", 1e-3, true, StepTimes, OfSeeds::kWorst},
    {"hardware_step_time", "Step time of the best placement, run for real", "ms", 1e-3, true, HardwareTimes},
    {"improvement", kImprovementTitle, "%", 1, false, Improvements},
    {"single_device_improvement", kImprovementTitle, "%", 1, false, Improvements},
    {"thesis_improvement", "Improvement over the first placement, as Mitropolitsky 2020 has it", "%", 1, false,
     ThesisImprovements},
    {"transfer_improvement", "Improvement over everything on the fastest device, on graphs not trained on", "%", 1,
     false, TransferImprovements},
    {"transfer_final",
     "Improvement over everything on the fastest device, of what a trained policy ends with on graphs not trained on",
     "%", 1, false, TransferFinals},
    {"final_improvement",
     "Improvement over everything on the fastest device, of what the policy ends with by its most likely devices", "%",
     1, false, FinalImprovements},
    {"policy_seconds", "Policy computation per episode", "s", 1, true, PolicySeconds},
    {"policy_seconds_in_all", "Policy computation of a trial", "s", 1, true, PolicySecondsInAll},
    {"pc_ratio", "P-C: improvement over the first placement per second of policy computation", "%/s", 1, false,
     ImprovementsPerSecond},
    {"evaluations", "Evaluations", "", 1, true, Evaluations},
    {"ops", "Ops of the graph", "", 1, true, OpCounts},
    {"entropy", "Policy entropy while training, of the largest possible", "", 1, false, Entropies},
    {"initial_entropy", "Policy entropy of the first episode, of the largest possible (below 0.5: decided unlearned)",
     "", 1, false, InitialEntropies},
    {"lower_bound_ratio", "Best step time over the lower bound", "", 1, true, BoundRatios},
    {"lower_bound_ratio_100", "Best step time over the lower bound after 100 evaluations", "", 1, true,
     BoundRatiosAfter<100>},
    {"lower_bound_ratio_1000", "Best step time over the lower bound after 1,000 evaluations", "", 1, true,
     BoundRatiosAfter<1000>},
    {"best_known_ratio",
     "Best step time over the best known of the library's instance; at most 10, also where nothing that fits was found",
     "", 1, true, BestKnownRatios},
    {"curve_area", "Best so far over the lower bound, mean over the evaluations of the budget", "", 1, true,
     CurveAreas},
    {"rank", "Place among the agents on the same graph, devices and seed (1: the fastest placement)", "", 1, true,
     nullptr},
    {"search_seconds", "Policy computation and simulation until the best so far is within 5 % of the last", "s", 1,
     true, SearchSeconds},
    {"simulator_seconds", "Simulation", "s", 1, true, SimulatorSeconds},
    {"wall_seconds", "Wall-clock time of a trial", "s", 1, true, WallSeconds},
};

static_assert(std::ranges::equal(kMetrics, kMetricNames, {}, &MetricEntry::name));

}  // namespace

std::span<const MetricEntry> AllMetrics() { return kMetrics; }

const MetricEntry& FindMetric(std::string_view name, const std::string& place) {
  return FindByName(kMetrics, name, "metric", place);
}

std::vector<std::string> MetricsToReport(const ExperimentRuns& runs, const PublishedFigures* published) {
  std::vector<std::string> metrics = runs.metrics;
  if (metrics.empty()) metrics = {"step_time", "improvement", "policy_seconds"};
  const auto at = [&metrics](const char* name) { return std::find(metrics.begin(), metrics.end(), name); };
  if (at(kImprovement) == metrics.end()) return metrics;
  std::erase(metrics, kSameAsImprovement);
  const bool has_figures = published != nullptr && std::any_of(published->figures.begin(), published->figures.end(),
                                                               [](const auto& f) { return f.metric == kPapers; });
  if (has_figures && at(kPapers) == metrics.end()) metrics.insert(std::next(at(kImprovement)), kPapers);
  return metrics;
}

}  // namespace emplace::experiments
