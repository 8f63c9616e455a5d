#include "experiments/report/comparison_document.h"

#include <cstdint>
#include <iostream>
#include <ostream>
#include <utility>

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

enum class Form : std::uint8_t { kText, kMarkdown, kLatex };

std::string Escaped(Form form, const std::string& text) {
  if (form == Form::kMarkdown) return MarkdownText(text);
  return form == Form::kLatex ? LatexText(text) : Printable(text);
}

void WriteTable(std::ostream& out, Form form, const Table& table) {
  if (form == Form::kMarkdown) return table.PrintMarkdown(out);
  form == Form::kLatex ? table.PrintLatex(out) : table.PrintText(out);
}

void WriteNotes(std::ostream& out, Form form, const std::vector<std::string>& notes) {
  const char* const end = form == Form::kMarkdown ? "  " : form == Form::kLatex ? "\\par" : "";
  for (const std::string& note : notes) out << '\n' << Escaped(form, note) << end;
  if (!notes.empty()) out << '\n';
}

void WriteSections(std::ostream& out, Form form, const ComparisonDocument& document) {
  constexpr std::pair<const char*, const char*> kBold[] = {{"", ""}, {"**", "**"}, {"\\textbf{", "}\\par"}};
  const auto& [begin, end] = kBold[static_cast<std::size_t>(form)];
  for (const ComparisonDocument::Section& section : document.sections) {
    if (&section != &document.sections.front()) out << '\n';
    if (!section.caption.empty()) out << begin << Escaped(form, section.caption) << end << "\n\n";
    WriteTable(out, form, section.table);
    WriteNotes(out, form, section.notes);
  }
  WriteNotes(out, form, document.notes);
}

}  // namespace

bool IsTableFile(const std::string& path) {
  return path.ends_with(".csv") || path.ends_with(".md") || path.ends_with(".tex");
}

void CheckTableFiles(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    if (!IsTableFile(path)) throw InputError(path, "has no known format (a name that ends in .csv, .md or .tex)");
  }
}

void WriteComparison(const ComparisonDocument& document, const std::vector<std::string>& files) {
  std::vector<FileToWrite> all;
  all.reserve(files.size());
  for (const std::string& path : files) {
    all.push_back({path, [&](std::ostream& out) {
                     if (path.ends_with(".csv")) return WriteCsvTables(out, document);
                     WriteSections(out, path.ends_with(".md") ? Form::kMarkdown : Form::kLatex, document);
                   }});
  }
  std::cout.flush();
  all.push_back({"-", [&](std::ostream& out) { WriteSections(out, Form::kText, document); }});
  WriteFiles(all);
}

}  // namespace emplace::experiments
