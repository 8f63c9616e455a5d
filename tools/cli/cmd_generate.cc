#include <fmt/format.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "datasets/models/registry.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/options.h"
#include "sim/base/progress.h"
#include "sim/base/terminal.h"
#include "sim/formats/graph_json.h"
#include "tools/cli/commands.h"
#include "tools/cli/problem.h"

namespace emplace::tools {
namespace {

struct GenerateOptions {
  std::string model;
  std::vector<std::string> settings;
  std::string output;
};

int Run(const GenerateOptions& options) {
  const BusyLine busy("generate");
  CheckFiles({}, {options.output});
  if (!options.model.ends_with(".json"))
    datasets::FindModelName(options.model);  // reports an unknown name before a bad setting
  const Graph graph = datasets::MakeModel(options.model, ParseSettings(options.settings));
  WriteFile(options.output, [&](std::ostream& out) { WriteGraph(out, graph); });
  PrintMessage(fmt::format("{}: {} ops, {} tensors", graph.name(), graph.num_ops(), graph.num_tensors()));
  return kSuccess;
}

}  // namespace

Command AddGenerate(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("generate", "Write the training graph of a model");
  auto options = std::make_shared<GenerateOptions>();
  command
      ->add_option("model", options->model,
                   "Model or network of `emplace list models`, or a config.json of Hugging Face's")
      ->required()
      ->type_name("MODEL");
  AddSetOption(*command, &options->settings);
  command->add_option("-o,--output", options->output, "graph.json to write")->required()->type_name("FILE");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
