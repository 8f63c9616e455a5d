#ifndef EMPLACE_TOOLS_TABLE_H_
#define EMPLACE_TOOLS_TABLE_H_

#include <iosfwd>
#include <string>
#include <vector>

namespace emplace::tools {

// Rows of text under headings. Columns of numbers, except the first column, are right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}

  // Requires: `row` has as many cells as the header.
  void Add(std::vector<std::string> row);

  void PrintText(std::ostream& out) const;  // for terminals: aligned with spaces, Printable
  void PrintMarkdown(std::ostream& out) const;
  void PrintCsv(std::ostream& out) const;  // see WriteCsvLine

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_TABLE_H_
