#ifndef EMPLACE_TOOLS_PROBLEM_H_
#define EMPLACE_TOOLS_PROBLEM_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/options.h"
#include "sim/placement.h"
#include "sim/result_json.h"

namespace emplace::tools {

// The options that say which graph runs where and what its ops take: shared by inspect, simulate, place and compare.
struct ProblemOptions {
  std::string graph;
  std::string cluster;  // a file or the name of a shipped cluster; "" if not asked for
  std::string devices;  // comma-separated
  std::optional<std::size_t> gpus;
  std::string costs;  // "": measured, or none beside a profile
  std::string profile;
  std::string engine = "fifo";
};
void AddGraphOption(CLI::App& app, ProblemOptions* options);
CLI::Option* AddClusterOptions(CLI::App& app, ProblemOptions* options);  // --cluster and --devices
void AddGpusOption(CLI::App& app, ProblemOptions* options);
void AddCostOptions(CLI::App& app, ProblemOptions* options);
void AddEngineOption(CLI::App& app, ProblemOptions* options);

Graph LoadGraph(const std::string& path);
// The cluster of --cluster, cut down by --devices and --gpus.
Cluster LoadCluster(const ProblemOptions& options);
// Where op times come from: --profile with the named --costs as fallback, or --costs alone.
struct CostModels {
  std::unique_ptr<CostModel> model;
  std::unique_ptr<CostModel> fallback;  // may be null
};
CostModels LoadCostModels(const ProblemOptions& options);
CostTable LoadCosts(const ProblemOptions& options, const Graph& graph, const Cluster& cluster);

// --set key=value, several after one --set or one each. Throws InputError on text without '=' and on a repeated key.
void AddSetOption(CLI::App& app, std::vector<std::string>* settings);
OptionMap ParseSettings(const std::vector<std::string>& settings);

// Throws InputError if two of the paths are "-", two are the same file, or one is in a folder that does not exist:
// better before a long search than after it. "" stands for an option that was not given.
void CheckOutputs(const std::vector<std::string>& paths);
void CheckInputs(const std::vector<std::string>& paths);

// The options that show what became of a placement.
struct ShowOptions {
  bool json = false;
  std::string timeline;  // a file; one that ends in .svg is a picture, else Chrome trace events
};
void AddShowOptions(CLI::App& app, ShowOptions* options);
void WriteTimelineFile(const std::string& path, const Graph& graph, const Cluster& cluster, const CostTable& costs,
                       const Placement& placement, const std::string& engine);
// For people: step time, bounds, and a row for each device.
void PrintReport(std::ostream& out, const StepReport& report);

// Numbers for people: "12.3 ms", "1.50 GiB".
std::string ForPeople(Bytes bytes);
std::string MicrosForPeople(double micros);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_PROBLEM_H_
