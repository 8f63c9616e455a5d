#ifndef EMPLACE_TOOLS_IMPORTING_H_
#define EMPLACE_TOOLS_IMPORTING_H_

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

// --min-attributed.
void AddMinAttributedOption(CLI::App& app, double* percent);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_IMPORTING_H_
