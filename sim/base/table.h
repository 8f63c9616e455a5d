#ifndef EMPLACE_SIM_BASE_TABLE_H_
#define EMPLACE_SIM_BASE_TABLE_H_

#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace emplace {

// One cell of CSV (RFC 4180). A spreadsheet would evaluate a text that is not a number and begins with = + - @, a tab
// or a newline. Such a cell gets a leading apostrophe, which spreadsheets interpret as the mark of a text.
std::string CsvCell(std::string_view text);
// One line of CSV, terminated by \n.
void WriteCsvLine(std::ostream& out, const std::vector<std::string>& cells);

// One line of a Markdown table. The cells are Markdown already.
void WriteMarkdownLine(std::ostream& out, const std::vector<std::string>& cells);

// A table of LaTeX with the rules of the package booktabs. The cells are LaTeX already; a column is aligned to the
// right where its letter in `columns` is r, and to the left where it is l.
void WriteLatexTabular(std::ostream& out, std::string_view columns, const std::vector<std::string>& header,
                       const std::vector<std::vector<std::string>>& rows);

// Rows of text under headings. Columns of numbers, except the first column, are right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}

  // Requires: `row` has as many cells as the header.
  void Add(std::vector<std::string> row);

  void PrintText(std::ostream& out) const;  // for terminals: aligned with spaces, Printable
  void PrintMarkdown(std::ostream& out) const;
  void PrintCsv(std::ostream& out) const;    // see WriteCsvLine
  void PrintLatex(std::ostream& out) const;  // see WriteLatexTabular

 private:
  bool IsOfNumbers(std::size_t column) const;

  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_TABLE_H_
