#ifndef EMPLACE_TOOLS_CLI_IMPORTING_H_
#define EMPLACE_TOOLS_CLI_IMPORTING_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "datasets/importers/registry.h"

namespace emplace::tools {

struct ImportedFiles {
  const datasets::ImporterEntry& importer;
  datasets::Imported imported;
};
// Imports files of one format: the one named, or found from the first file's content if `format` is empty.
// Throws InputError.
ImportedFiles ImportFiles(const std::vector<std::string>& files, const std::string& format,
                          const datasets::ImportOptions& options);

// "the simulated step takes 512 us, the measured one 997 us: 48.65 % of it is not explained"; above
// datasets::kWarnUnexplained with "warning: " in front.
std::string UnexplainedText(double simulated_micros, double measured_micros);
// Prints the same for a graph that was imported from a timed trace, as its metadata shows; nothing for other graphs.
void RepeatUnexplained(const Graph& graph, const std::string& file);

// --step; with `mean`, also the mean over all steps.
void AddStepOption(CLI::App& app, std::string* step, bool mean);
// --min-attributed.
void AddMinAttributedOption(CLI::App& app, double* percent);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_IMPORTING_H_
