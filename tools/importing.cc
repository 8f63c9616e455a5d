#include "tools/importing.h"

#include <algorithm>

#include "sim/base/check.h"
#include "tools/numbers.h"

namespace emplace::tools {

ImportedFiles ImportFiles(const std::vector<std::string>& files, const std::string& format,
                          const datasets::ImportOptions& options) {
  for (auto file = files.begin(); file != files.end(); ++file) {
    if (std::find(files.begin(), file, *file) != file) throw InputError(*file, "is given twice (each file once)");
  }
  std::vector<datasets::ImportSource> sources;
  sources.reserve(files.size());
  for (const std::string& file : files) sources.emplace_back(file);
  const auto find = [&] { return &datasets::FindImporter(format, sources.front().head(), files.front()); };
  const datasets::ImporterEntry& importer = *(format.empty() ? find() : AtPlace("--from", find));
  return {importer, datasets::Import(importer, sources, options)};
}

void AddMinAttributedOption(CLI::App& app, double* percent) {
  app.add_option("--min-attributed", *percent,
                 "Refuse a trace of which less device time than so many per cent has a known cause")
      ->type_name("PERCENT")
      ->capture_default_str()
      ->transform(NumberFrom(0, 100));
}

}  // namespace emplace::tools
