#include "experiments/report/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <utility>

#include "sim/base/markup.h"
#include "sim/base/table.h"

namespace emplace::experiments {
namespace {

constexpr int kMostDecimals = 6;

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
    out_ << "**" << MarkdownText(block.caption) << "**\n\n";
    std::vector<std::string> cells;
    for (const std::string& cell : block.header) cells.push_back(MarkdownText(cell));
    WriteMarkdownLine(out_, cells);
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = i < block.text_columns ? "---" : "---:";
    WriteMarkdownLine(out_, cells);
    for (const auto& row : block.rows) {
      cells.clear();
      for (const TextCell& cell : row) {
        const std::string mark = cell.strong ? "**" : "";
        cells.push_back(mark + MarkdownText(cell.text) + mark);
        for (const std::string& detail : cell.details) cells.back() += " " + MarkdownText(detail);
      }
      WriteMarkdownLine(out_, cells);
    }
    out_ << '\n';
  }
  void operator()(const ChartBlock& block) const { WriteDrawn(block); }
  void operator()(const PictureBlock& block) const { WriteDrawn(block); }
  void operator()(const AnswerBlock& block) const {
    if (!block.question.empty()) out_ << MarkdownText(block.question) << "\n\n";
    out_ << "**" << MarkdownText(block.answer) << "**\n\n";
    if (block.figure) (*this)(*block.figure);
    for (const std::string& note : block.notes) out_ << MarkdownText(note) << "\n\n";
  }

 private:
  template <typename Block>
  void WriteDrawn(const Block& block) const {
    out_ << "**" << MarkdownText(block.caption) << "** (drawn in the HTML page). " << MarkdownText(block.note)
         << "\n\n";
  }

  std::ostream& out_;
};

void WriteLatexTable(std::ostream& out, const TableBlock& block) {
  std::string columns(std::min(block.text_columns, block.header.size()), 'l');
  columns.resize(block.header.size(), 'r');
  std::vector<std::string> header;
  for (const std::string& cell : block.header) header.push_back(LatexText(cell));
  std::vector<std::vector<std::string>> rows;
  for (const auto& row : block.rows) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (const TextCell& cell : row) {
      cells.push_back(cell.strong ? "\\textbf{" + LatexText(cell.text) + "}" : LatexText(cell.text));
      for (const std::string& detail : cell.details) cells.back() += " " + LatexText(detail);
    }
  }
  out << "\n\\begin{table}\n\\centering\n\\caption{" << LatexText(block.caption) << "}\n";
  WriteLatexTabular(out, columns, header, rows);
  out << "\\end{table}\n";
}

int DecimalsFor(double size, int digits) {
  if (size == 0 || !std::isfinite(size)) return 0;
  return std::clamp(digits - 1 - static_cast<int>(std::floor(std::log10(size))), 0, kMostDecimals);
}

}  // namespace

void WriteMarkdown(std::ostream& out, const ReportDocument& document) {
  out << "# " << MarkdownText(document.title) << "\n\n";
  for (const ReportBlock& block : document.blocks) std::visit(MarkdownWriter(out), block);
}

void WriteLatexTables(std::ostream& out, const ReportDocument& document) {
  out << "% \\usepackage{booktabs}\n";
  for (const ReportBlock& block : document.blocks) {
    if (const auto* const heading = std::get_if<HeadingBlock>(&block)) {
      out << "\n% " << LatexText(heading->text) << '\n';
    } else if (const auto* const table = std::get_if<TableBlock>(&block)) {
      WriteLatexTable(out, *table);
    }
  }
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

std::string CellText(const TextCell& cell) {
  std::string text = cell.text;
  for (const std::string& detail : cell.details) text += " " + detail;
  return text;
}

void PrintText(std::ostream& out, const TableBlock& block) {
  if (!block.caption.empty()) out << block.caption << '\n';
  Table table(block.header);
  for (const std::vector<TextCell>& row : block.rows) {
    std::vector<std::string> cells;
    cells.reserve(row.size());
    for (const TextCell& cell : row) cells.push_back(CellText(cell) + (cell.strong ? " *" : ""));
    table.Add(std::move(cells));
  }
  table.PrintText(out);
}

TextCell EstimateCell(const Estimate& estimate) {
  EstimateText text = ShownEstimate(estimate);
  TextCell cell{.text = std::move(text.mean)};
  if (!text.interval.empty()) cell.details.push_back(std::move(text.interval));
  return cell;
}

std::string ShownPValue(double p) {
  if (p < 0.0001) return "< 0.0001";
  return fmt::format("{:.{}f}", p, p < 0.01 ? 4 : p < 0.1 ? 3 : 2);
}

}  // namespace emplace::experiments
