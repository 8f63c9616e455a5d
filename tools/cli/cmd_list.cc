#include <fmt/format.h>

#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agents/agent.h"
#include "agents/objective.h"
#include "agents/reward.h"
#include "datasets/families/families.h"
#include "datasets/importers/registry.h"
#include "datasets/models/registry.h"
#include "datasets/shipped_clusters.h"
#include "experiments/library/plans/planners.h"
#include "sim/base/exit_status.h"
#include "sim/base/registry.h"
#include "sim/base/table.h"
#include "sim/cost_model.h"
#include "sim/device_catalog.h"
#include "sim/grouping.h"
#include "sim/schedule/schedule.h"
#include "sim/simulator.h"
#include "tools/cli/commands.h"

namespace emplace::tools {
namespace {

struct Row {
  std::string name;
  std::string summary;
  std::string source;
  std::vector<OptionReader::Declared> options;
  std::vector<std::pair<const char*, std::string>> defaults;  // the agent's own defaults of options of the command
};
using Rows = std::vector<Row>;

template <typename Entries>
Rows FromRegistry(const Entries& entries) {
  Rows rows;
  for (const auto& entry : entries) {
    rows.push_back({std::string(entry.name), std::string(entry.summary), std::string(entry.source), {}, {}});
  }
  return rows;
}

// An entry's options are those that `declare` reads when none is set.
template <typename Entries, typename Declare>
Rows WithOptions(const Entries& entries, Declare declare) {
  Rows rows = FromRegistry(entries);
  const OptionMap none;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    OptionReader reader(none, rows[i].name);
    declare(entries[i], reader);
    rows[i].options = reader.declared();
  }
  return rows;
}

std::string GroupingText(const agents::AgentEntry& entry) {
  if (entry.max_ops == 0) return std::string(entry.grouping);
  return fmt::format("{}, {} over {} ops", entry.grouping, agents::DefaultGrouping(entry, entry.max_ops + 1),
                     entry.max_ops);
}

Rows ListAgents() {
  Rows rows = WithOptions(agents::AllAgents(), [](const agents::AgentEntry& entry, OptionReader& reader) {
    entry.make(reader, {.evaluations = entry.default_evaluations});
  });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const agents::AgentEntry& entry = agents::AllAgents()[i];
    rows[i].defaults = {{"evaluations", fmt::format("{}", entry.default_evaluations)},
                        {"grouping", GroupingText(entry)},
                        {"reward", std::string(entry.reward)}};
  }
  return rows;
}

// The networks by published names follow the models; their options are those of `llama`.
Rows ListModels() {
  Rows rows = WithOptions(datasets::AllModels(), [](const auto& entry, OptionReader& reader) { entry.make(reader); });
  const Rows named = FromRegistry(datasets::AllModelNames());
  rows.insert(rows.end(), named.begin() + static_cast<std::ptrdiff_t>(rows.size()), named.end());
  return rows;
}

Rows ListObjectives() {
  return WithOptions(agents::ListedObjectives(), [](const agents::ObjectiveEntry& entry, OptionReader& reader) {
    if (entry.read_options != nullptr) entry.read_options(reader);
  });
}

Rows ListRewards() {
  return WithOptions(agents::AllRewards(), [](const agents::RewardEntry& entry, OptionReader& reader) {
    agents::RewardOptions options;
    if (entry.read != nullptr) entry.read(reader, &options);
  });
}

Rows ListClusters() {
  Rows rows;
  for (const datasets::ShippedCluster& shipped : datasets::AllShippedClusters()) {
    const Cluster cluster = datasets::LoadCluster(std::string(shipped.name));
    std::vector<std::pair<std::string, std::size_t>> kinds;
    for (const Device& device : cluster.devices()) {
      if (kinds.empty() || kinds.back().first != device.kind) kinds.emplace_back(device.kind, 0);
      ++kinds.back().second;
    }
    std::string summary;
    for (const auto& [kind, count] : kinds) {
      summary += fmt::format("{}{} {}", summary.empty() ? "" : ", ", count, kind);
    }
    rows.push_back({std::string(shipped.name), summary, cluster.source(), {}, {}});
  }
  return rows;
}

struct Topic {
  const char* name;
  Rows (*rows)();
};

constexpr Topic kTopics[] = {
    {"agents", ListAgents},
    {"models", ListModels},
    {"datasets", [] { return FromRegistry(datasets::AllFamilies()); }},
    {"devices", [] { return FromRegistry(AllDeviceKinds()); }},
    {"clusters", ListClusters},
    {"engines", [] { return FromRegistry(AllEngines()); }},
    {"schedules", [] { return FromRegistry(AllSchedules()); }},
    {"objectives", ListObjectives},
    {"rewards", ListRewards},
    {"groupers", [] { return FromRegistry(AllGroupers()); }},
    {"cost-models", [] { return FromRegistry(AllCostModels()); }},
    {"planners", [] { return FromRegistry(experiments::AllPlanners()); }},
    {"importers", [] { return FromRegistry(datasets::AllImporters()); }},
};

void PrintJson(const Rows& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json entry = {{"name", row.name}, {"summary", row.summary}, {"source", row.source}};
    for (const OptionReader::Declared& option : row.options) {
      entry["options"].push_back({{"key", option.key}, {"default", option.default_value}, {"help", option.help}});
    }
    for (const auto& [key, value] : row.defaults) entry["defaults"][key] = value;
    list.push_back(std::move(entry));
  }
  std::cout << list.dump(1) << '\n';
}

void PrintText(const Rows& rows) {
  Table table({"name", "what", "source"});
  for (const Row& row : rows) table.Add({row.name, row.summary, row.source});
  table.PrintText(std::cout);
  Table options({"options of", "option=default", "meaning"});
  bool any = false;
  for (const Row& row : rows) {
    for (const auto& [key, value] : row.defaults)
      options.Add({row.name, fmt::format("--{}={}", key, value), "default of `place` and `compare`"});
    for (const OptionReader::Declared& option : row.options) {
      options.Add({row.name, option.key + "=" + option.default_value, option.help});
      any = true;
    }
  }
  if (!any) return;
  std::cout << '\n';
  options.PrintText(std::cout);
}

int Run(const std::string& what, bool json) {
  const Rows rows = FindByName(kTopics, what, "list").rows();
  json ? PrintJson(rows) : PrintText(rows);
  return kSuccess;
}

}  // namespace

Command AddList(CLI::App& app) {
  std::string topics;
  for (const Topic& topic : kTopics) topics.append(topics.empty() ? "" : "|").append(topic.name);
  CLI::App* const command =
      app.add_subcommand("list", "List available agents, models, clusters and so on, with their sources and options");
  auto what = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command->add_option("what", *what, "List to print")->required()->type_name(topics);
  command->add_flag("--json", *json, "Print as JSON");
  return {command, [what, json] { return Run(*what, *json); }};
}

}  // namespace emplace::tools
