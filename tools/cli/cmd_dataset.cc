#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <system_error>
#include <vector>

#include "datasets/families/families.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"
#include "sim/base/terminal.h"
#include "sim/formats/graph_json.h"
#include "sim/formats/grouping_json.h"
#include "sim/grouping.h"
#include "tools/cli/commands.h"
#include "tools/cli/problem.h"

namespace emplace::tools {
namespace {

namespace fs = std::filesystem;

struct DatasetOptions {
  std::string family;
  std::string output;
  std::uint64_t seed = 1;
};

void MakeFolder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw InputError(path.string(), "cannot be created (" + error.message() + ")");
}

// The member's line of dataset.json.
std::string IndexRow(const datasets::FamilyMember& member, std::size_t num_groups) {
  const Graph& graph = member.graph;
  std::string row =
      fmt::format(R"(  {{"name": "{0}", "graph": "graphs/{0}.json", "grouping": "groupings/{0}.json", "split": "{1}", )"
                  R"("ops": {2}, "tensors": {3}, "groups": {4})",
                  graph.name(), member.training ? "train" : "test", graph.num_ops(), graph.num_tensors(), num_groups);
  for (const auto& [key, value] : member.drawn) {
    AppendQuoted(&row.append(", "), key);
    AppendQuoted(&row.append(": "), value);
  }
  return row + "}";
}

int Run(const DatasetOptions& options) {
  const datasets::FamilyEntry& family = datasets::FindFamily(options.family);
  if (options.output.empty() || options.output == "-") {
    throw InputError("--output", "is \"" + options.output + "\" (a folder)");
  }
  const fs::path folder = options.output;
  MakeFolder(folder / "graphs");
  MakeFolder(folder / "groupings");
  // dataset.json is removed first and written last, so a folder that has it is complete.
  const std::string index_file = (folder / "dataset.json").string();
  CheckFiles({}, {index_file});
  std::error_code error;
  fs::remove(index_file, error);
  if (error) throw InputError(index_file, "cannot be replaced (" + error.message() + ")");
  std::string index = R"({"schema": "emplace.dataset", "version": 1, "name": )";
  AppendQuoted(&index, family.name);
  index += fmt::format(",\n \"seed\": {}, \"source\": ", options.seed);
  AppendQuoted(&index, family.source);
  index += R"(, "grouper": "merge_and_colocate",)"
           "\n \"graphs\": [";
  const std::vector<datasets::FamilyMember> members = datasets::MakeFamily(family, options.seed);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const datasets::FamilyMember& member = members[i];
    const Grouping grouping = FindGrouper("merge_and_colocate").make(member.graph, {.max_groups = member.num_groups});
    const std::string file = member.graph.name() + ".json";
    WriteFile((folder / "graphs" / file).string(), [&](std::ostream& out) { WriteGraph(out, member.graph); });
    WriteFile((folder / "groupings" / file).string(),
              [&](std::ostream& out) { WriteGrouping(out, grouping, member.graph); });
    index += (i == 0 ? "\n" : ",\n") + IndexRow(member, grouping.num_groups());
    PrintMessage(fmt::format("{}: {} ops in {} groups, {}", member.graph.name(), member.graph.num_ops(),
                             grouping.num_groups(), member.training ? "train" : "test"));
  }
  index += "]}\n";
  WriteFile(index_file, [&](std::ostream& out) { out << index; });
  PrintMessage(fmt::format("{}: {} graphs in {}", family.name, members.size(), options.output));
  return kSuccess;
}

}  // namespace

Command AddDataset(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("dataset", "Write the 32 graphs of a family, with their groupings");
  auto options = std::make_shared<DatasetOptions>();
  command->add_option("family", options->family, "Family of `emplace list datasets`")->required()->type_name("FAMILY");
  AddSeedOption(*command, &options->seed, "Random seed: the same seed gives the same bytes (default: 1)");
  command
      ->add_option(
          "-o,--output", options->output,
          "Folder to write, created if it does not exist: graphs/, groupings/ and dataset.json, which is written last")
      ->required()
      ->type_name("DIR");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
