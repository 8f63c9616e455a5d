#ifndef EMPLACE_EXPERIMENTS_REPORT_COMPARISON_DOCUMENT_H_
#define EMPLACE_EXPERIMENTS_REPORT_COMPARISON_DOCUMENT_H_

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/table.h"

namespace emplace::experiments {

// The output of `emplace reproduce`: tables, followed by notes.
struct ComparisonDocument {
  struct Section {
    std::string caption = {};  // "": none
    Table table;
    std::vector<std::string> notes = {};
  };
  std::vector<Section> sections = {};
  std::vector<std::string> notes = {};
  std::optional<Table> csv = {};  // all of it in one table; none: CSV has the sections' tables
};

// Throws InputError on a file that is none of .csv, .md and .tex.
void CheckTableFiles(const std::vector<std::string>& files);
bool IsTableFile(const std::string& path);  // .csv, .md or .tex

// Writes the document to the files, and as text to standard output.
void WriteComparison(const ComparisonDocument& document, const std::vector<std::string>& files);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_COMPARISON_DOCUMENT_H_
