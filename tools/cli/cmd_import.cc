#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/exporters/framework_plans.h"
#include "datasets/exporters/frameworks.h"
#include "datasets/importers/dnn_partitioning.h"
#include "datasets/importers/nccl.h"
#include "datasets/importers/registry.h"
#include "datasets/inference/inference_model.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/progress.h"
#include "sim/base/terminal.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/formats/graph_json.h"
#include "sim/placement.h"
#include "tools/cli/commands.h"
#include "tools/cli/importing.h"
#include "tools/cli/numbers.h"
#include "tools/cli/place_inference.h"
#include "tools/cli/problem.h"

namespace emplace::tools {
namespace {

constexpr std::string_view kDefaultOptimizer = "sgd";

struct ImportOptions {
  std::vector<std::string> files;
  std::string format;
  std::string output;
  std::string cluster_output;
  std::string placement_output;
  std::string expert;
  std::string times;
  std::vector<std::string> inputs;
  std::string step;
  bool training = false;
  std::string optimizer;  // "": the default
  double min_attributed = datasets::ImportOptions().min_attributed_percent;
  int nodes = datasets::ImportOptions().nodes;
  std::string nvlink;
  std::string cluster;
  std::string graph;
  std::string comm_groups;
  std::string quantisation;
};

bool IsOneOf(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Refuses what a kind of input does not take, of the options that only some formats have.
void RefuseOptionsOfFormats(const ImportOptions& options, const std::string& why) {
  for (const auto& [option, given] : {std::pair("--cluster-out", !options.cluster_output.empty()),
                                      {"--placement-out", !options.placement_output.empty()},
                                      {"--expert", !options.expert.empty()},
                                      {"--times", !options.times.empty()},
                                      {"--input", !options.inputs.empty()},
                                      {"--step", !options.step.empty()},
                                      {"--training", options.training},
                                      {"--optimizer", !options.optimizer.empty()},
                                      {"--nvlink", !options.nvlink.empty()},
                                      {"--comm-groups", !options.comm_groups.empty()}}) {
    if (given) throw InputError(option, fmt::format("cannot be used ({})", why));
  }
}

// The GGUF model of a network without a file.
int ImportQuantised(const ImportOptions& options) {
  if (options.files.size() > 1) throw InputError(options.files[1], "(one network with --quantise)");
  RefuseOptionsOfFormats(options, "--quantise");
  for (const auto& [option, value] :
       {std::pair("--from", &options.format), {"--graph", &options.graph}, {"--cluster", &options.cluster}}) {
    if (!value->empty()) throw InputError(option, "cannot be used (--quantise)");
  }
  const std::string& file = options.files.front();
  CheckFiles({file.ends_with(".json") ? file : ""}, {options.output});
  const Graph graph = datasets::InferenceGraph(LoadInferenceModel(file, options.quantisation));
  WriteFiles({{options.output, [&](std::ostream& out) { WriteGraph(out, graph); }}});
  PrintMessage(fmt::format("{}: {} ops, {} tensors of its {} model", file, graph.num_ops(), graph.num_tensors(),
                           options.quantisation));
  return kSuccess;
}

// What a framework was told, as `emplace export --to` writes it: with a graph a placement, else a plan.
int ReadFramework(const ImportOptions& options) {
  if (options.files.size() > 1) throw InputError(options.files[1], fmt::format("(one file of {})", options.format));
  RefuseOptionsOfFormats(options, "format " + options.format);
  const std::string& file = options.files.front();
  CheckFiles({file, options.graph, options.cluster}, {options.output});
  const std::string text = ReadWholeFile(file, InputKind::kPlacement);
  ProblemOptions problem;
  problem.graph.file = options.graph;
  problem.cluster.name = options.cluster;
  std::optional<Cluster> cluster;
  if (!options.cluster.empty()) cluster = LoadCluster(problem);
  if (options.graph.empty()) {
    if (!IsOneOf(datasets::PlanFormats(), options.format)) {
      throw InputError("--graph", fmt::format("is missing ({} says where the graph's modules are)", options.format));
    }
    const std::size_t devices = cluster ? datasets::Accelerators(*cluster).size() : 0;
    const datasets::ParallelPlan plan =
        datasets::ReadFrameworkPlan(options.format, text, file, static_cast<std::int64_t>(devices));
    WriteFiles({{options.output, [&](std::ostream& out) { datasets::WritePlan(out, plan); }}});
    PrintMessage(fmt::format("{}: read as a plan of {} devices", file, plan.devices()));
    return kSuccess;
  }
  if (!IsOneOf(datasets::PlacementFormats(), options.format)) {
    throw InputError("--graph", fmt::format("cannot be used ({} is a plan, not a placement)", options.format));
  }
  if (!cluster) throw InputError("--cluster", "is missing (the devices that the file counts)");
  const Graph graph = experiments::LoadGraph(problem.graph);
  const Placement placement = datasets::ReadFrameworkPlacement(options.format, text, file, graph, *cluster);
  WriteFiles({{options.output, [&](std::ostream& out) { WritePlacement(out, placement, graph, *cluster); }}});
  PrintMessage(fmt::format("{}: read as a placement of {} ops", file, graph.num_ops()));
  return kSuccess;
}

// The output must be readable: imported files may have sizes or names that a cluster.yaml cannot have.
std::string ReadableClusterText(const Cluster& cluster, const std::string& file) {
  std::ostringstream out;
  WriteCluster(out, cluster);
  std::string text = std::move(out).str();
  try {
    std::istringstream in(text);
    ReadCluster(in, "");
  } catch (const InputError& error) {
    throw InputError(file, fmt::format("makes a cluster that cannot be read: {}", error.what()));
  }
  return text;
}

FileToWrite ClusterFile(const std::string& path, const Cluster& cluster, const std::string& source) {
  return {path, [text = ReadableClusterText(cluster, source)](std::ostream& out) { out << text; }};
}

// A format that describes machines alone.
int WriteClusterAlone(const ImportOptions& options, const ImportedFiles& read) {
  const std::string& file = options.files.front();
  for (const auto& [option, value] :
       {std::pair("--cluster-out", &options.cluster_output), std::pair("--placement-out", &options.placement_output)}) {
    if (value->empty()) continue;
    throw InputError(option, fmt::format("cannot be used (format {} is a cluster alone: -o)", read.importer.name));
  }
  const Cluster& cluster = *read.imported.cluster;
  WriteFiles({ClusterFile(options.output, cluster, file)});
  for (const std::string& note : read.imported.notes) PrintMessage(fmt::format("{}: {}", file, note));
  PrintMessage(fmt::format("{}: {} devices, {} switches, {} links read as {}", file, cluster.num_devices(),
                           cluster.topology().switches().size(), cluster.topology().links().size(),
                           read.importer.name));
  return kSuccess;
}

std::string WhyNoDevices(const datasets::ImporterEntry& importer) {
  return fmt::format("format {}{}", importer.name,
                     importer.takes_ranks ? ", nodes without times: --cluster names one whose rates time them" : "");
}

int Run(const ImportOptions& options) {
  const BusyLine busy("import");
  if (!options.quantisation.empty()) return ImportQuantised(options);
  // TensorFlow's graphs are imported, and with a graph its devices.
  const bool is_importer = std::any_of(datasets::AllImporters().begin(), datasets::AllImporters().end(),
                                       [&](const auto& importer) { return importer.name == options.format; });
  const bool is_framework =
      IsOneOf(datasets::PlanFormats(), options.format) || IsOneOf(datasets::PlacementFormats(), options.format);
  if (is_framework && (!is_importer || !options.graph.empty())) return ReadFramework(options);
  if (!options.graph.empty()) throw InputError("--graph", "needs --from with a framework's format");
  std::vector<std::string> inputs = options.files;
  inputs.push_back(options.expert);
  inputs.push_back(options.times);
  inputs.push_back(options.comm_groups);
  CheckFiles(inputs, {options.output, options.cluster_output, options.placement_output});
  if (!options.expert.empty() && options.placement_output.empty()) {
    throw InputError("--expert", "needs --placement-out (where the placement goes)");
  }
  if (!options.optimizer.empty() && !options.training) {
    throw InputError("--optimizer", "needs --training (a training step to be made)");
  }
  const std::string optimizer = options.optimizer.empty() ? std::string(kDefaultOptimizer) : options.optimizer;
  const ImportedFiles read = ImportFiles(options.files, options.format,
                                         {.min_attributed_percent = options.min_attributed,
                                          .times = options.times,
                                          .inputs = options.inputs,
                                          .step = options.step,
                                          .nodes = options.nodes,
                                          .cluster = options.cluster,
                                          .comm_groups = options.comm_groups,
                                          .nvlink = options.nvlink,
                                          .training = options.training ? optimizer : ""});
  if (read.importer.is_cluster) return WriteClusterAlone(options, read);
  // No structured binding: clang refuses those that a lambda captures.
  const datasets::ImporterEntry& importer = read.importer;
  const datasets::Imported& imported = read.imported;
  const std::string& file = options.files.front();
  if (!options.cluster_output.empty() && !imported.cluster) {
    throw InputError(file, fmt::format("describes no cluster for --cluster-out ({})", WhyNoDevices(importer)));
  }
  std::optional<Placement> placement = imported.placement;
  if (!options.expert.empty() && placement) {
    throw InputError("--expert", fmt::format("is for another format ({} has a placement of its own)", importer.name));
  }
  if (!options.placement_output.empty() && !placement) {
    if (!imported.cluster) {
      throw InputError(file, fmt::format("has no placement for --placement-out ({})", WhyNoDevices(importer)));
    }
    const std::string expert = options.expert.empty() ? datasets::FindExpertFile(file) : options.expert;
    if (expert.empty()) throw InputError(file, "no placement was found beside it (name one with --expert)");
    placement = datasets::ImportExpertPlacement(ReadWholeFile(expert, InputKind::kTextProfile), expert, imported.graph,
                                                *imported.cluster);
  }
  std::vector<FileToWrite> files = {{options.output, [&](std::ostream& out) { WriteGraph(out, imported.graph); }}};
  if (!options.cluster_output.empty()) {
    files.push_back(ClusterFile(options.cluster_output, *imported.cluster, file));
  }
  if (!options.placement_output.empty()) {
    files.push_back({options.placement_output,
                     [&](std::ostream& out) { WritePlacement(out, *placement, imported.graph, *imported.cluster); }});
  }
  WriteFiles(files);
  for (const std::string& note : imported.notes) PrintMessage(fmt::format("{}: {}", file, note));
  if (imported.measured) {
    PrintMessage(
        fmt::format("{}: its ops run on the trace's own threads and streams (--cluster-out, --placement-out); for a "
                    "graph to place, import an Execution Trace with --times",
                    file));
  }
  PrintMessage(fmt::format("{}: {} ops, {} tensors read as {}", file, imported.graph.num_ops(),
                           imported.graph.num_tensors(), importer.name));
  return kSuccess;
}

}  // namespace

Command AddImport(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "import", "Turn another project's profile or trace into a graph.json, or a topology into a cluster.yaml");
  auto options = std::make_shared<ImportOptions>();
  command->add_option("file", options->files, "Files to read; for a step of several ranks, the traces of all ranks")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--from", options->format,
                   "Format of `emplace list importers` (default: found from the content), or of `emplace export --to`: "
                   "then a placement.json of --graph and --cluster is written, and without --graph a plan.json")
      ->type_name("FORMAT");
  command->add_option("--graph", options->graph, "graph.json whose placement a framework's file says")
      ->type_name("FILE");
  command->add_option("-o,--output", options->output, "graph.json to write, or for a topology cluster.yaml")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--cluster-out", options->cluster_output, "cluster.yaml to write, if the format includes a cluster")
      ->type_name("FILE");
  command
      ->add_option("--placement-out", options->placement_output,
                   "placement.json to write, if the format includes a placement")
      ->type_name("FILE");
  command
      ->add_option("--expert", options->expert,
                   "File with a human expert's placement (default: looked for beside the input)")
      ->type_name("FILE");
  command
      ->add_option(
          "--times", options->times,
          "Times of the same step, for formats without: a Kineto trace (pytorch-et) or a RunMetadata (tensorflow)")
      ->type_name("FILE");
  command
      ->add_option("--input", options->inputs,
                   "Shape of a model input with dynamic sizes, such as x=8x3x224x224; may be repeated")
      ->type_name("NAME=DIMS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--training", options->training,
                    "Add the backward pass and updates to a forward graph (torch-export)");
  command
      ->add_option("--optimizer", options->optimizer, "Optimizer of the training step: sgd, momentum, rmsprop or adam")
      ->type_name("NAME")
      ->default_str(std::string(kDefaultOptimizer));
  command->add_option("--nodes", options->nodes, "Number of such nodes, joined by their network cards (nccl)")
      ->type_name("N")
      ->capture_default_str()
      ->transform(IntegerFrom(1, datasets::kMostNcclNodes));
  AddStepOption(*command, &options->step, /*mean=*/false);
  command
      ->add_option("--nvlink", options->nvlink,
                   "NVLink to add to each GPU of a topology that has none, such as a cloud template: GB/s per "
                   "direction, or a kind of GPU, such as h100 (nccl)")
      ->type_name("GB/S|KIND");
  command
      ->add_option(
          "--cluster", options->cluster,
          "Devices for ranks whose nodes have no times: each rank is placed on an accelerator (chakra); those that a "
          "graph's device names mean (tensorflow); or those that a framework's file counts")
      ->type_name("FILE|NAME");
  command
      ->add_option("--comm-groups", options->comm_groups,
                   "JSON file with the ranks of each process group, if the traces do not list them (chakra)")
      ->type_name("FILE");
  AddQuantiseOption(*command, &options->quantisation);
  AddMinAttributedOption(*command, &options->min_attributed);
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
