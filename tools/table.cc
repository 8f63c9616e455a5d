#include "tools/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "experiments/report/report_document.h"
#include "sim/base/check.h"
#include "sim/base/printable.h"

namespace emplace::tools {
namespace {

// Counts characters, not bytes: continuation bytes of UTF-8 have no width.
std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

// "-" represents a missing number.
bool LooksLikeANumber(const std::string& cell) {
  return cell == "-" || (!cell.empty() && cell[0] >= '0' && cell[0] <= '9');
}

}  // namespace

void Table::Add(std::vector<std::string> row) {
  EMPLACE_CHECK_EQ(row.size(), header_.size());
  rows_.push_back(std::move(row));
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
    to_the_right.push_back(
        i > 0 && std::all_of(rows.begin(), rows.end(), [i](const auto& row) { return LooksLikeANumber(row[i]); }));
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
  const auto print = [&out](const std::vector<std::string>& row) {
    out << '|';
    for (const std::string& cell : row) out << ' ' << experiments::MarkdownText(cell) << " |";
    out << '\n';
  };
  print(header_);
  print(std::vector<std::string>(header_.size(), "---"));
  for (const auto& row : rows_) print(row);
}

void Table::PrintCsv(std::ostream& out) const {
  experiments::WriteCsvLine(out, header_);
  for (const auto& row : rows_) experiments::WriteCsvLine(out, row);
}

}  // namespace emplace::tools
