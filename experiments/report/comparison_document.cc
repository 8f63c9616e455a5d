#include "experiments/report/comparison_document.h"

#include <iostream>
#include <ostream>

#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/markup.h"
#include "sim/base/printable.h"

namespace emplace::experiments {
namespace {

void WriteCsvTables(std::ostream& out, const ComparisonDocument& document) {
  if (document.csv) return document.csv->PrintCsv(out);
  for (const ComparisonDocument::Section& section : document.sections) {
    if (&section != &document.sections.front()) out << '\n';
    section.table.PrintCsv(out);
  }
}

void WriteNotes(std::ostream& out, const std::vector<std::string>& notes, bool markdown) {
  for (const std::string& note : notes) out << '\n' << (markdown ? MarkdownText(note) + "  " : Printable(note));
  if (!notes.empty()) out << '\n';
}

void WriteText(std::ostream& out, const ComparisonDocument& document, bool markdown) {
  for (const ComparisonDocument::Section& section : document.sections) {
    if (&section != &document.sections.front()) out << '\n';
    if (!section.caption.empty()) {
      out << (markdown ? "**" + MarkdownText(section.caption) + "**" : Printable(section.caption)) << "\n\n";
    }
    markdown ? section.table.PrintMarkdown(out) : section.table.PrintText(out);
    WriteNotes(out, section.notes, markdown);
  }
  WriteNotes(out, document.notes, markdown);
}

}  // namespace

bool IsTableFile(const std::string& path) { return path.ends_with(".csv") || path.ends_with(".md"); }

void CheckTableFiles(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    if (!IsTableFile(path)) throw InputError(path, "does not say its format (a name that ends in .csv or .md)");
  }
}

void WriteComparison(const ComparisonDocument& document, const std::vector<std::string>& files) {
  std::vector<FileToWrite> all;
  for (const std::string& path : files) {
    all.push_back({path, [&](std::ostream& out) {
                     path.ends_with(".csv") ? WriteCsvTables(out, document) : WriteText(out, document, true);
                   }});
  }
  std::cout.flush();
  all.push_back({"-", [&](std::ostream& out) { WriteText(out, document, false); }});
  WriteFiles(all);
}

}  // namespace emplace::experiments
