#include "experiments/report/improvement.h"

#include <map>
#include <optional>
#include <string>

#include "experiments/report/published.h"

namespace emplace::experiments {
namespace {

bool IsMeasured(const TrialRecord& trial) {
  const std::string source = MatchText(trial, "hardware.reward_source");
  return !source.empty() && source != "simulator";
}

// Identifies everything on which the single-device step time depends.
std::string ProblemText(const TrialRecord& trial, const GraphRecord& graph) {
  std::string text = graph.graph;
  for (const char* const key : {"graph", "together", "cluster", "engine", "costs"})
    text += "\n" + MatchText(trial, key);
  if (IsMeasured(trial)) text += "\n" + MatchText(trial, "hardware.reward_source");
  return text;
}

// The single-device step time according to this trial.
std::optional<double> KnownTime(const TrialRecord& trial, const GraphRecord& graph) {
  if (graph.single_device_micros && !IsMeasured(trial)) return graph.single_device_micros;
  const bool is_single = MatchText(trial, "agent.name") == "single_device" && MatchText(trial, "agent.set") == "{}";
  return is_single ? graph.best_micros : std::nullopt;
}

}  // namespace

void FillSingleDeviceTimes(std::vector<TrialRecord>* trials) {
  std::map<std::string, double> known;
  for (const TrialRecord& trial : *trials) {
    for (const GraphRecord& graph : trial.graphs) {
      if (const auto micros = KnownTime(trial, graph)) known.emplace(ProblemText(trial, graph), *micros);
    }
  }
  for (TrialRecord& trial : *trials) {
    for (TransferRecord& graph : trial.transfers) {
      if (!graph.single_device_micros) graph.single_device_micros = graph.start_micros;
    }
    for (GraphRecord& graph : trial.graphs) {
      if (graph.single_device_micros && !IsMeasured(trial)) continue;
      const auto found = known.find(ProblemText(trial, graph));
      graph.single_device_micros = found == known.end() ? std::nullopt : std::optional(found->second);
    }
  }
}

}  // namespace emplace::experiments
