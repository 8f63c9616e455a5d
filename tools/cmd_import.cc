#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datasets/importers/dnn_partitioning.h"
#include "datasets/importers/registry.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/formats/graph_json.h"
#include "sim/placement.h"
#include "tools/commands.h"
#include "tools/problem.h"
#include "tools/terminal.h"

namespace emplace::tools {
namespace {

struct ImportOptions {
  std::string file;
  std::string format;
  std::string output;
  std::string cluster_output;
  std::string placement_output;
  std::string expert;
};

int Run(const ImportOptions& options) {
  CheckFiles({options.file, options.expert}, {options.output, options.cluster_output, options.placement_output});
  if (!options.expert.empty() && options.placement_output.empty()) {
    throw InputError("--expert", "needs --placement-out (where the placement goes)");
  }
  const std::string content = ReadWholeFile(options.file);
  const auto find = [&] { return &datasets::FindImporter(options.format, content, options.file); };
  const datasets::ImporterEntry& importer = *(options.format.empty() ? find() : AtPlace("--from", find));
  const datasets::Imported imported = importer.import(content, options.file);
  if (!options.cluster_output.empty() && !imported.cluster) {
    throw InputError(options.file, fmt::format("describes no cluster for --cluster-out (format {})", importer.name));
  }
  std::optional<Placement> placement;
  if (!options.placement_output.empty()) {
    if (!imported.cluster) {
      throw InputError(options.file, fmt::format("has no placement for --placement-out (format {})", importer.name));
    }
    const std::string expert = options.expert.empty() ? datasets::FindExpertFile(options.file) : options.expert;
    if (expert.empty()) throw InputError(options.file, "no placement was found beside it (name one with --expert)");
    placement = datasets::ImportExpertPlacement(ReadWholeFile(expert), expert, imported.graph, *imported.cluster);
  }
  std::vector<FileToWrite> files = {{options.output, [&](std::ostream& out) { WriteGraph(out, imported.graph); }}};
  if (!options.cluster_output.empty()) {
    files.push_back({options.cluster_output, [&](std::ostream& out) { WriteCluster(out, *imported.cluster); }});
  }
  if (placement) {
    files.push_back({options.placement_output,
                     [&](std::ostream& out) { WritePlacement(out, *placement, imported.graph, *imported.cluster); }});
  }
  WriteFiles(files);
  for (const std::string& note : imported.notes) Say(fmt::format("{}: {}", options.file, note));
  Say(fmt::format("{}: {} ops, {} tensors read as {}", options.file, imported.graph.num_ops(),
                  imported.graph.num_tensors(), importer.name));
  return kDone;
}

}  // namespace

Command AddImport(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("import", "Turn another project's profile into a graph.json");
  auto options = std::make_shared<ImportOptions>();
  command->add_option("file", options->file, "What to read")->required()->type_name("FILE");
  command
      ->add_option("--from", options->format, "Format, of `emplace list importers` (default: found from the content)")
      ->type_name("FORMAT");
  command->add_option("-o,--output", options->output, "graph.json to write")->required()->type_name("FILE");
  command->add_option("--cluster-out", options->cluster_output, "cluster.yaml to write, where the format has one")
      ->type_name("FILE");
  command->add_option("--placement-out", options->placement_output, "placement.json to write, where there is one")
      ->type_name("FILE");
  command
      ->add_option("--expert", options->expert,
                   "File with a human expert's placement (default: looked for beside the input)")
      ->type_name("FILE");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
