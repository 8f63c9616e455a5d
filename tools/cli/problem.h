#ifndef EMPLACE_TOOLS_CLI_PROBLEM_H_
#define EMPLACE_TOOLS_CLI_PROBLEM_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agents/explain/moves.h"
#include "agents/settings.h"
#include "datasets/lora.h"
#include "datasets/parallel_plan.h"
#include "experiments/plan/problem.h"
#include "experiments/plan/trial_choice.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/options.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/formats/result_json.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/schedule/schedule_evaluator.h"
#include "sim/simulator.h"

namespace emplace::tools {

// A problem and what is to be done with it, as the options of commands say.
struct ProblemOptions {
  experiments::GraphSource graph;      // a file
  experiments::ClusterChoice cluster;  // its name: a shipped cluster or a file; "" if not given
  experiments::CostsChoice costs;
  agents::SearchSettings settings;
};
// The graph is the first argument, or --graph.
void AddGraphOption(CLI::App& app, ProblemOptions* options);
// --cluster and --devices. The cluster may be left out only if `optional` says so, or emplace.yaml names one.
void AddClusterOptions(CLI::App& app, ProblemOptions* options, bool optional = false);
void AddGpusOption(CLI::App& app, ProblemOptions* options);
void AddCostOptions(CLI::App& app, ProblemOptions* options);
// The options of settings that simulations have, or of all that the command line has, but for `without`, by name.
void AddSimulationOptions(CLI::App& app, ProblemOptions* options, const std::vector<std::string_view>& without = {});
void AddSearchOptions(CLI::App& app, ProblemOptions* options, const std::vector<std::string_view>& without = {});
// The files that the options name: graph, cluster, profile, and those of settings.
std::vector<std::string> InputFiles(const ProblemOptions& options);
// Throws InputError on an unknown engine, and on a cluster that the engine does not support.
Simulator MakeSimulator(const ProblemOptions& options, const Graph& graph, const Cluster& cluster,
                        const CostTable& costs);

// The cluster of --cluster, restricted by --devices and --gpus.
Cluster LoadCluster(const ProblemOptions& options);
std::vector<std::string> SplitAtCommas(const std::string& text);  // "" has no parts
struct LoadedCosts {
  CostTable table;
  std::string text;    // source of op times, for results (experiments::CostsText)
  std::string detail;  // experiments::CostsDetail
  void SetIn(StepReport* report) const {
    report->costs = text;
    report->costs_detail = detail;
  }
};
// Where op times are from: as the options say, else emplace.yaml, else experiments::ResolvedCosts.
experiments::CostsChoice ChosenCosts(const ProblemOptions& options, const Graph& graph, const Cluster& cluster);
LoadedCosts LoadCosts(const ProblemOptions& options, const Graph& graph, const Cluster& cluster);
// Throws InputError on a placement that cannot run (sim/placement.h), and on one with an order.
Placement LoadPlacement(const std::string& file, const Graph& graph, const Cluster& cluster, const CostTable& costs);
// The same of one that may have an order: then the graph gets its control edges, and the costs are those of that graph.
Placement LoadOrderedPlacement(const ProblemOptions& options, const std::string& file, const Cluster& cluster,
                               Graph* graph, LoadedCosts* costs);

// --seed: an integer from 0 to 2^64 - 1.
void AddSeedOption(CLI::App& app, std::uint64_t* seed, const std::string& help);
void AddSeedOption(CLI::App& app, std::optional<std::uint64_t>& seed, const std::string& help);

// --set key=value, several after one --set or one each. Throws InputError on text without '=' and on a repeated key.
void AddSetOption(CLI::App& app, std::vector<std::string>* settings);
// The adapters of a fine-tuning.
struct LoraOptions {
  std::optional<std::int64_t> rank;
  std::string targets;
  bool given() const { return rank || !targets.empty(); }
  // Into a plan of the user's own.
  void Change(datasets::ParallelPlan* plan) const {
    if (rank) plan->lora = *rank;
    if (!targets.empty()) plan->lora_targets = targets;
  }
};
void AddLoraOptions(CLI::App& app, LoraOptions* options);
OptionMap ParseSettings(const std::vector<std::string>& settings);

// The options that show the result of a placement.
struct ShowOptions {
  bool json = false;
  std::string timeline;  // a file; one that ends in .svg is a picture, else Chrome trace events
};
void AddShowOptions(CLI::App& app, ShowOptions* options);
void AddTimelineOption(CLI::App& app, std::string* file);
bool IsPicture(std::string_view file);
std::vector<FileToWrite> TimelineFile(const std::string& path, const Simulator& simulator, const Graph& graph,
                                      const Cluster& cluster, const Placement& placement);
std::vector<FileToWrite> ScheduleTimelineFile(const std::string& path, const std::shared_ptr<const ScheduledStep>& step,
                                              const Graph& graph, const Cluster& cluster);
// How many simulations an answer may take unless the user says: `most`, and fewer for graphs of more than 20,000 ops,
// so that the time stays about the same; at least a twentieth.
std::size_t SimulationsFor(const Graph& graph, std::size_t most);
// Shows how many of these simulations are done, until it is destroyed.
agents::OnSimulations ShownSimulations(std::string title);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_PROBLEM_H_
