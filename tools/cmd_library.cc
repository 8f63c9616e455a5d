#include <fmt/format.h>

#include <array>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/library/instances.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"
#include "sim/base/table.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/formats/graph_json.h"
#include "tools/commands.h"
#include "tools/problem.h"
#include "tools/terminal.h"

namespace emplace::tools {
namespace {

using experiments::LibraryInstance;
using experiments::LibraryProblem;
using experiments::Tier;
using Json = nlohmann::ordered_json;

std::string RecipeText(const experiments::LibraryGraph& graph) {
  std::string text = !graph.synthetic.empty() ? "synthetic " + graph.synthetic
                     : !graph.dataset.empty() ? fmt::format("{} {} of seed {}", graph.dataset, graph.index, graph.seed)
                                              : graph.model;
  for (const auto& [key, value] : graph.set) text += fmt::format(" {}={}", key, value);
  return text;
}

std::string ClusterText(const experiments::LibraryCluster& cluster) {
  std::string text = cluster.name;
  if (cluster.gpus) text += fmt::format(", {} accelerators", *cluster.gpus);
  if (!cluster.devices.empty()) text += fmt::format(", {} devices", cluster.devices.size());
  if (cluster.memory_kb) text += fmt::format(", {} kB each", *cluster.memory_kb);
  return text;
}

struct ListOptions {
  std::string tier;
  bool json = false;
};

int RunList(const ListOptions& options) {
  std::optional<Tier> only;
  if (!options.tier.empty()) only = AtPlace("--tier", [&] { return experiments::FindTier(options.tier); });
  Json rows = Json::array();
  Table table({"instance", "tier", "ops", "graph", "cluster"});
  std::size_t count = 0;
  for (const LibraryInstance& instance : experiments::LibraryInstances()) {
    if (only && instance.tier != *only) continue;
    ++count;
    table.Add({instance.name, std::string(NameOf(instance.tier)), std::to_string(instance.ops),
               RecipeText(instance.graph), ClusterText(instance.cluster)});
    rows.push_back({{"name", instance.name},
                    {"tier", NameOf(instance.tier)},
                    {"ops", instance.ops},
                    {"graph", RecipeText(instance.graph)},
                    {"cluster", ClusterText(instance.cluster)},
                    {"costs", instance.costs},
                    {"hash", instance.hash}});
  }
  if (options.json) {
    std::cout << Json{{"schema", "emplace.library_list"}, {"version", 1}, {"instances", rows}}.dump(1) << '\n';
    return kDone;
  }
  table.PrintText(std::cout);
  std::cout << fmt::format("\n{} instances\n", count);
  return kDone;
}

struct ShowInstanceOptions {
  std::string name;
  std::string graph_output;
  std::string cluster_output;
  std::string planted_output;
  bool json = false;
};

int RunShow(const ShowInstanceOptions& options) {
  CheckFiles({}, {options.graph_output, options.cluster_output, options.planted_output});
  const LibraryInstance& instance = experiments::FindInstance(options.name);
  const LibraryProblem problem = experiments::LoadInstance(instance);
  if (!options.planted_output.empty() && !problem.planted) {
    throw InputError("--planted-out", "instance " + instance.name + " was not built around a placement");
  }
  std::vector<FileToWrite> files;
  if (!options.graph_output.empty()) {
    files.push_back({options.graph_output, [&](std::ostream& out) { WriteGraph(out, problem.graph); }});
  }
  if (!options.cluster_output.empty()) {
    files.push_back({options.cluster_output, [&](std::ostream& out) { WriteCluster(out, problem.cluster); }});
  }
  if (!options.planted_output.empty()) {
    files.push_back({options.planted_output, [&](std::ostream& out) {
                       WritePlacement(out, *problem.planted, problem.graph, problem.cluster);
                     }});
  }
  WriteFiles(files);
  const std::string hash = experiments::InstanceHash(problem);
  if (options.json) {
    std::cout << Json{{"schema", "emplace.library_instance"},
                      {"version", 1},
                      {"name", instance.name},
                      {"tier", NameOf(instance.tier)},
                      {"ops", problem.graph.num_ops()},
                      {"tensors", problem.graph.num_tensors()},
                      {"graph", RecipeText(instance.graph)},
                      {"cluster", ClusterText(instance.cluster)},
                      {"devices", problem.cluster.num_devices()},
                      {"costs", instance.costs},
                      {"rules", experiments::kLibraryRules},
                      {"hash", instance.hash},
                      {"computed_hash", hash}}
                     .dump(1)
              << '\n';
  } else {
    std::cout << fmt::format("instance  {}\ntier      {}\ngraph     {}: {} ops, {} tensors\ncluster   {}: {} devices\n",
                             instance.name, NameOf(instance.tier), RecipeText(instance.graph), problem.graph.num_ops(),
                             problem.graph.num_tensors(), ClusterText(instance.cluster), problem.cluster.num_devices());
    std::cout << fmt::format("costs     {}\nrules     {}\nhash      {}\n", instance.costs, experiments::kLibraryRules,
                             hash);
  }
  return kDone;
}

}  // namespace

Command AddLibrary(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("library", "Frozen placement problems with their best known results");
  command->require_subcommand(1);
  CLI::App* const list = command->add_subcommand("list", "Show all instances");
  auto list_options = std::make_shared<ListOptions>();
  list->add_option("--tier", list_options->tier, "Only this tier (default: all)")->type_name("TIER");
  list->add_flag("--json", list_options->json, "Print as JSON (emplace.library_list)");
  CLI::App* const show = command->add_subcommand("show", "Show one instance, and write its graph and cluster");
  auto show_options = std::make_shared<ShowInstanceOptions>();
  show->add_option("name", show_options->name, "Instance, of `emplace library list`")->required()->type_name("NAME");
  show->add_option("--graph-out", show_options->graph_output, "graph.json to write")->type_name("FILE");
  show->add_option("--cluster-out", show_options->cluster_output, "cluster.yaml to write")->type_name("FILE");
  show->add_option("--planted-out", show_options->planted_output,
                   "placement.json to write: the one around which a planted graph was built")
      ->type_name("FILE");
  show->add_flag("--json", show_options->json, "Print as JSON (emplace.library_instance)");
  return {command, [=] { return list->parsed() ? RunList(*list_options) : RunShow(*show_options); }};
}

}  // namespace emplace::tools
