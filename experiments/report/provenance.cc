#include "experiments/report/provenance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "agents/settings.h"
#include "experiments/report/devices.h"
#include "experiments/report/grid.h"
#include "experiments/report/published.h"
#include "sim/base/printable.h"

namespace emplace::experiments {
namespace {

constexpr std::size_t kMostNamed = 20;  // failed trials listed by name

template <typename TextOf>
std::string Distinct(const std::vector<TrialRecord>& trials, const TextOf& text_of) {
  std::set<std::string> texts;
  for (const TrialRecord& trial : trials) texts.insert(text_of(trial));
  return fmt::format("{}", fmt::join(NaturallySorted(texts), "; "));
}

std::string OrUnknown(const std::string& text) { return text.empty() ? "unknown" : text; }

// The distinct values of a key path.
std::string DistinctAt(const std::vector<TrialRecord>& trials, const char* key) {
  return Distinct(trials, [key](const TrialRecord& trial) { return OrUnknown(MatchText(trial, key)); });
}

bool DefinesAgent(const agents::Setting& setting) {
  return setting.name == "reward" || setting.path.starts_with("agent.");
}

// The definition of each label.
TableBlock ShowAgents(const std::vector<TrialRecord>& trials) {
  std::map<std::string, std::vector<TrialRecord>> by_label;
  for (const TrialRecord& trial : trials) by_label[trial.label].push_back(trial);
  TableBlock block{.caption = "Agents and their options",
                   .header = {"agent", "name", "options", "reward"},
                   .rows = {},
                   .text_columns = 4,
                   .folded = true};
  for (const auto& [label, own] : by_label) {
    auto& row = block.rows.emplace_back();
    row.push_back({label});
    for (const char* const key : {"agent.name", "agent.set", "reward"}) row.push_back({DistinctAt(own, key)});
  }
  return block;
}

// The settings that the specs have, in the order of the list, without those of ShowAgents.
TableBlock ShowSettings(const std::vector<TrialRecord>& trials) {
  TableBlock block{.caption = "Settings",
                   .header = {"setting", "value", "unit", "meaning"},
                   .rows = {},
                   .text_columns = 4,
                   .folded = true};
  for (const agents::Setting& setting : agents::AllSettings()) {
    if (!setting.Has(agents::Door::kSpec) || DefinesAgent(setting)) continue;
    const std::string path = PlaceOf(setting, agents::Door::kSpec);
    std::set<std::string> values;
    for (const TrialRecord& trial : trials) {
      if (FindPath(trial.spec, path) != nullptr) values.insert(MatchText(trial, path));
    }
    if (values.empty()) continue;
    block.rows.push_back({{PlaceOf(setting, agents::Door::kExperiment)},
                          {fmt::format("{}", fmt::join(NaturallySorted(values), "; "))},
                          {std::string(setting.unit)},
                          {HelpOf(setting, agents::Door::kExperiment)}});
  }
  return block;
}

std::string Name(const UnfinishedTrial& trial) {
  return trial.what.empty() ? trial.id : fmt::format("{} ({})", trial.what, trial.id);
}

void AddUnfinished(const ExperimentRuns& runs, std::vector<std::string>* items) {
  std::size_t failed = 0;
  std::vector<std::string> missing;
  for (const UnfinishedTrial& trial : runs.unfinished) {
    if (!trial.error) {
      missing.push_back(Name(trial));
    } else if (++failed <= kMostNamed) {
      items->push_back(fmt::format("Failed: {}: {}", Name(trial), *trial.error));
    }
  }
  if (failed > kMostNamed) items->push_back(fmt::format("Failed: {} more.", failed - kMostNamed));
  if (missing.empty()) return;
  const std::size_t count = missing.size();
  missing.resize(std::min(count, kMostNamed));
  items->push_back(fmt::format("Not finished: {}: {}{}.", Counted(count, "trial"), fmt::join(missing, "; "),
                               count > kMostNamed ? "; …" : ""));
}

std::size_t NothingFound(const std::vector<TrialRecord>& trials) {
  return static_cast<std::size_t>(std::count_if(trials.begin(), trials.end(), [](const TrialRecord& trial) {
    return std::any_of(trial.graphs.begin(), trial.graphs.end(), [](const auto& graph) { return !graph.best_micros; });
  }));
}

// By label: trials whose best is worse than everything on one device.
void AddWorseThanOneDevice(const std::vector<TrialRecord>& trials, std::vector<std::string>* items) {
  std::map<std::string, std::pair<std::size_t, std::size_t>> by_label;  // such trials, and all
  std::size_t all = 0;
  for (const TrialRecord& trial : trials) {
    const bool is_worse = std::ranges::any_of(
        trial.graphs, [](const auto& graph) { return graph.beaten_by_one_device_micros.has_value(); });
    by_label[trial.label].first += is_worse ? 1 : 0;
    ++by_label[trial.label].second;
    all += is_worse ? 1 : 0;
  }
  if (all == 0) return;
  std::vector<std::string> agents;
  for (const auto& [label, counts] : by_label) {
    if (counts.first > 0) agents.push_back(fmt::format("{} {} of {}", label, counts.first, counts.second));
  }
  items->push_back(fmt::format("Worse than everything on one device, which fits: {} ({}).", Counted(all, "trial"),
                               fmt::join(agents, ", ")));
}

// Trials whose agents saw mostly rewards that were equal.
void AddWarnings(const std::vector<TrialRecord>& trials, std::vector<std::string>* items) {
  std::size_t warned = 0;
  for (const TrialRecord& trial : trials) {
    for (const GraphRecord& graph : trial.graphs) {
      if (graph.warning.empty() || ++warned > kMostNamed) continue;
      items->push_back(
          fmt::format("Warning: {} on {}, seed {}: {}.", trial.label, graph.graph, trial.seed, graph.warning));
    }
  }
  if (warned > kMostNamed) items->push_back(fmt::format("Warning: {} more.", warned - kMostNamed));
}

void AddFacts(const std::vector<TrialRecord>& trials, std::vector<std::string>* items) {
  items->push_back("Agents: " + Distinct(trials, [](const auto& trial) { return trial.label; }) + ".");
  items->push_back("Graphs: " + Distinct(trials, GraphGroup) + ".");
  items->push_back("Clusters: " + DistinctAt(trials, "cluster.name") + ".");
  items->push_back("Devices: " + Distinct(trials, DevicesInWords) + ".");
  items->push_back(fmt::format("Costs: {}.", DistinctAt(trials, "costs")));
  if (std::ranges::any_of(trials, [](const auto& trial) { return FindPath(trial.spec, "objective") != nullptr; })) {
    items->push_back("Trials with an objective report its value wherever a step time is named.");
  }
  items->push_back("Seeds: " + Distinct(trials, [](const auto& trial) { return trial.seed; }) + ".");
  if (const std::size_t none = NothingFound(trials); none > 0) {
    items->push_back(
        fmt::format("{} found nothing that fits in memory; tables leave them out.", Counted(none, "trial")));
  }
  AddWorseThanOneDevice(trials, items);
}

}  // namespace

std::vector<ReportBlock> ProvenanceBlocks(const ExperimentRuns& runs) {
  std::size_t failed = 0;
  for (const UnfinishedTrial& trial : runs.unfinished) failed += trial.error ? 1 : 0;
  std::vector<std::string> items;
  if (!runs.kept.empty()) items.push_back(fmt::format("Only trials with {}.", fmt::join(runs.kept, ", ")));
  if (runs.abandoned > 0) {
    items.push_back(fmt::format("Left out: {} that the experiment no longer has.", Counted(runs.abandoned, "trial")));
  }
  items.push_back(fmt::format("{} finished, {} failed, {} not finished.", Counted(runs.trials.size(), "trial"), failed,
                              runs.unfinished.size() - failed));
  AddUnfinished(runs, &items);
  if (!runs.trials.empty()) {
    AddFacts(runs.trials, &items);
    AddWarnings(runs.trials, &items);
    items.push_back(fmt::format("emplace {}, revision {}.",
                                Distinct(runs.trials, [](const auto& trial) { return OrUnknown(trial.version); }),
                                Distinct(runs.trials, [](const auto& trial) { return OrUnknown(trial.revision); })));
  }
  std::vector<ReportBlock> blocks;
  blocks.push_back(HeadingBlock{3, "What ran"});
  blocks.push_back(BulletsBlock{std::move(items)});
  if (!runs.trials.empty()) {
    blocks.push_back(ShowAgents(runs.trials));
    blocks.push_back(ShowSettings(runs.trials));
  }
  return blocks;
}

}  // namespace emplace::experiments
