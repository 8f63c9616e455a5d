#include "tools/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "sim/check.h"

namespace emplace::tools {
namespace {

// Characters, not bytes: continuation bytes of UTF-8 take no room.
std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

// "-" stands for a number that there is not.
bool LooksLikeANumber(const std::string& cell) {
  return cell == "-" || (!cell.empty() && cell[0] >= '0' && cell[0] <= '9');
}

std::string CsvCell(const std::string& cell) {
  if (cell.find_first_of(",\"\n\r") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

void PrintCells(std::ostream& out, const std::vector<std::string>& cells, const char* separator) {
  for (std::size_t i = 0; i < cells.size(); ++i) out << (i == 0 ? "" : separator) << cells[i];
}

// A bar or the end of a line would end the cell.
std::string MarkdownCell(const std::string& cell) {
  std::string escaped;
  for (const char c : cell) {
    if (c == '|') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

}  // namespace

void Table::Add(std::vector<std::string> row) {
  EMPLACE_CHECK_EQ(row.size(), header_.size());
  rows_.push_back(std::move(row));
}

void Table::PrintText(std::ostream& out) const {
  std::vector<std::size_t> widths;
  std::vector<bool> to_the_right;
  for (std::size_t i = 0; i < header_.size(); ++i) {
    widths.push_back(Width(header_[i]));
    for (const auto& row : rows_) widths[i] = std::max(widths[i], Width(row[i]));
    to_the_right.push_back(
        i > 0 && std::all_of(rows_.begin(), rows_.end(), [i](const auto& row) { return LooksLikeANumber(row[i]); }));
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
  for (const auto& row : rows_) print(row);
}

void Table::PrintMarkdown(std::ostream& out) const {
  const auto print = [&out](const std::vector<std::string>& row) {
    std::vector<std::string> cells;
    cells.reserve(row.size());
    for (const std::string& cell : row) cells.push_back(MarkdownCell(cell));
    out << "| ";
    PrintCells(out, cells, " | ");
    out << " |\n";
  };
  print(header_);
  print(std::vector<std::string>(header_.size(), "---"));
  for (const auto& row : rows_) print(row);
}

void Table::PrintCsv(std::ostream& out) const {
  const auto print = [&out](const std::vector<std::string>& row) {
    std::vector<std::string> cells;
    cells.reserve(row.size());
    for (const std::string& cell : row) cells.push_back(CsvCell(cell));
    PrintCells(out, cells, ",");
    out << '\n';
  };
  print(header_);
  for (const auto& row : rows_) print(row);
}

}  // namespace emplace::tools
