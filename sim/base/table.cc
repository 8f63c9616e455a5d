#include "sim/base/table.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <ostream>
#include <system_error>

#include "sim/base/check.h"
#include "sim/base/markup.h"
#include "sim/base/printable.h"

namespace emplace {
namespace {

// Counts characters, not bytes: continuation bytes of UTF-8 have no width.
std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

// "-" represents a missing number.
bool LooksLikeANumber(std::string_view cell) {
  if (cell == "-") return true;
  if (cell.starts_with('-')) cell.remove_prefix(1);
  return !cell.empty() && cell[0] >= '0' && cell[0] <= '9';
}

// Whether all of `text` is a number, signed or not.
bool IsNumber(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && rest == text.data() + text.size();
}

// Whether a spreadsheet would evaluate `text` instead of showing it. "-" alone represents a missing number.
// Source: OWASP, "CSV Injection": texts that begin with = + - @, a tab or a newline, or with the full-width forms of
// those signs, which some localised versions also accept.
bool IsSpreadsheetFormula(std::string_view text) {
  constexpr std::string_view kWide[] = {"\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d", "\xef\xbc\xa0"};
  const bool wide = std::any_of(std::begin(kWide), std::end(kWide), [&](auto sign) { return text.starts_with(sign); });
  if (text.empty() || text == "-" || IsNumber(text)) return false;
  return wide || std::string_view("=+-@\t\r\n").find(text[0]) != std::string_view::npos;
}

}  // namespace

std::string CsvCell(std::string_view text) {
  std::string cell = (IsSpreadsheetFormula(text) ? "'" : "") + std::string(text);
  if (cell.find_first_of(",\"\n\r") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

void WriteCsvLine(std::ostream& out, const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) out << (i > 0 ? "," : "") << CsvCell(cells[i]);
  out << '\n';
}

void WriteMarkdownLine(std::ostream& out, const std::vector<std::string>& cells) {
  out << '|';
  for (const std::string& cell : cells) out << ' ' << cell << " |";
  out << '\n';
}

void WriteLatexTabular(std::ostream& out, std::string_view columns, const std::vector<std::string>& header,
                       const std::vector<std::vector<std::string>>& rows) {
  const auto print = [&out](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) out << (i > 0 ? " & " : "") << cells[i];
    out << " \\\\\n";
  };
  out << "\\begin{tabular}{" << columns << "}\n\\toprule\n";
  print(header);
  out << "\\midrule\n";
  for (const auto& row : rows) print(row);
  out << "\\bottomrule\n\\end{tabular}\n";
}

void Table::Add(std::vector<std::string> row) {
  EMPLACE_CHECK_EQ(row.size(), header_.size());
  rows_.push_back(std::move(row));
}

bool Table::IsOfNumbers(std::size_t column) const {
  return column > 0 &&
         std::all_of(rows_.begin(), rows_.end(), [column](const auto& row) { return LooksLikeANumber(row[column]); });
}

void Table::PrintText(std::ostream& out) const {
  std::vector<std::vector<std::string>> rows = rows_;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = Printable(cell);
  }
  std::vector<std::size_t> widths;
  std::vector<bool> to_the_right;
  for (std::size_t i = 0; i < header_.size(); ++i) {
    widths.push_back(Width(header_[i]));
    for (const auto& row : rows) widths[i] = std::max(widths[i], Width(row[i]));
    to_the_right.push_back(IsOfNumbers(i));
  }
  const auto print = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - Width(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (to_the_right[i] ? padding + row[i] : row[i] + padding);
    }
    out << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
  };
  print(header_);
  for (const auto& row : rows) print(row);
}

void Table::PrintMarkdown(std::ostream& out) const {
  const auto print = [&out](std::vector<std::string> row) {
    std::transform(row.begin(), row.end(), row.begin(), MarkdownText);
    WriteMarkdownLine(out, row);
  };
  print(header_);
  WriteMarkdownLine(out, std::vector<std::string>(header_.size(), "---"));
  for (const auto& row : rows_) print(row);
}

void Table::PrintLatex(std::ostream& out) const {
  std::string columns;
  for (std::size_t i = 0; i < header_.size(); ++i) columns += IsOfNumbers(i) ? 'r' : 'l';
  const auto escape = [&columns](std::vector<std::string> row, bool is_header) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool is_negative = !is_header && columns[i] == 'r' && row[i].size() > 1 && row[i][0] == '-';
      row[i] = is_negative ? "$-$" + LatexText(row[i].substr(1)) : LatexText(row[i]);
    }
    return row;
  };
  std::vector<std::vector<std::string>> rows;
  for (const auto& row : rows_) rows.push_back(escape(row, false));
  WriteLatexTabular(out, columns, escape(header_, true), rows);
}

void Table::PrintCsv(std::ostream& out) const {
  WriteCsvLine(out, header_);
  for (const auto& row : rows_) WriteCsvLine(out, row);
}

}  // namespace emplace
