#include "experiments/report_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

namespace emplace {
namespace {

constexpr int kMostDecimals = 6;

// Characters that would be markup; in a cell a bar too.
std::string MarkdownText(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += ' ';
      continue;
    }
    if (std::string_view("\\`*_[]<>|#").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

class MarkdownWriter {
 public:
  explicit MarkdownWriter(std::ostream& out) : out_(out) {}

  void operator()(const HeadingBlock& block) const {
    out_ << std::string(block.level, '#') << ' ' << MarkdownText(block.text) << "\n\n";
  }
  void operator()(const ParagraphBlock& block) const { out_ << MarkdownText(block.text) << "\n\n"; }
  void operator()(const BulletsBlock& block) const {
    for (const std::string& item : block.items) out_ << "- " << MarkdownText(item) << '\n';
    out_ << '\n';
  }
  void operator()(const TableBlock& block) const {
    out_ << "**" << MarkdownText(block.caption) << "**\n\n|";
    for (const std::string& cell : block.header) out_ << ' ' << MarkdownText(cell) << " |";
    out_ << "\n|";
    for (std::size_t i = 0; i < block.header.size(); ++i) out_ << (i < block.text_columns ? " --- |" : " ---: |");
    out_ << '\n';
    for (const auto& row : block.rows) {
      out_ << '|';
      for (const TextCell& cell : row) {
        const char* const mark = cell.strong ? "**" : "";
        out_ << ' ' << mark << MarkdownText(cell.text) << mark;
        for (const std::string& detail : cell.details) out_ << ' ' << MarkdownText(detail);
        out_ << " |";
      }
      out_ << '\n';
    }
    out_ << '\n';
  }
  void operator()(const ChartBlock& block) const {
    out_ << "**" << MarkdownText(block.caption) << "** (drawn in the HTML page). " << MarkdownText(block.note)
         << "\n\n";
  }

 private:
  std::ostream& out_;
};

int DecimalsFor(double size, int digits) {
  if (size == 0 || !std::isfinite(size)) return 0;
  return std::clamp(digits - 1 - static_cast<int>(std::floor(std::log10(size))), 0, kMostDecimals);
}

}  // namespace

void WriteMarkdown(std::ostream& out, const ReportDocument& document) {
  out << "# " << MarkdownText(document.title) << "\n\n";
  for (const ReportBlock& block : document.blocks) std::visit(MarkdownWriter(out), block);
}

void WriteCsvLine(std::ostream& out, const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) out << ',';
    if (cells[i].find_first_of(",\"\n\r") == std::string::npos) {
      out << cells[i];
      continue;
    }
    out << '"';
    for (const char c : cells[i]) out << (c == '"' ? "\"\"" : std::string(1, c));
    out << '"';
  }
  out << '\n';
}

std::string ShownNumber(double value) { return fmt::format("{:.{}f}", value, DecimalsFor(std::abs(value), 4)); }

EstimateText ShownEstimate(const Estimate& estimate) {
  if (!estimate.interval) return {.mean = ShownNumber(estimate.mean), .interval = ""};
  const double width = estimate.interval->high - estimate.interval->low;
  const int decimals = DecimalsFor(width > 0 ? width : std::abs(estimate.mean), width > 0 ? 2 : 4);
  return {.mean = fmt::format("{:.{}f}", estimate.mean, decimals),
          .interval =
              fmt::format("[{:.{}f}, {:.{}f}]", estimate.interval->low, decimals, estimate.interval->high, decimals)};
}

std::string ShownPValue(double p) {
  if (p < 0.0001) return "< 0.0001";
  return fmt::format("{:.{}f}", p, p < 0.01 ? 4 : p < 0.1 ? 3 : 2);
}

std::string Counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace emplace
